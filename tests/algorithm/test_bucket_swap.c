/* Buckets where the store compares and swaps, operation by operation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "algorithm/bucket.h"
#include "test_bucket_bench.h"

/* --- rounds ------------------------------------------------------------------------------------
 */

static void creates_what_it_does_not_find(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  client_take(&b->one, NOW, 2);
  expect_operation(&b->one, 0, WEIR_CREATE);
  expect_operation(&b->one, 1, WEIR_GET); /* should something be there */
  assert_int_equal(b->one.machine->frame.operations[0].value,
                   (NOW + 2 * TOKEN) & ((INT64_C(1) << 62) - 1));
  client_round(&b->one, &b->store, NOW + 500, false);
  assert_int_equal(b->one.turn, WEIR_TURN_DONE);
  client_keep(&b->one);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[0].verdict.decision.at_us, NOW);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 3);
  client_take(&b->one, NOW + 1, 1); /* what the GET has read is its own */
  expect_operation(&b->one, 0, WEIR_SWAP);
  tear_down(b);
}

static void reads_what_is_there_and_charges_at_the_time_of_that(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->other, NOW, 2);
  client_take(&b->one, NOW, 2);
  expect_operation(&b->one, 0, WEIR_CREATE);
  client_round(&b->one, &b->store, NOW + 300, false);
  expect_operation(&b->one, 0, WEIR_SWAP);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN); /* untouched so far */
  client_round(&b->one, &b->store, NOW + 500, false);
  assert_int_equal(b->one.turn, WEIR_TURN_DONE);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[0].verdict.decision.at_us, NOW + 300);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 1);
  assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN);
  tear_down(b);
}

/* A key that lives no longer is as good as unknown. */
static void creates_anew_what_must_be_gone(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 2);
  int64_t ttl_us = b->one.machine->rule_states[0].ttl_us;
  client_take(&b->one, NOW + ttl_us, 1);
  expect_operation(&b->one, 0, WEIR_SWAP);
  client_take(&b->one, NOW + ttl_us + 1, 1);
  expect_operation(&b->one, 0, WEIR_CREATE);
  tear_down(b);
}

/* However old it is, a version fits or does not: no other round trip, and none without a decision. */
static void tries_what_it_has_known_for_long(void **state) {
  (void)state;
  struct bench *b = set_up("token-bucket:5/1h", WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 2);
  int64_t later = NOW + 2000000;
  client_take(&b->one, later, 1);
  client_round(&b->one, &b->store, later, false);
  assert_int_equal(b->one.turn, WEIR_TURN_DONE);
  client_keep(&b->one);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 2);
  take(b, &b->other, later, 2);
  client_take(&b->one, later + 2000000, 1); /* by what it knows this fits */
  expect_operation(&b->one, 0, WEIR_SWAP);
  client_round(&b->one, &b->store, later + 2000000, false);
  assert_int_equal(b->one.turn, WEIR_TURN_DONE);
  client_keep(&b->one);
  assert_false(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 0);
  tear_down(b);
}

static void gives_back_what_it_created_too_late(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  client_take(&b->one, NOW, 2);
  client_round(&b->one, &b->store, NOW + 10, true);
  expect_operation(&b->one, 0, WEIR_SWAP);
  client_finish(&b->one, &b->store, NOW + 10);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_TIMEOUT);
  assert_int_equal(stored_in(b, 0), NOW);
  tear_down(b);
}

static void needs_one_round_trip_while_alone(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 1);
  for (int i = 1; i < 5; i++) {
    client_take(&b->one, NOW + i, 1);
    expect_operation(&b->one, 0, WEIR_SWAP);
    client_round(&b->one, &b->store, NOW + i, false);
    assert_int_equal(b->one.turn, WEIR_TURN_DONE);
    assert_true(b->one.requests[0].verdict.decision.allowed);
  }
  tear_down(b);
}

static void looks_where_the_server_hides_versions(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  b->store.hides_versions = true;
  take(b, &b->one, NOW, 1);
  client_take(&b->one, NOW, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  client_round(&b->one, &b->store, NOW, false);
  expect_operation(&b->one, 0, WEIR_SWAP);
  tear_down(b);
}

static void looks_when_what_it_knows_is_old_or_from_the_future_or_not_enough(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 3);
  client_take(&b->one, NOW + 1000000, 1);
  assert_int_equal(b->one.machine->frame.operation_count, 1);
  expect_operation(&b->one, 0, WEIR_SWAP);
  client_take(&b->one, NOW + 1000001, 1); /* tries, and looks */
  expect_operation(&b->one, 0, WEIR_SWAP);
  expect_operation(&b->one, 1, WEIR_GET);
  client_take(&b->one, NOW - 1, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  client_take(&b->one, NOW, 3);
  expect_operation(&b->one, 0, WEIR_GET);
  b->one.requests[0] = b->one.requests[1] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 2}};
  client_start(&b->one, NOW, 2); /* each of them fits, both do not */
  expect_operation(&b->one, 0, WEIR_GET);
  start_waiting(&b->one, NOW, 3, TOKEN);
  expect_operation(&b->one, 0, WEIR_SWAP); /* with this wait it fits */
  tear_down(b);
}

static void writes_nothing_for_what_it_denies(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 5);
  uint64_t version = b->store.version;
  uint64_t operations = b->store.operations;
  const weir_decision *denied = take(b, &b->other, NOW + 1, 2);
  assert_false(denied->allowed);
  assert_int_equal(denied->retry_after_us, 2 * TOKEN - 1);
  assert_int_equal(denied->reset_after_us, 5 * TOKEN - 1);
  assert_int_equal(b->store.operations, operations + 2); /* CREATE in vain, GET */
  assert_int_equal(b->store.version, version);
  tear_down(b);
}

static void repeats_a_denial_from_memory(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->other, NOW, 5);
  take(b, &b->one, NOW, 2);
  weir_claim again = {.ask = {.kind = WEIR_TAKE, .cost = 2}};
  assert_true(weir_settle_locally(
      &(weir_view){&b->stack, &b->one.settings, b->one.memo, NOW + 30000}, &again));
  assert_int_equal(again.verdict.decision.retry_after_us, 2 * TOKEN - 30000);
  again = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = 1}};
  assert_false(weir_settle_locally(
      &(weir_view){&b->stack, &b->one.settings, b->one.memo, NOW + 30000}, &again));
  tear_down(b);
}

static void decides_a_group_one_by_one_in_one_write(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  int64_t costs[] = {3, 4, 2, 1};
  for (int i = 0; i < 4; i++)
    b->one.requests[i] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = costs[i]}};
  b->one.requests[3].ask.kind = WEIR_PEEK;
  client_start(&b->one, NOW, 4);
  client_finish(&b->one, &b->store, NOW);
  assert_int_equal(b->store.operations, 2);
  assert_true(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 2);
  assert_false(b->one.requests[1].verdict.decision.allowed);
  assert_int_equal(b->one.requests[1].verdict.decision.remaining, 2);
  assert_true(b->one.requests[2].verdict.decision.allowed);
  assert_int_equal(b->one.requests[2].verdict.decision.remaining, 0);
  assert_false(b->one.requests[3].verdict.decision.allowed);
  assert_int_equal(stored_in(b, 0), NOW + 5 * TOKEN);
  tear_down(b);
}

static void keeps_the_key_until_the_last_wait_is_over(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 1);
  const weir_settings *settings = &b->one.settings;
  int64_t least_us = 5 * TOKEN + settings->longest_wait_us + 2 * settings->clock_error_us + 2000000;
  assert_true(store_find(&b->store, 0, 0)->ttl_us >= least_us);
  tear_down(b);
}

/* Numbers come round after 50.9 days where a microsecond has 2^20 units: from 47.7 days on an old
 * one may look like one that is ahead. */
static void keeps_no_key_until_its_number_comes_round(void **state) {
  (void)state;
  const int64_t day_us = INT64_C(86400000000);
  struct bench *b = set_up("token-bucket:10000000/1s", WEIR_TRAIT_SWAP);
  b->one.settings.least_ttl_us = 60 * day_us;
  take(b, &b->one, NOW, 1);
  assert_in_range(store_find(&b->store, 0, 0)->ttl_us, 47 * day_us, 48 * day_us);
  tear_down(b);
  b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  b->one.settings.least_ttl_us = 60 * day_us;
  take(b, &b->one, NOW, 1);
  assert_int_equal(store_find(&b->store, 0, 0)->ttl_us, 60 * day_us);
  tear_down(b);
}

static void drops_what_is_reset(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 5);
  start_reset(&b->one, NOW);
  expect_operation(&b->one, 0, WEIR_DROP);
  client_finish(&b->one, &b->store, NOW);
  assert_true(take(b, &b->one, NOW, 5)->allowed);
  tear_down(b);
}

/* --- others, and what they do meanwhile --------------------------------------------------------
 */

static void looks_again_after_a_pause_when_others_were_faster(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 1);
  begin_take(b, &b->one, NOW, 2);
  assert_true(take(b, &b->other, NOW, 3)->allowed);
  client_round(&b->one, &b->store, NOW + 10, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  client_round(&b->one, &b->store, NOW + 20, false);
  expect_operation(&b->one, 0, WEIR_GET);
  client_finish(&b->one, &b->store, NOW + 20);
  assert_false(b->one.requests[0].verdict.decision.allowed); /* four are taken: no longer */
  assert_int_equal(stored_in(b, 0), NOW + 4 * TOKEN);
  tear_down(b);
}

static void never_creates_over_another_process(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  peek(b, &b->one, NOW);
  begin_take(b, &b->one, NOW, 3);
  expect_operation(&b->one, 0, WEIR_CREATE);
  take(b, &b->other, NOW, 3);
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  client_finish(&b->one, &b->store, NOW);
  assert_false(b->one.requests[0].verdict.decision.allowed);
  tear_down(b);
}

static void begins_anew_when_the_key_is_gone(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 5);
  client_take(&b->one, NOW + TOKEN, 1);
  expect_operation(&b->one, 0, WEIR_SWAP);
  store_find(&b->store, 0, 0)->present = false;
  client_round(&b->one, &b->store, NOW + TOKEN, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  client_round(&b->one, &b->store, NOW + TOKEN, false);
  client_round(&b->one, &b->store, NOW + TOKEN, false);
  expect_operation(&b->one, 0, WEIR_CREATE);
  client_finish(&b->one, &b->store, NOW + TOKEN);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 4);
  tear_down(b);
}

static void knows_nothing_after_an_answer_was_lost(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 1);
  client_take(&b->one, NOW, 1);
  client_land(&b->one, &b->store);
  b->one.machine->frame.operations[0].outcome = WEIR_UNKNOWN;
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(stored_in(b, 0), NOW + 2 * TOKEN); /* nothing is taken back */
  const weir_bucket_memory *memory = weir_memo_own(b->one.stack, b->one.memo, 0);
  assert_false(memory->known);
  client_take(&b->one, NOW, 1);
  expect_operation(&b->one, 0, WEIR_GET);
  tear_down(b);
}

/* The write that was lost lands after another look: the version of that look is old. */
static void bears_a_write_that_lands_late(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->one, NOW, 1);
  client_take(&b->one, NOW, 2);
  weir_operation late = b->one.machine->frame.operations[0];
  b->one.machine->frame.operations[0].outcome = WEIR_UNKNOWN;
  b->one.landed = 1;
  client_round(&b->one, &b->store, NOW, false);
  begin_take(b, &b->one, NOW, 4);
  store_execute(&b->store, &late);
  assert_int_equal(late.outcome, WEIR_DONE);
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.turn, WEIR_TURN_PAUSE);
  client_finish(&b->one, &b->store, NOW);
  assert_false(b->one.requests[0].verdict.decision.allowed);
  tear_down(b);
}

/* A clock that went back since the look makes too much of what fitted then. */
static void takes_back_what_fits_no_longer_when_the_clock_was_set_back(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_SWAP);
  take(b, &b->other, NOW, 3);
  client_take(&b->one, NOW + TOKEN, 3);
  client_round(&b->one, &b->store, NOW, false);
  expect_operation(&b->one, 0, WEIR_SWAP);
  client_finish(&b->one, &b->store, NOW);
  assert_false(b->one.requests[0].verdict.decision.allowed);
  assert_int_equal(stored_in(b, 0), NOW + 3 * TOKEN);
  tear_down(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(creates_what_it_does_not_find),
      cmocka_unit_test(reads_what_is_there_and_charges_at_the_time_of_that),
      cmocka_unit_test(creates_anew_what_must_be_gone),
      cmocka_unit_test(tries_what_it_has_known_for_long),
      cmocka_unit_test(gives_back_what_it_created_too_late),
      cmocka_unit_test(needs_one_round_trip_while_alone),
      cmocka_unit_test(looks_where_the_server_hides_versions),
      cmocka_unit_test(looks_when_what_it_knows_is_old_or_from_the_future_or_not_enough),
      cmocka_unit_test(writes_nothing_for_what_it_denies),
      cmocka_unit_test(repeats_a_denial_from_memory),
      cmocka_unit_test(decides_a_group_one_by_one_in_one_write),
      cmocka_unit_test(keeps_the_key_until_the_last_wait_is_over),
      cmocka_unit_test(keeps_no_key_until_its_number_comes_round),
      cmocka_unit_test(drops_what_is_reset),
      cmocka_unit_test(looks_again_after_a_pause_when_others_were_faster),
      cmocka_unit_test(never_creates_over_another_process),
      cmocka_unit_test(begins_anew_when_the_key_is_gone),
      cmocka_unit_test(knows_nothing_after_an_answer_was_lost),
      cmocka_unit_test(bears_a_write_that_lands_late),
      cmocka_unit_test(takes_back_what_fits_no_longer_when_the_clock_was_set_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
