#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/backend.h>

static weir_url url_with(weir_url_option *option, const char *value) {
  *option = (weir_url_option){"x", value};
  return (weir_url){.scheme = "s", .options = option, .option_count = value != NULL};
}

static weir_status read_duration(const char *value, int64_t *us, weir_message *message) {
  weir_url_option option;
  weir_url url = url_with(&option, value);
  return weir_url_duration(&url, "x", 1000, 60000000, 20000, us, message);
}

static void a_duration_is_a_number_and_a_unit_in_range(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t us;
  } cases[] = {{NULL, 20000}, {"1ms", 1000}, {"250ms", 250000}, {"5s", 5000000}, {"1m", 60000000}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t us = -1;
    assert_int_equal(read_duration(cases[i].text, &us, NULL), WEIR_OK);
    assert_int_equal(us, cases[i].us);
  }
}

static void a_bad_duration_is_named_with_what_is_accepted(void **state) {
  (void)state;
  static const char *const texts[] = {
      "0ms", "61s", "2m",  "s",  "5",    "ms",  "-5s", "+5s",
      " 5s", "5 s", "5us", "5S", "1.5s", "5s ", "1h",  "99999999999999999999s"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int64_t us = -1;
    weir_message message = {""};
    assert_int_equal(read_duration(texts[i], &us, &message), WEIR_BAD_URL);
    assert_int_equal(us, -1);
    assert_ptr_equal(strstr(message.text, "x="), message.text);
    assert_non_null(strstr(message.text, texts[i]));
    assert_non_null(strstr(message.text, "accepted is a duration from 1ms to 1m"));
  }
}

static weir_status read_integer(const char *value, int64_t least, int64_t most, int64_t *number,
                                weir_message *message) {
  weir_url_option option;
  weir_url url = url_with(&option, value);
  return weir_url_integer(&url, "x", least, most, 7, number, message);
}

static void an_integer_reaches_both_ends_of_its_range(void **state) {
  (void)state;
  int64_t number;
  assert_int_equal(read_integer(NULL, 1, 10, &number, NULL), WEIR_OK);
  assert_int_equal(number, 7);
  assert_int_equal(read_integer("1", 1, 10, &number, NULL), WEIR_OK);
  assert_int_equal(number, 1);
  assert_int_equal(read_integer("10", 1, 10, &number, NULL), WEIR_OK);
  assert_int_equal(number, 10);
  assert_int_equal(read_integer("-9223372036854775808", INT64_MIN, INT64_MAX, &number, NULL),
                   WEIR_OK);
  assert_int_equal(number, INT64_MIN);
  assert_int_equal(read_integer("9223372036854775807", INT64_MIN, INT64_MAX, &number, NULL),
                   WEIR_OK);
  assert_int_equal(number, INT64_MAX);
}

static void a_bad_integer_is_named_with_what_is_accepted(void **state) {
  (void)state;
  static const char *const texts[] = {"0",   "11", "-1", "-",  "1x",
                                      "0x5", " 5", "+5", "5 ", "9223372036854775808"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int64_t number = -1;
    weir_message message = {""};
    assert_int_equal(read_integer(texts[i], 1, 10, &number, &message), WEIR_BAD_URL);
    assert_int_equal(number, -1);
    assert_non_null(strstr(message.text, texts[i]));
    assert_non_null(strstr(message.text, "accepted is a whole number from 1 to 10"));
  }
}

static const char *const words[] = {"auto", "meta", "classic", NULL};

static void a_word_gives_its_place(void **state) {
  (void)state;
  weir_url_option option;
  size_t index;
  weir_url url = url_with(&option, "classic");
  assert_int_equal(weir_url_word(&url, "x", words, 0, &index, NULL), WEIR_OK);
  assert_int_equal(index, 2);
  url = url_with(&option, NULL);
  assert_int_equal(weir_url_word(&url, "x", words, 1, &index, NULL), WEIR_OK);
  assert_int_equal(index, 1);
}

static void an_unknown_word_lists_the_known_ones(void **state) {
  (void)state;
  weir_url_option option;
  weir_message message = {""};
  size_t index = 9;
  weir_url url = url_with(&option, "Meta");
  assert_int_equal(weir_url_word(&url, "x", words, 0, &index, &message), WEIR_BAD_URL);
  assert_int_equal(index, 9);
  assert_string_equal(message.text, "x=Meta: accepted are auto, meta, classic");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_duration_is_a_number_and_a_unit_in_range),
      cmocka_unit_test(a_bad_duration_is_named_with_what_is_accepted),
      cmocka_unit_test(an_integer_reaches_both_ends_of_its_range),
      cmocka_unit_test(a_bad_integer_is_named_with_what_is_accepted),
      cmocka_unit_test(a_word_gives_its_place),
      cmocka_unit_test(an_unknown_word_lists_the_known_ones),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
