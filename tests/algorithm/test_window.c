#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bench.h"

static void adds_first_and_reads_the_rest_after(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:10/4s"); /* cells of 1 s, four to a counter */
  assert_int_equal(start(&b, 10500000, 2, 3), WEIR_TURN_EXECUTE);
  assert_int_equal(b.machine->frame.operation_count, 2);
  expect(&b, 0, WEIR_ADD, 2, INT64_C(5) << 30); /* cell 10: counter 2, lane 2 */
  expect(&b, 1, WEIR_GET, 1, 0);
  assert_true(b.machine->frame.operations[0].ttl_us >= 4000000 + 4000000 + 40000 + 2000000);
  tear_down(&b);
}

static void gives_back_what_did_not_fit_to_the_counter_it_charged(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  start(&b, 999999, 4, 3);
  expect(&b, 0, WEIR_ADD, 0, 7);
  answer(&b, 0, WEIR_DONE, 12); /* others: 5; 4 fits, 3 does not */
  assert_int_equal(weir_machine_resume(b.machine, 1000001, false, b.operations), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 0, 3); /* the clock went on to window 1; the charge was in window 0 */
  answer(&b, 0, WEIR_DONE, 9);
  assert_int_equal(weir_machine_resume(b.machine, 1000100, false, b.operations), WEIR_TURN_DONE);
  assert_true(b.requests[0].verdict.decision.allowed);
  assert_int_equal(b.requests[0].verdict.decision.remaining, 1);
  assert_false(b.requests[1].verdict.decision.allowed);
  assert_int_equal(b.requests[1].verdict.decision.retry_after_us, 1);
  tear_down(&b);
}

static void admits_a_smaller_request_behind_one_that_does_not_fit(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  start(&b, 0, 5, 2);
  answer(&b, 0, WEIR_DONE, 14); /* others: 7 */
  weir_machine_resume(b.machine, 0, false, b.operations);
  assert_false(b.requests[0].verdict.decision.allowed);
  assert_true(b.requests[1].verdict.decision.allowed);
  tear_down(&b);
}

static void looks_before_it_charges_after_a_denial(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  start(&b, 0, 5, 0);
  answer(&b, 0, WEIR_DONE, 14);
  weir_machine_resume(b.machine, 0, false, b.operations);
  answer(&b, 0, WEIR_DONE, 9);
  weir_machine_resume(b.machine, 0, false, b.operations);
  keep(&b);
  start(&b, 60000, 1, 0);
  expect(&b, 0, WEIR_GET, 0, 0);
  answer(&b, 0, WEIR_DONE, 9);
  assert_int_equal(weir_machine_resume(b.machine, 60100, false, b.operations), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_ADD, 0, 1);
  tear_down(&b);
}

static void answers_a_denied_cost_from_memory_for_a_while(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  weir_claim again = {.ask.cost = 5};
  start(&b, 0, 5, 0);
  answer(&b, 0, WEIR_DONE, 14);
  weir_machine_resume(b.machine, 0, false, b.operations);
  answer(&b, 0, WEIR_DONE, 9);
  weir_machine_resume(b.machine, 0, false, b.operations);
  keep(&b);
  assert_true(weir_settle_locally(&(weir_view){&b.stack, &b.settings, b.memo, 49999}, &again));
  assert_false(again.verdict.decision.allowed);
  assert_int_equal(again.verdict.decision.source, WEIR_SOURCE_LOCAL);
  assert_int_equal(again.verdict.decision.retry_after_us, 1000000 - 49999);
  assert_false(weir_settle_locally(&(weir_view){&b.stack, &b.settings, b.memo, 50000}, &again));
  again = (weir_claim){.ask.cost = 4};
  assert_false(weir_settle_locally(&(weir_view){&b.stack, &b.settings, b.memo, 10}, &again));
  tear_down(&b);
}

static void remembers_a_cell_only_when_it_was_read_after_its_end_and_the_margin(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:10/4s,cells=4");
  start(&b, 8119999, 1, 0); /* counter 1 holds cells 4 to 7, ended 120 ms ago: by then those of
                               others, whose deadlines are longer, have charged it too */
  answer(&b, 0, WEIR_DONE, 1);
  answer(&b, 1, WEIR_DONE, 0);
  assert_int_equal(weir_machine_resume(b.machine, 8119999, false, b.operations), WEIR_TURN_DONE);
  keep(&b);
  start(&b, 8120000, 1, 0);
  assert_int_equal(b.machine->frame.operation_count, 2);
  answer(&b, 0, WEIR_DONE, 2);
  answer(&b, 1, WEIR_DONE, 0);
  weir_machine_resume(b.machine, 8120000, false, b.operations);
  keep(&b);
  start(&b, 8130000, 1, 0);
  assert_int_equal(b.machine->frame.operation_count, 1); /* read at 8.12 s: known for a second */
  answer(&b, 0, WEIR_DONE, 3);
  weir_machine_resume(b.machine, 8130000, false, b.operations);
  keep(&b);
  start(&b, 9120001, 1, 0);
  assert_int_equal(b.machine->frame.operation_count, 2);
  tear_down(&b);
}

static void takes_a_lost_round_back_before_it_fails(void **state) {
  (void)state;
  struct bench b = set_up("sliding-window:10/4s");
  start(&b, 10500000, 2, 0);
  answer(&b, 0, WEIR_DONE, INT64_C(2) << 30);
  answer(&b, 1, WEIR_REFUSED, 0);
  assert_int_equal(weir_machine_resume(b.machine, 10500100, false, b.operations),
                   WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 2, INT64_C(2) << 30);
  answer(&b, 0, WEIR_DONE, 0);
  assert_int_equal(weir_machine_resume(b.machine, 10500200, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_REFUSED_BY_STORE);
  tear_down(&b);
}

static void never_admits_on_a_late_reply(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  start(&b, 0, 1, 0);
  answer(&b, 0, WEIR_DONE, 1);
  assert_int_equal(weir_machine_resume(b.machine, 30000, true, b.operations), WEIR_TURN_EXECUTE);
  expect(&b, 0, WEIR_SUB, 0, 1);
  answer(&b, 0, WEIR_NOT_SENT, 0);
  assert_int_equal(weir_machine_resume(b.machine, 30000, true, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME); /* the charge stayed */
  tear_down(&b);
}

static void says_unknown_and_takes_nothing_back_when_its_addition_got_no_answer(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  start(&b, 0, 1, 0);
  answer(&b, 0, WEIR_UNKNOWN, 0);
  assert_int_equal(weir_machine_resume(b.machine, 100, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  keep(&b);
  start(&b, 200, 1, 0);
  expect(&b, 0, WEIR_GET, 0, 0); /* and looks first the next time */
  tear_down(&b);
}

static void looks_first_after_a_reset_that_failed(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s");
  start(&b, 0, 1, 0);
  b.requests[0] = (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}};
  weir_machine_start(b.machine, 100, b.memo, b.requests, b.operations);
  expect(&b, 0, WEIR_DROP, 0, 0);
  answer(&b, 0, WEIR_NOT_SENT, 0);
  assert_int_equal(weir_machine_resume(b.machine, 200, false, b.operations), WEIR_TURN_DONE);
  assert_int_equal(b.requests[0].verdict.status, WEIR_UNAVAILABLE);
  keep(&b);
  start(&b, 300, 1, 0);
  expect(&b, 0, WEIR_GET, 0, 0);
  tear_down(&b);
}

static void keeps_denied_charges_where_all_count(void **state) {
  (void)state;
  struct bench b = set_up("fixed-window:10/1s,count=all");
  start(&b, 0, 4, 0);
  answer(&b, 0, WEIR_DONE, 13);
  assert_int_equal(weir_machine_resume(b.machine, 100, false, b.operations), WEIR_TURN_DONE);
  assert_false(b.requests[0].verdict.decision.allowed);
  keep(&b);
  start(&b, 200, 1, 0);
  expect(&b, 0, WEIR_ADD, 0, 1);
  tear_down(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adds_first_and_reads_the_rest_after),
      cmocka_unit_test(gives_back_what_did_not_fit_to_the_counter_it_charged),
      cmocka_unit_test(admits_a_smaller_request_behind_one_that_does_not_fit),
      cmocka_unit_test(looks_before_it_charges_after_a_denial),
      cmocka_unit_test(answers_a_denied_cost_from_memory_for_a_while),
      cmocka_unit_test(remembers_a_cell_only_when_it_was_read_after_its_end_and_the_margin),
      cmocka_unit_test(takes_a_lost_round_back_before_it_fails),
      cmocka_unit_test(never_admits_on_a_late_reply),
      cmocka_unit_test(says_unknown_and_takes_nothing_back_when_its_addition_got_no_answer),
      cmocka_unit_test(looks_first_after_a_reset_that_failed),
      cmocka_unit_test(keeps_denied_charges_where_all_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
