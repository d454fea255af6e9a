/* The same requests at the same times under rules with buckets: every store decides alike, bit for
 * bit, whatever it is spared on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

enum { REQUESTS = 1500, KEYS = 3 };

static uint32_t chance(uint32_t *seed, uint32_t of) {
  *seed = *seed * 1664525U + 1013904223U;
  return (*seed >> 8) % of;
}

/* Mostly close together; at times so far apart that what was kept is too old, a bucket has run dry,
 * or a TTL is due. */
static int64_t step_us(uint32_t *seed) {
  switch (chance(seed, 20)) {
    case 0:
      return (int64_t)chance(seed, 100) * SECOND_US;
    case 1:
      return (int64_t)chance(seed, 3000) * SECOND_US / 1000;
    default:
      return chance(seed, 60000);
  }
}

static weir_decision decide(weir_limiter *limiter, uint32_t *seed) {
  static const char *const keys[KEYS] = {"a", "b", "c"};
  const char *key = keys[chance(seed, KEYS)];
  int64_t cost = 1 + chance(seed, 3);
  weir_decision decision = {.allowed = false};
  weir_status status = WEIR_OK;
  uint32_t what = chance(seed, 100);
  if (what == 0)
    status = weir_limiter_reset(limiter, key, 1, NULL);
  else if (what < 15)
    status = weir_limiter_peek(limiter, key, 1, cost, &decision, NULL);
  else if (what < 30)
    status = weir_limiter_take_up_to(limiter, key, 1, cost, &decision, NULL);
  else
    status = weir_limiter_take(limiter, key, 1, cost, &decision, NULL);
  assert_int_equal(status, WEIR_OK);
  decision.source = WEIR_SOURCE_STORE; /* not every store must be asked as often */
  return decision;
}

static void run_on(int store, const char *rules, weir_decision decisions[REQUESTS]) {
  char url[STORE_URL_BYTES];
  world w;
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US};
  uint32_t seed = 11;
  int64_t at_us = 0;
  world_open(&w, stores_url(store, url), rules, &options);
  for (int i = 0; i < REQUESTS; i++) {
    at_us += step_us(&seed);
    world_set(&w, at_us);
    decisions[i] = decide(w.limiter, &seed);
  }
  world_close(&w);
}

static bool are_equal(const weir_decision *a, const weir_decision *b) {
  return a->allowed == b->allowed && a->rule == b->rule && a->limit == b->limit &&
         a->remaining == b->remaining && a->retry_after_us == b->retry_after_us &&
         a->reset_after_us == b->reset_after_us && a->delay_us == b->delay_us &&
         a->cost == b->cost && a->at_us == b->at_us;
}

static void every_store_decides_alike(void **state) {
  static const char *const rules[] = {
      "token-bucket:10/1s",           "token-bucket:10/1s,burst=40",
      "token-bucket:200/1h,burst=20", "token-bucket:100000000/1h",
      "leaky-bucket:5/1s,queue=9",    "sliding-window:60/1m;token-bucket:10/1s,burst=5",
  };
  static weir_decision expected[REQUESTS], found[REQUESTS];
  (void)state;
  for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
    run_on(0, rules[r], expected);
    for (int store = 1; store < STORES; store++) {
      run_on(store, rules[r], found);
      for (int i = 0; i < REQUESTS; i++)
        if (!are_equal(&expected[i], &found[i]))
          fail_msg("%s on %s: request %d", rules[r], stores[store].name, i);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_store_decides_alike)};
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
