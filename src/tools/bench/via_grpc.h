/* gRPC as a client of a server of weir speaks it: Envoy's ShouldRateLimit, of one descriptor with one
 * entry. */
#ifndef WEIR_BENCH_VIA_GRPC_H
#define WEIR_BENCH_VIA_GRPC_H

#include "bench/raw.h"
#include "bench/wire.h"

enum { WEIR_BENCH_GRPC_MOST = 500 }; /* calls under way, of the 1000 that a server may accept */

/* Begins HTTP/2 on a new connection: what is said leaves with the first call. */
bool weir_bench_grpc_begin(weir_bench_wire *wire, weir_message *message);
void weir_bench_grpc_end(weir_bench_wire *wire);

/* As weir_bench_via_say() and weir_bench_via_read(). Answers come in any order, and are counted. */
void weir_bench_grpc_say(const weir_bench_target *target, const weir_bench_key *key,
                         weir_bench_wire *wire);
weir_status weir_bench_grpc_read(weir_bench_wire *wire, weir_bench_tally *tally,
                                 weir_message *message);

#endif
