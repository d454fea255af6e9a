#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>

#include <cmocka.h>

#include "random.h"
#include "simulate/measure.h"

static void a_stamp_counts_until_it_is_a_period_old(void **state) {
  (void)state;
  weir_stamps stamps = {0};
  assert_true(weir_stamps_add(&stamps, 1000, 3, 2));
  weir_stamps_slide(&stamps, 1099, 100);
  assert_int_equal(stamps.counted, 3);
  assert_int_equal(stamps.admitted, 2);
  weir_stamps_slide(&stamps, 1100, 100);
  assert_int_equal(stamps.counted, 0);
  assert_int_equal(stamps.admitted, 0);
  weir_stamps_clean_up(&stamps);
}

static void sums_are_those_of_a_list_that_is_added_up(void **state) {
  enum { COUNT = 3000, PERIOD = 500 };
  static int64_t times[COUNT], costs[COUNT];
  (void)state;
  weir_stamps stamps = {0};
  uint64_t random = 1;
  int64_t now_us = 0;
  for (int i = 0; i < COUNT; i++) {
    now_us += weir_random_below(&random, 4) == 0 ? weir_random_below(&random, 200) : 0;
    times[i] = now_us;
    costs[i] = 1 + weir_random_below(&random, 9);
    weir_stamps_slide(&stamps, now_us, PERIOD);
    assert_true(weir_stamps_add(&stamps, now_us, costs[i], costs[i] / 2));
    int64_t counted = 0, admitted = 0;
    for (int j = 0; j <= i; j++) {
      if (times[j] <= now_us - PERIOD) continue;
      counted += costs[j];
      admitted += costs[j] / 2;
    }
    assert_int_equal(stamps.counted, counted);
    assert_int_equal(stamps.admitted, admitted);
  }
  weir_stamps_clean_up(&stamps);
}

static void memory_stays_with_what_is_in_the_period(void **state) {
  (void)state;
  weir_stamps stamps = {0};
  for (int64_t now_us = 0; now_us < 100000; now_us++) {
    weir_stamps_slide(&stamps, now_us, 10);
    assert_true(weir_stamps_add(&stamps, now_us, 1, 1));
  }
  assert_true(stamps.room <= 64);
  weir_stamps_clean_up(&stamps);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stamp_counts_until_it_is_a_period_old),
      cmocka_unit_test(sums_are_those_of_a_list_that_is_added_up),
      cmocka_unit_test(memory_stays_with_what_is_in_the_period),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
