/* fixed-window, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/world.h"

static void admits_up_to_the_limit_and_not_one_more(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  world_set(&w, 10 * SECOND_US);
  for (int64_t remaining = 4; remaining >= 0; remaining--)
    assert_allowed(world_take(&w, "k", 1), remaining, 50 * SECOND_US);
  assert_denied(world_take(&w, "k", 1), 0, 50 * SECOND_US, 50 * SECOND_US);
  world_close(&w);
}

static void begins_anew_at_the_edge_and_not_a_microsecond_earlier(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_allowed(world_take(&w, "k", 5), 0, 60 * SECOND_US);
  world_set(&w, 60 * SECOND_US - 1);
  assert_denied(world_take(&w, "k", 1), 0, 1, 1);
  world_set(&w, 60 * SECOND_US);
  assert_allowed(world_take(&w, "k", 5), 0, 60 * SECOND_US);
  world_close(&w);
}

static void lets_a_smaller_cost_use_what_a_larger_one_could_not(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_allowed(world_take(&w, "k", 3), 2, 60 * SECOND_US);
  assert_denied(world_take(&w, "k", 3), 2, 60 * SECOND_US, 60 * SECOND_US);
  assert_allowed(world_take(&w, "k", 2), 0, 60 * SECOND_US);
  world_close(&w);
}

static void denies_a_cost_above_the_limit_for_ever_without_the_store(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  weir_decision decision = world_take(&w, "k", 6);
  assert_denied(decision, WEIR_NOT_KNOWN, WEIR_NEVER, WEIR_NOT_KNOWN);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
  assert_int_equal(decision.limit, 5);
  assert_allowed(world_take(&w, "k", 5), 0, 60 * SECOND_US);
  world_close(&w);
}

static void keeps_denied_requests_charged_where_all_count(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m,count=all", NULL);
  assert_allowed(world_take(&w, "k", 3), 2, 60 * SECOND_US);
  assert_denied(world_take(&w, "k", 3), 0, 60 * SECOND_US, 60 * SECOND_US);
  assert_denied(world_take(&w, "k", 1), 0, 60 * SECOND_US, 60 * SECOND_US);
  world_close(&w);
}

static void counts_from_the_epoch_itself(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:2/400d", NULL);
  w.clock.now_us = 0;
  assert_allowed(world_take(&w, "k", 2), 0, INT64_C(400) * 86400 * SECOND_US);
  assert_denied(world_take(&w, "k", 1), 0, INT64_C(400) * 86400 * SECOND_US,
                INT64_C(400) * 86400 * SECOND_US);
  world_close(&w);
}

static void keeps_keys_apart(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", NULL);
  assert_true(world_take(&w, "a", 1).allowed);
  assert_true(world_take(&w, "b", 1).allowed);
  assert_false(world_take(&w, "a", 1).allowed);
  assert_false(world_take(&w, "b", 1).allowed);
  world_close(&w);
}

static void holds_a_billion(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1000000000/1m", NULL);
  assert_allowed(world_take(&w, "k", 999999999), 1, 60 * SECOND_US);
  assert_denied(world_take(&w, "k", 2), 1, 60 * SECOND_US, 60 * SECOND_US);
  assert_allowed(world_take(&w, "k", 1), 0, 60 * SECOND_US);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(admits_up_to_the_limit_and_not_one_more),
      cmocka_unit_test(begins_anew_at_the_edge_and_not_a_microsecond_earlier),
      cmocka_unit_test(lets_a_smaller_cost_use_what_a_larger_one_could_not),
      cmocka_unit_test(denies_a_cost_above_the_limit_for_ever_without_the_store),
      cmocka_unit_test(keeps_denied_requests_charged_where_all_count),
      cmocka_unit_test(counts_from_the_epoch_itself),
      cmocka_unit_test(keeps_keys_apart),
      cmocka_unit_test(holds_a_billion),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
