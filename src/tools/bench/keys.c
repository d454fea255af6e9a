/* Which key the next request is for. */
#include "bench/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "random.h"

weir_bench_key *weir_bench_keys_make(const char *prefix, uint32_t count) {
  weir_bench_key *keys = calloc(count, sizeof *keys);
  for (uint32_t i = 0; keys != NULL && i < count; i++)
    keys[i].length =
        (uint8_t)snprintf(keys[i].text, sizeof keys[i].text, "%.48s-%" PRIu32, prefix, i);
  return keys;
}

/* Where `share` falls among the sums of 1/i. */
static uint32_t find(const double *sums, uint32_t count, double share) {
  double wanted = share * sums[count - 1];
  uint32_t low = 0, high = count - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (sums[middle] > wanted)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static bool draw_zipf(uint32_t *drawn, uint32_t count, uint64_t *state) {
  double *sums = malloc(count * sizeof *sums);
  if (sums == NULL) return false;
  double sum = 0;
  for (uint32_t i = 0; i < count; i++)
    sums[i] = sum += 1 / (double)(i + 1);
  for (size_t i = 0; i < WEIR_BENCH_DRAWN; i++)
    drawn[i] = find(sums, count, weir_random_fraction(state));
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
