/* For a while after an outage a process goes on to hold its share, beside the store's answer; and what
 * another outage finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/away.h"
#include "limiter/limiter.h"

/* The share is a fourth: of the 8 that are left 2. */
static const char rule[] = "fixed-window:9/1m";

static void begin(world *w) {
  away_open(w, rule, 4);
  away_take(w, "k", 1);
  assert_int_equal(away_admits(w, "k", 5), 2);
}

static void it_holds_its_share_until_the_others_can_have_paid(void **state) {
  world w;
  (void)state;
  begin(&w);
  world_set(&w, 100000);
  away_withheld(&w, "k", 1); /* the first pays, and is no more than the others */
  away_expect(&w, 2, 2, 0);
  away_withheld(&w, "k", 1);
  world_set(&w, 100000 + 100000 + 2 * AWAY_DEADLINE_US - 1);
  away_withheld(&w, "k", 1);
  world_set(&w, 100000 + 100000 + 2 * AWAY_DEADLINE_US);
  assert_int_equal(away_take(&w, "k", 1).remaining, 9 - 1 - 2 - 1);
  away_expect(&w, 2, 2, 0);
  world_close(&w);
}

static void it_holds_for_a_second_at_the_most(void **state) {
  world w;
  (void)state;
  begin(&w);
  world_set(&w, 10 * SECOND_US);
  away_withheld(&w, "k", 1);
  world_set(&w, 11 * SECOND_US + 2 * AWAY_DEADLINE_US - 1);
  weir_decision decision = away_withheld(&w, "k", 1);
  assert_int_equal(decision.limit, 9);
  assert_int_equal(decision.remaining, 0);
  assert_int_equal(decision.retry_after_us, 500000);
  world_set(&w, 11 * SECOND_US + 2 * AWAY_DEADLINE_US);
  away_take(&w, "k", 1);
  world_close(&w);
}

/* The store decides what the account has room for: a fourth of 12. */
static void within_its_share_the_store_decides(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:13/1m", 4);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 1), 1);
  away_take(&w, "k", 1);
  away_take(&w, "k", 1);
  away_withheld(&w, "k", 1);
  away_take(&w, "other", 8); /* which had no outage */
  world_close(&w);
}

static void up_to_gets_what_both_have_room_for(void **state) {
  world w;
  weir_decision decision;
  (void)state;
  away_open(&w, "fixed-window:13/1m", 4);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 1), 1);
  away_take(&w, "k", 1);
  assert_int_equal(weir_limiter_take_up_to(w.limiter, "k", 1, 5, &decision, NULL), WEIR_OK);
  assert_true(decision.allowed);
  assert_int_equal(decision.source, WEIR_SOURCE_STORE);
  assert_int_equal(decision.cost, 1);
  world_close(&w);
}

/* The hold has room for some of it, and the store for nothing: it is denied as it was asked for. */
static void up_to_is_denied_as_it_was_asked_for(void **state) {
  world w;
  weir_decision decision;
  (void)state;
  away_open(&w, rule, 4);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 1), 1);
  weir_limiter *other = world_limiter(&w, rule, NULL);
  assert_true(limiter_take(other, "k", 7).allowed);
  world_set(&w, 100000);
  assert_false(away_take(&w, "k", 1).allowed); /* what was owed took the last one */
  world_set(&w, 200000);                       /* the denial is not repeated any more */
  assert_int_equal(weir_limiter_take_up_to(w.limiter, "k", 1, 5, &decision, NULL), WEIR_OK);
  assert_false(decision.allowed);
  assert_int_equal(decision.cost, 5);
  weir_limiter_destroy(other);
  world_close(&w);
}

/* --- a store that is only slow -------------------------------------------------------------------
 */

/* The next addition has no answer in time: it is carried out, or never sent. */
static weir_decision take_in_vain(world *w, const char *key, bool sent, bool slow) {
  the_fake.fault = (fake_fault){.kind = WEIR_ADD,
                                .outcome = sent ? WEIR_UNKNOWN : WEIR_NOT_SENT,
                                .executed = sent,
                                .late = sent,
                                .slow = slow};
  the_fake.faulty = true;
  weir_decision decision = world_take(w, key, 1);
  assert_int_equal(decision.source, sent ? WEIR_SOURCE_LATE : WEIR_SOURCE_FALLBACK);
  return decision;
}

/* It has not met its store, so its share is an eighth: two of 20. The store's answer is right
 * then. */
static void a_process_whose_first_answers_are_late_holds_nothing_back(void **state) {
  (void)state;
  for (int sent = 0; sent < 2; sent++) {
    world w;
    away_open(&w, "fixed-window:20/1m", 8);
    assert_true(take_in_vain(&w, "k", sent, true).allowed);
    assert_true(take_in_vain(&w, "k", sent, true).allowed);
    for (int i = 0; i < 18; i++) /* what is owed is paid in front */
      assert_true(away_take(&w, "k", 1).allowed);
    assert_false(away_take(&w, "k", 1).allowed);
    away_expect(&w, sent ? 0 : 2, sent ? 0 : 2, 0);
    world_close(&w);
  }
}

/* With its share used up, a request still asks the store, and gets what that says. */
static void a_late_answer_makes_no_request_one_that_only_looks(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:9/1m", 4);
  while (take_in_vain(&w, "k", true, true).allowed)
    ;
  assert_true(away_take(&w, "k", 1).allowed);
  world_close(&w);
}

/* Now and then one is late: each is a share of what is left by then, and between them the store decides. */
static void answers_that_are_late_now_and_then_deny_nobody(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:100/1m", 0);
  for (int i = 0; i < 30; i++)
    away_take(&w, "k", 1);
  for (int i = 0; i < 60; i++) {
    world_set(&w, i * 1000);
    if (i % 5 == 0)
      assert_true(take_in_vain(&w, "k", true, true).allowed);
    else
      assert_true(away_take(&w, "k", 1).allowed);
  }
  assert_int_equal(away_remaining(&w, "fixed-window:100/1m", "k"), 10);
  world_close(&w);
}

/* Late, but with a connection that was lost: others may owe. Nor does a late answer end the hold of one
 * that was for a store that is gone. */
static void what_was_lost_or_away_before_it_was_late_is_held(void **state) {
  (void)state;
  for (int lost = 0; lost < 2; lost++) {
    world w;
    away_open(&w, "fixed-window:9/1m", 4);
    away_take(&w, "k", 1);
    if (lost)
      take_in_vain(&w, "k", true, false);
    else
      away_take_without(&w, "k", 1);
    take_in_vain(&w, "k", true, true);
    away_withheld(&w, "k", 1);
    world_close(&w);
  }
}

/* --- what is learnt -----------------------------------------------------------------------------
 */

static weir_share share_of(const world *w, const char *key) {
  weir_memo_entry *entry = weir_limiter_lock(w->limiter, key, strlen(key));
  weir_share share = entry->memo->expected[0].share;
  weir_lock_leave(&entry->shard->lock);
  return share;
}

/* Nobody is missed who is not back yet: a share is not learnt meanwhile. */
static void it_learns_nothing_while_it_holds(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:1000/1m", 4);
  away_take(&w, "k", 1);
  weir_limiter *other = world_limiter(&w, "fixed-window:1000/1m", NULL);
  for (int i = 0; i < 30; i++) {
    limiter_take(other, "k", 3);
    away_take(&w, "k", 1);
  }
  weir_limiter_counts before = {.size = sizeof before};
  weir_limiter_counts after = {.size = sizeof after};
  weir_limiter_read_counts(w.limiter, &before);
  assert_in_range(before.share, 230000, 270000);
  weir_share learnt = share_of(&w, "k");
  assert_true(learnt.mine > 0);
  away_admits(&w, "k", 1);
  world_set(&w, 400000);
  for (int i = 0; i < 60; i++)
    away_take(&w, "k", 1); /* alone: the other has not come back */
  weir_limiter_read_counts(w.limiter, &after);
  assert_int_equal(after.share, before.share);
  assert_int_equal(share_of(&w, "k").mine, learnt.mine);
  assert_int_equal(share_of(&w, "k").all, learnt.all);
  world_set(&w, 2 * SECOND_US);
  for (int i = 0; i < 60; i++)
    away_take(&w, "k", 1);
  weir_limiter_read_counts(w.limiter, &after);
  assert_true(after.share > before.share);
  assert_true(share_of(&w, "k").mine > learnt.mine);
  weir_limiter_destroy(other);
  world_close(&w);
}

/* --- another outage -----------------------------------------------------------------------------
 */

/* The store comes and goes, and is seen to be back each time: by a peek, which pays. */
static void another_outage_within_the_hold_finds_no_fresh_share(void **state) {
  world w;
  int admitted = 0;
  (void)state;
  away_open(&w, "fixed-window:17/1m", 4); /* a fourth of 16 */
  away_take(&w, "k", 1);
  for (int i = 0; i < 10; i++) {
    world_set(&w, i * 10000);
    the_fake.trouble = FAKE_AWAY;
    admitted += world_take(&w, "k", 1).allowed;
    the_fake.trouble = FAKE_WELL;
    world_peek(&w, "k", 1);
  }
  assert_int_equal(admitted, 4);
  away_expect(&w, 4, 4, 0);
  world_set(&w, SECOND_US);
  assert_int_equal(away_take(&w, "k", 1).remaining, 17 - 1 - 4 - 1);
  away_expect(&w, 4, 4, 0);
  world_close(&w);
}

/* And the store then did not answer: it is owed, and the account counts it once. */
static void what_the_hold_admitted_counts_once(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:17/1m", 4); /* a fourth of 16 */
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 1), 1);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 9), 2); /* the first by the hold */
  away_expect(&w, 3, 1, 0);
  away_withheld(&w, "k", 1); /* after another outage */
  away_expect(&w, 3, 3, 0);
  away_withheld(&w, "k", 1);
  assert_int_equal(away_remaining(&w, "fixed-window:17/1m", "k"), 17 - 1 - 4);
  world_close(&w);
}

/* After it what is left is a share of what the store then knows. */
static void another_outage_after_the_hold_begins_with_what_is_left_by_then(void **state) {
  world w;
  (void)state;
  begin(&w); /* 3 */
  away_withheld(&w, "k", 2);
  world_set(&w, SECOND_US);
  int64_t left = away_take(&w, "k", 3).remaining;
  assert_int_equal(left, 3);
  int admitted = away_admits(&w, "k", 9);
  assert_in_range(admitted, 0, 2);
  world_set(&w, 2 * SECOND_US);
  away_withheld(&w, "k", 1);
  world_set(&w, 3 * SECOND_US);
  assert_int_equal(away_take(&w, "k", 1).remaining, left - admitted - 1);
  world_close(&w);
}

/* --- chances ------------------------------------------------------------------------------------
 */

/* 1/4 of 1, for each of so many keys: whoever is denied once is denied for the period. */
static void a_share_below_one_is_a_chance_and_drawn_once(void **state) {
  enum { KEYS = 800, TRIES = 20 };
  world w;
  int admitted = 0;
  (void)state;
  away_open(&w, "fixed-window:1/1m", 4);
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    admitted += away_admits(&w, key, TRIES);
  }
  assert_in_range(admitted, KEYS / 6, KEYS / 3);
  world_close(&w);
}

/* 1.25 is left to each of four: 1, and one more in a fourth of all cases. */
static void the_mean_is_the_share(void **state) {
  enum { KEYS = 800, TRIES = 10 };
  world w;
  int admitted = 0;
  (void)state;
  away_open(&w, "fixed-window:5/1m", 4);
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    admitted += away_admits(&w, key, TRIES);
  }
  assert_in_range(admitted, KEYS * 115 / 100, KEYS * 135 / 100);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_holds_its_share_until_the_others_can_have_paid),
      cmocka_unit_test(it_holds_for_a_second_at_the_most),
      cmocka_unit_test(within_its_share_the_store_decides),
      cmocka_unit_test(up_to_gets_what_both_have_room_for),
      cmocka_unit_test(up_to_is_denied_as_it_was_asked_for),
      cmocka_unit_test(a_process_whose_first_answers_are_late_holds_nothing_back),
      cmocka_unit_test(a_late_answer_makes_no_request_one_that_only_looks),
      cmocka_unit_test(answers_that_are_late_now_and_then_deny_nobody),
      cmocka_unit_test(what_was_lost_or_away_before_it_was_late_is_held),
      cmocka_unit_test(it_learns_nothing_while_it_holds),
      cmocka_unit_test(another_outage_within_the_hold_finds_no_fresh_share),
      cmocka_unit_test(what_the_hold_admitted_counts_once),
      cmocka_unit_test(another_outage_after_the_hold_begins_with_what_is_left_by_then),
      cmocka_unit_test(a_share_below_one_is_a_chance_and_drawn_once),
      cmocka_unit_test(the_mean_is_the_share),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
