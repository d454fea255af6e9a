/* The cost of a request: as much as fits, and a cost for every rule. On every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US};
  world_open(w, stores_url(store, url), rules, &options);
}

static weir_decision up_to(weir_limiter *limiter, int64_t cost) {
  weir_decision decision = {0};
  weir_message message = {""};
  weir_status status = weir_limiter_take_up_to(limiter, "k", 1, cost, &decision, &message);
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
  return decision;
}

static weir_decision with_costs(weir_limiter *limiter, const int64_t *costs, unsigned flags) {
  weir_message message = {""};
  weir_request request = {.key = "k", .key_length = 1, .costs = costs, .flags = flags};
  if (weir_limiter_decide(limiter, &request, 1, &message) != WEIR_OK)
    fail_msg("%s: %s", weir_status_name(request.status), message.text);
  return request.decision;
}

/* The room under one rule alone, as a limiter sees that knows nothing yet. */
static int64_t left_of(world *w, const char *rule) {
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US};
  weir_limiter *limiter = world_limiter(w, rule, &options);
  int64_t remaining = limiter_peek(limiter, "k", 1).remaining;
  weir_limiter_destroy(limiter);
  return remaining;
}

static void up_to_admits_what_fits_under_every_rule(void **state) {
  static const char *const rules[] = {"fixed-window:5/1h",
                                      "sliding-window:5/1h",
                                      "sliding-window:5/1h,strict,cells=16",
                                      "quota:5/1h",
                                      "token-bucket:5/1h",
                                      "leaky-bucket:5/1h,queue=4",
                                      "token-bucket:9/1h,burst=5"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      open_on(&w, store, rules[i]);
      assert_true(world_take(&w, "k", 3).allowed);
      weir_decision decision = up_to(w.limiter, 4);
      assert_true(decision.allowed);
      assert_int_equal(decision.cost, 2);
      assert_int_equal(decision.remaining, 0);
      assert_int_equal(left_of(&w, rules[i]), 0);
      decision = up_to(w.limiter, 4);
      assert_false(decision.allowed);
      assert_int_equal(decision.cost, 4);
      assert_true(decision.retry_after_us > 0);
      assert_int_equal(left_of(&w, rules[i]), 0);
      world_close(&w);
    }
  }
}

static void up_to_is_cut_to_what_can_ever_fit(void **state) {
  static const char *const rules[] = {"fixed-window:5/1h", "token-bucket:9/1h,burst=5",
                                      "leaky-bucket:9/1h,queue=4",
                                      "fixed-window:7/1h;quota:5/1d;token-bucket:8/1d"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      open_on(&w, store, rules[i]);
      weir_decision decision = up_to(w.limiter, INT64_C(1) << 31);
      assert_true(decision.allowed);
      assert_int_equal(decision.cost, 5);
      assert_int_equal(decision.remaining, 0);
      world_close(&w);
    }
  }
}

static void up_to_takes_no_more_of_one_rule_than_of_another(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:9/1h;quota:7/1h;token-bucket:4/1h;sliding-window:8/1h");
    assert_int_equal(up_to(w.limiter, 6).cost, 4);
    assert_int_equal(left_of(&w, "fixed-window:9/1h"), 5);
    assert_int_equal(left_of(&w, "quota:7/1h"), 3);
    assert_int_equal(left_of(&w, "token-bucket:4/1h"), 0);
    assert_int_equal(left_of(&w, "sliding-window:8/1h"), 4);
    assert_false(up_to(w.limiter, 6).allowed);
    assert_int_equal(left_of(&w, "fixed-window:9/1h"), 5);
    assert_int_equal(left_of(&w, "quota:7/1h"), 3);
    world_close(&w);
  }
}

/* Peeking, a request hears what it would get. */
/* The quota has room for less than is asked, but for more than 1: it does not deny. */
static void up_to_is_denied_by_the_rule_without_room(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "quota:140/1d;fixed-window:100/1s");
    assert_int_equal(up_to(w.limiter, 100).cost, 100);
    weir_decision denied = up_to(w.limiter, 100);
    assert_false(denied.allowed);
    assert_int_equal(denied.rule, 1);
    assert_int_equal(denied.retry_after_us, SECOND_US);
    assert_int_equal(denied.cost, 100);
    world_set(&w, SECOND_US);
    assert_int_equal(up_to(w.limiter, 100).cost, 40);
    world_close(&w);
  }
}

static void up_to_can_be_peeked(void **state) {
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:5/1h");
  world_take(&w, "k", 3);
  weir_request request = {
      .key = "k", .key_length = 1, .cost = 4, .flags = WEIR_REQUEST_PEEK | WEIR_REQUEST_UP_TO};
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_OK);
  assert_true(request.decision.allowed);
  assert_int_equal(request.decision.cost, 2);
  assert_int_equal(left_of(&w, "fixed-window:5/1h"), 2);
  world_close(&w);
}

static void every_rule_is_charged_its_own_cost(void **state) {
  static const int64_t first[] = {2, 3, 4};
  static const int64_t second[] = {3, 1, 0};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:5/1h;quota:6/1h;token-bucket:7/1h");
    weir_decision decision = with_costs(w.limiter, first, 0);
    assert_true(decision.allowed);
    assert_int_equal(decision.cost, WEIR_OWN_COSTS);
    assert_int_equal(decision.remaining, 3);
    assert_int_equal(decision.rule, 0);
    decision = with_costs(w.limiter, second, 0);
    assert_true(decision.allowed);
    assert_int_equal(decision.remaining, 0);
    assert_int_equal(left_of(&w, "fixed-window:5/1h"), 0);
    assert_int_equal(left_of(&w, "quota:6/1h"), 2);
    assert_int_equal(left_of(&w, "token-bucket:7/1h"), 3);
    world_close(&w);
  }
}

/* The first rule is full, and has no say in what costs nothing under it. */
/* Beside costs nobody reads `cost`: it may be left over from another request. */
static void one_cost_beside_others_says_nothing(void **state) {
  static const int64_t left_over[] = {INT64_MAX, INT64_MIN, 7, -1};
  const int64_t one_and_two[] = {1, 2};
  const char *rules = "fixed-window:10/1h,lease=1s;fixed-window:90/1d,lease=1s";
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_request batch[8] = {{0}};
    weir_message message = {""};
    open_on(&w, store, rules);
    for (size_t i = 0; i < 8; i++)
      batch[i] = (weir_request){.key = "k",
                                .key_length = 1,
                                .cost = left_over[i % 4],
                                .costs = one_and_two,
                                .flags = i < 4 ? WEIR_REQUEST_PEEK : 0};
    if (weir_limiter_decide(w.limiter, batch, 8, &message) != WEIR_OK) fail_msg("%s", message.text);
    for (size_t i = 0; i < 8; i++) {
      assert_true(batch[i].decision.allowed);
      assert_int_equal(batch[i].decision.cost, WEIR_OWN_COSTS);
    }
    assert_int_equal(left_of(&w, "fixed-window:10/1h"), 6);
    assert_int_equal(left_of(&w, "fixed-window:90/1d"), 82);
    world_close(&w);
  }
}

static void a_cost_of_0_leaves_its_rule_out(void **state) {
  static const int64_t without_first[] = {0, 2, 1};
  static const int64_t with_first[] = {1, 0, 0};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:5/1h;sliding-window:6/1h;sliding-log:7/1h");
    assert_true(with_costs(w.limiter, (const int64_t[]){5, 1, 0}, 0).allowed);
    weir_decision decision = with_costs(w.limiter, without_first, 0);
    assert_true(decision.allowed);
    assert_int_not_equal(decision.rule, 0);
    decision = with_costs(w.limiter, with_first, 0);
    assert_false(decision.allowed);
    assert_int_equal(decision.rule, 0);
    decision = with_costs(w.limiter, without_first, WEIR_REQUEST_PEEK);
    assert_true(decision.allowed);
    assert_int_equal(left_of(&w, "fixed-window:5/1h"), 0);
    assert_int_equal(left_of(&w, "sliding-window:6/1h"), 3);
    assert_int_equal(left_of(&w, "sliding-log:7/1h"), 6);
    world_close(&w);
  }
}

/* Rules that share a log have one say, each by its own limit and period. */
static void rules_with_one_log_have_one_cost(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "sliding-log:3/1h;fixed-window:9/1h;sliding-log:5/1d");
    assert_true(with_costs(w.limiter, (const int64_t[]){1, 2, 1}, 0).allowed);
    assert_true(with_costs(w.limiter, (const int64_t[]){0, 2, 0}, 0).allowed);
    weir_decision decision = with_costs(w.limiter, (const int64_t[]){1, 0, 1}, WEIR_REQUEST_PEEK);
    assert_int_equal(decision.remaining, 2);
    assert_int_equal(decision.rule, 0);
    assert_int_equal(left_of(&w, "sliding-log:7/1d"), 6);
    assert_int_equal(left_of(&w, "fixed-window:9/1h"), 5);
    weir_message why = {""};
    weir_request request = {.key = "k", .key_length = 1, .costs = (const int64_t[]){1, 1, 0}};
    assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, &why), WEIR_BAD_COST);
    assert_string_equal(why.text,
                        "cost 1 for rule 1 and 0 for rule 3 (sliding-log): accepted is "
                        "one for both, as they share a log");
    world_close(&w);
  }
}

static void a_denied_request_with_costs_leaves_no_trace(void **state) {
  static const int64_t too_much_of_the_last[] = {1, 1, 4};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:5/1h;quota:5/1h;token-bucket:5/1h");
    assert_true(with_costs(w.limiter, (const int64_t[]){1, 1, 2}, 0).allowed);
    for (int i = 0; i < 3; i++) {
      weir_decision decision = with_costs(w.limiter, too_much_of_the_last, 0);
      assert_false(decision.allowed);
      assert_int_equal(decision.rule, 2);
    }
    assert_int_equal(left_of(&w, "fixed-window:5/1h"), 4);
    assert_int_equal(left_of(&w, "quota:5/1h"), 4);
    assert_int_equal(left_of(&w, "token-bucket:5/1h"), 3);
    world_close(&w);
  }
}

static void a_cost_above_the_capacity_of_its_rule_never_fits(void **state) {
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:5/1h;token-bucket:9/1h,burst=3");
  weir_decision decision = with_costs(w.limiter, (const int64_t[]){1, 4}, 0);
  assert_false(decision.allowed);
  assert_int_equal(decision.rule, 1);
  assert_int_equal(decision.limit, 3);
  assert_int_equal(decision.retry_after_us, WEIR_NEVER);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
  assert_int_equal(left_of(&w, "fixed-window:5/1h"), 5);
  assert_true(with_costs(w.limiter, (const int64_t[]){5, 3}, 0).allowed);
  world_close(&w);
}

/* A request that learned of its own costs must not deny another with one cost. */
static void a_denial_with_costs_is_not_repeated_to_others(void **state) {
  world w;
  (void)state;
  open_on(&w, 0, "fixed-window:5/1h;fixed-window:5/1d");
  assert_true(with_costs(w.limiter, (const int64_t[]){0, 4}, 0).allowed);
  assert_false(with_costs(w.limiter, (const int64_t[]){0, 2}, 0).allowed);
  assert_true(world_take(&w, "k", 1).allowed);
  assert_false(world_take(&w, "k", 1).allowed);
  assert_true(with_costs(w.limiter, (const int64_t[]){4, 0}, 0).allowed);
  world_close(&w);
}

static void a_batch_mixes_all_kinds_of_requests_in_their_order(void **state) {
  static const int64_t costs[] = {3, 1};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_request requests[] = {{.cost = 2},
                               {.costs = costs},
                               {.cost = 9, .flags = WEIR_REQUEST_UP_TO},
                               {.cost = 1, .flags = WEIR_REQUEST_PEEK},
                               {.costs = costs},
                               {.cost = 3}};
    for (size_t i = 0; i < 6; i++) {
      requests[i].key = "k";
      requests[i].key_length = 1;
    }
    open_on(&w, store, "fixed-window:9/1h;fixed-window:6/1d");
    assert_int_equal(weir_limiter_decide(w.limiter, requests, 6, NULL), WEIR_OK);
    assert_int_equal(requests[0].decision.remaining, 4); /* 7 and 4 */
    assert_int_equal(requests[1].decision.remaining, 3); /* 4 and 3 */
    assert_int_equal(requests[2].decision.cost, 3);      /* 1 and 0 */
    assert_false(requests[3].decision.allowed);
    assert_false(requests[4].decision.allowed);
    assert_false(requests[5].decision.allowed);
    assert_int_equal(left_of(&w, "fixed-window:9/1h"), 1);
    assert_int_equal(left_of(&w, "fixed-window:6/1d"), 0);
    world_close(&w);
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(up_to_admits_what_fits_under_every_rule),
      cmocka_unit_test(up_to_is_cut_to_what_can_ever_fit),
      cmocka_unit_test(up_to_takes_no_more_of_one_rule_than_of_another),
      cmocka_unit_test(up_to_is_denied_by_the_rule_without_room),
      cmocka_unit_test(up_to_can_be_peeked),
      cmocka_unit_test(every_rule_is_charged_its_own_cost),
      cmocka_unit_test(one_cost_beside_others_says_nothing),
      cmocka_unit_test(a_cost_of_0_leaves_its_rule_out),
      cmocka_unit_test(rules_with_one_log_have_one_cost),
      cmocka_unit_test(a_denied_request_with_costs_leaves_no_trace),
      cmocka_unit_test(a_cost_above_the_capacity_of_its_rule_never_fits),
      cmocka_unit_test(a_denial_with_costs_is_not_repeated_to_others),
      cmocka_unit_test(a_batch_mixes_all_kinds_of_requests_in_their_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
