/* The life of a place: entering, paying again, losing, leaving. On every store, by a clock that the
 * test moves, with a caller that renews. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <weir/backend.h>

#include "limiter/stores.h"
#include "limiter/world.h"

#define RULE "in-flight:2/1m"
#define PERIOD_US (60 * SECOND_US)
#define GUARD_US (PERIOD_US / 16)
#define RUN_UP_US (2 * GUARD_US + WORLD_DEADLINE_US)

static const weir_limiter_options by_caller = {.deadline_us = WORLD_DEADLINE_US,
                                               .renew = WEIR_RENEW_BY_CALLER};

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  world_open(w, stores_url(store, url), rules, &by_caller);
}

static weir_reservation *enter_cost(weir_limiter *limiter, const char *key, int64_t cost) {
  weir_request request = {.key = key, .key_length = strlen(key), .cost = cost};
  weir_reservation *made;
  weir_message message = {""};
  if (weir_limiter_reserve(limiter, &request, &made, &message) != WEIR_OK)
    fail_msg("%s: %s", weir_status_name(request.status), message.text);
  assert_int_equal(made != NULL, request.decision.allowed);
  return made;
}

static weir_reservation *enter(weir_limiter *limiter) {
  return enter_cost(limiter, "k", 1);
}

static void leave(weir_reservation *place) {
  weir_message message = {""};
  weir_status expected = weir_reservation_held(place) ? WEIR_OK : WEIR_PLACE_LOST;
  weir_status status = weir_reservation_commit(place, &message);
  if (status != expected) fail_msg("%s: %s", weir_status_name(status), message.text);
  assert_false(weir_reservation_held(place));
  weir_reservation_destroy(place);
}

static int64_t renew(weir_limiter *limiter) {
  weir_message message = {""};
  int64_t next_us;
  weir_status status = weir_limiter_renew(limiter, &next_us, &message);
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
  return next_us;
}

/* Another process, as far as the store can tell. */
static int64_t room(world *w) {
  weir_limiter *other = world_limiter(w, RULE, &by_caller);
  int64_t remaining = limiter_peek(other, "k", 1).remaining;
  weir_limiter_destroy(other);
  return remaining;
}

static weir_limiter_counts counts_of(const weir_limiter *limiter) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &counts);
  return counts;
}

static void as_many_are_held_as_the_rule_says(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, RULE);
    weir_limiter *other = world_limiter(&w, RULE, &by_caller);
    weir_reservation *first = enter(w.limiter);
    weir_reservation *second = enter(other);
    assert_true(weir_reservation_held(first));
    assert_true(weir_reservation_held_until_us(first) == START_US + PERIOD_US - GUARD_US);
    assert_null(enter(w.limiter));
    assert_null(enter(other));
    leave(second);
    world_set(&w, SECOND_US);
    weir_reservation *third = enter(w.limiter);
    assert_non_null(third);
    assert_true(weir_reservation_token(third) > weir_reservation_token(first));
    leave(first);
    leave(third);
    assert_int_equal(room(&w), 2);
    weir_limiter_counts counts = counts_of(w.limiter);
    assert_int_equal(counts.places_held, 0);
    assert_int_equal(counts.places_entered, 2);
    assert_int_equal(counts.places_denied, 1);
    assert_int_equal(counts.places_released, 2);
    assert_int_equal(counts.places_lost, 0);
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

static void what_is_held_is_paid_for_in_every_period(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, RULE);
    assert_int_equal(renew(w.limiter), WEIR_NEVER);
    weir_reservation *first = enter(w.limiter);
    weir_reservation *second = enter(w.limiter);
    assert_int_equal(renew(w.limiter), PERIOD_US - RUN_UP_US);
    for (int period = 1; period <= 3; period++) {
      world_set(&w, period * PERIOD_US - RUN_UP_US - 1);
      assert_int_equal(renew(w.limiter), 1);
      assert_int_equal(counts_of(w.limiter).renewals, period - 1);
      world_set(&w, period * PERIOD_US - RUN_UP_US);
      renew(w.limiter);
      assert_int_equal(counts_of(w.limiter).renewals, period); /* one for both */
      assert_true(weir_reservation_held_until_us(first) ==
                  START_US + (period + 1) * PERIOD_US - GUARD_US);
      world_set(&w, period * PERIOD_US);
      assert_true(weir_reservation_held(first) && weir_reservation_held(second));
      assert_int_equal(room(&w), 0);
    }
    leave(first);
    leave(second);
    assert_int_equal(room(&w), 2);
    assert_int_equal(renew(w.limiter), WEIR_NEVER);
    world_close(&w);
  }
}

/* An entry in the run-up has paid for both epochs, and leaves both. */
static void who_enters_late_pays_ahead(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, RULE);
    world_set(&w, PERIOD_US - RUN_UP_US);
    weir_reservation *first = enter(w.limiter);
    weir_reservation *second = enter(w.limiter);
    assert_true(weir_reservation_held_until_us(first) == START_US + 2 * PERIOD_US - GUARD_US);
    renew(w.limiter);
    assert_int_equal(counts_of(w.limiter).renewals, 0);
    leave(second);
    world_set(&w, PERIOD_US);
    assert_int_equal(room(&w), 1);
    assert_true(weir_reservation_held(first));
    leave(first);
    assert_int_equal(room(&w), 2);
    world_close(&w);
  }
}

/* Paid for too late: for good, whatever is paid or said later. */
static void what_is_not_paid_for_in_time_is_lost(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, RULE);
    weir_reservation *lost = enter(w.limiter);
    world_set(&w, PERIOD_US - GUARD_US - 1);
    assert_true(weir_reservation_held(lost));
    world_set(&w, PERIOD_US - GUARD_US);
    renew(w.limiter);
    assert_int_equal(counts_of(w.limiter).places_lost, 1);
    assert_int_equal(counts_of(w.limiter).renewals, 0);
    assert_false(weir_reservation_held(lost));
    assert_int_equal(weir_reservation_held_until_us(lost), 0);
    world_set(&w, PERIOD_US);
    assert_int_equal(room(&w), 2);
    world_set(&w, 0); /* a clock that is set back does not bring it back */
    assert_false(weir_reservation_held(lost));
    leave(lost);
    world_close(&w);
  }
}

/* However it ends. The other rules' charges are settled all the same. */
static void every_end_tells_that_the_place_was_lost(void **state) {
  (void)state;
  for (int end = 0; end < 3; end++) {
    world w;
    int64_t real[] = {1, 3};
    open_on(&w, 0, RULE ";quota:9/30d");
    weir_reservation *lost = enter(w.limiter);
    world_set(&w, PERIOD_US);
    weir_message message = {""};
    weir_status status = end == 0   ? weir_reservation_commit(lost, &message)
                         : end == 1 ? weir_reservation_cancel(lost, &message)
                                    : weir_reservation_settle(lost, real, &message);
    assert_int_equal(status, WEIR_PLACE_LOST);
    assert_non_null(strstr(message.text, "the place was lost"));
    assert_int_equal(real[1], 3);
    assert_int_equal(weir_reservation_commit(lost, &message), WEIR_BAD_ARGUMENT); /* it is over */
    weir_decision peeked;
    weir_limiter *quota = world_limiter(&w, "quota:9/30d", &by_caller);
    assert_int_equal(weir_limiter_peek(quota, "k", 1, 1, &peeked, NULL), WEIR_OK);
    static const int64_t left[] = {8, 9, 6};
    assert_int_equal(peeked.remaining, left[end]);
    weir_limiter_destroy(quota);
    weir_reservation_destroy(lost);
    world_close(&w);
  }
}

/* A place is left as a whole. Another cost is refused, and it is held as before. */
static void a_settlement_leaves_the_place_whatever_it_cost(void **state) {
  (void)state;
  for (int cost = 0; cost < 2; cost++) {
    world w;
    weir_message message = {""};
    open_on(&w, 0, RULE ";quota:9/30d");
    weir_reservation *place = enter(w.limiter);
    int64_t other[] = {2, 3};
    assert_int_equal(weir_reservation_settle(place, other, &message), WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, "rule 1 (in-flight) cannot be settled"));
    assert_int_equal(other[0], 2);
    assert_int_equal(other[1], 3);
    assert_true(weir_reservation_held(place));
    assert_int_equal(room(&w), 1);
    int64_t real[] = {cost, 3};
    assert_int_equal(weir_reservation_settle(place, real, &message), WEIR_OK);
    assert_int_equal(real[0], 0);
    assert_int_equal(real[1], 3);
    assert_false(weir_reservation_held(place));
    assert_int_equal(room(&w), 2);
    weir_reservation_destroy(place);
    world_close(&w);
  }
}

static void weights_and_keys_count_apart(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "in-flight:10/1m");
    weir_reservation *seven = enter_cost(w.limiter, "k", 7);
    weir_reservation *other = enter_cost(w.limiter, "other", 10);
    assert_null(enter_cost(w.limiter, "k", 4));
    world_set(&w, SECOND_US);
    weir_reservation *three = enter_cost(w.limiter, "k", 3);
    assert_non_null(three);
    world_set(&w, PERIOD_US - RUN_UP_US);
    renew(w.limiter);
    assert_int_equal(counts_of(w.limiter).renewals, 2);
    world_set(&w, PERIOD_US);
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 0);
    leave(seven);
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 7);
    leave(three);
    leave(other);
    world_close(&w);
  }
}

/* Commit keeps what the other rules were charged, cancel gives that back as well. */
static void a_stack_releases_only_what_it_holds(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "in-flight:2/1m;fixed-window:5/1h");
    leave(enter(w.limiter));
    weir_reservation *cancelled = enter(w.limiter);
    weir_message message = {""};
    assert_int_equal(weir_reservation_cancel(cancelled, &message), WEIR_OK);
    assert_false(weir_reservation_held(cancelled));
    weir_reservation_destroy(cancelled);
    weir_reservation *first = enter(w.limiter);
    weir_reservation *second = enter(w.limiter);
    assert_null(enter(w.limiter));
    leave(first);
    leave(second);
    world_set(&w, SECOND_US);
    weir_limiter *other = world_limiter(&w, "fixed-window:5/1h", &by_caller);
    assert_int_equal(limiter_peek(other, "k", 1).remaining, 2);
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

static void a_place_is_released_once(void **state) {
  world w;
  weir_message message = {""};
  (void)state;
  world_open(&w, "memory:", RULE, &by_caller);
  weir_reservation *place = enter(w.limiter);
  assert_int_equal(weir_reservation_commit(place, &message), WEIR_OK);
  assert_int_equal(weir_reservation_commit(place, &message), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "committed before"));
  assert_int_equal(weir_reservation_cancel(place, &message), WEIR_BAD_ARGUMENT);
  weir_reservation_destroy(place);
  assert_int_equal(room(&w), 2);
  world_close(&w);
}

/* Nothing is asked, nothing is lost. */
static void bad_requests_are_refused(void **state) {
  world w;
  weir_message message = {""};
  weir_decision decision;
  weir_reservation *made;
  weir_limiter *limiter;
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  (void)state;
  world_open(&w, "memory:", RULE, &by_caller);
  assert_int_equal(weir_limiter_take(w.limiter, "k", 1, 1, &decision, &message), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "weir_limiter_reserve"));
  assert_int_equal(weir_limiter_reserve_wait(w.limiter, &request, -1, &made, &message),
                   WEIR_BAD_ARGUMENT);
  assert_null(made);
  assert_int_equal(weir_limiter_reserve_wait(w.limiter, &request, 61 * SECOND_US, &made, &message),
                   WEIR_BAD_ARGUMENT);
  request.key_length = 0;
  assert_int_equal(weir_limiter_reserve_wait(w.limiter, &request, 1, &made, &message),
                   WEIR_BAD_KEY);
  request = (weir_request){.key = "k", .key_length = 1, .cost = 3};
  assert_int_equal(weir_limiter_reserve_wait(w.limiter, &request, SECOND_US, &made, &message),
                   WEIR_OK);
  assert_null(made); /* never, and at once */
  assert_true(request.decision.retry_after_us == WEIR_NEVER);
  weir_limiter_options wrong = {.size = sizeof wrong, .renew = WEIR_RENEW_BY_CALLER + 1};
  assert_int_equal(weir_limiter_create(w.store, RULE, &wrong, &limiter, &message),
                   WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "renew"));
  assert_false(weir_reservation_held(NULL));
  assert_int_equal(weir_reservation_token(NULL), 0);
  assert_int_equal(room(&w), 2);
  world_close(&w);
}

/* A place that is destroyed while it is held is not paid for, and free when its period ends. */
static void a_place_that_is_forgotten_returns(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", RULE, &by_caller);
  weir_reservation_destroy(enter(w.limiter));
  assert_int_equal(room(&w), 1);
  assert_int_equal(renew(w.limiter), WEIR_NEVER);
  world_set(&w, PERIOD_US);
  assert_int_equal(room(&w), 2);
  world_close(&w);
}

/* An empty place is kept for the next caller of the process, and then goes back. */
static void a_lease_keeps_an_empty_place(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "in-flight:2/1m,lease=1s");
    weir_reservation *place = enter(w.limiter);
    uint64_t token = weir_reservation_token(place);
    uint64_t round_trips = counts_of(w.limiter).round_trips;
    leave(place);
    for (int i = 0; i < 100; i++) {
      place = enter(w.limiter);
      assert_true(weir_reservation_held(place));
      assert_true(weir_reservation_token(place) > token);
      token = weir_reservation_token(place);
      leave(place);
    }
    assert_int_equal(counts_of(w.limiter).round_trips, round_trips);
    assert_int_equal(room(&w), 1);
    assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
    assert_int_equal(room(&w), 2);
    world_close(&w);
  }
}

/* 64 keys leave together. */
static void many_keys_are_paid_for_in_few_round_trips(void **state) {
  enum { KEYS = 1000, PLACES = 10 };
  static weir_reservation *places[KEYS][PLACES];
  char key[16];
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "in-flight:10/1m");
    for (int n = 0; n < KEYS; n++) {
      snprintf(key, sizeof key, "%d", n);
      for (int i = 0; i < PLACES; i++)
        places[n][i] = enter_cost(w.limiter, key, 1);
    }
    assert_int_equal(counts_of(w.limiter).places_held, KEYS * PLACES);
    uint64_t round_trips = counts_of(w.limiter).round_trips;
    world_set(&w, PERIOD_US - RUN_UP_US);
    int64_t begin_us = weir_monotonic_us();
    renew(w.limiter);
    print_message("%s: %d places of %d keys in %d us\n", stores[store].name, KEYS * PLACES, KEYS,
                  (int)(weir_monotonic_us() - begin_us));
    assert_int_equal(counts_of(w.limiter).renewals, KEYS);
    assert_int_equal(counts_of(w.limiter).round_trips - round_trips, (KEYS + 63) / 64);
    world_set(&w, PERIOD_US);
    for (int n = 0; n < KEYS; n++) {
      for (int i = 0; i < PLACES; i++) {
        assert_true(weir_reservation_held(places[n][i]));
        leave(places[n][i]);
      }
    }
    world_close(&w);
  }
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_many_are_held_as_the_rule_says),
      cmocka_unit_test(what_is_held_is_paid_for_in_every_period),
      cmocka_unit_test(who_enters_late_pays_ahead),
      cmocka_unit_test(what_is_not_paid_for_in_time_is_lost),
      cmocka_unit_test(every_end_tells_that_the_place_was_lost),
      cmocka_unit_test(a_settlement_leaves_the_place_whatever_it_cost),
      cmocka_unit_test(weights_and_keys_count_apart),
      cmocka_unit_test(a_stack_releases_only_what_it_holds),
      cmocka_unit_test(a_place_is_released_once),
      cmocka_unit_test(bad_requests_are_refused),
      cmocka_unit_test(a_place_that_is_forgotten_returns),
      cmocka_unit_test(a_lease_keeps_an_empty_place),
      cmocka_unit_test(many_keys_are_paid_for_in_few_round_trips),
  };
  stores_start();
  return cmocka_run_group_tests_name("limiter in flight", tests, NULL, NULL);
}
