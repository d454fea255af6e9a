/* After an outage: what LOCAL admitted without the store is paid to it once, within the limit and
 * within its period. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/away.h"

#define MINUTE_US (60 * SECOND_US)

/* --- paying -------------------------------------------------------------------------------------
 */

static void what_is_owed_is_paid_once_and_first(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m",          "sliding-window:20/1m",
                                      "sliding-window:20/1m,strict", "quota:20/1m",
                                      "token-bucket:20/1m",          "leaky-bucket:20/1m,queue=19"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    away_open(&w, rules[i], 1);
    away_take(&w, "k", 2);
    assert_true(away_take_without(&w, "k", 3).allowed);
    assert_true(away_take_without(&w, "k", 4).allowed);
    away_expect(&w, 7, 0, 0);
    weir_decision decision = away_take(&w, "k", 1);
    if (decision.remaining != 20 - 2 - 7 - 1)
      fail_msg("%s: %lld remain", rules[i], (long long)decision.remaining);
    away_expect(&w, 7, 7, 0);
    away_take(&w, "other", 1);
    decision = away_take(&w, "k", 1);
    assert_int_equal(decision.remaining, 20 - 2 - 7 - 2);
    away_expect(&w, 7, 7, 0);
    assert_int_equal(away_remaining(&w, rules[i], "k"), 20 - 2 - 7 - 2);
    world_close(&w);
  }
}

/* Others charged it meanwhile: what has no room is dropped, and the limit is reached. */
static void no_more_is_paid_than_there_is_room_for(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m", "sliding-window:20/1m", "quota:20/1m",
                                      "token-bucket:20/1m"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    away_open(&w, rules[i], 1);
    away_take(&w, "k", 2);
    assert_true(away_take_without(&w, "k", 9).allowed);
    weir_limiter *other = world_limiter(&w, rules[i], NULL);
    assert_true(limiter_take(other, "k", 12).allowed);
    assert_false(away_take(&w, "k", 1).allowed);
    away_expect(&w, 9, 6, 3);
    assert_int_equal(away_remaining(&w, rules[i], "k"), 0);
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

static void it_is_dropped_at_the_end_of_its_period(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m", "quota:20/1m", "sliding-window:20/1m",
                                      "token-bucket:20/1m"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    away_open(&w, rules[i], 1);
    away_take(&w, "k", 2);
    assert_true(away_take_without(&w, "k", 9).allowed);
    world_set(&w, 2 * MINUTE_US);
    assert_int_equal(away_take(&w, "k", 1).remaining, 19);
    away_expect(&w, 9, 0, 9);
    world_close(&w);
  }
}

/* In an outage that lasts, a debt that no period remembers is not paid: a key that stays at a third
 * of its limit is served when the store is back. */
static void a_key_below_its_limit_is_served_after_a_long_outage(void **state) {
  static const char *const rules[] = {"sliding-window:30/10s,strict", "sliding-window:30/10s",
                                      "token-bucket:30/10s"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    away_open(&w, rules[i], 1);
    for (int second = 0; second < 60; second++) {
      world_set(&w, second * SECOND_US);
      bool away = second >= 10 && second < 45;
      weir_decision decision = away ? away_take_without(&w, "k", 1) : away_take(&w, "k", 1);
      if (!decision.allowed) fail_msg("%s: denied after %d s", rules[i], second);
    }
    world_close(&w);
  }
}

/* And not in the next one: what is admitted there is that one's. */
static void each_period_has_its_own(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:9/1m", 1);
  away_take(&w, "k", 2);
  assert_int_equal(away_admits(&w, "k", 20), 7);
  world_set(&w, MINUTE_US);
  assert_int_equal(away_admits(&w, "k", 20), 9);
  world_set(&w, 2 * MINUTE_US);
  assert_int_equal(away_admits(&w, "k", 4), 4);
  away_expect(&w, 20, 0, 16);
  assert_int_equal(away_take(&w, "k", 1).remaining, 9 - 4 - 1);
  away_expect(&w, 20, 4, 16);
  world_close(&w);
}

/* Carried out, and no answer: it counts as paid, so that it is never paid twice. */
static void an_answer_that_was_lost_counts_as_paid(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  assert_true(away_take_without(&w, "k", 3).allowed);
  fake_fail_next(WEIR_ADD, WEIR_UNKNOWN, true);
  assert_int_equal(world_take(&w, "k", 1).store_status, WEIR_UNKNOWN_OUTCOME);
  away_expect(&w, 3, 3, 0); /* and the request is not owed: it was sent */
  world_set(&w, SECOND_US);
  assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 3 - 1 - 1);
  away_expect(&w, 3, 3, 0);
  world_close(&w);
}

static void what_was_not_sent_is_still_owed(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  assert_true(away_take_without(&w, "k", 3).allowed);
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  assert_true(world_take(&w, "k", 1).allowed);
  away_expect(&w, 4, 0, 0);
  assert_int_equal(away_take(&w, "k", 1).remaining, 20 - 2 - 4 - 1);
  away_expect(&w, 4, 4, 0);
  world_close(&w);
}

/* A store that stopped for a moment has all of it. */
static void what_was_sent_and_not_answered_is_admitted_and_not_owed(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  away_take(&w, "k", 2);
  the_fake.trouble = FAKE_MUTE;
  for (int i = 0; i < 3; i++) {
    weir_decision decision = world_take(&w, "k", 1);
    assert_true(decision.allowed);
    assert_int_equal(decision.remaining, 20 - 2 - 1 - i);
  }
  the_fake.trouble = FAKE_WELL;
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(w.limiter, &counts);
  int64_t in_store = 20 - 2 - (int64_t)(counts.statuses[WEIR_UNKNOWN_OUTCOME] + counts.owed);
  assert_int_equal(away_take(&w, "k", 1).remaining, in_store - 1);
  world_close(&w);
}

static void a_log_is_not_paid(void **state) {
  world w;
  (void)state;
  away_open(&w, "sliding-log:20/1m", 1);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 30), 19);
  away_withheld(&w, "k", 1);
  away_expect(&w, 0, 0, 0);
  assert_int_equal(away_remaining(&w, "sliding-log:20/1m", "k"), 19);
  world_close(&w);
}

/* --- many rules, many requests ------------------------------------------------------------------
 */

static void every_rule_of_a_stack_is_paid_its_own_cost(void **state) {
  static const char rules[] = "fixed-window:20/1m;quota:30/1h;token-bucket:40/1h";
  static const int64_t costs[] = {3, 0, 5};
  world w;
  (void)state;
  away_open(&w, rules, 1);
  away_take(&w, "k", 2);
  weir_request request = {.key = "k", .key_length = 1, .costs = costs};
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_OK);
  the_fake.trouble = FAKE_WELL;
  assert_true(request.decision.allowed);
  away_expect(&w, 8, 0, 0);
  away_take(&w, "k", 1);
  away_expect(&w, 8, 8, 0);
  assert_int_equal(away_remaining(&w, "fixed-window:20/1m", "k"), 20 - 2 - 3 - 1);
  assert_int_equal(away_remaining(&w, "quota:30/1h", "k"), 30 - 2 - 1);
  assert_int_equal(away_remaining(&w, "token-bucket:40/1h", "k"), 40 - 2 - 5 - 1);
  world_close(&w);
}

/* One rule has room for all of it, the other for some. */
static void each_rule_is_paid_what_it_has_room_for(void **state) {
  static const char rules[] = "fixed-window:20/1m;quota:30/1h";
  world w;
  (void)state;
  away_open(&w, rules, 1);
  away_take(&w, "k", 2);
  assert_true(away_take_without(&w, "k", 8).allowed);
  weir_limiter *other = world_limiter(&w, "fixed-window:20/1m", NULL);
  assert_true(limiter_take(other, "k", 15).allowed);
  assert_false(away_take(&w, "k", 1).allowed);
  away_expect(&w, 16, 3 + 8, 5);
  assert_int_equal(away_remaining(&w, "fixed-window:20/1m", "k"), 0);
  assert_int_equal(away_remaining(&w, "quota:30/1h", "k"), 30 - 2 - 8);
  weir_limiter_destroy(other);
  world_close(&w);
}

static void a_batch_pays_each_key_once(void **state) {
  enum { KEYS = 5 };
  world w;
  char names[KEYS][4];
  weir_request requests[2 * KEYS];
  (void)state;
  away_open(&w, "fixed-window:20/1m", 1);
  for (int i = 0; i < 2 * KEYS; i++) {
    snprintf(names[i % KEYS], sizeof names[0], "k%d", i % KEYS);
    requests[i] = (weir_request){.key = names[i % KEYS], .key_length = 2, .cost = 1};
  }
  for (int round = 0; round < 3; round++) {
    the_fake.trouble = round == 1 ? FAKE_AWAY : FAKE_WELL;
    assert_int_equal(weir_limiter_decide(w.limiter, requests, 2 * KEYS, NULL), WEIR_OK);
    for (int i = 0; i < 2 * KEYS; i++)
      assert_true(requests[i].decision.allowed);
  }
  away_expect(&w, 2 * KEYS, 2 * KEYS, 0);
  for (int i = 0; i < KEYS; i++)
    assert_int_equal(away_remaining(&w, "fixed-window:20/1m", names[i]), 20 - 6);
  world_close(&w);
}

static void up_to_owes_what_it_got(void **state) {
  world w;
  weir_decision decision;
  (void)state;
  away_open(&w, "fixed-window:9/1m", 1);
  away_take(&w, "k", 2);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(weir_limiter_take_up_to(w.limiter, "k", 1, 9, &decision, NULL), WEIR_OK);
  assert_true(decision.allowed);
  assert_int_equal(decision.cost, 7);
  assert_int_equal(weir_limiter_take_up_to(w.limiter, "k", 1, 9, &decision, NULL), WEIR_OK);
  assert_false(decision.allowed);
  assert_int_equal(decision.cost, 9);
  the_fake.trouble = FAKE_WELL;
  away_expect(&w, 7, 0, 0);
  away_withheld(&w, "k", 1);
  away_expect(&w, 7, 7, 0);
  assert_int_equal(away_remaining(&w, "fixed-window:9/1m", "k"), 0);
  world_close(&w);
}

/* A denied request counts, and is not owed. */
static void denied_requests_that_count_are_not_owed(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:9/1m,count=all", 1);
  away_take(&w, "k", 2);
  assert_int_equal(away_admits(&w, "k", 20), 7);
  away_expect(&w, 7, 0, 0);
  away_withheld(&w, "k", 1);
  away_expect(&w, 7, 7, 0);
  assert_int_equal(away_remaining(&w, "fixed-window:9/1m,count=all", "k"), 0);
  world_close(&w);
}

/* A lot that is held was charged before the outage: it is used first, and nobody owes it. */
static void leases_are_used_first(void **state) {
  world w;
  int by_lease = 0;
  int owed = 0;
  (void)state;
  away_open_with(&w, "fixed-window:1000/1m,lease=1s",
                 &(weir_limiter_options){.peers = 1, .processes = 1});
  for (int i = 0; i < 40; i++) {
    world_set(&w, i * 10000);
    assert_true(world_take(&w, "k", 1).allowed);
  }
  the_fake.trouble = FAKE_AWAY;
  for (int i = 0; i < 60; i++) {
    weir_decision decision = world_take(&w, "k", 1);
    assert_true(decision.allowed);
    by_lease += decision.source == WEIR_SOURCE_LOCAL;
    if (decision.source == WEIR_SOURCE_LOCAL) assert_int_equal(owed, 0);
    owed += decision.source == WEIR_SOURCE_FALLBACK;
  }
  the_fake.trouble = FAKE_WELL;
  assert_true(by_lease > 0 && owed > 0);
  away_expect(&w, (uint64_t)owed, 0, 0);
  world_take(&w, "k", 1);
  away_expect(&w, (uint64_t)owed, (uint64_t)owed, 0);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_owed_is_paid_once_and_first),
      cmocka_unit_test(no_more_is_paid_than_there_is_room_for),
      cmocka_unit_test(it_is_dropped_at_the_end_of_its_period),
      cmocka_unit_test(a_key_below_its_limit_is_served_after_a_long_outage),
      cmocka_unit_test(each_period_has_its_own),
      cmocka_unit_test(an_answer_that_was_lost_counts_as_paid),
      cmocka_unit_test(what_was_not_sent_is_still_owed),
      cmocka_unit_test(what_was_sent_and_not_answered_is_admitted_and_not_owed),
      cmocka_unit_test(a_log_is_not_paid),
      cmocka_unit_test(every_rule_of_a_stack_is_paid_its_own_cost),
      cmocka_unit_test(each_rule_is_paid_what_it_has_room_for),
      cmocka_unit_test(a_batch_pays_each_key_once),
      cmocka_unit_test(up_to_owes_what_it_got),
      cmocka_unit_test(denied_requests_that_count_are_not_owed),
      cmocka_unit_test(leases_are_used_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
