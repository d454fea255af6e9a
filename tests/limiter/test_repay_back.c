/* Costs that LOCAL admitted without the store, and that then go back: to the account, or to the
 * store that was paid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/away.h"

#define MINUTE_US (60 * SECOND_US)

static void give_back(world *w, int64_t cost, weir_decision *taken) {
  assert_int_equal(weir_limiter_refund(w->limiter, "k", 1, cost, taken, NULL), WEIR_OK);
}

static void what_goes_back_before_it_is_paid_is_not_owed(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:9/1m", 1);
  away_take(&w, "k", 2);
  weir_decision taken = away_take_without(&w, "k", 6);
  give_back(&w, 4, &taken);
  assert_int_equal(taken.cost, 2);
  away_expect(&w, 6, 0, 4);
  assert_int_equal(away_admits(&w, "k", 20), 5); /* there is room for it again */
  away_withheld(&w, "k", 1);
  away_expect(&w, 11, 7, 4);
  assert_int_equal(away_remaining(&w, "fixed-window:9/1m", "k"), 0);
  world_close(&w);
}

static void what_goes_back_after_it_was_paid_goes_back_to_the_store(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m", "sliding-window:20/1m", "quota:20/1m",
                                      "token-bucket:20/1h"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    away_open(&w, rules[i], 1);
    away_take(&w, "k", 2);
    weir_decision taken = away_take_without(&w, "k", 6);
    assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 6 - 1);
    give_back(&w, 4, &taken);
    assert_int_equal(away_remaining(&w, rules[i], "k"), 20 - 2 - 2 - 1);
    assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 3, &taken, NULL), WEIR_BAD_COST);
    give_back(&w, 2, &taken);
    assert_int_equal(away_remaining(&w, rules[i], "k"), 20 - 2 - 1);
    away_expect(&w, 6, 6, 0);
    world_close(&w);
  }
}

/* Paid, and then more is owed: what goes back is either, and not both. */
static void nothing_goes_back_twice(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  weir_decision first = away_take_without(&w, "k", 4);
  away_take(&w, "k", 1); /* pays 4 */
  weir_decision second = away_take_without(&w, "k", 3);
  give_back(&w, 4, &first);
  give_back(&w, 3, &second);
  world_set(&w, SECOND_US);
  away_take(&w, "other", 1);
  assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 1 - 1);
  away_expect(&w, 7, 4, 3);
  world_close(&w);
}

static void what_was_sent_and_not_answered_goes_back_to_the_account_alone(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:9/1m", 1);
  away_take(&w, "k", 2);
  fake_fail_next(WEIR_ADD, WEIR_UNKNOWN, true);
  weir_decision taken = world_take(&w, "k", 3);
  assert_int_equal(taken.store_status, WEIR_UNKNOWN_OUTCOME);
  give_back(&w, 3, &taken);
  away_expect(&w, 0, 0, 0);
  assert_int_equal(away_remaining(&w, "fixed-window:9/1m", "k"), 9 - 2 - 3);
  world_close(&w);
}

static void a_reservation_is_cancelled_before_and_after_paying(void **state) {
  (void)state;
  for (int after = 0; after < 2; after++) {
    world w;
    weir_reservation *reservation;
    weir_request request = {.key = "k", .key_length = 1, .cost = 5};
    away_open(&w, "fixed-window:20/1m", 1);
    away_take(&w, "k", 2);
    the_fake.trouble = FAKE_AWAY;
    assert_int_equal(weir_limiter_reserve(w.limiter, &request, &reservation, NULL), WEIR_OK);
    assert_non_null(reservation);
    the_fake.trouble = FAKE_WELL;
    if (after) assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 5 - 1);
    assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
    weir_reservation_destroy(reservation);
    assert_int_equal(away_remaining(&w, "fixed-window:20/1m", "k"), 20 - 2 - after);
    away_expect(&w, 5, after ? 5 : 0, after ? 0 : 5);
    world_close(&w);
  }
}

static void what_is_older_than_its_period_goes_back_nowhere(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  weir_decision taken = away_take_without(&w, "k", 6);
  away_take(&w, "k", 1);
  world_set(&w, 3 * MINUTE_US);
  away_take(&w, "k", 5);
  give_back(&w, 6, &taken);
  assert_int_equal(away_remaining(&w, "fixed-window:20/1m", "k"), 15);
  world_close(&w);
}

static void a_reset_forgives(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  assert_true(away_take_without(&w, "k", 6).allowed);
  world_reset(&w, "k");
  away_expect(&w, 6, 0, 6);
  assert_int_equal(away_take(&w, "k", 1).remaining, 19);
  assert_int_equal(away_take(&w, "k", 12).remaining, 7); /* nor does it hold */
  world_close(&w);
}

/* Further than is held back: what was admitted then belongs to times that are to come again. */
static void a_clock_that_is_set_back_forgives(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  assert_true(away_take_without(&w, "k", 6).allowed);
  world_set(&w, -60 * MINUTE_US);
  assert_int_equal(away_take(&w, "k", 1).remaining, 19);
  away_expect(&w, 6, 0, 6);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_goes_back_before_it_is_paid_is_not_owed),
      cmocka_unit_test(what_goes_back_after_it_was_paid_goes_back_to_the_store),
      cmocka_unit_test(nothing_goes_back_twice),
      cmocka_unit_test(what_was_sent_and_not_answered_goes_back_to_the_account_alone),
      cmocka_unit_test(a_reservation_is_cancelled_before_and_after_paying),
      cmocka_unit_test(what_is_older_than_its_period_goes_back_nowhere),
      cmocka_unit_test(a_reset_forgives),
      cmocka_unit_test(a_clock_that_is_set_back_forgives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
