/* Settlements in an outage and after it: what a policy admitted never lowers the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/away.h"

static weir_decision settle(world *w, int64_t real, weir_decision taken) {
  weir_message message = {""};
  if (weir_limiter_settle(w->limiter, "k", 1, real, &taken, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  assert_int_equal(taken.source, WEIR_SOURCE_SETTLED);
  return taken;
}

static void what_local_admitted_goes_off_what_is_owed(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  weir_decision taken = away_take_without(&w, "k", 6);
  assert_int_equal(settle(&w, 2, taken).cost, 2);
  away_expect(&w, 6, 0, 4);
  assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 2 - 1);
  away_expect(&w, 6, 2, 4);
  world_close(&w);
}

static void what_was_paid_meanwhile_goes_back_from_the_store(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m", "sliding-window:20/1m", "quota:20/1m",
                                      "token-bucket:20/1h"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    away_open(&w, rules[i], 1);
    away_take(&w, "k", 2);
    weir_decision taken = away_take_without(&w, "k", 6);
    assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 6 - 1);
    settle(&w, 2, taken);
    assert_int_equal(away_remaining(&w, rules[i], "k"), 20 - 2 - 2 - 1);
    world_close(&w);
  }
}

/* The store is back: what LOCAL admitted is still owed, and what was used on top is charged there. */
static void what_local_admitted_is_charged_more(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  weir_decision taken = away_take_without(&w, "k", 6);
  assert_int_equal(settle(&w, 9, taken).cost, 9);
  assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 9 - 1);
  away_expect(&w, 6, 6, 0);
  world_close(&w);
}

static void what_was_used_on_top_is_owed_while_the_store_is_away(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m", "sliding-window:20/1m", "quota:20/1m",
                                      "token-bucket:20/1h"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    away_open(&w, rules[i], 1);
    weir_decision taken = away_take(&w, "k", 5);
    the_fake.trouble = FAKE_AWAY;
    taken = settle(&w, 8, taken);
    assert_int_equal(taken.cost, 8);
    the_fake.trouble = FAKE_WELL;
    away_expect(&w, 3, 0, 0);
    assert_int_equal(away_admits(&w, "k", 20), 12); /* it counts in the account */
    world_close(&w);
  }
}

/* More than the account has room for fills it. */
static void an_overrun_beyond_the_account_leaves_no_room(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  weir_decision taken = away_take(&w, "k", 5);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(settle(&w, 50, taken).cost, 50);
  the_fake.trouble = FAKE_WELL;
  away_expect(&w, 45, 0, 0);
  assert_int_equal(away_admits(&w, "k", 5), 0);
  world_close(&w);
}

static void what_goes_back_waits_for_the_store(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  weir_decision taken = away_take(&w, "k", 5);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(weir_limiter_settle(w.limiter, "k", 1, 2, &taken, NULL), WEIR_UNAVAILABLE);
  assert_int_equal(taken.source, WEIR_SOURCE_STORE);
  the_fake.trouble = FAKE_WELL;
  assert_int_equal(settle(&w, 2, taken).cost, 2);
  assert_int_equal(away_remaining(&w, "fixed-window:20/1m", "k"), 18);
  world_close(&w);
}

static void what_other_policies_admitted_changes_no_store(void **state) {
  (void)state;
  for (int64_t real = 2; real <= 9; real += 7) {
    world w;
    away_open_with(&w, "fixed-window:20/1m",
                   &(weir_limiter_options){.fallback = WEIR_FALLBACK_ALLOW});
    away_take(&w, "k", 4);
    weir_decision taken = away_take_without(&w, "k", 6);
    assert_int_equal(settle(&w, real, taken).cost, real);
    assert_int_equal(away_remaining(&w, "fixed-window:20/1m", "k"), 16);

    weir_decision stored = away_take(&w, "k", 4);
    the_fake.trouble = FAKE_AWAY;
    assert_int_equal(weir_limiter_settle(w.limiter, "k", 1, real, &stored, NULL), WEIR_UNAVAILABLE);
    the_fake.trouble = FAKE_WELL;
    world_close(&w);
  }
}

/* A batch in which the account gives back, and the store what was paid to it. */
static void settles_in_a_batch(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  weir_decision paid = away_take_without(&w, "k", 6);
  away_take(&w, "k", 1);
  weir_decision owed = away_take_without(&w, "k", 3);
  weir_request all[2] = {0};
  for (int i = 0; i < 2; i++)
    all[i] = (weir_request){.key = "k",
                            .key_length = 1,
                            .cost = 1,
                            .flags = WEIR_REQUEST_SETTLE,
                            .decision = i == 0 ? paid : owed};
  assert_int_equal(weir_limiter_decide(w.limiter, all, 2, NULL), WEIR_OK);
  world_set(&w, SECOND_US);
  away_take(&w, "other", 1);
  assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 1 - 1 - 1 - 1);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_local_admitted_goes_off_what_is_owed),
      cmocka_unit_test(what_was_paid_meanwhile_goes_back_from_the_store),
      cmocka_unit_test(what_local_admitted_is_charged_more),
      cmocka_unit_test(what_was_used_on_top_is_owed_while_the_store_is_away),
      cmocka_unit_test(an_overrun_beyond_the_account_leaves_no_room),
      cmocka_unit_test(what_goes_back_waits_for_the_store),
      cmocka_unit_test(what_other_policies_admitted_changes_no_store),
      cmocka_unit_test(settles_in_a_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
