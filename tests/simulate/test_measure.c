#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/measure.h"

static weir_measure measure;
static weir_exact exact;
static weir_stack stack;
#define rule (stack.rules[0])

static int begin(void **state) {
  (void)state;
  measure = (weir_measure){0};
  exact = (weir_exact){0};
  stack = (weir_stack){.count = 1};
  rule = (weir_rule){.kind = WEIR_SLIDING_WINDOW, .limit = 10, .period_us = 1000, .cells = 4};
  return 0;
}

static int end(void **state) {
  (void)state;
  weir_exact_clean_up(&exact);
  return 0;
}

static void decided(int64_t now_us, int64_t cost, bool allowed, int64_t remaining) {
  weir_decision decision = {.allowed = allowed, .limit = rule.limit, .remaining = remaining};
  const weir_measured request = {.now_us = now_us, .key = "k", .key_length = 1, .cost = cost};
  assert_true(weir_measure_decision(&measure, &stack, &exact, &request, &decision));
}

static void above_the_limit_is_wrongly_allowed_and_within_it_wrongly_denied(void **state) {
  (void)state;
  decided(5000, 6, true, 4);
  decided(5001, 4, false, 4); /* 6 + 4 is 10: it fits */
  decided(5002, 5, true, 0);  /* 6 + 5 is above 10 */
  decided(5003, 1, false, 0); /* 11 are in: rightly denied */
  decided(6000, 5, true, 0);  /* the first six are a period old */
  assert_int_equal(measure.wrongly_denied, 1);
  assert_int_equal(measure.cost_wrongly_denied, 4);
  assert_int_equal(measure.wrongly_allowed, 1);
  assert_int_equal(measure.cost_wrongly_allowed, 5);
  assert_int_equal(measure.cost_allowed, 16);
  assert_int_equal(measure.most_admitted, 11);
  assert_int_equal(measure.most_admitted_us, 5002);
}

static void an_exact_window_of_its_own_history_goes_another_way(void **state) {
  (void)state;
  decided(5000, 6, true, 4);
  decided(5001, 4, false, 4);
  decided(5002, 5, true, 0);
  assert_int_equal(measure.cost_exactly_allowed, 10); /* 6 and 4 */
  assert_int_equal(measure.differing, 2);
}

static void errors_are_what_is_taken_for_used_against_what_is(void **state) {
  (void)state;
  decided(5000, 5, true, 3);  /* takes 7 for used: 2 off */
  decided(5001, 1, true, 5);  /* takes 5 for used, it is 6 */
  decided(5002, 1, false, 4); /* 6 */
  assert_int_equal(measure.errors, 3);
  assert_float_equal(measure.error_sum, 0.3, 1e-9); /* of the limit */
  assert_int_equal(weir_measure_error_p99(&measure), 200);
}

static void of_a_hundred_errors_the_largest_is_left_out(void **state) {
  (void)state;
  rule.limit = 1000;
  for (int i = 0; i < 99; i++)
    decided(5000 + 2000 * i, 1, true, 999);
  decided(900000, 1, true, 500);
  assert_int_equal(measure.errors, 100);
  assert_int_equal(weir_measure_error_p99(&measure), 0);
}

static void buckets_have_no_estimate(void **state) {
  (void)state;
  rule.kind = WEIR_TOKEN_BUCKET;
  assert_false(weir_measure_has_estimate(&rule));
  decided(5000, 5, true, 3);
  assert_int_equal(measure.errors, 0);
}

static void with_count_all_a_denied_request_counts_for_the_exact_window_too(void **state) {
  (void)state;
  rule.count_all = true;
  decided(5000, 8, true, 2);
  decided(5001, 5, false, 0); /* 13 counted */
  decided(5500, 1, false, 0); /* rightly: 8 alone were admitted, but 13 count */
  decided(6000, 1, false, 0); /* 5 + 1 + 1 count: it fits */
  assert_int_equal(measure.wrongly_denied, 1);
  assert_int_equal(measure.most_admitted, 8);
}

/* Forty at once, of which ten fit: an answer can say no more than that nothing remains. */
static void denied_requests_that_no_answer_can_show_are_no_error(void **state) {
  (void)state;
  rule.count_all = true;
  for (int i = 0; i < 40; i++)
    decided(5000, 1, i < 10, i < 10 ? 9 - i : 0);
  assert_float_equal(measure.error_sum, 0, 1e-9);
  decided(5001, 1, false, 3); /* takes 7 for used, and 10 are */
  assert_float_equal(measure.error_sum, 0.3, 1e-9);
}

static void what_was_admitted_beyond_the_limit_is_an_error_also_with_count_all(void **state) {
  (void)state;
  rule.count_all = true;
  decided(5000, 8, true, 2);
  decided(5001, 8, true, 0); /* 16 are admitted, and it takes 10 for used */
  assert_float_equal(measure.error_sum, 0.6, 1e-9);
}

static void a_stack_admits_what_fits_into_each_of_its_windows(void **state) {
  weir_exact both[2];
  (void)state;
  memset(both, 0, sizeof both);
  stack.count = 2;
  stack.rules[1] = rule;
  stack.rules[1].limit = 12;
  stack.rules[1].period_us = 5000;
  const struct {
    int64_t now_us, cost;
    bool allowed, right;
  } said[] = {{5000, 8, true, true},
              {5001, 3, false, true}, /* 11 are above the first limit */
              {6001, 5, true, false}, /* 13 are above the second */
              {6002, 1, false, true},
              {10001, 7, false, false}};
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    weir_decision decision = {.allowed = said[i].allowed, .remaining = WEIR_NOT_KNOWN};
    uint64_t wrong = measure.wrongly_allowed + measure.wrongly_denied;
    const weir_measured request = {
        .now_us = said[i].now_us, .key = "k", .key_length = 1, .cost = said[i].cost};
    assert_true(weir_measure_decision(&measure, &stack, both, &request, &decision));
    assert_int_equal(measure.wrongly_allowed + measure.wrongly_denied - wrong, !said[i].right);
  }
  assert_int_equal(measure.most_admitted, 13);
  assert_int_equal(measure.most_limit, 12);
  assert_int_equal(measure.cost_exactly_allowed, 8 + 1 + 7);
  weir_exact_clean_up(&both[0]);
  weir_exact_clean_up(&both[1]);
}

/* Of a limit of 10 class 1 may fill 4, class 2 7; class 0 is none. */
static void of_a_class_what_is_kept_from_lower_ones_must_be_admitted(void **state) {
  static const struct {
    int64_t now_us;
    unsigned class;
    int64_t cost;
    bool allowed;
    int64_t kept_denied; /* of the class, so far */
  } said[] = {
      {5000, 1, 4, true, 0},  {5000, 1, 1, false, 0}, /* nothing is kept for the lowest */
      {5001, 2, 2, false, 2},                         /* 3 are kept for it, ... */
      {5002, 2, 2, true, 2},  {5003, 2, 2, false, 2}, /* ... and 2 are in use */
      {5004, 0, 4, false, 4},                         /* 10 - 4 from class 1: 2 in use, 4 asked */
      {5005, 0, 5, false, 4}, {5006, 0, 3, true, 4},  /* or 10 - 7 from both: none in use */
      {6255, 2, 2, false, 2}, {6256, 2, 2, false, 4}, /* a period and a cell behind them */
  };
  (void)state;
  stack.class_count = 2;
  rule.capacity = 10;
  rule.cell_us = 250;
  rule.class_capacities[0] = 4;
  rule.class_capacities[1] = 7;
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    const weir_measured request = {said[i].now_us, "k", 1, said[i].cost, said[i].class};
    weir_decision decision = {.allowed = said[i].allowed, .remaining = WEIR_NOT_KNOWN};
    assert_true(weir_measure_decision(&measure, &stack, &exact, &request, &decision));
    assert_int_equal(measure.classes[said[i].class].cost_kept_denied, said[i].kept_denied);
  }
  assert_int_equal(measure.classes[1].cost, 5);
  assert_int_equal(measure.classes[1].cost_allowed, 4);
  assert_int_equal(measure.classes[2].requests, 5);
  assert_int_equal(measure.classes[0].allowed, 1);
  /* Exact windows of 4, 7 and 10 would have admitted what they denied at 5001 and 5004, and both at the end. */
  assert_int_equal(measure.cost_wrongly_denied, 2 + 4 + 2 + 2);
  assert_int_equal(measure.cost_wrongly_allowed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(
          above_the_limit_is_wrongly_allowed_and_within_it_wrongly_denied, begin, end),
      cmocka_unit_test_setup_teardown(an_exact_window_of_its_own_history_goes_another_way, begin,
                                      end),
      cmocka_unit_test_setup_teardown(errors_are_what_is_taken_for_used_against_what_is, begin,
                                      end),
      cmocka_unit_test_setup_teardown(of_a_hundred_errors_the_largest_is_left_out, begin, end),
      cmocka_unit_test_setup_teardown(buckets_have_no_estimate, begin, end),
      cmocka_unit_test_setup_teardown(
          with_count_all_a_denied_request_counts_for_the_exact_window_too, begin, end),
      cmocka_unit_test_setup_teardown(denied_requests_that_no_answer_can_show_are_no_error, begin,
                                      end),
      cmocka_unit_test_setup_teardown(
          what_was_admitted_beyond_the_limit_is_an_error_also_with_count_all, begin, end),
      cmocka_unit_test_setup_teardown(of_a_class_what_is_kept_from_lower_ones_must_be_admitted,
                                      begin, end),
      cmocka_unit_test_setup_teardown(a_stack_admits_what_fits_into_each_of_its_windows, begin,
                                      end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
