/* Several rules, one decision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/world.h"

static void admits_only_what_fits_every_rule(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:3/1s;fixed-window:5/1m", NULL);
  assert_true(world_take(&w, "k", 3).allowed);
  assert_false(world_take(&w, "k", 1).allowed);
  world_set(&w, SECOND_US);
  assert_true(world_take(&w, "k", 2).allowed);
  assert_false(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

/* Were the second rule charged for what the first denies, its 5 would be spent by the denials. */
static void charges_no_rule_for_what_another_denies(void **state) {
  world w;
  weir_limiter_options options = {.flags = WEIR_NO_LOCAL_DENIAL};
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1s;sliding-window:5/1m", &options);
  for (int64_t second = 0; second < 5; second++) {
    world_set(&w, second * SECOND_US);
    assert_int_equal(world_take(&w, "k", 1).remaining, 0);
    for (int i = 0; i < 4; i++)
      assert_false(world_take(&w, "k", 1).allowed);
  }
  world_set(&w, 5 * SECOND_US);
  assert_false(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

static void speaks_for_the_rule_that_denies_longest(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:2/1s;fixed-window:2/1m;fixed-window:9/1h", NULL);
  world_take(&w, "k", 2);
  weir_decision decision = world_take(&w, "k", 1);
  assert_denied(decision, 0, 60 * SECOND_US, decision.reset_after_us);
  assert_int_equal(decision.rule, 1);
  assert_int_equal(decision.limit, 2);
  world_close(&w);
}

static void speaks_for_the_rule_with_least_remaining_when_it_admits(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:9/1s;fixed-window:4/1m;fixed-window:4/1h", NULL);
  weir_decision decision = world_take(&w, "k", 1);
  assert_true(decision.allowed);
  assert_int_equal(decision.rule, 1);
  assert_int_equal(decision.limit, 4);
  assert_int_equal(decision.remaining, 3);
  world_close(&w);
}

/* START_US is 2400 s before the end of its hour: what was charged counts until then. */
static void resets_when_the_last_rule_has(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:2/1s;fixed-window:9/1h", NULL);
  int64_t hour_us = 3600 * SECOND_US;
  assert_int_equal(world_take(&w, "k", 2).reset_after_us, hour_us - START_US % hour_us);
  world_close(&w);
}

static void never_fits_what_is_above_one_of_the_limits(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:9/1s;fixed-window:4/1m", NULL);
  weir_decision decision = world_take(&w, "k", 5);
  assert_denied(decision, WEIR_NOT_KNOWN, WEIR_NEVER, WEIR_NOT_KNOWN);
  assert_int_equal(decision.rule, 1);
  assert_int_equal(decision.limit, 4);
  assert_true(world_take(&w, "k", 4).allowed);
  world_close(&w);
}

/* The denied 2 is charged to the rule that counts all, though the other rule denied it. */
static void charges_denials_to_the_rules_that_count_all(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:2/1s;fixed-window:5/1m,count=all", NULL);
  assert_true(world_take(&w, "k", 1).allowed);
  assert_false(world_take(&w, "k", 2).allowed);
  weir_decision peek = world_peek(&w, "k", 1);
  assert_true(peek.allowed);
  assert_int_equal(peek.remaining, 1);
  assert_int_equal(peek.rule, 0);
  world_set(&w, SECOND_US);
  peek = world_peek(&w, "k", 1);
  assert_int_equal(peek.remaining, 2);
  assert_true(world_take(&w, "k", 2).allowed);
  world_set(&w, 2 * SECOND_US);
  assert_false(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

/* The wait that a stack names is exact, as for one rule. */
static void is_admitted_after_the_wait_and_not_before(void **state) {
  world w;
  (void)state;
  world_open(&w,
             "memory:", "sliding-window:7/1s;sliding-window:20/10s,cells=16;fixed-window:100/1m",
             NULL);
  int denials = 0;
  for (int64_t at_us = 0; at_us < 120 * SECOND_US; at_us = w.clock.now_us - START_US + 77777) {
    world_set(&w, at_us);
    int64_t cost = 1 + at_us % 7;
    weir_decision decision = world_take(&w, "k", cost);
    if (decision.allowed) continue;
    denials++;
    w.clock.now_us += decision.retry_after_us - 1;
    assert_false(world_peek(&w, "k", cost).allowed);
    w.clock.now_us += 1;
    assert_true(world_take(&w, "k", cost).allowed);
  }
  assert_true(denials > 10);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(admits_only_what_fits_every_rule),
      cmocka_unit_test(charges_no_rule_for_what_another_denies),
      cmocka_unit_test(speaks_for_the_rule_that_denies_longest),
      cmocka_unit_test(speaks_for_the_rule_with_least_remaining_when_it_admits),
      cmocka_unit_test(resets_when_the_last_rule_has),
      cmocka_unit_test(never_fits_what_is_above_one_of_the_limits),
      cmocka_unit_test(charges_denials_to_the_rules_that_count_all),
      cmocka_unit_test(is_admitted_after_the_wait_and_not_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
