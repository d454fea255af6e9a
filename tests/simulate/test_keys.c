#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/simulation.h"

static weir_simulation simulation;

static void init(const char *rule) {
  static const weir_limiter_options options = {.size = sizeof options};
  const char *const rules[] = {rule};
  weir_message why = {""};
  assert_int_equal(weir_simulation_init(&simulation, rules, 1, &options, &why), WEIR_OK);
}

static int clean_up(void **state) {
  (void)state;
  weir_simulation_clean_up(&simulation);
  return 0;
}

static void send_request(int64_t time_us, const char *key) {
  weir_message why = {""};
  assert_int_equal(weir_simulation_request(&simulation, time_us, key, strlen(key), 1, &why),
                   WEIR_OK);
}

static void keys_that_nobody_asks_for_any_more_take_no_memory(void **state) {
  enum { VISITORS = 20000 };
  char key[32];
  (void)state;
  init("sliding-window:10/1s");
  for (int i = 0; i < VISITORS; i++) {
    snprintf(key, sizeof key, "visitor%d", i);
    send_request(1000000000 + INT64_C(10000) * i, key);
  }
  assert_int_equal(simulation.requests, VISITORS);
  /* 100 come in a second, and one is remembered for some seconds */
  assert_in_range(simulation.keys.most, 100, 1000);
  assert_in_range(simulation.keys.capacity, 64, 4096);
}

static void forgetting_changes_no_decision(void **state) {
  char key[32];
  (void)state;
  init("sliding-window:3/1s");
  for (int round = 0; round < 300; round++) {
    for (int i = 0; i < 5; i++) {
      snprintf(key, sizeof key, "key%d", i * 7 % 50);
      send_request(1000000000 + INT64_C(700000) * round, key);
    }
    send_request(1000000000 + INT64_C(700000) * round, "steady");
  }
  assert_int_equal(simulation.measures[0].requests, 1800);
  assert_int_equal(simulation.measures[0].allowed, 1800);
  assert_int_equal(simulation.measures[0].cost_exactly_allowed, 1800);
}

static void a_request_with_an_earlier_time_counts_as_now(void **state) {
  (void)state;
  init("fixed-window:1/1s");
  send_request(5000000, "a");
  send_request(3500000, "a");
  send_request(5999999, "a");
  send_request(6000000, "a");
  assert_int_equal(simulation.out_of_order, 1);
  assert_int_equal(simulation.furthest_us, 1500000);
  assert_int_equal(simulation.measures[0].allowed, 2);
}

static void two_rules_in_one_are_refused(void **state) {
  static const weir_limiter_options options = {.size = sizeof options};
  static const char *const rules[] = {"fixed-window:1/1s", "fixed-window:1/1s;quota:5/1h"};
  weir_message why = {""};
  (void)state;
  assert_int_equal(weir_simulation_init(&simulation, rules, 2, &options, &why), WEIR_BAD_RULE);
  assert_non_null(strstr(why.text, "its own --rule"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(keys_that_nobody_asks_for_any_more_take_no_memory, clean_up),
      cmocka_unit_test_teardown(forgetting_changes_no_decision, clean_up),
      cmocka_unit_test_teardown(a_request_with_an_earlier_time_counts_as_now, clean_up),
      cmocka_unit_test(two_rules_in_one_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
