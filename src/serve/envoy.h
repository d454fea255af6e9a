/* Envoy's rate limit service: a request of several descriptors, decided in one tick and answered as
 * one. */
#ifndef WEIR_SERVE_ENVOY_H
#define WEIR_SERVE_ENVOY_H

#include "protocol/http/call.h"
#include "serve/connection.h"

/* Queues the answer's slot; or false: *refusal is the answer. */
bool weir_serve_ask_envoy(weir_connection *connection, const weir_envoy_request *request,
                          unsigned manner, weir_http_refusal *refusal);

/* Words the answer of a slot with parts. */
void weir_serve_answer_envoy(weir_connection *connection, const weir_slot *slot, weir_bytes *out);

#endif
