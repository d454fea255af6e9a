/* What a benchmark draws before its clock runs, so that drawing costs nothing then, and where it
 * puts what it measures: keys and latencies. */
#ifndef WEIR_BENCH_SAMPLE_H
#define WEIR_BENCH_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- which key comes next -------------------------------------------------------------------- */

typedef enum weir_bench_pattern {
  WEIR_BENCH_UNIFORM, /* every key as often */
  WEIR_BENCH_HOT,     /* one key */
  WEIR_BENCH_ZIPF     /* the i-th key in proportion to 1/i */
} weir_bench_pattern;

enum { WEIR_BENCH_KEY_BYTES = 64, WEIR_BENCH_DRAWN = 1 << 18 };

typedef struct weir_bench_key {
  uint8_t length;
  char text[WEIR_BENCH_KEY_BYTES - 1];
} weir_bench_key;

/* `count` keys that begin with `prefix` (at most 48 bytes); NULL: no memory. */
weir_bench_key *weir_bench_keys_make(const char *prefix, uint32_t count);

/* WEIR_BENCH_DRAWN numbers below `count`, in the order of use; NULL: no memory. */
uint32_t *weir_bench_keys_draw(weir_bench_pattern pattern, uint32_t count, uint64_t seed);

/* --- latencies -------------------------------------------------------------------------------
 *
 * How many calls took how long, within 1/128 of the truth, in memory of a fixed size that processes
 * can share.
 */

/* 128 steps for each power of two of nanoseconds, up to 2^43 (2.4 hours). */
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
