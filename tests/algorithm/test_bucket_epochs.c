/* Buckets where the store raises and adds, when an epoch begins or a clock was wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_bucket_bench.h"

/* The epoch where k = 0: 142 years. */
#define EPOCH (INT64_C(1) << 52)

/* --- epochs ------------------------------------------------------------------------------------
 */

static void charges_both_keys_after_a_roll(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  take(b, &b->other, roll - 1000, 3);
  client_take(&b->one, roll + 1000, 2);
  assert_int_equal(b->one.machine->frame.operation_count, 2);
  client_round(&b->one, &b->store, roll + 1000, false);
  assert_int_equal(b->one.machine->frame.operation_count, 2);
  const weir_operation *operations = b->one.machine->frame.operations;
  assert_int_equal(operations[0].counter.index, 12);
  assert_int_equal(operations[0].floor, 3 * TOKEN - 1000); /* what the old key holds */
  assert_int_equal(operations[1].counter.index, 11);
  assert_int_equal(operations[1].floor, EPOCH); /* the highest floor there is */
  client_finish(&b->one, &b->store, roll + 1000);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 0);
  assert_int_equal(stored_in(b, 12), 5 * TOKEN - 1000);
  assert_int_equal(stored_in(b, 11), EPOCH + 5 * TOKEN - 1000);
  tear_down(b);
}

static void looks_at_one_key_outside_of_a_handover(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const weir_settings *settings = &b->one.settings;
  int64_t handover = 5 * TOKEN + settings->longest_wait_us + 3 * settings->final_us;
  client_take(&b->one, 12 * EPOCH - 1, 1);
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  client_take(&b->one, 12 * EPOCH + handover - 1, 1);
  assert_int_equal(b->one.machine->frame.operation_count, 2);
  client_take(&b->one, 12 * EPOCH + handover, 1);
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  client_take(&b->one, 1000, 1); /* there is nothing before the first epoch */
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  tear_down(b);
}

static void never_charges_blindly_in_a_handover(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, 12 * EPOCH - 10, 1);
  client_take(&b->one, 12 * EPOCH + 10, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  client_finish(&b->one, &b->store, 12 * EPOCH + 10);
  client_take(&b->one, 12 * EPOCH + 20, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  tear_down(b);
}

/* The epoch begins between the look and the charge. */
static void inherits_what_it_saw_just_before_a_roll(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  take(b, &b->other, roll - 1000, 3);
  client_take(&b->one, roll - 10, 2);
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  client_round(&b->one, &b->store, roll + 10, false);
  assert_int_equal(b->one.machine->frame.operation_count, 2);
  assert_int_equal(b->one.machine->frame.operations[0].floor, 3 * TOKEN - 1000);
  client_finish(&b->one, &b->store, roll + 10);
  assert_int_equal(stored_in(b, 12), 5 * TOKEN - 1000);
  assert_false(take(b, &b->other, roll - 20, 1)->allowed); /* by a clock that is behind */
  tear_down(b);
}

/* And goes back between the look and the charge: what the old key holds is read first. */
static void reads_both_keys_when_the_clock_is_set_back_into_a_handover(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  take(b, &b->other, roll - 1000, 3);
  client_take(&b->one, roll + INT64_C(3600000000), 2);
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  client_round(&b->one, &b->store, roll + 10, false);
  expect_operation(&b->one, 0, WEIR_GET);
  client_finish(&b->one, &b->store, roll + 10);
  assert_int_equal(stored_in(b, 12), 5 * TOKEN - 1000);
  tear_down(b);
}

static void denies_by_the_later_of_both_keys(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  take(b, &b->one, roll + 1000, 2);
  take(b, &b->other, roll - 1000, 2); /* behind: in the old key alone */
  const weir_decision *denied = take(b, &b->one, roll + 1000, 2);
  assert_false(denied->allowed);
  assert_int_equal(denied->reset_after_us, 4 * TOKEN - 1000);
  assert_int_equal(denied->remaining, 1);
  tear_down(b);
}

static void repeats_a_denial_across_a_roll(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  take(b, &b->other, roll - 1000, 4);
  assert_false(take(b, &b->one, roll - 1000, 2)->allowed);
  weir_claim again = {.ask = {.kind = WEIR_TAKE, .cost = 2}};
  assert_true(weir_settle_locally(
      &(weir_view){&b->stack, &b->one.settings, b->one.memo, roll + 1000}, &again));
  assert_int_equal(again.verdict.decision.retry_after_us, TOKEN - 2000);
  assert_int_equal(again.verdict.decision.reset_after_us, 4 * TOKEN - 2000);
  tear_down(b);
}

/* One key was lost in between: what the other one was charged goes back. */
static void holds_neither_key_where_it_could_not_charge_both(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  b->store.splits_raises = true;
  begin_take(b, &b->one, roll + 10, 2);
  client_land(&b->one, &b->store);
  client_land(&b->one, &b->store);
  client_land(&b->one, &b->store);
  store_find(&b->store, 0, 11)->present = false;
  client_round(&b->one, &b->store, roll + 10, false);
  expect_operation(&b->one, 0, WEIR_SUB);
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  client_round(&b->one, &b->store, roll + 10, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  assert_int_equal(stored_in(b, 12), 10);
  tear_down(b);
}

static void gives_back_to_both_keys(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  take(b, &b->one, roll + 1000, 3);
  assert_int_equal(refund(b, roll + 1000, 2, roll + 1000, NULL), WEIR_OK);
  assert_int_equal(stored_in(b, 12), 1000 + TOKEN);
  assert_int_equal(stored_in(b, 11), EPOCH + TOKEN);
  tear_down(b);
}

/* --- clocks ------------------------------------------------------------------------------------
 */

static void mends_what_a_clock_that_was_ahead_has_left(void **state) {
  (void)state;
  const int64_t day_us = INT64_C(86400000000);
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->other, NOW + day_us, 2);
  assert_int_equal(peek(b, &b->one, NOW)->retry_after_us, TOKEN);
  assert_int_equal(stored_in(b, 0), NOW + day_us + 2 * TOKEN);
  assert_int_equal(take(b, &b->one, NOW, 1)->retry_after_us, TOKEN);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  assert_true(take(b, &b->one, NOW + TOKEN, 1)->allowed);
  tear_down(b);
}

/* Taken off by both, the difference would be gone twice. */
static void mends_without_loss_when_two_do_it_at_once(void **state) {
  (void)state;
  const int64_t day_us = INT64_C(86400000000);
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->other, NOW + day_us, 2);
  client_take(&b->one, NOW, 1);
  client_take(&b->other, NOW, 1);
  client_round(&b->one, &b->store, NOW, false);
  client_round(&b->other, &b->store, NOW, false);
  expect_operation(&b->one, 0, WEIR_DROP);
  expect_operation(&b->other, 0, WEIR_DROP);
  client_finish(&b->one, &b->store, NOW);
  client_finish(&b->other, &b->store, NOW);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  tear_down(b);
}

static void mends_both_keys_of_a_handover(void **state) {
  (void)state;
  const int64_t roll = 12 * EPOCH;
  const int64_t hour_us = INT64_C(3600000000);
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  store_put(b, 11, EPOCH + hour_us);
  store_put(b, 12, hour_us);
  assert_int_equal(take(b, &b->one, roll + 1000, 1)->reset_after_us, 5 * TOKEN);
  assert_int_equal(stored_in(b, 12), 1000 + 5 * TOKEN);
  assert_int_equal(stored_in(b, 11), EPOCH + 1000 + 5 * TOKEN);
  tear_down(b);
}

enum { PROCESSES = 4 };

static struct bench *set_up_shared(void) {
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  b->one.settings.processes = b->other.settings.processes = PROCESSES;
  return b;
}

/* That of one who believed that something fits: its knowledge, its decision, by two clocks. */
static int64_t settle_us(const struct bench *b) {
  return b->one.settings.memo_age_us + 2 * b->one.settings.final_us;
}

static int64_t furthest(const struct bench *b) {
  return 5 * TOKEN + b->one.settings.longest_wait_us + b->one.settings.final_us;
}

static int64_t lock_height(const struct bench *b) {
  return furthest(b) + 2 * (PROCESSES - 1) * 5 * TOKEN + 2 * settle_us(b);
}

/* A charge that others made at once and in vain is about to go back by itself. */
static void leaves_what_overshoot_can_have_left(void **state) {
  (void)state;
  struct bench *b = set_up_shared();
  int64_t ahead = furthest(b) + (PROCESSES - 1) * 5 * TOKEN;
  store_put(b, 0, NOW + ahead);
  const weir_decision *denied = take(b, &b->one, NOW, 1);
  assert_int_equal(denied->retry_after_us, settle_us(b)); /* when it would be locked, and ... */
  assert_int_equal(denied->reset_after_us, 2 * settle_us(b) + 5 * TOKEN); /* ... put back by then */
  assert_int_equal(stored_in(b, 0), NOW + ahead);
  store_put(b, 0, NOW + 5 * TOKEN); /* it has gone back */
  take(b, &b->one, NOW + 60000, 1);
  store_put(b, 0, NOW + settle_us(b) + ahead);
  take(b, &b->one, NOW + settle_us(b), 1);
  assert_int_equal(stored_in(b, 0), NOW + settle_us(b) + ahead);
  tear_down(b);
}

/* Seen twice, locked, put back. */
static void puts_back_what_stays_too_far_ahead_among_many(void **state) {
  (void)state;
  struct bench *b = set_up_shared();
  int64_t later = settle_us(b);
  store_put(b, 0, NOW + furthest(b) + 2 * later);
  take(b, &b->one, NOW, 1);
  take(b, &b->one, NOW + later - 1, 1);
  assert_int_equal(stored_in(b, 0), NOW + furthest(b) + 2 * later);
  peek(b, &b->one, NOW + later);
  assert_int_equal(stored_in(b, 0), NOW + furthest(b) + 2 * later); /* who looks locks nothing */
  assert_false(take(b, &b->one, NOW + later, 1)->allowed);
  assert_int_equal(stored_in(b, 0), NOW + later + lock_height(b));
  take(b, &b->one, NOW + 2 * later - 1, 1);
  assert_int_equal(stored_in(b, 0), NOW + later + lock_height(b));
  assert_int_equal(take(b, &b->one, NOW + 2 * later, 1)->retry_after_us, TOKEN);
  assert_int_equal(stored_in(b, 0), NOW + 2 * later + 5 * TOKEN);
  assert_true(take(b, &b->one, NOW + 2 * later + TOKEN, 1)->allowed);
  tear_down(b);
}

/* Others have put it back while this process had it locked, and are charging in vain again. */
static void puts_nothing_back_that_was_put_back_already(void **state) {
  (void)state;
  struct bench *b = set_up_shared();
  int64_t later = settle_us(b);
  store_put(b, 0, NOW + furthest(b) + 2 * later);
  take(b, &b->one, NOW, 1);
  take(b, &b->one, NOW + later, 1);
  assert_int_equal(stored_in(b, 0), NOW + later + lock_height(b));
  int64_t now = NOW + 3 * later;
  store_put(b, 0, now + furthest(b) + (PROCESSES - 1) * 5 * TOKEN);
  take(b, &b->one, now, 1);
  assert_int_equal(stored_in(b, 0), now + furthest(b) + (PROCESSES - 1) * 5 * TOKEN);
  tear_down(b);
}

/* By clocks that differ the most; the second finds the lock of the first too far ahead as well. */
static void puts_back_the_lock_of_a_process_that_is_gone(void **state) {
  (void)state;
  struct bench *b = set_up_shared();
  int64_t later = settle_us(b);
  store_put(b, 0, NOW + lock_height(b) + 2 * b->one.settings.clock_error_us);
  take(b, &b->other, NOW, 1);
  assert_int_equal(stored_in(b, 0), NOW + lock_height(b) + 2 * b->one.settings.clock_error_us);
  take(b, &b->other, NOW + later, 1);
  take(b, &b->other, NOW + 2 * later, 1);
  assert_int_equal(stored_in(b, 0), NOW + 2 * later + 5 * TOKEN);
  tear_down(b);
}

/* Nothing but a wrong clock leaves more than a lock does. */
static void puts_back_at_once_what_is_above_all_locks(void **state) {
  (void)state;
  struct bench *b = set_up_shared();
  store_put(b, 0, NOW + lock_height(b) + 2 * b->one.settings.clock_error_us + 1);
  take(b, &b->one, NOW, 1);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  tear_down(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(charges_both_keys_after_a_roll),
      cmocka_unit_test(looks_at_one_key_outside_of_a_handover),
      cmocka_unit_test(never_charges_blindly_in_a_handover),
      cmocka_unit_test(inherits_what_it_saw_just_before_a_roll),
      cmocka_unit_test(reads_both_keys_when_the_clock_is_set_back_into_a_handover),
      cmocka_unit_test(denies_by_the_later_of_both_keys),
      cmocka_unit_test(repeats_a_denial_across_a_roll),
      cmocka_unit_test(holds_neither_key_where_it_could_not_charge_both),
      cmocka_unit_test(gives_back_to_both_keys),
      cmocka_unit_test(mends_what_a_clock_that_was_ahead_has_left),
      cmocka_unit_test(mends_without_loss_when_two_do_it_at_once),
      cmocka_unit_test(mends_both_keys_of_a_handover),
      cmocka_unit_test(leaves_what_overshoot_can_have_left),
      cmocka_unit_test(puts_back_what_stays_too_far_ahead_among_many),
      cmocka_unit_test(puts_nothing_back_that_was_put_back_already),
      cmocka_unit_test(puts_back_the_lock_of_a_process_that_is_gone),
      cmocka_unit_test(puts_back_at_once_what_is_above_all_locks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
