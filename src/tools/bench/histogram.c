/* Times in bins whose width grows with the time. */
#include "bench/histogram.h"

#include <stddef.h>

enum { STEPS_OF_POWER = 1 << WEIR_BENCH_STEP_BITS };

/* The first 128 nanoseconds have a step each; from then on every power of two has 128. */
static size_t step_of(int64_t ns) {
  uint64_t value = ns > 0 ? (uint64_t)ns : 0;
  if (value < STEPS_OF_POWER) return (size_t)value;
  int power = 63 - __builtin_clzll(value) - WEIR_BENCH_STEP_BITS;
  size_t step = ((size_t)power << WEIR_BENCH_STEP_BITS) + (size_t)(value >> power);
  return step < WEIR_BENCH_STEPS ? step : WEIR_BENCH_STEPS - 1;
}

/* The middle of a step. */
static double middle_ns(size_t step) {
  if (step < STEPS_OF_POWER) return (double)step;
  size_t power = (step >> WEIR_BENCH_STEP_BITS) - 1;
  uint64_t low = (uint64_t)(step - (power << WEIR_BENCH_STEP_BITS)) << power;
  return (double)low + (double)(UINT64_C(1) << power) / 2;
}

void weir_bench_histogram_add(weir_bench_histogram *histogram, int64_t ns, uint64_t times) {
  histogram->count += times;
  histogram->steps[step_of(ns)] += times;
}

void weir_bench_histogram_merge(weir_bench_histogram *into, const weir_bench_histogram *from) {
  into->count += from->count;
  for (size_t i = 0; i < WEIR_BENCH_STEPS; i++)
    into->steps[i] += from->steps[i];
}

double weir_bench_histogram_us(const weir_bench_histogram *histogram, double share) {
  double wanted = share * (double)histogram->count;
  uint64_t sum = 0;
  for (size_t i = 0; i < WEIR_BENCH_STEPS; i++) {
    sum += histogram->steps[i];
    if (sum > 0 && (double)sum >= wanted) return middle_ns(i) / 1000;
  }
  return 0;
}
