/* Many places entered, and left, at once: of several limiters and keys. On every store, by a clock that
 * the test moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

#define RULE "in-flight:2/1m"
#define PERIOD_US (60 * SECOND_US)
#define GUARD_US (PERIOD_US / 16)
#define RUN_UP_US (2 * GUARD_US + WORLD_DEADLINE_US)

enum { PLACES = 40, PLACES_MOST = 200 };

static const weir_limiter_options by_caller = {.deadline_us = WORLD_DEADLINE_US,
                                               .renew = WEIR_RENEW_BY_CALLER};

/* Up to PLACES_MOST requests for places, and what came of them. */
typedef struct crowd {
  int count;
  weir_limiter *limiters[PLACES_MOST];
  weir_request requests[PLACES_MOST];
  weir_reservation *made[PLACES_MOST];
  char keys[PLACES_MOST][8];
} crowd;

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  world_open(w, stores_url(store, url), rules, &by_caller);
}

static void add(crowd *c, weir_limiter *limiter, const char *key) {
  c->limiters[c->count] = limiter;
  snprintf(c->keys[c->count], sizeof c->keys[0], "%s", key);
  c->requests[c->count] =
      (weir_request){.key = c->keys[c->count], .key_length = strlen(key), .cost = 1};
  c->count++;
}

static void enter_all(crowd *c) {
  weir_message message = {""};
  if (weir_reserve_together(c->limiters, c->requests, (size_t)c->count, c->made, &message) !=
      WEIR_OK)
    fail_msg("%s", message.text);
  for (int i = 0; i < c->count; i++) {
    assert_int_equal(c->requests[i].status, WEIR_OK);
    assert_int_equal(c->made[i] != NULL, c->requests[i].decision.allowed);
  }
}

static void leave_all(crowd *c) {
  weir_status statuses[PLACES_MOST];
  weir_status expected[PLACES_MOST];
  weir_status first = WEIR_OK; /* that is not */
  weir_message message = {""};
  for (int i = 0; i < c->count; i++) {
    expected[i] = weir_reservation_held(c->made[i]) ? WEIR_OK : WEIR_PLACE_LOST;
    if (first == WEIR_OK) first = expected[i];
  }
  if (weir_release_together(c->made, (size_t)c->count, statuses, &message) != first)
    fail_msg("%s", message.text);
  for (int i = 0; i < c->count; i++) {
    assert_int_equal(statuses[i], expected[i]);
    assert_false(weir_reservation_held(c->made[i]));
    weir_reservation_destroy(c->made[i]);
  }
}

static weir_limiter_counts counts_of(const weir_limiter *limiter) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &counts);
  return counts;
}

/* Two limiters with ten keys each: one round trip to enter, and one to leave. */
static void many_enter_and_leave_in_one_round_trip(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    crowd c = {0};
    open_on(&w, store, RULE);
    weir_limiter *other =
        world_limiter(&w, "in-flight:30/1m,name=other;fixed-window:100/1h", &by_caller);
    for (int i = 0; i < PLACES; i++) {
      const char key[2] = {(char)('a' + i / 4), '\0'};
      add(&c, i % 2 == 0 ? w.limiter : other, key);
    }
    uint64_t before = counts_of(w.limiter).round_trips + counts_of(other).round_trips;
    enter_all(&c);
    uint64_t entered = counts_of(w.limiter).round_trips + counts_of(other).round_trips;
    assert_int_equal(entered - before, 2); /* one, which both count as theirs */
    for (int i = 0; i < PLACES; i++)
      assert_true(weir_reservation_held(c.made[i]));
    assert_int_equal(counts_of(w.limiter).places_entered, PLACES / 2);
    leave_all(&c);
    uint64_t left = counts_of(w.limiter).round_trips + counts_of(other).round_trips;
    assert_int_equal(left - entered, 2);
    assert_int_equal(counts_of(w.limiter).places_held + counts_of(other).places_held, 0);
    assert_int_equal(counts_of(w.limiter).places_released, PLACES / 2);
    world_set(&w, SECOND_US);
    assert_int_equal(limiter_peek(w.limiter, "a", 1).remaining, 2);
    assert_int_equal(limiter_peek(other, "a", 1).remaining, 30);
    weir_limiter *windows = world_limiter(&w, "fixed-window:100/1h", &by_caller);
    assert_int_equal(limiter_peek(windows, "a", 1).remaining, 98); /* what was used is used */
    weir_limiter_destroy(windows);
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

/* In the order of the requests; each of those that are denied says so. */
static void of_one_key_as_many_enter_as_fit(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    crowd c = {0};
    open_on(&w, store, "in-flight:30/1m");
    for (int i = 0; i < PLACES; i++)
      add(&c, w.limiter, "k");
    enter_all(&c);
    for (int i = 0; i < PLACES; i++)
      assert_int_equal(c.made[i] != NULL, i < 30);
    assert_int_equal(counts_of(w.limiter).places_denied, PLACES - 30);
    c.count = 30;
    uint64_t before = counts_of(w.limiter).round_trips;
    leave_all(&c);
    assert_int_equal(counts_of(w.limiter).round_trips - before, 1);
    world_set(&w, SECOND_US);
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 30);
    world_close(&w);
  }
}

/* However many of other keys stand between them. */
static void those_of_one_key_leave_as_one(void **state) {
  enum { KEYS = PLACES_MOST / 2 };
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    crowd c = {0};
    open_on(&w, store, RULE);
    for (int i = 0; i < PLACES_MOST; i++) {
      char key[8];
      snprintf(key, sizeof key, "k%d", i % KEYS);
      add(&c, w.limiter, key);
    }
    enter_all(&c);
    uint64_t before = counts_of(w.limiter).round_trips;
    leave_all(&c);
    assert_int_equal(counts_of(w.limiter).round_trips - before, 1);
    assert_int_equal(counts_of(w.limiter).places_released, PLACES_MOST);
    world_set(&w, SECOND_US);
    assert_int_equal(limiter_peek(w.limiter, "k7", 1).remaining, 2);
    world_close(&w);
  }
}

/* Each comes off the periods that it has paid, and no other. */
static void those_who_have_paid_more_give_back_more(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    crowd early = {0}, late = {0}, all = {0};
    open_on(&w, store, "in-flight:9/1m");
    for (int i = 0; i < 2; i++)
      add(&early, w.limiter, "k");
    for (int i = 0; i < 3; i++)
      add(&late, w.limiter, "k");
    enter_all(&early);
    world_set(&w, PERIOD_US - RUN_UP_US);
    enter_all(&late); /* have paid ahead */
    for (int i = 0; i < 2; i++) {
      all.made[all.count++] = late.made[i];
      if (i == 0) all.made[all.count++] = early.made[0];
    }
    leave_all(&all);
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 7);
    world_set(&w, PERIOD_US);
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 8);
    assert_true(weir_reservation_held(late.made[2]));
    assert_false(weir_reservation_held(early.made[1])); /* it was not paid for */
    crowd rest = {.count = 2, .made = {late.made[2], early.made[1]}};
    leave_all(&rest);
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 9);
    world_close(&w);
  }
}

/* One that cannot be does not keep others, and is named; what is wrong with the call touches none. */
static void what_is_wrong_is_said_of_each(void **state) {
  world w;
  crowd c = {0};
  weir_message message = {""};
  weir_status statuses[3];
  (void)state;
  world_open(&w, "memory:", RULE, &by_caller);
  for (int i = 0; i < 3; i++)
    add(&c, w.limiter, i == 1 ? "other" : "k");
  c.requests[1].key_length = 0;
  assert_int_equal(weir_reserve_together(c.limiters, c.requests, 3, c.made, &message),
                   WEIR_BAD_KEY);
  assert_non_null(strstr(message.text, "requests[1]: "));
  assert_int_equal(c.requests[1].status, WEIR_BAD_KEY);
  assert_null(c.made[1]);
  assert_true(weir_reservation_held(c.made[0]) && weir_reservation_held(c.made[2]));

  weir_reservation *held[3] = {c.made[0], NULL, c.made[2]};
  assert_int_equal(weir_release_together(held, 3, statuses, &message), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "reservations[1] is NULL"));
  assert_int_equal(weir_release_together(held, 0, statuses, &message), WEIR_BAD_ARGUMENT);
  assert_int_equal(weir_release_together(held, WEIR_BATCH_MOST + 1, NULL, &message),
                   WEIR_BAD_ARGUMENT);
  assert_int_equal(weir_reserve_together(c.limiters, c.requests, 0, held, &message),
                   WEIR_BAD_ARGUMENT);
  assert_int_equal(
      weir_reserve_together((weir_limiter *[]){w.limiter, NULL}, c.requests, 2, held, &message),
      WEIR_BAD_ARGUMENT);
  assert_true(weir_reservation_held(c.made[0]));

  held[1] = c.made[0]; /* twice */
  assert_int_equal(weir_release_together(held, 3, statuses, &message), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "reservations[1]: "));
  assert_non_null(strstr(message.text, "committed before"));
  assert_int_equal(statuses[0], WEIR_OK);
  assert_int_equal(statuses[1], WEIR_BAD_ARGUMENT);
  assert_int_equal(statuses[2], WEIR_OK);
  assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 2);
  weir_request first = {.key = "a", .key_length = 1, .cost = 1}; /* its key comes before "k" */
  assert_int_equal(weir_limiter_reserve(w.limiter, &first, &held[1], &message), WEIR_OK);
  assert_int_equal(weir_release_together(held, 2, statuses, &message), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "reservations[0]: "));
  assert_int_equal(statuses[0], WEIR_BAD_ARGUMENT);
  assert_int_equal(statuses[1], WEIR_OK);
  weir_reservation_destroy(held[1]);
  weir_reservation_destroy(c.made[0]);
  weir_reservation_destroy(c.made[2]);
  world_close(&w);
}

/* A settled request is no reservation; that one is refused keeps no other from being made once. */
static void a_settlement_is_refused_beside_others(void **state) {
  static const char *const rules[] = {"in-flight:5/1m", "fixed-window:5/1m", "token-bucket:5/1m"};
  (void)state;
  for (size_t n = 0; n < sizeof rules / sizeof rules[0] * STORES; n++) {
    const char *rule = rules[n / STORES];
    weir_message message = {""};
    world w;
    crowd c = {0};
    open_on(&w, (int)(n % STORES), rule);
    for (int i = 0; i < 3; i++)
      add(&c, w.limiter, "k");
    c.requests[1].flags = WEIR_REQUEST_SETTLE;
    assert_int_equal(weir_reserve_together(c.limiters, c.requests, 3, c.made, &message),
                     WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, "requests[1]: "));
    assert_null(c.made[1]);
    for (int i = 0; i < 3; i++)
      assert_int_equal(c.requests[i].status, i == 1 ? WEIR_BAD_ARGUMENT : WEIR_OK);
    assert_non_null(c.made[0]);
    assert_non_null(c.made[2]);
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 3);
    for (int i = 0; i < 3; i += 2) {
      assert_int_equal(weir_reservation_cancel(c.made[i], NULL), WEIR_OK);
      weir_reservation_destroy(c.made[i]);
    }
    assert_int_equal(limiter_peek(w.limiter, "k", 1).remaining, 5);
    world_close(&w);
  }
}

/* A place that a lease keeps is had without the store, beside what is not. */
static void empty_places_are_had_at_once(void **state) {
  world w;
  crowd c = {0};
  (void)state;
  world_open(&w, "memory:", "in-flight:3/1m,lease=1s", &by_caller);
  for (int i = 0; i < 2; i++)
    add(&c, w.limiter, "k");
  enter_all(&c);
  leave_all(&c);
  add(&c, w.limiter, "k");
  add(&c, w.limiter, "k");
  enter_all(&c);
  for (int i = 0; i < 4; i++)
    assert_int_equal(c.made[i] != NULL, i < 3);
  for (int i = 0; i < 3; i++)
    assert_int_equal(c.requests[i].decision.source, i < 2 ? WEIR_SOURCE_LOCAL : WEIR_SOURCE_STORE);
  c.count = 3;
  leave_all(&c);
  world_close(&w);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_enter_and_leave_in_one_round_trip),
      cmocka_unit_test(of_one_key_as_many_enter_as_fit),
      cmocka_unit_test(those_of_one_key_leave_as_one),
      cmocka_unit_test(those_who_have_paid_more_give_back_more),
      cmocka_unit_test(what_is_wrong_is_said_of_each),
      cmocka_unit_test(a_settlement_is_refused_beside_others),
      cmocka_unit_test(empty_places_are_had_at_once),
  };
  stores_start();
  return cmocka_run_group_tests_name("limiter in flight together", tests, NULL, NULL);
}
