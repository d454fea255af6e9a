/* A request may not ask for these: one clear error, and nothing is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"

#define COST_MOST (INT64_C(1) << 31)

static weir_request plain(void) {
  return (weir_request){.key = "k", .key_length = 1, .cost = 1};
}

static void assert_says(const weir_message *message, const char *part) {
  if (strstr(message->text, part) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", message->text, part);
}

/* Refused by decide and by reserve alike, and nobody asked the store. */
static void assert_refused(world *w, weir_request request, weir_status expected, const char *part) {
  weir_message message = {""};
  weir_reservation *reservation = (weir_reservation *)w; /* anything but NULL */
  request.status = WEIR_OK;
  request.decision.cost = 77;
  fake_forget();
  assert_int_equal(weir_limiter_decide(w->limiter, &request, 1, &message), expected);
  assert_int_equal(request.status, expected);
  assert_says(&message, part);
  message.text[0] = '\0';
  assert_int_equal(weir_limiter_reserve(w->limiter, &request, &reservation, &message), expected);
  assert_null(reservation);
  assert_int_equal(request.status, expected);
  assert_says(&message, part);
  assert_int_equal(weir_limiter_reserve(w->limiter, &request, &reservation, NULL), expected);
  assert_int_equal(request.decision.cost, 77);
  assert_int_equal(the_fake.counts.commands, 0);
}

static void open_spy(world *w, const char *rules) {
  weir_limiter_options options = {.longest_wait_us = 5000};
  world_open_backend(w, &fake_backend, "fake:", rules, &options);
}

static void a_cost_out_of_range_is_named(void **state) {
  static const int64_t costs[] = {0, -1, INT64_MIN, COST_MOST + 1, INT64_MAX};
  world w;
  (void)state;
  open_spy(&w, "fixed-window:5/1m");
  for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
    weir_request request = plain();
    request.cost = costs[i];
    assert_refused(&w, request, WEIR_BAD_COST, "is outside 1 to 2147483648");
    request.flags = WEIR_REQUEST_UP_TO;
    assert_refused(&w, request, WEIR_BAD_COST, "is outside 1 to 2147483648");
  }
  world_close(&w);
}

static void a_cost_of_one_rule_is_named_with_its_rule(void **state) {
  static const struct {
    int64_t costs[3];
    const char *part;
  } cases[] = {
      {{1, -1, 1}, "cost -1 for rule 2 is outside 0 to 2147483648"},
      {{1, 1, COST_MOST + 1}, "cost 2147483649 for rule 3 is outside 0 to 2147483648"},
      {{INT64_MIN, 1, 1}, "for rule 1 is outside 0 to 2147483648"},
      {{0, 0, 0}, "every cost is 0"},
  };
  world w;
  (void)state;
  open_spy(&w, "fixed-window:5/1m;fixed-window:5/1h;fixed-window:5/1d");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_request request = plain();
    request.costs = cases[i].costs;
    assert_refused(&w, request, WEIR_BAD_COST, cases[i].part);
  }
  world_close(&w);
}

static void a_log_takes_one_request_at_a_time(void **state) {
  static const int64_t two_of_the_log[] = {1, 2};
  world w;
  weir_request request = plain();
  weir_decision decision;
  weir_message message;
  (void)state;
  open_spy(&w, "fixed-window:5/1m;sliding-log:5/1m");
  request.cost = 3;
  assert_refused(&w, request, WEIR_BAD_COST, "cost 3 for rule 2 (sliding-log): accepted is 1");
  request.flags = WEIR_REQUEST_UP_TO;
  assert_refused(&w, request, WEIR_BAD_COST, "cost 3 for rule 2 (sliding-log): accepted is 1");
  request.flags = WEIR_REQUEST_PEEK;
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, NULL), WEIR_BAD_COST);
  request.flags = 0;
  request.costs = two_of_the_log;
  assert_refused(&w, request, WEIR_BAD_COST,
                 "cost 2 for rule 2 (sliding-log): accepted are 0 and 1");
  assert_int_equal(weir_limiter_take(w.limiter, "k", 1, 6, &decision, &message), WEIR_BAD_COST);
  assert_int_equal(weir_limiter_take_up_to(w.limiter, "k", 1, 6, &decision, &message),
                   WEIR_BAD_COST);
  assert_int_equal(weir_limiter_wait(w.limiter, "k", 1, 6, 0, &decision, &message), WEIR_BAD_COST);
  assert_int_equal(the_fake.counts.commands, 0);
  world_close(&w);
}

static void flags_that_do_not_exist_or_do_not_go_together_are_refused(void **state) {
  static const int64_t costs[] = {1, 2};
  world w;
  weir_request request = plain();
  (void)state;
  open_spy(&w, "fixed-window:5/1m;fixed-window:5/1h");
  request.flags = 1 << 3;
  assert_refused(&w, request, WEIR_BAD_ARGUMENT, "flags is 0x8");
  request.flags = 1U << 31 | WEIR_REQUEST_PEEK;
  assert_refused(&w, request, WEIR_BAD_ARGUMENT, "enum weir_request_flag");
  request.flags = WEIR_REQUEST_UP_TO;
  request.costs = costs;
  assert_refused(&w, request, WEIR_BAD_ARGUMENT, "accepted is one cost");
  world_close(&w);
}

static void a_wait_beyond_the_limiters_is_refused(void **state) {
  static const int64_t waits[] = {-1, INT64_MIN, 5001, INT64_MAX};
  world w;
  weir_decision decision = {.cost = 77};
  weir_message message;
  (void)state;
  open_spy(&w, "token-bucket:5/1m");
  for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
    weir_request request = plain();
    request.longest_wait_us = waits[i];
    assert_refused(&w, request, WEIR_BAD_ARGUMENT, "accepted are 0 to 5000");
    assert_int_equal(weir_limiter_wait(w.limiter, "k", 1, 1, waits[i], &decision, &message),
                     WEIR_BAD_ARGUMENT);
    assert_says(&message, "longest_wait_us");
    assert_int_equal(decision.cost, 77);
  }
  assert_int_equal(the_fake.counts.commands, 0);
  world_close(&w);
}

static void a_reservation_cannot_be_a_peek(void **state) {
  world w;
  weir_request request = plain();
  weir_reservation *reservation;
  weir_message message;
  (void)state;
  open_spy(&w, "fixed-window:5/1m");
  request.flags = WEIR_REQUEST_PEEK;
  fake_forget();
  assert_int_equal(weir_limiter_reserve(w.limiter, &request, &reservation, &message),
                   WEIR_BAD_ARGUMENT);
  assert_says(&message, "WEIR_REQUEST_PEEK");
  assert_null(reservation);
  assert_int_equal(request.status, WEIR_BAD_ARGUMENT);
  assert_int_equal(the_fake.counts.commands, 0);
  world_close(&w);
}

static void an_empty_key_is_refused_everywhere(void **state) {
  world w;
  weir_request request = plain();
  weir_decision decision = {.allowed = true, .cost = 1};
  (void)state;
  open_spy(&w, "fixed-window:5/1m");
  request.key_length = 0;
  assert_refused(&w, request, WEIR_BAD_KEY, "1 byte or more");
  assert_int_equal(weir_limiter_take_up_to(w.limiter, "", 0, 1, &decision, NULL), WEIR_BAD_KEY);
  assert_int_equal(weir_limiter_wait(w.limiter, "", 0, 1, 0, &decision, NULL), WEIR_BAD_KEY);
  assert_int_equal(weir_limiter_refund(w.limiter, "", 0, 1, &decision, NULL), WEIR_BAD_KEY);
  assert_int_equal(weir_limiter_refund(w.limiter, NULL, 1, 1, &decision, NULL), WEIR_BAD_KEY);
  assert_int_equal(decision.cost, 1);
  world_close(&w);
}

static void bad_requests_fail_alone_among_others(void **state) {
  static const int64_t some[] = {1, 0};
  static const int64_t none[] = {0, 0};
  world w;
  weir_message message = {""};
  weir_request requests[5];
  (void)state;
  open_spy(&w, "fixed-window:5/1m;fixed-window:9/1h");
  for (size_t i = 0; i < 5; i++)
    requests[i] = plain();
  requests[1].costs = none;
  requests[2].costs = some;
  requests[3].flags = 64;
  requests[4].flags = WEIR_REQUEST_PEEK;
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 5, &message), WEIR_BAD_COST);
  assert_says(&message, "every cost is 0");
  assert_int_equal(requests[1].status, WEIR_BAD_COST);
  assert_int_equal(requests[3].status, WEIR_BAD_ARGUMENT);
  assert_int_equal(requests[0].decision.remaining, 4);
  assert_int_equal(requests[2].decision.remaining, 3);
  assert_int_equal(requests[4].status, WEIR_OK);
  assert_int_equal(requests[4].decision.remaining, 3);
  world_close(&w);
}

static void a_bucket_needs_a_store_that_swaps_or_raises(void **state) {
  static const char *const buckets[] = {"token-bucket:5/1m", "leaky-bucket:5/1m"};
  weir_backend plain_backend = fake_backend_with(0);
  weir_store *store;
  weir_limiter *limiter;
  weir_message message;
  (void)state;
  assert_int_equal(weir_store_open_backend(&plain_backend, "fake:", &store, NULL), WEIR_OK);
  for (size_t i = 0; i < 2; i++) {
    char rules[64] = "fixed-window:5/1m;";
    limiter = (weir_limiter *)store;
    strcat(rules, buckets[i]);
    assert_int_equal(weir_limiter_create(store, rules, NULL, &limiter, &message), WEIR_BAD_RULE);
    assert_null(limiter);
    assert_says(&message, "rule 2");
    assert_says(&message, "backend fake");
    assert_int_equal(weir_limiter_create(store, rules, NULL, &limiter, NULL), WEIR_BAD_RULE);
  }
  static const char *const fine[] = {"quota:5/1m", "sliding-log:5/1m",
                                     "fixed-window:5/1m;sliding-window:5/1m"};
  for (size_t i = 0; i < 3; i++) {
    weir_decision decision;
    assert_int_equal(weir_limiter_create(store, fine[i], NULL, &limiter, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
    assert_true(decision.allowed);
    weir_limiter_destroy(limiter);
  }
  weir_store_close(store);
}

static void the_longest_wait_of_a_limiter_has_a_range(void **state) {
  static const int64_t bad[] = {-1, 1800000001};
  weir_store *store;
  weir_limiter *limiter;
  weir_message message;
  (void)state;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  for (size_t i = 0; i < 2; i++) {
    weir_limiter_options options = {.size = sizeof options, .longest_wait_us = bad[i]};
    assert_int_equal(weir_limiter_create(store, "quota:5/1m", &options, &limiter, &message),
                     WEIR_BAD_ARGUMENT);
    assert_null(limiter);
    assert_says(&message, "longest_wait_us");
    assert_says(&message, "1 to 1800000000");
  }
  weir_store_close(store);
}

/* A place is held until its reservation ends: what has none cannot leave it. */
static void a_place_is_entered_by_a_reservation_alone(void **state) {
  static const char said[] = "rule 2: in-flight is entered by weir_limiter_reserve()";
  world w;
  weir_message message = {""};
  weir_decision decision = {.allowed = true, .cost = 1};
  weir_request request = plain();
  weir_reservation *reservation = NULL;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m;in-flight:2/10s", NULL);
  assert_int_equal(weir_limiter_take(w.limiter, "k", 1, 1, &decision, &message), WEIR_BAD_ARGUMENT);
  assert_says(&message, said);
  message.text[0] = '\0';
  assert_int_equal(weir_limiter_decide(w.limiter, &request, 1, &message), WEIR_BAD_ARGUMENT);
  assert_says(&message, said);
  message.text[0] = '\0';
  assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 1, &decision, &message),
                   WEIR_BAD_ARGUMENT);
  assert_says(&message, said);
  assert_int_equal(weir_limiter_reserve(w.limiter, &request, &reservation, &message), WEIR_OK);
  assert_true(request.decision.allowed);
  assert_int_equal(weir_limiter_peek(w.limiter, "k", 1, 1, &decision, &message), WEIR_OK);
  assert_int_equal(decision.remaining, 1);
  assert_int_equal(weir_reservation_cancel(reservation, &message), WEIR_OK);
  weir_reservation_destroy(reservation);
  assert_int_equal(weir_limiter_peek(w.limiter, "k", 1, 1, &decision, &message), WEIR_OK);
  assert_int_equal(decision.remaining, 2);
  assert_int_equal(weir_limiter_reset(w.limiter, "k", 1, &message), WEIR_OK);
  world_close(&w);
}

static void a_place_needs_time_to_be_paid_again(void **state) {
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_message message = {""};
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  (void)state;
  options.clock_error_us = 50000;
  options.deadline_us = 100000;
  assert_int_equal(weir_store_open("memory:", &store, &message), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, "in-flight:2/1599ms", &options, &limiter, &message),
                   WEIR_BAD_RULE);
  assert_says(&message, "rule 1 (in-flight): a period of 1599 ms");
  assert_says(&message, "accepted are 1600 ms or more");
  assert_null(limiter);
  assert_int_equal(weir_limiter_create(store, "in-flight:2/1600ms", &options, &limiter, &message),
                   WEIR_OK);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void a_limiter_counts_its_rules(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  assert_int_equal(weir_limiter_rules(w.limiter), 1);
  world_close(&w);
  world_open(&w, "memory:", "fixed-window:5/1m;quota:5/1m;sliding-log:5/1m", NULL);
  assert_int_equal(weir_limiter_rules(w.limiter), 3);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_cost_out_of_range_is_named),
      cmocka_unit_test(a_cost_of_one_rule_is_named_with_its_rule),
      cmocka_unit_test(a_log_takes_one_request_at_a_time),
      cmocka_unit_test(flags_that_do_not_exist_or_do_not_go_together_are_refused),
      cmocka_unit_test(a_wait_beyond_the_limiters_is_refused),
      cmocka_unit_test(a_reservation_cannot_be_a_peek),
      cmocka_unit_test(an_empty_key_is_refused_everywhere),
      cmocka_unit_test(bad_requests_fail_alone_among_others),
      cmocka_unit_test(a_bucket_needs_a_store_that_swaps_or_raises),
      cmocka_unit_test(the_longest_wait_of_a_limiter_has_a_range),
      cmocka_unit_test(a_place_is_entered_by_a_reservation_alone),
      cmocka_unit_test(a_place_needs_time_to_be_paid_again),
      cmocka_unit_test(a_limiter_counts_its_rules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
