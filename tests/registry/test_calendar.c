/* Months and years of the calendar, held against the C library's. */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "registry/registry.h"

static void check(int64_t at_s) {
  struct tm parts;
  time_t at = (time_t)at_s;
  char text[64];
  gmtime_r(&at, &parts);
  for (weir_config_unit unit = WEIR_CONFIG_MONTH; unit <= WEIR_CONFIG_YEAR; unit++) {
    bool is_month = unit == WEIR_CONFIG_MONTH;
    weir_calendar found = weir_calendar_at(unit, at_s);
    strftime(text, sizeof text, is_month ? "/%Y-%m" : "/%Y", &parts);
    assert_string_equal(found.text, text);
    assert_int_equal(found.length, strlen(text));
    struct tm next = {.tm_year = parts.tm_year + !is_month, .tm_mday = 1};
    if (is_month) next.tm_mon = parts.tm_mon + 1;
    assert_int_equal(found.end_s, timegm(&next));
  }
}

static void test_every_day_of_200_years(void **state) {
  (void)state;
  for (int64_t day = 0; day < 200 * 366; day++) {
    check(day * 86400);
    check(day * 86400 + 86399);
  }
}

static void test_a_few_moments(void **state) {
  (void)state;
  assert_string_equal(weir_calendar_at(WEIR_CONFIG_MONTH, 951782399).text, "/2000-02");
  assert_int_equal(weir_calendar_at(WEIR_CONFIG_MONTH, 951782399).end_s, 951868800);
  assert_string_equal(weir_calendar_at(WEIR_CONFIG_YEAR, 4102444799).text, "/2099");
  assert_int_equal(weir_calendar_at(WEIR_CONFIG_YEAR, 4102444799).end_s, 4102444800);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_day_of_200_years),
      cmocka_unit_test(test_a_few_moments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
