#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>

#include <cmocka.h>

#include "algorithm/in_flight.h"
#include "bench.h"

/* T = 10 s, d = 10 ms, D = 20 ms: G = 625 ms, R = 1270 ms. Epoch 7 begins at 70 s. */
#define SECOND INT64_C(1000000)
#define BEGIN_US (70 * SECOND)
#define END_US (80 * SECOND)
#define GUARD_US INT64_C(625000)
#define RUN_UP_US INT64_C(1270000)

/* One request, `ends` in the place where its driver keeps them. */
struct place {
  struct bench b;
  int64_t ends[WEIR_RULES_MOST];
  int64_t costs[WEIR_RULES_MOST];
};

static struct place open_place(const char *rules) {
  struct place p = {.b = set_up(rules)};
  for (size_t i = 0; i < WEIR_RULES_MOST; i++)
    p.ends[i] = WEIR_NO_SLOT;
  return p;
}

static weir_turn begin(struct place *p, weir_claim request, int64_t now_us) {
  struct bench *b = &p->b;
  if (b->machine != NULL) keep(b);
  free(b->machine);
  b->machine = weir_machine_init(malloc(weir_machine_bytes(&b->stack)), &b->stack, &b->settings);
  b->requests[0] = request;
  b->requests[0].ask.ends = p->ends;
  return weir_machine_start(b->machine, now_us, b->memo, b->requests, b->operations);
}

static weir_turn enter(struct place *p, int64_t cost, int64_t now_us) {
  return begin(p, (weir_claim){.ask.cost = cost}, now_us);
}

static weir_turn leave(struct place *p, int64_t cost, int64_t entered_us, int64_t now_us) {
  p->costs[0] = cost;
  return begin(p,
               (weir_claim){.ask = {.kind = WEIR_REFUND,
                                    .alone = true,
                                    .cost = 1,
                                    .costs = p->costs,
                                    .at_us = entered_us}},
               now_us);
}

static weir_turn renew(struct place *p, int64_t cost, int64_t now_us) {
  p->costs[0] = cost;
  return begin(
      p, (weir_claim){.ask = {.kind = WEIR_RENEW, .alone = true, .cost = 1, .costs = p->costs}},
      now_us);
}

static weir_turn go_on(struct place *p, int64_t now_us) {
  return weir_machine_resume(p->b.machine, now_us, false, p->b.operations);
}

static size_t planned(const struct place *p) {
  return p->b.machine->frame.operation_count;
}

static void expect_end(const struct place *p, weir_status status, bool allowed) {
  assert_true(p->b.requests[0].verdict.answered);
  assert_int_equal(p->b.requests[0].verdict.status, status);
  if (status == WEIR_OK) assert_int_equal(p->b.requests[0].verdict.decision.allowed, allowed);
}

static void the_guard_and_the_run_up_follow_from_period_clocks_and_deadline(void **state) {
  (void)state;
  struct place p = open_place("in-flight:2/10s");
  assert_int_equal(weir_held_guard_us(&p.b.stack.rules[0], &p.b.settings), GUARD_US);
  assert_int_equal(weir_held_run_up_us(&p.b.stack.rules[0], &p.b.settings), RUN_UP_US);
  p.b.settings.clock_error_us = 400000;
  p.b.settings.ahead_us = 820000;
  assert_int_equal(weir_held_guard_us(&p.b.stack.rules[0], &p.b.settings), 800000);
  assert_int_equal(weir_held_run_up_us(&p.b.stack.rules[0], &p.b.settings), 1620000);
  tear_down(&p.b);
}

static void a_place_is_one_addition_and_pays_its_epoch(void **state) {
  (void)state;
  struct place p = open_place("in-flight:2/10s");
  assert_int_equal(enter(&p, 1, BEGIN_US + 5), WEIR_TURN_EXECUTE);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_ADD, 7, 1);
  assert_int_equal(p.b.operations[0].ttl_us, 30 * SECOND);
  answer(&p.b, 0, WEIR_DONE, 2);
  assert_int_equal(go_on(&p, BEGIN_US + 6), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, true);
  assert_int_equal(p.ends[0], END_US);
  assert_int_equal(p.b.requests[0].verdict.decision.remaining, 0);
  assert_int_equal(p.b.requests[0].verdict.decision.at_us, BEGIN_US + 5);
  tear_down(&p.b);
}

static void what_does_not_fit_is_taken_back_and_looked_for(void **state) {
  (void)state;
  struct place p = open_place("in-flight:2/10s");
  enter(&p, 1, BEGIN_US);
  answer(&p.b, 0, WEIR_DONE, 3);
  assert_int_equal(go_on(&p, BEGIN_US + 1), WEIR_TURN_EXECUTE);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_SUB, 7, 1);
  answer(&p.b, 0, WEIR_DONE, 2);
  assert_int_equal(go_on(&p, BEGIN_US + 2), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, false);
  assert_int_equal(p.ends[0], WEIR_NO_SLOT);
  assert_int_equal(p.b.requests[0].verdict.decision.retry_after_us, 50000);

  enter(&p, 1, BEGIN_US + 60000); /* asks first: one GET and no more while it is full */
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_GET, 7, 0);
  answer(&p.b, 0, WEIR_DONE, 2);
  assert_int_equal(go_on(&p, BEGIN_US + 60001), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, false);

  enter(&p, 1, BEGIN_US + 120000);
  answer(&p.b, 0, WEIR_DONE, 1);
  assert_int_equal(go_on(&p, BEGIN_US + 120001), WEIR_TURN_EXECUTE);
  expect(&p.b, 0, WEIR_ADD, 7, 1);
  answer(&p.b, 0, WEIR_DONE, 2);
  assert_int_equal(go_on(&p, BEGIN_US + 120002), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, true);
  tear_down(&p.b);
}

/* Answered on the first microsecond of the run-up, or on the last before it. */
static void who_is_answered_in_the_run_up_pays_the_next_epoch_too(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  enter(&p, 2, END_US - RUN_UP_US - 9);
  answer(&p.b, 0, WEIR_DONE, 2);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US - 1), WEIR_TURN_DONE);
  assert_int_equal(p.ends[0], END_US);

  enter(&p, 2, END_US - RUN_UP_US - 9);
  answer(&p.b, 0, WEIR_DONE, 4);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US), WEIR_TURN_EXECUTE);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_ADD, 8, 2);
  answer(&p.b, 0, WEIR_DONE, 5);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US + 1), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, true);
  assert_int_equal(p.ends[0], END_US + 10 * SECOND);
  assert_int_equal(p.b.requests[0].verdict.decision.remaining, 0); /* of the fuller one */
  tear_down(&p.b);
}

static void who_finds_the_next_epoch_full_takes_back_from_both(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  enter(&p, 2, END_US - RUN_UP_US);
  answer(&p.b, 0, WEIR_DONE, 4);
  go_on(&p, END_US - RUN_UP_US);
  answer(&p.b, 0, WEIR_DONE, 6);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US + 1), WEIR_TURN_EXECUTE);
  assert_int_equal(planned(&p), 2);
  expect(&p.b, 0, WEIR_SUB, 7, 2);
  expect(&p.b, 1, WEIR_SUB, 8, 2);
  answer(&p.b, 0, WEIR_DONE, 2);
  answer(&p.b, 1, WEIR_DONE, 4);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US + 2), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, false);

  enter(&p, 2, END_US - RUN_UP_US + 60000); /* and looks at both */
  assert_int_equal(planned(&p), 2);
  expect(&p.b, 0, WEIR_GET, 7, 0);
  expect(&p.b, 1, WEIR_GET, 8, 0);
  tear_down(&p.b);
}

static void a_full_epoch_charges_nothing_ahead(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  enter(&p, 1, END_US - RUN_UP_US);
  answer(&p.b, 0, WEIR_DONE, 6);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US + 1), WEIR_TURN_EXECUTE);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_SUB, 7, 1);
  tear_down(&p.b);
}

static void what_is_not_known_is_never_taken_back(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  enter(&p, 1, BEGIN_US);
  answer(&p.b, 0, WEIR_UNKNOWN, 0);
  assert_int_equal(go_on(&p, BEGIN_US + 1), WEIR_TURN_DONE);
  expect_end(&p, WEIR_UNKNOWN_OUTCOME, false);
  enter(&p, 1, BEGIN_US + 2);
  expect(&p.b, 0, WEIR_GET, 7, 0);
  tear_down(&p.b);

  p = open_place("in-flight:5/10s");
  enter(&p, 1, END_US - RUN_UP_US);
  answer(&p.b, 0, WEIR_DONE, 1);
  go_on(&p, END_US - RUN_UP_US + 1);
  answer(&p.b, 0, WEIR_UNKNOWN, 0);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US + 2), WEIR_TURN_EXECUTE);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_SUB, 7, 1);
  answer(&p.b, 0, WEIR_DONE, 0);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US + 3), WEIR_TURN_DONE);
  expect_end(&p, WEIR_UNKNOWN_OUTCOME, false);
  tear_down(&p.b);
}

static void what_is_certain_though_late_is_taken_back(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  enter(&p, 1, BEGIN_US);
  answer(&p.b, 0, WEIR_DONE, 1);
  assert_int_equal(weir_machine_resume(p.b.machine, BEGIN_US + 30000, true, p.b.operations),
                   WEIR_TURN_EXECUTE);
  expect(&p.b, 0, WEIR_SUB, 7, 1);
  answer(&p.b, 0, WEIR_DONE, 0);
  go_on(&p, BEGIN_US + 30001);
  expect_end(&p, WEIR_TIMEOUT, false);
  tear_down(&p.b);
}

/* The places that several want are one addition, and what is too much of it goes back. */
static void a_group_enters_together(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  start(&p.b, BEGIN_US, 3, 2);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_ADD, 7, 5);
  answer(&p.b, 0, WEIR_DONE, 6);
  assert_int_equal(go_on(&p, BEGIN_US + 1), WEIR_TURN_EXECUTE);
  expect(&p.b, 0, WEIR_SUB, 7, 2);
  answer(&p.b, 0, WEIR_DONE, 4);
  assert_int_equal(go_on(&p, BEGIN_US + 2), WEIR_TURN_DONE);
  assert_true(p.b.requests[0].verdict.decision.allowed);
  assert_false(p.b.requests[1].verdict.decision.allowed);
  tear_down(&p.b);
}

/* A lost counter was given back what it never had. */
static void a_total_below_zero_is_none(void **state) {
  (void)state;
  struct place p = open_place("in-flight:2/10s");
  enter(&p, 1, BEGIN_US);
  answer(&p.b, 0, WEIR_DONE, -3);
  assert_int_equal(go_on(&p, BEGIN_US + 1), WEIR_TURN_DONE);
  assert_true(p.b.requests[0].verdict.decision.allowed);
  assert_int_equal(p.b.requests[0].verdict.decision.remaining, 1);
  tear_down(&p.b);
}

static void leaving_takes_off_what_was_paid_and_has_not_ended(void **state) {
  (void)state;
  static const struct {
    int64_t entered_us, end_us, now_us; /* in s */
    int64_t from, to;                   /* 0: nothing goes back */
  } cases[] = {
      {71, 80, 72, 7, 7}, /* the epoch of its entry */
      {79, 90, 79, 7, 8}, /* it paid ahead */
      {79, 90, 81, 8, 8}, /* and the first of the two is over */
      {31, 90, 79, 7, 8}, /* renewed */
      {71, 80, 80, 0, 0}, /* over: nothing is left to take off */
      {71, 80, 69, 7, 7}, /* the clock was set back: it never paid epoch 6 */
      {31, 90, 55, 7, 8}, /* nor is more left than two */
      {71, 80, 95, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct place p = open_place("in-flight:5/10s");
    p.ends[0] = cases[i].end_us * SECOND;
    weir_turn turn = leave(&p, 2, cases[i].entered_us * SECOND, cases[i].now_us * SECOND);
    if (cases[i].to != 0) {
      size_t count = (size_t)(cases[i].to - cases[i].from + 1);
      assert_int_equal(turn, WEIR_TURN_EXECUTE);
      assert_int_equal(planned(&p), count);
      for (size_t n = 0; n < count; n++) {
        expect(&p.b, n, WEIR_SUB, cases[i].from + (int64_t)n, 2);
        answer(&p.b, n, WEIR_DONE, 0);
      }
      turn = go_on(&p, cases[i].now_us * SECOND + 1);
    }
    assert_int_equal(turn, WEIR_TURN_DONE);
    assert_int_equal(p.b.requests[0].verdict.status, WEIR_OK);
    tear_down(&p.b);
  }
}

static void leaving_without_knowing_what_was_paid_is_refused(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  assert_int_equal(leave(&p, 1, BEGIN_US, BEGIN_US), WEIR_TURN_DONE);
  expect_end(&p, WEIR_BAD_COST, false);
  tear_down(&p.b);
}

static void leaving_frees_for_the_next(void **state) {
  (void)state;
  struct place p = open_place("in-flight:1/10s");
  enter(&p, 1, BEGIN_US);
  answer(&p.b, 0, WEIR_DONE, 2);
  go_on(&p, BEGIN_US);
  answer(&p.b, 0, WEIR_DONE, 1);
  go_on(&p, BEGIN_US); /* denied, and remembered */
  weir_claim again = {.ask.cost = 1};
  keep(&p.b);
  assert_true(
      weir_settle_locally(&(weir_view){&p.b.stack, &p.b.settings, p.b.memo, BEGIN_US + 9}, &again));
  assert_false(again.verdict.decision.allowed);
  p.ends[0] = END_US;
  leave(&p, 1, BEGIN_US, BEGIN_US + 10);
  answer(&p.b, 0, WEIR_DONE, 0);
  go_on(&p, BEGIN_US + 11);
  keep(&p.b);
  again = (weir_claim){.ask.cost = 1};
  assert_false(weir_settle_locally(&(weir_view){&p.b.stack, &p.b.settings, p.b.memo, BEGIN_US + 12},
                                   &again));
  tear_down(&p.b);
}

static void a_renewal_pays_all_that_is_held_at_once(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  p.ends[0] = END_US;
  assert_int_equal(renew(&p, 4, END_US - RUN_UP_US), WEIR_TURN_EXECUTE);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_ADD, 8, 4);
  answer(&p.b, 0, WEIR_DONE, 9); /* unchecked */
  assert_int_equal(go_on(&p, END_US - GUARD_US - 1), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, false);
  assert_int_equal(p.ends[0], END_US + 10 * SECOND);
  tear_down(&p.b);
}

/* Even where the answer is late by the deadline: the clock alone says whether it is. */
static void a_renewal_that_is_certain_too_late_is_taken_back(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) {
    struct place p = open_place("in-flight:5/10s");
    p.ends[0] = END_US;
    renew(&p, 4, END_US - GUARD_US - 2);
    answer(&p.b, 0, WEIR_DONE, 4);
    weir_turn turn = weir_machine_resume(p.b.machine, END_US - GUARD_US, late > 0, p.b.operations);
    assert_int_equal(turn, WEIR_TURN_EXECUTE);
    expect(&p.b, 0, WEIR_SUB, 8, 4);
    answer(&p.b, 0, WEIR_DONE, 0);
    assert_int_equal(go_on(&p, END_US), WEIR_TURN_DONE);
    expect_end(&p, WEIR_TIMEOUT, false);
    assert_int_equal(p.ends[0], END_US);

    renew(&p, 4, END_US - GUARD_US - 2);
    answer(&p.b, 0, WEIR_DONE, 4);
    turn = weir_machine_resume(p.b.machine, END_US - GUARD_US - 1, late > 0, p.b.operations);
    assert_int_equal(turn, WEIR_TURN_DONE);
    assert_int_equal(p.ends[0], END_US + 10 * SECOND);
    tear_down(&p.b);
  }
}

static void a_renewal_without_an_answer_pays_nothing_and_stays(void **state) {
  (void)state;
  static const struct {
    weir_outcome outcome;
    weir_status status;
  } cases[] = {{WEIR_UNKNOWN, WEIR_UNKNOWN_OUTCOME},
               {WEIR_NOT_SENT, WEIR_UNAVAILABLE},
               {WEIR_REFUSED, WEIR_REFUSED_BY_STORE}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct place p = open_place("in-flight:5/10s");
    p.ends[0] = END_US;
    renew(&p, 4, END_US - RUN_UP_US);
    answer(&p.b, 0, cases[i].outcome, 0);
    assert_int_equal(go_on(&p, END_US - RUN_UP_US + 1), WEIR_TURN_DONE);
    expect_end(&p, cases[i].status, false);
    assert_int_equal(p.ends[0], END_US);
    tear_down(&p.b);
  }
}

/* In its guard, after its end, or by a clock that was set back before its epoch. */
static void a_renewal_out_of_its_time_is_not_sent(void **state) {
  (void)state;
  const int64_t times_us[] = {END_US - GUARD_US, END_US + 1, BEGIN_US - 1};
  for (size_t i = 0; i < sizeof times_us / sizeof times_us[0]; i++) {
    struct place p = open_place("in-flight:5/10s");
    p.ends[0] = END_US;
    assert_int_equal(renew(&p, 4, times_us[i]), WEIR_TURN_DONE);
    expect_end(&p, WEIR_TIMEOUT, false);
    tear_down(&p.b);
  }
}

static void a_stack_renews_its_held_rules_alone(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s;fixed-window:100/1m;in-flight:9/20s");
  p.ends[0] = p.ends[2] = END_US;
  p.costs[1] = 0;
  p.costs[2] = 3;
  renew(&p, 4, END_US - RUN_UP_US);
  assert_int_equal(planned(&p), 2);
  expect(&p.b, 0, WEIR_ADD, 8, 4);
  expect(&p.b, 1, WEIR_ADD, 4, 3);
  answer(&p.b, 0, WEIR_DONE, 4);
  answer(&p.b, 1, WEIR_UNKNOWN, 0);
  assert_int_equal(go_on(&p, END_US - RUN_UP_US + 1), WEIR_TURN_DONE);
  expect_end(&p, WEIR_UNKNOWN_OUTCOME, false);
  assert_int_equal(p.ends[0], END_US + 10 * SECOND);
  assert_int_equal(p.ends[2], END_US);
  tear_down(&p.b);
}

/* A commit of a stack gives back what is held, and nothing else. */
static void a_stack_enters_in_one_round_and_leaves_alone(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s;sliding-window:600/1m");
  enter(&p, 1, BEGIN_US);
  expect(&p.b, 0, WEIR_ADD, 7, 1);
  for (size_t n = 0; n < planned(&p); n++)
    answer(&p.b, n, p.b.operations[n].kind == WEIR_ADD ? WEIR_DONE : WEIR_ABSENT, 1);
  assert_int_equal(go_on(&p, BEGIN_US + 1), WEIR_TURN_DONE);
  expect_end(&p, WEIR_OK, true);
  assert_int_equal(p.ends[0], END_US);
  leave(&p, 1, BEGIN_US, BEGIN_US + 5);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_SUB, 7, 1);
  tear_down(&p.b);
}

/* Two that entered here before, at BEGIN_US and one microsecond later; loss is noticed. */
static void hold_three(struct place *p) {
  p->b.settings.notices_loss = true;
  enter(p, 2, BEGIN_US);
  answer(&p->b, 0, WEIR_DONE, 2);
  go_on(p, BEGIN_US);
  enter(p, 1, BEGIN_US + 1);
  answer(&p->b, 0, WEIR_DONE, 3);
  go_on(p, BEGIN_US + 1);
}

/* The places that this process has there itself are missed, and those that it left are not. */
static void a_lost_counter_is_noticed(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  hold_three(&p);
  assert_int_equal(p.b.machine->frame.lost, 0);
  leave(&p, 1, BEGIN_US, BEGIN_US + 2);
  answer(&p.b, 0, WEIR_DONE, 2);
  go_on(&p, BEGIN_US + 2);
  enter(&p, 1, BEGIN_US + 3);
  answer(&p.b, 0, WEIR_DONE, 3);
  go_on(&p, BEGIN_US + 3);
  assert_int_equal(p.b.machine->frame.lost, 0);
  enter(&p, 1, BEGIN_US + 4);
  answer(&p.b, 0, WEIR_DONE, 1);
  go_on(&p, BEGIN_US + 4);
  assert_int_equal(p.b.machine->frame.lost, 1);
  tear_down(&p.b);
}

/* Of a decision of several keys: another member was denied. */
static void what_a_member_gives_up_is_not_missed(void **state) {
  (void)state;
  struct place p = open_place("in-flight:5/10s");
  hold_three(&p);
  weir_machine_give_up(p.b.machine, p.b.requests, p.b.operations);
  assert_int_equal(planned(&p), 1);
  expect(&p.b, 0, WEIR_SUB, 7, 1);
  answer(&p.b, 0, WEIR_DONE, 2);
  go_on(&p, BEGIN_US + 2);
  enter(&p, 1, BEGIN_US + 3);
  answer(&p.b, 0, WEIR_DONE, 3);
  go_on(&p, BEGIN_US + 3);
  assert_int_equal(p.b.machine->frame.lost, 0);
  tear_down(&p.b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_guard_and_the_run_up_follow_from_period_clocks_and_deadline),
      cmocka_unit_test(a_place_is_one_addition_and_pays_its_epoch),
      cmocka_unit_test(what_does_not_fit_is_taken_back_and_looked_for),
      cmocka_unit_test(who_is_answered_in_the_run_up_pays_the_next_epoch_too),
      cmocka_unit_test(who_finds_the_next_epoch_full_takes_back_from_both),
      cmocka_unit_test(a_full_epoch_charges_nothing_ahead),
      cmocka_unit_test(what_is_not_known_is_never_taken_back),
      cmocka_unit_test(what_is_certain_though_late_is_taken_back),
      cmocka_unit_test(a_group_enters_together),
      cmocka_unit_test(a_total_below_zero_is_none),
      cmocka_unit_test(leaving_takes_off_what_was_paid_and_has_not_ended),
      cmocka_unit_test(leaving_without_knowing_what_was_paid_is_refused),
      cmocka_unit_test(leaving_frees_for_the_next),
      cmocka_unit_test(a_renewal_pays_all_that_is_held_at_once),
      cmocka_unit_test(a_renewal_that_is_certain_too_late_is_taken_back),
      cmocka_unit_test(a_renewal_without_an_answer_pays_nothing_and_stays),
      cmocka_unit_test(a_renewal_out_of_its_time_is_not_sent),
      cmocka_unit_test(a_stack_renews_its_held_rules_alone),
      cmocka_unit_test(a_stack_enters_in_one_round_and_leaves_alone),
      cmocka_unit_test(a_lost_counter_is_noticed),
      cmocka_unit_test(what_a_member_gives_up_is_not_missed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
