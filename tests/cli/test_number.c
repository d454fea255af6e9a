#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/number.h"

static bool parse(const char *text, int64_t most, int64_t *value) {
  return weir_cli_parse_integer(text, strlen(text), most, value);
}

static void reads_digits_up_to_the_most(void **state) {
  (void)state;
  int64_t value;
  assert_true(parse("0", 0, &value));
  assert_int_equal(value, 0);
  assert_true(parse("007", 7, &value));
  assert_int_equal(value, 7);
  assert_true(parse("9223372036854775807", INT64_MAX, &value));
  assert_int_equal(value, INT64_MAX);
}

static void refuses_more_than_the_most(void **state) {
  (void)state;
  int64_t value;
  assert_false(parse("1", 0, &value));
  assert_false(parse("8", 7, &value));
  assert_false(parse("9223372036854775808", INT64_MAX, &value));
  assert_false(parse("99999999999999999999999999", INT64_MAX, &value));
}

static void refuses_what_is_not_only_digits(void **state) {
  (void)state;
  static const char *const texts[] = {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "12x", "x"};
  int64_t value;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_false(parse(texts[i], INT64_MAX, &value));
}

static void reads_only_the_length_given(void **state) {
  (void)state;
  int64_t value;
  assert_true(weir_cli_parse_integer("123", 2, 100, &value));
  assert_int_equal(value, 12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_digits_up_to_the_most),
      cmocka_unit_test(refuses_more_than_the_most),
      cmocka_unit_test(refuses_what_is_not_only_digits),
      cmocka_unit_test(reads_only_the_length_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
