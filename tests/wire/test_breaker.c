/* The breaker by itself, with times and seeds of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "wire/breaker.h"

enum { SEEDS = 2000 };

#define MS INT64_C(1000)
#define TIMEOUT_US (20 * MS)
#define MOST_US (500 * MS)

static const char someone;
static const char other;

/* Fails until just before the n-th probe; that pause. */
static int64_t pause_after(weir_breaker *breaker, int failed_probes) {
  int64_t now_us = 1000000;
  weir_breaker_fail(breaker, "gone", now_us);
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
    weir_breaker_init(&breaker, TIMEOUT_US, most_us, seed);
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
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  weir_breaker_fail(&breaker, "gone", 0);
  assert_true(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us));
  return breaker;
}

static void nobody_goes_before_the_pause_is_over(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  weir_breaker_fail(&breaker, "gone", 0);
  assert_false(weir_breaker_admits(&breaker, &someone, 0));
  assert_false(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us - 1));
  assert_true(weir_breaker_admits(&breaker, &someone, breaker.probe_at_us));
}

static void one_probe_is_under_way_at_a_time(void **state) {
  (void)state;
  weir_breaker breaker = half_open();
  assert_false(weir_breaker_admits(&breaker, &other, INT64_MAX));
  weir_breaker_end(&breaker, &other, 0); /* not the probe's end */
  weir_breaker_miss(&breaker, &other, "others waited too", 0);
  weir_breaker_miss(&breaker, &other, "and again", TIMEOUT_US);
  assert_false(weir_breaker_admits(&breaker, &other, INT64_MAX));
  assert_int_equal(breaker.state, WEIR_BREAKER_HALF_OPEN);
}

static void a_probe_without_an_answer_doubles_the_pause(void **state) {
  (void)state;
  weir_breaker breaker = half_open();
  int64_t pause_us = breaker.pause_us;
  weir_breaker_miss(&breaker, &someone, "no answer", 0);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
  assert_int_equal(breaker.pause_us, 2 * pause_us);
  assert_in_range(breaker.probe_at_us, pause_us, 2 * pause_us);
  assert_int_equal(breaker.opened, 1);
  assert_string_equal(breaker.why.text, "no answer");
}

static void a_probe_that_was_never_sent_is_repeated_after_the_same_pause(void **state) {
  (void)state;
  weir_breaker breaker = half_open();
  int64_t pause_us = breaker.pause_us;
  weir_breaker_end(&breaker, &someone, 0);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
  assert_int_equal(breaker.pause_us, pause_us);
  assert_in_range(breaker.probe_at_us, pause_us / 2, pause_us);
  assert_string_equal(breaker.why.text, "gone");
}

static void callers_who_were_under_way_prolong_nothing(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  weir_breaker_fail(&breaker, "gone", 0);
  int64_t probe_at_us = breaker.probe_at_us;
  weir_breaker_miss(&breaker, &someone, "gone for me too", 0);
  weir_breaker_miss(&breaker, &someone, "gone for me too", probe_at_us - 1);
  weir_breaker_fail(&breaker, "refused", probe_at_us - 1);
  weir_breaker_end(&breaker, &other, probe_at_us - 1);
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
  weir_breaker_answered(&breaker);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
  assert_string_equal(breaker.why.text, "gone");
  weir_breaker_fail(&breaker, "again", 0);
  assert_int_equal(breaker.opened, 2);
  assert_in_range(breaker.probe_at_us, 20 * MS, 40 * MS);
}

static void an_answer_to_somebody_else_closes_an_open_one(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  weir_breaker_fail(&breaker, "gone", 0);
  weir_breaker_answered(&breaker);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
}

/* However many there are at the same time, and whenever they were: also at the time 0. */
static void misses_less_than_a_timeout_apart_prove_nothing(void **state) {
  (void)state;
  for (int64_t first_us = 0; first_us <= 1000 * MS; first_us += 1000 * MS) {
    weir_breaker breaker;
    weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
    for (int64_t after_us = 0; after_us < TIMEOUT_US; after_us += MS)
      weir_breaker_miss(&breaker, &someone, "no answer", first_us + after_us);
    weir_breaker_miss(&breaker, &someone, "no answer", first_us + TIMEOUT_US - 1);
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
    assert_int_equal(breaker.opened, 0);
    assert_string_equal(breaker.why.text, "");
    weir_breaker_miss(&breaker, &other, "no answer", first_us + TIMEOUT_US);
    assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
    assert_int_equal(breaker.opened, 1);
    assert_string_equal(breaker.why.text, "no answer");
  }
}

static void one_miss_opens_nothing_however_long_ago_the_last_was(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  for (int64_t now_us = 0; now_us < 100 * TIMEOUT_US; now_us += TIMEOUT_US) {
    weir_breaker_miss(&breaker, &someone, "no answer", now_us);
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
    weir_breaker_answered(&breaker);
  }
}

/* Misses from before the server was away are no part of what comes after. */
static void an_outage_forgets_the_miss_before_it(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  weir_breaker_miss(&breaker, &someone, "no answer", 0);
  weir_breaker_fail(&breaker, "refused", MS);
  weir_breaker_answered(&breaker);
  weir_breaker_miss(&breaker, &someone, "no answer", TIMEOUT_US);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
}

/* The missed request is answered: the server is there, and it takes more to call it away. */
static void late_answers_alone_open_it_only_after_several_timeouts(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  int64_t end_us = WEIR_BREAKER_SLOW_TIMEOUTS * TIMEOUT_US;
  for (int64_t now_us = 0; now_us < end_us; now_us += TIMEOUT_US) {
    weir_breaker_miss(&breaker, &someone, "no answer", now_us);
    assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
    weir_breaker_answered_late(&breaker);
  }
  weir_breaker_miss(&breaker, &someone, "no answer", end_us - 1);
  assert_int_equal(breaker.state, WEIR_BREAKER_CLOSED);
  weir_breaker_miss(&breaker, &someone, "no answer", end_us);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
  weir_breaker_answered_late(&breaker);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
}

/* The next silence is silence. */
static void an_answer_in_time_forgets_the_late_ones(void **state) {
  (void)state;
  weir_breaker breaker;
  weir_breaker_init(&breaker, TIMEOUT_US, MOST_US, 1);
  weir_breaker_answered_late(&breaker); /* of what the breaker has forgotten */
  for (int i = 0; i < 2; i++) {
    weir_breaker_miss(&breaker, &someone, "no answer", 0);
    weir_breaker_answered_late(&breaker);
    weir_breaker_answered(&breaker);
  }
  weir_breaker_answered_late(&breaker);
  weir_breaker_miss(&breaker, &someone, "no answer", 0);
  weir_breaker_miss(&breaker, &someone, "no answer", TIMEOUT_US);
  assert_int_equal(breaker.state, WEIR_BREAKER_OPEN);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_pause_is_20_to_40_ms),
      cmocka_unit_test(pauses_double_up_to_the_most),
      cmocka_unit_test(a_short_most_bounds_the_first_pause_too),
      cmocka_unit_test(nobody_goes_before_the_pause_is_over),
      cmocka_unit_test(one_probe_is_under_way_at_a_time),
      cmocka_unit_test(a_probe_without_an_answer_doubles_the_pause),
      cmocka_unit_test(a_probe_that_was_never_sent_is_repeated_after_the_same_pause),
      cmocka_unit_test(callers_who_were_under_way_prolong_nothing),
      cmocka_unit_test(an_answer_closes_and_the_next_outage_begins_anew),
      cmocka_unit_test(an_answer_to_somebody_else_closes_an_open_one),
      cmocka_unit_test(misses_less_than_a_timeout_apart_prove_nothing),
      cmocka_unit_test(one_miss_opens_nothing_however_long_ago_the_last_was),
      cmocka_unit_test(an_outage_forgets_the_miss_before_it),
      cmocka_unit_test(late_answers_alone_open_it_only_after_several_timeouts),
      cmocka_unit_test(an_answer_in_time_forgets_the_late_ones),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
