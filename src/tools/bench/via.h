/* How a server of weir is asked for one decision, and which answer came. */
#ifndef WEIR_BENCH_VIA_H
#define WEIR_BENCH_VIA_H

#include "bench/keys.h"
#include "bench/target.h"
#include "bench/wire.h"

/* What a server of weir has answered. */
typedef struct weir_bench_answers {
  uint64_t allowed, late; /* late: it had no decision */
} weir_bench_answers;

/* What a new connection needs before the first request, and at its end. */
bool weir_bench_via_begin(const weir_bench_target *target, weir_bench_wire *wire,
                          weir_message *message);
void weir_bench_via_end(weir_bench_wire *wire);

/* How many requests may leave in one write. */
unsigned weir_bench_via_most(const weir_bench_target *target);

/* Puts the request behind what is to leave. */
void weir_bench_via_say(const weir_bench_target *target, const weir_bench_key *key,
                        weir_bench_wire *wire);

/* Reads the answer. What is no answer to a decision is WEIR_UNAVAILABLE, said in the message. */
weir_status weir_bench_via_read(const weir_bench_target *target, weir_bench_wire *wire,
                                weir_bench_answers *answers, weir_message *message);

/* --- gRPC (via_grpc.c) --------------------------------------------------------------------------
 *
 * Envoy's ShouldRateLimit, of one descriptor with one entry.
 */

enum { WEIR_BENCH_GRPC_MOST = 500 }; /* calls under way, of the 1000 that a server may accept */

/* Begins HTTP/2 on a new connection: what is said leaves with the first call. */
bool weir_bench_grpc_begin(weir_bench_wire *wire, weir_message *message);
void weir_bench_grpc_end(weir_bench_wire *wire);

/* As weir_bench_via_say() and weir_bench_via_read(). Answers come in any order, and are counted. */
void weir_bench_grpc_say(const weir_bench_target *target, const weir_bench_key *key,
                         weir_bench_wire *wire);
weir_status weir_bench_grpc_read(weir_bench_wire *wire, weir_bench_answers *answers,
                                 weir_message *message);

#endif
