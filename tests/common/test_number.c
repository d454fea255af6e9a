/* Whole numbers: the whole text or nothing, and all of 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "number.h"

static void reads_digits_alone(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t most;
    int64_t number; /* -1: refused */
  } cases[] = {{"0", 0, 0},
               {"1", 0, -1},
               {"7", 7, 7},
               {"8", 7, -1},
               {"007", 7, 7},
               {"00000000000000000000000000012", 12, 12},
               {"100", 99, -1},
               {"65535", 65535, 65535},
               {"65536", 65535, -1},
               {"9223372036854775807", INT64_MAX, INT64_MAX},
               {"9223372036854775808", INT64_MAX, -1},
               {"99999999999999999999", INT64_MAX, -1},
               {"", 9, -1},
               {" 1", 9, -1},
               {"1 ", 9, -1},
               {"+1", 9, -1},
               {"-1", 9, -1},
               {"1.", 9, -1},
               {"0x1", 99, -1},
               {"1:", 99, -1},
               {"/", 99, -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t number = -1;
    bool read = weir_number_read(cases[i].text, strlen(cases[i].text), cases[i].most, &number);
    assert_int_equal(number, cases[i].number);
    assert_int_equal(read, cases[i].number >= 0);
  }
}

static void reads_no_further_than_it_may(void **state) {
  (void)state;
  int64_t number = -1;
  assert_true(weir_number_read("123x", 3, 1000, &number));
  assert_int_equal(number, 123);
  assert_false(weir_number_read("1\0002", 3, 1000, &number));
}

/* Every byte in every place of eight digits, and every digit in every place. */
static void reads_eight_digits_at_once(void **state) {
  (void)state;
  for (size_t place = 0; place < 8; place++) {
    for (unsigned byte = 0; byte < 256; byte++) {
      char text[] = "90817263";
      int64_t number = -1, expected = -1;
      text[place] = (char)byte;
      bool read = weir_number_read_eight(text, &number);
      assert_int_equal(read, byte >= '0' && byte <= '9');
      if (read) expected = strtoll(text, NULL, 10);
      assert_int_equal(number, expected);
    }
  }
}

/* The same of what is read at once though it is shorter, or a little longer. */
static void refuses_what_is_no_digit_anywhere(void **state) {
  (void)state;
  for (size_t length = 1; length <= 18; length++) {
    for (size_t place = 0; place < length; place++) {
      for (unsigned byte = 0; byte < 256; byte++) {
        char text[] = "908172635409182736";
        int64_t number = -1, expected = -1;
        text[length] = '\0';
        text[place] = (char)byte;
        bool read = weir_number_read(text, length, INT64_MAX, &number);
        assert_int_equal(read, byte >= '0' && byte <= '9');
        if (read) expected = strtoll(text, NULL, 10);
        assert_int_equal(number, expected);
      }
    }
  }
}

static void is_written(uint64_t number) {
  char expected[32], text[32] = "";
  memset(text, '~', sizeof text - 1);
  snprintf(expected, sizeof expected, "%llu", (unsigned long long)number);
  char *end = weir_number_write(text, number);
  assert_int_equal(end - text, strlen(expected));
  assert_int_equal(*end, '~');
  assert_memory_equal(text, expected, strlen(expected));
}

static void writes_what_printf_would(void **state) {
  (void)state;
  for (uint64_t number = 0; number < 2000; number++)
    is_written(number);
  for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10) {
    is_written(power * 10 - 1);
    is_written(power * 10);
    is_written(power * 9 + 3);
  }
  for (int bit = 0; bit < 64; bit++)
    is_written(UINT64_C(1) << bit);
  for (uint64_t number = 1; number < UINT64_MAX / 7; number = number * 7 + number % 5)
    is_written(number);
  is_written(INT64_MAX);
  is_written(UINT64_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_digits_alone),
      cmocka_unit_test(refuses_what_is_no_digit_anywhere),
      cmocka_unit_test(reads_no_further_than_it_may),
      cmocka_unit_test(reads_eight_digits_at_once),
      cmocka_unit_test(writes_what_printf_would),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
