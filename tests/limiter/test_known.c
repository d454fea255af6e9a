/* weir_decide_known: what needs no store is decided, all else is left as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/leases.h"

enum { SOME = 4, UNTOUCHED = 77 };

static weir_request request(const char *key, int64_t cost) {
  return (weir_request){.key = key,
                        .key_length = strlen(key),
                        .cost = cost,
                        .status = (weir_status)UNTOUCHED,
                        .decision = {.remaining = UNTOUCHED}};
}

static void decide_known(const world *w, weir_request *requests, size_t count, bool *known) {
  weir_limiter *limiters[SOME];
  for (size_t i = 0; i < count; i++)
    limiters[i] = w->limiter;
  fake_forget();
  assert_int_equal(weir_decide_known(limiters, requests, count, known, NULL), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 0);
}

static void assert_left(const weir_request *left, bool known) {
  assert_false(known);
  assert_int_equal(left->status, UNTOUCHED);
  assert_int_equal(left->decision.remaining, UNTOUCHED);
}

static uint64_t counted(const weir_limiter *limiter) {
  weir_limiter_counts counts = lease_counts(limiter);
  uint64_t sum = 0;
  for (size_t i = 0; i < WEIR_STATUSES_MOST; i++)
    sum += counts.statuses[i];
  return sum;
}

static void a_denial_that_holds_is_known(void **state) {
  world w;
  bool known[SOME];
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:2/1h", NULL);
  weir_request requests[SOME] = {request("k", 1), request("other", 1), request("k", 1)};
  decide_known(&w, requests, 3, known);
  for (size_t i = 0; i < 3; i++)
    assert_left(&requests[i], known[i]);
  assert_int_equal(counted(w.limiter), 0);

  for (int i = 0; i < 3; i++)
    assert_int_equal(world_take(&w, "k", 1).allowed, i < 2);
  uint64_t before = counted(w.limiter);
  decide_known(&w, requests, 3, known);
  for (size_t i = 0; i < 3; i += 2) {
    assert_true(known[i]);
    assert_int_equal(requests[i].status, WEIR_OK);
    assert_false(requests[i].decision.allowed);
    assert_int_equal(requests[i].decision.source, WEIR_SOURCE_LOCAL);
  }
  assert_left(&requests[1], known[1]);
  assert_int_equal(counted(w.limiter), before + 2);
  world_close(&w);
}

static void a_lease_is_known(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    bool known[SOME];
    lease_open(&w, lease_windows[i], 40);
    int64_t held = lease_held(w.limiter);
    weir_request requests[SOME] = {request("k", 3), request("k", 1), request("new", 1)};
    requests[1].flags = WEIR_REQUEST_PEEK;
    decide_known(&w, requests, 3, known);
    assert_true(known[0]);
    assert_true(known[1]);
    assert_true(requests[0].decision.allowed);
    assert_int_equal(requests[0].decision.source, WEIR_SOURCE_LOCAL);
    assert_left(&requests[2], known[2]);
    assert_int_equal(lease_held(w.limiter), held - 3);
    lease_close(&w);
  }
}

/* The first asks for more than is held: what comes behind it for its key is not decided before it. */
static void the_order_of_a_key_is_kept(void **state) {
  world w;
  bool known[SOME];
  (void)state;
  lease_open(&w, lease_windows[0], 40);
  int64_t held = lease_held(w.limiter);
  weir_request requests[SOME] = {request("k", held + 1), request("k", 1), request("other", 2000),
                                 request("k", 1)};
  decide_known(&w, requests, SOME, known);
  for (size_t i = 0; i < SOME; i++)
    if (i != 2) assert_left(&requests[i], known[i]);
  assert_true(known[2]); /* above the limit, whatever the store says */
  assert_int_equal(requests[2].decision.retry_after_us, WEIR_NEVER);
  assert_int_equal(lease_held(w.limiter), held);
  assert_true(world_take(&w, "k", 1).allowed); /* and nothing stands in its way */
  assert_int_equal(the_fake.counts.round_trips, 0);
  lease_close(&w);
}

static void what_is_no_request_is_refused(void **state) {
  world w;
  bool known[SOME];
  weir_message why;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:2/1h", NULL);
  weir_decision taken = world_take(&w, "k", 1);
  weir_request requests[SOME] = {request("k", 0), request("", 1), request("k", 2)};
  requests[2].flags = WEIR_REQUEST_SETTLE;
  requests[2].decision = taken;
  decide_known(&w, requests, 3, known);
  assert_true(known[0]);
  assert_int_equal(requests[0].status, WEIR_BAD_COST);
  assert_true(known[1]);
  assert_int_equal(requests[1].status, WEIR_BAD_KEY);
  assert_false(known[2]);
  assert_int_equal(requests[2].decision.source, taken.source);

  weir_limiter *limiters[SOME] = {w.limiter};
  assert_int_equal(weir_decide_known(limiters, requests, 0, known, &why), WEIR_OK);
  assert_int_equal(weir_decide_known(limiters, requests, 2, known, &why), WEIR_BAD_ARGUMENT);
  assert_string_equal(why.text, "limiters[1] is NULL: accepted are limiters");
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_denial_that_holds_is_known),
      cmocka_unit_test(a_lease_is_known),
      cmocka_unit_test(the_order_of_a_key_is_kept),
      cmocka_unit_test(what_is_no_request_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
