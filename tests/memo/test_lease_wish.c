/* How much is charged ahead, and who gives way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lease_world.h"

/* --- the wish ----------------------------------------------------------------------------------
 */

static int64_t wish(world *w, int64_t now_us, int64_t cost) {
  return weir_purse_wish(w->purse, &w->lease, w->memo, now_us, cost,
                         weir_stack_least_capacity(&w->stack));
}

static void count(world *w, int64_t now_us, int times) {
  for (int i = 0; i < times; i++)
    weir_purse_count(w->purse, &w->lease, now_us, 1);
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

static void wishes_for_all_of_a_bucket(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:100/1s,lease=100ms");
  world_remember_charge(&w, START, 9);
  count(&w, START, 1000);
  assert_int_equal(wish(&w, START, 11), 70); /* of 90 */
  assert_int_equal(wish(&w, START + 50 * MS, 11), 75);
  world_close(&w);
}

static void wishes_for_no_more_than_a_group_may_charge(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:100/1s,lease=100ms");
  world_remember_charge(&w, START, 1);
  count(&w, START, 1000);
  assert_int_equal(weir_purse_wish(w.purse, &w.lease, w.memo, START, 10, 25), 15);
  assert_int_equal(weir_purse_wish(w.purse, &w.lease, w.memo, START, 25, 25), 0);
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
  weir_purse_pace(w->purse, &w->lease, START, got, conflicts, random);
}

static bool paused(const world *w, int64_t now_us) {
  return weir_purse_is_paused(w->purse, &w->lease, now_us);
}

static void who_gets_less_than_half_gives_way_for_a_quarter_of_a_lease(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,lease=40ms");
  world_remember_charge(&w, START, 1);
  pace(&w, 50, 0, 0);
  assert_false(paused(&w, START));
  pace(&w, 99, 0, 0);
  assert_true(paused(&w, START + 5 * MS - 1)); /* half to whole, at random */
  assert_false(paused(&w, START + 5 * MS));
  world_close(&w);
  world_open(&w, "token-bucket:1000/1s,lease=40ms");
  world_remember_charge(&w, START, 1);
  pace(&w, 49, 0, 5 * MS);
  assert_true(paused(&w, START + 10 * MS - 1));
  assert_false(paused(&w, START + 10 * MS));
  assert_false(paused(&w, START - 200 * MS)); /* the clock was set back */
  world_close(&w);
}

static void conflicts_double_the_pause_and_successes_shorten_it(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,lease=40ms");
  world_remember_charge(&w, START, 1);
  pace(&w, 0, 0, 0);
  assert_int_equal(w.purse->pause_us, 10 * MS);
  pace(&w, 0, 2, 0);
  assert_int_equal(w.purse->pause_us, 40 * MS);
  pace(&w, 0, 9, 0);
  assert_int_equal(w.purse->pause_us, 100 * MS);
  pace(&w, 1000, 0, 0);
  assert_int_equal(w.purse->pause_us, 90 * MS);
  for (int i = 0; i < 100; i++)
    pace(&w, INT32_MAX, 0, 0);
  assert_int_equal(w.purse->pause_us, 10 * MS);
  world_close(&w);
}

static void who_is_alone_or_wants_nothing_gives_way_to_nobody(void **state) {
  world w;
  (void)state;
  world_open(&w, "token-bucket:1000/1s,lease=40ms");
  world_remember_charge(&w, START, 1);
  weir_purse_pace(w.purse, &w.lease, START, 0, 3, 0); /* without a wish */
  assert_false(paused(&w, START));
  w.settings.processes = 1;
  pace(&w, 0, 3, 0);
  assert_false(paused(&w, START));
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wishes_for_what_was_asked_in_the_last_half_lease),
      cmocka_unit_test(wishes_for_nothing_where_little_is_asked),
      cmocka_unit_test(wishes_for_nothing_where_nothing_is_known),
      cmocka_unit_test(wishes_for_its_share_of_a_window),
      cmocka_unit_test(wishes_for_all_of_a_bucket),
      cmocka_unit_test(wishes_for_no_more_than_a_group_may_charge),
      cmocka_unit_test(wishes_for_what_the_lots_lack_and_the_cell_can_use),
      cmocka_unit_test(who_gets_less_than_half_gives_way_for_a_quarter_of_a_lease),
      cmocka_unit_test(conflicts_double_the_pause_and_successes_shorten_it),
      cmocka_unit_test(who_is_alone_or_wants_nothing_gives_way_to_nobody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
