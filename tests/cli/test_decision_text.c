#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/decision.h"

#define SECOND_US INT64_C(1000000)
#define MINUTE_US (60 * SECOND_US)
#define HOUR_US (60 * MINUTE_US)
#define DAY_US (24 * HOUR_US)

static void assert_duration(int64_t us, const char *expected) {
  char text[WEIR_CLI_DURATION_BYTES];
  weir_cli_format_duration(us, text);
  assert_string_equal(text, expected);
}

static void picks_the_unit_a_person_reads(void **state) {
  (void)state;
  assert_duration(0, "0s");
  assert_duration(250, "250us");
  assert_duration(12000, "12ms");
  assert_duration(9980000, "9.98s");
  assert_duration(1500000, "1.5s");
  assert_duration(2 * SECOND_US, "2s");
  assert_duration(65 * SECOND_US, "1m5s");
  assert_duration(150 * MINUTE_US, "2h30m");
  assert_duration(3 * DAY_US + 4 * HOUR_US, "3d4h");
  assert_duration(400 * DAY_US, "400d");
}

static void rounds_up(void **state) {
  (void)state;
  assert_duration(1001, "2ms");
  assert_duration(1000001, "1.01s");
  assert_duration(MINUTE_US + 1, "1m1s");
  assert_duration(HOUR_US + 1, "1h1m");
  assert_duration(DAY_US + 1, "1d1h");
}

static void moves_to_the_next_unit_when_rounding_fills_one(void **state) {
  (void)state;
  assert_duration(999, "999us");
  assert_duration(999000, "999ms");
  assert_duration(999001, "1s");
  assert_duration(59990000, "59.99s");
  assert_duration(59990001, "1m");
  assert_duration(HOUR_US - 1, "1h");
  assert_duration(DAY_US - 1, "1d");
}

static void stays_within_its_room(void **state) {
  (void)state;
  assert_duration(INT64_MAX, "106751991d5h");
  assert_duration(-1, "unknown");
}

static void assert_line(const weir_decision *decision, bool several_rules, const char *expected) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  weir_cli_decision_text(out, decision, several_rules, false);
  assert_int_equal(fclose(out), 0);
  assert_string_equal(text, expected);
  free(text);
}

static void says_the_figures_in_one_line(void **state) {
  (void)state;
  weir_decision decision = {
      .allowed = true, .limit = 10, .remaining = 9, .reset_after_us = 9980000};
  assert_line(&decision, false,
              "allowed  limit 10  remaining 9  retry-after 0s  reset-after 9.98s\n");
}

static void says_never_and_unknown_where_there_is_no_figure(void **state) {
  (void)state;
  weir_decision decision = {.source = WEIR_SOURCE_LOCAL,
                            .limit = 10,
                            .remaining = WEIR_NOT_KNOWN,
                            .retry_after_us = WEIR_NEVER,
                            .reset_after_us = WEIR_NOT_KNOWN};
  assert_line(&decision, false,
              "denied  limit 10  remaining unknown  retry-after never  reset-after unknown"
              "  source local\n");
}

static void says_a_delay_a_rule_and_a_fallback_where_they_matter(void **state) {
  (void)state;
  weir_decision decision = {
      .allowed = true, .source = WEIR_SOURCE_FALLBACK, .rule = 1, .limit = 5, .delay_us = 1500};
  assert_line(&decision, true,
              "allowed  limit 5  remaining 0  retry-after 0s  reset-after 0s  delay 2ms  rule 1"
              "  source fallback\n");
}

static void writes_every_figure_of_a_replayed_line_in_its_column(void **state) {
  (void)state;
  weir_cli_request request = {.time_ms = 5, .key = "a\\b\x1b", .key_length = 4, .cost = 2};
  weir_decision decision = {.limit = 10,
                            .remaining = 1,
                            .retry_after_us = 3,
                            .reset_after_us = INT64_C(34560000000000),
                            .delay_us = 4};
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  weir_cli_decision_tabs(out, &request, &decision);
  assert_int_equal(fclose(out), 0);
  assert_string_equal(text, "5\ta\\x5cb\\x1b\t2\tdenied\t10\t1\t3\t34560000000000\t4\n");
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(picks_the_unit_a_person_reads),
      cmocka_unit_test(rounds_up),
      cmocka_unit_test(moves_to_the_next_unit_when_rounding_fills_one),
      cmocka_unit_test(stays_within_its_room),
      cmocka_unit_test(says_the_figures_in_one_line),
      cmocka_unit_test(says_never_and_unknown_where_there_is_no_figure),
      cmocka_unit_test(says_a_delay_a_rule_and_a_fallback_where_they_matter),
      cmocka_unit_test(writes_every_figure_of_a_replayed_line_in_its_column),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
