/* Refunds of a bucket where the store compares and swaps: which go back, and which cannot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_bucket_bench.h"

/* --- taking back -------------------------------------------------------------------------------
 */

static void takes_a_late_charge_back_exactly(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 2);
  begin_take(b, &b->one, NOW, 3);
  client_round(&b->one, &b->store, NOW + 70000, true);
  expect_operation(&b->one, 0, WEIR_SWAP);
  client_round(&b->one, &b->store, NOW + 70000, true);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_TIMEOUT);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  tear_down(b);
}

static void takes_back_no_more_than_is_left_when_others_came_after(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  begin_take(b, &b->one, NOW, 2);
  client_land(&b->one, &b->store);
  take(b, &b->other, NOW, 1);
  client_round(&b->one, &b->store, NOW + 70000, true);
  client_finish(&b->one, &b->store, NOW + 70000);
  assert_int_equal(stored_in(b, 0), NOW + 3 * TOKEN - (2 * TOKEN - 70000));
  tear_down(b);
}

static void gives_up_taking_back_after_three_tries(void **state) {
  (void)state;
  struct bench *b = set_up("token-bucket:10/1s,burst=50", WEIR_TRAIT_SWAP);
  begin_take(b, &b->one, NOW, 2);
  client_round(&b->one, &b->store, NOW, true);
  int swaps = 0;
  while (b->one.turn == WEIR_TURN_EXECUTE) {
    if (b->one.machine->frame.operations[0].kind == WEIR_SWAP) {
      take(b, &b->other, NOW, 1);
      swaps++;
    }
    client_round(&b->one, &b->store, NOW, true);
  }
  assert_int_equal(swaps, 3);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME); /* it stays charged */
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  tear_down(b);
}

static void leaves_a_place_that_others_queue_behind(void **state) {
  (void)state;
  struct bench *b = set_up(QUEUE_4, WEIR_TRAIT_SWAP);
  begin_take(b, &b->one, NOW, 2);
  client_land(&b->one, &b->store);
  assert_int_equal(take(b, &b->other, NOW, 1)->delay_us, 2 * TOKEN);
  client_round(&b->one, &b->store, NOW + 10, true);
  client_finish(&b->one, &b->store, NOW + 10);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME); /* it stays charged */
  assert_int_equal(stored_in(b, 0), NOW + 3 * TOKEN);
  tear_down(b);
}

static void finds_nothing_to_take_back_from_a_key_that_is_gone(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  begin_take(b, &b->one, NOW, 2);
  client_land(&b->one, &b->store);
  store_find(&b->store, 0, 0)->present = false;
  client_round(&b->one, &b->store, NOW, true);
  client_finish(&b->one, &b->store, NOW);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_TIMEOUT);
  assert_null(store_find(&b->store, 0, 0));
  tear_down(b);
}

/* The first bucket is charged, the second one is not: the charge of the first is undone. */
static void holds_no_bucket_of_a_stack_that_it_could_not_charge_all_of(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5 ";leaky-bucket:10/2s,queue=4", WEIR_TRAIT_SWAP);
  begin_take(b, &b->one, NOW, 1);
  assert_int_equal(b->one.machine->frame.operation_count, 2);
  client_land(&b->one, &b->store);
  store_execute(&b->store,
                &(weir_operation){.kind = WEIR_CREATE, .counter.rule = 1, .ttl_us = 5000000});
  client_round(&b->one, &b->store, NOW, false);
  expect_operation(&b->one, 0, WEIR_SWAP);
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  assert_int_equal(stored_in(b, 0), NOW);
  client_finish(&b->one, &b->store, NOW);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(stored_in(b, 0), NOW + TOKEN);
  tear_down(b);
}

/* --- refunds and cancels -----------------------------------------------------------------------
 */

static void refunds_what_has_not_drained(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 4);
  assert_int_equal(refund(b, NOW + 50000, 2, NOW, NULL), WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN - (2 * TOKEN - 50000));
  assert_int_equal(refund(b, NOW + TOKEN, 1, NOW, NULL), WEIR_OK); /* all of it has drained */
  assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN - (2 * TOKEN - 50000));
  tear_down(b);
}

static void refuses_to_refund_what_is_not_there(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  assert_int_equal(refund(b, NOW, 1, NOW, NULL), WEIR_BAD_COST);
  take(b, &b->one, NOW, 1);
  assert_int_equal(refund(b, NOW, 2, NOW, NULL), WEIR_BAD_COST);
  assert_int_equal(refund(b, NOW, INT64_C(1) << 31, NOW, NULL), WEIR_BAD_COST);
  assert_int_equal(refund(b, NOW, 1, NOW, NULL), WEIR_OK);
  assert_int_equal(refund(b, NOW, 1, NOW, NULL), WEIR_BAD_COST);
  tear_down(b);
}

/* Those who wait were given places after it: a later one would stand beside theirs. */
static void refunds_nothing_while_somebody_waits(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 5);
  assert_int_equal(wait_for(b, &b->one, NOW, 1, TOKEN)->delay_us, TOKEN);
  assert_int_equal(refund(b, NOW, 5, NOW, NULL), WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 6 * TOKEN);
  assert_int_equal(refund(b, NOW + TOKEN, 5, NOW, NULL), WEIR_OK); /* that one has begun */
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  tear_down(b);
}

/* Somebody comes to wait between the look and the swap of a refund. */
static void looks_once_more_for_who_waits_before_it_refunds(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 5);
  start_refund(&b->other, NOW, 5, NOW, NULL);
  client_round(&b->other, &b->store, NOW, false);
  expect_operation(&b->other, 0, WEIR_SWAP);
  assert_int_equal(wait_for(b, &b->one, NOW, 1, TOKEN)->delay_us, TOKEN);
  client_finish(&b->other, &b->store, NOW);
  assert_int_equal(b->other.requests[0].verdict.status, WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 6 * TOKEN);
  tear_down(b);
}

static void says_so_when_others_kept_a_refund_out(void **state) {
  (void)state;
  struct bench *b = set_up("token-bucket:10/1s,burst=50", WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 5);
  start_refund(&b->other, NOW, 5, NOW, NULL);
  int swaps = 0;
  while (b->other.turn == WEIR_TURN_EXECUTE) {
    if (b->other.machine->frame.operations[0].kind == WEIR_SWAP) {
      take(b, &b->one, NOW, 1);
      swaps++;
    }
    client_round(&b->other, &b->store, NOW, false);
  }
  assert_int_equal(swaps, 3);
  assert_int_equal(b->other.requests[0].verdict.status, WEIR_CONTENDED);
  assert_int_equal(stored_in(b, 0), NOW + 8 * TOKEN);
  tear_down(b);
}

static void keeps_what_a_leaky_bucket_was_charged_when_refunded(void **state) {
  (void)state;
  struct bench *b = set_up(QUEUE_4, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 2);
  assert_int_equal(refund(b, NOW, 2, NOW, NULL), WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  tear_down(b);
}

/* Three places, each with what it cost to get there. */
static void cancels_the_last_place_alone(void **state) {
  (void)state;
  struct bench *b = set_up(QUEUE_4, WEIR_TRAIT_SWAP);
  int64_t ends[3][WEIR_RULES_MOST];
  for (int i = 0; i < 3; i++) {
    b->one.requests[0] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 1, .ends = ends[i]}};
    client_start(&b->one, NOW + i, 1);
    client_finish(&b->one, &b->store, NOW + i);
    assert_int_equal(b->one.requests[0].verdict.decision.delay_us, i == 0 ? 0 : i * TOKEN - i);
  }
  assert_int_equal(refund(b, NOW + 10, 1, NOW, ends[0]), WEIR_OK);
  assert_int_equal(refund(b, NOW + 10, 1, NOW + 1, ends[1]), WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 3 * TOKEN);
  assert_int_equal(refund(b, NOW + 10, 1, NOW + 2, ends[2]), WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN);
  assert_int_equal(refund(b, NOW + 10, 1, NOW + 1, ends[1]), WEIR_OK);
  assert_int_equal(refund(b, NOW + 10, 1, NOW, ends[0]), WEIR_OK); /* it had no delay */
  assert_int_equal(stored_in(b, 0), NOW);
  tear_down(b);
}

static void cancels_nothing_that_others_queue_behind_meanwhile(void **state) {
  (void)state;
  struct bench *b = set_up(QUEUE_4, WEIR_TRAIT_SWAP);
  int64_t ends[WEIR_RULES_MOST];
  take(b, &b->one, NOW, 1);
  b->one.requests[0] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 1, .ends = ends}};
  client_start(&b->one, NOW, 1);
  client_finish(&b->one, &b->store, NOW);
  start_refund(&b->other, NOW, 1, NOW, ends);
  client_round(&b->other, &b->store, NOW, false);
  expect_operation(&b->other, 0, WEIR_SWAP);
  take(b, &b->one, NOW, 1);
  client_finish(&b->other, &b->store, NOW);
  assert_int_equal(b->other.requests[0].verdict.status, WEIR_OK);
  assert_int_equal(stored_in(b, 0), NOW + 3 * TOKEN);
  tear_down(b);
}

/* --- clocks ------------------------------------------------------------------------------------
 */

/* A day ahead, then set right: full, once, and from then on a bucket as any. */
static void mends_what_a_clock_that_was_ahead_has_left(void **state) {
  (void)state;
  const int64_t day_us = INT64_C(86400000000);
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->other, NOW + day_us, 2);
  assert_int_equal(peek(b, &b->one, NOW)->retry_after_us, TOKEN);
  assert_int_equal(stored_in(b, 0), NOW + day_us + 2 * TOKEN); /* who only looks mends nothing */
  assert_int_equal(take(b, &b->one, NOW, 1)->retry_after_us, TOKEN);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  assert_true(take(b, &b->one, NOW + TOKEN, 1)->allowed);
  tear_down(b);
}

static void mends_only_once_among_many(void **state) {
  (void)state;
  const int64_t day_us = INT64_C(86400000000);
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->other, NOW + day_us, 2);
  client_take(&b->one, NOW, 1);
  client_round(&b->one, &b->store, NOW, false);
  expect_operation(&b->one, 0, WEIR_SWAP);
  take(b, &b->other, NOW, 1);
  assert_true(take(b, &b->other, NOW + TOKEN, 1)->allowed);
  client_round(&b->one, &b->store, NOW + TOKEN, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  client_finish(&b->one, &b->store, NOW + TOKEN);
  assert_int_equal(stored_in(b, 0), NOW + 6 * TOKEN);
  tear_down(b);
}

/* A bucket that waits and clocks account for is no mistake. */
static void leaves_what_honest_clocks_can_have_left(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  int64_t ahead = 5 * TOKEN + b->one.settings.longest_wait_us + 2 * b->one.settings.clock_error_us;
  store_put(b, 0, NOW + ahead);
  assert_int_equal(take(b, &b->one, NOW, 1)->reset_after_us, ahead);
  assert_int_equal(stored_in(b, 0), NOW + ahead);
  tear_down(b);
}

static void bears_any_number_in_its_place(void **state) {
  (void)state;
  const int64_t values[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_C(1) << 62, INT64_MAX};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
    struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
    store_put(b, 0, values[i]);
    take(b, &b->one, NOW, 1);
    assert_in_range(take(b, &b->one, NOW + 5 * TOKEN, 1)->remaining, 3, 4);
    tear_down(b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_a_late_charge_back_exactly),
      cmocka_unit_test(takes_back_no_more_than_is_left_when_others_came_after),
      cmocka_unit_test(gives_up_taking_back_after_three_tries),
      cmocka_unit_test(leaves_a_place_that_others_queue_behind),
      cmocka_unit_test(finds_nothing_to_take_back_from_a_key_that_is_gone),
      cmocka_unit_test(holds_no_bucket_of_a_stack_that_it_could_not_charge_all_of),
      cmocka_unit_test(refunds_what_has_not_drained),
      cmocka_unit_test(refuses_to_refund_what_is_not_there),
      cmocka_unit_test(refunds_nothing_while_somebody_waits),
      cmocka_unit_test(looks_once_more_for_who_waits_before_it_refunds),
      cmocka_unit_test(says_so_when_others_kept_a_refund_out),
      cmocka_unit_test(keeps_what_a_leaky_bucket_was_charged_when_refunded),
      cmocka_unit_test(cancels_the_last_place_alone),
      cmocka_unit_test(cancels_nothing_that_others_queue_behind_meanwhile),
      cmocka_unit_test(mends_what_a_clock_that_was_ahead_has_left),
      cmocka_unit_test(mends_only_once_among_many),
      cmocka_unit_test(leaves_what_honest_clocks_can_have_left),
      cmocka_unit_test(bears_any_number_in_its_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
