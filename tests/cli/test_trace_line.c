#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "logs/trace.h"

static weir_message message;

static bool parse(const char *text, weir_trace_request *request) {
  message.text[0] = '\0';
  return weir_trace_line_parse(text, strlen(text), request, &message);
}

static void assert_request(const char *text, int64_t time_ms, const char *key, int64_t cost) {
  weir_trace_request request;
  assert_true(parse(text, &request));
  assert_int_equal(request.time_ms, time_ms);
  assert_int_equal(request.key_length, strlen(key));
  assert_memory_equal(request.key, key, strlen(key));
  assert_int_equal(request.cost, cost);
}

static void assert_refused(const char *text, const char *named) {
  weir_trace_request request;
  assert_false(parse(text, &request));
  assert_non_null(strstr(message.text, named));
}

static void reads_time_key_and_cost(void **state) {
  (void)state;
  assert_request("807256800000 host 3", 807256800000, "host", 3);
  assert_request("0 k 2147483648", 0, "k", 2147483648);
  assert_request("253402300799999 k 1", 253402300799999, "k", 1);
}

static void costs_one_when_no_cost_is_given(void **state) {
  (void)state;
  assert_request("5 k", 5, "k", 1);
}

static void takes_any_run_of_blanks_and_tabs_as_one_separator(void **state) {
  (void)state;
  assert_request(" \t5  \t k\t\t7 \t", 5, "k", 7);
}

static void ignores_a_carriage_return_at_the_end_only(void **state) {
  (void)state;
  assert_request("5 k\r", 5, "k", 1);
  assert_request("5 k 2\r", 5, "k", 2);
  assert_request("5 k\r\r", 5, "k\r", 1);
}

static void keeps_every_other_byte_of_a_key(void **state) {
  (void)state;
  assert_request("5 {a}:\"\\%\xff\xc3\xa9\v 1", 5, "{a}:\"\\%\xff\xc3\xa9\v", 1);
}

static void names_a_time_it_cannot_read(void **state) {
  (void)state;
  assert_refused("noon k 1", "TIME_MS \"noon\"");
  assert_refused("-1 k", "TIME_MS \"-1\"");
  assert_refused("1.5 k", "TIME_MS \"1.5\"");
  assert_refused("253402300800000 k", "TIME_MS \"253402300800000\"");
  assert_refused("# a remark", "TIME_MS \"#\"");
}

static void names_a_cost_it_cannot_read(void **state) {
  (void)state;
  assert_refused("5 k 0", "COST \"0\"");
  assert_refused("5 k -1", "COST \"-1\"");
  assert_refused("5 k 2147483649", "COST \"2147483649\"");
  assert_refused("5 k 12x", "COST \"12x\"");
}

static void knows_an_estimate_and_a_real_cost(void **state) {
  weir_trace_request request;
  (void)state;
  assert_true(parse("5 k 3", &request));
  assert_false(request.estimates || request.settles);
  assert_true(parse("5 k ~3", &request));
  assert_true(request.estimates && !request.settles);
  assert_int_equal(request.cost, 3);
  assert_true(parse("5 k =0\r", &request));
  assert_true(request.settles && !request.estimates);
  assert_int_equal(request.cost, 0);
  assert_request("5 ~k =2147483648", 5, "~k", 2147483648);
  assert_refused("5 k ~0", "COST \"~0\"");
  assert_refused("5 k ~", "COST \"~\"");
  assert_refused("5 k =", "COST \"=\"");
  assert_refused("5 k =-1", "COST \"=-1\"");
  assert_refused("5 k =2147483649", "from 0 to 2147483648");
  assert_refused("5 k ~=1", "from 1 to 2147483648");
}

static void knows_a_line_that_leaves(void **state) {
  (void)state;
  weir_trace_request request;
  assert_true(weir_trace_line_parse("5 k leave\r", 10, &request, &message));
  assert_true(request.leaves);
  assert_int_equal(request.cost, 0);
  assert_true(weir_trace_line_parse("5 leave 2", 9, &request, &message));
  assert_false(request.leaves);
  assert_refused("5 k leaves", "COST \"leaves\"");
  assert_refused("5 k leave 1", "extra field \"1\"");
}

static void refuses_lines_with_too_little_or_too_much(void **state) {
  (void)state;
  assert_refused("", "blank line");
  assert_refused(" \t", "blank line");
  assert_refused("\r", "blank line");
  assert_refused("5", "no KEY");
  assert_refused("5 ", "no KEY");
  assert_refused("5 k 1 more", "extra field \"more\"");
}

static void refuses_a_nul_byte(void **state) {
  (void)state;
  weir_trace_request request;
  assert_false(weir_trace_line_parse("5 a\0b 1", 7, &request, &message));
  assert_non_null(strstr(message.text, "NUL"));
}

static void cuts_a_long_field_in_its_message(void **state) {
  (void)state;
  char line[5000];
  memset(line, 'x', sizeof line - 1);
  line[sizeof line - 1] = '\0';
  assert_refused(line, "xxx...\"");
  assert_non_null(strstr(message.text, "is accepted"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_time_key_and_cost),
      cmocka_unit_test(costs_one_when_no_cost_is_given),
      cmocka_unit_test(takes_any_run_of_blanks_and_tabs_as_one_separator),
      cmocka_unit_test(ignores_a_carriage_return_at_the_end_only),
      cmocka_unit_test(keeps_every_other_byte_of_a_key),
      cmocka_unit_test(names_a_time_it_cannot_read),
      cmocka_unit_test(names_a_cost_it_cannot_read),
      cmocka_unit_test(knows_an_estimate_and_a_real_cost),
      cmocka_unit_test(knows_a_line_that_leaves),
      cmocka_unit_test(refuses_lines_with_too_little_or_too_much),
      cmocka_unit_test(refuses_a_nul_byte),
      cmocka_unit_test(cuts_a_long_field_in_its_message),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
