#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>

#include <cmocka.h>

#include "bench.h"

enum { SECOND = 1000000 };

static int64_t costs[WEIR_RULES_MOST], settlement[WEIR_RULES_MOST];

/* Starts a settlement of these differences with what was charged at `at_us`. */
static weir_turn settle(struct bench *b, int64_t now_us, int64_t at_us, int64_t first,
                        int64_t second) {
  free(b->machine);
  b->machine = weir_machine_init(malloc(weir_machine_bytes(&b->stack)), &b->stack, &b->settings);
  costs[0] = first;
  costs[1] = second;
  b->requests[0] = (weir_claim){.ask = {.kind = WEIR_SETTLE,
                                        .alone = true,
                                        .cost = 1,
                                        .costs = costs,
                                        .settlement = settlement,
                                        .at_us = at_us}};
  return weir_machine_start(b->machine, now_us, b->memo, b->requests, b->operations);
}

static weir_turn resume(struct bench *b, int64_t now_us) {
  return weir_machine_resume(b->machine, now_us, false, b->operations);
}

/* So much is charged in a fixed window, and known. */
static void take(struct bench *b, int64_t now_us, int64_t cost, int64_t total) {
  start(b, now_us, cost, 0);
  answer(b, 0, WEIR_DONE, total);
  assert_int_equal(resume(b, now_us), WEIR_TURN_DONE);
  assert_true(b->requests[0].verdict.decision.allowed);
  keep(b);
}

static void is_settled(const struct bench *b, int64_t first, int64_t remaining) {
  assert_int_equal(b->requests[0].verdict.status, WEIR_OK);
  assert_true(b->requests[0].verdict.decision.allowed);
  assert_int_equal(b->requests[0].verdict.decision.retry_after_us, 0);
  assert_int_equal(settlement[0], first);
  assert_int_equal(b->requests[0].verdict.decision.remaining, remaining);
}

/* --- more ------------------------------------------------------------------------------------- */

static void charges_what_is_missing_in_one_round(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  take(&b, 100, 4, 4);
  assert_int_equal(settle(&b, SECOND, 100, 3, 0), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  expect(&b, 0, WEIR_ADD, 0, 3);
  answer(&b, 0, WEIR_DONE, 9); /* another process has taken 2 */
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  is_settled(&b, 3, 1);
  assert_int_equal(b.requests[0].verdict.decision.limit, 10);
  assert_int_equal(b.requests[0].verdict.decision.reset_after_us, 59 * SECOND);
  tear_down(&b);
}

static void charges_no_more_than_the_limit_without_a_debt(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  settle(&b, 0, 0, 8, 0);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(resume(&b, 100), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  expect(&b, 0, WEIR_SUB, 0, 5);
  answer(&b, 0, WEIR_DONE, 10);
  assert_int_equal(resume(&b, 200), WEIR_TURN_DONE);
  is_settled(&b, 3, 0);
  assert_true(b.machine->frame.memo->must_peek);
  tear_down(&b);
}

static void charges_beyond_the_limit_as_far_as_the_debt_goes(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m,debt=5");
  settle(&b, 0, 0, 8, 0);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(resume(&b, 100), WEIR_TURN_DONE);
  is_settled(&b, 8, 0);
  keep(&b);
  settle(&b, 200, 0, 20, 0); /* never more than L + D at once */
  expect(&b, 0, WEIR_ADD, 0, 15);
  answer(&b, 0, WEIR_DONE, 29);
  assert_int_equal(resume(&b, 300), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 0, 14);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(resume(&b, 400), WEIR_TURN_DONE);
  is_settled(&b, 1, 0);
  keep(&b);
  start(&b, 500, 1, 0); /* a request in debt is denied, until the window has gone */
  expect(&b, 0, WEIR_GET, 0, 0);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(resume(&b, 500), WEIR_TURN_DONE);
  assert_false(b.requests[0].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 0);
  assert_int_equal(b.requests[0].verdict.decision.retry_after_us, 60 * SECOND - 500);
  tear_down(&b);
}

/* Cells of 1 s. The estimate is under L + D, all cells under upper + D. */
static void charges_a_sliding_window_under_both_of_its_limits(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:100/4s,debt=20");
  int64_t now_us = 8500000; /* the far cell, 4, is half inside */
  settle(&b, now_us, now_us, 100, 0);
  assert_int_equal(b.machine->frame.operation_count, 2);
  expect(&b, 0, WEIR_ADD, 2, 100);
  expect(&b, 1, WEIR_GET, 1, 0);
  answer(&b, 0, WEIR_DONE, 100);
  answer(&b, 1, WEIR_DONE, 60 + (INT64_C(30) << 15)); /* 60 + 30 */
  assert_int_equal(resume(&b, now_us), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 2, 40); /* 120 - 30 - 30 fit, less than 150 + 20 - 90 */
  answer(&b, 0, WEIR_DONE, 60);
  assert_int_equal(resume(&b, now_us), WEIR_TURN_DONE);
  is_settled(&b, 60, 0);
  tear_down(&b);

  /* One cell: both windows together have no more than 2L + D. */
  b = set_up("sliding-window:100/4s,cells=1,debt=20");
  now_us = 2 * 4 * SECOND - 100000; /* almost nothing is inside of the far cell */
  settle(&b, now_us, now_us, 120, 0);
  assert_int_equal(b.machine->frame.operation_count, 1); /* both are of one counter */
  answer(&b, 0, WEIR_DONE, 110 + (INT64_C(120) << 15));
  assert_int_equal(resume(&b, now_us), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 0, INT64_C(10) << 15);
  tear_down(&b);
}

/* An overrun that alone is above L: when enough has left. */
static void tells_how_long_an_overrun_denies(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:10/4s,strict,debt=10");
  settle(&b, 8 * SECOND, 8 * SECOND, 20, 0);
  answer(&b, 0, WEIR_DONE, 20);
  answer(&b, 1, WEIR_ABSENT, 0);
  assert_int_equal(resume(&b, 8 * SECOND), WEIR_TURN_DONE);
  is_settled(&b, 20, 0);
  keep(&b);
  start(&b, 8 * SECOND + 100, 4, 0);
  answer(&b, 0, WEIR_DONE, 24);
  answer(&b, 1, WEIR_ABSENT, 0);
  resume(&b, 8 * SECOND + 100);
  answer(&b, 0, WEIR_DONE, 20);
  assert_int_equal(resume(&b, 8 * SECOND + 100), WEIR_TURN_DONE);
  assert_false(b.requests[0].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.retry_after_us, 5 * SECOND - 1 - 100);
  tear_down(&b);
}

static void charges_all_of_it_where_denied_requests_count(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m,count=all");
  settle(&b, 0, 0, 80, 0);
  expect(&b, 0, WEIR_ADD, 0, 80);
  answer(&b, 0, WEIR_DONE, 85);
  assert_int_equal(resume(&b, 100), WEIR_TURN_DONE);
  is_settled(&b, 80, 0);
  tear_down(&b);
}

/* --- less ------------------------------------------------------------------------------------- */

static void gives_back_without_a_look_what_it_knows_to_be_there(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  take(&b, 100, 6, 6);
  assert_int_equal(settle(&b, SECOND, 100, -4, 0), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  expect(&b, 0, WEIR_SUB, 0, 4);
  answer(&b, 0, WEIR_DONE, 5); /* another process has taken 3 */
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  is_settled(&b, -4, 5);
  assert_false(b.machine->frame.memo->must_peek);
  keep(&b);
  start(&b, SECOND, 5, 0); /* and knows as much as a take does */
  assert_int_equal(b.machine->frame.operation_count, 1);
  expect(&b, 0, WEIR_ADD, 0, 5);
  tear_down(&b);
}

static void reads_along_what_its_figures_need(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:10/4s");
  start(&b, 8 * SECOND, 6, 0);
  answer(&b, 0, WEIR_DONE, 6);
  answer(&b, 1, WEIR_ABSENT, 0);
  assert_int_equal(resume(&b, 8 * SECOND), WEIR_TURN_DONE);
  keep(&b);
  settle(&b, 8 * SECOND + 500000, 8 * SECOND, -4, 0);
  assert_int_equal(b.machine->frame.operation_count, 2);
  expect(&b, 0, WEIR_SUB, 2, 4);
  expect(&b, 1, WEIR_GET, 1, 0); /* was read before it was finished */
  answer(&b, 1, WEIR_ABSENT, 0);
  answer(&b, 0, WEIR_DONE, 3);
  assert_int_equal(resume(&b, 8 * SECOND + 500000), WEIR_TURN_DONE);
  is_settled(&b, -4, 7);
  keep(&b);
  settle(&b, 8 * SECOND + 980000, 8 * SECOND, -2, 0);
  assert_int_equal(b.machine->frame.operation_count, 1);
  tear_down(&b);
}

static void looks_first_where_it_does_not_know(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  assert_int_equal(settle(&b, SECOND, 100, -4, 0), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_GET, 0, 0);
  answer(&b, 0, WEIR_DONE, 9);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 0, 4);
  answer(&b, 0, WEIR_DONE, 5);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  is_settled(&b, -4, 5);
  tear_down(&b);
}

static void gives_nothing_back_of_a_window_that_has_passed(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  take(&b, 100, 6, 6);
  settle(&b, 61 * SECOND, 100, -4, 0);
  expect(&b, 0, WEIR_GET, 1, 0);
  answer(&b, 0, WEIR_DONE, 7);
  assert_int_equal(resume(&b, 61 * SECOND), WEIR_TURN_DONE);
  is_settled(&b, -4, 3);
  tear_down(&b);
}

static void refuses_to_give_back_more_than_is_charged(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m;fixed-window:100/1h");
  settle(&b, SECOND, 100, -4, 9);
  assert_int_equal(b.machine->frame.operation_count, 2);
  answer(&b, 0, WEIR_DONE, 3);
  answer(&b, 1, WEIR_DONE, 50);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_BAD_COST);
  assert_int_equal(settlement[0], 0);
  assert_int_equal(settlement[1], 0);
  tear_down(&b);
}

/* --- stacks ----------------------------------------------------------------------------------- */

/* Two rules of 10 a minute and 100 an hour, 6 taken of both. */
static struct bench stacked(void) {
  struct bench b = set_up("fixed-window:10/1m;fixed-window:100/1h,debt=20");
  start(&b, 100, 6, 0);
  answer(&b, 0, WEIR_DONE, 6);
  answer(&b, 1, WEIR_DONE, 66);
  assert_int_equal(resume(&b, 100), WEIR_TURN_DONE);
  keep(&b);
  return b;
}

static void settles_one_rule_up_and_another_down(void **state) {
  (void)state;
  struct bench b = stacked();
  assert_int_equal(settle(&b, SECOND, 100, -5, 90), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  assert_int_equal(b.machine->frame.operations[0].counter.rule, 1);
  expect(&b, 0, WEIR_ADD, 0, 90);
  answer(&b, 0, WEIR_DONE, 156);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 2);
  expect(&b, 0, WEIR_SUB, 0, 5);
  expect(&b, 1, WEIR_SUB, 0, 36);
  answer(&b, 0, WEIR_DONE, 1);
  answer(&b, 1, WEIR_DONE, 120);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  is_settled(&b, -5, 0);
  assert_int_equal(settlement[1], 54);
  assert_int_equal(b.requests[0].verdict.decision.rule, 1);
  tear_down(&b);
}

static void leaves_alone_a_rule_without_a_difference(void **state) {
  (void)state;
  struct bench b = stacked();
  settle(&b, SECOND, 100, 0, 30);
  assert_int_equal(b.machine->frame.operation_count, 1);
  answer(&b, 0, WEIR_DONE, 96);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  is_settled(&b, 0, 4);
  assert_int_equal(settlement[1], 30);
  assert_int_equal(b.requests[0].verdict.decision.limit, 100);
  tear_down(&b);
}

/* --- failures --------------------------------------------------------------------------------- */

static void does_not_send_an_unknown_charge_again_and_looks_next_time(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m,debt=5");
  take(&b, 100, 6, 6);
  settle(&b, SECOND, 100, 7, 0);
  answer(&b, 0, WEIR_UNKNOWN, 0);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(settlement[0], 0);
  keep(&b);
  for (int round = 0; round < 2; round++) { /* full with what was not certain: still unsure */
    settle(&b, 2 * SECOND, 100, 7, 0);
    assert_int_equal(b.machine->frame.operation_count, 1);
    expect(&b, 0, WEIR_GET, 0, 0);
    answer(&b, 0, WEIR_DONE, 15);
    assert_int_equal(resume(&b, 2 * SECOND), WEIR_TURN_DONE);
    is_settled(&b, 0, 0);
    keep(&b);
  }
  settle(&b, 2 * SECOND, 100, 7, 0);
  answer(&b, 0, WEIR_DONE, 13);
  assert_int_equal(resume(&b, 2 * SECOND), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_ADD, 0, 2);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(resume(&b, 2 * SECOND), WEIR_TURN_DONE);
  is_settled(&b, 2, 0);
  keep(&b);
  settle(&b, 2 * SECOND, 100, 7, 0);
  expect(&b, 0, WEIR_ADD, 0, 7); /* certain again */
  tear_down(&b);
}

static void does_not_send_again_what_may_have_gone_back(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  take(&b, 100, 6, 6);
  settle(&b, SECOND, 100, -4, 0);
  answer(&b, 0, WEIR_UNKNOWN, 0);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(settlement[0], 0);
  tear_down(&b);
}

static void may_be_asked_for_again_where_nothing_was_sent(void **state) {
  (void)state;
  struct bench b = stacked();
  settle(&b, SECOND, 100, -5, 30);
  answer(&b, 0, WEIR_NOT_SENT, 0);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_UNAVAILABLE);
  assert_int_equal(settlement[0], 0);
  assert_int_equal(settlement[1], 0);
  tear_down(&b);
}

static void what_one_rule_was_charged_stays_when_another_fails(void **state) {
  (void)state;
  struct bench b = stacked();
  settle(&b, SECOND, 100, 3, 30);
  answer(&b, 0, WEIR_DONE, 9);
  answer(&b, 1, WEIR_NOT_SENT, 0);
  assert_int_equal(resume(&b, SECOND), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(settlement[0], 3);
  assert_int_equal(settlement[1], 0);
  tear_down(&b);
}

static void looks_again_only_where_others_were_faster(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m;token-bucket:10/1m");
  b.settings.traits = WEIR_TRAIT_SWAP;
  assert_int_equal(settle(&b, 100, 0, 1, 1), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 2);
  answer(&b, 0, WEIR_DONE, 4);
  answer(&b, 1, WEIR_ABSENT, 0);
  assert_int_equal(resume(&b, 200), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 2);
  answer(&b, 0, WEIR_DONE, 5);
  answer(&b, 1, WEIR_CONFLICT, 0);
  assert_int_equal(resume(&b, 300), WEIR_TURN_PAUSE);
  assert_int_equal(resume(&b, 400), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  assert_int_equal(b.machine->frame.operations[0].counter.rule, 1);
  tear_down(&b);
}

/* Nobody knows then what fits. */
static void takes_back_a_charge_beside_which_nothing_was_read(void **state) {
  (void)state;
  for (int confirmed = 0; confirmed <= 1; confirmed++) {
    struct bench b = set_up("sliding-window:10/4s");
    settle(&b, 8 * SECOND, 8 * SECOND, 6, 0);
    answer(&b, 0, WEIR_DONE, 6);
    answer(&b, 1, WEIR_NOT_SENT, 0);
    assert_int_equal(resume(&b, 8 * SECOND), WEIR_TURN_EXECUTE);
    assert_int_equal(b.machine->frame.operation_count, 1);
    expect(&b, 0, WEIR_SUB, 2, 6);
    answer(&b, 0, confirmed ? WEIR_DONE : WEIR_UNKNOWN, 0);
    assert_int_equal(resume(&b, 8 * SECOND), WEIR_TURN_DONE);
    assert_int_equal(b.requests[0].verdict.status,
                     confirmed ? WEIR_UNAVAILABLE : WEIR_UNKNOWN_OUTCOME);
    assert_int_equal(settlement[0], 0);
    tear_down(&b);
  }
}

static void stands_when_the_rest_of_its_charge_does_not_come_back(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  settle(&b, 0, 0, 8, 0);
  answer(&b, 0, WEIR_DONE, 15);
  resume(&b, 100);
  answer(&b, 0, WEIR_UNKNOWN, 0);
  assert_int_equal(resume(&b, 200), WEIR_TURN_DONE);
  is_settled(&b, 3, 0);
  keep(&b);
  settle(&b, 300, 0, 1, 0);
  expect(&b, 0, WEIR_GET, 0, 0);
  tear_down(&b);
}

static void counts_what_was_charged_too_late(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m");
  settle(&b, 0, 0, 8, 0);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(weir_machine_resume(b.machine, 100, true, b.operations), WEIR_TURN_EXECUTE);
  answer(&b, 0, WEIR_DONE, 10);
  assert_int_equal(weir_machine_resume(b.machine, 200, true, b.operations), WEIR_TURN_DONE);
  is_settled(&b, 3, 0);
  tear_down(&b);

  b = set_up("fixed-window:10/1m"); /* but goes no further after a look */
  settle(&b, 0, 0, -8, 0);
  answer(&b, 0, WEIR_DONE, 9);
  assert_int_equal(weir_machine_resume(b.machine, 100, true, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_TIMEOUT);
  tear_down(&b);
}

/* --- what this process knows ------------------------------------------------------------------ */

static void expects_what_was_settled(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1m,debt=5");
  b.settings.notices_loss = true;
  take(&b, 100, 4, 4);
  settle(&b, 200, 100, 20, 0);
  answer(&b, 0, WEIR_DONE, 19);
  resume(&b, 200);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(resume(&b, 200), WEIR_TURN_DONE);
  assert_int_equal(b.machine->frame.memo->expected[0].amount, 15);
  assert_int_equal(b.machine->lessons[0].cost, 11);
  assert_int_equal(b.machine->lessons[0].charges, 0); /* it was no request more */
  assert_int_equal(b.machine->frame.lost, 0);
  keep(&b);
  settle(&b, 300, 100, -3, 0);
  expect(&b, 0, WEIR_SUB, 0, 3);
  answer(&b, 0, WEIR_DONE, 12);
  assert_int_equal(resume(&b, 300), WEIR_TURN_DONE);
  assert_int_equal(b.machine->frame.memo->expected[0].amount, 12);
  assert_int_equal(b.machine->frame.lost, 0);
  tear_down(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(charges_what_is_missing_in_one_round),
      cmocka_unit_test(charges_no_more_than_the_limit_without_a_debt),
      cmocka_unit_test(charges_beyond_the_limit_as_far_as_the_debt_goes),
      cmocka_unit_test(charges_a_sliding_window_under_both_of_its_limits),
      cmocka_unit_test(tells_how_long_an_overrun_denies),
      cmocka_unit_test(charges_all_of_it_where_denied_requests_count),
      cmocka_unit_test(gives_back_without_a_look_what_it_knows_to_be_there),
      cmocka_unit_test(reads_along_what_its_figures_need),
      cmocka_unit_test(looks_first_where_it_does_not_know),
      cmocka_unit_test(gives_nothing_back_of_a_window_that_has_passed),
      cmocka_unit_test(refuses_to_give_back_more_than_is_charged),
      cmocka_unit_test(settles_one_rule_up_and_another_down),
      cmocka_unit_test(leaves_alone_a_rule_without_a_difference),
      cmocka_unit_test(does_not_send_an_unknown_charge_again_and_looks_next_time),
      cmocka_unit_test(does_not_send_again_what_may_have_gone_back),
      cmocka_unit_test(may_be_asked_for_again_where_nothing_was_sent),
      cmocka_unit_test(what_one_rule_was_charged_stays_when_another_fails),
      cmocka_unit_test(looks_again_only_where_others_were_faster),
      cmocka_unit_test(takes_back_a_charge_beside_which_nothing_was_read),
      cmocka_unit_test(stands_when_the_rest_of_its_charge_does_not_come_back),
      cmocka_unit_test(counts_what_was_charged_too_late),
      cmocka_unit_test(expects_what_was_settled),
  };
  return cmocka_run_group_tests_name("settle", tests, NULL, NULL);
}
