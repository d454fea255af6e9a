/* sliding-window, by hand. Figures are worked out in the comments: S is the width of a cell, r what
 * is still inside of the cell at the far edge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/world.h"

static void counts_a_full_window_whole(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  /* The charges are in cell 0, which leaves at 75 s - 1 us. */
  for (int64_t remaining = 7; remaining >= 0; remaining--)
    assert_allowed(world_take(&w, "k", 1), remaining, 75 * SECOND_US - 1);
  /* 1 + 8r/S rounds to 8 from r = 14062499 on, which is 937500 us into the edge cell. */
  assert_denied(world_take(&w, "k", 1), 0, 60937500, 75 * SECOND_US - 1);
  world_set(&w, 30 * SECOND_US);
  assert_denied(world_take(&w, "k", 1), 0, 30937500, 45 * SECOND_US - 1);
  world_close(&w);
}

static void frees_the_edge_cell_by_and_by(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  world_take(&w, "k", 8);
  world_set(&w, 60937499);
  assert_denied(world_take(&w, "k", 1), 0, 1, 14062500);
  world_set(&w, 60937500);
  assert_allowed(world_take(&w, "k", 1), 0, 74062499);
  world_close(&w);
}

/* r = 1874999, so the estimate counts 8r/S = 1 and would leave 7; but cell 0 whole and 12 as upper
 * bound leave 4. */
static void never_goes_beyond_the_upper_bound(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  world_take(&w, "k", 8);
  world_set(&w, 73125000);
  assert_denied(world_peek(&w, "k", 5), 4, 1874999, 1874999);
  assert_allowed(world_take(&w, "k", 4), 0, 61874999);
  world_close(&w);
}

static void strict_waits_until_the_edge_cell_is_out(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m,strict", NULL);
  world_take(&w, "k", 8);
  world_set(&w, 60 * SECOND_US);
  assert_denied(world_take(&w, "k", 1), 0, 14999999, 14999999);
  world_set(&w, 75 * SECOND_US - 1);
  assert_allowed(world_take(&w, "k", 8), 0, 60 * SECOND_US);
  world_close(&w);
}

/* Two windows: at half of the second one, half of the first counts: 10 * 29999999 / 60000000 = 5.
 */
static void one_cell_is_the_estimate_over_two_windows(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:10/1m,cells=1", NULL);
  world_set(&w, 30 * SECOND_US);
  assert_allowed(world_take(&w, "k", 10), 0, 90 * SECOND_US - 1);
  world_set(&w, 90 * SECOND_US);
  assert_allowed(world_peek(&w, "k", 5), 5, 30 * SECOND_US - 1);
  assert_allowed(world_take(&w, "k", 5), 0, 90 * SECOND_US - 1);
  world_close(&w);
}

/* One a second; after 64 s the first one counts until r < S/2. */
static void sixty_four_cells_let_go_one_by_one(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:64/64s,cells=64", NULL);
  for (int64_t second = 0; second < 64; second++) {
    world_set(&w, second * SECOND_US);
    assert_allowed(world_take(&w, "k", 1), 63 - second, 65 * SECOND_US - 1);
  }
  world_set(&w, 64 * SECOND_US);
  assert_denied(world_take(&w, "k", 1), 0, 500000, 64 * SECOND_US - 1);
  world_set(&w, 64500000);
  assert_allowed(world_take(&w, "k", 1), 0, 64500000 - 1);
  world_close(&w);
}

/* The denied request is in cell 4: 1 + 1 + 4r/S rounds to 4 from r = 9374999 on. */
static void keeps_denied_requests_charged_where_all_count(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:4/1m,count=all", NULL);
  world_take(&w, "k", 4);
  world_set(&w, 60 * SECOND_US);
  assert_denied(world_take(&w, "k", 1), 0, 5625000, 75 * SECOND_US - 1);
  world_set(&w, 65624999);
  assert_denied(world_peek(&w, "k", 1), 0, 1, 75 * SECOND_US - 1 - 5624999);
  world_set(&w, 65625000);
  assert_allowed(world_take(&w, "k", 1), 0, 75 * SECOND_US - 1 - 5625000);
  world_close(&w);
}

static void starts_at_the_epoch(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:3/400d,cells=64", NULL);
  w.clock.now_us = 0;
  assert_true(world_take(&w, "k", 3).allowed);
  assert_false(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_a_full_window_whole),
      cmocka_unit_test(frees_the_edge_cell_by_and_by),
      cmocka_unit_test(never_goes_beyond_the_upper_bound),
      cmocka_unit_test(strict_waits_until_the_edge_cell_is_out),
      cmocka_unit_test(one_cell_is_the_estimate_over_two_windows),
      cmocka_unit_test(sixty_four_cells_let_go_one_by_one),
      cmocka_unit_test(keeps_denied_requests_charged_where_all_count),
      cmocka_unit_test(starts_at_the_epoch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
