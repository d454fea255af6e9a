/* Where the limit of a key, or of a request, meets what was charged under another one: refunds,
 * reservations, settlements, debts, classes, full buckets. On every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

static weir_limiter_options reading(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US, .limits_us = SECOND_US};
}

static void set(weir_limiter *limiter, unsigned kind, int64_t limit) {
  weir_limit one = {.key = "k", .key_length = 1, .kind = kind, .limit = limit};
  weir_message why = {""};
  if (weir_limiter_set_limits(limiter, &one, 1, &why) != WEIR_OK) fail_msg("%s", why.text);
}

static weir_request ask(int64_t cost) {
  return (weir_request){.key = "k", .key_length = 1, .cost = cost};
}

static weir_decision decide(weir_limiter *limiter, int64_t limit, const char *class_name,
                            weir_request request) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[1] = {&extra};
  weir_message why = {""};
  extra.limit = limit;
  extra.class_name = class_name;
  if (weir_decide_extra(&limiter, &request, extras, 1, &why) != WEIR_OK) fail_msg("%s", why.text);
  return request.decision;
}

static int fits(world *w) {
  int count = 0;
  while (count < 2000 && world_take(w, "k", 1).allowed)
    count++;
  return count;
}

/* Each of these is run with a world of its own on every store. */
static void on_all(const char *rule, void (*check)(world *w, const char *store)) {
  weir_limiter_options options = reading();
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), rule, &options);
    check(&w, stores[store].name);
    world_close(&w);
  }
}

#define assert_fits(w, most, store)                              \
  do {                                                           \
    int fitted = fits(w);                                        \
    if (fitted != (most)) fail_msg("%s: %d fit", store, fitted); \
  } while (0)

/* --- what goes back to a bucket: time, by the limit that it was charged under ------------------------
 */

static void refund_after_a_change(world *w, const char *store) {
  weir_decision first = world_take(w, "k", 10);
  assert_true(world_take(w, "k", 80).allowed);
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 20);
  world_peek(w, "k", 1);
  assert_int_equal(weir_limiter_refund(w->limiter, "k", 1, 10, &first, NULL), WEIR_OK);
  set(w->limiter, WEIR_KEY_LIMIT_NONE, 0);
  assert_fits(w, 20, store);
}

static void cancel_after_a_change(world *w, const char *store) {
  weir_request request = ask(10);
  weir_reservation *made;
  assert_int_equal(weir_limiter_reserve(w->limiter, &request, &made, NULL), WEIR_OK);
  assert_true(world_take(w, "k", 80).allowed);
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 20);
  world_peek(w, "k", 1);
  assert_int_equal(weir_reservation_cancel(made, NULL), WEIR_OK);
  weir_reservation_destroy(made);
  set(w->limiter, WEIR_KEY_LIMIT_NONE, 0);
  assert_fits(w, 20, store);
}

static void cancel_while_blocked(world *w, const char *store) {
  weir_request request = ask(10);
  weir_reservation *made;
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 1000);
  assert_int_equal(weir_limiter_reserve(w->limiter, &request, &made, NULL), WEIR_OK);
  assert_true(world_take(w, "k", 980).allowed);
  set(w->limiter, WEIR_KEY_LIMIT_BLOCKED, 0);
  assert_false(world_take(w, "k", 1).allowed);
  assert_int_equal(weir_reservation_cancel(made, NULL), WEIR_OK);
  weir_reservation_destroy(made);
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 1000);
  assert_fits(w, 20, store);
}

static void together_after_a_change(world *w, const char *store) {
  weir_limiter_options options = reading();
  weir_limiter *denies = world_limiter(w, "quota:1/1d,name=denies,most=2", &options);
  weir_limiter *both[2] = {w->limiter, denies};
  weir_request requests[2] = {ask(10), ask(1)};
  size_t denied_by;
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 20);
  weir_request first = ask(1);
  assert_int_equal(weir_decide_all(&denies, &first, 1, &denied_by, NULL), WEIR_OK);
  assert_int_equal(weir_decide_all(both, requests, 2, &denied_by, NULL), WEIR_OK);
  assert_int_equal(denied_by, 1);
  set(w->limiter, WEIR_KEY_LIMIT_NONE, 0);
  assert_fits(w, 100, store);
  weir_limiter_destroy(denies);
}

static void what_goes_back_is_measured_as_it_was_charged(void **state) {
  (void)state;
  on_all("token-bucket:100/100s,most=1000,name=b", refund_after_a_change);
  on_all("token-bucket:100/100s,most=1000,name=c", cancel_after_a_change);
  on_all("token-bucket:100/100s,most=1000,name=d", cancel_while_blocked);
  on_all("token-bucket:100/100s,most=1000,name=t", together_after_a_change);
}

/* Its limit may be that of a class, or of the rule: no more goes back than is safe. */
static void refund_of_a_class(world *w, const char *store) {
  weir_decision taken = decide(w->limiter, 0, "b", ask(40));
  assert_true(taken.allowed);
  assert_true(world_take(w, "k", 60).allowed);
  assert_int_equal(weir_limiter_refund(w->limiter, "k", 1, 40, &taken, NULL), WEIR_OK);
  int fitted = fits(w);
  if (fitted > 40) fail_msg("%s: %d fit", store, fitted);
}

static void a_class_gives_back_no_more_than_it_was_charged(void **state) {
  (void)state;
  on_all("token-bucket:100/100s,most=1000,classes=b:50%,name=a", refund_of_a_class);
}

/* Two give back together more than is there, and are asked for alone: by the same limit. */
static void settle_one_alone(world *w, const char *store) {
  weir_limiter *both[2] = {w->limiter, w->limiter};
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[2] = {&extra, &extra};
  weir_request taken[2] = {ask(50), ask(40)};
  extra.limit = 100;
  assert_int_equal(weir_decide_extra(both, taken, extras, 2, NULL), WEIR_OK);
  weir_request settled[2] = {ask(45), ask(0)};
  for (int i = 0; i < 2; i++) {
    settled[i].flags = WEIR_REQUEST_SETTLE;
    settled[i].decision = taken[i].decision;
  }
  settled[1].decision.cost = 90;
  weir_decide_extra(both, settled, extras, 2, NULL);
  assert_int_equal(settled[0].status, WEIR_OK);
  assert_int_equal(settled[1].status, WEIR_BAD_COST);
  weir_request look = ask(1);
  look.flags = WEIR_REQUEST_PEEK;
  int left = (int)decide(w->limiter, 100, NULL, look).remaining;
  if (left != 15) fail_msg("%s: %d are left", store, left);
}

static void a_settlement_alone_has_the_limit_of_both(void **state) {
  (void)state;
  on_all("token-bucket:10/100s,most=1000,name=f", settle_one_alone);
}

/* --- what is charged more ------------------------------------------------------------------------
 */

/* In a process that has not read the key's record. */
static void settle_elsewhere(world *w, const char *store) {
  weir_limiter_options options = reading();
  weir_limiter *other = world_limiter(w, "fixed-window:10/1d,name=s,most=1000", &options);
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 1000);
  weir_decision taken = world_take(w, "k", 500);
  assert_int_equal(weir_limiter_settle(other, "k", 1, 600, &taken, NULL), WEIR_OK);
  if (taken.cost != 600) fail_msg("%s: %d charged", store, (int)taken.cost);
  world_set(w, SECOND_US);
  assert_int_equal(world_peek(w, "k", 1).remaining, 400);
  weir_limiter_destroy(other);
}

static void an_overrun_goes_as_far_as_the_limit_of_its_key(void **state) {
  (void)state;
  on_all("fixed-window:10/1d,name=s,most=1000", settle_elsewhere);
}

/* --- full buckets and debts ------------------------------------------------------------------------
 */

/* A bucket that was filled under one limit is not taken for a wrong clock's under a lower one. */
static void fill_and_lower(world *w, const char *store) {
  assert_true(world_take(w, "k", 150).allowed);
  world_set(w, 2 * SECOND_US);
  assert_false(decide(w->limiter, 1, NULL, ask(1)).allowed);
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 1);
  assert_false(world_take(w, "k", 1).allowed);
  set(w->limiter, WEIR_KEY_LIMIT_NONE, 0);
  world_set(w, 4 * SECOND_US);
  assert_fits(w, 0, store);
}

static void a_full_bucket_stays_full_under_a_lower_limit(void **state) {
  (void)state;
  on_all("token-bucket:100/1h,burst=150,most=1000,name=h", fill_and_lower);
}

static void wait_in_debt(world *w, const char *store) {
  assert_true(world_take(w, "k", 100).allowed);
  world_set(w, 50 * SECOND_US);
  weir_request waits = ask(1);
  waits.longest_wait_us = 60 * SECOND_US;
  if (decide(w->limiter, 1, NULL, waits).allowed) fail_msg("%s: it has a delay", store);
}

static void a_bucket_with_debt_gives_no_delay_under_any_limit(void **state) {
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US, .longest_wait_us = 60 * SECOND_US};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "token-bucket:100/100s,debt=50,most=1000,name=d",
               &options);
    wait_in_debt(&w, stores[store].name);
    world_close(&w);
  }
}

/* --- what is told ---------------------------------------------------------------------------------
 */

static void bring_the_rules_own(world *w, const char *store) {
  if (!decide(w->limiter, 3, NULL, ask(1)).allowed) fail_msg("%s: never", store);
}

/* Which is rounded once, and not by way of the largest. */
static void a_limit_that_is_the_rules_own_admits_the_same(void **state) {
  (void)state;
  on_all("token-bucket:3/1s,burst=1,most=10,name=o", bring_the_rules_own);
}

static void raise_while_denied(world *w, const char *store) {
  assert_fits(w, 10, store);
  set(w->limiter, WEIR_KEY_LIMIT_NUMBER, 1000);
  assert_true(world_take(w, "k", 1).allowed);
}

static void who_sets_a_limit_ends_its_denial(void **state) {
  (void)state;
  on_all("fixed-window:10/1d,most=1000,name=e", raise_while_denied);
}

static void deny_the_first(world *w, const char *store) {
  weir_limiter *both[2] = {w->limiter, w->limiter};
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[2] = {NULL, &extra};
  weir_request requests[2] = {ask(1), {.key = "y", .key_length = 1, .cost = 40}};
  size_t denied_by;
  extra.limit = 100;
  extra.class_name = "b";
  assert_fits(w, 10, store);
  assert_int_equal(weir_decide_all_extra(both, requests, extras, 2, &denied_by, NULL), WEIR_OK);
  assert_int_equal(denied_by, 0);
  assert_int_equal(requests[1].decision.limit, 50);
}

static void one_that_is_not_asked_is_told_its_own_limit(void **state) {
  (void)state;
  on_all("fixed-window:10/1d,most=1000,classes=b:50%,name=g", deny_the_first);
}

/* So it waits behind no group of its key, and takes no place in one. */
static void is_known_to_be_blocked(world *w, const char *store) {
  weir_request request = ask(1);
  bool known = false;
  set(w->limiter, WEIR_KEY_LIMIT_BLOCKED, 0);
  assert_int_equal(weir_decide_known(&w->limiter, &request, 1, &known, NULL), WEIR_OK);
  if (!known) fail_msg("%s: a blocked key is not known", store);
  assert_int_equal(request.status, WEIR_OK);
  assert_false(request.decision.allowed);
  assert_int_equal(request.decision.retry_after_us, WEIR_NEVER);
  assert_int_equal(request.decision.limit, 0);
  set(w->limiter, WEIR_KEY_LIMIT_NONE, 0);
  assert_true(world_take(w, "k", 1).allowed);
}

static void a_blocked_key_is_denied_by_what_is_known(void **state) {
  (void)state;
  on_all("sliding-window:5/1m,most=9", is_known_to_be_blocked);
  on_all("quota:50/1d;token-bucket:5/1m,most=9", is_known_to_be_blocked);
}

/* Its cost is below the largest limit that a key may have, and above the one that this key has. */
static void ask_for_too_much(world *w, const char *store) {
  weir_decision told = decide(w->limiter, 0, NULL, ask(6));
  assert_fits(w, 5, store);
  for (int i = 0; i < 2; i++) { /* before a denial, and by what it left */
    if (told.allowed || told.retry_after_us != WEIR_NEVER || told.remaining != WEIR_NOT_KNOWN)
      fail_msg("%s: again in %lld us", store, (long long)told.retry_after_us);
    told = decide(w->limiter, 0, NULL, ask(6));
  }
  told = decide(w->limiter, 0, "low", ask(3));
  assert_int_equal(told.retry_after_us, WEIR_NEVER);
}

static void what_never_fits_is_told_so_behind_a_denial(void **state) {
  (void)state;
  on_all("fixed-window:5/1d,most=90,classes=low:50%,name=n", ask_for_too_much);
  on_all("sliding-window:5/1d,most=90,classes=low:50%,name=n", ask_for_too_much);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_blocked_key_is_denied_by_what_is_known),
      cmocka_unit_test(what_goes_back_is_measured_as_it_was_charged),
      cmocka_unit_test(a_class_gives_back_no_more_than_it_was_charged),
      cmocka_unit_test(a_settlement_alone_has_the_limit_of_both),
      cmocka_unit_test(an_overrun_goes_as_far_as_the_limit_of_its_key),
      cmocka_unit_test(a_full_bucket_stays_full_under_a_lower_limit),
      cmocka_unit_test(a_bucket_with_debt_gives_no_delay_under_any_limit),
      cmocka_unit_test(a_limit_that_is_the_rules_own_admits_the_same),
      cmocka_unit_test(who_sets_a_limit_ends_its_denial),
      cmocka_unit_test(one_that_is_not_asked_is_told_its_own_limit),
      cmocka_unit_test(what_never_fits_is_told_so_behind_a_denial),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
