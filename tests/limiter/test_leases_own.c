/* A process's lots are its own: reservations and costs per rule have them, and nobody is denied
 * what goes back anyway. Others have taken all that is left in the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/leases.h"

/* Takes all that the store has left of "k" but for `left`. */
static void leave(world *w, const char *rules, int64_t left) {
  weir_limiter_options options = {.flags = WEIR_NO_LEASES, .processes = 1};
  weir_limiter *greedy = world_limiter(w, rules, &options);
  int64_t room = limiter_peek(greedy, "k", 1).remaining;
  if (room > left) assert_true(limiter_take(greedy, "k", room - left).allowed);
  weir_limiter_destroy(greedy);
}

static weir_request of(int64_t cost) {
  return (weir_request){.key = "k", .key_length = 1, .cost = cost};
}

/* --- reservations ------------------------------------------------------------------------------
 */

static void a_reservation_has_what_is_held(void **state) {
  (void)state;
  for (size_t i = 0; i <= LEASE_WINDOWS; i++) {
    const char *rules = i < LEASE_WINDOWS ? lease_windows[i] : lease_bucket;
    world w;
    weir_reservation *reservation;
    weir_request reserved = of(3);
    lease_open(&w, rules, 30);
    int64_t held = lease_held(w.limiter);
    leave(&w, rules, 0);
    fake_forget();
    assert_int_equal(weir_limiter_reserve(w.limiter, &reserved, &reservation, NULL), WEIR_OK);
    assert_true(reserved.decision.allowed);
    assert_int_equal(reserved.decision.source, WEIR_SOURCE_LOCAL);
    assert_int_equal(the_fake.counts.round_trips, 0);
    assert_int_equal(lease_held(w.limiter), held - 3);
    assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
    weir_reservation_destroy(reservation);
    assert_int_equal(lease_store_room(&w, rules, "k"), 3);
    lease_close(&w);
  }
}

/* From both what is held and what the store has. */
static void a_reservation_has_both(void **state) {
  (void)state;
  for (size_t i = 0; i <= LEASE_WINDOWS; i++) {
    const char *rules = i < LEASE_WINDOWS ? lease_windows[i] : lease_bucket;
    world w;
    weir_reservation *reservation;
    lease_open(&w, rules, 30);
    int64_t held = lease_held(w.limiter);
    leave(&w, rules, 2);
    weir_request too_much = of(held + 3);
    assert_int_equal(weir_limiter_reserve(w.limiter, &too_much, &reservation, NULL), WEIR_OK);
    assert_false(too_much.decision.allowed);
    assert_true(too_much.decision.retry_after_us > 0);
    assert_int_equal(too_much.decision.remaining, held + 2);
    weir_request reserved = of(held + 2);
    assert_int_equal(weir_limiter_reserve(w.limiter, &reserved, &reservation, NULL), WEIR_OK);
    assert_true(reserved.decision.allowed);
    assert_int_equal(reserved.decision.cost, held + 2);
    assert_int_equal(reserved.decision.remaining, 0);
    assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
    weir_reservation_destroy(reservation);
    assert_int_equal(lease_store_room(&w, rules, "k"), held + 2);
    lease_close(&w);
  }
}

/* What a denied take held is there for a peek behind it in the list; but not what a take between them has, of
 * the store (`left`) or of what went back. */
static void a_peek_sees_what_a_denied_take_gave_back(void **state) {
  (void)state;
  for (size_t i = 0; i <= LEASE_WINDOWS; i++) {
    const char *rules = i < LEASE_WINDOWS ? lease_windows[i] : lease_bucket;
    for (int64_t left = 0; left <= 2; left += 2) {
      world w;
      lease_open(&w, rules, 30);
      leave(&w, rules, left);
      int64_t all = lease_held(w.limiter) + left;
      weir_request list[] = {of(all + 1), of(2), of(all - 2), of(all - 1), of(900)};
      for (int n = 2; n < 5; n++)
        list[n].flags = WEIR_REQUEST_PEEK;
      list[4].flags |= WEIR_REQUEST_UP_TO;
      assert_int_equal(weir_limiter_decide(w.limiter, list, 5, NULL), WEIR_OK);
      assert_false(list[0].decision.allowed);
      assert_true(list[1].decision.allowed);
      assert_true(list[2].decision.allowed);
      assert_int_equal(list[2].decision.cost, all - 2);
      assert_int_equal(list[2].decision.retry_after_us, 0);
      assert_false(list[3].decision.allowed);
      assert_true(list[4].decision.allowed);
      assert_int_equal(list[4].decision.cost, all - 2);
      for (int n = 2; n < 5; n++)
        assert_int_equal(list[n].decision.remaining, all - 2);
      assert_int_equal(lease_store_room(&w, rules, "k") + lease_held(w.limiter), all - 2);
      lease_close(&w);
    }
  }
}

/* A limiter that waits asks in the same way. */
static void who_may_wait_has_both(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_decision decision;
    lease_open(&w, lease_windows[i], 30);
    int64_t held = lease_held(w.limiter);
    leave(&w, lease_windows[i], 2);
    assert_int_equal(weir_limiter_wait(w.limiter, "k", 1, held + 2, 0, &decision, NULL), WEIR_OK);
    assert_true(decision.allowed);
    assert_int_equal(decision.delay_us, 0);
    lease_close(&w);
  }
}

/* --- costs per rule ----------------------------------------------------------------------------
 */

/* Costs that are the same are one cost. */
static void costs_that_are_equal_have_what_is_held(void **state) {
  (void)state;
  for (size_t i = 0; i <= LEASE_WINDOWS; i++) {
    const char *rules = i < LEASE_WINDOWS ? lease_windows[i] : lease_bucket;
    world w;
    int64_t cost = 3;
    weir_request own = {.key = "k", .key_length = 1, .costs = &cost};
    lease_open(&w, rules, 30);
    leave(&w, rules, 0);
    fake_forget();
    assert_int_equal(weir_limiter_decide(w.limiter, &own, 1, NULL), WEIR_OK);
    assert_true(own.decision.allowed);
    assert_int_equal(own.decision.source, WEIR_SOURCE_LOCAL);
    assert_int_equal(own.decision.cost, WEIR_OWN_COSTS);
    assert_int_equal(the_fake.counts.round_trips, 0);
    lease_close(&w);
  }
}

static const char stack[] =
    "fixed-window:1000/1s,lease=20ms;sliding-window:1200/1s,lease=20ms;quota:1000/1s,lease=20ms";

static weir_decision decide(world *w, const int64_t *costs, unsigned flags) {
  weir_request request = {.key = "k", .key_length = 1, .costs = costs, .flags = flags};
  assert_int_equal(weir_limiter_decide(w->limiter, &request, 1, NULL), WEIR_OK);
  return request.decision;
}

/* The lots that are held go back in front of their own look, in the same round. */
static void costs_that_differ_have_what_went_back(void **state) {
  world w;
  const int64_t costs[] = {3, 2, 3};
  (void)state;
  lease_open(&w, stack, 30);
  int64_t held = lease_held(w.limiter);
  leave(&w, stack, 0);
  fake_forget();
  weir_decision decision = decide(&w, costs, 0);
  assert_true(decision.allowed);
  assert_int_equal(decision.source, WEIR_SOURCE_STORE);
  assert_int_equal(decision.cost, WEIR_OWN_COSTS);
  assert_int_equal(decision.remaining, held - 3);
  assert_int_equal(the_fake.counts.round_trips, 2); /* as without: a look, and a charge */
  assert_int_equal(lease_held(w.limiter), 0);
  assert_int_equal(lease_counts(w.limiter).lease_returned, held);
  assert_int_equal(lease_store_room(&w, stack, "k"), held - 3);
  lease_close(&w);
}

static void peeks_with_costs_are_told_the_same(void **state) {
  world w;
  const int64_t costs[] = {3, 2, 3};
  (void)state;
  lease_open(&w, stack, 30);
  int64_t held = lease_held(w.limiter);
  leave(&w, stack, 0);
  weir_decision decision = decide(&w, costs, WEIR_REQUEST_PEEK);
  assert_true(decision.allowed);
  assert_int_equal(decision.remaining, held);
  assert_int_equal(world_take(&w, "k", held).allowed, true);
  assert_int_equal(decide(&w, costs, WEIR_REQUEST_PEEK).allowed, false);
  lease_close(&w);
}

/* --- denials -----------------------------------------------------------------------------------
 */

/* The denial would be repeated from memory; but what ended since goes back, and is enough. */
static void nobody_is_denied_what_goes_back(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 30);
    int64_t held = lease_held(w.limiter);
    leave(&w, lease_windows[i], 2);
    assert_false(world_take(&w, "k", held + 3).allowed);
    assert_false(world_take(&w, "k", held + 3).allowed);
    world_set(&w, 20000);
    weir_decision decision = world_take(&w, "k", held + 2);
    assert_true(decision.allowed);
    assert_int_equal(decision.remaining, 0);
    assert_true((int64_t)lease_counts(w.limiter).lease_returned >= held);
    assert_int_equal(lease_held(w.limiter), 0);
    fake_forget();
    assert_false(world_take(&w, "k", 1).allowed);
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_LOCAL);
    lease_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reservation_has_what_is_held),
      cmocka_unit_test(a_reservation_has_both),
      cmocka_unit_test(a_peek_sees_what_a_denied_take_gave_back),
      cmocka_unit_test(who_may_wait_has_both),
      cmocka_unit_test(costs_that_are_equal_have_what_is_held),
      cmocka_unit_test(costs_that_differ_have_what_went_back),
      cmocka_unit_test(peeks_with_costs_are_told_the_same),
      cmocka_unit_test(nobody_is_denied_what_goes_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
