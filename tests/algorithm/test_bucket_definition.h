/* A bucket as it is defined: in 128-bit times that neither wrap nor have epochs. */
#ifndef TESTS_ALGORITHM_TEST_BUCKET_DEFINITION_H
#define TESTS_ALGORITHM_TEST_BUCKET_DEFINITION_H

#include "algorithm/view.h"

__extension__ typedef __int128 wide;

struct bucket {
  const weir_rule *rule;
  weir_settings settings;
  bool leaky, swaps;
  wide v;
};

static inline wide units(const struct bucket *bucket, wide us) {
  return us << bucket->rule->unit_bits;
}

static inline int64_t ceil_us(const struct bucket *bucket, wide amount) {
  wide unit = units(bucket, 1);
  return amount <= 0 ? 0 : (int64_t)((amount + unit - 1) / unit);
}

static inline wide full(const struct bucket *bucket) {
  return (wide)bucket->rule->burst * bucket->rule->token_units;
}

static inline wide base_at(const struct bucket *bucket, int64_t now_us) {
  wide n = units(bucket, now_us);
  return bucket->v > n ? bucket->v : n;
}

static inline wide cost_of(const struct bucket *bucket, int64_t cost) {
  return (wide)cost * bucket->rule->token_units;
}

/* A clock that was far ahead has been here; for one process at a time. */
static inline bool is_far(const struct bucket *bucket, int64_t now_us) {
  wide slack =
      units(bucket, bucket->settings.longest_wait_us + 2 * bucket->settings.clock_error_us);
  return bucket->v > units(bucket, now_us) + full(bucket) + slack;
}

static inline bool fits(const struct bucket *bucket, int64_t now_us, const weir_claim *request,
                        int64_t cost) {
  wide n = units(bucket, now_us);
  wide base = base_at(bucket, now_us);
  wide wait = request->ask.waits ? units(bucket, request->ask.wait_us) : 0;
  if (!bucket->leaky) return base + cost_of(bucket, cost) <= n + full(bucket) + wait;
  return base + cost_of(bucket, cost) <= n + full(bucket) &&
         (!request->ask.waits || base - n <= wait);
}

/* The largest cost up to the one asked that fits, by halving. */
static inline int64_t largest(const struct bucket *bucket, int64_t now_us,
                              const weir_claim *request) {
  int64_t low = 0;
  int64_t high = request->ask.cost;
  while (low < high) {
    int64_t middle = low + (high - low + 1) / 2;
    if (fits(bucket, now_us, request, middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

struct expected {
  bool allowed;
  int64_t cost, remaining, retry_after_us, reset_after_us, delay_us, end;
  wide v;
};

static inline int64_t remaining_at(const struct bucket *bucket, int64_t now_us) {
  wide room = units(bucket, now_us) + full(bucket) - base_at(bucket, now_us);
  return room < 0 ? 0 : (int64_t)(room / bucket->rule->token_units);
}

static inline struct expected decide(struct bucket *bucket, int64_t now_us,
                                     const weir_claim *request) {
  wide n = units(bucket, now_us);
  wide base = base_at(bucket, now_us);
  struct expected e = {.cost = request->ask.cost};
  e.allowed = fits(bucket, now_us, request, e.cost);
  if (!e.allowed && request->ask.up_to) {
    int64_t most = largest(bucket, now_us, request);
    e.allowed = most > 0;
    if (most > 0) e.cost = most;
  }
  int64_t least = !e.allowed && request->ask.up_to ? 1 : e.cost; /* that would do */
  wide over = base + cost_of(bucket, least) - full(bucket) - n;
  wide wait = request->ask.waits ? units(bucket, request->ask.wait_us) : 0;
  if (e.allowed) {
    e.delay_us = ceil_us(bucket, bucket->leaky ? base - n : over);
    if (request->ask.kind == WEIR_TAKE) bucket->v = base + cost_of(bucket, e.cost);
  } else if (bucket->leaky) {
    wide late = request->ask.waits ? base - n - wait : 0;
    e.retry_after_us = ceil_us(bucket, over > late ? over : late);
  } else {
    e.retry_after_us = ceil_us(bucket, over - wait);
  }
  e.v = bucket->v;
  e.remaining = remaining_at(bucket, now_us);
  e.reset_after_us = ceil_us(bucket, bucket->v - n);
  return e;
}

/* A charge that was taken, for refunds and cancels. */
struct taken {
  int64_t cost, at_us;
  int64_t ends[WEIR_RULES_MOST];
  bool delayed;
  wide v;
};

static inline weir_status give_back(struct bucket *bucket, int64_t now_us,
                                    const struct taken *taken, bool cancels) {
  wide n = units(bucket, now_us);
  if (cancels && (bucket->leaky || taken->delayed)) {
    if (bucket->swaps && bucket->v == taken->v) bucket->v -= cost_of(bucket, taken->cost);
    return WEIR_OK;
  }
  if (bucket->leaky) return WEIR_OK;
  wide elapsed = now_us > taken->at_us ? units(bucket, now_us - taken->at_us) : 0;
  wide left = cost_of(bucket, taken->cost) - elapsed;
  if (left <= 0) return WEIR_OK;
  if (bucket->v - n < left) return WEIR_BAD_COST;
  if (bucket->v - n <= full(bucket)) bucket->v -= left;
  return WEIR_OK;
}

#endif
