/* peek changes nothing; reset forgets everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/world.h"

static void a_peek_at_an_unused_key_shows_it_empty(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  assert_allowed(world_peek(&w, "k", 8), 8, 0);
  world_close(&w);
}

static void a_peek_changes_nothing(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  world_take(&w, "k", 3);
  for (int i = 0; i < 10; i++)
    assert_allowed(world_peek(&w, "k", 5), 5, 75 * SECOND_US - 1);
  assert_false(world_peek(&w, "k", 6).allowed);
  assert_allowed(world_take(&w, "k", 5), 0, 75 * SECOND_US - 1);
  world_close(&w);
}

static void a_peek_changes_nothing_where_all_count(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m,count=all", NULL);
  world_take(&w, "k", 3);
  for (int i = 0; i < 10; i++)
    assert_false(world_peek(&w, "k", 6).allowed);
  assert_allowed(world_take(&w, "k", 5), 0, 75 * SECOND_US - 1);
  world_close(&w);
}

static void a_peek_that_never_fits_says_never(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  assert_denied(world_peek(&w, "k", 9), WEIR_NOT_KNOWN, WEIR_NEVER, WEIR_NOT_KNOWN);
  world_close(&w);
}

static void a_reset_forgets_every_cell(void **state) {
  static const char *const rules[] = {"sliding-window:64/64s,cells=64", "sliding-window:64/64s",
                                      "sliding-window:64/64s,cells=1", "fixed-window:64/64s",
                                      "sliding-window:64/64s,count=all;fixed-window:64/1h"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    world_open(&w, "memory:", rules[i], NULL);
    for (int64_t second = 0; second < 64; second++) {
      world_set(&w, second * SECOND_US);
      world_take(&w, "k", 1);
      world_take(&w, "other", 1);
    }
    world_reset(&w, "k");
    assert_allowed(world_peek(&w, "k", 64), 64, 0);
    assert_false(world_peek(&w, "other", 64).allowed);
    world_close(&w);
  }
}

static void a_reset_of_an_unused_key_is_fine(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  world_reset(&w, "k");
  assert_allowed(world_peek(&w, "k", 8), 8, 0);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_peek_at_an_unused_key_shows_it_empty),
      cmocka_unit_test(a_peek_changes_nothing),
      cmocka_unit_test(a_peek_changes_nothing_where_all_count),
      cmocka_unit_test(a_peek_that_never_fits_says_never),
      cmocka_unit_test(a_reset_forgets_every_cell),
      cmocka_unit_test(a_reset_of_an_unused_key_is_fine),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
