/* A charge arrives within the deadline of its stamp, wherever the thread is held up. Time is made
 * up: it passes only where the thread stalls, in a reading of the clock or in the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <weir/backend.h>
#include <weir/weir.h>

#include "store/store.h"

enum { DEADLINE_US = 20000, STALL_US = 60000, READINGS_MOST = 12 };

static int64_t time_us;
static int readings;
static int monotonic_readings;
static int stalls_at;
static bool stalls_in_exec;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants this name */
int64_t __wrap_weir_monotonic_us(void);

int64_t __wrap_weir_monotonic_us(void) {
  monotonic_readings++;
  return time_us;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int64_t read_and_stall(void *context) {
  int64_t read_us = time_us;
  (void)context;
  if (++readings == stalls_at) time_us += STALL_US;
  return read_us;
}

/* The embedded store, as one in which nobody waits and as one in which somebody may; it notes when
 * charges arrive. */
static int64_t arrived_us;

static weir_status inner_open(const weir_url *url, int64_t timeout_us, void **handle,
                              weir_message *message) {
  weir_store *inner;
  (void)url;
  (void)timeout_us;
  weir_status status = weir_store_open("memory:", &inner, message);
  if (status == WEIR_OK) *handle = inner;
  return status;
}

static void inner_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                       weir_message *message) {
  if (stalls_in_exec) time_us += STALL_US;
  for (size_t i = 0; i < count; i++)
    if (operations[i].kind == WEIR_ADD) arrived_us = time_us;
  weir_store_exec(handle, operations, count, deadline_us, message);
}

static void inner_close(void *handle) {
  weir_store_close(handle);
}

static weir_backend backend_of(unsigned traits) {
  static const weir_scheme schemes[] = {{"stamps", 0}, {NULL, 0}};
  static const char *const options[] = {NULL};
  return (weir_backend){.size = sizeof(weir_backend),
                        .name = "stamps",
                        .schemes = schemes,
                        .options = options,
                        .traits = traits,
                        .open = inner_open,
                        .exec = inner_exec,
                        .close = inner_close};
}

/* How many of two requests were admitted, each of them soon enough: its charge arrived within the
 * deadline, and so did the answer where the store may have kept it waiting. */
static int admitted_in_time(unsigned traits, bool together, int stall) {
  const weir_backend backend = backend_of(traits);
  const weir_limiter_options options = {.size = sizeof options,
                                        .clock = {.now_us = read_and_stall},
                                        .deadline_us = DEADLINE_US,
                                        .fallback = WEIR_FALLBACK_NONE};
  weir_store *store;
  weir_limiter *limiter;
  weir_request requests[2] = {{.key = "a", .key_length = 1, .cost = 1},
                              {.key = "b", .key_length = 1, .cost = 1}};
  int admitted = 0;
  time_us = INT64_C(1700000000000000);
  readings = 0;
  stalls_at = stall;
  assert_int_equal(weir_store_open_backend(&backend, "stamps:", &store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, "sliding-window:1000/1m", &options, &limiter, NULL),
                   WEIR_OK);
  if (together) weir_limiter_decide(limiter, requests, 2, NULL);
  for (int i = 0; i < 2; i++) {
    weir_request *request = &requests[i];
    if (!together)
      request->status = weir_limiter_take(limiter, request->key, request->key_length, 1,
                                          &request->decision, NULL);
    if (requests[i].status != WEIR_OK) continue;
    admitted += requests[i].decision.allowed;
    assert_in_range(arrived_us - requests[i].decision.at_us, 0, DEADLINE_US);
    if (!(traits & WEIR_TRAIT_IMMEDIATE))
      assert_in_range(time_us - requests[i].decision.at_us, 0, DEADLINE_US);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return admitted;
}

static void no_stall_makes_a_stamp_too_old(void **state) {
  (void)state;
  static const unsigned traits[] = {0, WEIR_TRAIT_IMMEDIATE,
                                    WEIR_TRAIT_IMMEDIATE | WEIR_TRAIT_IDENTITY};
  for (size_t i = 0; i < 2 * sizeof traits / sizeof traits[0]; i++) {
    bool together = i % 2 == 0;
    stalls_in_exec = false;
    assert_int_equal(admitted_in_time(traits[i / 2], together, 0), 2);
    for (int stall = 1; stall <= READINGS_MOST; stall++)
      admitted_in_time(traits[i / 2], together, stall);
    stalls_in_exec = true;
    assert_int_equal(admitted_in_time(traits[i / 2], together, 0), 0);
  }
}

/* --- the embedded store ------------------------------------------------------------------------
 */

static weir_limiter *other;

static int64_t read_time(void *context) {
  (void)context;
  return time_us;
}

/* Behind the reading the thread stalls, and meanwhile another limiter on the store is asked. */
static int64_t read_and_let_pass(void *context) {
  int64_t read_us = read_and_stall(context);
  weir_decision decision;
  if (readings == stalls_at && other != NULL)
    assert_int_equal(weir_limiter_take(other, "a", 1, 1, &decision, NULL), WEIR_OK);
  return read_us;
}

/* Where no other came meanwhile, a charge is made when it was stamped. */
static void what_another_did_before_a_late_charge_is_noticed(void **state) {
  weir_limiter_options options = {.size = sizeof options,
                                  .clock = {.now_us = read_and_let_pass},
                                  .deadline_us = DEADLINE_US,
                                  .fallback = WEIR_FALLBACK_NONE};
  const char *rule = "sliding-window:1000/1m";
  weir_store *store;
  weir_limiter *limiter, *made;
  weir_decision decision;
  (void)state;
  time_us = INT64_C(1700000000000000);
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, rule, &options, &limiter, NULL), WEIR_OK);
  options.clock.now_us = read_time;
  assert_int_equal(weir_limiter_create(store, rule, &options, &made, NULL), WEIR_OK);
  stalls_at = 0;
  assert_int_equal(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL), WEIR_OK);

  int64_t stamp_us = time_us += STALL_US;
  readings = 0;
  stalls_at = 2; /* behind that of the other clock */
  assert_int_equal(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL), WEIR_OK);
  assert_int_equal(decision.remaining, 998);
  assert_int_equal(decision.at_us, stamp_us);

  other = made;
  readings = 0;
  assert_int_equal(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL), WEIR_TIMEOUT);
  other = NULL;
  stalls_at = 0;
  assert_int_equal(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL), WEIR_OK);
  assert_int_equal(decision.remaining, 996); /* with the other's, and without what was late */
  weir_limiter_destroy(made);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* It reads a clock of the caller's own. */
static void it_costs_few_readings(void **state) {
  const weir_limiter_options options = {
      .size = sizeof options, .clock = {.now_us = read_and_stall}, .deadline_us = DEADLINE_US};
  weir_store *store;
  weir_limiter *limiter;
  weir_decision decision;
  const int expected[] = {2, 2, 1}; /* admitted; charged and taken back; denied by what is known */
  (void)state;
  stalls_at = 0;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, "fixed-window:1/1h", &options, &limiter, NULL),
                   WEIR_OK);
  for (int take = 0; take < 3; take++) {
    readings = monotonic_readings = 0;
    assert_int_equal(weir_limiter_take(limiter, "a", 1, 1, &decision, NULL), WEIR_OK);
    assert_int_equal(decision.allowed, take == 0);
    assert_int_equal(decision.source == WEIR_SOURCE_LOCAL, take == 2);
    assert_int_equal(readings, expected[take]);
    assert_in_range(monotonic_readings, 0, expected[take] - 1);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_stall_makes_a_stamp_too_old),
      cmocka_unit_test(what_another_did_before_a_late_charge_is_noticed),
      cmocka_unit_test(it_costs_few_readings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
