/* Requests that bring a limit of their own: each is decided as by a rule with that limit which shares the
 * counts. On every store. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

enum { LIMITS = 4, REQUESTS = 150, TEXT_BYTES = 128 };

static uint32_t chance(uint32_t *seed, uint32_t of) {
  *seed = *seed * 1664525U + 1013904223U;
  return (*seed >> 8) % of;
}

static weir_limiter_options patient(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US};
}

static weir_request ask(int64_t cost, unsigned flags) {
  return (weir_request){.key = "k", .key_length = 1, .cost = cost, .flags = flags};
}

static weir_decision decide(weir_limiter *limiter, int64_t limit, weir_request request) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[1] = {&extra};
  weir_message why = {""};
  extra.limit = limit;
  if (weir_decide_extra(&limiter, &request, limit != 0 ? extras : NULL, 1, &why) != WEIR_OK)
    fail_msg("%s", why.text);
  return request.decision;
}

static weir_decision take(weir_limiter *limiter, int64_t limit, int64_t cost) {
  return decide(limiter, limit, ask(cost, 0));
}

/* A rule as it is written for each of several limits; the first is the rule's own. */
typedef struct family {
  const char *name, *format; /* of limit, and burst or queue */
  int64_t limits[LIMITS], seconds[LIMITS];
  int64_t cost_most;
} family;

static const family families[] = {
    {"fixed", "fixed-window:%" PRId64 "/1m,name=f,most=5000", {10, 5000, 3, 40}, {0}, 9},
    {"sliding",
     "sliding-window:%" PRId64 "/1m,cells=8,name=s,most=5000",
     {10, 5000, 3, 40},
     {0},
     9},
    {"strict", "sliding-window:%" PRId64 "/1m,strict,name=t,most=900", {10, 900, 1, 12}, {0}, 9},
    {"log", "sliding-log:%" PRId64 "/1m,name=l,most=30", {10, 30, 1, 12}, {0}, 1},
    {"quota", "quota:%" PRId64 "/1m,name=q,most=5000", {10, 5000, 3, 40}, {0}, 9},
    {"token",
     "token-bucket:%" PRId64 "/1m,burst=%" PRId64 ",name=b,most=800",
     {20, 800, 4, 40},
     {10, 400, 2, 20},
     5},
    {"leaky",
     "leaky-bucket:%" PRId64 "/1m,queue=%" PRId64 ",name=y,most=800",
     {20, 800, 4, 40},
     {9, 399, 1, 19},
     3},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

static const char *write_rule(const family *of, int i, char text[TEXT_BYTES]) {
  int written = snprintf(text, TEXT_BYTES, of->format, of->limits[i], of->seconds[i]);
  assert_true(written > 0 && written < TEXT_BYTES);
  return text;
}

/* By a process that has just begun, and whose rule has this limit. */
static weir_decision decide_as_rule(world *w, const family *of, int i, weir_request request) {
  char text[TEXT_BYTES];
  weir_limiter_options options = patient();
  weir_limiter *limiter = world_limiter(w, write_rule(of, i, text), &options);
  weir_decision decision = decide(limiter, 0, request);
  weir_limiter_destroy(limiter);
  return decision;
}

static void assert_alike(const char *where, int at, weir_decision one, weir_decision other) {
  if (one.allowed != other.allowed || one.limit != other.limit ||
      one.remaining != other.remaining || one.retry_after_us != other.retry_after_us ||
      one.reset_after_us != other.reset_after_us || one.delay_us != other.delay_us ||
      one.cost != other.cost)
    fail_msg("%s, request %d: allowed %d %d, limit %d %d, left %d %d, retry %d %d, reset %d %d",
             where, at, one.allowed, other.allowed, (int)one.limit, (int)other.limit,
             (int)one.remaining, (int)other.remaining, (int)one.retry_after_us,
             (int)other.retry_after_us, (int)one.reset_after_us, (int)other.reset_after_us);
}

/* Costs that never fit, requests that are content with less and looks among them. */
static void check_family(int store, const family *of) {
  char urls[2][STORE_URL_BYTES], text[TEXT_BYTES], where[TEXT_BYTES];
  weir_limiter_options options = patient();
  world limited, ruled;
  uint32_t seed = 7;
  int64_t at_us = 0;
  world_open(&limited, stores_url(store, urls[0]), write_rule(of, 0, text), &options);
  world_open(&ruled, stores_url(store, urls[1]), write_rule(of, 0, text), &options);
  snprintf(where, sizeof where, "%s on %s", of->name, stores[store].name);
  for (int n = 0; n < REQUESTS; n++) {
    int i = (int)chance(&seed, LIMITS);
    uint32_t what = chance(&seed, 10);
    unsigned flags = what == 0 ? WEIR_REQUEST_PEEK : what < 3 ? WEIR_REQUEST_UP_TO : 0;
    weir_request request = ask(1 + chance(&seed, (uint32_t)of->cost_most), flags);
    at_us += chance(&seed, 12) == 0 ? 20 * SECOND_US : chance(&seed, 500000);
    world_set(&limited, at_us);
    world_set(&ruled, at_us);
    weir_decision one = decide(limited.limiter, i == 0 ? 0 : of->limits[i], request);
    assert_alike(where, n, one, decide_as_rule(&ruled, of, i, request));
  }
  world_close(&limited);
  world_close(&ruled);
}

static void a_limit_decides_as_a_rule_with_it(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (size_t i = 0; i < FAMILIES; i++)
      check_family(store, &families[i]);
}

/* What one limit denies is no answer for another, higher or lower, nor for the rule's own. */
static void a_denial_is_repeated_for_its_own_limit_alone(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "fixed-window:5/1m,name=d,most=100", &options);
    for (int i = 0; i < 3; i++)
      assert_true(take(w.limiter, 3, 1).allowed);
    assert_false(take(w.limiter, 3, 1).allowed);
    assert_int_equal(take(w.limiter, 3, 1).source, WEIR_SOURCE_LOCAL);
    assert_true(take(w.limiter, 0, 1).allowed);
    assert_true(take(w.limiter, 0, 1).allowed);
    weir_decision denied = take(w.limiter, 0, 1);
    assert_false(denied.allowed);
    assert_int_equal(denied.limit, 5);
    assert_int_equal(limiter_take(w.limiter, "k", 1).source, WEIR_SOURCE_LOCAL);
    weir_decision more = take(w.limiter, 100, 1);
    assert_true(more.allowed);
    assert_int_equal(more.limit, 100);
    assert_int_equal(more.remaining, 94);
    weir_decision less = take(w.limiter, 4, 1);
    assert_false(less.allowed);
    assert_int_equal(less.limit, 4);
    assert_int_equal(limiter_take(w.limiter, "k", 1).limit, 5);
    world_close(&w);
  }
}

/* Of one exchange, in the order of its requests. */
static void one_batch_has_many_limits(void **state) {
  static const int64_t limits[] = {1, 2, 2, 50, 0, 0};
  static const bool allowed[] = {true, true, false, true, true, false};
  enum { COUNT = 6 };
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    weir_extra said[COUNT];
    const weir_extra *extras[COUNT];
    weir_request requests[COUNT];
    weir_limiter *limiters[COUNT];
    world w;
    world_open(&w, stores_url(store, url), "sliding-window:4/1m,name=m,most=100", &options);
    for (int i = 0; i < COUNT; i++) {
      said[i] = (weir_extra)WEIR_EXTRA_INIT;
      said[i].limit = limits[i];
      extras[i] = &said[i];
      requests[i] = ask(1, 0);
      limiters[i] = w.limiter;
    }
    assert_int_equal(weir_decide_extra(limiters, requests, extras, COUNT, NULL), WEIR_OK);
    for (int i = 0; i < COUNT; i++)
      if (requests[i].decision.allowed != allowed[i])
        fail_msg("%s: request %d is %s", stores[store].name, i, allowed[i] ? "denied" : "allowed");
    world_close(&w);
  }
}

/* A lot was charged under the rule's limit: a lower one must not live on it. */
static void a_lease_is_not_for_other_limits(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "fixed-window:1000/1m,lease=1s,name=e,most=2000",
               &options);
    for (int i = 0; i < 400; i++) {
      world_set(&w, i * 1000);
      assert_true(take(w.limiter, 0, 1).allowed);
    }
    for (int i = 0; i < 10; i++)
      assert_false(take(w.limiter, 390, 1).allowed);
    assert_true(take(w.limiter, 2000, 1).allowed);
    assert_true(take(w.limiter, 0, 1).allowed);
    world_close(&w);
  }
}

/* A token of a larger limit takes less of a bucket: no more than that goes back. */
static void what_goes_back_is_what_was_charged(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "token-bucket:60/1m,name=r,most=600", &options);
    for (int i = 0; i < 60; i++)
      assert_true(take(w.limiter, 0, 1).allowed);
    world_set(&w, 10 * SECOND_US);
    weir_decision large = take(w.limiter, 600, 100);
    assert_true(large.allowed);
    assert_int_equal(take(w.limiter, 0, 1).allowed, false);
    assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 100, &large, NULL), WEIR_OK);
    int admitted = 0;
    while (admitted < 60 && take(w.limiter, 0, 1).allowed)
      admitted++;
    if (admitted != 10) fail_msg("%s: %d instead of 10", stores[store].name, admitted);
    world_close(&w);
  }
}

/* Places are entered by the limit of the request, and those of one limit are not handed to another. */
static void places_are_entered_by_their_limit(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    weir_extra extra = WEIR_EXTRA_INIT;
    const weir_extra *extras[1] = {&extra};
    weir_reservation *made[5] = {NULL}, *other = NULL;
    world w;
    world_open(&w, stores_url(store, url), "in-flight:2/5m,lease=1s,name=p,most=5", &options);
    for (int i = 0; i < 5; i++) {
      weir_request request = ask(1, 0);
      extra.limit = i < 2 ? 0 : 5;
      assert_int_equal(weir_reserve_extra(&w.limiter, &request, extras, 1, &made[i], NULL),
                       WEIR_OK);
      assert_non_null(made[i]);
    }
    extra.limit = 5;
    weir_request sixth = ask(1, 0), third = ask(1, 0);
    assert_int_equal(weir_reserve_extra(&w.limiter, &sixth, extras, 1, &other, NULL), WEIR_OK);
    assert_null(other);
    assert_int_equal(weir_reservation_commit(made[4], NULL), WEIR_OK);
    extra.limit = 0;
    assert_int_equal(weir_reserve_extra(&w.limiter, &third, extras, 1, &other, NULL), WEIR_OK);
    assert_null(other);
    for (int i = 0; i < 5; i++)
      weir_reservation_destroy(made[i]);
    world_close(&w);
  }
}

static void refuse(const char *rules, int64_t limit, const char *why) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[1] = {&extra};
  weir_request request = ask(1, 0);
  weir_message message = {""};
  world w;
  world_open(&w, "memory:", rules, NULL);
  extra.limit = limit;
  assert_int_equal(weir_decide_extra(&w.limiter, &request, extras, 1, &message), WEIR_BAD_ARGUMENT);
  if (strstr(message.text, why) == NULL) fail_msg("\"%s\" does not say \"%s\"", message.text, why);
  world_close(&w);
}

static void bad_limits_are_refused(void **state) {
  (void)state;
  refuse("fixed-window:5/1m", 3,
         "a limit of 3 for fixed-window:5/1m: accepted is a limiter with most=");
  refuse("fixed-window:5/1m,most=9;fixed-window:50/1h,most=90", 3, "most= in one of its rules");
  refuse("fixed-window:5/1m,most=9", 10, "accepted are 1 to 9");
  refuse("fixed-window:5/1m,most=9", -1, "a limit of -1 for");
  refuse("token-bucket:60/1m,burst=6,most=600", 9, "accepted are 10 to 600, with which its burst");
  refuse("leaky-bucket:60/1m,most=600", 59, "accepted are 60 to 600");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_decides_as_a_rule_with_it),
      cmocka_unit_test(a_denial_is_repeated_for_its_own_limit_alone),
      cmocka_unit_test(one_batch_has_many_limits),
      cmocka_unit_test(a_lease_is_not_for_other_limits),
      cmocka_unit_test(what_goes_back_is_what_was_charged),
      cmocka_unit_test(places_are_entered_by_their_limit),
      cmocka_unit_test(bad_limits_are_refused),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
