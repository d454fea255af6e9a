/* The answers of each policy while the store is away: real servers that are killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

static const char untouched[] = "untouched";

static weir_status take(outage *o, int64_t cost, weir_decision *decision, weir_message *message) {
  snprintf(message->text, sizeof message->text, "%s", untouched);
  return weir_limiter_take(o->limiter, "k", 1, cost, decision, message);
}

/* A store that knew the key until just now. */
static void lose_server(outage *o, enum outage_kind kind, const char *rules,
                        weir_fallback fallback) {
  outage_start(o, kind, 1);
  outage_open(o, rules, fallback, 0);
  assert_int_equal(outage_take(o, "k", 1).source, WEIR_SOURCE_STORE);
  outage_kill(o, 0);
}

static void assert_from_policy(weir_decision decision) {
  assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
  assert_true(decision.store_status == WEIR_UNAVAILABLE ||
              decision.store_status == WEIR_UNKNOWN_OUTCOME);
}

static void none_reports_what_the_store_did(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    weir_decision decision;
    weir_message message;
    lose_server(&o, kind, "fixed-window:10/1m", WEIR_FALLBACK_NONE);
    weir_status status = take(&o, 1, &decision, &message);
    if (status == WEIR_UNKNOWN_OUTCOME) status = take(&o, 1, &decision, &message);
    assert_int_equal(status, WEIR_UNAVAILABLE);
    assert_string_not_equal(message.text, untouched);
    outage_close(&o);
  }
}

static void deny_denies_for_half_a_second(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    weir_decision decision;
    weir_message message;
    lose_server(&o, kind, "fixed-window:10/1m;token-bucket:7/1s", WEIR_FALLBACK_DENY);
    assert_int_equal(take(&o, 3, &decision, &message), WEIR_OK);
    assert_non_null(strstr(message.text, "cannot connect"));
    assert_from_policy(decision);
    assert_denied(decision, 0, 500000, 500000);
    assert_int_equal(decision.limit, 10);
    assert_int_equal(decision.cost, 3);
    assert_int_equal(decision.at_us, START_US);
    outage_close(&o);
  }
}

static void allow_allows_and_knows_nothing(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    weir_decision decision;
    weir_message message;
    lose_server(&o, kind, "fixed-window:10/1m", WEIR_FALLBACK_ALLOW);
    for (int i = 0; i < 20; i++) {
      assert_int_equal(take(&o, 10, &decision, &message), WEIR_OK);
      assert_from_policy(decision);
      assert_allowed(decision, WEIR_NOT_KNOWN, WEIR_NOT_KNOWN);
      assert_int_equal(decision.limit, 10);
      assert_int_equal(decision.cost, 10);
    }
    outage_close(&o);
  }
}

/* A fourth of the 8 that were left. The next window is a fourth of 9, and a chance. */
static void local_decides_by_its_share_of_what_was_left(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    lose_server(&o, kind, "fixed-window:9/1m", WEIR_FALLBACK_LOCAL);
    weir_decision decision = outage_take(&o, "k", 1);
    assert_from_policy(decision);
    assert_allowed(decision, 1, 60 * SECOND_US);
    assert_int_equal(decision.limit, 9);
    assert_allowed(outage_take(&o, "k", 1), 0, 60 * SECOND_US);
    o.clock.now_us += 20 * SECOND_US;
    assert_denied(outage_take(&o, "k", 1), 0, 500000, 40 * SECOND_US);
    assert_true(outage_take(&o, "other", 2).allowed);
    o.clock.now_us += 40 * SECOND_US;
    assert_true(outage_take(&o, "k", 2).allowed);
    outage_close(&o);
  }
}

/* Until it has had two answers: then its share is measured. */
static void who_has_not_met_the_store_says_so(void **state) {
  (void)state;
  for (int answers = 0; answers < 4; answers++) {
    outage o;
    weir_decision decision;
    weir_message message;
    outage_start(&o, OUTAGE_META, 1);
    outage_open(&o, "fixed-window:9/1m", WEIR_FALLBACK_LOCAL, 0);
    for (int i = 0; i < answers; i++)
      assert_int_equal(outage_take(&o, "k", 1).source, WEIR_SOURCE_STORE);
    outage_kill(&o, 0);
    assert_int_equal(take(&o, 1, &decision, &message), WEIR_OK);
    assert_from_policy(decision);
    assert_int_equal(strstr(message.text,
                            "; this process has not met its store yet and takes its "
                            "share to be 1/4 (peers)") != NULL,
                     answers < 2);
    assert_non_null(strstr(message.text, "cannot connect"));
    outage_close(&o);
  }
}

/* Whole shares admit whole costs: a cost above the share is admitted as often as it fits into the
 * share on average, and may always be asked for again. */
static void a_cost_above_the_share_is_a_chance(void **state) {
  enum { TRIES = 400 };
  outage o;
  int admitted = 0;
  (void)state;
  lose_server(&o, OUTAGE_META, "fixed-window:10/1m", WEIR_FALLBACK_LOCAL);
  for (int i = 0; i < TRIES; i++) {
    char key[16];
    snprintf(key, sizeof key, "key%d", i);
    weir_decision decision = outage_take(&o, key, 10);
    admitted += decision.allowed;
    if (decision.allowed) continue;
    assert_from_policy(decision);
    assert_denied(decision, 0, 500000, 500000);
    assert_false(outage_take(&o, key, 10).allowed); /* u is drawn once */
  }
  assert_in_range(admitted, TRIES / 8, 3 * TRIES / 8); /* 1/4; a sigma is 0.022 */
  weir_decision decision = outage_take(&o, "k", 11);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
  assert_int_equal(decision.store_status, WEIR_OK);
  assert_int_equal(decision.retry_after_us, WEIR_NEVER);
  assert_false(outage_take(&o, "k", 10).allowed); /* one of them is gone: never more than is left */
  outage_close(&o);
}

static void as_much_as_fits_is_as_much_as_the_policy_has(void **state) {
  static const struct {
    weir_fallback fallback;
    bool allowed;
    int64_t cost;
  } cases[] = {{WEIR_FALLBACK_LOCAL, true, 8 / OUTAGE_PEERS},
               {WEIR_FALLBACK_DENY, false, 9},
               {WEIR_FALLBACK_ALLOW, true, 9}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    outage o;
    weir_decision decision;
    lose_server(&o, OUTAGE_META, "fixed-window:9/1m", cases[i].fallback);
    assert_int_equal(weir_limiter_take_up_to(o.limiter, "k", 1, 9, &decision, NULL), WEIR_OK);
    assert_from_policy(decision);
    assert_int_equal(decision.allowed, cases[i].allowed);
    assert_int_equal(decision.cost, cases[i].cost);
    outage_close(&o);
  }
}

/* Every algorithm, alone and stacked: so many single requests at one moment, after one that the
 * store admitted. */
static void no_algorithm_gives_more_than_its_share(void **state) {
  static const struct {
    const char *rules;
    int share;
  } cases[] = {
      {"fixed-window:41/1m", 10},
      {"fixed-window:5/1m", 1},
      {"fixed-window:1/1m", 0},
      {"sliding-window:41/1m", 10},
      {"sliding-window:41/1m,cells=16,strict", 10},
      {"sliding-window:41/1m,count=all", 10},
      {"quota:41/1m", 10},
      {"sliding-log:41/1m", 10},
      {"sliding-log:80/1h;quota:41/1m;sliding-log:48/1m", 10},
      {"token-bucket:41/1m,burst=21", 5},
      {"token-bucket:1/1m,burst=21", 5},
      {"leaky-bucket:41/1m,queue=20", 5},
      {"leaky-bucket:43/1m", 0},
      {"fixed-window:41/1m;token-bucket:100/1m,burst=21;sliding-log:80/1h", 5},
      {"sliding-window:245/1h;sliding-window:50000/1h", 61},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    outage o;
    int admitted = 0;
    lose_server(&o, i % OUTAGE_KINDS, cases[i].rules, WEIR_FALLBACK_LOCAL);
    for (int n = 0; n < 80; n++) {
      weir_decision decision = outage_take(&o, "k", 1);
      assert_from_policy(decision);
      admitted += decision.allowed;
    }
    if (admitted != cases[i].share)
      fail_msg("%s: %d admitted, a share is %d", cases[i].rules, admitted, cases[i].share);
    outage_close(&o);
  }
}

/* By every algorithm on every store: 20 of 41 or so, and a fourth of those. */
static void what_was_left_is_known_of_every_rule(void **state) {
  static const char *const rules[] = {
      "fixed-window:41/1m",
      "sliding-window:41/1m",
      "sliding-window:41/1m,strict",
      "quota:41/1m",
      "token-bucket:41/1m",
      "token-bucket:41/1s",
      "leaky-bucket:41/1m,queue=40",
      "fixed-window:41/1m;token-bucket:99/1m;leaky-bucket:99/1m,queue=98",
      "sliding-window:41/1m,lease=1s"};
  (void)state;
  for (size_t i = 0; i < OUTAGE_KINDS * sizeof rules / sizeof rules[0]; i++) {
    const char *rule = rules[i / OUTAGE_KINDS];
    outage o;
    int admitted = 0;
    outage_start(&o, i % OUTAGE_KINDS, 1);
    outage_open(&o, rule, WEIR_FALLBACK_LOCAL, 0);
    assert_true(outage_take(&o, "k", 21).allowed);
    outage_kill(&o, 0);
    for (int n = 0; n < 20; n++)
      admitted += outage_take(&o, "k", 1).allowed;
    if (admitted != 5) fail_msg("%s, %s: %d admitted", o.name, rule, admitted);
    outage_close(&o);
  }
}

static void figures_are_those_of_the_first_rule_with_a_cost(void **state) {
  static const int64_t costs[] = {0, 0, 5};
  outage o;
  (void)state;
  lose_server(&o, OUTAGE_META, "fixed-window:10/1m;quota:20/1m;leaky-bucket:9/1s,queue=29",
              WEIR_FALLBACK_DENY);
  weir_request request = {.key = "k", .key_length = 1, .costs = costs};
  assert_int_equal(weir_limiter_decide(o.limiter, &request, 1, NULL), WEIR_OK);
  assert_from_policy(request.decision);
  assert_int_equal(request.decision.rule, 2);
  assert_int_equal(request.decision.limit, 30);
  assert_int_equal(request.decision.cost, WEIR_OWN_COSTS);
  outage_close(&o);
}

static void peeks_resets_and_refunds_report_the_status(void **state) {
  for (weir_fallback fallback = 0; fallback <= WEIR_FALLBACK_NONE; fallback++) {
    outage o;
    weir_decision taken;
    weir_decision decision;
    weir_message message = {""};
    (void)state;
    outage_start(&o, OUTAGE_META, 1);
    outage_open(&o, "fixed-window:10/1m", fallback, 0);
    taken = outage_take(&o, "k", 2);
    outage_kill(&o, 0);
    assert_int_equal(weir_limiter_peek(o.limiter, "k", 1, 1, &decision, &message),
                     WEIR_UNAVAILABLE);
    assert_string_not_equal(message.text, "");
    assert_int_equal(weir_limiter_reset(o.limiter, "k", 1, NULL), WEIR_UNAVAILABLE);
    assert_int_equal(weir_limiter_refund(o.limiter, "k", 1, 1, &taken, NULL), WEIR_UNAVAILABLE);
    assert_int_equal(taken.cost, 2);
    outage_close(&o);
  }
}

/* The debt of the meantime is paid first. A second outage finds what the first one left: nothing is
 * forgiven by coming back. */
static void the_store_decides_again_and_the_share_stays_spent(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    weir_decision decision;
    lose_server(&o, kind, "fixed-window:9/1m", WEIR_FALLBACK_LOCAL);
    for (int i = 0; i < 3; i++)
      assert_int_equal(outage_take(&o, "k", 1).allowed, i < 2);
    server_restart(o.servers[0]);
    int64_t end_us = weir_monotonic_us() + 60 * SECOND_US;
    do {
      decision = outage_take(&o, "k", 1);
      assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
      assert_false(decision.allowed); /* the first that the store answers, too */
    } while (decision.store_status != WEIR_OK && weir_monotonic_us() < end_us);
    assert_int_equal(limiter_peek(o.limiter, "k", 1).remaining, 7);
    decision = outage_take(&o, "k", 1); /* the hold */
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_int_equal(decision.store_status, WEIR_OK);
    assert_false(decision.allowed);
    outage_kill(&o, 0);
    decision = outage_take(&o, "k", 1);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_false(decision.allowed);
    weir_limiter_counts counts = outage_counts(o.limiter);
    assert_int_equal(counts.owed, 2);
    assert_int_equal(counts.paid, 2);
    outage_close(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(none_reports_what_the_store_did),
      cmocka_unit_test(deny_denies_for_half_a_second),
      cmocka_unit_test(allow_allows_and_knows_nothing),
      cmocka_unit_test(local_decides_by_its_share_of_what_was_left),
      cmocka_unit_test(who_has_not_met_the_store_says_so),
      cmocka_unit_test(a_cost_above_the_share_is_a_chance),
      cmocka_unit_test(as_much_as_fits_is_as_much_as_the_policy_has),
      cmocka_unit_test(no_algorithm_gives_more_than_its_share),
      cmocka_unit_test(what_was_left_is_known_of_every_rule),
      cmocka_unit_test(figures_are_those_of_the_first_rule_with_a_cost),
      cmocka_unit_test(peeks_resets_and_refunds_report_the_status),
      cmocka_unit_test(the_store_decides_again_and_the_share_stays_spent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
