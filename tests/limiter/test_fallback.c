/* What each policy answers while the store is away: real servers that are killed. */
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

static void local_decides_by_its_share(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    lose_server(&o, kind, "fixed-window:10/1m", WEIR_FALLBACK_LOCAL);
    weir_decision decision = outage_take(&o, "k", 1);
    assert_from_policy(decision);
    assert_allowed(decision, 1, 60 * SECOND_US);
    assert_int_equal(decision.limit, 10 / OUTAGE_PEERS);
    assert_allowed(outage_take(&o, "k", 1), 0, 60 * SECOND_US);
    o.clock.now_us += 20 * SECOND_US;
    assert_denied(outage_take(&o, "k", 1), 0, 40 * SECOND_US, 40 * SECOND_US);
    assert_true(outage_take(&o, "other", 2).allowed);
    o.clock.now_us += 40 * SECOND_US;
    assert_true(outage_take(&o, "k", 1).allowed);
    outage_close(&o);
  }
}

/* Above the share but not above the rule: the store would admit it one day. */
static void a_cost_above_the_share_may_be_asked_again(void **state) {
  outage o;
  (void)state;
  lose_server(&o, OUTAGE_META, "fixed-window:10/1m", WEIR_FALLBACK_LOCAL);
  weir_decision decision = outage_take(&o, "k", 3);
  assert_from_policy(decision);
  assert_denied(decision, 0, 500000, 500000);
  decision = outage_take(&o, "k", 11);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
  assert_int_equal(decision.store_status, WEIR_OK);
  assert_int_equal(decision.retry_after_us, WEIR_NEVER);
  outage_close(&o);
}

static void as_much_as_fits_is_as_much_as_the_policy_has(void **state) {
  static const struct {
    weir_fallback fallback;
    bool allowed;
    int64_t cost;
  } cases[] = {{WEIR_FALLBACK_LOCAL, true, 10 / OUTAGE_PEERS},
               {WEIR_FALLBACK_DENY, false, 10},
               {WEIR_FALLBACK_ALLOW, true, 10}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    outage o;
    weir_decision decision;
    lose_server(&o, OUTAGE_META, "fixed-window:10/1m", cases[i].fallback);
    assert_int_equal(weir_limiter_take_up_to(o.limiter, "k", 1, 10, &decision, NULL), WEIR_OK);
    assert_from_policy(decision);
    assert_int_equal(decision.allowed, cases[i].allowed);
    assert_int_equal(decision.cost, cases[i].cost);
    outage_close(&o);
  }
}

/* Every algorithm, alone and stacked: so many single requests at one moment. */
static void no_algorithm_gives_more_than_its_share(void **state) {
  static const struct {
    const char *rules;
    int share;
  } cases[] = {
      {"fixed-window:43/1m", 10},
      {"fixed-window:3/1m", 1},
      {"sliding-window:43/1m", 10},
      {"sliding-window:43/1m,cells=16,strict", 10},
      {"sliding-window:43/1m,count=all", 10},
      {"quota:43/1m", 10},
      {"sliding-log:43/1m", 10},
      {"sliding-log:80/1h;quota:43/1m;sliding-log:50/1m", 10},
      {"token-bucket:43/1m,burst=22", 5},
      {"token-bucket:1/1m,burst=22", 5},
      {"leaky-bucket:43/1m,queue=22", 5},
      {"leaky-bucket:43/1m", 1},
      {"fixed-window:43/1m;token-bucket:100/1m,burst=22;sliding-log:80/1h", 5},
      {"sliding-window:246/1h;sliding-window:50000/1h", 61}, /* of one layout once divided */
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

/* What a second outage finds is what the first one left: nothing is forgiven by coming back. */
static void the_store_decides_again_and_the_share_stays_spent(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    weir_decision decision;
    lose_server(&o, kind, "fixed-window:8/1m", WEIR_FALLBACK_LOCAL);
    assert_true(outage_take(&o, "k", 2).allowed);
    server_restart(o.servers[0]);
    int64_t end_us = weir_monotonic_us() + 60 * SECOND_US;
    do {
      decision = outage_take(&o, "k", 1);
    } while (decision.source == WEIR_SOURCE_FALLBACK && weir_monotonic_us() < end_us);
    assert_int_equal(decision.source, WEIR_SOURCE_STORE);
    assert_true(decision.allowed);
    assert_int_equal(decision.remaining, 7);
    outage_kill(&o, 0);
    decision = outage_take(&o, "k", 1);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_false(decision.allowed);
    outage_close(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(none_reports_what_the_store_did),
      cmocka_unit_test(deny_denies_for_half_a_second),
      cmocka_unit_test(allow_allows_and_knows_nothing),
      cmocka_unit_test(local_decides_by_its_share),
      cmocka_unit_test(a_cost_above_the_share_may_be_asked_again),
      cmocka_unit_test(as_much_as_fits_is_as_much_as_the_policy_has),
      cmocka_unit_test(no_algorithm_gives_more_than_its_share),
      cmocka_unit_test(figures_are_those_of_the_first_rule_with_a_cost),
      cmocka_unit_test(peeks_resets_and_refunds_report_the_status),
      cmocka_unit_test(the_store_decides_again_and_the_share_stays_spent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
