/* Envoy's rate limit service: a request of several descriptors, decided in one tick and answered as
 * one. */
#ifndef WEIR_SERVE_ENVOY_H
#define WEIR_SERVE_ENVOY_H

#include "protocol/envoy.h"
#include "serve/connection.h"
#include "serve/tally.h"

/* Queues the answer's slot; or false: *refusal is the answer. `until_us`: when it is not worth
 * deciding any more, or WEIR_TICK_NO_END. */
bool weir_serve_ask_envoy(weir_connection *connection, const weir_envoy_request *request,
                          unsigned manner, int64_t until_us, weir_envoy_refusal *refusal);

/* The answer of a slot is wanted no more, in the tick that it was asked in. */
void weir_serve_cancel_envoy(weir_tick *tick, uint32_t slot);

/* How a slot with parts came out, which is counted for this protocol; or false: *refusal is the
 * answer. */
bool weir_serve_settle_envoy(weir_connection *connection, const weir_slot *slot,
                             weir_tally_protocol protocol, weir_envoy_answer *answer,
                             weir_envoy_refusal *refusal);

#endif
