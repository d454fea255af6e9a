/* reserve, then refund by the reservation's own decision, then cancel: nothing goes back twice. On
 * every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/stores.h"
#include "limiter/world.h"

static const weir_limiter_options patient = {.deadline_us = 20 * SECOND_US};

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  world_open(w, stores_url(store, url), rules, &patient);
}

static weir_request request_of(const char *key, int64_t cost) {
  return (weir_request){.key = key, .key_length = strlen(key), .cost = cost};
}

static void cancel(weir_reservation *reservation) {
  weir_message message = {""};
  weir_status status = weir_reservation_cancel(reservation, &message);
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
  weir_reservation_destroy(reservation);
}

/* A peek by a limiter that knows nothing yet. */
static weir_decision look(world *w, const char *rules) {
  weir_limiter *limiter = world_limiter(w, rules, &patient);
  weir_decision decision = limiter_peek(limiter, "k", 1);
  weir_limiter_destroy(limiter);
  return decision;
}

static const char *const that_give_back[] = {
    "fixed-window:9/1h",
    "sliding-window:9/1h",
    "sliding-window:9/1h,cells=16,strict",
    "quota:9/1h",
    "token-bucket:9/1h",
    "fixed-window:9/1h;sliding-window:9/1d;quota:9/1h;token-bucket:9/1d",
};
enum { THAT_GIVE_BACK = sizeof that_give_back / sizeof that_give_back[0] };

static weir_reservation *reserve_in_place(weir_limiter *limiter, weir_request *request) {
  weir_reservation *made;
  assert_int_equal(weir_limiter_reserve(limiter, request, &made, NULL), WEIR_OK);
  assert_non_null(made);
  return made;
}

static void refund(world *w, weir_decision *taken, int64_t cost) {
  weir_message message = {""};
  if (weir_limiter_refund(w->limiter, "k", 1, cost, taken, &message) != WEIR_OK)
    fail_msg("%s", message.text);
}

static void what_was_refunded_is_not_there_to_cancel(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < THAT_GIVE_BACK; i++) {
      for (int64_t first = 2; first <= 5; first += 3) {
        world w;
        open_on(&w, store, that_give_back[i]);
        world_take(&w, "k", 4);
        weir_request request = request_of("k", 5);
        weir_reservation *reservation = reserve_in_place(w.limiter, &request);
        refund(&w, &request.decision, first);
        assert_int_equal(look(&w, that_give_back[i]).remaining, first);
        cancel(reservation);
        assert_int_equal(look(&w, that_give_back[i]).remaining, 5);
        world_close(&w);
      }
    }
  }
}

/* A refund leaves a bucket what has a delay; the place can still be cancelled. */
static void a_place_that_no_refund_gave_back_is_there_to_cancel(void **state) {
  static const char rules[] = "fixed-window:9/1h;token-bucket:1/1s,burst=2";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, rules);
    world_take(&w, "k", 2);
    weir_request request = request_of("k", 2);
    request.longest_wait_us = 30 * SECOND_US;
    weir_reservation *reservation = reserve_in_place(w.limiter, &request);
    assert_int_equal(request.decision.delay_us, 2 * SECOND_US);
    refund(&w, &request.decision, 2);
    cancel(reservation);
    assert_int_equal(look(&w, "fixed-window:9/1h").remaining, 7);
    assert_int_equal(look(&w, "token-bucket:1/1s,burst=2").reset_after_us,
                     (stores[store].swaps ? 2 : 4) * SECOND_US);
    world_close(&w);
  }
}

/* One request, used twice: what it says now is what the second was charged. */
static void a_decision_is_that_of_the_last_made_in_its_place(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:9/1h", NULL);
  weir_request request = request_of("k", 2);
  weir_reservation *first = reserve_in_place(w.limiter, &request);
  weir_reservation *second = reserve_in_place(w.limiter, &request);
  refund(&w, &request.decision, 2);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 7);
  cancel(second);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 7);
  cancel(first);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 9);
  world_close(&w);
}

/* The place in memory alone says nothing. */
static void another_decision_in_the_same_place_is_another(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:9/1h", NULL);
  weir_request request = request_of("k", 2);
  weir_reservation *reservation = reserve_in_place(w.limiter, &request);
  world_set(&w, 1);
  request.decision = world_take(&w, "k", 3);
  refund(&w, &request.decision, 3);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 7);
  cancel(reservation);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 9);
  world_close(&w);
}

static void a_refund_whose_answer_is_lost_is_not_there_to_cancel(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:9/1h", NULL);
  weir_request request = request_of("k", 3);
  weir_reservation *reservation = reserve_in_place(w.limiter, &request);
  fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, true);
  assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 3, &request.decision, NULL),
                   WEIR_UNKNOWN_OUTCOME);
  cancel(reservation);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 9);
  world_close(&w);
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_refunded_is_not_there_to_cancel),
      cmocka_unit_test(a_place_that_no_refund_gave_back_is_there_to_cancel),
      cmocka_unit_test(a_decision_is_that_of_the_last_made_in_its_place),
      cmocka_unit_test(another_decision_in_the_same_place_is_another),
      cmocka_unit_test(a_refund_whose_answer_is_lost_is_not_there_to_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
