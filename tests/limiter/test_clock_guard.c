/* Clocks that step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/world.h"

static void holds_a_small_step_back(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", NULL);
  world_set(&w, 60 * SECOND_US);
  assert_allowed(world_take(&w, "k", 1), 0, 60 * SECOND_US);
  world_set(&w,
            59 * SECOND_US); /* exactly 1 s: the window before has room, but time stands still */
  assert_denied(world_take(&w, "k", 1), 0, 60 * SECOND_US, 60 * SECOND_US);
  world_close(&w);
}

static void follows_a_large_step_back(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", NULL);
  world_set(&w, 60 * SECOND_US);
  world_take(&w, "k", 1);
  world_set(&w, 59 * SECOND_US - 1);
  assert_allowed(world_take(&w, "k", 1), 0, SECOND_US + 1);
  world_close(&w);
}

static void holds_back_as_much_as_clocks_may_differ(void **state) {
  world w;
  weir_limiter_options options = {.clock_error_us = 5 * SECOND_US};
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", &options);
  world_set(&w, 60 * SECOND_US);
  world_take(&w, "k", 1);
  world_set(&w, 55 * SECOND_US);
  assert_false(world_take(&w, "k", 1).allowed);
  world_set(&w, 55 * SECOND_US - 1);
  assert_true(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

static void goes_on_when_the_clock_has_caught_up(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1s", NULL);
  world_set(&w, 500000);
  world_take(&w, "k", 1);
  world_set(&w, 100000);
  assert_denied(world_take(&w, "k", 1), 0, 500000, 500000);
  world_set(&w, SECOND_US);
  assert_true(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

/* A clock that was ahead and set right charged cells of the future: nobody is denied for long. */
static void recovers_from_a_clock_that_was_far_ahead(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:4/1m", NULL);
  world_set(&w, 3600 * SECOND_US);
  world_take(&w, "k", 4);
  assert_false(world_take(&w, "k", 1).allowed);
  world_set(&w, 0);
  assert_allowed(world_take(&w, "k", 4), 0, 75 * SECOND_US - 1);
  world_close(&w);
}

static void keeps_a_clock_within_the_years_it_can_count(void **state) {
  static const int64_t odd[] = {INT64_MIN, -1, 0, INT64_C(253402300799999999), INT64_MAX};
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:4/400d,cells=64;fixed-window:4/1ms", NULL);
  for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    w.clock.now_us = odd[i];
    world_peek(&w, "k", 1);
    world_take(&w, "k", 1);
  }
  world_close(&w);
}

/* Steps of the clock to and fro, all smaller than what is held back: how far the stamps of
 * decisions ever fall behind a later one. */
static int64_t furthest_back_us(int64_t clock_error_us) {
  static const int64_t steps[] = {70, -30, 45, -60, 90, -99, 300, -250, 20, 1, -1, 99, -50, 101};
  world w;
  weir_limiter_options options = {.clock_error_us = clock_error_us};
  int64_t after_us = 0, latest_us = 0, furthest_us = 0;
  world_open(&w, "memory:", "fixed-window:1000000/1h", &options);
  for (size_t i = 0; i < 40 * sizeof steps / sizeof steps[0]; i++) {
    world_set(&w, after_us += steps[i % (sizeof steps / sizeof steps[0])]);
    int64_t at_us = world_take(&w, "k", 1).at_us;
    if (latest_us - at_us > furthest_us) furthest_us = latest_us - at_us;
    if (at_us > latest_us) latest_us = at_us;
  }
  world_close(&w);
  return furthest_us;
}

static void holds_time_to_within_a_hundredth_of_the_clock_error(void **state) {
  (void)state;
  assert_int_equal(furthest_back_us(1), 0);
  assert_in_range(furthest_back_us(5000), 0, 49);
  assert_in_range(furthest_back_us(10000), 1, 99); /* the most there is */
  assert_in_range(furthest_back_us(1000000), 1, 99);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_a_small_step_back),
      cmocka_unit_test(follows_a_large_step_back),
      cmocka_unit_test(holds_back_as_much_as_clocks_may_differ),
      cmocka_unit_test(goes_on_when_the_clock_has_caught_up),
      cmocka_unit_test(recovers_from_a_clock_that_was_far_ahead),
      cmocka_unit_test(keeps_a_clock_within_the_years_it_can_count),
      cmocka_unit_test(holds_time_to_within_a_hundredth_of_the_clock_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
