/* Buckets where the store raises and adds, operation by operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_bucket_bench.h"

/* The epoch where k = 0: 142 years. */
#define EPOCH (INT64_C(1) << 52)

/* --- rounds ------------------------------------------------------------------------------------
 */

static void looks_at_what_it_does_not_know(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  client_take(&b->one, NOW, 2);
  expect_operation(&b->one, 0, WEIR_GET);
  assert_true(b->one.machine->frame.operations[0].raised);
  client_round(&b->one, &b->store, NOW + 300, false);
  expect_operation(&b->one, 0, WEIR_RAISE);
  assert_int_equal(b->one.machine->frame.operations[0].floor, NOW + 300);
  assert_int_equal(b->one.machine->frame.operations[0].delta, 2 * TOKEN);
  client_round(&b->one, &b->store, NOW + 500, false);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 3);
  tear_down(b);
}

static void charges_at_once_while_less_than_half_is_used(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 2);
  begin_take(b, &b->one, NOW, 1);
  assert_int_equal(b->one.machine->frame.operations[0].kind, WEIR_RAISE);
  client_take(&b->one, NOW, 4); /* more than what is left by what it knows */
  expect_operation(&b->one, 0, WEIR_GET);
  start_waiting(&b->one, NOW, 1, TOKEN);
  expect_operation(&b->one, 0, WEIR_GET);
  client_take(&b->one, NOW + 1000001, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  take(b, &b->one, NOW, 1);
  client_take(&b->one, NOW, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  tear_down(b);
}

static void looks_before_it_queues(void **state) {
  (void)state;
  struct bench *b = set_up(QUEUE_4, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 1);
  client_take(&b->one, NOW, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  tear_down(b);
}

static void writes_nothing_for_what_it_denies(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 5);
  uint64_t operations = b->store.operations;
  assert_int_equal(take(b, &b->other, NOW + 1, 2)->retry_after_us, 2 * TOKEN - 1);
  assert_int_equal(b->store.operations, operations + 1);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  tear_down(b);
}

/* --- others, and what they do meanwhile --------------------------------------------------------
 */

static void takes_overshoot_back_in_full(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  begin_take(b, &b->one, NOW, 3);
  begin_take(b, &b->other, NOW, 3);
  client_land(&b->other, &b->store);
  client_round(&b->one, &b->store, NOW + 200, false);
  expect_operation(&b->one, 0, WEIR_SUB);
  assert_int_equal(b->one.machine->frame.operations[0].delta, 3 * TOKEN);
  client_finish(&b->one, &b->store, NOW + 200);
  client_finish(&b->other, &b->store, NOW + 200);
  assert_false(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[0].verdict.decision.retry_after_us, TOKEN);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 2);
  assert_true(b->other.requests[0].verdict.decision.allowed);
  assert_int_equal(stored_in(b, 0), NOW + 3 * TOKEN);
  tear_down(b);
}

static void takes_back_only_what_of_a_group_did_not_fit(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  b->one.requests[0] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 2}};
  b->one.requests[1] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 3, .up_to = true}};
  client_start(&b->one, NOW, 2);
  client_round(&b->one, &b->store, NOW, false);
  take(b, &b->other, NOW, 2);
  client_finish(&b->one, &b->store, NOW);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[1].verdict.decision.cost, 1);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  tear_down(b);
}

/* A place after it may be given before it is denied. */
static void leaves_overshoot_that_others_may_queue_behind(void **state) {
  (void)state;
  struct bench *b = set_up(QUEUE_4, WEIR_TRAIT_RAISE);
  begin_take(b, &b->one, NOW, 3);
  begin_take(b, &b->other, NOW, 3);
  client_finish(&b->other, &b->store, NOW);
  client_finish(&b->one, &b->store, NOW);
  assert_false(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(stored_in(b, 0), NOW + 6 * TOKEN);
  tear_down(b);
}

static void leaves_overshoot_of_those_who_may_wait(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  start_waiting(&b->one, NOW, 2, TOKEN);
  b->one.requests[0].next = &b->one.requests[1];
  b->one.requests[1] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 3}, .verdict.charge = 3};
  client_round(&b->one, &b->store, NOW, false);
  expect_operation(&b->one, 0, WEIR_RAISE);
  take(b, &b->other, NOW, 5);
  client_finish(&b->one, &b->store, NOW);
  assert_false(b->one.requests[0].verdict.decision.allowed);
  assert_false(b->one.requests[1].verdict.decision.allowed);
  assert_int_equal(stored_in(b, 0), NOW + 7 * TOKEN); /* three went back, two did not */
  tear_down(b);
}

/* Between raising and adding, others take back what was below the floor: the sum is too low. */
static void adds_what_a_take_back_took_from_under_it(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  b->store.splits_raises = true;
  begin_take(b, &b->other, NOW, 1); /* will be late */
  client_land(&b->other, &b->store);
  client_land(&b->other, &b->store);
  client_round(&b->other, &b->store, NOW, true);
  expect_operation(&b->other, 0, WEIR_SUB);
  begin_take(b, &b->one, NOW + 3 * TOKEN, 2);
  client_land(&b->one, &b->store);
  client_round(&b->other, &b->store, NOW, true);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  client_land(&b->one, &b->store);
  client_round(&b->one, &b->store, NOW + 3 * TOKEN, false);
  expect_operation(&b->one, 0, WEIR_RAISE);
  b->store.splits_raises = false;
  client_finish(&b->one, &b->store, NOW + 3 * TOKEN);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 3);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  tear_down(b);
}

/* More is missing than the charge: the second time raises as well. */
static void adds_no_more_than_its_charge_again(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  b->store.splits_raises = true;
  begin_take(b, &b->one, NOW, 1);
  client_land(&b->one, &b->store);
  store_find(&b->store, 0, 0)->value -= 4 * TOKEN;
  client_land(&b->one, &b->store);
  b->store.splits_raises = false;
  client_finish(&b->one, &b->store, NOW);
  assert_int_equal(stored_in(b, 0), NOW + TOKEN);
  tear_down(b);
}

static void begins_anew_when_the_key_is_gone_between_raising_and_adding(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  b->store.splits_raises = true;
  begin_take(b, &b->one, NOW, 2);
  client_land(&b->one, &b->store);
  store_find(&b->store, 0, 0)->present = false;
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  b->store.splits_raises = false;
  client_finish(&b->one, &b->store, NOW);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  tear_down(b);
}

static void knows_nothing_after_an_answer_was_lost(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 1);
  client_take(&b->one, NOW, 1);
  client_land(&b->one, &b->store);
  b->one.machine->frame.operations[0].outcome = WEIR_UNKNOWN;
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(b->one.turn, WEIR_TURN_DONE);
  client_take(&b->one, NOW, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  tear_down(b);
}

static void takes_a_late_charge_back(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 2);
  begin_take(b, &b->one, NOW, 2);
  client_round(&b->one, &b->store, NOW + 30000, true);
  expect_operation(&b->one, 0, WEIR_SUB);
  client_finish(&b->one, &b->store, NOW + 30000);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_TIMEOUT);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  tear_down(b);
}

/* The bucket would have run dry since: that much of the charge has drained. */
static void takes_no_more_back_than_is_left_of_a_late_charge(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW - TOKEN / 2, 1);
  begin_take(b, &b->one, NOW, 2);
  client_round(&b->one, &b->store, NOW + TOKEN, true);
  client_finish(&b->one, &b->store, NOW + TOKEN);
  assert_int_equal(stored_in(b, 0), NOW + TOKEN);
  tear_down(b);
}

static void remembers_a_denial_but_not_what_was_taken_back(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  begin_take(b, &b->one, NOW, 3);
  take(b, &b->other, NOW, 4);
  client_finish(&b->one, &b->store, NOW);
  weir_claim again = {.ask = {.kind = WEIR_TAKE, .cost = 3}};
  assert_true(
      weir_settle_locally(&(weir_view){&b->stack, &b->one.settings, b->one.memo, NOW + 1}, &again));
  assert_int_equal(again.verdict.decision.retry_after_us, 2 * TOKEN - 1);
  tear_down(b);
}

/* --- refunds, cancels and resets ---------------------------------------------------------------
 */

static void refunds_what_has_not_drained(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  assert_int_equal(refund(b, NOW, 1, NOW, NULL), WEIR_BAD_COST);
  take(b, &b->one, NOW, 4);
  assert_int_equal(refund(b, NOW + 50000, 2, NOW, NULL), WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN - (2 * TOKEN - 50000));
  tear_down(b);
}

static void refunds_nothing_while_somebody_waits(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 5);
  assert_true(wait_for(b, &b->one, NOW, 1, TOKEN)->allowed);
  assert_int_equal(refund(b, NOW, 5, NOW, NULL), WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 6 * TOKEN);
  tear_down(b);
}

static void cancels_no_place_in_a_queue(void **state) {
  (void)state;
  struct bench *b = set_up(QUEUE_4, WEIR_TRAIT_RAISE);
  int64_t ends[WEIR_RULES_MOST];
  for (int i = 0; i < 2; i++) {
    b->one.requests[0] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 1, .ends = ends}};
    client_start(&b->one, NOW, 1);
    client_finish(&b->one, &b->store, NOW);
    assert_int_equal(refund(b, NOW, 1, NOW, ends), WEIR_OK);
  }
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  tear_down(b);
}

static void drops_every_epoch_that_counts(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  take(b, &b->other, roll - 1000, 2);
  take(b, &b->other, roll + 1000, 3); /* in both */
  start_reset(&b->one, roll + 2000);
  client_finish(&b->one, &b->store, roll + 2000);
  assert_true(take(b, &b->one, roll + 2000, 5)->allowed);
  start_reset(&b->one, roll - 15000); /* a clock that is behind knows of the next one */
  client_finish(&b->one, &b->store, roll - 15000);
  assert_null(store_find(&b->store, 0, 12));
  tear_down(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(looks_at_what_it_does_not_know),
      cmocka_unit_test(charges_at_once_while_less_than_half_is_used),
      cmocka_unit_test(looks_before_it_queues),
      cmocka_unit_test(writes_nothing_for_what_it_denies),
      cmocka_unit_test(takes_overshoot_back_in_full),
      cmocka_unit_test(takes_back_only_what_of_a_group_did_not_fit),
      cmocka_unit_test(leaves_overshoot_that_others_may_queue_behind),
      cmocka_unit_test(leaves_overshoot_of_those_who_may_wait),
      cmocka_unit_test(adds_what_a_take_back_took_from_under_it),
      cmocka_unit_test(adds_no_more_than_its_charge_again),
      cmocka_unit_test(begins_anew_when_the_key_is_gone_between_raising_and_adding),
      cmocka_unit_test(knows_nothing_after_an_answer_was_lost),
      cmocka_unit_test(takes_a_late_charge_back),
      cmocka_unit_test(takes_no_more_back_than_is_left_of_a_late_charge),
      cmocka_unit_test(remembers_a_denial_but_not_what_was_taken_back),
      cmocka_unit_test(refunds_what_has_not_drained),
      cmocka_unit_test(refunds_nothing_while_somebody_waits),
      cmocka_unit_test(cancels_no_place_in_a_queue),
      cmocka_unit_test(drops_every_epoch_that_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
