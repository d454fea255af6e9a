#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/attack.h"

/* Enough for one request at a time to fill a rule; not for rules that take little at once. */
enum { REQUESTS = 60000, REQUESTS_OF_SMALL_BURSTS = 1000000 };

static const weir_limiter_options options = {.size = sizeof options};

static weir_attack_result attack(const char *rule, uint64_t requests) {
  weir_attack_result result;
  weir_message why = {""};
  if (weir_attack_search(rule, &options, requests, &result, &why) != WEIR_OK)
    fail_msg("%s: %s", rule, why.text);
  return result;
}

/* Never above the bound, and within 5 % of it. */
static void drives_to_its_bound(const char *pattern, int64_t limit, int64_t bound) {
  char rule[64];
  snprintf(rule, sizeof rule, pattern, (int)limit);
  bool small = strstr(rule, "burst=") != NULL || strstr(rule, "queue=") != NULL;
  weir_attack_result result = attack(rule, small ? REQUESTS_OF_SMALL_BURSTS : REQUESTS);
  if (result.bound != bound || result.most > bound || result.most * 100 < bound * 95)
    fail_msg("%s: %lld admitted, bound %lld, expected %lld", rule, (long long)result.most,
             (long long)result.bound, (long long)bound);
}

static int64_t divide_up(int64_t number, int64_t divisor) {
  return (number + divisor - 1) / divisor;
}

static void windows_are_driven_to_their_bound(void **state) {
  (void)state;
  for (const int64_t *limit = (const int64_t[]){10, 50, 1000, 0}; *limit != 0; limit++) {
    drives_to_its_bound("fixed-window:%d/1m", *limit, 2 * *limit);
    drives_to_its_bound("sliding-window:%d/1m,cells=1", *limit, 2 * *limit);
    drives_to_its_bound("sliding-window:%d/1m,cells=2", *limit, 2 * *limit);
    drives_to_its_bound("sliding-window:%d/1m", *limit, *limit + divide_up(2 * *limit, 4));
    drives_to_its_bound("sliding-window:%d/1m,cells=16", *limit,
                        *limit + divide_up(2 * *limit, 16));
    drives_to_its_bound("sliding-window:%d/1m,strict", *limit, *limit);
  }
}

static void other_rules_are_driven_to_their_bound(void **state) {
  (void)state;
  for (const int64_t *limit = (const int64_t[]){10, 50, 1000, 0}; *limit != 0; limit++) {
    drives_to_its_bound("quota:%d/1m", *limit, 2 * *limit - 1);
    drives_to_its_bound("token-bucket:%d/1m", *limit, 2 * *limit - 1);
    drives_to_its_bound("token-bucket:%d/1m,burst=5", *limit, *limit + 4);
    drives_to_its_bound("leaky-bucket:%d/1m,queue=5", *limit, *limit + 5);
    drives_to_its_bound("sliding-log:%d/1m", *limit, *limit);
  }
}

static void periods_that_cells_do_not_divide_are_bounded_alike(void **state) {
  (void)state;
  drives_to_its_bound("sliding-window:%d/997ms", 50, 75);
  drives_to_its_bound("sliding-window:%d/997ms,cells=16", 50, 57);
  drives_to_its_bound("sliding-window:%d/7m,cells=64", 50, 52);
}

/* The traffic that is reported does what it is said to do. */
static void what_was_found_is_told_in_order_of_time(void **state) {
  (void)state;
  weir_attack_result result = attack("sliding-window:50/1m", REQUESTS);
  int64_t admitted = 0;
  assert_in_range(result.train_count, 2, WEIR_ATTACK_TRAINS_MOST);
  for (size_t i = 0; i < result.train_count; i++) {
    admitted += result.trains[i].admitted;
    assert_true(i == 0 || result.trains[i].at_us >= result.trains[i - 1].at_us);
  }
  assert_true(admitted >= result.most);
  assert_true(result.requests >= REQUESTS);
}

static void the_same_search_finds_the_same(void **state) {
  (void)state;
  weir_attack_result one = attack("quota:50/1m", REQUESTS), other = attack("quota:50/1m", REQUESTS);
  assert_int_equal(one.most, other.most);
  assert_int_equal(one.train_count, other.train_count);
  assert_int_equal(one.trains[0].at_us, other.trains[0].at_us);
}

static void a_bad_rule_is_named(void **state) {
  weir_attack_result result;
  weir_message why = {""};
  (void)state;
  assert_int_equal(weir_attack_search("sliding:5/1m", &options, 1, &result, &why), WEIR_BAD_RULE);
  assert_non_null(strstr(why.text, "sliding"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_are_driven_to_their_bound),
      cmocka_unit_test(other_rules_are_driven_to_their_bound),
      cmocka_unit_test(periods_that_cells_do_not_divide_are_bounded_alike),
      cmocka_unit_test(what_was_found_is_told_in_order_of_time),
      cmocka_unit_test(the_same_search_finds_the_same),
      cmocka_unit_test(a_bad_rule_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
