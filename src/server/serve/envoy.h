/* Envoy's rate limit service: a request of several descriptors, decided in one tick and answered as
 * one. */
#ifndef WEIR_SERVE_ENVOY_H
#define WEIR_SERVE_ENVOY_H

#include "protocol/envoy.h"
#include "serve/connection.h"
#include "serve/tally.h"

/* Queues the answer's slot; or false: *refusal is the answer. */
bool weir_serve_ask_envoy(weir_connection *connection, const weir_envoy_request *request,
                          unsigned manner, weir_envoy_refusal *refusal);

/* How a slot with parts came out, which is counted for this protocol; or false: *refusal is the
 * answer. */
bool weir_serve_settle_envoy(weir_connection *connection, const weir_slot *slot,
                             weir_tally_protocol protocol, weir_envoy_answer *answer,
                             weir_envoy_refusal *refusal);

#endif
