#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/duration.h>

static const struct {
  const char *text;
  int64_t us;
} durations[] = {
    {"1ms", 1000},
    {"250ms", 250000},
    {"10s", 10000000},
    {"90s", 90000000},
    {"1m", 60000000},
    {"1h", INT64_C(3600000000)},
    {"36h", INT64_C(36) * 3600000000},
    {"30d", INT64_C(30) * 24 * 3600000000},
    {"106751991d", INT64_C(106751991) * 24 * 3600000000},
    {"9223372036854775ms", INT64_C(9223372036854775000)},
};
enum { DURATION_COUNT = sizeof durations / sizeof *durations };

static void reads_a_number_and_a_unit(void **state) {
  (void)state;
  for (size_t i = 0; i < DURATION_COUNT; i++) {
    int64_t us = -1;
    assert_true(weir_duration_parse(durations[i].text, strlen(durations[i].text), &us));
    assert_int_equal(us, durations[i].us);
  }
}

static void reads_a_unit_alone_as_one(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"ms", "1ms"}, {"s", "1s"}, {"m", "1m"}, {"h", "1h"}, {"d", "1d"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    int64_t alone = -1;
    int64_t one = -2;
    assert_true(weir_duration_parse(pairs[i][0], strlen(pairs[i][0]), &alone));
    assert_true(weir_duration_parse(pairs[i][1], strlen(pairs[i][1]), &one));
    assert_int_equal(alone, one);
  }
}

static void reads_no_further_than_the_length(void **state) {
  (void)state;
  int64_t us = -1;
  assert_true(weir_duration_parse("10sx", 3, &us));
  assert_int_equal(us, 10000000);
  assert_true(weir_duration_parse("10ms", 3, &us));
  assert_int_equal(us, 600000000);
}

static void refuses_what_is_no_duration(void **state) {
  (void)state;
  static const char *const texts[] = {"",    "0s",  "00ms", "5",  "-5s",  "+5s",  " 5s", "5 s",
                                      "5s ", "5us", "5min", "5S", "1.5s", "1e3s", "s5",  "1h30m"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int64_t us = -1;
    assert_false(weir_duration_parse(texts[i], strlen(texts[i]), &us));
    assert_int_equal(us, -1);
  }
}

static void refuses_what_no_int64_of_microseconds_holds(void **state) {
  (void)state;
  static const char *const texts[] = {"106751992d", "9223372036854776ms", "9223372036854775808s",
                                      "99999999999999999999999999ms"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int64_t us;
    assert_false(weir_duration_parse(texts[i], strlen(texts[i]), &us));
  }
}

static void writes_the_shortest_text(void **state) {
  (void)state;
  char text[WEIR_DURATION_BYTES];
  for (size_t i = 0; i < DURATION_COUNT; i++) {
    weir_duration_format(durations[i].us, text, sizeof text);
    assert_string_equal(text, durations[i].text);
  }
  weir_duration_format(INT64_C(48) * 3600000000, text, sizeof text);
  assert_string_equal(text, "2d");
  weir_duration_format(60000, text, sizeof text);
  assert_string_equal(text, "60ms");
}

static void writes_what_no_unit_divides_in_microseconds(void **state) {
  (void)state;
  char text[WEIR_DURATION_BYTES];
  weir_duration_format(1500, text, sizeof text);
  assert_string_equal(text, "1500us");
  weir_duration_format(0, text, sizeof text);
  assert_string_equal(text, "0s");
  weir_duration_format(INT64_MIN, text, sizeof text);
  assert_string_equal(text, "-9223372036854775808us");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_number_and_a_unit),
      cmocka_unit_test(reads_a_unit_alone_as_one),
      cmocka_unit_test(reads_no_further_than_the_length),
      cmocka_unit_test(refuses_what_is_no_duration),
      cmocka_unit_test(refuses_what_no_int64_of_microseconds_holds),
      cmocka_unit_test(writes_the_shortest_text),
      cmocka_unit_test(writes_what_no_unit_divides_in_microseconds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
