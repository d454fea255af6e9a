/* POST /json: Envoy's rate limit service as JSON, in proto3's mapping. */
#ifndef WEIR_PROTOCOL_HTTP_ENVOY_H
#define WEIR_PROTOCOL_HTTP_ENVOY_H

#include "protocol/envoy.h"
#include "protocol/http/call.h"

/* *body holds what the request points to; json_decref() it in either case. False: *refusal is the
 * answer. */
bool weir_http_read_envoy(const weir_http_request *http, weir_envoy_request *request, json_t **body,
                          weir_http_refusal *refusal);

void weir_http_answer_envoy(const weir_envoy_answer *answer, unsigned manner, weir_bytes *out);

#endif
