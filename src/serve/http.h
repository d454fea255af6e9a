/* What requests of HTTP have in common, whoever answers them. */
#ifndef WEIR_SERVE_HTTP_H
#define WEIR_SERVE_HTTP_H

#include "protocol/http/call.h"
#include "serve/connection.h"

/* Reads a request; of one that is broken the answer is queued already. */
weir_http_reading weir_serve_read_http(weir_connection *connection, const char *bytes,
                                       size_t length, size_t *used, weir_http_request *request);

/* enum weir_http_manner of the answer to this request. */
unsigned weir_serve_manner(const weir_http_request *request);

#endif
