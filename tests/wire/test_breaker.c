/* The breaker by itself, with times and seeds of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "wire/breaker.h"

enum { SEEDS = 2000 };

#define MS INT64_C(1000)
#define MOST_US (500 * MS)

static const char someone;
static const char other;

/* Fails until just before the n-th probe; that pause. */
static int64_t pause_after(weir_breaker *breaker, int failed_probes) {
  int64_t now_us = 1000000;
  weir_breaker_trip(breaker, "gone", now_us);
  for (int i = 0; i < failed_probes; i++) {
    now_us = breaker->probe_at_us;
    assert_true(weir_breaker_admits(breaker, &someone, now_us));
    weir_breaker_fail(breaker, "still gone", now_us);
  }
  return breaker->probe_at_us - now_us;
}

/* Pauses stay within the bounds, and over many seeds come near both. */
static void expect_pauses(int64_t most_us, int failed_probes, int64_t from_us, int64_t to_us) {
  int64_t least_seen_us = INT64_MAX;
  int64_t most_seen_us = 0;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    weir_breaker breaker;
    weir_breaker_init(&breaker, most_us, seed);
    int64_t pause_us = pause_after(&breaker, failed_probes);
    assert_in_range(pause_us, from_us, to_us);
    if (pause_us < least_seen_us) least_seen_us = pause_us;
    if (pause_us > most_seen_us) most_seen_us = pause_us;
  }
  int64_t near_us = (to_us - from_us) / 20;
  assert_true(least_seen_us <= from_us + near_us);
  assert_true(most_seen_us >= to_us - near_us);
}

static void the_first_pause_is_20_to_40_ms(void **state) {
  (void)state;
  expect_pauses(MOST_US, 0, 20 * MS, 40 * MS);
}

static void pauses_double_up_to_the_most(void **state) {
  (void)state;
  expect_pauses(MOST_US, 1, 40 * MS, 80 * MS);
  expect_pauses(MOST_US, 2, 80 * MS, 160 * MS);
  expect_pauses(MOST_US, 3, 160 * MS, 320 * MS);
  expect_pauses(MOST_US, 4, 250 * MS, 500 * MS);
  expect_pauses(MOST_US, 200, 250 * MS, 500 * MS);
}

static void a_short_most_bounds_the_first_pause_too(void **state) {
  (void)state;
  expect_pauses(10 * MS, 0, 5 * MS, 10 * MS);
  expect_pauses(10 * MS, 9, 5 * MS, 10 * MS);
}

static weir_breaker half_open(void) {
  weir_breaker breaker;
  weir_breaker_init(&breaker, MOST_US, 1);
  weir_breaker_trip(&breaker, "gone", 0);
  assert_true(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us));
  return breaker;
}

static void nobody_goes_before_the_pause_is_over(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, MOST_US, 1);
  weir_breaker_trip(&breaker, "gone", 0);
  assert_false(weir_breaker_admits(&breaker, &someone, 0));
  assert_false(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us - 1));
  assert_true(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us));
}

static void one_probe_is_under_way_at_a_time(void **state) {
  (void)state;
  weir_breaker breaker = half_open();
  assert_false(weir_breaker_admits(&breaker, &other, INT64_MAX));
  weir_breaker_excuse(&breaker, &other, 0); /* not the probe's end */
  weir_breaker_trip(&breaker, "others waited too", 0);
  assert_false(weir_breaker_admits(&breaker, &other, INT64_MAX));
  assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
}

static void a_probe_that_proved_nothing_is_repeated_after_the_same_pause(void **state) {
  (void)state;
  weir_breaker breaker = half_open();
  int64_t pause_us = breaker.pause_us;
  weir_breaker_excuse(&breaker, &someone, 0);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
  assert_int_equal(breaker.pause_us, pause_us);
  assert_in_range(breaker.probe_at_us, pause_us / 2, pause_us);
}

static void callers_who_were_under_way_prolong_nothing(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, MOST_US, 1);
  weir_breaker_trip(&breaker, "gone", 0);
  int64_t probe_at_us = breaker.probe_at_us;
  weir_breaker_trip(&breaker, "gone for me too", probe_at_us - 1);
  weir_breaker_fail(&breaker, "refused", probe_at_us - 1);
  weir_breaker_excuse(&breaker, &other, probe_at_us - 1);
  assert_int_equal(breaker.probe_at_us, probe_at_us);
  assert_int_equal(breaker.opened, 1);
  assert_string_equal(breaker.why.text, "refused");
}

static void an_answer_closes_and_the_next_outage_begins_anew(void **state) {
  (void)state;
  weir_breaker breaker = half_open();
  for (int i = 0; i < 3; i++) {
    weir_breaker_fail(&breaker, "gone", 0);
    assert_true(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us));
  }
  assert_int_equal(breaker.opened, 1);
  weir_breaker_answered(&breaker, false);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
  assert_string_equal(breaker.why.text, "gone");
  weir_breaker_trip(&breaker, "again", 0);
  assert_int_equal(breaker.opened, 2);
  assert_in_range(breaker.probe_at_us, 20 * MS, 40 * MS);
}

static void an_answer_to_somebody_else_closes_an_open_one(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, MOST_US, 1);
  weir_breaker_trip(&breaker, "gone", 0);
  weir_breaker_answered(&breaker, false);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
}

/* Misses from `from_us` on, one each 100 ms; how long until it opens. */
static int64_t time_to_open(weir_breaker *breaker, int64_t from_us) {
  int64_t now_us = from_us;
  while (breaker->state == WEIR_BREAKER_CLOSED) {
    assert_true(now_us - from_us < 10000 * MS);
    weir_breaker_miss(breaker, &someone, "no answer", now_us);
    now_us += 100 * MS;
  }
  return now_us - 100 * MS - from_us;
}

static void a_second_without_an_answer_in_time_opens(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, MOST_US, 1);
  weir_breaker_miss(&breaker, &someone, "no answer", 1 * MS);
  weir_breaker_miss(&breaker, &someone, "no answer", 1000 * MS);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
  weir_breaker_answered(&breaker, false); /* which changes nothing */
  weir_breaker_miss(&breaker, &someone, "no answer", 1001 * MS);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
  assert_string_equal(breaker.why.text, "no answer in time for a second: no answer");
}

static void an_answer_in_time_begins_the_second_anew(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, MOST_US, 1);
  weir_breaker_miss(&breaker, &someone, "no answer", 1 * MS);
  weir_breaker_answered(&breaker, true);
  assert_int_equal(time_to_open(&breaker, 900 * MS), 1000 * MS);
}

/* Else it would be asked by everybody for another second, again and again. */
static void only_an_answer_in_time_closes_for_a_slow_server(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, MOST_US, 1);
  time_to_open(&breaker, 1 * MS);
  weir_breaker_answered(&breaker, false);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
  assert_true(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us));
  int64_t pause_us = breaker.pause_us;
  weir_breaker_miss(&breaker, &someone, "no answer", breaker.probe_at_us);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
  assert_int_equal(breaker.pause_us, 2 * pause_us);
  weir_breaker_answered(&breaker, true);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
  weir_breaker_trip(&breaker, "gone", 0);
  weir_breaker_answered(&breaker, false);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_pause_is_20_to_40_ms),
      cmocka_unit_test(pauses_double_up_to_the_most),
      cmocka_unit_test(a_short_most_bounds_the_first_pause_too),
      cmocka_unit_test(nobody_goes_before_the_pause_is_over),
      cmocka_unit_test(one_probe_is_under_way_at_a_time),
      cmocka_unit_test(a_probe_that_proved_nothing_is_repeated_after_the_same_pause),
      cmocka_unit_test(callers_who_were_under_way_prolong_nothing),
      cmocka_unit_test(an_answer_closes_and_the_next_outage_begins_anew),
      cmocka_unit_test(an_answer_to_somebody_else_closes_an_open_one),
      cmocka_unit_test(a_second_without_an_answer_in_time_opens),
      cmocka_unit_test(an_answer_in_time_begins_the_second_anew),
      cmocka_unit_test(only_an_answer_in_time_closes_for_a_slow_server),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
