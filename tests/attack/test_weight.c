/* The weight of a limiter: a thousand customers' rules are a thousand limiters. Bytes that the
 * whole program has allocated and not freed. */
#include "attack/stores.h"

#include <stdio.h>

#include "attack/heap.h"

enum { KEYS = 100, KB = 1024, USED_MOST = 64 * KB, AWAY_MOST = 168 * KB };

#define EIGHT_RULES                                                                      \
  "sliding-window:100/1h;quota:100/1h;token-bucket:100/1h;leaky-bucket:100/1h,queue=99;" \
  "sliding-log:100/1h;fixed-window:100/1h;sliding-window:1000/1d,cells=64;fixed-window:10/1s"

static weir_limiter *create(weir_store *store, const char *rules) {
  weir_limiter *limiter;
  const weir_limiter_options options = {.size = sizeof options, .deadline_us = 30 * SECOND_US};
  assert_int_equal(weir_limiter_create(store, rules, &options, &limiter, NULL), WEIR_OK);
  return limiter;
}

static void use(weir_limiter *limiter, weir_source source) {
  weir_decision decision;
  char key[16];
  for (int i = 0; i < KEYS; i++) {
    int length = snprintf(key, sizeof key, "visitor-%d", i);
    assert_int_equal(weir_limiter_take(limiter, key, (size_t)length, 1, &decision, NULL), WEIR_OK);
    assert_int_equal(decision.source, source);
  }
}

static void assert_weight(const char *what, long bytes, long most) {
  print_message("%s: %.1f KB\n", what, (double)bytes / KB);
  assert_in_range(bytes, 1, most);
}

/* The first limiter makes what the process and the store keep for all of them. */
static void a_limiter_is_light_until_it_is_used(void **state) {
  static const struct {
    const char *text;
    long most;
  } rules[] = {{"sliding-window:1000/1h", 5 * KB}, {EIGHT_RULES, 8 * KB + KB / 2}};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_store *store;
    assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
    weir_limiter *first = create(store, rules[i].text);
    long before = heap_bytes();
    weir_limiter *limiter = create(store, rules[i].text);
    assert_weight("unused", heap_bytes() - before, rules[i].most);
    weir_limiter_destroy(limiter);
    weir_limiter_destroy(first);
    weir_store_close(store);
  }
}

static void a_limiter_weighs_what_its_keys_do(void **state) {
  weir_store *store;
  (void)state;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  weir_limiter *first = create(store, "sliding-window:1000/1h");
  use(first, WEIR_SOURCE_STORE); /* makes the counters */
  long before = heap_bytes();
  weir_limiter *limiter = create(store, "sliding-window:1000/1h");
  use(limiter, WEIR_SOURCE_STORE);
  assert_weight("used by 100 keys", heap_bytes() - before, USED_MOST);
  weir_limiter_destroy(limiter);
  weir_limiter_destroy(first);
  weir_store_close(store);
}

/* Nobody listens on port 1. */
static void a_limiter_that_answers_for_its_store_is_light_as_well(void **state) {
  weir_store *store;
  (void)state;
  assert_int_equal(weir_store_open("memcached://127.0.0.1:1", &store, NULL), WEIR_OK);
  weir_limiter *first = create(store, "sliding-window:1000/1h");
  use(first, WEIR_SOURCE_FALLBACK);
  long before = heap_bytes();
  weir_limiter *limiter = create(store, "sliding-window:1000/1h");
  use(limiter, WEIR_SOURCE_FALLBACK);
  assert_weight("used by 100 keys, the store away", heap_bytes() - before, AWAY_MOST);
  weir_limiter_destroy(limiter);
  weir_limiter_destroy(first);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limiter_is_light_until_it_is_used),
      cmocka_unit_test(a_limiter_weighs_what_its_keys_do),
      cmocka_unit_test(a_limiter_that_answers_for_its_store_is_light_as_well),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
