/* Lots: how long they live, who uses them, what is owed. Without threads, clocks or stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "algorithm/plan.h"
#include "lease_world.h"
#include "memo/leased.h"

static int64_t room(const world *w, int64_t now_us) {
  return weir_stock_room(w->stock, now_us, 0);
}

static bool use(world *w, int64_t now_us, int64_t cost) {
  int64_t at_us;
  return weir_stock_use(w->stock, &w->lease, now_us, cost, &at_us, 0);
}

/* All that is owed now. */
static int64_t owed(world *w, int64_t now_us) {
  weir_lot lot;
  int64_t places[WEIR_RULES_MOST];
  int64_t sum = 0;
  if (!weir_stock_owes(w->stock, &w->lease, now_us)) return 0;
  while (weir_stock_take_owed(w->stock, &w->lease, &lot, places))
    sum += lot.left;
  return sum;
}

/* --- how long a lot lives ----------------------------------------------------------------------
 */

static void a_lot_is_usable_from_its_stamp_for_a_lease(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/10s,lease=20ms");
  world_grant(&w, START + 5 * MS, 8);
  assert_int_equal(room(&w, START + 5 * MS - 1), 0);
  assert_true(weir_stock_is_ahead(w.stock, START + 5 * MS - 1));
  assert_int_equal(room(&w, START + 5 * MS), 8);
  assert_false(weir_stock_is_ahead(w.stock, START + 5 * MS));
  assert_int_equal(room(&w, START + 25 * MS - 1), 8);
  assert_int_equal(room(&w, START + 25 * MS), 0);
  world_close(&w);
}

static void a_lot_ends_with_the_cell_that_was_charged(void **state) {
  static const struct {
    const char *rules;
    int64_t end_us;
  } cases[] = {
      {"fixed-window:100/1s,lease=1s", 1000 * MS},
      {"sliding-window:100/1s,lease=1s", 250 * MS},
      {"sliding-window:100/1s,cells=1,lease=1s", 1000 * MS},
      {"quota:100/500ms,lease=1s", 500 * MS},
      {"token-bucket:100/1s,lease=250ms", 250 * MS},
      {"fixed-window:100/1s,lease=1s;sliding-window:100/1s,lease=900ms", 250 * MS},
      {"token-bucket:100/1s,lease=200ms;quota:100/500ms,lease=1s", 200 * MS},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    world_open(&w, cases[i].rules);
    world_grant(&w, START, 8);
    assert_int_equal(room(&w, START + cases[i].end_us - 1), 8);
    assert_int_equal(room(&w, START + cases[i].end_us), 0);
    world_close(&w);
  }
}

/* A quota opened by a clock ahead of this one: it is used before it begins, as it is charged. */
static void a_quota_may_begin_after_the_stamp(void **state) {
  world w;
  (void)state;
  world_open(&w, "quota:100/500ms,lease=1s");
  w.places[0] = START + 10 * MS;
  world_grant(&w, START, 8);
  assert_int_equal(room(&w, START), 8);
  assert_int_equal(room(&w, START + 510 * MS - 1), 8);
  assert_int_equal(room(&w, START + 510 * MS), 0);
  world_close(&w);
}

static void what_does_not_fit_into_the_lots_is_not_used(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/10s,lease=20ms");
  world_grant(&w, START, 3);
  assert_false(use(&w, START, 4));
  assert_int_equal(room(&w, START), 3);
  assert_true(use(&w, START, 2));
  assert_true(use(&w, START + 1, 1));
  assert_false(use(&w, START + 2, 1));
  world_close(&w);
}

/* A refill keeps what is left of the lot before, and what ends first is used first. */
static void two_lots_live_at_once(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/10s,lease=20ms");
  world_grant(&w, START, 3);
  world_grant(&w, START + 10 * MS, 5);
  assert_int_equal(room(&w, START + 10 * MS), 8);
  assert_true(use(&w, START + 10 * MS, 2));
  assert_int_equal(room(&w, START + 20 * MS), 5);
  assert_int_equal(owed(&w, START + 20 * MS), 1);
  world_close(&w);
}

static void a_third_lot_joins_one_of_the_same_cell_and_shortens_it(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/10s,lease=20ms");
  world_grant(&w, START, 1);
  world_grant(&w, START + 1 * MS, 2);
  world_grant(&w, START + 2 * MS, 4);
  assert_int_equal(room(&w, START + 2 * MS), 7);
  assert_int_equal(room(&w, START + 21 * MS), 0);
  assert_int_equal(owed(&w, START + 21 * MS), 7);
  world_close(&w);
}

/* --- what a use is told ------------------------------------------------------------------------
 */

static void a_use_of_a_window_is_stamped_when_it_happens(void **state) {
  world w;
  int64_t at_us;
  (void)state;
  world_open(&w, "sliding-window:100/10s,lease=20ms");
  world_grant(&w, START, 3);
  assert_true(weir_stock_use(w.stock, &w.lease, START + 7, 1, &at_us, 0));
  assert_int_equal(at_us, START + 7);
  world_close(&w);
}

/* The stamp is the earlier of two lots': a refund then gives back no more than has not drained. */
static void a_use_of_a_bucket_is_stamped_as_its_charge(void **state) {
  static const char *const rules[] = {"token-bucket:100/1s,lease=200ms",
                                      "quota:100/1s,lease=200ms;token-bucket:100/1s,lease=200ms"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    int64_t at_us;
    world_open(&w, rules[i]);
    world_grant(&w, START, 3);
    world_grant(&w, START + 5, 3);
    assert_true(weir_stock_use(w.stock, &w.lease, START + 9, 4, &at_us, 0));
    assert_int_equal(at_us, START);
    assert_true(weir_stock_use(w.stock, &w.lease, START + 9, 2, &at_us, 0));
    assert_int_equal(at_us, START + 5);
    world_close(&w);
  }
}

/* --- a group -----------------------------------------------------------------------------------
 */

static void a_request_takes_its_own_lots_first(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/10s,lease=20ms");
  world_grant(&w, START, 7);
  assert_int_equal(weir_stock_hold(w.stock, &w.lease, START + 1, 30, 0), 7);
  assert_int_equal(weir_stock_hold(w.stock, &w.lease, START + 1, 5, 0), 0);
  assert_int_equal(room(&w, START + 1), 0); /* for others meanwhile */
  assert_true(weir_stock_holds(w.stock, START + 2));
  weir_stock_spend(w.stock, 7);
  weir_stock_release(w.stock, &w.lease, START + 3);
  assert_int_equal(room(&w, START + 3), 0);
  assert_int_equal(owed(&w, START + 40 * MS), 0);
  world_close(&w);
}

static void what_was_held_for_a_denied_request_is_usable_again(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/10s,lease=20ms");
  world_grant(&w, START, 7);
  world_grant(&w, START + 1, 2);
  assert_int_equal(weir_stock_hold(w.stock, &w.lease, START + 1, 8, 0), 8);
  weir_stock_release(w.stock, &w.lease, START + 2);
  assert_int_equal(room(&w, START + 2), 9);
  world_close(&w);
}

/* A decision of the next cell cannot use what was charged to this one. */
static void what_is_held_ends_like_a_lot(void **state) {
  world w;
  (void)state;
  world_open(&w, "sliding-window:100/40ms,lease=20ms");
  world_grant(&w, START + 1, 7);
  assert_int_equal(weir_stock_hold(w.stock, &w.lease, START + 2, 9, 0), 7);
  assert_true(weir_stock_holds(w.stock, START + 10 * MS - 1));
  assert_false(weir_stock_holds(w.stock, START + 10 * MS));
  weir_stock_release(w.stock, &w.lease, START + 10 * MS);
  assert_int_equal(room(&w, START + 10 * MS), 0);
  assert_int_equal(owed(&w, START + 10 * MS), 7);
  world_close(&w);
}

/* --- giving back -------------------------------------------------------------------------------
 */

static void what_ended_is_owed_with_the_place_of_its_charge(void **state) {
  world w;
  weir_lot lot;
  int64_t places[WEIR_RULES_MOST];
  (void)state;
  world_open(&w, "fixed-window:100/1s,lease=20ms;quota:100/7s,lease=1s");
  w.places[1] = START - 3000 * MS;
  world_grant(&w, START, 8);
  assert_true(use(&w, START, 3));
  assert_false(weir_stock_owes(w.stock, &w.lease, START + 20 * MS - 1));
  assert_true(weir_stock_owes(w.stock, &w.lease, START + 20 * MS));
  assert_true(weir_stock_take_owed(w.stock, &w.lease, &lot, places));
  assert_int_equal(lot.left, 5);
  assert_memory_equal(places, w.places, 2 * sizeof places[0]);
  assert_false(weir_stock_owes(w.stock, &w.lease, START + 20 * MS));
  weir_stock_owe(w.stock, &w.lease, &lot, places); /* it was not sent */
  assert_int_equal(owed(&w, START + 20 * MS), 5);
  world_close(&w);
}

static void nothing_of_a_bucket_is_owed(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:100/1s,lease=100ms");
  world_grant(&w, START, 8);
  weir_stock_end(w.stock, &w.lease); /* and it stays usable */
  assert_int_equal(room(&w, START), 8);
  assert_int_equal(owed(&w, START + 100 * MS), 0);
  assert_int_equal(w.stock->lost, 8);
  world_close(&w);
}

static void who_goes_idle_owes_all_lots(void **state) {
  world w;
  (void)state;
  world_open(&w, "sliding-window:100/1s,lease=20ms");
  world_grant(&w, START, 3);
  world_grant(&w, START + 1, 4);
  weir_stock_end(w.stock, &w.lease);
  assert_int_equal(room(&w, START + 1), 0);
  assert_int_equal(owed(&w, START + 1), 7);
  world_close(&w);
}

/* Two places are remembered; of a third it is known that it was lost. */
static void what_cannot_be_remembered_is_counted_as_lost(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/1ms,lease=20ms");
  for (int i = 0; i < 3; i++) {
    world_grant(&w, START + i * MS, 1 << i);
    w.places[0]++;
  }
  assert_int_equal(room(&w, START + 2 * MS), 4);
  assert_int_equal(owed(&w, START + 3 * MS), 3);
  assert_int_equal(w.stock->lost, 4);
  world_close(&w);
}

static void a_return_goes_to_the_counter_and_lane_of_the_charge(void **state) {
  static const struct {
    const char *rules;
    int64_t place, index, delta, seed;
  } cases[] = {{"sliding-window:100/1s,lease=20ms", 4 * 77 + 2, 77, INT64_C(5) << 30, 0},
               {"sliding-window:100/1s,lease=20ms", 4 * 77, 77, 5, 0},
               {"fixed-window:100/1s,lease=20ms", 77, 77, 5, 0},
               {"quota:100/1s,lease=20ms", START, START, 5, 2 * WEIR_COUNT_MOST}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    weir_operation operation = {.kind = WEIR_SUB};
    world_open(&w, cases[i].rules);
    assert_true(weir_rule_return(&w.stack.rules[0], cases[i].place, 5, &operation));
    assert_int_equal(operation.counter.index, cases[i].index);
    assert_int_equal(operation.delta, cases[i].delta);
    assert_int_equal(operation.seed, cases[i].seed);
    world_close(&w);
  }
  world w;
  weir_operation operation = {.kind = WEIR_SUB};
  world_open(&w, "token-bucket:100/1s,lease=20ms");
  assert_false(weir_rule_return(&w.stack.rules[0], 0, 5, &operation));
  world_close(&w);
}

/* A lot on its way back must not look as if the store had lost it. */
static void what_goes_back_is_not_held_against_the_store(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/1s,lease=20ms");
  w.settings.notices_loss = true;
  world_remember_charge(&w, START, 9);
  assert_int_equal(w.memo->expected[0].amount, 9);
  weir_lease_let_go(&w.lease, w.memo, 4, w.places);
  assert_int_equal(w.memo->expected[0].amount, 5);
  w.places[0]++; /* another cell: it is not watched */
  weir_lease_let_go(&w.lease, w.memo, 4, w.places);
  assert_int_equal(w.memo->expected[0].amount, 5);
  world_close(&w);
}

static void an_emptied_stock_has_nothing_and_owes_nothing(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/1ms,lease=20ms");
  world_grant(&w, START, 1);
  w.places[0]++;
  world_grant(&w, START + MS, 2);
  assert_int_equal(weir_stock_hold(w.stock, &w.lease, START + MS, 1, 0), 1);
  assert_true(weir_stock_owes(w.stock, &w.lease, START + MS));
  weir_stock_empty(w.stock, &w.lease);
  assert_int_equal(room(&w, START + MS), 0);
  assert_false(weir_stock_holds(w.stock, START + MS));
  assert_false(weir_stock_owes(w.stock, &w.lease, START + 9 * MS));
  assert_int_equal(w.stock->lost, 3);
  world_close(&w);
}

/* A lot is for the class by whose threshold it was charged, and for higher ones; lower ones go first. */
static void a_lot_is_of_no_use_to_a_lower_class(void **state) {
  enum { LOW = 1, HIGH = 2, NONE = 0 };
  world w;
  int64_t at_us;
  (void)state;
  world_open(&w, "fixed-window:100/1s,lease=20ms,classes=low:50%|high:80%");
  weir_stock_grant(w.stock, &w.lease, START, START, 5, w.places, HIGH);
  weir_stock_grant(w.stock, &w.lease, START, START, 3, w.places, LOW);
  assert_int_equal(weir_stock_room(w.stock, START, LOW), 3);
  assert_int_equal(weir_stock_room(w.stock, START, HIGH), 8);
  assert_int_equal(weir_stock_room(w.stock, START, NONE), 8);
  assert_false(weir_stock_use(w.stock, &w.lease, START, 4, &at_us, LOW));
  assert_true(weir_stock_use(w.stock, &w.lease, START, 2, &at_us, NONE));
  assert_int_equal(weir_stock_room(w.stock, START, LOW), 1);
  assert_true(weir_stock_use(w.stock, &w.lease, START, 4, &at_us, HIGH));
  assert_int_equal(weir_stock_room(w.stock, START, LOW), 0);
  assert_int_equal(weir_stock_room(w.stock, START, HIGH), 2);
  assert_int_equal(weir_stock_hold(w.stock, &w.lease, START, 9, LOW), 0);
  assert_int_equal(weir_stock_hold(w.stock, &w.lease, START, 1, NONE), 1);
  weir_stock_release(w.stock, &w.lease, START);
  assert_int_equal(weir_stock_room(w.stock, START, LOW), 0);
  assert_int_equal(weir_stock_room(w.stock, START, HIGH), 2);
  assert_true(weir_stock_put_back(w.stock, &w.lease, START, 1, START, LOW));
  assert_int_equal(weir_stock_room(w.stock, START, LOW), 0);
  assert_false(weir_stock_put_back(w.stock, &w.lease, START, 1, START, NONE));
  world_close(&w);
}

/* Five lots: two are usable, one is the group's that is under way, and two go back. docs/leases.md has
 * these figures. */
static void a_leased_key_takes_520_bytes(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:100/1s,lease=20ms");
  assert_int_equal(sizeof(weir_lot), 40);
  assert_int_equal(weir_leased_bytes(&w.stack), 520);
  world_close(&w);
  world_open(&w, "fixed-window:100/1s,lease=20ms;quota:100/1h,lease=20ms");
  assert_int_equal(weir_leased_bytes(&w.stack), 520 + 5 * 8);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lot_is_of_no_use_to_a_lower_class),
      cmocka_unit_test(a_lot_is_usable_from_its_stamp_for_a_lease),
      cmocka_unit_test(a_lot_ends_with_the_cell_that_was_charged),
      cmocka_unit_test(a_quota_may_begin_after_the_stamp),
      cmocka_unit_test(what_does_not_fit_into_the_lots_is_not_used),
      cmocka_unit_test(two_lots_live_at_once),
      cmocka_unit_test(a_third_lot_joins_one_of_the_same_cell_and_shortens_it),
      cmocka_unit_test(a_use_of_a_window_is_stamped_when_it_happens),
      cmocka_unit_test(a_use_of_a_bucket_is_stamped_as_its_charge),
      cmocka_unit_test(a_request_takes_its_own_lots_first),
      cmocka_unit_test(what_was_held_for_a_denied_request_is_usable_again),
      cmocka_unit_test(what_is_held_ends_like_a_lot),
      cmocka_unit_test(what_ended_is_owed_with_the_place_of_its_charge),
      cmocka_unit_test(nothing_of_a_bucket_is_owed),
      cmocka_unit_test(who_goes_idle_owes_all_lots),
      cmocka_unit_test(what_cannot_be_remembered_is_counted_as_lost),
      cmocka_unit_test(a_return_goes_to_the_counter_and_lane_of_the_charge),
      cmocka_unit_test(what_goes_back_is_not_held_against_the_store),
      cmocka_unit_test(an_emptied_stock_has_nothing_and_owes_nothing),
      cmocka_unit_test(a_leased_key_takes_520_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
