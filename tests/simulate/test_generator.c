#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/generator.h"

static const char *const kinds[] = {"uniform", "poisson",  "bursts", "diurnal",
                                    "pages",   "boundary", "paced"};
enum { KINDS = sizeof kinds / sizeof *kinds };

static weir_generator *create(const char *text, int64_t limit, int64_t period_us) {
  const weir_stack stack = {.rules = {{.limit = limit, .period_us = period_us}}};
  weir_message why = {""};
  weir_generator *generator = weir_generator_create(text, &stack, &why);
  if (generator == NULL) fail_msg("%s", why.text);
  return generator;
}

static void every_kind_comes_in_order_and_ends(void **state) {
  (void)state;
  for (int i = 0; i < KINDS; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s:requests=5000,keys=7,load=90", kinds[i]);
    weir_generator *generator = create(text, 20, 60000000);
    weir_arrival arrival;
    int64_t before_us = 0;
    int count = 0;
    while (weir_generator_next(generator, &arrival)) {
      assert_true(arrival.time_us >= before_us);
      assert_memory_equal(arrival.key, "key", 3);
      before_us = arrival.time_us;
      count++;
    }
    assert_int_equal(count, 5000);
    assert_false(weir_generator_next(generator, &arrival));
    weir_generator_destroy(generator);
  }
}

/* Boundary and paced have a load of their own. */
static void every_key_asks_for_its_load(void **state) {
  (void)state;
  for (int i = 0; i < KINDS - 2; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s:requests=200000,keys=10,load=50", kinds[i]);
    weir_generator *generator = create(text, 100, 60000000);
    weir_arrival arrival;
    int64_t first_us = -1, last_us = 0;
    while (weir_generator_next(generator, &arrival)) {
      if (first_us < 0) first_us = arrival.time_us;
      last_us = arrival.time_us;
    }
    /* 50 a minute and key, 500 in all: 400 minutes; a day's wave is not whole in that time */
    int64_t minutes = (last_us - first_us) / 60000000;
    if (strcmp(kinds[i], "diurnal") == 0)
      assert_in_range(minutes, 400, 900);
    else
      assert_in_range(minutes, 340, 460);
    weir_generator_destroy(generator);
  }
}

static void the_same_text_gives_the_same_traffic_and_another_seed_does_not(void **state) {
  (void)state;
  weir_generator *one = create("bursts:requests=2000,seed=5", 10, 1000000);
  weir_generator *same = create("bursts:requests=2000,seed=5", 10, 1000000);
  weir_generator *other = create("bursts:requests=2000,seed=6", 10, 1000000);
  weir_arrival a, b, c;
  bool differs = false;
  while (weir_generator_next(one, &a)) {
    assert_true(weir_generator_next(same, &b));
    assert_true(weir_generator_next(other, &c));
    assert_int_equal(a.time_us, b.time_us);
    assert_int_equal(a.key_length, b.key_length);
    assert_memory_equal(a.key, b.key, a.key_length);
    differs = differs || a.time_us != c.time_us;
  }
  assert_true(differs);
  weir_generator_destroy(one);
  weir_generator_destroy(same);
  weir_generator_destroy(other);
}

static void boundary_asks_for_the_limit_on_both_sides_of_an_edge(void **state) {
  (void)state;
  weir_generator *generator = create("boundary:requests=20,keys=1", 10, 60000000);
  weir_arrival arrival;
  int before = 0, after = 0;
  while (weir_generator_next(generator, &arrival)) {
    int64_t phase_us = arrival.time_us % 60000000;
    before += phase_us >= 59000000;
    after += phase_us < 1000000;
  }
  assert_int_equal(before, 10);
  assert_int_equal(after, 10);
  weir_generator_destroy(generator);
}

static void text_that_means_nothing_is_refused_by_name(void **state) {
  static const struct {
    const char *text, *named;
  } bad[] = {{"", "poisson"},
             {"flood", "flood"},
             {"poisson:", "\"\""},
             {"poisson:rate=5", "rate=5"},
             {"poisson:keys=0", "1 to 1000000"},
             {"poisson:keys=1000001", "1 to 1000000"},
             {"poisson:load=5x", "load=5x"},
             {"poisson:seed=99999999999999999999999", "seed="},
             {"poisson:keys=5,,load=3", "\"\""},
             {"poisson:classes=101", "1 to 100"},
             {"poisson:classes=50", "needs a rule that has some"}};
  const weir_stack stack = {.rules = {{.limit = 10, .period_us = 1000000}}};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    weir_message why = {""};
    assert_null(weir_generator_create(bad[i].text, &stack, &why));
    if (strstr(why.text, bad[i].named) == NULL) fail_msg("%s: %s", bad[i].text, why.text);
  }
}

/* The moments and keys are those without classes. */
static void so_many_percent_are_of_a_class_and_of_each_as_many(void **state) {
  weir_stack stack;
  weir_message why = {""};
  weir_arrival arrival, other;
  int of[3] = {0};
  (void)state;
  assert_int_equal(weir_stack_parse("fixed-window:10/1m,classes=low:20%|mid:40%", 1, &stack, &why),
                   WEIR_OK);
  weir_generator *classed = weir_generator_create("bursts:requests=30000,classes=60", &stack, &why);
  weir_generator *plain = weir_generator_create("bursts:requests=30000", &stack, &why);
  while (weir_generator_next(classed, &arrival)) {
    assert_true(weir_generator_next(plain, &other));
    assert_int_equal(arrival.time_us, other.time_us);
    assert_int_equal(arrival.key_length, other.key_length);
    assert_string_equal(other.class_name, "");
    of[weir_stack_find_class(&stack, arrival.class_name)]++;
  }
  assert_in_range(of[0], 11700, 12300);
  assert_in_range(of[1], 8700, 9300);
  assert_in_range(of[2], 8700, 9300);
  weir_generator_destroy(classed);
  weir_generator_destroy(plain);
}

static void large_limits_and_short_periods_still_go_on(void **state) {
  (void)state;
  for (int i = 0; i < KINDS; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s:requests=3000,keys=2", kinds[i]);
    weir_generator *generator = create(text, WEIR_LIMIT_MOST, WEIR_PERIOD_LEAST_US);
    weir_arrival arrival;
    int count = 0;
    while (weir_generator_next(generator, &arrival))
      count++;
    assert_int_equal(count, 3000);
    weir_generator_destroy(generator);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_comes_in_order_and_ends),
      cmocka_unit_test(every_key_asks_for_its_load),
      cmocka_unit_test(the_same_text_gives_the_same_traffic_and_another_seed_does_not),
      cmocka_unit_test(boundary_asks_for_the_limit_on_both_sides_of_an_edge),
      cmocka_unit_test(text_that_means_nothing_is_refused_by_name),
      cmocka_unit_test(so_many_percent_are_of_a_class_and_of_each_as_many),
      cmocka_unit_test(large_limits_and_short_periods_still_go_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
