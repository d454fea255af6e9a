/* A lease's lots cover settlements: too much of a charge becomes part of them, and what was used on
 * top comes from them. Nothing is charged twice by that, and nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/leases.h"

static weir_decision settle(world *w, int64_t real, weir_decision taken) {
  weir_message message = {""};
  if (weir_limiter_settle(w->limiter, "k", 1, real, &taken, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  assert_int_equal(taken.source, WEIR_SOURCE_SETTLED);
  return taken;
}

/* Takes all that the store has left of "k". */
static void leave_nothing(world *w, const char *rules) {
  weir_limiter_options options = {.flags = WEIR_NO_LEASES, .processes = 1};
  weir_limiter *greedy = world_limiter(w, rules, &options);
  int64_t room = limiter_peek(greedy, "k", 1).remaining;
  if (room > 0) assert_true(limiter_take(greedy, "k", room).allowed);
  weir_limiter_destroy(greedy);
}

static void what_was_too_much_is_held(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 30);
    weir_decision taken = world_take(&w, "k", 10);
    int64_t held = lease_held(w.limiter);
    int64_t room = lease_store_room(&w, lease_windows[i], "k");
    fake_forget();
    assert_int_equal(settle(&w, 3, taken).cost, 3);
    assert_int_equal(the_fake.counts.round_trips, 0);
    assert_int_equal(lease_held(w.limiter), held + 7);
    assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
    assert_int_equal(lease_store_room(&w, lease_windows[i], "k"), room + held + 7);
    lease_close(&w);
  }
}

static void what_was_used_on_top_comes_from_what_is_held(void **state) {
  (void)state;
  for (size_t i = 0; i <= LEASE_WINDOWS; i++) {
    const char *rules = i < LEASE_WINDOWS ? lease_windows[i] : lease_bucket;
    world w;
    lease_open(&w, rules, 30);
    weir_decision taken = world_take(&w, "k", 2);
    int64_t held = lease_held(w.limiter);
    leave_nothing(&w, rules);
    fake_forget();
    assert_int_equal(settle(&w, 12, taken).cost, 12);
    assert_int_equal(the_fake.counts.round_trips, 0);
    assert_int_equal(lease_held(w.limiter), held - 10);
    lease_close(&w);
  }
}

/* More than is held: that goes back in front, in the same round, so that it is room for the rest. */
static void what_is_held_and_not_enough_goes_back_first(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 30);
    weir_decision taken = world_take(&w, "k", 2);
    int64_t held = lease_held(w.limiter);
    leave_nothing(&w, lease_windows[i]);
    int64_t charged = settle(&w, 2 + held + 5, taken).cost;
    assert_int_equal(charged, 2 + held);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(lease_store_room(&w, lease_windows[i], "k"), 0);
    lease_close(&w);
  }
}

/* A charge of an earlier cell is not one of the lot's. */
static void what_was_charged_elsewhere_goes_back_there(void **state) {
  static const char rules[] = "sliding-window:1000/1s,lease=20ms";
  world w;
  (void)state;
  lease_open(&w, rules, 0);
  weir_decision taken = world_take(&w, "k", 10);
  world_set(&w, 400000);
  lease_fill(&w, "k", 10);
  int64_t held = lease_held(w.limiter);
  int64_t room = lease_store_room(&w, rules, "k");
  settle(&w, 4, taken);
  assert_int_equal(lease_held(w.limiter), held);
  assert_int_equal(lease_store_room(&w, rules, "k"), room + 6);
  lease_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_too_much_is_held),
      cmocka_unit_test(what_was_used_on_top_comes_from_what_is_held),
      cmocka_unit_test(what_is_held_and_not_enough_goes_back_first),
      cmocka_unit_test(what_was_charged_elsewhere_goes_back_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
