#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>

#include <cmocka.h>

#include "algorithm/bucket.h"

static weir_rule rule_of(const char *text) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(text, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack.rules[0];
}

static const char *const rules[] = {
    "token-bucket:7/1s,burst=20", "leaky-bucket:7/1s,queue=19", "token-bucket:300000/1s,burst=50",
    "leaky-bucket:300000/1s,queue=49", "token-bucket:125000000/1s,burst=4000"};
enum { RULES = sizeof rules / sizeof rules[0] };

static int64_t random_to(unsigned *seed, int64_t most) {
  int64_t number = (int64_t)rand_r(seed) << 31 | rand_r(seed);
  return most <= 0 ? 0 : number % (most + 1);
}

/* The time that is ahead after a wait. */
static int64_t ahead_after(const weir_rule *rule, int64_t ahead, int64_t us) {
  int64_t left = ahead - (us << rule->unit_bits);
  return left > 0 ? left : 0;
}

static void finds_the_shortest_wait_exactly(void **state) {
  (void)state;
  unsigned seed = 5;
  int waits = 0;
  for (int round = 0; round < 200000; round++) {
    weir_rule rule = rule_of(rules[round % RULES]);
    int64_t full = weir_bucket_full(&rule);
    int64_t ahead = random_to(&seed, 2 * full);
    int64_t cost = 1 + random_to(&seed, rule.burst - 1);
    weir_ask request = {.waits = round % 3 == 0,
                        .wait_us = random_to(&seed, weir_bucket_us(&rule, full))};
    int64_t wait = weir_bucket_retry_after_us(&rule, ahead, &request, cost);
    assert_true(weir_bucket_room(&rule, ahead_after(&rule, ahead, wait), &request) >= cost);
    if (wait == 0) continue;
    assert_true(weir_bucket_room(&rule, ahead_after(&rule, ahead, wait - 1), &request) < cost);
    waits++;
  }
  assert_true(waits > 50000);
}

static void finds_the_largest_cost_that_fits(void **state) {
  (void)state;
  unsigned seed = 6;
  for (int round = 0; round < 100000; round++) {
    weir_rule rule = rule_of(rules[round % RULES]);
    int64_t ahead = random_to(&seed, 2 * weir_bucket_full(&rule));
    int64_t room = weir_bucket_room(&rule, ahead, NULL);
    assert_in_range(room, 0, rule.burst);
    if (room > 0) assert_int_equal(weir_bucket_retry_after_us(&rule, ahead, NULL, room), 0);
    if (room < rule.burst)
      assert_true(weir_bucket_retry_after_us(&rule, ahead, NULL, room + 1) > 0);
  }
}

static void lets_exactly_the_burst_into_an_empty_bucket(void **state) {
  (void)state;
  for (int i = 0; i < RULES; i++) {
    weir_rule rule = rule_of(rules[i]);
    assert_int_equal(weir_bucket_room(&rule, 0, NULL), rule.burst);
    int64_t ahead = 0;
    for (int64_t taken = 0; taken < rule.burst; taken++) {
      assert_true(weir_bucket_room(&rule, ahead, NULL) >= 1);
      ahead += rule.token_units;
    }
    assert_int_equal(weir_bucket_room(&rule, ahead, NULL), 0);
  }
}

static const weir_ask plain = {.cost = 1};

/* As much as is ahead in a queue; what is missing in a bucket. */
static void says_how_long_to_wait(void **state) {
  (void)state;
  weir_rule leaky = rule_of("leaky-bucket:300000/1s,queue=9"); /* 3414 units of 2^-10 us each */
  assert_int_equal(weir_bucket_delay_us(&leaky, 0, &plain, 1), 0);
  assert_int_equal(weir_bucket_delay_us(&leaky, 1, &plain, 1), 1);
  assert_int_equal(weir_bucket_delay_us(&leaky, 1024, &plain, 5), 1);
  assert_int_equal(weir_bucket_delay_us(&leaky, 1025, &plain, 5), 2);
  weir_rule token = rule_of("token-bucket:10/1s,burst=2");
  assert_int_equal(weir_bucket_delay_us(&token, 100000, &plain, 1), 0);
  assert_int_equal(weir_bucket_delay_us(&token, 100001, &plain, 1), 1);
  assert_int_equal(weir_bucket_delay_us(&token, 200000, &plain, 2), 200000);
}

static void counts_an_accepted_wait_as_room(void **state) {
  (void)state;
  weir_rule token = rule_of("token-bucket:10/1s,burst=2");
  weir_ask request = {.waits = true, .wait_us = 100000};
  assert_int_equal(weir_bucket_room(&token, 200000, NULL), 0);
  assert_int_equal(weir_bucket_room(&token, 200000, &request), 1);
  assert_int_equal(weir_bucket_room(&token, 200001, &request), 0);
  assert_int_equal(weir_bucket_room(&token, 0, &request), 2); /* never above the burst */
  weir_rule leaky = rule_of("leaky-bucket:10/1s,queue=5");
  assert_int_equal(weir_bucket_room(&leaky, 100000, &request), 5);
  assert_int_equal(weir_bucket_room(&leaky, 100001, &request), 0);
  assert_int_equal(weir_bucket_retry_after_us(&leaky, 100001, &request, 1), 1);
}

static void gives_back_only_what_cannot_have_drained(void **state) {
  (void)state;
  weir_rule rule = rule_of("token-bucket:10/1s,burst=5");
  assert_int_equal(weir_bucket_undrained(&rule, 2, 0, 0), 200000);
  assert_int_equal(weir_bucket_undrained(&rule, 2, 0, 1), 199999);
  assert_int_equal(weir_bucket_undrained(&rule, 2, 0, 200000), 0);
  assert_int_equal(weir_bucket_undrained(&rule, 2, 0, INT64_C(253402300799999999)), 0);
  assert_int_equal(weir_bucket_undrained(&rule, 2, 50000, 50000), 200000);
  assert_int_equal(weir_bucket_undrained(&rule, 2, 50000, 50001), 199999);
  assert_int_equal(weir_bucket_undrained(&rule, 2, 0, -70000), 200000); /* the clock was set back */
}

static void bears_any_time(void **state) {
  (void)state;
  for (int i = 0; i < RULES; i++) {
    weir_rule rule = rule_of(rules[i]);
    assert_int_equal(weir_bucket_units(&rule, INT64_MAX), INT64_C(1) << 61);
    assert_int_equal(weir_bucket_units(&rule, 3), 3 * (INT64_C(1) << rule.unit_bits));
    assert_int_equal(weir_bucket_us(&rule, weir_bucket_units(&rule, 12345)), 12345);
  }
}

static void wraps_and_unwraps_every_time(void **state) {
  (void)state;
  unsigned seed = 8;
  for (int round = 0; round < 200000; round++) {
    weir_rule rule = rule_of(rules[round % RULES]);
    int64_t wrap_us = INT64_C(1) << (62 - rule.unit_bits);
    int64_t now_us = round % 2 == 0 ? random_to(&seed, INT64_C(253402300799999999))
                                    : wrap_us - 5 + random_to(&seed, 10); /* across the wrap */
    int64_t ahead = random_to(&seed, (INT64_C(1) << 58) - 1);
    int64_t stored = weir_bucket_wrap(&rule, now_us, ahead);
    assert_in_range(stored, 0, (INT64_C(1) << 62) - 1);
    assert_int_equal(weir_bucket_unwrap(&rule, now_us, stored), ahead);
    int64_t later_us = random_to(&seed, wrap_us / 2);
    assert_int_equal(weir_bucket_unwrap(&rule, now_us + later_us, stored),
                     ahead_after(&rule, ahead, later_us));
  }
}

static void takes_what_is_long_past_for_past(void **state) {
  (void)state;
  weir_rule rule = rule_of("token-bucket:125000000/1s,burst=4000");
  const int64_t day_us = INT64_C(86400000000);
  int64_t stored = weir_bucket_wrap(&rule, 0, weir_bucket_full(&rule));
  assert_int_equal(weir_bucket_unwrap(&rule, 47 * day_us, stored), 0);
}

static void tells_epochs_apart(void **state) {
  (void)state;
  weir_rule rule = rule_of("token-bucket:125000000/1s,burst=4000");
  const int64_t epoch_us = INT64_C(1) << 32;
  assert_int_equal(weir_bucket_epoch(&rule, 7 * epoch_us - 1), 6);
  assert_int_equal(weir_bucket_offset(&rule, 7 * epoch_us - 1), WEIR_BUCKET_EPOCH - (1 << 20));
  assert_int_equal(weir_bucket_epoch(&rule, 7 * epoch_us), 7);
  assert_int_equal(weir_bucket_offset(&rule, 7 * epoch_us), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_shortest_wait_exactly),
      cmocka_unit_test(finds_the_largest_cost_that_fits),
      cmocka_unit_test(lets_exactly_the_burst_into_an_empty_bucket),
      cmocka_unit_test(says_how_long_to_wait),
      cmocka_unit_test(counts_an_accepted_wait_as_room),
      cmocka_unit_test(gives_back_only_what_cannot_have_drained),
      cmocka_unit_test(bears_any_time),
      cmocka_unit_test(wraps_and_unwraps_every_time),
      cmocka_unit_test(takes_what_is_long_past_for_past),
      cmocka_unit_test(tells_epochs_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
