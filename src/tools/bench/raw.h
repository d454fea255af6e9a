/* The raw loop that decisions are compared with: one increment per decision on a socket of its own,
 * and nothing else. It also asks a server how many commands it has executed. */
#ifndef WEIR_BENCH_RAW_H
#define WEIR_BENCH_RAW_H

#include "bench/keys.h"
#include "bench/target.h"
#include "bench/via.h"

/* A connection to the first server. */
typedef struct weir_bench_raw weir_bench_raw;

/* NULL: message says why. Blocking, with a time limit of its own on every read and write. */
weir_bench_raw *weir_bench_raw_open(const weir_bench_target *target, size_t host,
                                    weir_message *message);
void weir_bench_raw_close(weir_bench_raw *raw);

/* Sets all keys to 0, to live ten minutes. */
bool weir_bench_raw_prepare(weir_bench_raw *raw, const weir_bench_key *keys, uint32_t count,
                            weir_message *message);

/* Adds 1 to each of `count` keys in one write and reads as many replies. */
bool weir_bench_raw_add(weir_bench_raw *raw, const weir_bench_key *const *keys, unsigned count,
                        weir_message *message);

/* Asks a server of weir for `count` decisions in one write, and adds up its answers. */
weir_status weir_bench_raw_ask(weir_bench_raw *raw, const weir_bench_key *const *keys,
                               unsigned count, weir_bench_answers *answers, weir_message *message);

/* What the servers of a target have executed since they began. Memcached counts a meta command as
 * such, and again as what it does. */
typedef struct weir_bench_served {
  uint64_t meta;
  uint64_t commands;
} weir_bench_served;

/* False: they do not tell (a proxy, a user who may not ask). */
bool weir_bench_served_read(const weir_bench_target *target, weir_bench_served *served);

/* Commands between two readings. */
uint64_t weir_bench_served_between(const weir_bench_served *before, const weir_bench_served *after);

#endif
