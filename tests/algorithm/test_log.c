#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"

#define W INT64_C(1000000)
#define BEGIN (40 * W)

static void adds_before_it_reads_and_writes_its_entry_before_it_reads_another(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:2/1s", BEGIN - FAKE_MARGIN_US, 1);
  fake_take(world, 0, 1);
  fake_take(world, 0, 1);
  world->now_us += W;
  struct fake_client *client = fake_begin_take(world, 0, 1);
  assert_int_equal(client->machine->frame.operation_count, 3);
  fake_expect(client, 0, WEIR_GET, WEIR_PLACE_COUNT, 40, 0);
  fake_expect(client, 1, WEIR_GET, WEIR_PLACE_COUNT, 39, 0);
  fake_expect(client, 2, WEIR_GET, WEIR_PLACE_COUNT, 41, 0); /* within e of the end */
  fake_finish_round(world, client);
  assert_int_equal(client->machine->frame.operation_count, 2);
  fake_expect(client, 0, WEIR_GET, WEIR_PLACE_ENTRY, 39, 1); /* decides */
  fake_expect(client, 1, WEIR_GET, WEIR_PLACE_ENTRY, 39, 2); /* the newest */
  fake_finish_round(world, client);
  assert_int_equal(client->machine->frame.operation_count, 3);
  fake_expect(client, 0, WEIR_ADD, WEIR_PLACE_COUNT, 40, 0);
  fake_expect(client, 1, WEIR_GET, WEIR_PLACE_COUNT, 39, 0);
  fake_expect(client, 2, WEIR_GET, WEIR_PLACE_COUNT, 41, 0);
  world->now_us += 7;
  fake_finish_round(world, client);
  assert_int_equal(client->machine->frame.operation_count, 2);
  fake_expect(client, 0, WEIR_PUT, WEIR_PLACE_ENTRY, 40, 1);
  assert_int_equal(client->machine->frame.operations[0].value, BEGIN - FAKE_MARGIN_US + W + 7);
  assert_true(client->machine->frame.operations[0].ttl_us >= 3 * W + FAKE_MARGIN_US + 2000000);
  fake_expect(client, 1, WEIR_GET, WEIR_PLACE_ENTRY, 39, 1);
  fake_finish_round(world, client);
  assert_false(client->busy);
  assert_true(client->requests[0].verdict.decision.allowed);
  assert_int_equal(client->requests[0].verdict.decision.at_us, BEGIN - FAKE_MARGIN_US + W);
  fake_close(world);
}

static void leaves_no_trace_of_a_denied_request(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:2/1s", BEGIN, 1);
  fake_take(world, 0, 1);
  fake_take(world, 0, 1);
  world->written = 0;
  world->now_us += 300000;
  const weir_decision *denied = fake_take(world, 0, 1);
  assert_false(denied->allowed);
  assert_int_equal(denied->retry_after_us, 700000);
  assert_int_equal(denied->reset_after_us, 700000);
  assert_int_equal(denied->remaining, WEIR_NOT_KNOWN);
  assert_false(fake_peek(world, 0, 1)->allowed);
  assert_int_equal(world->written, 0);
  fake_close(world);
}

/* The last place is taken between look and charge: the index stays used. */
static void denies_by_its_own_charge_who_was_overtaken(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:1/1s", BEGIN, 1);
  struct fake_client *slow = fake_begin_take(world, 0, 1);
  fake_step_until(world, slow, WEIR_ADD, WEIR_PLACE_COUNT);
  assert_true(fake_take(world, 1, 1)->allowed);
  world->now_us += 5;
  fake_finish(world, slow);
  assert_false(slow->requests[0].verdict.decision.allowed);
  assert_int_equal(slow->requests[0].verdict.decision.retry_after_us, W);
  world->now_us += W - 1;
  assert_false(fake_take(world, 1, 1)->allowed);
  world->now_us += 1;
  assert_true(fake_take(world, 1, 1)->allowed);
  fake_close(world);
}

/* The time that is stored was read after the addition. With the stamp instead, which is older, the
 * third would be admitted 30 ms too early: 2d + 10 ms. */
static void stores_the_time_after_its_addition(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:1/1s", BEGIN + 300000, 1);
  world->clients[0].offset_us = FAKE_CLOCK_ERROR_US;
  world->clients[1].offset_us = -FAKE_CLOCK_ERROR_US;
  struct fake_client *slow = fake_begin_take(world, 1, 1);
  fake_step_until(world, slow, WEIR_ADD, WEIR_PLACE_COUNT);
  int64_t look_us = slow->machine->frame.now_us;
  world->now_us += 10000;
  int64_t first_us = fake_take(world, 0, 1)->at_us;
  fake_finish(world, slow);
  assert_false(slow->requests[0].verdict.decision.allowed);
  world->now_us = look_us + W; /* by the stamp, it would be old now */
  assert_false(fake_take(world, 2, 1)->allowed);
  world->now_us = first_us + W - 2 * FAKE_CLOCK_ERROR_US - 1;
  assert_false(fake_take(world, 2, 1)->allowed);
  fake_close(world);
}

/* An entry that is not written yet counts as one of now. */
static void asks_once_more_for_an_entry_and_denies_without_it(void **state) {
  (void)state;
  for (int written = 0; written < 2; written++) {
    struct fake_world *world = fake_open("sliding-log:1/1s", BEGIN, 1);
    fake_write(world, WEIR_PLACE_COUNT, 39, 0, 1);
    struct fake_client *client = fake_begin_take(world, 0, 1);
    fake_step_until(world, client, WEIR_PUT, WEIR_PLACE_ENTRY);
    fake_finish_round(world, client);
    assert_int_equal(client->machine->frame.operation_count, 2);
    fake_expect(client, 0, WEIR_GET, WEIR_PLACE_ENTRY, 39, 1);
    fake_expect(client, 1, WEIR_GET, WEIR_PLACE_ENTRY, 40, 1); /* its own decides next */
    if (written) fake_write(world, WEIR_PLACE_ENTRY, 39, 1, 39 * W);
    fake_finish_round(world, client);
    assert_false(client->busy);
    assert_int_equal(client->requests[0].verdict.decision.allowed, written);
    if (!written) assert_int_equal(client->requests[0].verdict.decision.retry_after_us, W);
    fake_close(world);
  }
}

/* Two crashed after they were counted: of many requests, long after, one is denied for each. */
static void denies_once_for_a_hole(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:4/1s", BEGIN, 1);
  for (int i = 0; i < 2; i++) {
    struct fake_client *client = fake_begin_take(world, 1, 1);
    fake_step_until(world, client, WEIR_PUT, WEIR_PLACE_ENTRY);
    fake_crash(client);
    fake_take(world, 0, 1);
  }
  world->now_us += W + 300000;
  int denied = 0;
  for (int i = 0; i < 4; i++) {
    const weir_decision *decision = fake_take(world, 0, 1);
    if (decision->allowed) continue;
    denied++;
    assert_int_equal(decision->retry_after_us, 1); /* what decides next is old enough */
  }
  assert_int_equal(denied, 2);
  assert_false(fake_take(world, 0, 1)->allowed);
  world->now_us += W;
  for (int i = 0; i < 4; i++)
    assert_true(fake_take(world, 0, 1)->allowed);
  fake_close(world);
}

static void leaves_no_hole_where_its_time_was_up(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:3/1s", BEGIN, 1);
  struct fake_client *client = fake_begin_take(world, 0, 1);
  fake_step_until(world, client, WEIR_ADD, WEIR_PLACE_COUNT);
  fake_step(world, client);
  world->now_us += FAKE_DEADLINE_US;
  while (fake_next(client) != NULL) /* of what it then reads, it hears nothing */
    fake_step(world, client);
  fake_step(world, client);
  assert_int_equal(client->machine->frame.operation_count, 1);
  fake_expect(client, 0, WEIR_PUT, WEIR_PLACE_ENTRY, 40, 1);
  fake_finish(world, client);
  assert_int_not_equal(client->requests[0].verdict.status, WEIR_OK);
  assert_int_equal(fake_peek(world, 1, 1)->remaining, 2);
  fake_close(world);
}

/* Two of L are in the next epoch already. The wait is until this clock is there and they are old.
 */
static void sees_who_is_ahead_across_the_edge(void **state) {
  (void)state;
  for (int extra = 0; extra < 2; extra++) {
    struct fake_world *world = fake_open("sliding-log:2/1s", BEGIN - 5000, 1);
    world->clients[1].offset_us = 10000;
    if (extra > 0) assert_true(fake_take(world, 0, 1)->allowed); /* epoch 39, like what follows */
    assert_true(fake_take(world, 1, 1)->allowed);                /* epoch 40 */
    world->now_us += 100;
    if (extra == 0) assert_true(fake_take(world, 1, 1)->allowed);
    world->written = 0;
    const weir_decision *denied = fake_take(world, 0, 1);
    int64_t wait_us = extra > 0 ? W - 100 : W + 10000 - 100;
    assert_false(denied->allowed);
    assert_int_equal(denied->retry_after_us, wait_us);
    assert_int_equal(denied->reset_after_us, W + 10000 - (extra > 0 ? 100 : 0));
    const weir_decision *peeked = fake_peek(world, 0, 1);
    assert_false(peeked->allowed);
    assert_int_equal(peeked->remaining, 0);
    assert_int_equal(world->written, 0);
    world->now_us += wait_us - 1;
    assert_false(fake_take(world, 0, 1)->allowed);
    world->now_us += 1;
    assert_true(fake_take(world, 0, 1)->allowed);
    fake_close(world);
  }
}

static void counts_a_request_that_is_on_its_way(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:2/1s", BEGIN, 1);
  struct fake_client *slow = fake_begin_take(world, 0, 1);
  fake_step_until(world, slow, WEIR_PUT, WEIR_PLACE_ENTRY);
  assert_int_equal(fake_peek(world, 1, 1)->remaining, 1);
  assert_int_equal(fake_peek(world, 1, 1)->reset_after_us, W);
  assert_true(fake_take(world, 1, 1)->allowed);
  const weir_decision *peeked = fake_peek(world, 1, 1); /* measured against what is not there yet */
  assert_false(peeked->allowed);
  assert_int_equal(peeked->remaining, 0);
  assert_int_equal(peeked->retry_after_us, W); /* by the one after it */
  fake_finish(world, slow);
  assert_true(slow->requests[0].verdict.decision.allowed);
  assert_int_equal(fake_peek(world, 1, 1)->retry_after_us, W);
  fake_close(world);
}

static void gives_nothing_back(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:2/1s", BEGIN, 1);
  int64_t at_us = fake_take(world, 0, 1)->at_us;
  world->written = 0;
  weir_claim request = {.ask = {.kind = WEIR_REFUND, .alone = true, .cost = 1, .at_us = at_us}};
  assert_int_equal(fake_run(world, 0, request)->verdict.status, WEIR_OK);
  assert_int_equal(world->written, 0);
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 1);
  fake_close(world);
}

/* Entries of before lie under the indices that are given anew. */
static void starts_anew_after_a_reset(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:3/1s", BEGIN - 300000, 1);
  for (int i = 0; i < 3; i++)
    fake_take(world, 0, 1);
  world->now_us += 400000;
  assert_false(fake_take(world, 0, 1)->allowed);
  assert_int_equal(
      fake_run(world, 0, (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}})->verdict.status,
      WEIR_OK);
  const weir_decision *peeked = fake_peek(world, 1, 1);
  assert_int_equal(peeked->remaining, 3);
  assert_int_equal(peeked->reset_after_us, 0);
  for (int i = 0; i < 3; i++)
    assert_true(fake_take(world, i, 1)->allowed);
  assert_int_equal(fake_take(world, 1, 1)->retry_after_us, W);
  fake_close(world);
}

static void remembers_a_denial_until_its_entry_is_old(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:1/1s", BEGIN, 1);
  weir_claim request = {.ask.cost = 1};
  weir_memo *memo = world->clients[0].memo;
  fake_take(world, 0, 1);
  assert_false(
      weir_settle_locally(&(weir_view){&world->stack, &world->settings, memo, BEGIN}, &request));
  world->now_us += W - 30000;
  assert_false(fake_take(world, 0, 1)->allowed);
  assert_true(weir_settle_locally(
      &(weir_view){&world->stack, &world->settings, memo, BEGIN + W - 1}, &request));
  assert_int_equal(request.verdict.decision.retry_after_us, 1);
  assert_int_equal(request.verdict.decision.reset_after_us, 1);
  assert_int_equal(request.verdict.decision.remaining, WEIR_NOT_KNOWN);
  assert_false(weir_settle_locally(&(weir_view){&world->stack, &world->settings, memo, BEGIN + W},
                                   &request));
  world->now_us = BEGIN + W;
  assert_true(fake_take(world, 0, 1)->allowed);
  memo->denied_cost = 1; /* as if it denied: the next one is measured against another entry */
  memo->denied_until_us = BEGIN + 2 * W;
  assert_false(weir_settle_locally(&(weir_view){&world->stack, &world->settings, memo, BEGIN + W},
                                   &request));
  fake_close(world);
}

/* --- values that are not ours ------------------------------------------------------------------
 */

/* By a clock that was ahead by less than the epochs that are read. Each of its entries costs one
 * request, and the key works again after one period. */
static void is_not_blocked_by_a_clock_that_was_ahead(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:4/1s", BEGIN + 1000, 1);
  world->clients[2].offset_us = 900000;
  for (int i = 0; i < 4; i++)
    assert_true(fake_take(world, 2, 1)->allowed);
  for (int i = 0; i < 4; i++)
    assert_false(fake_take(world, 0, 1)->allowed);
  assert_int_equal(fake_take(world, 0, 1)->retry_after_us, W);
  world->now_us += W - 1;
  assert_false(fake_take(world, 0, 1)->allowed);
  world->now_us += 1;
  for (int i = 0; i < 4; i++)
    assert_true(fake_take(world, 0, 1)->allowed);
  fake_close(world);
}

static void bears_any_value_in_the_store(void **state) {
  (void)state;
  static const int64_t values[] = {INT64_MIN, -1, 0, 1, 3, 40 * W, INT64_MAX - 1};
  enum { VALUES = sizeof values / sizeof values[0] };
  static const weir_request_kind kinds[] = {WEIR_TAKE, WEIR_PEEK, WEIR_RESET};
  for (int round = 0; round < VALUES * VALUES * VALUES * 6; round++) {
    int64_t now_us = round % 2 == 0 ? BEGIN + W - 10 : 300; /* the epoch has nothing before it */
    struct fake_world *world = fake_open("sliding-log:2/1s", now_us, 1);
    int64_t epoch = now_us / W;
    for (int i = 0, pick = round / 6; i < 3; i++, pick /= VALUES) {
      if (epoch + i < 1) continue;
      fake_write(world, WEIR_PLACE_COUNT, epoch + i - 1, 0, values[pick % VALUES]);
      for (int64_t entry = 1; entry <= 4; entry++)
        fake_write(world, WEIR_PLACE_ENTRY, epoch + i - 1, entry, values[round / 6 % VALUES]);
    }
    const weir_claim *settled =
        fake_run(world, 0, (weir_claim){.ask = {.kind = kinds[round % 3], .cost = 1}});
    assert_int_equal(settled->verdict.status, WEIR_OK);
    assert_in_range(settled->verdict.decision.retry_after_us, 0, W + FAKE_MARGIN_US);
    assert_in_range(settled->verdict.decision.reset_after_us, 0, W + FAKE_MARGIN_US);
    fake_close(world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adds_before_it_reads_and_writes_its_entry_before_it_reads_another),
      cmocka_unit_test(leaves_no_trace_of_a_denied_request),
      cmocka_unit_test(denies_by_its_own_charge_who_was_overtaken),
      cmocka_unit_test(stores_the_time_after_its_addition),
      cmocka_unit_test(asks_once_more_for_an_entry_and_denies_without_it),
      cmocka_unit_test(denies_once_for_a_hole),
      cmocka_unit_test(leaves_no_hole_where_its_time_was_up),
      cmocka_unit_test(sees_who_is_ahead_across_the_edge),
      cmocka_unit_test(counts_a_request_that_is_on_its_way),
      cmocka_unit_test(gives_nothing_back),
      cmocka_unit_test(starts_anew_after_a_reset),
      cmocka_unit_test(remembers_a_denial_until_its_entry_is_old),
      cmocka_unit_test(is_not_blocked_by_a_clock_that_was_ahead),
      cmocka_unit_test(bears_any_value_in_the_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
