/* How a server of weir is asked for one decision, and which answer came. */
#ifndef WEIR_BENCH_VIA_H
#define WEIR_BENCH_VIA_H

#include "bench/raw.h"
#include "bench/wire.h"

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
                                weir_bench_tally *tally, weir_message *message);

#endif
