#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "logs/access_log.h"

#define COMBINED                                                                       \
  "192.0.2.7 - alice [10/Oct/2000:13:55:36 -0700] \"GET /a/b?c=d HTTP/1.0\" 200 2326 " \
  "\"http://example.com/\" \"Mozilla/5.0 (X11)\""

static weir_access parse(const char *line) {
  weir_access access;
  weir_message why = {""};
  if (!weir_access_log_parse(line, strlen(line), &access, &why)) fail_msg("%s: %s", line, why.text);
  return access;
}

static void field_is(const weir_access *access, weir_access_field field, const char *expected) {
  weir_access_text found = access->fields[field];
  if (found.length != strlen(expected) ||
      (found.length > 0 && memcmp(found.at, expected, found.length) != 0))
    fail_msg("%s is \"%.*s\", not \"%s\"", weir_access_field_name(field), (int)found.length,
             found.at, expected);
}

static void key_is(const char *line, weir_access_field field, const char *expected) {
  weir_access access = parse(line);
  field_is(&access, field, expected);
}

static int64_t time_of(const char *time) {
  char line[128] = "::1 - - [";
  strcat(strcat(line, time), "] \"\" 400 0");
  return parse(line).time_us / 1000000;
}

static void refused(const char *line, const char *named) {
  weir_access access;
  weir_message why = {""};
  if (weir_access_log_parse(line, strlen(line), &access, &why)) fail_msg("accepted: %s", line);
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
  weir_access_format format;
  weir_message unused;
  (void)state;
  assert_true(weir_access_format_read(
      "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"", &format, &unused));
  for (size_t length = 0; length < sizeof line; length++) {
    char *copy = test_malloc(length + 1);
    weir_access access;
    weir_message why = {""};
    memcpy(copy + 1, line, length);
    bool read = weir_access_log_parse(copy + 1, length, &access, &why);
    assert_true(read || why.text[0] != '\0');
    why.text[0] = '\0';
    read = weir_access_format_parse(&format, copy + 1, length, &access, &why);
    assert_true(read || why.text[0] != '\0');
    test_free(copy);
  }
}

static void a_virtual_host_is_not_taken_for_the_client(void **state) {
  weir_access access = parse("www.example.com:443 " COMBINED);
  (void)state;
  field_is(&access, WEIR_ACCESS_HOST, "www.example.com");
  field_is(&access, WEIR_ACCESS_CLIENT, "192.0.2.7");
  field_is(&access, WEIR_ACCESS_USER, "alice");
  field_is(&access, WEIR_ACCESS_STATUS, "200");
  field_is(&access, WEIR_ACCESS_BYTES, "2326");
  field_is(&access, WEIR_ACCESS_REFERER, "http://example.com/");
  key_is("a:80 ::1 - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5", WEIR_ACCESS_CLIENT,
         "::1");
  key_is("[::2]:80 ::1 - - [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5",
         WEIR_ACCESS_CLIENT, "::1");
}

static void a_client_with_a_port_is_no_virtual_host(void **state) {
  static const char rest[] = " [10/Oct/2000:13:55:36 +0000] \"GET / HTTP/1.1\" 200 5";
  static const char *const lines[][2] = {{"192.0.2.7:5555 - -", "192.0.2.7:5555"},
                                         {"192.0.2.7:5555 - a b", "192.0.2.7:5555"},
                                         {"2001:db8::7 x a b", "2001:db8::7"},
                                         {":80 - -", ":80"}};
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char line[128];
    strcat(strcpy(line, lines[i][0]), rest);
    key_is(line, WEIR_ACCESS_CLIENT, lines[i][1]);
  }
}

static bool read_with(const char *pattern, const char *line, weir_access *access,
                      weir_message *why) {
  weir_access_format format;
  return weir_access_format_read(pattern, &format, why) &&
         weir_access_format_parse(&format, line, strlen(line), access, why);
}

static void formats_of_both_servers_are_read(void **state) {
  static const struct {
    const char *pattern, *line;
  } cases[] = {
      {"%h %l %u %t \"%r\" %>s %b \"%{X-Forwarded-For}i\"",
       "192.0.2.7 - al [10/Oct/2000:20:55:36 +0000] \"GET /a?b HTTP/1.1\" 404 12 \"192.0.2.9, "
       "::1\""},
      {"\\\"%{x-forwarded-for}i\\\" %{c}a %u [%{msec}t] %m %U %400,404>s %B 100%%",
       "\"192.0.2.9, ::1\" 192.0.2.7 al [971211336000] GET /a?x 404 12 100%"},
      {"$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
       "\"$http_x_forwarded_for\"",
       "192.0.2.7 - al [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/2.0\" 404 12 \"192.0.2.9, ::1\" "
       "more"},
      {"${remote_addr}|$time_iso8601|$request_method $uri|$status|$bytes_sent|$request_time|"
       "$http_x_forwarded_for;$remote_user",
       "192.0.2.7|2000-10-10T22:55:36+02:00|GET /a|404|12|0.001|192.0.2.9, ::1;al"},
      {"$msec $remote_addr $remote_user $request_method $request_uri $status $bytes_sent "
       "'$http_x_forwarded_for'",
       "971211336.000 192.0.2.7 al GET /a?b=c 404 12 '192.0.2.9, ::1'"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weir_access access;
    weir_message why = {""};
    if (!read_with(cases[i].pattern, cases[i].line, &access, &why))
      fail_msg("%s: %s", cases[i].pattern, why.text);
    assert_int_equal(access.time_us, INT64_C(971211336000000));
    field_is(&access, WEIR_ACCESS_CLIENT, "192.0.2.7");
    field_is(&access, WEIR_ACCESS_USER, "al");
    field_is(&access, WEIR_ACCESS_METHOD, "GET");
    field_is(&access, WEIR_ACCESS_PATH, "/a");
    field_is(&access, WEIR_ACCESS_STATUS, "404");
    field_is(&access, WEIR_ACCESS_BYTES, "12");
    field_is(&access, WEIR_ACCESS_FORWARDED, "192.0.2.9, ::1");
  }
}

static void a_pattern_and_a_line_are_refused_by_what_is_wrong(void **state) {
  static const char good[] = "::1 [10/Oct/2000:13:55:36 +0000] 5";
  static const char *const cases[][3] = {
      {"%h %b", good, "no time"},
      {"%h%u %t", good, "text between"},
      {"%h %t %{Referer", good, "byte 7"},
      {"%h %t %", good, "byte 7"},
      {"$remote_addr $ $msec", good, "byte 14"},
      {"%h %t %b|", good, "column 34"},
      {"%h - %t %b", good, "column 1 "},
      {"%h %t", "::1 [10/Oct/2000:13:55:36 +0000]5", "goes on"},
      {"%h %t", "::1 [10/Oct/2000:13:55:36]", "column 5"},
      {"%h %t", "", "blank line"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weir_access access;
    weir_message why = {""};
    if (read_with(cases[i][0], cases[i][1], &access, &why)) fail_msg("accepted: %s", cases[i][0]);
    if (strstr(why.text, cases[i][2]) == NULL) fail_msg("%s: %s", cases[i][0], why.text);
  }
}

static void json_lines_of_several_servers_are_read(void **state) {
  static const char *const lines[] = {
      "{\"time\":\"2000-10-10T20:55:36Z\",\"remote_addr\":\"192.0.2.7\",\"request\":\"GET /a?b "
      "HTTP/1.1\",\"status\":404,\"body_bytes_sent\":\"12\"}",
      "{\"ts\":971211336.0,\"request\":{\"remote_ip\":\"192.0.2.7\",\"method\":\"GET\",\"uri\":\"/"
      "a?b\"},"
      "\"status\":404,\"size\":12}",
      "{\"timestamp\":971211336000,\"client\":\"192.0.2.7\",\"method\":\"GET\",\"path\":\"/a\","
      "\"status\":\"404\",\"bytes\":12} \r",
      "{\"time_local\":\"10/Oct/2000:20:55:36 "
      "+0000\",\"ip\":\"192.0.2.7\",\"request_method\":\"GET\","
      "\"request_uri\":\"/a\",\"status_code\":404,\"bytes_sent\":12}"};
  weir_access_json json = {0};
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    weir_access access;
    weir_message why = {""};
    if (!weir_access_json_parse(&json, lines[i], strlen(lines[i]), &access, &why))
      fail_msg("%s: %s", lines[i], why.text);
    assert_int_equal(access.time_us, INT64_C(971211336000000));
    field_is(&access, WEIR_ACCESS_CLIENT, "192.0.2.7");
    field_is(&access, WEIR_ACCESS_METHOD, "GET");
    field_is(&access, WEIR_ACCESS_PATH, "/a");
    field_is(&access, WEIR_ACCESS_STATUS, "404");
    field_is(&access, WEIR_ACCESS_BYTES, "12");
  }
  static const char *const bad[][2] = {{"[1]", "object"},
                                       {"", "object"},
                                       {"{\"time\":1", "object"},
                                       {"{\"client\":\"a\"}", "no time"},
                                       {"{\"time\":\"noon\"}", "no time"},
                                       {"{\"time\":1e300}", "no time"},
                                       {"{\"time\":-5}", "no time"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    weir_access access;
    weir_message why = {""};
    if (weir_access_json_parse(&json, bad[i][0], strlen(bad[i][0]), &access, &why))
      fail_msg("accepted: %s", bad[i][0]);
    if (strstr(why.text, bad[i][1]) == NULL) fail_msg("%s: %s", bad[i][0], why.text);
  }
  weir_access_json_clean_up(&json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(client_user_and_path_are_found),
      cmocka_unit_test(what_a_line_does_not_have_is_no_key),
      cmocka_unit_test(odd_requests_and_users_are_taken_as_they_are),
      cmocka_unit_test(time_is_counted_from_its_zone),
      cmocka_unit_test(times_that_never_were_are_refused),
      cmocka_unit_test(lines_of_another_form_are_refused_by_what_is_wrong),
      cmocka_unit_test(a_virtual_host_is_not_taken_for_the_client),
      cmocka_unit_test(a_client_with_a_port_is_no_virtual_host),
      cmocka_unit_test(formats_of_both_servers_are_read),
      cmocka_unit_test(a_pattern_and_a_line_are_refused_by_what_is_wrong),
      cmocka_unit_test(json_lines_of_several_servers_are_read),
      cmocka_unit_test(no_prefix_is_read_beyond_its_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
