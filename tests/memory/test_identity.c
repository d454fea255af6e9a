/* Limiters name their counters in a memory store without a text: what is one counter by its text is
 * one all the same, and what is not is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/world.h"

static const weir_limiter_options forgetful = {
    .size = sizeof forgetful, .flags = WEIR_NO_CACHED_CELLS | WEIR_NO_LOCAL_DENIAL};

/* How many of 20 are admitted in turns. */
static int count_admitted(weir_limiter *one, const char *key, weir_limiter *other,
                          const char *other_key) {
  int admitted = 0;
  for (int i = 0; i < 10; i++) {
    admitted += limiter_take(one, key, 1).allowed;
    admitted += limiter_take(other, other_key, 1).allowed;
  }
  return admitted;
}

static int run_two(const char *rules, const char *other_rules, const char *other_key) {
  world w;
  world_open(&w, "memory:", rules, &forgetful);
  weir_limiter *other = world_limiter(&w, other_rules, &forgetful);
  int admitted = count_admitted(w.limiter, "key", other, other_key);
  weir_limiter_destroy(other);
  world_close(&w);
  return admitted;
}

static void limiters_of_one_rule_count_together(void **state) {
  static const char *const rules[] = {"fixed-window:6/1h", "sliding-window:6/1h",
                                      "sliding-log:6/1h", "quota:6/1h", "token-bucket:6/1h"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    assert_int_equal(run_two(rules[i], rules[i], "key"), 6);
    assert_int_equal(run_two(rules[i], rules[i], "kez"), 12);
  }
}

static void a_rule_is_the_same_at_another_place_of_a_stack(void **state) {
  (void)state;
  assert_int_equal(run_two("fixed-window:6/1h", "fixed-window:1000/1m;fixed-window:6/1h", "key"),
                   6);
}

static void rules_of_other_names_count_apart(void **state) {
  (void)state;
  assert_int_equal(run_two("fixed-window:6/1h", "fixed-window:6/1h,name=other", "key"), 12);
}

static void a_key_too_long_for_any_text_is_found_again(void **state) {
  char key[2000];
  (void)state;
  memset(key, '%', sizeof key);
  key[sizeof key - 1] = '\0';
  world w;
  world_open(&w, "memory:", "fixed-window:6/1h", &forgetful);
  assert_int_equal(count_admitted(w.limiter, key, w.limiter, key), 6);
  key[sizeof key - 2] = 'x';
  assert_int_equal(count_admitted(w.limiter, key, w.limiter, key), 6);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(limiters_of_one_rule_count_together),
      cmocka_unit_test(a_rule_is_the_same_at_another_place_of_a_stack),
      cmocka_unit_test(rules_of_other_names_count_apart),
      cmocka_unit_test(a_key_too_long_for_any_text_is_found_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
