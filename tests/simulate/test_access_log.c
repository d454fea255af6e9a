#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/access_log.h"

#define COMBINED                                                                       \
  "192.0.2.7 - alice [10/Oct/2000:13:55:36 -0700] \"GET /a/b?c=d HTTP/1.0\" 200 2326 " \
  "\"http://example.com/\" \"Mozilla/5.0 (X11)\""

static weir_access parse(const char *line, weir_access_key key) {
  weir_access access;
  weir_message why = {""};
  if (!weir_access_log_parse(line, strlen(line), key, &access, &why))
    fail_msg("%s: %s", line, why.text);
  return access;
}

static void key_is(const char *line, weir_access_key key, const char *expected) {
  weir_access access = parse(line, key);
  assert_int_equal(access.key_length, strlen(expected));
  if (access.key_length > 0) assert_memory_equal(access.key, expected, access.key_length);
}

static int64_t time_of(const char *time) {
  char line[128] = "::1 - - [";
  strcat(strcat(line, time), "] \"\" 400 0");
  return parse(line, WEIR_ACCESS_CLIENT).time_us / 1000000;
}

static void refused(const char *line, const char *named) {
  weir_access access;
  weir_message why = {""};
  if (weir_access_log_parse(line, strlen(line), WEIR_ACCESS_CLIENT, &access, &why))
    fail_msg("accepted: %s", line);
  if (strstr(why.text, named) == NULL) fail_msg("%s: %s", line, why.text);
}

static void client_user_and_path_are_found(void **state) {
  (void)state;
  key_is(COMBINED, WEIR_ACCESS_CLIENT, "192.0.2.7");
  key_is(COMBINED, WEIR_ACCESS_USER, "alice");
  key_is(COMBINED, WEIR_ACCESS_PATH, "/a/b");
  key_is(COMBINED "\r", WEIR_ACCESS_PATH, "/a/b");
}

static void what_a_line_does_not_have_is_no_key(void **state) {
  (void)state;
  key_is("::1 - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 -", WEIR_ACCESS_USER, "");
  key_is("::1 - - [10/Oct/2000:13:55:36 +0000] \"-\" 408 -", WEIR_ACCESS_PATH, "");
  key_is("::1 - - [10/Oct/2000:13:55:36 +0000] \"\" 400 0", WEIR_ACCESS_PATH, "");
}

static void odd_requests_and_users_are_taken_as_they_are(void **state) {
  (void)state;
  key_is("::1 - a b [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5", WEIR_ACCESS_USER,
         "a b");
  key_is("::1 - - [10/Oct/2000:13:55:36 +0000] \"GET /\\\"x\\\\\" 200 5", WEIR_ACCESS_PATH,
         "/\\\"x\\\\");
  key_is("::1 - - [10/Oct/2000:13:55:36 +0000] \"\\x16\\x03\\x01\" 400 5 \"-\" \"-\" 0.001",
         WEIR_ACCESS_CLIENT, "::1");
}

static void time_is_counted_from_its_zone(void **state) {
  (void)state;
  assert_int_equal(time_of("10/Oct/2000:13:55:36 -0700"), 971211336);
  assert_int_equal(time_of("10/Oct/2000:20:55:36 +0000"), 971211336);
  assert_int_equal(time_of("11/Oct/2000:02:25:36 +0530"), 971211336);
  assert_int_equal(time_of("01/Jan/1971:00:00:00 +0000"), 31536000);
  assert_int_equal(time_of("29/Feb/2024:12:00:00 +0000"), 1709208000);
  assert_int_equal(time_of("31/Dec/2016:23:59:60 +0000"), time_of("01/Jan/2017:00:00:00 +0000"));
}

static void times_that_never_were_are_refused(void **state) {
  static const char *const times[] = {
      "29/Feb/2023:12:00:00 +0000", "31/Apr/2023:12:00:00 +0000", "00/Jan/2023:12:00:00 +0000",
      "01/Foo/2023:12:00:00 +0000", "01/Jan/2023:24:00:00 +0000", "01/Jan/2023:12:60:00 +0000",
      "01/Jan/2023:12:00:61 +0000", "01/Jan/2023:12:00:00 0000",  "01/Jan/2023:12:00:00 +1500",
      "1/Jan/2023:12:00:00 +0000",  "01/Jan/1970:12:00:00 +0000", "01/Jan/9999:12:00:00 +0000",
      "01/Jan/2023 12:00:00 +0000", "29/Feb/1900:12:00:00 +0000"};
  (void)state;
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    char line[128] = "::1 - - [";
    refused(strcat(strcat(line, times[i]), "] \"GET / HTTP/1.1\" 200 5"), "time");
  }
}

static void lines_of_another_form_are_refused_by_what_is_wrong(void **state) {
  (void)state;
  refused("", "blank line");
  refused("\r", "blank line");
  refused("807256800000 0 1", "client");
  refused("::1 - -", "client");
  refused("::1 - - [", "time");
  refused("::1 - - [10/Oct/2000:13:55:36 +0000", "time");
  refused("::1 - - [10/Oct/2000:13:55:36 +0000] GET / 200 5", "quotes");
  refused("::1 - - [10/Oct/2000:13:55:36 +0000] \"GET / 200 5", "quotes");
  refused("::1 - - [10/Oct/2000:13:55:36 +0000] \"GET /\\\" 200 5", "quotes");
  refused("::1 - - [10/Oct/2000:13:55:36 +0000] \"GET /\" 20 5", "status");
  refused("::1 - - [10/Oct/2000:13:55:36 +0000] \"GET /\" 200", "status");
  refused("::1 - - [10/Oct/2000:13:55:36 +0000] \"GET /\" 200 5x", "status");
}

/* Every prefix, with memory that ends where the line does: nothing is read beyond. */
static void no_prefix_is_read_beyond_its_end(void **state) {
  static const char line[] = COMBINED;
  (void)state;
  for (size_t length = 0; length < sizeof line; length++) {
    char *copy = test_malloc(length + 1);
    weir_access access;
    weir_message why = {""};
    memcpy(copy + 1, line, length);
    for (int key = WEIR_ACCESS_CLIENT; key <= WEIR_ACCESS_PATH; key++) {
      bool read = weir_access_log_parse(copy + 1, length, (weir_access_key)key, &access, &why);
      assert_true(read || why.text[0] != '\0');
    }
    test_free(copy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(client_user_and_path_are_found),
      cmocka_unit_test(what_a_line_does_not_have_is_no_key),
      cmocka_unit_test(odd_requests_and_users_are_taken_as_they_are),
      cmocka_unit_test(time_is_counted_from_its_zone),
      cmocka_unit_test(times_that_never_were_are_refused),
      cmocka_unit_test(lines_of_another_form_are_refused_by_what_is_wrong),
      cmocka_unit_test(no_prefix_is_read_beyond_its_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
