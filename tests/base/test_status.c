#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <weir/backend.h>

static void every_status_has_a_name_a_text_and_a_class(void **state) {
  (void)state;
  for (int i = 0; i < WEIR_STATUS_COUNT; i++) {
    weir_status status = (weir_status)i;
    assert_string_not_equal(weir_status_name(status), "UNKNOWN");
    assert_string_not_equal(weir_status_text(status), "not a weir status");
    assert_int_equal(weir_status_classify(status) == WEIR_CLASS_NONE, status == WEIR_OK);
  }
  assert_string_equal(weir_status_name(WEIR_BAD_RULE), "BAD_RULE");
  assert_string_equal(weir_status_text(WEIR_BAD_KEY), "the key is empty");
  assert_int_equal(weir_status_classify(WEIR_TIMEOUT), WEIR_CLASS_TRANSIENT);
}

static void what_is_no_status_is_said_to_be_none(void **state) {
  (void)state;
  static const int numbers[] = {-1, WEIR_STATUS_COUNT, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    weir_status status;
    memcpy(&status, &numbers[i], sizeof status); /* as a caller in another language would */
    assert_string_equal(weir_status_name(status), "UNKNOWN");
    assert_string_equal(weir_status_text(status), "not a weir status");
    assert_int_equal(weir_status_classify(status), WEIR_CLASS_BUG);
  }
}

static void a_message_is_cut_to_its_room(void **state) {
  (void)state;
  weir_message message;
  char text[WEIR_MESSAGE_BYTES * 2];
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = '\0';
  weir_message_set(&message, "%s", text);
  assert_int_equal(strlen(message.text), WEIR_MESSAGE_BYTES - 1);
  weir_message_prefix(&message, "yy");
  assert_int_equal(strlen(message.text), WEIR_MESSAGE_BYTES - 1);
  assert_ptr_equal(strstr(message.text, "yyx"), message.text);
  weir_message_prefix(&message, "%s", text);
  assert_string_equal(message.text, text + sizeof text - WEIR_MESSAGE_BYTES);
}

static void a_prefix_stands_before_what_was_there(void **state) {
  (void)state;
  weir_message message;
  weir_message_set(&message, "port %d", 5);
  weir_message_prefix(&message, "host %s: ", "a");
  assert_string_equal(message.text, "host a: port 5");
  weir_message_set(&message, "%s!", message.text);
  assert_string_equal(message.text, "host a: port 5!");
}

static void a_message_is_one_line(void **state) {
  (void)state;
  weir_message message;
  weir_message_set(&message, "a\r\nb\x1b\x7f\tc");
  assert_string_equal(message.text, "a\\x0d\\x0ab\\x1b\\x7f\\x09c");
  weir_message_prefix(&message, "d\n");
  assert_string_equal(message.text, "d\\x0aa\\x0d\\x0ab\\x1b\\x7f\\x09c");
}

/* A terminal takes 0x9b for ESC [, and so does one that reads UTF-8 for "\xc2\x9b"; it knows no
 * invalid UTF-8 either. */
static void a_message_is_plain_ascii(void **state) {
  (void)state;
  weir_message message;
  weir_message_set(&message,
                   "\x9b"
                   "2J \xc2\x9b \xc3\xa4 \xff");
  assert_string_equal(message.text, "\\x9b2J \\xc2\\x9b \\xc3\\xa4 \\xff");
  weir_message_set(&message, "%s", message.text);
  assert_string_equal(message.text, "\\x9b2J \\xc2\\x9b \\xc3\\xa4 \\xff");
}

static void no_spelled_byte_is_cut_in_two(void **state) {
  (void)state;
  char text[WEIR_MESSAGE_BYTES];
  memset(text, 0x80, sizeof text);
  text[sizeof text - 1] = '\0';
  for (size_t plain = 0; plain < 4; plain++) {
    weir_message message;
    weir_message_set(&message, "%.*s%s", (int)plain, "xyz", text);
    size_t length = strlen(message.text);
    assert_true(length < WEIR_MESSAGE_BYTES && length >= WEIR_MESSAGE_BYTES - 4);
    assert_string_equal(message.text + length - 4, "\\x80");
  }
}

static void assert_shown(const char *key, const char *shown) {
  char text[WEIR_KEY_SHOWN_BYTES];
  const char *home = strchr(key, '{') + 1;
  const weir_operation operation = {.key = key,
                                    .key_length = (uint16_t)strlen(key),
                                    .home_offset = (uint16_t)(home - key),
                                    .home_length = (uint16_t)strcspn(home, "}")};
  assert_string_equal(weir_operation_show_key(&operation, text), shown);
}

static void a_key_is_shown_up_to_16_bytes_of_the_callers_part(void **state) {
  (void)state;
  char longest[WEIR_STORE_KEY_MOST + 1] = "weir:fw-1000:{", shown[WEIR_KEY_SHOWN_BYTES];
  assert_shown("{a}", "{a}");
  assert_shown("weir:fw-1000:{alice}:17", "weir:fw-1000:{alice}:17");
  assert_shown("weir:fw-1000:{0123456789abcdef}:1", "weir:fw-1000:{0123456789abcdef}:1");
  assert_shown("weir:fw-1000:{0123456789abcdefg}:1", "weir:fw-1000:{0123456789abcdef...}:1");
  memset(longest + strlen(longest), 'k', sizeof longest - 1 - strlen(longest));
  longest[WEIR_STORE_KEY_MOST - 1] = '}';
  snprintf(shown, sizeof shown, "weir:fw-1000:{%.16s...}", longest + 14);
  assert_shown(longest, shown);
}

static void no_message_is_fine(void **state) {
  (void)state;
  weir_message_set(NULL, "%d", 1);
  weir_message_prefix(NULL, "%d", 1);
}

static void the_clock_does_not_go_back(void **state) {
  (void)state;
  int64_t before_us = weir_monotonic_us();
  assert_true(before_us > 0);
  for (int i = 0; i < 1000; i++) {
    int64_t now_us = weir_monotonic_us();
    assert_true(now_us >= before_us);
    before_us = now_us;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_status_has_a_name_a_text_and_a_class),
      cmocka_unit_test(what_is_no_status_is_said_to_be_none),
      cmocka_unit_test(a_message_is_cut_to_its_room),
      cmocka_unit_test(a_prefix_stands_before_what_was_there),
      cmocka_unit_test(a_message_is_one_line),
      cmocka_unit_test(a_message_is_plain_ascii),
      cmocka_unit_test(no_spelled_byte_is_cut_in_two),
      cmocka_unit_test(a_key_is_shown_up_to_16_bytes_of_the_callers_part),
      cmocka_unit_test(no_message_is_fine),
      cmocka_unit_test(the_clock_does_not_go_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
