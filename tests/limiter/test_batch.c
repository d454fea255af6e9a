/* weir_limiter_decide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/world.h"

static weir_request request(const char *key, int64_t cost) {
  return (weir_request){.key = key, .key_length = strlen(key), .cost = cost};
}

static weir_status take(world *w, weir_request *requests, size_t count, weir_message *message) {
  return weir_limiter_decide(w->limiter, requests, count, message);
}

static void decides_the_requests_of_one_key_in_their_order(void **state) {
  world w;
  weir_request requests[] = {request("k", 3), request("other", 1), request("k", 3), request("k", 2),
                             request("k", 1)};
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_int_equal(take(&w, requests, 5, NULL), WEIR_OK);
  assert_allowed(requests[0].decision, 2, 60 * SECOND_US);
  assert_allowed(requests[1].decision, 4, 60 * SECOND_US);
  assert_denied(requests[2].decision, 2, 60 * SECOND_US, 60 * SECOND_US);
  assert_allowed(requests[3].decision, 0, 60 * SECOND_US);
  assert_denied(requests[4].decision, 0, 60 * SECOND_US, 60 * SECOND_US);
  world_close(&w);
}

/* The second is looked at once more when the third has its place already, in every rule. */
static void tells_nobody_of_what_came_behind(void **state) {
  world w;
  weir_request requests[] = {request("k", 3), request("k", 8), request("k", 1), request("k", 6)};
  (void)state;
  world_open(&w, "memory:", "fixed-window:9/1s;sliding-window:50/1m;fixed-window:90/2m", NULL);
  assert_int_equal(take(&w, requests, 4, NULL), WEIR_OK);
  assert_allowed(requests[0].decision, 6, 120 * SECOND_US);
  assert_denied(requests[1].decision, 6, SECOND_US, 120 * SECOND_US);
  assert_allowed(requests[2].decision, 5, 120 * SECOND_US);
  assert_denied(requests[3].decision, 5, SECOND_US, 120 * SECOND_US);
  world_close(&w);
}

/* Nor one that looks, where it has to wait for what denied ones give back. */
static void tells_who_looks_nothing_of_it(void **state) {
  world w;
  const weir_extra low = {.size = sizeof low, .class_name = "low"};
  weir_request requests[] = {request("k", 8), request("k", 2), request("k", 1), request("k", 4),
                             request("k", 1)};
  weir_limiter *limiters[5];
  const weir_extra *says[5] = {NULL, &low, NULL, NULL, NULL};
  (void)state;
  requests[3].flags = WEIR_REQUEST_PEEK;
  world_open(&w, "memory:", "fixed-window:16/1s,classes=low:40%", NULL);
  for (int i = 0; i < 5; i++)
    limiters[i] = w.limiter;
  assert_int_equal(weir_decide_extra(limiters, requests, says, 5, NULL), WEIR_OK);
  assert_allowed(requests[0].decision, 8, SECOND_US);
  assert_denied(requests[1].decision, 0, SECOND_US, SECOND_US);
  assert_allowed(requests[2].decision, 7, SECOND_US);
  assert_allowed(requests[3].decision, 7, SECOND_US);
  assert_allowed(requests[4].decision, 6, SECOND_US);
  world_close(&w);
}

/* By one rule, while another's window is only to open with the first. */
static void tells_of_a_window_that_is_about_to_open(void **state) {
  world w;
  weir_request requests[] = {request("k", 1), request("k", 1), request("k", 1)};
  (void)state;
  world_open(&w, "memory:", "quota:9/10s;fixed-window:3/4s", NULL);
  world_take(&w, "k", 1);
  world_set(&w, 9 * SECOND_US);
  world_take(&w, "k", 2);
  world_set(&w, 10 * SECOND_US);
  assert_int_equal(take(&w, requests, 3, NULL), WEIR_OK);
  assert_allowed(requests[0].decision, 0, 10 * SECOND_US);
  assert_denied(requests[1].decision, 0, 2 * SECOND_US, 10 * SECOND_US);
  assert_denied(requests[2].decision, 0, 2 * SECOND_US, 10 * SECOND_US);
  world_close(&w);
}

static void leaves_charged_what_it_admitted_and_nothing_else(void **state) {
  world w;
  weir_request requests[] = {request("k", 4), request("k", 4), request("k", 3), request("k", 4)};
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m,cells=8", NULL);
  assert_int_equal(take(&w, requests, 4, NULL), WEIR_OK);
  assert_true(requests[0].decision.allowed);
  assert_true(requests[1].decision.allowed);
  assert_false(requests[2].decision.allowed);
  assert_false(requests[3].decision.allowed);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 0);
  world_set(&w, 70 * SECOND_US); /* all of it is out */
  assert_int_equal(world_peek(&w, "k", 1).remaining, 8);
  world_close(&w);
}

static void lets_bad_requests_fail_alone(void **state) {
  world w;
  weir_message message = {""};
  weir_request requests[] = {request("a", 1), request("b", 0), request("", 1), request("c", 1)};
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_int_equal(take(&w, requests, 4, &message), WEIR_BAD_COST);
  assert_non_null(strstr(message.text, "cost"));
  assert_int_equal(requests[0].status, WEIR_OK);
  assert_int_equal(requests[1].status, WEIR_BAD_COST);
  assert_int_equal(requests[2].status, WEIR_BAD_KEY);
  assert_int_equal(requests[3].status, WEIR_OK);
  assert_true(requests[0].decision.allowed);
  assert_true(requests[3].decision.allowed);
  world_close(&w);
}

static void touches_nothing_when_every_request_is_bad(void **state) {
  world w;
  weir_request requests[] = {request("a", -1), request("a", (INT64_C(1) << 31) + 1)};
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_int_equal(take(&w, requests, 2, NULL), WEIR_BAD_COST);
  assert_int_equal(requests[1].status, WEIR_BAD_COST);
  assert_int_equal(world_peek(&w, "a", 1).remaining, 5);
  world_close(&w);
}

static void refuses_a_count_out_of_range(void **state) {
  world w;
  weir_message message = {""};
  static weir_request requests[WEIR_BATCH_MOST + 1];
  (void)state;
  for (size_t i = 0; i <= WEIR_BATCH_MOST; i++)
    requests[i] = request("k", 1);
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_int_equal(take(&w, requests, 0, &message), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "1 to 1024"));
  assert_int_equal(take(&w, requests, WEIR_BATCH_MOST + 1, &message), WEIR_BAD_ARGUMENT);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 5);
  world_close(&w);
}

/* More keys than the limiter remembers anything about. */
static void decides_a_thousand_keys_at_once(void **state) {
  world w;
  static weir_request requests[WEIR_BATCH_MOST];
  static char keys[WEIR_BATCH_MOST][16];
  weir_limiter_options options = {.memo_keys = 16};
  (void)state;
  world_open(&w, "memory:", "sliding-window:2/1m,cells=16", &options);
  for (size_t i = 0; i < WEIR_BATCH_MOST; i++) {
    snprintf(keys[i], sizeof keys[i], "key %zu", i);
    requests[i] = request(keys[i], 1);
  }
  for (int64_t remaining = 1; remaining >= 0; remaining--) {
    assert_int_equal(take(&w, requests, WEIR_BATCH_MOST, NULL), WEIR_OK);
    for (size_t i = 0; i < WEIR_BATCH_MOST; i++)
      assert_int_equal(requests[i].decision.remaining, remaining);
  }
  assert_int_equal(take(&w, requests, WEIR_BATCH_MOST, NULL), WEIR_OK);
  for (size_t i = 0; i < WEIR_BATCH_MOST; i++)
    assert_false(requests[i].decision.allowed);
  world_close(&w);
}

static void decides_a_thousand_requests_for_one_key(void **state) {
  world w;
  static weir_request requests[WEIR_BATCH_MOST];
  (void)state;
  world_open(&w, "memory:", "sliding-window:100/1m", NULL);
  for (size_t i = 0; i < WEIR_BATCH_MOST; i++)
    requests[i] = request("k", 7);
  assert_int_equal(take(&w, requests, WEIR_BATCH_MOST, NULL), WEIR_OK);
  for (size_t i = 0; i < WEIR_BATCH_MOST; i++)
    assert_int_equal(requests[i].decision.allowed, i < 14);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 2);
  world_close(&w);
}

static void answers_never_beside_real_decisions(void **state) {
  world w;
  weir_request requests[] = {request("k", 6), request("k", 5), request("k", 6)};
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_int_equal(take(&w, requests, 3, NULL), WEIR_OK);
  assert_int_equal(requests[0].decision.retry_after_us, WEIR_NEVER);
  assert_true(requests[1].decision.allowed);
  assert_int_equal(requests[2].decision.retry_after_us, WEIR_NEVER);
  world_close(&w);
}

/* More operations than one exec takes: 1024 keys of two rules with 65 counters each. */
static void bears_the_largest_batch_of_the_widest_rules(void **state) {
  world w;
  static char names[WEIR_BATCH_MOST][8];
  static weir_request requests[WEIR_BATCH_MOST];
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US};
  (void)state;
  world_open(&w, "memory:",
             "sliding-window:5/1h,cells=64,count=all;sliding-window:9/1d,cells=64,count=all",
             &options);
  for (int i = 0; i < WEIR_BATCH_MOST; i++) {
    snprintf(names[i], sizeof names[i], "%d", i);
    requests[i] = request(names[i], 2);
  }
  assert_int_equal(take(&w, requests, WEIR_BATCH_MOST, NULL), WEIR_OK);
  for (int i = 0; i < WEIR_BATCH_MOST; i++)
    assert_int_equal(requests[i].decision.remaining, 3);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decides_the_requests_of_one_key_in_their_order),
      cmocka_unit_test(tells_nobody_of_what_came_behind),
      cmocka_unit_test(tells_who_looks_nothing_of_it),
      cmocka_unit_test(tells_of_a_window_that_is_about_to_open),
      cmocka_unit_test(leaves_charged_what_it_admitted_and_nothing_else),
      cmocka_unit_test(lets_bad_requests_fail_alone),
      cmocka_unit_test(touches_nothing_when_every_request_is_bad),
      cmocka_unit_test(refuses_a_count_out_of_range),
      cmocka_unit_test(decides_a_thousand_keys_at_once),
      cmocka_unit_test(decides_a_thousand_requests_for_one_key),
      cmocka_unit_test(answers_never_beside_real_decisions),
      cmocka_unit_test(bears_the_largest_batch_of_the_widest_rules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
