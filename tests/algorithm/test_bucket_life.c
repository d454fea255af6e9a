/* How long keys live where the store raises and adds, and which charges renew that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "algorithm/bucket.h"
#include "fixture/chance.h"
#include "test_bucket_bench.h"

#define SECOND INT64_C(1000000)

/* The epoch where k = 0: 142 years. */
#define EPOCH (INT64_C(1) << 52)

/* Until a full bucket has drained, behind the longest wait, for the slowest reader, and the handover
 * of an epoch that ended at once is over; and 2 s. */
static int64_t needed_us(const weir_settings *settings) {
  int64_t span_us = 5 * TOKEN + settings->longest_wait_us;
  return 2 * span_us + 4 * settings->final_us + 2000000;
}

/* The last moment at which a key renewed at NOW is not renewed again. */
static int64_t last_short_us(const weir_settings *settings) {
  return NOW + (needed_us(settings) + 2) / 3 - settings->ahead_us;
}

/* The operation by which the next take of 1 charges. */
static const weir_operation *charge_of(struct bench *b, struct client *client, int64_t now_us) {
  begin_take(b, client, now_us, 1);
  assert_int_equal(client->machine->frame.operations[0].kind, WEIR_RAISE);
  return &client->machine->frame.operations[0];
}

static void assert_renews(struct bench *b, int64_t now_us, bool renews) {
  assert_int_equal(charge_of(b, &b->one, now_us)->refresh, renews);
  client_finish(&b->one, &b->store, now_us);
  assert_true(b->one.requests[0].verdict.decision.allowed);
}

static void gives_a_key_a_third_more_than_it_needs(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 1);
  int64_t ttl_us = store_find(&b->store, 0, 0)->ttl_us;
  assert_in_range(3 * ttl_us, 4 * needed_us(&b->one.settings), 4 * needed_us(&b->one.settings) + 3);
  tear_down(b);
}

static void renews_a_life_that_may_have_shrunk_by_a_quarter(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  int64_t last_us = last_short_us(&b->one.settings);
  assert_renews(b, NOW, true);
  assert_renews(b, NOW, false);
  assert_renews(b, NOW + 2 * TOKEN, false);
  assert_renews(b, last_us, false);
  assert_renews(b, last_us + 1, true);
  assert_renews(b, last_us + 1 + (last_us - NOW), false);
  assert_renews(b, last_us + 1 + (last_us - NOW) + 1, true);
  tear_down(b);
}

static void renews_where_time_went_back(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  assert_renews(b, NOW, true);
  assert_renews(b, NOW - 1, true);
  assert_renews(b, NOW, false);
  tear_down(b);
}

static void renews_always_by_a_clock_of_another_pace(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  b->one.settings.least_ttl_us = 1;
  assert_renews(b, NOW, true);
  assert_renews(b, NOW, true);
  tear_down(b);
}

/* Each process knows of its own renewals alone. */
static void trusts_no_renewal_of_others(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->other, NOW, 1);
  assert_renews(b, NOW, true);
  tear_down(b);
}

/* A process with a smaller bucket may have renewed the key last: what it gave is 2 min 43 s at
 * least, and by then all that is ahead must have drained. */
static void renews_what_a_smaller_bucket_may_outlive_no_more(void **state) {
  (void)state;
  const int64_t minute_us = 60000000;
  struct bench *b = set_up("token-bucket:60/1h,burst=60", WEIR_TRAIT_RAISE);
  weir_stack small = stack_of("token-bucket:60/1h,burst=1");
  struct client other = client_of(&small, WEIR_TRAIT_RAISE);
  take(b, &other, NOW, 1);
  int64_t least_us = store_find(&b->store, 0, 0)->ttl_us - 8 * minute_us / 3;
  assert_in_range(least_us, 162 * SECOND, 164 * SECOND);
  for (int charged = 2; charged < 10; charged++)
    assert_renews(b, NOW, charged == 2 || charged * minute_us > least_us);
  int64_t last_us = NOW + 10 * minute_us; /* again untouched */
  assert_renews(b, last_us, true);
  last_us += least_us - 1 - minute_us - b->one.settings.ahead_us;
  assert_renews(b, last_us, false);
  assert_renews(b, last_us + minute_us, true);
  client_free(&other);
  tear_down(b);
}

static void renews_after_an_answer_was_lost(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 1);
  client_take(&b->one, NOW, 1);
  client_land(&b->one, &b->store);
  b->one.machine->frame.operations[0].outcome = WEIR_UNKNOWN;
  client_round(&b->one, &b->store, NOW, false);
  assert_int_equal(b->one.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  assert_renews(b, NOW, true);
  tear_down(b);
}

/* --- keys that are gone ------------------------------------------------------------------------
 */

static void begins_again_with_renewing_where_the_key_is_gone(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  b->one.settings.notices_loss = true;
  take(b, &b->one, NOW, 2);
  assert_false(charge_of(b, &b->one, NOW + 1)->refresh);
  store_find(&b->store, 0, 0)->present = false;
  client_round(&b->one, &b->store, NOW + 1, false);
  assert_null(store_find(&b->store, 0, 0));
  expect_operation(&b->one, 0, WEIR_RAISE);
  assert_true(b->one.machine->frame.operations[0].refresh);
  client_finish(&b->one, &b->store, NOW + 1);
  assert_int_equal(b->one.machine->frame.lost, 1);
  assert_int_equal(b->one.machine->pauses, 0);
  assert_int_equal(b->one.requests[0].verdict.decision.remaining, 4);
  assert_int_equal(stored_in(b, 0), NOW + 1 + TOKEN);
  tear_down(b);
}

static void adds_nothing_where_the_key_is_gone_between_raising_and_adding(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 2);
  b->store.splits_raises = true;
  assert_false(charge_of(b, &b->one, NOW)->refresh);
  client_land(&b->one, &b->store);
  store_find(&b->store, 0, 0)->present = false;
  client_land(&b->one, &b->store);
  assert_null(store_find(&b->store, 0, 0));
  b->store.splits_raises = false;
  client_finish(&b->one, &b->store, NOW);
  assert_int_equal(stored_in(b, 0), NOW + TOKEN);
  tear_down(b);
}

/* Somebody reset it, or what was taken back found nothing. */
static void renews_what_was_seen_to_be_gone(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  take(b, &b->one, NOW, 1);
  store_find(&b->store, 0, 0)->present = false;
  peek(b, &b->one, NOW + 2000000);
  assert_renews(b, NOW + 2000000, true);
  begin_take(b, &b->one, NOW + 2000000, 1);
  client_land(&b->one, &b->store);
  store_find(&b->store, 0, 0)->present = false;
  client_round(&b->one, &b->store, NOW + 2030000, true); /* late: it goes back */
  expect_operation(&b->one, 0, WEIR_SUB);
  client_finish(&b->one, &b->store, NOW + 2030000);
  assert_renews(b, NOW + 2030000, true);
  tear_down(b);
}

/* --- epochs ------------------------------------------------------------------------------------
 */

static void renews_both_keys_while_an_epoch_is_handed_over(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t roll = 12 * EPOCH;
  int64_t handover_us = 5 * TOKEN + b->one.settings.longest_wait_us + 3 * b->one.settings.final_us;
  assert_renews(b, roll - 10, true);
  assert_renews(b, roll - 5, false);
  for (int i = 0; i < 2; i++) {
    charge_of(b, &b->one, roll + i);
    assert_int_equal(b->one.machine->frame.operation_count, 2);
    assert_true(b->one.machine->frame.operations[0].refresh &&
                b->one.machine->frame.operations[1].refresh);
    client_finish(&b->one, &b->store, roll + i);
  }
  assert_true(needed_us(&b->one.settings) / 3 < handover_us); /* so that one is due again */
  assert_renews(b, roll + handover_us, true);
  assert_renews(b, roll + handover_us, false);
  tear_down(b);
}

/* The renewal was one of the key before; this one is another's, who may be about to lose it. */
static void renews_the_key_of_a_new_epoch(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const int64_t later = 13 * EPOCH + 100000000;
  assert_renews(b, 13 * EPOCH - 1000, true);
  take(b, &b->other, later, 1);
  weir_bucket_memory *memory = (weir_bucket_memory *)(b->one.memo->expected + 1);
  memory->renewed_us = later; /* as if it were new enough */
  assert_renews(b, later, true);
  tear_down(b);
}

/* --- at random ---------------------------------------------------------------------------------
 */

enum { STEPS = 20000, CHARGES_LEAST = STEPS / 4 };

/* Two processes, each with a clock that wanders within d of real time and up to D between reading
 * it and the store: whatever they do, a charge that counts leaves the key as long to live as it
 * needs, and the key has a TTL at every moment. */
static void every_charge_leaves_the_life_it_needs(void **state) {
  (void)state;
  struct bench *b = set_up(TOKENS_5, WEIR_TRAIT_RAISE);
  const weir_settings *settings = &b->one.settings;
  const int64_t d_us = settings->clock_error_us;
  const int64_t deadline_us = settings->ahead_us - 2 * d_us;
  int64_t real_us = NOW, expiry_us = 0;
  uint32_t seed = 7;
  int shorts = 0, longs = 0;
  for (int i = 0; i < STEPS; i++) {
    struct client *client = chance(&seed, 3) == 0 ? &b->other : &b->one;
    real_us +=
        chance(&seed, 50) == 0 ? chance(&seed, 200) * INT64_C(1000000) : chance(&seed, 900000);
    struct stored *key = store_find(&b->store, 0, 0);
    if (key != NULL && (real_us > expiry_us || chance(&seed, 500) == 0)) key->present = false;
    int64_t off_us = (int64_t)chance(&seed, (uint32_t)(2 * d_us + 1)) - d_us;
    client_take(client, real_us + off_us, 1);
    for (int rounds = 0; client->turn != WEIR_TURN_DONE; rounds++) {
      weir_operation operation = client->machine->frame.operations[0];
      int64_t lands_us = real_us + chance(&seed, (uint32_t)deadline_us + 1);
      assert_true(rounds < 6);
      client_round(client, &b->store, real_us + off_us, false);
      key = store_find(&b->store, 0, 0);
      if (operation.kind != WEIR_RAISE || key == NULL) continue;
      if (operation.refresh) expiry_us = lands_us + operation.ttl_us;
      assert_true(expiry_us - lands_us >= needed_us(settings));
      operation.refresh ? longs++ : shorts++;
    }
  }
  assert_in_range(shorts, CHARGES_LEAST, STEPS);
  assert_in_range(longs, 100, CHARGES_LEAST);
  tear_down(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_a_key_a_third_more_than_it_needs),
      cmocka_unit_test(renews_a_life_that_may_have_shrunk_by_a_quarter),
      cmocka_unit_test(renews_where_time_went_back),
      cmocka_unit_test(renews_always_by_a_clock_of_another_pace),
      cmocka_unit_test(trusts_no_renewal_of_others),
      cmocka_unit_test(renews_what_a_smaller_bucket_may_outlive_no_more),
      cmocka_unit_test(renews_after_an_answer_was_lost),
      cmocka_unit_test(begins_again_with_renewing_where_the_key_is_gone),
      cmocka_unit_test(adds_nothing_where_the_key_is_gone_between_raising_and_adding),
      cmocka_unit_test(renews_what_was_seen_to_be_gone),
      cmocka_unit_test(renews_both_keys_while_an_epoch_is_handed_over),
      cmocka_unit_test(renews_the_key_of_a_new_epoch),
      cmocka_unit_test(every_charge_leaves_the_life_it_needs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
