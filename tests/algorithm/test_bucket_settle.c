/* The real charges of a token bucket: its debt, and what goes back while it is in debt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_bucket_bench.h"

#define INDEBTED "token-bucket:10/1s,burst=5,debt=3"
#define LONG_DEBT "token-bucket:5/10m,burst=2,debt=2" /* a token takes two minutes */
#define LONG_TOKEN INT64_C(120000000)

static const unsigned both[] = {WEIR_TRAIT_SWAP, WEIR_TRAIT_RAISE};
static int64_t owing[WEIR_RULES_MOST], settlement[WEIR_RULES_MOST];

static void start_settling(struct client *client, int64_t now_us, int64_t at_us, int64_t more) {
  owing[0] = more;
  client->requests[0] = (weir_claim){.ask = {.kind = WEIR_SETTLE,
                                             .cost = 1,
                                             .costs = owing,
                                             .settlement = settlement,
                                             .at_us = at_us}};
  client_start(client, now_us, 1);
}

/* How much of it was charged, or went back. */
static int64_t settle(struct bench *b, struct client *client, int64_t now_us, int64_t at_us,
                      int64_t more) {
  start_settling(client, now_us, at_us, more);
  client_finish(client, &b->store, now_us);
  assert_int_equal(client->requests[0].verdict.status, WEIR_OK);
  assert_true(client->requests[0].verdict.decision.allowed);
  assert_int_equal(client->requests[0].verdict.decision.retry_after_us, 0);
  return settlement[0];
}

static int64_t reset_after_us(const struct client *client) {
  return client->requests[0].verdict.decision.reset_after_us;
}

/* --- more ------------------------------------------------------------------------------------- */

static void charges_what_is_missing_in_one_round(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    take(b, &b->one, NOW, 2);
    start_settling(&b->one, NOW + 5000, NOW, 2);
    assert_int_equal(b->one.machine->frame.operation_count, 1);
    expect_operation(&b->one, 0, both[i] == WEIR_TRAIT_SWAP ? WEIR_SWAP : WEIR_RAISE);
    client_round(&b->one, &b->store, NOW + 5000, false);
    assert_int_equal(b->one.turn, WEIR_TURN_DONE);
    assert_int_equal(settlement[0], 2);
    assert_int_equal(b->one.requests[0].verdict.decision.remaining, 1);
    assert_int_equal(reset_after_us(&b->one), 4 * TOKEN - 5000);
    assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN);
    tear_down(b);
  }
}

static void charges_into_debt_and_tells_what_it_cut(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    take(b, &b->one, NOW, 4);
    assert_int_equal(settle(b, &b->one, NOW, NOW, 20), 4);
    assert_int_equal(stored_in(b, 0), NOW + 8 * TOKEN);
    assert_int_equal(b->one.requests[0].verdict.decision.remaining, 0);
    assert_int_equal(reset_after_us(&b->one), 8 * TOKEN);
    assert_int_equal(settle(b, &b->other, NOW, NOW, 1), 0); /* there is nothing left to owe */
    assert_int_equal(stored_in(b, 0), NOW + 8 * TOKEN);
    tear_down(b);
  }
}

static void sends_no_more_than_can_ever_be_charged(void **state) {
  (void)state;
  struct bench *b = set_up(INDEBTED, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 1);
  start_settling(&b->one, NOW, NOW, INT64_C(1) << 31);
  assert_int_equal(b->one.machine->frame.operations[0].delta, 8 * TOKEN);
  client_round(&b->one, &b->store, NOW, false);
  expect_operation(&b->one, 0, WEIR_SUB); /* in two rounds where it is cut */
  assert_int_equal(b->one.machine->frame.operations[0].delta, TOKEN);
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.turn, WEIR_TURN_DONE);
  assert_int_equal(settlement[0], 7);
  tear_down(b);
}

static void charges_up_to_a_full_bucket_without_a_debt(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(TOKENS_5, both[i]);
    take(b, &b->one, NOW, 4);
    assert_int_equal(settle(b, &b->one, NOW, NOW, 3), 1);
    assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
    tear_down(b);
  }
}

static void admits_again_when_the_debt_is_paid(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    take(b, &b->one, NOW, 5);
    assert_int_equal(settle(b, &b->one, NOW, NOW, 3), 3);
    const weir_decision *denied = take(b, &b->other, NOW, 1);
    assert_false(denied->allowed);
    assert_int_equal(denied->remaining, 0);
    assert_int_equal(denied->retry_after_us, 4 * TOKEN);
    assert_false(take(b, &b->other, NOW + 4 * TOKEN - 1, 1)->allowed);
    assert_true(take(b, &b->other, NOW + 4 * TOKEN, 1)->allowed);
    tear_down(b);
  }
}

/* By compare and swap nothing is ever too much: who meets others looks, and charges what fits then. */
static void charges_on_top_of_what_others_charged_meanwhile(void **state) {
  (void)state;
  struct bench *b = set_up(INDEBTED, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 2);
  start_settling(&b->one, NOW, NOW, 5);
  take(b, &b->other, NOW, 3);
  client_round(&b->one, &b->store, NOW, false);
  client_finish(&b->one, &b->store, NOW);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_OK);
  assert_int_equal(settlement[0], 3);
  assert_int_equal(stored_in(b, 0), NOW + 8 * TOKEN);
  tear_down(b);
}

static void looks_for_what_it_does_not_know(void **state) {
  (void)state;
  struct bench *b = set_up(INDEBTED, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 2);
  start_settling(&b->other, NOW, NOW, 1);
  assert_int_equal(b->other.machine->frame.operation_count, 1);
  expect_operation(&b->other, 0, WEIR_GET);
  client_finish(&b->other, &b->store, NOW);
  assert_int_equal(settlement[0], 1);
  assert_int_equal(stored_in(b, 0), NOW + 3 * TOKEN);
  tear_down(b);
}

/* --- less ------------------------------------------------------------------------------------- */

static void gives_back_what_has_not_drained(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    take(b, &b->one, NOW, 4);
    assert_int_equal(settle(b, &b->other, NOW + TOKEN, NOW, -3), -3);
    assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
    assert_int_equal(reset_after_us(&b->other), TOKEN);
    assert_int_equal(settle(b, &b->other, NOW + TOKEN, NOW, -1), -1); /* it has drained */
    assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
    tear_down(b);
  }
}

static void refunds_while_in_debt_and_forgives_nothing(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    take(b, &b->one, NOW, 2);
    take(b, &b->one, NOW, 3);
    assert_int_equal(settle(b, &b->one, NOW, NOW, 3), 3);
    assert_int_equal(refund(b, NOW, 2, NOW, NULL), WEIR_OK);
    assert_int_equal(stored_in(b, 0), NOW + 6 * TOKEN);
    assert_int_equal(settle(b, &b->other, NOW, NOW, -2), -2);
    assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN);
    tear_down(b);
  }
}

static void refuses_to_give_back_more_than_is_charged(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    take(b, &b->one, NOW, 1);
    start_settling(&b->one, NOW, NOW, -2);
    client_finish(&b->one, &b->store, NOW);
    assert_int_equal(b->one.requests[0].verdict.status, WEIR_BAD_COST);
    assert_int_equal(stored_in(b, 0), NOW + TOKEN);
    tear_down(b);
  }
}

/* --- a debt that is longer than any wait ------------------------------------------------------ */

static void takes_a_long_debt_for_no_wrong_clock(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(LONG_DEBT, both[i]);
    take(b, &b->one, NOW, 2);
    assert_int_equal(settle(b, &b->one, NOW, NOW, 2), 2);
    for (int64_t later_us = 0; later_us < 8000000; later_us += 2000000) {
      const weir_decision *denied = take(b, &b->other, NOW + later_us, 1);
      assert_false(denied->allowed);
      assert_int_equal(denied->retry_after_us, 3 * LONG_TOKEN - later_us);
    }
    assert_int_equal(stored_in(b, 0), NOW + 4 * LONG_TOKEN);
    tear_down(b);
  }
}

static void keeps_its_key_until_a_long_debt_is_paid(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(LONG_DEBT, both[i]);
    take(b, &b->one, NOW, 1);
    assert_int_equal(settle(b, &b->one, NOW, NOW, 3), 3);
    assert_true(store_find(&b->store, 0, 0)->ttl_us > 4 * LONG_TOKEN);
    tear_down(b);
  }
}

/* Else a refund could not tell a debt from a place that others wait behind. */
static void gives_no_delays_where_it_may_be_in_debt(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    take(b, &b->one, NOW, 4);
    const weir_decision *denied = wait_for(b, &b->one, NOW, 2, 50 * TOKEN);
    assert_false(denied->allowed);
    assert_int_equal(denied->retry_after_us, TOKEN);
    assert_int_equal(denied->delay_us, 0);
    assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN);
    assert_true(wait_for(b, &b->other, NOW, 1, 50 * TOKEN)->allowed);
    tear_down(b);
  }
}

/* A value that a wrong clock has left may be put back at any time, and a debt with it. */
static void charges_nothing_on_what_a_wrong_clock_left(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct bench *b = set_up(INDEBTED, both[i]);
    b->one.settings.processes = b->other.settings.processes = 1;
    int64_t wrong = NOW + INT64_C(1000000000000);
    store_put(b, 0, wrong);
    assert_int_equal(settle(b, &b->one, NOW, NOW, 1), 0);
    assert_int_equal(stored_in(b, 0), wrong);
    assert_int_equal(reset_after_us(&b->one), 5 * TOKEN);
    assert_false(take(b, &b->other, NOW, 1)->allowed); /* which puts it back to a full bucket */
    assert_int_equal(settle(b, &b->one, NOW, NOW, 4), 3);
    assert_int_equal(stored_in(b, 0), NOW + 8 * TOKEN);
    tear_down(b);
  }
}

/* Between two epochs both keys are charged, and what is beyond the debt goes back from both. */
static void settles_between_two_epochs(void **state) {
  (void)state;
  const int64_t epoch = INT64_C(1) << 52; /* of k = 0: 142 years */
  struct bench *b = set_up(INDEBTED, WEIR_TRAIT_RAISE);
  take(b, &b->one, epoch - 1000, 4);
  assert_int_equal(settle(b, &b->one, epoch + 1000, epoch - 1000, 9), 4);
  assert_int_equal(stored_in(b, 0), epoch - 1000 + 8 * TOKEN);
  assert_int_equal(stored_in(b, 1), 8 * TOKEN - 1000);
  tear_down(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(charges_what_is_missing_in_one_round),
      cmocka_unit_test(charges_into_debt_and_tells_what_it_cut),
      cmocka_unit_test(sends_no_more_than_can_ever_be_charged),
      cmocka_unit_test(charges_up_to_a_full_bucket_without_a_debt),
      cmocka_unit_test(admits_again_when_the_debt_is_paid),
      cmocka_unit_test(charges_on_top_of_what_others_charged_meanwhile),
      cmocka_unit_test(looks_for_what_it_does_not_know),
      cmocka_unit_test(gives_back_what_has_not_drained),
      cmocka_unit_test(refunds_while_in_debt_and_forgives_nothing),
      cmocka_unit_test(refuses_to_give_back_more_than_is_charged),
      cmocka_unit_test(takes_a_long_debt_for_no_wrong_clock),
      cmocka_unit_test(keeps_its_key_until_a_long_debt_is_paid),
      cmocka_unit_test(gives_no_delays_where_it_may_be_in_debt),
      cmocka_unit_test(charges_nothing_on_what_a_wrong_clock_left),
      cmocka_unit_test(settles_between_two_epochs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
