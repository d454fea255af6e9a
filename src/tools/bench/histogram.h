/* Latencies: how many calls took how long, within 1/32 of the truth, in memory of a fixed size that
 * processes can share. */
#ifndef WEIR_BENCH_HISTOGRAM_H
#define WEIR_BENCH_HISTOGRAM_H

#include <stdint.h>

/* 32 steps for each power of two of nanoseconds, up to 2^41 (36 minutes). */
enum { WEIR_BENCH_STEP_BITS = 7, WEIR_BENCH_POWERS = 37 };
enum { WEIR_BENCH_STEPS = WEIR_BENCH_POWERS << WEIR_BENCH_STEP_BITS };

typedef struct weir_bench_histogram {
  uint64_t count;
  uint64_t steps[WEIR_BENCH_STEPS];
} weir_bench_histogram;

/* `times` calls of this length; what is longer than the last step counts there. */
void weir_bench_histogram_add(weir_bench_histogram *histogram, int64_t ns, uint64_t times);

void weir_bench_histogram_merge(weir_bench_histogram *into, const weir_bench_histogram *from);

/* The time that `share` (0 to 1) of the calls did not exceed, in microseconds; 0 for no calls. */
double weir_bench_histogram_us(const weir_bench_histogram *histogram, double share);

#endif
