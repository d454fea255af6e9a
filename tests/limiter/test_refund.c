/* weir_limiter_refund: never more than was taken, never twice, never what no longer matters. On
 * every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/stores.h"
#include "limiter/world.h"

static const weir_limiter_options patient = {.deadline_us = 20 * SECOND_US};

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  world_open(w, stores_url(store, url), rules, &patient);
}

static void refund(weir_limiter *limiter, int64_t cost, weir_decision *taken) {
  weir_message message = {""};
  weir_status status = weir_limiter_refund(limiter, "k", 1, cost, taken, &message);
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
}

/* The refund is refused, with this in its message, and changes neither store nor decision. */
static void assert_refused(world *w, int64_t cost, weir_decision taken, weir_status expected,
                           const char *part) {
  weir_decision before = taken;
  weir_message message = {""};
  assert_int_equal(weir_limiter_refund(w->limiter, "k", 1, cost, &taken, &message), expected);
  if (strstr(message.text, part) == NULL) fail_msg("\"%s\" lacks \"%s\"", message.text, part);
  assert_int_equal(taken.cost, before.cost);
}

static int64_t left_of(world *w, const char *rules) {
  weir_limiter *limiter = world_limiter(w, rules, &patient);
  int64_t remaining = limiter_peek(limiter, "k", 1).remaining;
  weir_limiter_destroy(limiter);
  return remaining;
}

static void gives_back_in_parts_until_all_is_back(void **state) {
  static const char *const rules[] = {"fixed-window:9/1h", "sliding-window:9/1h", "quota:9/1h",
                                      "token-bucket:9/1h",
                                      "fixed-window:9/1h;quota:9/1h;token-bucket:9/1h"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      open_on(&w, store, rules[i]);
      world_take(&w, "k", 1);
      weir_decision taken = world_take(&w, "k", 5);
      refund(w.limiter, 2, &taken);
      assert_int_equal(taken.cost, 3);
      assert_int_equal(left_of(&w, rules[i]), 5);
      assert_refused(&w, 4, taken, WEIR_BAD_COST, "1 to 3");
      refund(w.limiter, 3, &taken);
      assert_int_equal(taken.cost, 0);
      assert_int_equal(left_of(&w, rules[i]), 8);
      assert_refused(&w, 1, taken, WEIR_BAD_ARGUMENT, "no cost left");
      assert_int_equal(left_of(&w, rules[i]), 8);
      assert_int_equal(world_peek(&w, "k", 1).remaining, 8);
      world_close(&w);
    }
  }
}

static void gives_back_no_cost_out_of_range(void **state) {
  static const int64_t costs[] = {0, -1, INT64_MIN, 6, INT64_MAX};
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:9/1h");
  weir_decision taken = world_take(&w, "k", 5);
  for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
    assert_refused(&w, costs[i], taken, WEIR_BAD_COST, "1 to 5");
  assert_int_equal(left_of(&w, "fixed-window:9/1h"), 4);
  world_close(&w);
}

static void gives_back_nothing_of_a_denial(void **state) {
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:9/1h");
  world_take(&w, "k", 5);
  assert_refused(&w, 5, world_take(&w, "k", 5), WEIR_BAD_ARGUMENT, "denial");
  assert_refused(&w, 10, world_take(&w, "k", 10), WEIR_BAD_ARGUMENT, "denial");
  assert_int_equal(left_of(&w, "fixed-window:9/1h"), 4);
  world_close(&w);
}

static void gives_back_nothing_that_was_taken_with_costs_of_its_own(void **state) {
  static const int64_t costs[] = {2, 3};
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:9/1h;quota:9/1h");
  weir_request request = {.key = "k", .key_length = 1, .costs = costs};
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_OK);
  assert_refused(&w, 2, request.decision, WEIR_BAD_ARGUMENT, "one cost");
  assert_int_equal(left_of(&w, "quota:9/1h"), 6);
  world_close(&w);
}

/* Decisions that nobody ever made. */
static void believes_no_forged_decision(void **state) {
  static const char *const rules[] = {"fixed-window:9/1h", "sliding-window:9/1h", "quota:9/1h",
                                      "token-bucket:9/1h"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      open_on(&w, store, rules[i]);
      weir_decision taken = world_take(&w, "k", 3);
      weir_decision forged = taken;
      forged.cost = 4;
      assert_refused(&w, 4, forged, WEIR_BAD_COST, "less");
      forged.cost = INT64_MAX;
      assert_refused(&w, 10, forged, WEIR_BAD_COST, "1 to 9");
      forged.cost = -5;
      assert_refused(&w, -5, forged, WEIR_BAD_ARGUMENT, "no cost left");
      forged = taken;
      forged.at_us = -1;
      assert_refused(&w, 3, forged, WEIR_BAD_ARGUMENT, "at_us");
      forged.at_us = INT64_MAX;
      assert_refused(&w, 3, forged, WEIR_BAD_ARGUMENT, "at_us");
      forged.at_us = INT64_C(253402300799999999);
      weir_limiter_refund(w.limiter, "k", 1, 3, &forged, NULL);
      forged = taken;
      forged.at_us = 0;
      weir_limiter_refund(w.limiter, "k", 1, 3, &forged, NULL);
      assert_in_range(left_of(&w, rules[i]), 6, 9); /* at the most what was charged came back */
      world_close(&w);
    }
  }
}

static void gives_back_nothing_to_a_window_that_is_over(void **state) {
  static const char *const rules[] = {"fixed-window:5/1m", "sliding-window:5/1m", "quota:5/1m"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      open_on(&w, store, rules[i]);
      weir_decision taken = world_take(&w, "k", 5);
      world_set(&w, 200 * SECOND_US);
      world_take(&w, "k", 3);
      refund(w.limiter, 5, &taken);
      assert_int_equal(taken.cost, 0);
      assert_int_equal(left_of(&w, rules[i]), 2);
      world_close(&w);
    }
  }
}

/* A charge goes back to the cell it came from: the estimate of later moments falls with it. */
static void gives_back_to_the_cell_that_was_charged(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "sliding-window:8/1m");
    weir_decision taken = world_take(&w, "k", 6);
    world_set(&w, 20 * SECOND_US); /* the next cell */
    world_take(&w, "k", 2);
    refund(w.limiter, 5, &taken);
    assert_int_equal(left_of(&w, "sliding-window:8/1m"), 5);
    world_set(&w, 75 * SECOND_US); /* 1 is out, 2 are in */
    assert_int_equal(left_of(&w, "sliding-window:8/1m"), 6);
    world_close(&w);
  }
}

static int64_t take_what_fits(world *w, weir_decision *decision) {
  assert_int_equal(weir_limiter_take_up_to(w->limiter, "k", 1, 5, decision, NULL), WEIR_OK);
  return decision->allowed ? decision->cost : 0;
}

/* The first tokens that were taken were never used, so that 5 is all that may be had at the later
 * moment. Were all of it given back after some of it was refilled, more would come out. */
static void cannot_be_used_to_get_more_out_of_a_bucket(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (int64_t later_us = 0; later_us <= 6 * SECOND_US; later_us += SECOND_US / 4) {
      world w;
      weir_decision first;
      weir_decision next;
      open_on(&w, store, "token-bucket:1/1s,burst=5");
      assert_int_equal(take_what_fits(&w, &first), 5);
      world_set(&w, later_us);
      int64_t used = take_what_fits(&w, &next);
      refund(w.limiter, 5, &first);
      used += take_what_fits(&w, &next);
      assert_in_range(used, 4, 5);
      world_close(&w);
    }
  }
}

static void a_leaky_bucket_a_log_and_a_delayed_decision_keep_their_charge(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "leaky-bucket:1/1h,queue=4;sliding-log:5/1h;fixed-window:5/1h");
    weir_decision taken = world_take(&w, "k", 1);
    refund(w.limiter, 1, &taken);
    assert_int_equal(left_of(&w, "leaky-bucket:1/1h,queue=4"), 4);
    assert_int_equal(left_of(&w, "sliding-log:5/1h"), 4);
    assert_int_equal(left_of(&w, "fixed-window:5/1h"), 5);
    world_close(&w);

    open_on(&w, store, "token-bucket:1/1s,burst=1;fixed-window:5/1h");
    world_take(&w, "k", 1);
    weir_request request = {
        .key = "k", .key_length = 1, .cost = 1, .longest_wait_us = 2 * SECOND_US};
    assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_OK);
    assert_int_equal(request.decision.delay_us, SECOND_US);
    refund(w.limiter, 1, &request.decision);
    assert_int_equal(left_of(&w, "fixed-window:5/1h"), 4);
    world_set(&w, SECOND_US + SECOND_US / 2);
    assert_int_equal(left_of(&w, "token-bucket:1/1s,burst=1"), 0);
    world_close(&w);
  }
}

static weir_status refund_with_fault(world *w, weir_decision *taken, weir_operation_kind kind,
                                     weir_outcome outcome, bool executed) {
  fake_forget();
  fake_fail_next(kind, outcome, executed);
  return weir_limiter_refund(w->limiter, "k", 1, 3, taken, NULL);
}

/* After an unknown outcome the cost is gone from the decision: it cannot go back twice by mistake.
 */
static void an_unknown_outcome_takes_the_cost_off_and_other_failures_do_not(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:9/1h", NULL);
  weir_decision taken = world_take(&w, "k", 5);
  assert_int_equal(refund_with_fault(&w, &taken, WEIR_SUB, WEIR_NOT_SENT, false), WEIR_UNAVAILABLE);
  assert_int_equal(taken.cost, 5);
  assert_int_equal(refund_with_fault(&w, &taken, WEIR_SUB, WEIR_REFUSED, false),
                   WEIR_REFUSED_BY_STORE);
  assert_int_equal(taken.cost, 5);
  assert_int_equal(refund_with_fault(&w, &taken, WEIR_SUB, WEIR_UNKNOWN, true),
                   WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(taken.cost, 2);
  assert_refused(&w, 3, taken, WEIR_BAD_COST, "1 to 2");
  assert_int_equal(world_peek(&w, "k", 1).remaining, 7);
  world_close(&w);
}

/* One rule got its part back, the other did not: that is no error after which nothing was given. */
static void a_refund_that_failed_halfway_is_of_unknown_outcome(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:9/1h;fixed-window:9/1d", NULL);
  weir_decision taken = world_take(&w, "k", 5);
  assert_int_equal(refund_with_fault(&w, &taken, WEIR_SUB, WEIR_NOT_SENT, false),
                   WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(taken.cost, 2);
  world_close(&w);
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gives_back_in_parts_until_all_is_back),
      cmocka_unit_test(gives_back_no_cost_out_of_range),
      cmocka_unit_test(gives_back_nothing_of_a_denial),
      cmocka_unit_test(gives_back_nothing_that_was_taken_with_costs_of_its_own),
      cmocka_unit_test(believes_no_forged_decision),
      cmocka_unit_test(gives_back_nothing_to_a_window_that_is_over),
      cmocka_unit_test(gives_back_to_the_cell_that_was_charged),
      cmocka_unit_test(cannot_be_used_to_get_more_out_of_a_bucket),
      cmocka_unit_test(a_leaky_bucket_a_log_and_a_delayed_decision_keep_their_charge),
      cmocka_unit_test(an_unknown_outcome_takes_the_cost_off_and_other_failures_do_not),
      cmocka_unit_test(a_refund_that_failed_halfway_is_of_unknown_outcome),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
