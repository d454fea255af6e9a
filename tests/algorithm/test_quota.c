#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"

#define W INT64_C(1000000)
#define BEGIN (40 * W) /* of the first group that a test uses */

static struct fake_client *client_of(struct fake_world *world, int client) {
  return &world->clients[client];
}

static void closes_the_group_before_then_opens_then_charges(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + 300, 1);
  struct fake_client *client = fake_begin_take(world, 0, 3);
  assert_int_equal(client->machine->frame.operation_count, 3);
  fake_expect(client, 0, WEIR_GET, WEIR_PLACE_OPEN, 40, 0);
  fake_expect(client, 1, WEIR_CREATE, WEIR_PLACE_OPEN, 39, 0);
  assert_int_equal(client->machine->frame.operations[1].value, 0);
  fake_expect(client, 2, WEIR_GET, WEIR_PLACE_OPEN, 39, 0);
  fake_finish_round(world, client);
  assert_int_equal(client->machine->frame.operation_count, 4);
  fake_expect(client, 0, WEIR_CREATE, WEIR_PLACE_COUNT, BEGIN + 300, 0);
  fake_expect(client, 1, WEIR_CREATE, WEIR_PLACE_OPEN, 40, 0);
  assert_int_equal(client->machine->frame.operations[1].value, BEGIN + 301);
  fake_expect(client, 2, WEIR_GET, WEIR_PLACE_OPEN, 40, 0);
  fake_expect(client, 3, WEIR_GET, WEIR_PLACE_OPEN, 39, 0);
  fake_finish_round(world, client);
  assert_int_equal(client->machine->frame.operation_count, 1);
  fake_expect(client, 0, WEIR_ADD, WEIR_PLACE_COUNT, BEGIN + 300, 0);
  assert_int_equal(client->machine->frame.operations[0].delta, 3);
  assert_true(client->machine->frame.operations[0].ttl_us >= 3 * W + FAKE_MARGIN_US + 2000000);
  fake_finish_round(world, client);
  assert_false(client->busy);
  assert_true(client->requests[0].verdict.decision.allowed);
  assert_int_equal(client->requests[0].verdict.decision.at_us, BEGIN + 300);
  fake_close(world);
}

static void needs_one_operation_while_the_window_is_remembered(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/60s", 600 * W, 1);
  fake_take(world, 0, 1);
  world->now_us += 400000;
  struct fake_client *client = fake_begin_take(world, 0, 1);
  assert_int_equal(client->machine->frame.operation_count, 1);
  fake_expect(client, 0, WEIR_ADD, WEIR_PLACE_COUNT, 600 * W, 0);
  fake_finish_round(world, client);
  assert_false(client->busy);
  fake_close(world);
}

/* One round for every charge, however long it goes on, and no older knowledge than memo_age_us. */
static void renews_what_it_remembers_along_with_a_charge(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:1000/60s", 600 * W, 1);
  fake_take(world, 0, 1);
  for (int i = 0; i < 40; i++) {
    world->now_us += 600000;
    fake_take(world, 0, 1);
    assert_int_equal(client_of(world, 0)->rounds, 2);
  }
  assert_false(
      fake_run(world, 1, (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}})->verdict.status);
  world->now_us += 600000;
  assert_int_equal(fake_take(world, 0, 1)->reset_after_us, 60 * W);
  fake_close(world);
}

static void forgets_a_window_that_it_has_not_seen_for_too_long(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/60s", 600 * W, 1);
  fake_take(world, 0, 6);
  fake_run(world, 1, (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}});
  world->now_us += world->settings.memo_age_us + 1;
  assert_int_equal(fake_take(world, 0, 1)->reset_after_us, 60 * W);
  fake_close(world);
}

static void opens_nothing_by_a_peek_or_a_look(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s;fixed-window:2/1m", BEGIN, 1);
  assert_true(fake_peek(world, 0, 2)->allowed);
  assert_int_equal(world->written, 0);
  fake_take(world, 0, 2);
  world->now_us += 3 * W; /* the quota's window is over, the other rule denies */
  world->written = 0;
  assert_false(fake_take(world, 0, 1)->allowed);
  assert_int_equal(world->written, 0);
  fake_close(world);
}

static void joins_the_next_group_where_its_own_was_closed(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + W + 5000, 1);
  client_of(world, 1)->offset_us = -10000; /* 5 ms before the edge by its clock */
  assert_int_equal(fake_take(world, 0, 4)->reset_after_us, W);
  const weir_decision *late = fake_take(world, 1, 1);
  assert_int_equal(late->remaining, 5);
  assert_int_equal(late->reset_after_us, W + 10000);
  fake_close(world);
}

/* The leader stops between closing and opening: the late clock opens the next group at its begin.
 */
static void goes_on_where_another_crashed_before_it_opened(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + W + 5000, 1);
  client_of(world, 1)->offset_us = -10000;
  struct fake_client *leader = fake_begin_take(world, 0, 4);
  fake_finish_round(world, leader);
  fake_expect(leader, 1, WEIR_CREATE, WEIR_PLACE_OPEN, 41, 0);
  fake_crash(leader);
  assert_int_equal(fake_take(world, 1, 1)->reset_after_us, W + 5000);
  assert_true(fake_has(world, WEIR_PLACE_COUNT, BEGIN + W, 0));
  assert_int_equal(fake_take(world, 2, 1)->remaining, 8);
  fake_close(world);
}

static void waits_and_looks_again_when_what_it_opened_is_gone(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN, 1);
  struct fake_client *client = fake_begin_take(world, 0, 1);
  fake_step_until(world, client, WEIR_CREATE, WEIR_PLACE_OPEN);
  fake_finish_round(world, client);
  fake_step(world, client);
  fake_step(world, client);
  fake_key(world, WEIR_PLACE_OPEN, 40, 0)->present = false;
  fake_step(world, client);
  fake_step(world, client);
  fake_step(world, client);
  assert_int_equal(client->turn, WEIR_TURN_PAUSE);
  fake_finish(world, client);
  assert_true(client->requests[0].verdict.decision.allowed);
  assert_int_equal(client->requests[0].verdict.decision.remaining, 9);
  fake_close(world);
}

static weir_status refund(struct fake_world *world, int client, int64_t at_us, int64_t cost) {
  return fake_run(world, client,
                  (weir_claim){
                      .ask = {.kind = WEIR_REFUND, .alone = true, .cost = cost, .at_us = at_us}})
      ->verdict.status;
}

static void refunds_to_the_window_that_was_charged(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + 300, 1);
  int64_t at_us = fake_take(world, 0, 6)->at_us;
  assert_int_equal(refund(world, 1, at_us, 7), WEIR_BAD_COST);
  assert_int_equal(refund(world, 1, at_us, 2), WEIR_OK);
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 6);
  world->now_us += W;
  int64_t later_us = fake_take(world, 0, 5)->at_us;
  assert_int_equal(refund(world, 1, at_us, 4), WEIR_OK); /* over: nothing goes back */
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 5);
  assert_int_equal(refund(world, 1, later_us, 5), WEIR_OK);
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 10);
  assert_int_equal(fake_peek(world, 0, 1)->reset_after_us, W); /* it is empty, and open */
  fake_close(world);
}

/* --- settling ---------------------------------------------------------------------------------- */

static int64_t settlement[WEIR_RULES_MOST];

/* Its real cost, beside what is charged. */
static const weir_claim *settle(struct fake_world *world, int client, int64_t at_us,
                                int64_t difference) {
  const int64_t costs[WEIR_RULES_MOST] = {difference};
  const weir_claim *request = fake_run(world, client,
                                       (weir_claim){.ask = {.kind = WEIR_SETTLE,
                                                            .alone = true,
                                                            .cost = 1,
                                                            .costs = costs,
                                                            .settlement = settlement,
                                                            .at_us = at_us}});
  if (request->verdict.status == WEIR_OK) assert_true(request->verdict.decision.allowed);
  return request;
}

static void charges_an_overrun_to_the_window_of_now(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s,debt=4", BEGIN + 300, 1);
  int64_t at_us = fake_take(world, 0, 6)->at_us;
  assert_int_equal(settle(world, 0, at_us, 3)->verdict.decision.remaining, 1);
  assert_int_equal(client_of(world, 0)->rounds, 2); /* one round trip */
  assert_int_equal(settlement[0], 3);
  assert_int_equal(settle(world, 0, at_us, 3)->verdict.decision.remaining, 0);
  assert_int_equal(settlement[0], 3);
  assert_int_equal(settle(world, 0, at_us, 3)->verdict.decision.reset_after_us, W);
  assert_int_equal(client_of(world, 0)->rounds, 3);
  assert_int_equal(settlement[0], 2); /* up to L + D */
  const weir_decision *denied = fake_take(world, 1, 1);
  assert_false(denied->allowed);
  assert_int_equal(denied->retry_after_us, W);
  assert_int_equal(fake_key(world, WEIR_PLACE_COUNT, BEGIN + 300, 0)->value, 14);

  world->now_us += 5 * W; /* over: it opens one of its own */
  const weir_claim *late = settle(world, 0, at_us, 8);
  assert_int_equal(late->verdict.decision.remaining, 2);
  assert_int_equal(late->verdict.decision.reset_after_us, W);
  assert_int_equal(client_of(world, 0)->rounds, 4); /* two to open it */
  assert_int_equal(settlement[0], 8);
  assert_int_equal(fake_peek(world, 1, 1)->remaining, 2);
  fake_close(world);
}

/* A write that others keep from being made is tried again after a pause, and no longer than the
 * deadline. */
static void waits_when_what_an_overrun_opened_is_gone(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) {
    const int64_t costs[WEIR_RULES_MOST] = {3};
    struct fake_world *world = fake_open("quota:10/1s", BEGIN, 1);
    struct fake_client *client = client_of(world, 0);
    client->requests[0] = (weir_claim){.ask = {.kind = WEIR_SETTLE,
                                               .alone = true,
                                               .cost = 1,
                                               .costs = costs,
                                               .settlement = settlement,
                                               .at_us = BEGIN - 2 * W}};
    fake_begin(world, client, 1);
    fake_step_until(world, client, WEIR_CREATE, WEIR_PLACE_OPEN);
    fake_finish_round(world, client);
    fake_step(world, client);
    fake_step(world, client);
    fake_key(world, WEIR_PLACE_OPEN, 40, 0)->present = false;
    fake_step(world, client);
    fake_step(world, client);
    fake_step(world, client);
    assert_int_equal(client->turn, WEIR_TURN_PAUSE);
    if (late == 1) world->now_us += FAKE_DEADLINE_US + 1;
    fake_finish(world, client);
    assert_int_equal(client->requests[0].verdict.status, late == 1 ? WEIR_CONTENDED : WEIR_OK);
    assert_int_equal(settlement[0], late == 1 ? 0 : 3);
    fake_close(world);
  }
}

static void charges_all_of_an_overrun_where_denied_requests_count(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s,count=all", BEGIN + 300, 1);
  int64_t at_us = fake_take(world, 0, 6)->at_us;
  assert_int_equal(settle(world, 0, at_us, 500)->verdict.decision.remaining, 0);
  assert_int_equal(settlement[0], 500);
  assert_int_equal(fake_key(world, WEIR_PLACE_COUNT, BEGIN + 300, 0)->value, 506);
  fake_close(world);
}

static void gives_back_to_the_window_of_the_charge(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + 300, 1);
  int64_t at_us = fake_take(world, 0, 6)->at_us;
  world->now_us += 1000;
  assert_int_equal(settle(world, 0, at_us, -2)->verdict.decision.remaining, 6);
  assert_int_equal(client_of(world, 0)->rounds, 2); /* known: no look */
  assert_int_equal(settlement[0], -2);
  assert_int_equal(settle(world, 1, at_us, -3)->verdict.decision.remaining, 9);
  assert_int_equal(settlement[0], -3);
  assert_int_equal(settle(world, 1, at_us, -2)->verdict.status, WEIR_BAD_COST);
  assert_int_equal(settlement[0], 0);
  assert_int_equal(fake_take(world, 0, 9)->remaining, 0);
  assert_int_equal(client_of(world, 0)->rounds, 2); /* and its window is still known */
  fake_close(world);
}

/* The figures are those of the window of now. */
static void gives_nothing_back_to_a_window_that_is_over(void **state) {
  (void)state;
  for (int again = 0; again < 2; again++) {
    struct fake_world *world = fake_open("quota:10/1s", BEGIN + 800000, 1);
    int64_t at_us = fake_take(world, 0, 6)->at_us;
    world->now_us += W + 100000;
    if (again == 0) assert_true(fake_take(world, 1, 7)->allowed);
    for (int client = 0; client < 2; client++) {
      const weir_claim *request = settle(world, client, at_us, -2);
      assert_int_equal(request->verdict.status, WEIR_OK);
      assert_int_equal(settlement[0], -2);
      assert_int_equal(request->verdict.decision.remaining, again == 0 ? 3 : 10);
      assert_int_equal(request->verdict.decision.reset_after_us, again == 0 ? W : 0);
    }
    assert_int_equal(fake_peek(world, 2, 1)->remaining, again == 0 ? 3 : 10);
    world->now_us += 5 * W;
    assert_int_equal(settle(world, 0, at_us, -2)->verdict.status, WEIR_OK);
    fake_close(world);
  }
}

/* A charge in the last moment of a window, by a clock that is late: the next is open already. */
static void refunds_by_the_stamp_when_two_windows_are_in_use(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + 300, 1);
  client_of(world, 1)->offset_us = -10000;
  fake_take(world, 0, 6);
  world->now_us += W;
  assert_int_equal(fake_take(world, 0, 1)->remaining, 9);
  const weir_decision *late = fake_take(world, 1, 3);
  int64_t at_us = late->at_us;
  assert_int_equal(late->remaining, 1);
  assert_int_equal(refund(world, 1, at_us, 3), WEIR_OK);
  assert_int_equal(fake_peek(world, 1, 1)->remaining, 4);
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 9);
  assert_int_equal(refund(world, 1, BEGIN + W + 300, 1), WEIR_OK); /* of the other's, in the next */
  assert_int_equal(fake_take(world, 1, 1)->remaining, 3);          /* and is still in the old one */
  fake_close(world);
}

static void refuses_stamps_that_no_clock_makes(void **state) {
  (void)state;
  static const int64_t stamps[] = {-1, INT64_MIN, INT64_MAX, INT64_C(253402300800000000)};
  struct fake_world *world = fake_open("quota:10/1s", BEGIN, 1);
  fake_take(world, 0, 5);
  for (size_t i = 0; i < sizeof stamps / sizeof stamps[0]; i++)
    assert_int_equal(refund(world, 0, stamps[i], 1), WEIR_BAD_COST);
  assert_int_equal(refund(world, 0, INT64_C(253402300799999999), 1), WEIR_BAD_COST);
  assert_int_equal(refund(world, 0, 0, 1), WEIR_OK);
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 5);
  fake_close(world);
}

static void forgets_all_by_a_reset(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + 300, 1);
  fake_take(world, 0, 10);
  assert_false(fake_take(world, 0, 1)->allowed);
  assert_int_equal(
      fake_run(world, 0, (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}})->verdict.status,
      WEIR_OK);
  assert_false(fake_has(world, WEIR_PLACE_OPEN, 39, 0));
  assert_false(fake_has(world, WEIR_PLACE_OPEN, 40, 0));
  assert_false(fake_has(world, WEIR_PLACE_COUNT, BEGIN + 300, 0));
  world->now_us += 100;
  const weir_decision *decision = fake_take(world, 0, 4);
  assert_int_equal(decision->remaining, 6);
  assert_int_equal(decision->reset_after_us, W);
  fake_close(world);
}

static void remembers_a_denial_until_its_window_ends(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:3/1s", BEGIN, 1);
  fake_take(world, 0, 3);
  world->now_us += W - 30000;
  fake_take(world, 0, 1); /* the memo is renewed by the look */
  weir_claim request = {.ask.cost = 1};
  const weir_memo *memo = client_of(world, 0)->memo;
  assert_true(weir_settle_locally(
      &(weir_view){&world->stack, &world->settings, memo, BEGIN + W - 1}, &request));
  assert_int_equal(request.verdict.decision.retry_after_us, 1);
  assert_int_equal(request.verdict.decision.remaining, 0);
  assert_false(weir_settle_locally(&(weir_view){&world->stack, &world->settings, memo, BEGIN + W},
                                   &request));
  fake_close(world);
}

/* The denial is right, but its window has gone: the next request must ask. */
static void repeats_no_denial_of_a_window_that_has_gone(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:3/60s", 600 * W, 1);
  weir_claim request = {.ask.cost = 1};
  fake_take(world, 0, 2);
  world->now_us += 600000;
  fake_write(world, WEIR_PLACE_COUNT, 600 * W, 0, 3);
  fake_key(world, WEIR_PLACE_OPEN, 10, 0)->present = false;
  assert_false(fake_take(world, 0, 1)->allowed);
  assert_false(weir_settle_locally(
      &(weir_view){&world->stack, &world->settings, client_of(world, 0)->memo, world->now_us},
      &request));
  assert_true(fake_take(world, 0, 1)->allowed);
  fake_close(world);
}

/* --- clocks that were wrong --------------------------------------------------------------------
 */

/* A start, or a closed group, that no honest clock can have left: the key is usable at once, and
 * for everybody in the same window. */
static void is_not_blocked_by_a_clock_that_was_ahead(void **state) {
  (void)state;
  static const int64_t ahead[] = {FAKE_MARGIN_US + 1, W / 2, W - 1, W, 3 * W / 2, 2 * W, 100 * W};
  for (size_t i = 0; i < sizeof ahead / sizeof ahead[0]; i++) {
    struct fake_world *world = fake_open("quota:10/1s", BEGIN + 300, 1);
    client_of(world, 2)->offset_us = ahead[i];
    assert_true(fake_take(world, 2, 10)->allowed);
    const weir_decision *decision = fake_take(world, 0, 4);
    assert_true(decision->allowed);
    assert_int_equal(decision->remaining, 6);
    assert_in_range(decision->reset_after_us, 1, W);
    assert_int_equal(fake_take(world, 1, 1)->remaining, 5);
    assert_false(fake_take(world, 0, 6)->allowed);
    fake_close(world);
  }
}

/* The window before is still open: it is not over because a later one is wrong. */
static void finishes_its_window_before_it_mends_the_next(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + 600000, 1);
  client_of(world, 2)->offset_us = 1200000;
  fake_take(world, 0, 9);
  assert_true(fake_take(world, 2, 10)->allowed); /* opens group 41 at +1.8 s */
  world->now_us += 500000;                       /* group 41 */
  assert_int_equal(fake_take(world, 0, 1)->remaining, 0);
  world->now_us += 550000; /* the first window is over, the wrong one has not begun */
  assert_int_equal(fake_take(world, 0, 1)->remaining, 9);
  assert_true(fake_has(world, WEIR_PLACE_COUNT, BEGIN + 1600000, 0));
  fake_close(world);
}

/* Two meet a wrong start at once and mend it at different times: one window for both. */
static void mends_in_the_same_way_as_everybody(void **state) {
  (void)state;
  struct fake_world *world = fake_open("quota:10/1s", BEGIN + 300, 1);
  client_of(world, 2)->offset_us = W / 2;
  fake_take(world, 2, 10);
  struct fake_client *first = fake_begin_take(world, 0, 1);
  world->now_us += 7;
  struct fake_client *second = fake_begin_take(world, 1, 1);
  fake_step_until(world, first, WEIR_PUT, WEIR_PLACE_OPEN);
  fake_step_until(world, second, WEIR_PUT, WEIR_PLACE_OPEN);
  fake_finish(world, first);
  fake_finish(world, second);
  assert_int_equal(first->requests[0].verdict.decision.remaining, 9);
  assert_int_equal(second->requests[0].verdict.decision.remaining, 8);
  fake_close(world);
}

static void bears_any_value_in_the_store(void **state) {
  (void)state;
  static const int64_t values[] = {INT64_MIN,     -1,       0, 1, 2, 40 * W, 41 * W,
                                   INT64_MAX - 9, INT64_MAX};
  enum { VALUES = sizeof values / sizeof values[0] };
  static const weir_request_kind kinds[] = {WEIR_TAKE, WEIR_PEEK, WEIR_REFUND, WEIR_RESET};
  for (int round = 0; round < VALUES * VALUES * VALUES * 4; round++) {
    int64_t now_us = round % 2 == 0 ? BEGIN + 300 : 300; /* the epoch has nothing before it */
    struct fake_world *world = fake_open("quota:10/1s", now_us, 1);
    int64_t group = now_us / W;
    for (int i = 0, pick = round / 4; i < 3; i++, pick /= VALUES) {
      int64_t value = values[pick % VALUES];
      if (group + i >= 1) fake_write(world, WEIR_PLACE_OPEN, group + i - 1, 0, value);
      if (value > 0) fake_write(world, WEIR_PLACE_COUNT, value - 1, 0, values[round / 4 % VALUES]);
    }
    weir_claim request = {.ask = {.kind = kinds[round % 4], .cost = 1, .at_us = now_us}};
    const weir_claim *settled = fake_run(world, 0, request);
    assert_true(settled->verdict.status == WEIR_OK || settled->verdict.status == WEIR_BAD_COST);
    assert_in_range(settled->verdict.decision.retry_after_us, 0, W + FAKE_MARGIN_US);
    assert_in_range(settled->verdict.decision.remaining, 0, 10);
    fake_close(world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(closes_the_group_before_then_opens_then_charges),
      cmocka_unit_test(needs_one_operation_while_the_window_is_remembered),
      cmocka_unit_test(renews_what_it_remembers_along_with_a_charge),
      cmocka_unit_test(forgets_a_window_that_it_has_not_seen_for_too_long),
      cmocka_unit_test(opens_nothing_by_a_peek_or_a_look),
      cmocka_unit_test(joins_the_next_group_where_its_own_was_closed),
      cmocka_unit_test(goes_on_where_another_crashed_before_it_opened),
      cmocka_unit_test(waits_and_looks_again_when_what_it_opened_is_gone),
      cmocka_unit_test(refunds_to_the_window_that_was_charged),
      cmocka_unit_test(charges_an_overrun_to_the_window_of_now),
      cmocka_unit_test(waits_when_what_an_overrun_opened_is_gone),
      cmocka_unit_test(charges_all_of_an_overrun_where_denied_requests_count),
      cmocka_unit_test(gives_back_to_the_window_of_the_charge),
      cmocka_unit_test(gives_nothing_back_to_a_window_that_is_over),
      cmocka_unit_test(refunds_by_the_stamp_when_two_windows_are_in_use),
      cmocka_unit_test(refuses_stamps_that_no_clock_makes),
      cmocka_unit_test(forgets_all_by_a_reset),
      cmocka_unit_test(remembers_a_denial_until_its_window_ends),
      cmocka_unit_test(repeats_no_denial_of_a_window_that_has_gone),
      cmocka_unit_test(is_not_blocked_by_a_clock_that_was_ahead),
      cmocka_unit_test(finishes_its_window_before_it_mends_the_next),
      cmocka_unit_test(mends_in_the_same_way_as_everybody),
      cmocka_unit_test(bears_any_value_in_the_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
