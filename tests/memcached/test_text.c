#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "memcached/codec.h"

static void numbers_are_written_in_decimal(void **state) {
  (void)state;
  static const struct {
    uint64_t number;
    const char *text;
  } cases[] = {{0, "0"}, {9, "9"}, {10, "10"}, {UINT64_MAX, "18446744073709551615"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[WEIR_NUMBER_MOST + 1] = "";
    char *end = weir_number_put(text, "", cases[i].number);
    assert_string_equal(text, cases[i].text);
    assert_int_equal(end - text, strlen(text));
  }
}

static void digits_and_padding_are_a_number(void **state) {
  (void)state;
  uint64_t number = 0;
  assert_true(weir_number_parse("9 ", 2, &number));
  assert_int_equal(number, 9);
  assert_true(weir_number_parse("18446744073709551615   ", 23, &number));
  assert_true(number == UINT64_MAX);
  assert_true(weir_number_parse("0010", 4, &number));
  assert_int_equal(number, 10);
}

static void anything_else_is_no_number(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      " ",
                                      " 1",
                                      "-1",
                                      "+1",
                                      "1 2",
                                      "1x",
                                      "1\t",
                                      "0x10",
                                      "1.0",
                                      "18446744073709551616",
                                      "99999999999999999999"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    uint64_t number;
    if (weir_number_parse(texts[i], strlen(texts[i]), &number)) fail_msg("\"%s\"", texts[i]);
  }
}

/* An item with N seconds goes between N-1 and N seconds from now. */
static void seconds_always_cover_the_ttl(void **state) {
  (void)state;
  const int64_t now_s = 1700000000;
  assert_int_equal(weir_ttl_seconds(1, now_s), 3);
  assert_int_equal(weir_ttl_seconds(1000000, now_s), 3);
  assert_int_equal(weir_ttl_seconds(1000001, now_s), 4);
  const int64_t month_us = INT64_C(30) * 24 * 3600 * 1000000;
  assert_int_equal(weir_ttl_seconds(month_us - 2000000, now_s), 2592000);
}

static void above_30_days_the_ttl_is_a_date(void **state) {
  (void)state;
  const int64_t now_s = 1700000000;
  const int64_t month_us = INT64_C(30) * 24 * 3600 * 1000000;
  assert_int_equal(weir_ttl_seconds(month_us - 1999999, now_s), now_s + 2592001 + 86400);
  assert_int_equal(weir_ttl_seconds(400 * (month_us / 30), now_s), now_s + 401 * 86400 + 2);
  assert_int_equal(weir_ttl_seconds(1300 * (month_us / 30), INT32_MAX), INT32_MAX);
}

static void lines_end_in_cr_lf(void **state) {
  (void)state;
  assert_int_equal(weir_line_find("", 0).taken, 0);
  assert_int_equal(weir_line_find("HD\r", 3).taken, 0);
  weir_line line = weir_line_find("HD O1\r\nrest", 11);
  assert_int_equal(line.taken, 7);
  assert_true(weir_line_is(&line, "HD O1"));
  assert_true(weir_line_starts(&line, "HD"));
  assert_false(weir_line_is(&line, "HD"));
  assert_true(weir_line_find("HD\n", 3).bad);
  assert_true(weir_line_find("\n", 1).bad);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_written_in_decimal),
      cmocka_unit_test(digits_and_padding_are_a_number),
      cmocka_unit_test(anything_else_is_no_number),
      cmocka_unit_test(seconds_always_cover_the_ttl),
      cmocka_unit_test(above_30_days_the_ttl_is_a_date),
      cmocka_unit_test(lines_end_in_cr_lf),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
