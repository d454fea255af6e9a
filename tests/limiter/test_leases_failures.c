/* Answers that are lost, late or refused: nothing is leased by them, and nothing goes back twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/leases.h"

static const char *const rules[] = {"fixed-window:1000/1s,lease=20ms",
                                    "sliding-window:1000/1s,lease=20ms",
                                    "quota:1000/1s,lease=20ms"};

enum { RULES = sizeof rules / sizeof rules[0], LATE_US = 40000 };

static void open_alone(world *w, const char *text, int64_t deadline_us) {
  weir_limiter_options options = {.processes = 1, .deadline_us = deadline_us};
  world_open_backend(w, &fake_backend, "fake:", text, &options);
  fake_forget();
}

/* The next request is one that charges ahead: all that was held is used, and much was asked. */
static void want_a_lease(world *w) {
  lease_fill(w, "k", 8);
  lease_use_down_to(w, "k", 0);
  fake_forget();
}

static weir_status take(world *w, weir_decision *decision) {
  return weir_limiter_take(w->limiter, "k", 1, 1, decision, NULL);
}

static void a_certain_answer_in_time_grants(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    world w;
    open_alone(&w, rules[i], 20 * SECOND_US);
    want_a_lease(&w);
    world_take(&w, "k", 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
    assert_true(lease_held(w.limiter) > 0);
    world_close(&w);
  }
}

static void an_answer_that_is_lost_grants_nothing(void **state) {
  static const struct {
    weir_outcome outcome;
    bool executed;
  } faults[] = {
      {WEIR_UNKNOWN, false}, {WEIR_UNKNOWN, true}, {WEIR_NOT_SENT, false}, {WEIR_REFUSED, false}};
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    for (size_t n = 0; n < sizeof faults / sizeof faults[0]; n++) {
      world w;
      weir_decision decision;
      open_alone(&w, rules[i], 20 * SECOND_US);
      want_a_lease(&w);
      weir_limiter_counts before = lease_counts(w.limiter);
      fake_fail_next(WEIR_ADD, faults[n].outcome, faults[n].executed);
      assert_int_not_equal(take(&w, &decision), WEIR_OK);
      assert_false(the_fake.faulty);
      assert_int_equal(lease_counts(w.limiter).leased, before.leased);
      assert_int_equal(lease_held(w.limiter), 0);
      fake_forget();
      assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
      world_close(&w);
    }
  }
}

/* In real time: the answer is behind the deadline, and what was charged goes back. */
static void an_answer_that_is_late_grants_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    world w;
    weir_decision decision;
    open_alone(&w, rules[i], LATE_US / 2);
    want_a_lease(&w);
    weir_limiter_counts before = lease_counts(w.limiter);
    the_fake.delay_us = LATE_US;
    assert_int_not_equal(take(&w, &decision), WEIR_OK);
    the_fake.delay_us = 0;
    assert_int_equal(lease_counts(w.limiter).leased, before.leased);
    assert_int_equal(lease_held(w.limiter), 0);
    world_close(&w);
  }
}

/* It certainly was not carried out: the next call tries again. The request that it went with is
 * none the worse. */
static void a_return_that_was_not_sent_is_owed_again(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    world w;
    open_alone(&w, rules[i], 20 * SECOND_US);
    int64_t held = lease_fill(&w, "k", 30);
    int64_t room = lease_store_room(&w, rules[i], "k");
    world_set(&w, 20000);
    fake_fail_next(WEIR_SUB, WEIR_NOT_SENT, false);
    assert_true(world_take(&w, "k", 1).allowed);
    assert_false(the_fake.faulty);
    assert_int_equal(lease_counts(w.limiter).lease_returned, 0);
    assert_int_equal(lease_counts(w.limiter).lease_lost, 0);
    assert_int_equal(lease_store_room(&w, rules[i], "k"), room - 1);
    fake_forget();
    assert_true(world_take(&w, "k", 1).allowed);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    assert_int_equal(lease_counts(w.limiter).lease_returned, held);
    assert_int_equal(lease_store_room(&w, rules[i], "k"), room - 2 + held);
    world_close(&w);
  }
}

/* It may have been carried out: never twice. */
static void a_return_without_an_answer_is_dropped(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES * 2; i++) {
    world w;
    open_alone(&w, rules[i / 2], 20 * SECOND_US);
    int64_t held = lease_fill(&w, "k", 30);
    world_set(&w, 20000);
    fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, i % 2 == 0);
    assert_true(world_take(&w, "k", 1).allowed);
    assert_false(the_fake.faulty);
    assert_int_equal(lease_counts(w.limiter).lease_lost, held);
    assert_int_equal(lease_counts(w.limiter).lease_returned, 0);
    fake_forget();
    for (int n = 0; n < 3; n++)
      assert_true(world_take(&w, "k", 1).allowed);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
    world_close(&w);
  }
}

static void whoever_asks_for_the_return_is_told_of_its_failure(void **state) {
  world w;
  weir_message message = {""};
  (void)state;
  open_alone(&w, rules[0], 20 * SECOND_US);
  int64_t held = lease_fill(&w, "k", 30);
  fake_fail_next(WEIR_SUB, WEIR_NOT_SENT, false);
  assert_int_not_equal(weir_limiter_return_leases(w.limiter, &message), WEIR_OK);
  assert_string_not_equal(message.text, "");
  assert_int_equal(lease_held(w.limiter), held);
  fake_forget();
  assert_int_equal(weir_limiter_return_leases(w.limiter, &message), WEIR_OK);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
  assert_int_equal(lease_counts(w.limiter).lease_returned, held);
  held = lease_fill(&w, "k", 30);
  fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, true);
  assert_int_equal(weir_limiter_return_leases(w.limiter, &message), WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(lease_counts(w.limiter).lease_lost, held);
  fake_forget();
  assert_int_equal(weir_limiter_return_leases(w.limiter, &message), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 0);
  world_close(&w);
}

/* The lots in the stock were charged: they are used while the store is away, then the policy
 * answers.
 */
static void a_lot_outlives_the_store(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    world w;
    weir_decision decision;
    open_alone(&w, rules[i], 20 * SECOND_US);
    int64_t held = lease_fill(&w, "k", 8);
    the_fake.scripted = true;
    for (size_t n = 0; n < FAKE_ANSWERS_MOST; n++)
      the_fake.outcomes[n] = WEIR_NOT_SENT;
    for (int64_t n = 0; n < held; n++)
      assert_true(world_take(&w, "k", 1).allowed);
    assert_int_not_equal(take(&w, &decision), WEIR_OK);
    the_fake.scripted = false;
    assert_int_equal(lease_held(w.limiter), 0);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_certain_answer_in_time_grants),
      cmocka_unit_test(an_answer_that_is_lost_grants_nothing),
      cmocka_unit_test(an_answer_that_is_late_grants_nothing),
      cmocka_unit_test(a_return_that_was_not_sent_is_owed_again),
      cmocka_unit_test(a_return_without_an_answer_is_dropped),
      cmocka_unit_test(whoever_asks_for_the_return_is_told_of_its_failure),
      cmocka_unit_test(a_lot_outlives_the_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
