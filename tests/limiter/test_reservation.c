/* reserve, then commit or cancel. On every store. */
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

static weir_reservation *reserve(weir_limiter *limiter, weir_request request) {
  weir_reservation *made;
  weir_message message = {""};
  if (weir_limiter_reserve(limiter, &request, &made, &message) != WEIR_OK)
    fail_msg("%s: %s", weir_status_name(request.status), message.text);
  assert_int_equal(made != NULL, request.decision.allowed);
  return made;
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

static void assert_same(weir_decision before, weir_decision after) {
  assert_int_equal(after.allowed, before.allowed);
  assert_int_equal(after.remaining, before.remaining);
  assert_int_equal(after.retry_after_us, before.retry_after_us);
  assert_int_equal(after.reset_after_us, before.reset_after_us);
}

/* Its window stays open, and whoever looks is told so. */
static void a_cancelled_reservation_of_a_quota_leaves_its_window_open(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "quota:10/1m");
    assert_allowed(look(&w, "quota:10/1m"), 10, 0);
    cancel(reserve(w.limiter, request_of("k", 10)));
    world_set(&w, 59 * SECOND_US);
    assert_allowed(look(&w, "quota:10/1m"), 10, SECOND_US);
    assert_allowed(world_take(&w, "k", 10), 0, SECOND_US);
    world_set(&w, 60 * SECOND_US);
    assert_allowed(world_take(&w, "k", 10), 0, 60 * SECOND_US);
    world_close(&w);
  }
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

static void a_cancel_restores_exactly_what_was_there(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < THAT_GIVE_BACK; i++) {
      world w;
      open_on(&w, store, that_give_back[i]);
      world_take(&w, "k", 2);
      weir_decision before = look(&w, that_give_back[i]);
      weir_reservation *reservation = reserve(w.limiter, request_of("k", 3));
      assert_int_equal(look(&w, that_give_back[i]).remaining, 4);
      cancel(reservation);
      assert_same(before, look(&w, that_give_back[i]));
      assert_same(before, world_peek(&w, "k", 1));
      world_close(&w);
    }
  }
}

static void a_reservation_that_is_forgotten_or_committed_stays_charged(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < THAT_GIVE_BACK; i++) {
      world w;
      open_on(&w, store, that_give_back[i]);
      weir_reservation_destroy(reserve(w.limiter, request_of("k", 3)));
      weir_reservation *used = reserve(w.limiter, request_of("k", 2));
      assert_int_equal(weir_reservation_commit(used, NULL), WEIR_OK);
      weir_reservation_destroy(used);
      assert_int_equal(look(&w, that_give_back[i]).remaining, 4);
      world_close(&w);
    }
  }
}

/* Half an hour later in a bucket of 10 that lasts 10 hours, and in windows of 1 h. */
static void a_cancel_gives_back_only_what_still_matters(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "token-bucket:1/1h,burst=10");
    weir_reservation *early = reserve(w.limiter, request_of("k", 1));
    weir_reservation *late = reserve(w.limiter, request_of("k", 9));
    world_set(&w, 1800 * SECOND_US);
    cancel(early); /* half of it was refilled */
    weir_decision after = look(&w, "token-bucket:1/1h,burst=10");
    assert_int_equal(after.remaining, 1);
    assert_int_equal(after.reset_after_us, 9 * 3600 * SECOND_US);
    world_set(&w, 10 * 3600 * SECOND_US);
    cancel(late);
    assert_int_equal(look(&w, "token-bucket:1/1h,burst=10").remaining, 10);
    world_close(&w);
    open_on(&w, store, "fixed-window:5/1m");
    early = reserve(w.limiter, request_of("k", 2));
    world_set(&w, 60 * SECOND_US);
    world_take(&w, "k", 3);
    cancel(early); /* of the window before */
    assert_int_equal(look(&w, "fixed-window:5/1m").remaining, 2);
    world_close(&w);
  }
}

static void a_place_in_a_queue_goes_back_only_as_the_last(void **state) {
  static const char rules[] = "leaky-bucket:1/1s,queue=9";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, rules);
    weir_reservation *places[4];
    for (size_t i = 0; i < 4; i++)
      places[i] = reserve(w.limiter, request_of("k", 1));
    cancel(places[1]); /* 2 and 3 wait behind it */
    assert_int_equal(look(&w, rules).remaining, 6);
    cancel(places[3]);
    cancel(places[2]);
    assert_int_equal(look(&w, rules).remaining, stores[store].swaps ? 8 : 6);
    cancel(places[0]);
    assert_int_equal(look(&w, rules).remaining, stores[store].swaps ? 8 : 6);
    world_close(&w);
  }
}

/* A caller that waits behind a slot of a token bucket was promised a time by it. */
static void a_slot_that_is_waited_for_goes_back_only_as_the_last(void **state) {
  static const char rules[] = "token-bucket:1/1s,burst=2";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_reservation *slots[3];
    weir_request request = request_of("k", 2);
    request.longest_wait_us = 30 * SECOND_US;
    open_on(&w, store, rules);
    for (size_t i = 0; i < 3; i++)
      slots[i] = reserve(w.limiter, request);
    weir_decision full = look(&w, rules);
    assert_int_equal(full.reset_after_us, 6 * SECOND_US);
    cancel(slots[1]);
    assert_same(full, look(&w, rules));
    cancel(slots[2]);
    assert_int_equal(look(&w, rules).reset_after_us, (stores[store].swaps ? 4 : 6) * SECOND_US);
    cancel(slots[0]); /* it had no delay, but one waits behind it */
    assert_int_equal(look(&w, rules).reset_after_us, (stores[store].swaps ? 4 : 6) * SECOND_US);
    world_close(&w);
  }
}

static void a_log_keeps_what_was_reserved(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "sliding-log:5/1h;fixed-window:9/1h");
    cancel(reserve(w.limiter, request_of("k", 1)));
    assert_int_equal(look(&w, "sliding-log:5/1h").remaining, 4);
    assert_int_equal(look(&w, "fixed-window:9/1h").remaining, 9);
    world_close(&w);
  }
}

/* The caller's memory is its own business after the reservation. */
static void a_reservation_remembers_key_and_costs_by_itself(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    char key[] = "k";
    int64_t costs[] = {3, 0, 2};
    weir_request request = {.key = key, .key_length = 1, .costs = costs};
    open_on(&w, store, "fixed-window:9/1h;quota:9/1h;token-bucket:9/1h");
    weir_reservation *reservation = reserve(w.limiter, request);
    key[0] = 'x';
    costs[0] = costs[1] = costs[2] = 1;
    assert_int_equal(look(&w, "fixed-window:9/1h").remaining, 6);
    assert_int_equal(look(&w, "token-bucket:9/1h").remaining, 7);
    cancel(reservation);
    assert_int_equal(look(&w, "fixed-window:9/1h").remaining, 9);
    assert_int_equal(look(&w, "quota:9/1h").remaining, 9);
    assert_int_equal(look(&w, "token-bucket:9/1h").remaining, 9);
    world_close(&w);
  }
}

static void a_cancel_of_up_to_gives_back_what_was_admitted(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_request request = request_of("k", 8);
    request.flags = WEIR_REQUEST_UP_TO;
    open_on(&w, store, "fixed-window:9/1h;token-bucket:5/1h");
    world_take(&w, "k", 1);
    weir_reservation *reservation = reserve(w.limiter, request);
    assert_int_equal(look(&w, "fixed-window:9/1h").remaining, 4);
    cancel(reservation);
    assert_int_equal(look(&w, "fixed-window:9/1h").remaining, 8);
    assert_int_equal(look(&w, "token-bucket:5/1h").remaining, 4);
    world_close(&w);
  }
}

static void a_denied_request_reserves_nothing(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:5/1h;token-bucket:3/1h");
    weir_reservation *reservation = reserve(w.limiter, request_of("k", 3));
    assert_null(reserve(w.limiter, request_of("k", 1)));
    assert_null(reserve(w.limiter, request_of("k", 6))); /* never */
    assert_int_equal(look(&w, "fixed-window:5/1h").remaining, 2);
    weir_reservation_destroy(reservation);
    world_close(&w);
  }
}

/* --- misuse ------------------------------------------------------------------------------------
 */

static void assert_over(weir_status (*end)(weir_reservation *, weir_message *),
                        weir_reservation *reservation, const char *how) {
  weir_message message = {""};
  assert_int_equal(end(reservation, &message), WEIR_BAD_ARGUMENT);
  if (strstr(message.text, how) == NULL) fail_msg("\"%s\" lacks \"%s\"", message.text, how);
  assert_int_equal(end(reservation, NULL), WEIR_BAD_ARGUMENT);
}

static void a_reservation_ends_once(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:9/1h", NULL);
  weir_reservation *committed = reserve(w.limiter, request_of("k", 2));
  weir_reservation *cancelled = reserve(w.limiter, request_of("k", 3));
  assert_int_equal(weir_reservation_commit(committed, NULL), WEIR_OK);
  assert_int_equal(weir_reservation_cancel(cancelled, NULL), WEIR_OK);
  fake_forget();
  assert_over(weir_reservation_commit, committed, "committed");
  assert_over(weir_reservation_cancel, committed, "committed");
  assert_over(weir_reservation_commit, cancelled, "cancelled");
  assert_over(weir_reservation_cancel, cancelled, "cancelled");
  assert_over(weir_reservation_commit, NULL, "NULL");
  assert_over(weir_reservation_cancel, NULL, "NULL");
  assert_int_equal(the_fake.counts.commands, 0);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 7);
  weir_reservation_destroy(committed);
  weir_reservation_destroy(cancelled);
  weir_reservation_destroy(NULL);
  world_close(&w);
}

/* Whether the answer was lost before or after the server did it: it is never sent again. */
static void a_cancel_whose_answer_is_lost_is_over(void **state) {
  (void)state;
  for (int executed = 0; executed < 2; executed++) {
    world w;
    world_open_backend(&w, &fake_backend, "fake:", "fixed-window:9/1h", NULL);
    weir_reservation *reservation = reserve(w.limiter, request_of("k", 3));
    fake_forget();
    fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, executed != 0);
    assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_UNKNOWN_OUTCOME);
    assert_over(weir_reservation_cancel, reservation, "cancelled");
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    weir_reservation_destroy(reservation);
    assert_int_equal(world_peek(&w, "k", 1).remaining, executed ? 9 : 6);
    world_close(&w);
  }
}

static void a_cancel_of_what_is_gone_gives_nothing_back(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_message message = {""};
    open_on(&w, store, "fixed-window:9/1h;token-bucket:9/1h");
    weir_reservation *reservation = reserve(w.limiter, request_of("k", 3));
    world_reset(&w, "k");
    world_take(&w, "k", 2);
    assert_int_equal(weir_reservation_cancel(reservation, &message), WEIR_BAD_COST);
    assert_non_null(strstr(message.text, "less"));
    assert_int_equal(look(&w, "fixed-window:9/1h").remaining, 7);
    assert_int_equal(look(&w, "token-bucket:9/1h").remaining, 7);
    weir_reservation_destroy(reservation);
    world_close(&w);
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cancelled_reservation_of_a_quota_leaves_its_window_open),
      cmocka_unit_test(a_cancel_restores_exactly_what_was_there),
      cmocka_unit_test(a_reservation_that_is_forgotten_or_committed_stays_charged),
      cmocka_unit_test(a_cancel_gives_back_only_what_still_matters),
      cmocka_unit_test(a_place_in_a_queue_goes_back_only_as_the_last),
      cmocka_unit_test(a_slot_that_is_waited_for_goes_back_only_as_the_last),
      cmocka_unit_test(a_log_keeps_what_was_reserved),
      cmocka_unit_test(a_reservation_remembers_key_and_costs_by_itself),
      cmocka_unit_test(a_cancel_of_up_to_gives_back_what_was_admitted),
      cmocka_unit_test(a_denied_request_reserves_nothing),
      cmocka_unit_test(a_reservation_ends_once),
      cmocka_unit_test(a_cancel_whose_answer_is_lost_is_over),
      cmocka_unit_test(a_cancel_of_what_is_gone_gives_nothing_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
