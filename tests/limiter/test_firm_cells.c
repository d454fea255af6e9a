/* Cells that are firm are believed until they leave, and what others give back or reset is seen all the
 * same by the first request that it lets in. On every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

enum { MOST_APART = 3 };
static const int64_t apart_us[MOST_APART] = {1, 100000, 5 * SECOND_US};

/* 7 of 8 were charged to the counter before the minute, by `other`, and are all still inside; w has read
 * them when they were firm, and has taken the last. */
static weir_decision open_full(world *w, weir_limiter **other, int store) {
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = WORLD_DEADLINE_US};
  world_open(w, stores_url(store, url), "sliding-window:8/1m", &options);
  *other = world_limiter(w, "sliding-window:8/1m", &options);
  world_set(w, 59 * SECOND_US);
  weir_decision taken = limiter_take(*other, "k", 7);
  assert_true(taken.allowed);
  world_set(w, 64 * SECOND_US);
  assert_int_equal(world_take(w, "k", 1).remaining, 0);
  return taken;
}

static void a_reset_is_seen_by_the_first_request_that_it_admits(void **state) {
  (void)state;
  for (int n = 0; n < STORES * MOST_APART; n++) {
    world w;
    weir_limiter *other;
    weir_message message;
    open_full(&w, &other, n / MOST_APART);
    assert_int_equal(weir_limiter_reset(other, "k", 1, &message), WEIR_OK);
    world_set(&w, 64 * SECOND_US + apart_us[n % MOST_APART]);
    assert_int_equal(world_take(&w, "k", 8).remaining, 0);
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

static void a_refund_is_seen_by_the_first_request_that_it_admits(void **state) {
  (void)state;
  for (int n = 0; n < STORES * MOST_APART; n++) {
    world w;
    weir_limiter *other;
    weir_message message;
    weir_decision taken = open_full(&w, &other, n / MOST_APART);
    assert_int_equal(weir_limiter_refund(other, "k", 1, 7, &taken, &message), WEIR_OK);
    world_set(&w, 64 * SECOND_US + apart_us[n % MOST_APART]);
    assert_int_equal(world_take(&w, "k", 7).remaining, 0);
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

/* An admitted request may be told too little of what remains until then, and never too much. */
static void what_remains_may_be_told_too_low_until_then(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_limiter *other;
    weir_message message;
    weir_decision taken = open_full(&w, &other, store);
    assert_int_equal(weir_limiter_refund(other, "k", 1, 6, &taken, &message), WEIR_OK);
    world_set(&w, 110 * SECOND_US);
    assert_int_equal(world_take(&w, "k", 1).remaining, 8 - 5 - 2); /* of 7 two thirds */
    assert_int_equal(world_peek(&w, "k", 1).remaining, 8 - 1 - 2); /* of 1 */
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reset_is_seen_by_the_first_request_that_it_admits),
      cmocka_unit_test(a_refund_is_seen_by_the_first_request_that_it_admits),
      cmocka_unit_test(what_remains_may_be_told_too_low_until_then),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
