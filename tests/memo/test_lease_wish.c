/* How much is charged ahead, and who gives way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lease_world.h"

/* --- the wish ----------------------------------------------------------------------------------
 */

static int64_t wish(world *w, int64_t now_us, int64_t cost) {
  return weir_stock_wish(w->stock, &w->lease, w->memo, now_us, cost,
                         weir_stack_least_capacity(&w->stack));
}

static void count(world *w, int64_t now_us, int times) {
  for (int i = 0; i < times; i++)
    weir_stock_count(w->stock, &w->lease, now_us, 1);
}

static void wishes_for_what_was_asked_in_the_last_half_lease(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:1000/10s,lease=20ms");
  world_remember_charge(&w, START, 1);
  count(&w, START, 12);
  assert_int_equal(wish(&w, START + 1, 1), 12);
  count(&w, START + 10 * MS, 6); /* the next half */
  assert_int_equal(wish(&w, START + 10 * MS, 1), 18);
  assert_int_equal(wish(&w, START + 15 * MS, 1), 12);
  assert_int_equal(wish(&w, START + 20 * MS, 1), 6);
  count(&w, START + 60 * MS, 5); /* long after */
  assert_int_equal(wish(&w, START + 60 * MS, 1), 5);
  world_close(&w);
}

static void wishes_for_nothing_where_little_is_asked(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:1000/10s,lease=20ms");
  world_remember_charge(&w, START, 1);
  count(&w, START, 3);
  assert_int_equal(wish(&w, START, 1), 0);
  count(&w, START, 1);
  assert_int_equal(wish(&w, START, 1), 4);
  world_close(&w);
}

static void wishes_for_nothing_where_nothing_is_known(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:1000/10s,lease=20ms");
  count(&w, START, 100);
  assert_int_equal(wish(&w, START, 1), 0);
  world_close(&w);
}

static void wishes_for_its_share_of_a_window(void **state) {
  static const char *const rules[] = {"fixed-window:100/10s,lease=20ms",
                                      "sliding-window:100/10s,strict,lease=20ms",
                                      "quota:100/10s,lease=20ms"};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    world w;
    world_open(&w, rules[i]);
    world_remember_charge(&w, START, 9);
    count(&w, START, 1000);
    assert_int_equal(wish(&w, START, 11), 20); /* of 4 processes, of 80 */
    assert_int_equal(wish(&w, START, 79), 0);
    world_close(&w);
  }
}

static void wishes_for_what_drains_of_a_bucket_in_a_lease(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,burst=50000,lease=100ms");
  world_remember_charge(&w, START, 9);
  count(&w, START, 1000);
  assert_int_equal(wish(&w, START, 11), 100);
  world_grant(&w, START, 30);
  assert_int_equal(wish(&w, START, 11), 70);
  world_close(&w);
  world_open(&w, "token-bucket:1000/1d,burst=50000,lease=100ms");
  world_remember_charge(&w, START, 9);
  count(&w, START, 1000);
  assert_int_equal(wish(&w, START, 11), 0);
  world_close(&w);
}

static void wishes_for_what_a_bucket_has_left(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,burst=50000,lease=100ms"); /* B' is 49900 */
  world_remember_charge(&w, START, 49850);
  count(&w, START, 1000);
  assert_int_equal(wish(&w, START, 11), 39);
  assert_int_equal(wish(&w, START + 50 * MS, 11), 89);
  world_close(&w);
}

/* --- what a bucket may lose --------------------------------------------------------------------
 */

/* B' is 5120, of which 20 may be lost; of what is admitted then one in 256. */
static void risks_of_a_bucket_what_it_has_not_lost(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,burst=5220,lease=100ms");
  world_remember_charge(&w, START, 2000);
  count(&w, START, 1000);
  assert_int_equal(wish(&w, START, 1), 20);
  world_grant(&w, START, 12);
  assert_int_equal(wish(&w, START, 1), 8);
  count(&w, START + 100 * MS, 1000); /* it has ended */
  assert_false(weir_stock_owes(w.stock, &w.lease, START + 100 * MS));
  assert_int_equal(w.stock->lost, 12);
  assert_int_equal(wish(&w, START + 100 * MS, 1), 8);
  weir_stock_earn(w.stock, &w.lease, w.memo, START + 100 * MS, 512, 512);
  assert_int_equal(wish(&w, START + 100 * MS, 1), 10);
  weir_stock_earn(w.stock, &w.lease, w.memo, START + 100 * MS, 1000000, 512);
  assert_int_equal(wish(&w, START + 100 * MS, 1), 100); /* and no more for later */
  world_grant(&w, START + 100 * MS, 90);
  count(&w, START + 200 * MS, 1000);
  assert_false(weir_stock_owes(w.stock, &w.lease, START + 200 * MS));
  assert_int_equal(wish(&w, START + 200 * MS, 1), 10);
  world_close(&w);
}

static void a_use_earns_what_may_be_lost(void **state) {
  world w;
  int64_t at_us;
  (void)state;
  world_open(&w, "token-bucket:100000/1s,burst=50000,lease=100ms"); /* B' is 40000: 156 */
  world_remember_charge(&w, START, 9);
  count(&w, START, 1000);
  world_grant(&w, START, 1280);
  assert_true(weir_stock_use(w.stock, &w.lease, START, 1280, &at_us, 0));
  assert_int_equal(wish(&w, START, 1), 161);
  world_close(&w);
}

/* A loss is not missed where the bucket was full since. */
static void forgets_a_loss_when_the_bucket_was_full(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,burst=5220,lease=100ms");
  world_remember_charge(&w, START, 50);
  count(&w, START, 1000);
  world_grant(&w, START, 20);
  assert_false(weir_stock_owes(w.stock, &w.lease, START + 100 * MS));
  count(&w, START + 100 * MS, 1000);
  assert_int_equal(wish(&w, START + 100 * MS, 1), 0);
  weir_stock_earn(w.stock, &w.lease, w.memo, START, 0, 49); /* one was there before these */
  assert_int_equal(wish(&w, START + 100 * MS, 1), 0);
  weir_stock_earn(w.stock, &w.lease, w.memo, START, 0, 50);
  assert_int_equal(wish(&w, START + 100 * MS, 1), 20);
  world_close(&w);
}

static void wishes_for_no_more_than_a_group_may_charge(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,burst=50000,lease=100ms");
  world_remember_charge(&w, START, 1);
  count(&w, START, 1000);
  assert_int_equal(weir_stock_wish(w.stock, &w.lease, w.memo, START, 10, 25), 15);
  assert_int_equal(weir_stock_wish(w.stock, &w.lease, w.memo, START, 25, 25), 0);
  world_close(&w);
}

static void wishes_for_what_the_lots_lack_and_the_cell_can_use(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:1000/1s,lease=20ms");
  world_remember_charge(&w, START, 1);
  count(&w, START, 40);
  world_grant(&w, START, 8);
  assert_int_equal(wish(&w, START, 1), 32);
  world_close(&w);
  world_open(&w, "fixed-window:1000/1s,lease=20ms");
  world_remember_charge(&w, START + 995 * MS, 1);
  count(&w, START + 995 * MS, 40);
  assert_int_equal(wish(&w, START + 995 * MS, 1), 20);
  world_close(&w);
}

/* --- pace --------------------------------------------------------------------------------------
 */

static void pace(world *w, int64_t got, unsigned conflicts, uint32_t random) {
  count(w, START, 100);
  wish(w, START, 1);
  const weir_harvest harvest = {.got = got, .conflicts = conflicts, .random = random};
  weir_stock_pace(w->stock, &w->lease, w->memo, START, &harvest);
}

static bool paused(const world *w, int64_t now_us) {
  return weir_stock_is_paused(w->stock, &w->lease, now_us);
}

static void who_gets_less_than_half_gives_way_for_a_quarter_of_a_lease(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:10000/1s,burst=100000,lease=40ms");
  world_remember_charge(&w, START, 1);
  pace(&w, 50, 0, 0);
  assert_false(paused(&w, START));
  pace(&w, 99, 0, 0);
  assert_true(paused(&w, START + 5 * MS - 1)); /* half to whole, at random */
  assert_false(paused(&w, START + 5 * MS));
  world_close(&w);
  world_open(&w, "token-bucket:10000/1s,burst=100000,lease=40ms");
  world_remember_charge(&w, START, 1);
  pace(&w, 49, 0, 5 * MS);
  assert_true(paused(&w, START + 10 * MS - 1));
  assert_false(paused(&w, START + 10 * MS));
  assert_false(paused(&w, START - 200 * MS)); /* the clock was set back */
  world_close(&w);
}

/* Until the time of so many turns is over as there may be processes: this one had 1 ms of one. */
static void who_got_it_gives_way_in_a_bucket_that_is_almost_used_up(void **state) {
  world w;
  weir_harvest harvest = {.got = 4, .charged = 1, .random = 4 * MS};
  (void)state;
  world_open(&w, "token-bucket:1000/1s,burst=1100,lease=40ms"); /* room for 40 is enough for all */
  world_remember_charge(&w, START, 1030);
  w.memo->expected[0].share = (weir_share){.mine = 1, .all = 4};
  count(&w, START, 100);
  assert_int_equal(wish(&w, START, 1), 4);
  weir_stock_pace(w.stock, &w.lease, w.memo, START, &harvest);
  assert_false(paused(&w, START)); /* as it may be a burst */
  w.stock->short_since_us = START - 100 * MS;
  assert_int_equal(wish(&w, START, 1), 4);
  weir_stock_pace(w.stock, &w.lease, w.memo, START, &harvest);
  assert_true(paused(&w, START + 2 * MS - 1));
  assert_false(paused(&w, START + 4 * MS + 1));
  harvest.charged = 1000; /* but no longer than the bucket needs to have that room */
  wish(&w, START, 1);
  weir_stock_pace(w.stock, &w.lease, w.memo, START, &harvest);
  assert_true(paused(&w, START + 5 * MS - 1));
  assert_false(paused(&w, START + 10 * MS + 1));
  wish(&w, START + 20 * MS, 1);
  weir_stock_pace(w.stock, &w.lease, w.memo, START + 20 * MS, &harvest); /* it has */
  assert_false(paused(&w, START + 20 * MS));
  w.memo->expected[0].share = (weir_share){.mine = 31, .all = 32}; /* nobody else is there */
  wish(&w, START + 5 * MS, 1);
  weir_stock_pace(w.stock, &w.lease, w.memo, START + 11 * MS, &harvest);
  assert_false(paused(&w, START + 11 * MS));
  world_close(&w);
}

static void conflicts_double_the_pause(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:10000/1s,burst=100000,lease=40ms");
  world_remember_charge(&w, START, 1);
  pace(&w, 0, 2, 20 * MS);
  assert_true(paused(&w, START + 40 * MS - 1));
  assert_false(paused(&w, START + 40 * MS));
  pace(&w, 0, 9, 50 * MS); /* local_denial at the most */
  assert_true(paused(&w, START + 100 * MS - 1));
  assert_false(paused(&w, START + 100 * MS));
  pace(&w, 0, 0, 5 * MS); /* and none counts for the next time */
  assert_true(paused(&w, START + 10 * MS - 1));
  assert_false(paused(&w, START + 10 * MS));
  world_close(&w);
}

static void who_is_alone_or_wants_nothing_gives_way_to_nobody(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:10000/1s,burst=100000,lease=40ms");
  world_remember_charge(&w, START, 1);
  const weir_harvest harvest = {.conflicts = 3};
  weir_stock_pace(w.stock, &w.lease, w.memo, START, &harvest); /* without a wish */
  assert_false(paused(&w, START));
  w.settings.processes = 1;
  pace(&w, 0, 3, 0);
  assert_false(paused(&w, START));
  world_close(&w);
}

/* --- where there is hardly room ----------------------------------------------------------------
 */

/* An answer from 80 ms away says that so much of it is charged. */
static bool tight(world *w, int64_t now_us, int64_t charged) {
  const weir_harvest harvest = {.trip_us = 80 * MS};
  world_remember_charge(w, now_us, charged);
  count(w, now_us, 100);
  wish(w, now_us, 1);
  weir_stock_pace(w->stock, &w->lease, w->memo, now_us, &harvest);
  return weir_stock_is_tight(w->stock, &w->lease, now_us);
}

/* Less than one part in 32; then until there is four times that, as what others leave comes and goes. */
static void a_window_stays_tight_until_there_is_clearly_room(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:3200/10s,lease=200ms");
  assert_false(tight(&w, START, 3100));
  assert_true(tight(&w, START + 1, 3101));
  assert_true(tight(&w, START + 2, 3100));
  assert_true(tight(&w, START + 3, 2801));
  assert_false(tight(&w, START + 4, 2800));
  assert_false(tight(&w, START + 5, 3100));
  world_close(&w);
}

/* A process that holds what is asked in a trip may ask for more. */
static void who_holds_enough_is_not_tight(void **state) {
  world w;
  (void)state;
  world_open(&w, "fixed-window:3200/10s,lease=200ms");
  assert_true(tight(&w, START, 3190));
  world_grant(&w, START, w.stock->need - 1);
  assert_true(weir_stock_is_tight(w.stock, &w.lease, START));
  world_grant(&w, START, 1);
  assert_false(weir_stock_is_tight(w.stock, &w.lease, START));
  world_close(&w);
}

/* A burst may have all of a bucket. */
static void a_bucket_is_tight_when_it_has_been_so_for_a_lease(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:10000/1s,burst=12000,lease=200ms"); /* B' is 10000 */
  assert_false(tight(&w, START, 9990));
  assert_false(tight(&w, START + 100 * MS, 9000)); /* more than is asked, but not clearly */
  assert_true(tight(&w, START + 200 * MS, 9000));
  assert_false(tight(&w, START + 2000 * MS, 1000));
  assert_false(tight(&w, START + 2100 * MS, 8990));
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wishes_for_what_was_asked_in_the_last_half_lease),
      cmocka_unit_test(wishes_for_nothing_where_little_is_asked),
      cmocka_unit_test(wishes_for_nothing_where_nothing_is_known),
      cmocka_unit_test(wishes_for_its_share_of_a_window),
      cmocka_unit_test(wishes_for_what_drains_of_a_bucket_in_a_lease),
      cmocka_unit_test(wishes_for_what_a_bucket_has_left),
      cmocka_unit_test(risks_of_a_bucket_what_it_has_not_lost),
      cmocka_unit_test(a_use_earns_what_may_be_lost),
      cmocka_unit_test(forgets_a_loss_when_the_bucket_was_full),
      cmocka_unit_test(wishes_for_no_more_than_a_group_may_charge),
      cmocka_unit_test(wishes_for_what_the_lots_lack_and_the_cell_can_use),
      cmocka_unit_test(who_gets_less_than_half_gives_way_for_a_quarter_of_a_lease),
      cmocka_unit_test(who_got_it_gives_way_in_a_bucket_that_is_almost_used_up),
      cmocka_unit_test(conflicts_double_the_pause),
      cmocka_unit_test(who_is_alone_or_wants_nothing_gives_way_to_nobody),
      cmocka_unit_test(a_window_stays_tight_until_there_is_clearly_room),
      cmocka_unit_test(who_holds_enough_is_not_tight),
      cmocka_unit_test(a_bucket_is_tight_when_it_has_been_so_for_a_lease),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
