/* weir_limiter_settle, WEIR_REQUEST_SETTLE and weir_reservation_settle: what was taken is paid as it
 * really was, once. On every store. */
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

static void settle(weir_limiter *limiter, int64_t real, weir_decision *taken) {
  weir_message message = {""};
  weir_status status = weir_limiter_settle(limiter, "k", 1, real, taken, &message);
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
  assert_int_equal(taken->source, WEIR_SOURCE_SETTLED);
}

/* The settlement is refused, with this in its message, and changes nothing. */
static void assert_refused(world *w, int64_t real, weir_decision taken, weir_status expected,
                           const char *part) {
  weir_decision before = taken;
  weir_message message = {""};
  assert_int_equal(weir_limiter_settle(w->limiter, "k", 1, real, &taken, &message), expected);
  if (strstr(message.text, part) == NULL) fail_msg("\"%s\" lacks \"%s\"", message.text, part);
  assert_memory_equal(&taken, &before, sizeof taken);
}

static int64_t left_of(world *w, const char *rules) {
  weir_limiter *limiter = world_limiter(w, rules, &patient);
  int64_t remaining = limiter_peek(limiter, "k", 1).remaining;
  weir_limiter_destroy(limiter);
  return remaining;
}

static const char *const that_settle[] = {
    "fixed-window:20/1h", "sliding-window:20/1h", "sliding-window:20/1h,cells=16,strict",
    "quota:20/1h",        "token-bucket:20/1h",   "fixed-window:20/1h;quota:20/1h",
};
enum { THAT_SETTLE = sizeof that_settle / sizeof that_settle[0] };

static void charges_what_it_really_was(void **state) {
  static const struct {
    int64_t taken, real, charged, left;
  } cases[] = {{5, 5, 5, 14}, {5, 3, 3, 16},  {5, 0, 0, 19},
               {5, 9, 9, 10}, {5, 19, 19, 0}, {5, 200, 19, 0}};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < THAT_SETTLE; i++) {
      for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        world w;
        open_on(&w, store, that_settle[i]);
        world_take(&w, "k", 1);
        weir_decision taken = world_take(&w, "k", cases[n].taken);
        int64_t at_us = taken.at_us;
        settle(w.limiter, cases[n].real, &taken);
        assert_true(taken.allowed);
        assert_int_equal(taken.cost, cases[n].charged);
        assert_int_equal(taken.at_us, at_us);
        assert_int_equal(taken.retry_after_us, 0);
        assert_int_equal(left_of(&w, that_settle[i]), cases[n].left);
        assert_int_equal(world_peek(&w, "k", 1).remaining, cases[n].left);
        world_close(&w);
      }
    }
  }
}

/* A debt is paid before another request is admitted, and what is beyond it is cut. */
static void charges_up_to_the_debt(void **state) {
  static const char *const rules[] = {
      "fixed-window:20/1m,debt=8",          "sliding-window:20/1m,debt=8",
      "sliding-window:20/1m,strict,debt=8", "quota:20/1m,debt=8",
      "token-bucket:20/1m,debt=8",          "token-bucket:20/1m,debt=8;fixed-window:20/1m,debt=8"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      open_on(&w, store, rules[i]);
      weir_decision first = world_take(&w, "k", 6);
      weir_decision next = world_take(&w, "k", 6);
      settle(w.limiter, 15, &first); /* 21: the first of the debt */
      assert_int_equal(first.cost, 15);
      assert_int_equal(first.remaining, 0);
      assert_int_equal(first.retry_after_us, 0);
      weir_decision denied = world_take(&w, "k", 1);
      assert_false(denied.allowed);
      assert_true(denied.retry_after_us > 0);
      settle(w.limiter, 20, &next); /* 35: 7 more than there may be */
      assert_int_equal(next.cost, 13);
      assert_int_equal(left_of(&w, rules[i]), 0);
      world_set(&w, 180 * SECOND_US);
      assert_int_equal(left_of(&w, rules[i]), 20);
      world_close(&w);
    }
  }
}

static void count_all_charges_all_of_it(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:20/1m,count=all");
    weir_decision taken = world_take(&w, "k", 6);
    settle(w.limiter, 1000, &taken);
    assert_int_equal(taken.cost, 1000);
    assert_false(world_take(&w, "k", 1).allowed);
    world_close(&w);
  }
}

static void settles_a_decision_once(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "quota:20/1h");
    weir_decision taken = world_take(&w, "k", 5);
    settle(w.limiter, 8, &taken);
    assert_refused(&w, 8, taken, WEIR_BAD_ARGUMENT, "settled before");
    assert_refused(&w, 9, taken, WEIR_BAD_ARGUMENT, "settled before");
    assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 1, &taken, NULL), WEIR_BAD_ARGUMENT);
    assert_int_equal(left_of(&w, "quota:20/1h"), 12);

    weir_decision next = world_take(&w, "k", 5); /* of which a part went back before */
    assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 2, &next, NULL), WEIR_OK);
    settle(w.limiter, 4, &next);
    assert_int_equal(left_of(&w, "quota:20/1h"), 8);

    weir_decision last = world_take(&w, "k", 5);
    assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 5, &last, NULL), WEIR_OK);
    assert_refused(&w, 4, last, WEIR_BAD_ARGUMENT, "no cost left");
    assert_int_equal(left_of(&w, "quota:20/1h"), 8);
    world_close(&w);
  }
}

static void exact_estimates_need_no_store(void **state) {
  world w;
  weir_limiter_counts before = WEIR_LIMITER_COUNTS_INIT, after = WEIR_LIMITER_COUNTS_INIT;
  (void)state;
  open_on(&w, 0, "fixed-window:20/1h");
  weir_decision taken = world_take(&w, "k", 5);
  weir_limiter_read_counts(w.limiter, &before);
  settle(w.limiter, 5, &taken);
  weir_limiter_read_counts(w.limiter, &after);
  assert_int_equal(taken.cost, 5);
  assert_int_equal(taken.remaining, 15);
  assert_int_equal(after.round_trips, before.round_trips);
  world_close(&w);
}

static void refuses_real_costs_out_of_range(void **state) {
  static const int64_t costs[] = {-1, INT64_MIN, (INT64_C(1) << 31) + 1, INT64_MAX};
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:9/1h");
  weir_decision taken = world_take(&w, "k", 5);
  for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
    assert_refused(&w, costs[i], taken, WEIR_BAD_COST, "0 to 2147483648");
  assert_int_equal(left_of(&w, "fixed-window:9/1h"), 4);
  settle(w.limiter, INT64_C(1) << 31, &taken);
  assert_int_equal(taken.cost, 9);
  world_close(&w);
}

/* A stamp in seconds, one of the future, and costs that were never taken. */
static void believes_no_forged_decision(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < THAT_SETTLE; i++) {
      world w;
      open_on(&w, store, that_settle[i]);
      weir_decision taken = world_take(&w, "k", 5);
      weir_decision forged = taken;
      forged.at_us = taken.at_us / SECOND_US;
      assert_refused(&w, 9, forged, WEIR_BAD_ARGUMENT, "at_us");
      forged.at_us = taken.at_us - 26 * 3600 * SECOND_US;
      assert_refused(&w, 9, forged, WEIR_BAD_ARGUMENT, "at_us");
      forged.at_us = taken.at_us + 3600 * SECOND_US;
      assert_refused(&w, 9, forged, WEIR_BAD_ARGUMENT, "at_us");
      forged.at_us = -1;
      assert_refused(&w, 9, forged, WEIR_BAD_ARGUMENT, "at_us");
      forged = taken;
      forged.cost = 21;
      assert_refused(&w, 9, forged, WEIR_BAD_COST, "0 to 20");
      forged.cost = -4;
      assert_refused(&w, 9, forged, WEIR_BAD_ARGUMENT, "no cost left");
      forged.cost = 6;
      assert_refused(&w, 0, forged, WEIR_BAD_COST, "less");
      forged = taken;
      forged.allowed = false;
      assert_refused(&w, 9, forged, WEIR_BAD_ARGUMENT, "denial");
      assert_int_equal(left_of(&w, that_settle[i]), 15);
      world_close(&w);
    }
  }
}

/* The decision is of another key, under which less is charged. */
static void gives_back_nothing_of_another_key(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "sliding-window:20/1h");
    world_take(&w, "k", 2);
    assert_refused(&w, 0, world_take(&w, "other", 5), WEIR_BAD_COST, "less");
    assert_int_equal(left_of(&w, "sliding-window:20/1h"), 18);
    world_close(&w);
  }
}

static void refuses_rules_that_cannot_be_settled_by_name(void **state) {
  static const char *const rules[][2] = {
      {"sliding-log:9/1h", "sliding-log"},
      {"leaky-bucket:9/1h,queue=8", "leaky-bucket"},
      {"fixed-window:9/1h;leaky-bucket:9/1h,queue=8", "rule 2 (leaky-bucket)"}};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    open_on(&w, 0, rules[i][0]);
    weir_decision taken = world_take(&w, "k", 1);
    assert_refused(&w, 1, taken, WEIR_BAD_ARGUMENT, rules[i][1]);
    weir_request request = {
        .key = "k", .key_length = 1, .cost = 2, .flags = WEIR_REQUEST_SETTLE, .decision = taken};
    assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_BAD_ARGUMENT);
    world_close(&w);
  }
}

/* A window that is over gives nothing back, and what was used on top is charged now. */
static void work_may_outlive_its_window(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m", "sliding-window:20/1m", "quota:20/1m"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      open_on(&w, store, rules[i]);
      weir_decision less = world_take(&w, "k", 5);
      weir_decision more = world_take(&w, "k", 5);
      world_set(&w, 200 * SECOND_US);
      settle(w.limiter, 1, &less);
      settle(w.limiter, 9, &more);
      assert_int_equal(left_of(&w, rules[i]), 16);
      world_close(&w);
    }
  }
}

/* --- requests ----------------------------------------------------------------------------------
 */

static weir_request settlement_of(const char *key, weir_decision taken, int64_t real) {
  return (weir_request){.key = key,
                        .key_length = strlen(key),
                        .cost = real,
                        .flags = WEIR_REQUEST_SETTLE,
                        .decision = taken};
}

/* All that another process is told of a decision. */
static weir_decision as_told(weir_decision taken) {
  return (weir_decision){
      .allowed = true, .source = taken.source, .cost = taken.cost, .at_us = taken.at_us};
}

static void settles_in_a_batch(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
    open_on(&w, store, "sliding-window:20/1h");
    weir_request all[] = {
        settlement_of("a", as_told(world_take(&w, "a", 5)), 2),
        settlement_of("b", as_told(world_take(&w, "b", 5)), 5),
        {.key = "d", .key_length = 1, .cost = 4},
        settlement_of("c", as_told(world_take(&w, "c", 5)), 30),
        settlement_of("c", as_told(world_take(&w, "c", 5)), 3),
        settlement_of("a", as_told(world_take(&w, "a", 5)), -1),
    };
    weir_message message = {""};
    assert_int_equal(weir_limiter_decide(w.limiter, all, 6, &message), WEIR_BAD_COST);
    assert_non_null(strstr(message.text, "requests[5]"));
    assert_int_equal(all[5].status, WEIR_BAD_COST);
    assert_int_equal(all[0].decision.cost, 2);
    assert_int_equal(all[1].decision.cost, 5);
    assert_int_equal(all[2].decision.cost, 4);
    assert_int_equal(all[3].decision.cost, 15); /* 10 were charged */
    assert_int_equal(all[4].decision.cost, 3);
    for (int i = 0; i < 5; i++) {
      assert_int_equal(all[i].status, WEIR_OK);
      assert_int_equal(all[i].decision.source == WEIR_SOURCE_SETTLED, i != 2);
    }
    assert_int_equal(world_peek(&w, "a", 1).remaining, 13);
    assert_int_equal(world_peek(&w, "b", 1).remaining, 15);
    assert_int_equal(world_peek(&w, "c", 1).remaining, 2);
    weir_limiter_read_counts(w.limiter, &counts);
    assert_int_equal(counts.settled_up, 1);
    assert_int_equal(counts.settled_up_cost, 10);
    assert_int_equal(counts.settled_down, 2);
    assert_int_equal(counts.settled_down_cost, 5);
    assert_int_equal(counts.settled_cut, 1);
    assert_int_equal(counts.settled_cut_cost, 15);
    assert_int_equal(counts.statuses[WEIR_BAD_COST], 1);
    assert_int_equal(counts.allowed, 6);
    assert_int_equal(weir_limiter_decide(w.limiter, all, 1, NULL), WEIR_BAD_ARGUMENT);
    world_close(&w);
  }
}

/* Settlements of one key stand side by side: the store is asked once for all that go one way. */
static void settles_many_of_one_key_at_once(void **state) {
  enum { MANY = 20 };
  (void)state;
  for (int way = 0; way < 3; way++) {
    world w;
    weir_request all[MANY];
    weir_message message = {""};
    world_open_backend(&w, &fake_backend, "fake:", "fixed-window:100/1h,debt=7", NULL);
    for (int i = 0; i < MANY; i++)
      all[i] = settlement_of("k", as_told(world_take(&w, "k", 4)), way == 0 ? 1 : 6);
    all[MANY - 1].cost = way == 2 ? 0 : all[0].cost;
    fake_forget();
    assert_int_equal(weir_limiter_decide(w.limiter, all, MANY, &message), WEIR_OK);
    assert_in_range(the_fake.counts.round_trips, 1, way == 2 ? 4 : 2);
    int64_t charged = 0;
    for (int i = 0; i < MANY; i++) {
      assert_int_equal(all[i].decision.source, WEIR_SOURCE_SETTLED);
      charged += all[i].decision.cost;
    }
    assert_int_equal(all[0].decision.cost, way == 0 ? 1 : 6);
    if (way == 0) assert_int_equal(charged, MANY);
    if (way == 1) assert_int_equal(charged, 107); /* the first have it, the last are cut */
    if (way == 1) assert_int_equal(all[MANY - 1].decision.cost, 4);
    assert_int_equal(left_of(&w, "fixed-window:100/1h,debt=7"), charged < 100 ? 100 - charged : 0);
    world_close(&w);
  }
}

/* One that should give back more than there is does not keep others from it. */
static void one_that_is_at_fault_fails_alone(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:20/1h");
    weir_decision taken = world_take(&w, "k", 5), forged = taken;
    forged.cost = 18;
    weir_request all[] = {settlement_of("k", taken, 2), settlement_of("k", forged, 0),
                          settlement_of("k", as_told(world_take(&w, "k", 6)), 3)};
    assert_int_equal(weir_limiter_decide(w.limiter, all, 3, NULL), WEIR_BAD_COST);
    assert_int_equal(all[0].status, WEIR_OK);
    assert_int_equal(all[0].decision.cost, 2);
    assert_int_equal(all[1].status, WEIR_BAD_COST);
    assert_int_equal(all[1].decision.source, WEIR_SOURCE_STORE);
    assert_int_equal(all[2].status, WEIR_OK);
    assert_int_equal(left_of(&w, "fixed-window:20/1h"), 15);
    world_close(&w);
  }
}

static void settles_each_rule_by_its_own_cost(void **state) {
  static const char rules[] = "sliding-window:6/1h;sliding-window:100/1h,name=t";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, rules);
    int64_t costs[] = {1, 90, 1, 50};
    weir_request request = {.key = "k", .key_length = 1, .costs = costs + 2};
    assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_OK);
    request.costs = costs;
    request.flags = WEIR_REQUEST_SETTLE;
    request.decision = as_told(request.decision);
    assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_OK);
    assert_int_equal(request.decision.cost, WEIR_OWN_COSTS);
    assert_int_equal(request.decision.source, WEIR_SOURCE_SETTLED);
    assert_int_equal(costs[2], 1);
    assert_int_equal(costs[3], 90);
    assert_int_equal(left_of(&w, "sliding-window:6/1h"), 5);
    assert_int_equal(left_of(&w, "sliding-window:100/1h,name=t"), 10);
    world_close(&w);
  }
}

static void a_flag_or_a_wait_beside_it_is_refused(void **state) {
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:9/1h");
  weir_request request = settlement_of("k", world_take(&w, "k", 1), 2);
  request.flags |= WEIR_REQUEST_PEEK;
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_BAD_ARGUMENT);
  request.flags = WEIR_REQUEST_SETTLE;
  request.longest_wait_us = 1;
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_BAD_ARGUMENT);
  request.longest_wait_us = 0;
  request.key_length = 0;
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_BAD_KEY);
  request = settlement_of("k", world_take(&w, "k", 1), 2);
  weir_reservation *none;
  assert_int_equal(weir_limiter_reserve(w.limiter, &request, &none, NULL), WEIR_BAD_ARGUMENT);
  assert_int_equal(left_of(&w, "fixed-window:9/1h"), 7);
  world_close(&w);
}

/* --- reservations ------------------------------------------------------------------------------
 */

static weir_reservation *reserve(weir_limiter *limiter, weir_request *request) {
  weir_reservation *made;
  assert_int_equal(weir_limiter_reserve(limiter, request, &made, NULL), WEIR_OK);
  assert_non_null(made);
  return made;
}

static void a_reservation_is_settled_once(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:20/1h;quota:20/1h");
    weir_request request = {.key = "k", .key_length = 1, .cost = 5};
    weir_reservation *r = reserve(w.limiter, &request);
    int64_t costs[] = {-1, 3};
    assert_int_equal(weir_reservation_settle(r, costs, NULL), WEIR_BAD_COST);
    costs[0] = 3;
    assert_int_equal(weir_reservation_settle(r, costs, NULL), WEIR_OK);
    assert_int_equal(costs[0], 3);
    assert_int_equal(costs[1], 3);
    assert_int_equal(weir_reservation_settle(r, costs, NULL), WEIR_BAD_ARGUMENT);
    assert_int_equal(weir_reservation_cancel(r, NULL), WEIR_BAD_ARGUMENT);
    assert_int_equal(weir_reservation_commit(r, NULL), WEIR_BAD_ARGUMENT);
    weir_reservation_destroy(r);
    assert_int_equal(left_of(&w, "fixed-window:20/1h"), 17);

    r = reserve(w.limiter, &request);
    costs[0] = costs[1] = 30;
    assert_int_equal(weir_reservation_settle(r, costs, NULL), WEIR_OK);
    assert_int_equal(costs[0], 17);
    assert_int_equal(costs[1], 17);
    weir_reservation_destroy(r);
    assert_int_equal(left_of(&w, "quota:20/1h"), 0);
    world_close(&w);
  }
}

static void settling_its_decision_ends_a_reservation(void **state) {
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:20/1h");
  weir_request request = {.key = "k", .key_length = 1, .cost = 5};
  weir_reservation *r = reserve(w.limiter, &request);
  settle(w.limiter, 2, &request.decision);
  assert_int_equal(weir_reservation_cancel(r, NULL), WEIR_BAD_ARGUMENT);
  assert_int_equal(left_of(&w, "fixed-window:20/1h"), 18);
  weir_reservation_destroy(r);
  world_close(&w);
}

/* A place and an entry of a log stay or go as a whole. */
static void a_reservation_of_a_place_is_all_or_nothing(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "leaky-bucket:9/1h,queue=8;fixed-window:20/1h");
    weir_request request = {.key = "k", .key_length = 1, .cost = 3};
    weir_reservation *r = reserve(w.limiter, &request);
    int64_t costs[] = {2, 3};
    weir_message message = {""};
    assert_int_equal(weir_reservation_settle(r, costs, &message), WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, "rule 1 (leaky-bucket)"));
    costs[0] = 3;
    costs[1] = 1;
    assert_int_equal(weir_reservation_settle(r, costs, NULL), WEIR_OK);
    assert_int_equal(left_of(&w, "fixed-window:20/1h"), 19);
    assert_int_equal(left_of(&w, "leaky-bucket:9/1h,queue=8"), 6);
    weir_reservation_destroy(r);
    world_close(&w);
  }
}

/* --- failures ----------------------------------------------------------------------------------
 */

static weir_status settle_with_fault(world *w, int64_t real, weir_decision *taken,
                                     weir_operation_kind kind, weir_outcome outcome,
                                     bool executed) {
  fake_forget();
  fake_fail_next(kind, outcome, executed);
  return weir_limiter_settle(w->limiter, "k", 1, real, taken, NULL);
}

/* Nothing is sent twice: what may have been executed is over, all else can be settled again. */
static void an_unknown_outcome_settles_and_other_failures_do_not(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:20/1h", NULL);
  weir_decision taken = world_take(&w, "k", 5);
  weir_decision next = taken;
  assert_int_equal(settle_with_fault(&w, 8, &taken, WEIR_ADD, WEIR_NOT_SENT, false),
                   WEIR_UNAVAILABLE);
  assert_int_equal(settle_with_fault(&w, 8, &taken, WEIR_ADD, WEIR_REFUSED, false),
                   WEIR_REFUSED_BY_STORE);
  assert_memory_equal(&taken, &next, sizeof taken);
  assert_int_equal(settle_with_fault(&w, 8, &taken, WEIR_ADD, WEIR_UNKNOWN, true),
                   WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(taken.cost, 5);
  assert_int_equal(taken.source, WEIR_SOURCE_SETTLED);
  assert_refused(&w, 8, taken, WEIR_BAD_ARGUMENT, "settled before");
  assert_int_equal(left_of(&w, "fixed-window:20/1h"), 12);

  next = world_take(&w, "k", 5);
  assert_int_equal(settle_with_fault(&w, 1, &next, WEIR_SUB, WEIR_UNKNOWN, true),
                   WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(next.cost, 1);
  assert_int_equal(left_of(&w, "fixed-window:20/1h"), 11);

  weir_request request = {.key = "k", .key_length = 1, .cost = 2};
  weir_reservation *r = reserve(w.limiter, &request);
  int64_t costs[] = {4};
  fake_forget();
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  assert_int_equal(weir_reservation_settle(r, costs, NULL), WEIR_UNAVAILABLE);
  assert_int_equal(weir_reservation_settle(r, costs, NULL), WEIR_OK);
  assert_int_equal(left_of(&w, "fixed-window:20/1h"), 7);
  weir_reservation_destroy(r);
  world_close(&w);
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(charges_what_it_really_was),
      cmocka_unit_test(charges_up_to_the_debt),
      cmocka_unit_test(count_all_charges_all_of_it),
      cmocka_unit_test(settles_a_decision_once),
      cmocka_unit_test(exact_estimates_need_no_store),
      cmocka_unit_test(refuses_real_costs_out_of_range),
      cmocka_unit_test(believes_no_forged_decision),
      cmocka_unit_test(gives_back_nothing_of_another_key),
      cmocka_unit_test(refuses_rules_that_cannot_be_settled_by_name),
      cmocka_unit_test(work_may_outlive_its_window),
      cmocka_unit_test(settles_in_a_batch),
      cmocka_unit_test(settles_many_of_one_key_at_once),
      cmocka_unit_test(one_that_is_at_fault_fails_alone),
      cmocka_unit_test(settles_each_rule_by_its_own_cost),
      cmocka_unit_test(a_flag_or_a_wait_beside_it_is_refused),
      cmocka_unit_test(a_reservation_is_settled_once),
      cmocka_unit_test(settling_its_decision_ends_a_reservation),
      cmocka_unit_test(a_reservation_of_a_place_is_all_or_nothing),
      cmocka_unit_test(an_unknown_outcome_settles_and_other_failures_do_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
