/* A clock that was far ahead for one request, then set right: nobody is denied for long. On every
 * store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

#define DAY_US (INT64_C(86400) * SECOND_US)

/* All limiters here have these: a deadline and what a process knows keep a lock from being put back
 * too early. */
static const weir_limiter_options patient = {.deadline_us = 20 * SECOND_US};
#define SETTLE_US (SECOND_US + 2 * (20 * SECOND_US + 20000))

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  world_open(w, stores_url(store, url), rules, &patient);
}

static void take_far_ahead(world *w, const char *rules, int64_t ahead_us) {
  weir_limiter *ahead = world_limiter(w, rules, &patient);
  world_set(w, ahead_us);
  assert_true(limiter_take(ahead, "k", 1).allowed);
  weir_limiter_destroy(ahead);
  world_set(w, 0);
}

/* The bucket counts as full from when it is put back: at once, or where others may have charged in
 * vain, when that must have gone back. */
static void a_clock_30_days_ahead_closes_no_bucket_of_a_day(void **state) {
  static const char rules[] = "token-bucket:1000/1d";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, rules);
    take_far_ahead(&w, rules, 30 * DAY_US);
    int64_t back_us = stores[store].swaps ? 0 : 2 * SETTLE_US;
    assert_false(world_take(&w, "k", 1).allowed);
    world_set(&w, back_us / 2);
    assert_false(world_take(&w, "k", 1).allowed);
    world_set(&w, back_us);
    weir_decision denied = world_take(&w, "k", 1);
    int64_t token_us = DAY_US / 1000;
    assert_denied(denied, 0, token_us, DAY_US);
    world_set(&w, back_us + token_us);
    assert_true(world_take(&w, "k", 1).allowed);
    world_set(&w, back_us + DAY_US / 2);
    assert_in_range(world_peek(&w, "k", 1).remaining, 498, 500);
    world_close(&w);
  }
}

/* A caller that comes back when told to is admitted as soon as can be: waits are those until the
 * next step. */
static void the_waits_that_are_told_lead_there(void **state) {
  static const char rules[] = "token-bucket:1000/1d";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    int64_t at_us = 0;
    open_on(&w, store, rules);
    take_far_ahead(&w, rules, 30 * DAY_US);
    int64_t back_us = stores[store].swaps ? 0 : 2 * SETTLE_US;
    assert_in_range(world_peek(&w, "k", 1).reset_after_us, DAY_US, back_us + DAY_US);
    for (int asked = 0;; asked++) {
      world_set(&w, at_us);
      weir_decision decision = world_take(&w, "k", 1);
      if (decision.allowed) break;
      assert_in_range(asked, 0, 3);
      assert_in_range(decision.reset_after_us, DAY_US, back_us + DAY_US);
      at_us += decision.retry_after_us;
    }
    assert_int_equal(at_us, back_us + DAY_US / 1000);
    world_close(&w);
  }
}

/* A value that a wait allows is not far, 60 s here; one that was stepped back by more is. */
static void a_step_back_is_put_right_at_once_where_nobody_charges_in_vain(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    if (!stores[store].swaps) continue;
    world w;
    open_on(&w, store, "token-bucket:5/1s");
    take_far_ahead(&w, "token-bucket:5/1s", 95 * SECOND_US);
    assert_denied(world_take(&w, "k", 1), 0, SECOND_US / 5, SECOND_US);
    world_set(&w, SECOND_US);
    assert_true(world_take(&w, "k", 5).allowed);
    world_close(&w);
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_clock_30_days_ahead_closes_no_bucket_of_a_day),
      cmocka_unit_test(the_waits_that_are_told_lead_there),
      cmocka_unit_test(a_step_back_is_put_right_at_once_where_nobody_charges_in_vain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
