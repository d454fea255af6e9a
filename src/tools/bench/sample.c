/* Which key the next request is for; and times in bins whose width grows with the time. */
#include "bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "random.h"

/* --- keys ------------------------------------------------------------------------------------ */

weir_bench_key *weir_bench_keys_make(const char *prefix, uint32_t count) {
  weir_bench_key *keys = calloc(count, sizeof *keys);
  for (uint32_t i = 0; keys != NULL && i < count; i++)
    keys[i].length =
        (uint8_t)snprintf(keys[i].text, sizeof keys[i].text, "%.48s-%" PRIu32, prefix, i);
  return keys;
}

/* A key is where a share of all falls among the sums of 1/i. */
static bool draw_zipf(uint32_t *drawn, uint32_t count, uint64_t *state) {
  double *sums = malloc(count * sizeof *sums);
  if (sums == NULL) return false;
  double sum = 0;
  for (uint32_t i = 0; i < count; i++)
    sums[i] = sum += 1 / (double)(i + 1);
  for (size_t i = 0; i < WEIR_BENCH_DRAWN; i++) {
    double wanted = weir_random_fraction(state) * sum;
    uint32_t low = 0, high = count - 1;
    while (low < high) {
      uint32_t middle = low + (high - low) / 2;
      if (sums[middle] > wanted)
        high = middle;
      else
        low = middle + 1;
    }
    drawn[i] = low;
  }
  free(sums);
  return true;
}

uint32_t *weir_bench_keys_draw(weir_bench_pattern pattern, uint32_t count, uint64_t seed) {
  uint64_t state = seed;
  uint32_t *drawn = calloc(WEIR_BENCH_DRAWN, sizeof *drawn);
  if (drawn == NULL || pattern == WEIR_BENCH_HOT) return drawn;
  if (pattern == WEIR_BENCH_ZIPF && !draw_zipf(drawn, count, &state)) {
    free(drawn);
    return NULL;
  }
  if (pattern == WEIR_BENCH_UNIFORM)
    for (size_t i = 0; i < WEIR_BENCH_DRAWN; i++)
      drawn[i] = (uint32_t)(weir_random_fraction(&state) * count);
  return drawn;
}

/* --- latencies ------------------------------------------------------------------------------- */

/* The first 128 nanoseconds have a step each; from then on every power of two has 128. */
enum { STEPS_OF_POWER = 1 << WEIR_BENCH_STEP_BITS };

void weir_bench_histogram_add(weir_bench_histogram *histogram, int64_t ns, uint64_t times) {
  uint64_t value = ns > 0 ? (uint64_t)ns : 0;
  size_t step = (size_t)value;
  if (value >= STEPS_OF_POWER) {
    int power = 63 - __builtin_clzll(value) - WEIR_BENCH_STEP_BITS;
    step = ((size_t)power << WEIR_BENCH_STEP_BITS) + (size_t)(value >> power);
  }
  if (step >= WEIR_BENCH_STEPS) step = WEIR_BENCH_STEPS - 1;
  histogram->count += times;
  histogram->steps[step] += times;
}

void weir_bench_histogram_merge(weir_bench_histogram *into, const weir_bench_histogram *from) {
  into->count += from->count;
  for (size_t i = 0; i < WEIR_BENCH_STEPS; i++)
    into->steps[i] += from->steps[i];
}

double weir_bench_histogram_us(const weir_bench_histogram *histogram, double share) {
  double wanted = share * (double)histogram->count;
  uint64_t sum = 0;
  size_t step = 0;
  for (; step < WEIR_BENCH_STEPS; step++) {
    sum += histogram->steps[step];
    if (sum > 0 && (double)sum >= wanted) break;
  }
  if (step == WEIR_BENCH_STEPS) return 0;
  if (step < STEPS_OF_POWER) return (double)step / 1000;

  /* The middle of a step. */
  size_t power = (step >> WEIR_BENCH_STEP_BITS) - 1;
  uint64_t low = (uint64_t)(step - (power << WEIR_BENCH_STEP_BITS)) << power;
  return ((double)low + (double)(UINT64_C(1) << power) / 2) / 1000;
}
