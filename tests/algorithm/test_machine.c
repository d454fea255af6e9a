#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>

#include <cmocka.h>

#include "bench.h"

/* A stack whose second rule denied a cost of 4, on the way to taking its charges back. */
static void deny_by_the_second_rule(struct bench *b) {
  *b = set_up("fixed-window:10/1s;fixed-window:12/1m");
  start(b, 0, 4, 0);
  assert_int_equal(b->machine->frame.operation_count, 2);
  answer(b, 0, WEIR_DONE, 4);
  answer(b, 1, WEIR_DONE, 13);
  assert_int_equal(weir_machine_resume(b->machine, 100, false, b->operations), WEIR_TURN_EXECUTE);
  assert_int_equal(b->machine->frame.operation_count, 4);
  expect(b, 0, WEIR_SUB, 0, 4);
  expect(b, 1, WEIR_SUB, 0, 4);
  expect(b, 2, WEIR_GET, 0, 0);
  expect(b, 3, WEIR_GET, 0, 0);
  assert_false(b->requests[0].verdict.answered);
  answer(b, 0, WEIR_DONE, 0);
  answer(b, 1, WEIR_DONE, 9);
  answer(b, 2, WEIR_DONE, 0);
}

static void charges_all_rules_of_a_stack_or_none(void **state) {
  (void)state;
  struct bench b;
  deny_by_the_second_rule(&b);
  answer(&b, 3, WEIR_DONE, 9);
  assert_int_equal(weir_machine_resume(b.machine, 200, false, b.operations), WEIR_TURN_DONE);
  assert_false(b.requests[0].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.rule, 1);
  assert_int_equal(b.requests[0].verdict.decision.limit, 12);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 3);
  tear_down(&b);
}

static void tries_once_more_in_order_when_what_denied_it_was_in_flight(void **state) {
  (void)state;
  struct bench b;
  deny_by_the_second_rule(&b);
  answer(&b, 3, WEIR_DONE, 5);
  assert_int_equal(weir_machine_resume(b.machine, 200, false, b.operations), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  expect(&b, 0, WEIR_ADD, 0, 4);
  assert_int_equal(b.machine->frame.operations[0].counter.rule, 0); /* the tighter one */
  answer(&b, 0, WEIR_DONE, 4);
  assert_int_equal(weir_machine_resume(b.machine, 300, false, b.operations), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  assert_int_equal(b.machine->frame.operations[0].counter.rule, 1);
  answer(&b, 0, WEIR_DONE, 9);
  assert_int_equal(weir_machine_resume(b.machine, 400, false, b.operations), WEIR_TURN_DONE);
  assert_true(b.requests[0].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 3);
  tear_down(&b);
}

static void gives_the_earlier_rule_back_when_the_second_try_is_denied(void **state) {
  (void)state;
  struct bench b;
  deny_by_the_second_rule(&b);
  answer(&b, 3, WEIR_DONE, 5);
  weir_machine_resume(b.machine, 200, false, b.operations);
  answer(&b, 0, WEIR_DONE, 4);
  weir_machine_resume(b.machine, 300, false, b.operations);
  answer(&b, 0, WEIR_DONE, 13);
  assert_int_equal(weir_machine_resume(b.machine, 400, false, b.operations), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 2);
  expect(&b, 0, WEIR_SUB, 0, 4);
  expect(&b, 1, WEIR_SUB, 0, 4);
  answer(&b, 0, WEIR_DONE, 0);
  answer(&b, 1, WEIR_DONE, 9);
  assert_int_equal(weir_machine_resume(b.machine, 500, false, b.operations), WEIR_TURN_DONE);
  assert_false(b.requests[0].verdict.decision.allowed);
  tear_down(&b);
}

static void does_not_try_again_after_the_deadline(void **state) {
  (void)state;
  struct bench b;
  deny_by_the_second_rule(&b);
  answer(&b, 3, WEIR_DONE, 5);
  assert_int_equal(weir_machine_resume(b.machine, 200, true, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_OK);
  assert_false(b.requests[0].verdict.decision.allowed);
  tear_down(&b);
}

static void charges_every_rule_its_own_cost_and_leaves_out_a_cost_of_0(void **state) {
  (void)state;
  static const int64_t costs[] = {2, 0, 512};
  struct bench b = set_up("fixed-window:10/1s;fixed-window:1/1m;fixed-window:1000/1h");
  b.machine = weir_machine_init(malloc(weir_machine_bytes(&b.stack)), &b.stack, &b.settings);
  b.requests[0] = (weir_claim){.ask = {.cost = 1, .costs = costs}};
  assert_int_equal(weir_machine_start(b.machine, 0, b.memo, b.requests, b.operations),
                   WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 2);
  expect(&b, 0, WEIR_ADD, 0, 2);
  expect(&b, 1, WEIR_ADD, 0, 512);
  assert_int_equal(b.machine->frame.operations[1].counter.rule, 2);
  answer(&b, 0, WEIR_DONE, 9);
  answer(&b, 1, WEIR_DONE, 512);
  assert_int_equal(weir_machine_resume(b.machine, 100, false, b.operations), WEIR_TURN_DONE);
  assert_true(b.requests[0].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.rule, 0);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 1);
  assert_int_equal(b.requests[0].verdict.decision.cost, WEIR_OWN_COSTS);
  tear_down(&b);
}

static void takes_as_much_as_fits_when_less_is_welcome(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  b.machine = weir_machine_init(malloc(weir_machine_bytes(&b.stack)), &b.stack, &b.settings);
  b.requests[0] = (weir_claim){.ask = {.cost = 8, .up_to = true}};
  weir_machine_start(b.machine, 0, b.memo, b.requests, b.operations);
  answer(&b, 0, WEIR_DONE, 15);
  assert_int_equal(weir_machine_resume(b.machine, 100, false, b.operations), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 0, 5);
  answer(&b, 0, WEIR_DONE, 10);
  assert_int_equal(weir_machine_resume(b.machine, 200, false, b.operations), WEIR_TURN_DONE);
  assert_true(b.requests[0].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.cost, 3);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 0);
  tear_down(&b);
}

/* Starts a refund of a charge made at `at_us`. */
static weir_turn start_refund(struct bench *b, int64_t now_us, int64_t at_us, int64_t cost) {
  b->machine = weir_machine_init(malloc(weir_machine_bytes(&b->stack)), &b->stack, &b->settings);
  b->requests[0] = (weir_claim){.ask = {.kind = WEIR_REFUND, .cost = cost, .at_us = at_us}};
  return weir_machine_start(b->machine, now_us, b->memo, b->requests, b->operations);
}

static void refunds_to_the_cell_that_was_charged(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:10/4s"); /* cells of 1 s, four to a counter */
  assert_int_equal(start_refund(&b, 10500000, 8300000, 3), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 2);
  answer(&b, 0, WEIR_ABSENT, 0);
  answer(&b, 1, WEIR_DONE, 4 + (INT64_C(2) << 30)); /* counter 2: cell 8 holds 4 */
  assert_int_equal(weir_machine_resume(b.machine, 10500100, false, b.operations),
                   WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  expect(&b, 0, WEIR_SUB, 2, 3); /* lane 0 */
  answer(&b, 0, WEIR_DONE, 1 + (INT64_C(2) << 30));
  assert_int_equal(weir_machine_resume(b.machine, 10500200, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_OK);
  tear_down(&b);
}

static void refunds_nothing_from_a_cell_that_has_left_the_window(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:10/4s");
  start_refund(&b, 10500000, 4000000, 3);
  answer(&b, 0, WEIR_DONE, 5);
  answer(&b, 1, WEIR_ABSENT, 0);
  assert_int_equal(weir_machine_resume(b.machine, 10500100, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_OK);
  tear_down(&b);
}

static void refuses_to_refund_more_than_is_charged(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  start_refund(&b, 500, 100, 5);
  answer(&b, 0, WEIR_DONE, 4);
  assert_int_equal(weir_machine_resume(b.machine, 600, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_BAD_COST);
  tear_down(&b);
}

/* --- plain charges -----------------------------------------------------------------------------
 */

/* One was admitted, so that the next group is plain. */
static struct bench set_up_plain(const char *rules) {
  struct bench b = set_up(rules);
  assert_int_equal(start(&b, 0, 1, 0), WEIR_TURN_EXECUTE);
  assert_false(b.machine->plain);
  for (size_t i = 0; i < b.stack.count; i++)
    answer(&b, i, WEIR_DONE, 1);
  assert_int_equal(weir_machine_resume(b.machine, 100, false, b.operations), WEIR_TURN_DONE);
  keep(&b);
  return b;
}

static void tells_each_of_a_plain_group_what_is_left_behind_it(void **state) {
  (void)state;
  struct bench b = set_up_plain("fixed-window:10/1s;fixed-window:12/1m");
  start(&b, 500, 2, 3);
  assert_true(b.machine->plain);
  assert_int_equal(b.machine->frame.operation_count, 2);
  expect(&b, 0, WEIR_ADD, 0, 5);
  expect(&b, 1, WEIR_ADD, 0, 5);
  answer(&b, 0, WEIR_DONE, 6);
  answer(&b, 1, WEIR_DONE, 9);
  assert_int_equal(weir_machine_resume(b.machine, 600, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.machine->frame.operation_count, 0);
  assert_true(b.requests[0].verdict.decision.allowed && b.requests[1].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.remaining,
                   6); /* of the second rule: 4 were there */
  assert_int_equal(b.requests[1].verdict.decision.remaining, 3);
  assert_int_equal(b.requests[1].verdict.decision.rule, 1);
  assert_int_equal(b.requests[1].verdict.decision.at_us, 500);
  assert_int_equal(b.requests[1].verdict.decision.reset_after_us, 60000000 - 500);
  tear_down(&b);
}

static void goes_on_with_the_answers_of_a_plain_charge_that_does_not_fit(void **state) {
  (void)state;
  struct bench b = set_up_plain("fixed-window:10/1s");
  start(&b, 500, 2, 9);
  assert_true(b.machine->plain);
  answer(&b, 0, WEIR_DONE, 12);
  assert_int_equal(weir_machine_resume(b.machine, 600, false, b.operations), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 1);
  expect(&b, 0, WEIR_SUB, 0, 9);
  answer(&b, 0, WEIR_DONE, 3);
  assert_int_equal(weir_machine_resume(b.machine, 700, false, b.operations), WEIR_TURN_DONE);
  assert_true(b.requests[0].verdict.decision.allowed);
  assert_false(b.requests[1].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 7);
  keep(&b);
  start(&b, 800, 1, 0); /* what went back calls for a look */
  assert_false(b.machine->plain);
  expect(&b, 0, WEIR_GET, 0, 0);
  tear_down(&b);
}

static void takes_a_plain_charge_that_came_late_back(void **state) {
  (void)state;
  struct bench b = set_up_plain("fixed-window:10/1s");
  start(&b, 500, 2, 0);
  answer(&b, 0, WEIR_DONE, 3);
  assert_int_equal(weir_machine_resume(b.machine, 600, true, b.operations), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 0, 2);
  answer(&b, 0, WEIR_DONE, 1);
  assert_int_equal(weir_machine_resume(b.machine, 700, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_TIMEOUT);
  tear_down(&b);
}

/* Cells of 1 s, d = 10 ms, e = 40 ms, x = 120 ms: in the last e of a cell the one ahead is read. */
static void charges_plainly_until_e_before_the_end_of_a_cell(void **state) {
  (void)state;
  const int64_t cell = 1000000, begin = 9 * cell; /* in a counter that it ends */
  struct bench b = set_up("sliding-window:10000000/4s,cells=4");
  start(&b, begin + 500000, 1, 0);
  assert_false(b.machine->plain);
  for (size_t n = 0; n < b.machine->frame.operation_count; n++)
    answer(&b, n, n == 0 ? WEIR_DONE : WEIR_ABSENT, b.machine->frame.operations[n].delta);
  weir_machine_resume(b.machine, begin + 500100, false, b.operations);
  keep(&b);
  start(&b, begin + cell - 40001, 1, 0);
  assert_true(b.machine->plain);
  answer(&b, 0, WEIR_DONE, 2 * b.machine->frame.operations[0].delta);
  weir_machine_resume(b.machine, begin + cell - 40000, false, b.operations);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 10000000 - 2);
  keep(&b);
  start(&b, begin + cell - 40000, 1, 0);
  assert_false(b.machine->plain);
  assert_true(b.machine->frame.operation_count > 1);
  tear_down(&b);
}

static void is_not_plain_where_wishes_differ(void **state) {
  (void)state;
  static const int64_t costs[] = {2};
  const weir_claim others[] = {{.ask = {.cost = 1, .kind = WEIR_PEEK}},
                               {.ask = {.cost = 1, .waits = true}},
                               {.ask = {.cost = 2, .costs = costs}}};
  for (size_t n = 0; n < sizeof others / sizeof others[0]; n++) {
    struct bench b = set_up_plain("fixed-window:10/1s");
    b.requests[0] = others[n];
    weir_machine_start(b.machine, 500, b.memo, b.requests, b.operations);
    assert_false(b.machine->plain);
    tear_down(&b);
  }
}

/* What becomes of a request whose store does all that is asked, from this round on behind the deadline. */
static weir_status status_of(weir_claim request, int late_from) {
  struct bench b = set_up("fixed-window:10/1s");
  b.requests[0] = request;
  b.machine = weir_machine_init(malloc(weir_machine_bytes(&b.stack)), &b.stack, &b.settings);
  weir_turn turn = weir_machine_start(b.machine, 0, b.memo, b.requests, b.operations);
  for (int round = 1; turn == WEIR_TURN_EXECUTE; round++) {
    for (size_t n = 0; n < b.machine->frame.operation_count; n++)
      answer(&b, n, WEIR_DONE, 5);
    turn = weir_machine_resume(b.machine, 100, round >= late_from, b.operations);
  }
  assert_int_equal(turn, WEIR_TURN_DONE);
  assert_true(b.requests[0].verdict.answered);
  weir_status status = b.requests[0].verdict.status;
  assert_int_equal(weir_machine_resume(b.machine, 200, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status,
                   status); /* whoever resumes it once more learns no more */
  tear_down(&b);
  return status;
}

static void what_comes_late_ends_each_kind_in_its_own_way(void **state) {
  (void)state;
  static const weir_known nothing[WEIR_RULES_MOST];
  static const int64_t more[] = {2}, less[] = {-2};
  const weir_claim take = {.ask.cost = 1}, peek = {.ask = {.kind = WEIR_PEEK, .cost = 1}},
                   reset = {.ask = {.kind = WEIR_RESET, .cost = 1}},
                   refund = {.ask = {.kind = WEIR_REFUND, .cost = 1}},
                   begin = {.ask = {.kind = WEIR_BEGIN, .cost = 1, .known = nothing}},
                   charges = {.ask = {.kind = WEIR_SETTLE, .cost = 1, .costs = more}},
                   gives_back = {.ask = {.kind = WEIR_SETTLE, .cost = 1, .costs = less}};
  assert_int_equal(status_of(take, 1), WEIR_TIMEOUT);
  assert_int_equal(status_of(peek, 1), WEIR_TIMEOUT);
  assert_int_equal(status_of(reset, 1), WEIR_OK); /* it is done */
  assert_int_equal(status_of(begin, 1), WEIR_TIMEOUT);
  assert_int_equal(status_of(refund, 1), WEIR_TIMEOUT);
  assert_int_equal(status_of(refund, 2), WEIR_OK);  /* what goes back has its own time */
  assert_int_equal(status_of(charges, 1), WEIR_OK); /* what was charged counts */
  assert_int_equal(status_of(gives_back, 1), WEIR_TIMEOUT);
  assert_int_equal(status_of(gives_back, 2), WEIR_OK);
}

/* A charge without an answer counts most likely, whoever is first in its group; and once. */
static void what_got_no_answer_waits_for_one(void **state) {
  (void)state;
  for (int place = 0; place < 2; place++) {
    struct bench b = set_up("fixed-window:10/1s");
    const weir_operation read = {.kind = WEIR_GET, .outcome = WEIR_UNKNOWN};
    b.settings.notices_loss = true;
    start(&b, 5000000, 1, 1); /* makes the machine */
    b.requests[place] = (weir_claim){.ask = {.kind = WEIR_PEEK, .cost = 1}};
    b.requests[!place] = (weir_claim){.ask.cost = 3};
    b.requests[0].next = &b.requests[1];
    weir_machine_start(b.machine, 5000000, b.memo, b.requests, b.operations);
    expect(&b, 0, WEIR_ADD, 5, 3);
    answer(&b, 0, WEIR_UNKNOWN, 0);
    assert_int_equal(weir_machine_resume(b.machine, 5000001, false, b.operations), WEIR_TURN_DONE);
    assert_int_equal(b.requests[!place].verdict.status, WEIR_UNKNOWN_OUTCOME);
    assert_int_equal(b.machine->frame.memo->expected[0].share.last, 3);

    b.requests[0] = (weir_claim){.ask.cost = 1}; /* another key, by the same machine */
    weir_machine_refuse(b.machine, 5000002, NULL, b.requests, &read, false);
    assert_int_equal(b.requests[0].verdict.status, WEIR_UNAVAILABLE);
    assert_int_equal(b.machine->frame.memo->expected[0].share.last, 0);
    tear_down(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(charges_all_rules_of_a_stack_or_none),
      cmocka_unit_test(tries_once_more_in_order_when_what_denied_it_was_in_flight),
      cmocka_unit_test(gives_the_earlier_rule_back_when_the_second_try_is_denied),
      cmocka_unit_test(does_not_try_again_after_the_deadline),
      cmocka_unit_test(charges_every_rule_its_own_cost_and_leaves_out_a_cost_of_0),
      cmocka_unit_test(takes_as_much_as_fits_when_less_is_welcome),
      cmocka_unit_test(refunds_to_the_cell_that_was_charged),
      cmocka_unit_test(refunds_nothing_from_a_cell_that_has_left_the_window),
      cmocka_unit_test(refuses_to_refund_more_than_is_charged),
      cmocka_unit_test(tells_each_of_a_plain_group_what_is_left_behind_it),
      cmocka_unit_test(goes_on_with_the_answers_of_a_plain_charge_that_does_not_fit),
      cmocka_unit_test(takes_a_plain_charge_that_came_late_back),
      cmocka_unit_test(charges_plainly_until_e_before_the_end_of_a_cell),
      cmocka_unit_test(is_not_plain_where_wishes_differ),
      cmocka_unit_test(what_comes_late_ends_each_kind_in_its_own_way),
      cmocka_unit_test(what_got_no_answer_waits_for_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
