/* A limiter's answers when its store gives none, and what it leaves behind. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"

/* A deadline that a busy machine keeps, and still shorter than a cell. */
#define PATIENT_US (10 * SECOND_US)

/* With read finished cells every time, so that a decision is one ADD and one GET. */
static void open_spy(world *w) {
  weir_limiter_options options = {.deadline_us = PATIENT_US, .flags = WEIR_NO_CACHED_CELLS};
  world_open_backend(w, &fake_backend, "fake:", "sliding-window:9/1m", &options);
}

static weir_limiter *patient_limiter(world *w, const char *rules) {
  return world_limiter(w, rules, &(weir_limiter_options){.deadline_us = PATIENT_US});
}

static weir_status take_with_fault(world *w, weir_operation_kind kind, weir_outcome outcome,
                                   bool executed) {
  weir_decision decision;
  weir_message message = {""};
  fake_forget();
  fake_fail_next(kind, outcome, executed);
  weir_status status = weir_limiter_take(w->limiter, "k", 1, 2, &decision, &message);
  assert_string_equal(message.text, "the fake made operation 0 fail");
  return status;
}

static void an_addition_that_was_not_sent_charges_nothing(void **state) {
  world w;
  (void)state;
  open_spy(&w);
  assert_int_equal(take_with_fault(&w, WEIR_ADD, WEIR_NOT_SENT, false), WEIR_UNAVAILABLE);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 9);
  world_close(&w);
}

static void an_addition_that_was_refused_charges_nothing(void **state) {
  world w;
  (void)state;
  open_spy(&w);
  assert_int_equal(take_with_fault(&w, WEIR_ADD, WEIR_REFUSED, false), WEIR_REFUSED_BY_STORE);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 9);
  world_close(&w);
}

/* It may still be executed, so it is neither sent again nor taken back. */
static void an_addition_of_unknown_outcome_is_left_alone(void **state) {
  world w;
  (void)state;
  open_spy(&w);
  assert_int_equal(take_with_fault(&w, WEIR_ADD, WEIR_UNKNOWN, true), WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 7);
  world_close(&w);
}

static void a_charge_whose_read_failed_goes_back(void **state) {
  world w;
  weir_message message = {""};
  weir_decision decision;
  (void)state;
  open_spy(&w);
  fake_fail_next(WEIR_GET, WEIR_UNKNOWN, true);
  assert_int_equal(weir_limiter_take(w.limiter, "k", 1, 2, &decision, &message), WEIR_UNAVAILABLE);
  assert_string_equal(message.text, "the fake made operation 1 fail");
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 9);
  world_close(&w);
}

static void a_denial_stands_when_its_charge_cannot_go_back(void **state) {
  world w;
  (void)state;
  open_spy(&w);
  world_take(&w, "k", 8);
  fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, false);
  assert_false(world_take(&w, "k", 2).allowed);
  world_set(&w, 50000);
  assert_false(world_take(&w, "k", 1).allowed); /* 8 and the 2 that stayed */
  world_close(&w);
}

static void a_key_is_looked_at_first_after_a_failure(void **state) {
  world w;
  (void)state;
  open_spy(&w);
  take_with_fault(&w, WEIR_ADD, WEIR_UNKNOWN, true);
  fake_forget();
  assert_true(world_take(&w, "k", 1).allowed);
  assert_int_equal(the_fake.counts.round_trips, 2);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
  world_close(&w);
}

static void a_backend_that_breaks_its_contract_is_named(void **state) {
  world w;
  weir_message message = {""};
  weir_decision decision;
  (void)state;
  open_spy(&w);
  fake_fail_next(WEIR_ADD, WEIR_CONFLICT, true);
  assert_int_equal(weir_limiter_take(w.limiter, "k", 1, 2, &decision, &message),
                   WEIR_UNKNOWN_OUTCOME);
  assert_non_null(strstr(message.text, "backend fake broke its contract"));
  world_close(&w);
}

/* The charge is executed, but its answer comes when the deadline, reserve and all, is over: there
 * is no time left to take it back, and the caller is told so. Where a busy machine lets the time
 * pass before the charge, nothing was charged, and it is tried again. */
static void a_late_answer_admits_nobody(void **state) {
  world w;
  weir_limiter_options options = {.deadline_us = 5000};
  weir_status status = WEIR_TIMEOUT;
  weir_decision decision;
  weir_message message = {""};
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "sliding-window:9/1m", &options);
  the_fake.delay_us = 20000;
  weir_limiter *patient = patient_limiter(&w, "sliding-window:9/1m");
  for (int tries = 0; status == WEIR_TIMEOUT && tries < 1000; tries++)
    status = weir_limiter_take(w.limiter, "k", 1, 2, &decision, &message);
  assert_int_equal(status, WEIR_UNKNOWN_OUTCOME);
  assert_true(message.text[0] != '\0');
  the_fake.delay_us = 0;
  assert_int_equal(limiter_peek(patient, "k", 1).remaining, 9 - 2);
  weir_limiter_destroy(patient);
  world_close(&w);
}

typedef struct waiter {
  weir_limiter *limiter;
  pthread_barrier_t *start;
  weir_status status;
  int64_t took_us;
} waiter;

static void *take_in_thread(void *context) {
  waiter *mine = context;
  weir_decision decision;
  pthread_barrier_wait(mine->start);
  int64_t began_us = weir_monotonic_us();
  mine->status = weir_limiter_take(mine->limiter, "k", 1, 9, &decision, NULL);
  mine->took_us = weir_monotonic_us() - began_us;
  return NULL;
}

/* Each needs a round trip of its own that outlasts the deadline, so those behind give up in line.
 * One after the other, the last would take longer than anybody may. */
static void nobody_waits_in_line_beyond_the_deadline(void **state) {
  enum { THREADS = 6, DELAY_US = 1000000 };
  world w;
  weir_limiter_options options = {.deadline_us = 50000};
  pthread_barrier_t start;
  waiter waiters[THREADS];
  pthread_t threads[THREADS];
  int timeouts = 0;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:9/1m", &options);
  weir_limiter *patient = patient_limiter(&w, "fixed-window:9/1m");
  pthread_barrier_init(&start, NULL, THREADS);
  the_fake.delay_us = DELAY_US;
  for (size_t i = 0; i < THREADS; i++) {
    waiters[i] = (waiter){.limiter = w.limiter, .start = &start};
    assert_int_equal(pthread_create(&threads[i], NULL, take_in_thread, &waiters[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    timeouts += waiters[i].status == WEIR_TIMEOUT;
    assert_true(waiters[i].status != WEIR_OK);
    assert_true(waiters[i].took_us < (THREADS - 1) * DELAY_US);
  }
  assert_true(timeouts >= 1);
  pthread_barrier_destroy(&start);
  the_fake.delay_us = 0;
  assert_true(limiter_take(patient, "other", 9).allowed);
  weir_limiter_destroy(patient);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_addition_that_was_not_sent_charges_nothing),
      cmocka_unit_test(an_addition_that_was_refused_charges_nothing),
      cmocka_unit_test(an_addition_of_unknown_outcome_is_left_alone),
      cmocka_unit_test(a_charge_whose_read_failed_goes_back),
      cmocka_unit_test(a_denial_stands_when_its_charge_cannot_go_back),
      cmocka_unit_test(a_key_is_looked_at_first_after_a_failure),
      cmocka_unit_test(a_backend_that_breaks_its_contract_is_named),
      cmocka_unit_test(a_late_answer_admits_nobody),
      cmocka_unit_test(nobody_waits_in_line_beyond_the_deadline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
