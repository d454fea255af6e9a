/* Limiters on demand. */
#include "registry/registry.h"

#include "registry/built.h"

enum { MOST = 4 };

static weir_store *store;
static weir_throttle *throttle;
static weir_message message;

static int start(void **state) {
  (void)state;
  const weir_limiter_options options = {.size = sizeof options, .memo_keys = 16};
  if (weir_store_open("memory:?timeout=10s", &store, NULL) != WEIR_OK) return -1;
  throttle = weir_throttle_create(store, &options, MOST);
  return throttle == NULL ? -1 : 0;
}

static int end(void **state) {
  (void)state;
  weir_throttle_destroy(throttle);
  weir_store_close(store);
  return 0;
}

static weir_limiter *get(unsigned loop, int64_t burst, int64_t count, int64_t period_s,
                         int64_t now_us) {
  weir_limiter *limiter;
  if (weir_throttle_find(throttle, loop, burst, count, period_s, now_us, &limiter, &message) !=
      WEIR_OK)
    fail_msg("%s", message.text);
  return limiter;
}

static void test_equal_figures_are_one_limiter(void **state) {
  (void)state;
  weir_limiter *limiter = get(0, 16, 30, 60, 0);
  weir_rule_info info = {.size = sizeof info};
  assert_int_equal(weir_limiter_read_rule(limiter, 0, &info), WEIR_OK);
  assert_string_equal(info.text, "token-bucket:30/1m,burst=16");
  assert_ptr_equal(get(1, 16, 30, 60, 0), limiter);
  assert_ptr_not_equal(get(0, 17, 30, 60, 0), limiter);
  assert_ptr_not_equal(get(0, 16, 31, 60, 0), limiter);
  assert_ptr_not_equal(get(0, 16, 30, 61, 0), limiter);
  assert_int_equal(weir_throttle_count(throttle), 4);
}

static void test_the_least_used_go_at_the_end_of_a_tick(void **state) {
  (void)state;
  for (int i = 1; i <= 10; i++)
    get(0, i, 1, 1, i);
  assert_int_equal(weir_throttle_count(throttle), 10);
  weir_limiter *kept = get(0, 1, 1, 1, 11);
  weir_throttle_end_turn(throttle, 0);
  assert_int_equal(weir_throttle_count(throttle), MOST);
  assert_ptr_equal(get(0, 1, 1, 1, 12), kept);
}

/* Limiters that another loop found in its turn stay until that loop is done, and has found
 * another. */
static void test_what_a_loop_uses_stays(void **state) {
  (void)state;
  weir_limiter *used = get(1, 100, 1, 1, 0);
  for (int i = 1; i <= 10; i++)
    get(0, i, 1, 1, i);
  weir_throttle_end_turn(throttle, 0);
  assert_int_equal(weir_throttle_count(throttle), MOST);
  assert_ptr_equal(get(1, 100, 1, 1, 20), used);
  weir_decision decision;
  assert_int_equal(weir_limiter_take(used, ":k", 2, 1, &decision, NULL), WEIR_OK);
  for (int i = 1; i <= 10; i++)
    get(0, i, 1, 1, 30 + i);
  weir_throttle_end_turn(throttle, 1);
  weir_throttle_end_turn(throttle, 0);
  assert_int_equal(weir_throttle_count(throttle), MOST);
  assert_int_equal(weir_limiter_take(used, ":k", 2, 0, &decision, NULL), WEIR_BAD_COST);
  get(1, 9, 1, 1, 41);
  weir_throttle_end_turn(throttle, 1);
  for (int i = 1; i <= 10; i++)
    get(0, i, 1, 1, 50 + i);
  weir_throttle_end_turn(throttle, 0);
  assert_int_equal(weir_throttle_count(throttle), MOST);
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_throttle_read_counts(throttle, &counts);
  assert_int_equal(counts.allowed, 1); /* by one that is gone */
}

static void test_too_many_new_ones_are_refused_for_a_second(void **state) {
  weir_limiter *limiter;
  (void)state;
  for (int i = 0; i < WEIR_THROTTLE_NEW_MOST; i++) {
    get(0, 1 + i, 1, 1, 1000000 + i);
    weir_throttle_end_turn(throttle, 0);
  }
  assert_int_equal(weir_throttle_find(throttle, 0, 5000, 1, 1, 1999999, &limiter, &message),
                   WEIR_CONTENDED);
  assert_null(limiter);
  assert_string_equal(message.text,
                      "too many different limits: more than 1000 new ones in a second, "
                      "as throttle.limiters says that 4 of them are kept");
  get(0, WEIR_THROTTLE_NEW_MOST, 1, 1, 1999999); /* known ones are found */
  get(0, 5000, 1, 1, 2000000);
  assert_int_equal(weir_throttle_find(throttle, 0, 5001, 1, 1, 2000000, &limiter, NULL),
                   WEIR_CONTENDED);
  get(0, 5001, 1, 1, 2000001);
}

static void test_bad_figures_are_refused(void **state) {
  static const int64_t bad[][3] = {
      {0, 1, 1},         {1, 0, 1},         {1, 1, 0},         {1, 1, -1},
      {1, INT64_MAX, 1}, {INT64_MAX, 1, 1}, {1, 1, INT64_MAX}, {1000000, 1, 34560000}};
  weir_limiter *limiter;
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    message = (weir_message){""};
    assert_int_equal(
        weir_throttle_find(throttle, 0, bad[i][0], bad[i][1], bad[i][2], 0, &limiter, &message),
        WEIR_BAD_RULE);
    assert_true(strlen(message.text) > 0);
    assert_null(limiter);
  }
  assert_int_equal(weir_throttle_count(throttle), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_equal_figures_are_one_limiter, start, end),
      cmocka_unit_test_setup_teardown(test_the_least_used_go_at_the_end_of_a_tick, start, end),
      cmocka_unit_test_setup_teardown(test_what_a_loop_uses_stays, start, end),
      cmocka_unit_test_setup_teardown(test_too_many_new_ones_are_refused_for_a_second, start, end),
      cmocka_unit_test_setup_teardown(test_bad_figures_are_refused, start, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
