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

/* Whether a request shows a token that its listener asks for. */
typedef enum weir_serve_standing {
  WEIR_SERVE_KNOWN,
  WEIR_SERVE_STRANGER,
  WEIR_SERVE_HELD /* it is not looked at yet: WEIR_PROGRESS_HELD */
} weir_serve_standing;
weir_serve_standing weir_serve_look_at_token(weir_connection *connection,
                                             const weir_http_request *request);

/* The same of the value of "authorization"; NULL: there is none. */
weir_serve_standing weir_serve_look_at_credential(weir_connection *connection,
                                                  const weir_http_text *shown);

/* To one who comes when there are too many. */
#define WEIR_SERVE_HTTP_FULL \
  "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

/* weir_http_is_from_here() of the connection's listener; what is not is counted. */
bool weir_serve_is_from_here(weir_connection *connection, const weir_http_request *request,
                             bool may_be_opened, weir_http_refusal *refusal);

#endif
