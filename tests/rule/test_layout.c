#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rule/rule.h"

static weir_rule laid_out(const char *text, uint32_t processes) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(text, processes, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack.rules[0];
}

static void packs_four_lanes_while_everything_at_once_fits_half_a_lane(void **state) {
  (void)state;
  assert_int_equal(laid_out("sliding-window:246/1m", 64).lanes, 4); /* 369 + 65 * 246 = 16359 */
  assert_int_equal(laid_out("sliding-window:247/1m", 64).lanes, 2); /* 371 + 65 * 247 = 16426 */
  assert_int_equal(laid_out("sliding-window:247/1m", 8).lanes, 4);
}

/* A settlement may leave D more in a cell, and every process that much more under way. */
static void leaves_room_for_a_debt(void **state) {
  (void)state;
  assert_int_equal(laid_out("sliding-window:246/1m,debt=246", 64).lanes, 2); /* 32595 */
  assert_int_equal(laid_out("sliding-window:124/1m,debt=124", 64).lanes, 2); /* 16430 */
  assert_int_equal(laid_out("sliding-window:123/1m,debt=123", 64).lanes, 4); /* 16298 */
  assert_int_equal(laid_out("sliding-window:200/1m,debt=42", 64).lanes, 4);  /* 16072 */
  assert_string_equal(laid_out("sliding-window:200/1m,debt=42", 64).tag,
                      laid_out("sliding-window:200/1m", 64).tag);
  assert_string_equal(laid_out("sliding-window:200/1m,debt=200", 64).tag, "sw4-60000-2x31");
}

static void leaves_room_in_every_layout_it_chooses(void **state) {
  (void)state;
  for (int64_t limit = 1; limit <= WEIR_LIMIT_MOST; limit += 1 + limit / 7) {
    for (uint32_t processes = 1; processes <= 100000; processes *= 10) {
      for (int cells = 1; cells <= 64; cells *= 2) {
        char text[120];
        for (int64_t debt = 0; debt <= limit; debt += limit) {
          snprintf(text, sizeof text, "sliding-window:%lld/1m,cells=%d,debt=%lld", (long long)limit,
                   cells, (long long)debt);
          weir_rule rule = laid_out(text, processes);
          int64_t most = weir_rule_upper(&rule) + debt + ((int64_t)processes + 1) * (limit + debt);
          assert_true(rule.lanes * rule.lane_bits <= 63);
          assert_true(rule.lanes == 1 || most < INT64_C(1) << (rule.lane_bits - 1));
        }
      }
    }
  }
}

static void gives_a_cell_its_own_counter_where_denied_requests_count(void **state) {
  (void)state;
  assert_int_equal(laid_out("sliding-window:5/1m,count=all", 64).lanes, 1);
  assert_int_equal(laid_out("sliding-window:5/1m;fixed-window:9/1m,count=all", 64).lanes, 1);
}

static void names_in_the_tag_what_changes_the_meaning_of_a_counter(void **state) {
  (void)state;
  assert_string_equal(laid_out("sliding-window:5/1m", 64).tag, "sw4-60000-4x15");
  assert_string_equal(laid_out("sliding-window:6/1m,strict", 64).tag, "sw4-60000-4x15");
  assert_string_equal(laid_out("sliding-window:6000/1m", 64).tag, "sw4-60000-2x31");
  assert_string_equal(laid_out("sliding-window:6/1m,cells=16", 64).tag, "sw16-60000-4x15");
  assert_string_equal(laid_out("sliding-window:6/1m,count=all,name=x", 64).tag,
                      "sw4-60000-1x63-all+x");
  assert_string_equal(laid_out("fixed-window:6/400d", 64).tag, "fw-34560000000");
  assert_string_equal(laid_out("sliding-log:6/1m", 64).tag, "log-60000");
  assert_string_equal(laid_out("quota:6/1m", 64).tag, "quota-60000");
  assert_string_equal(laid_out("quota:6/1m,count=all,name=x", 64).tag, "quota-60000-all+x");
  assert_string_equal(laid_out("token-bucket:6/1m", 64).tag, "tb-60000-u0");
  assert_string_equal(laid_out("token-bucket:1000000/1s,name=x", 64).tag, "tb-1000-u10+x");
  assert_string_equal(laid_out("leaky-bucket:1000000/1ms", 64).tag, "lb-1-u20");
  assert_string_equal(laid_out("in-flight:100/30s", 64).tag, "if-30000");
  assert_string_equal(laid_out("in-flight:1/1h,name=x,lease=1s", 64).tag, "if-3600000+x");
}

/* Logs of a stack have the tag of the longest period, wherever it stands. */
static void several_logs_are_one(void **state) {
  (void)state;
  static const char *const texts[] = {
      "sliding-log:5000/1d;quota:9/1m;sliding-log:30/1m;sliding-log:500/1h",
      "sliding-log:30/1m;sliding-log:500/1h;quota:9/1m;sliding-log:5000/1d"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weir_stack stack;
    assert_int_equal(weir_stack_parse(texts[i], 64, &stack, NULL), WEIR_OK);
    for (size_t n = 0; n < stack.count; n++) {
      bool log = weir_rule_takes_one(&stack.rules[n]);
      assert_string_equal(stack.rules[n].tag, log ? "log-86400000" : "quota-60000");
      assert_int_equal(stack.rules[n].log_us, log ? INT64_C(86400000000) : 0);
    }
  }
  assert_string_equal(laid_out("sliding-log:9/2h,name=a;sliding-log:5/1h,name=a", 1).tag,
                      "log-7200000+a");
}

static void keeps_the_tag_and_so_the_history_through_a_change_of_anything_else(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"fixed-window:5/1m", "fixed-window:5000/1m,hold=1s,lease=1s,debt=9"},
      {"sliding-window:5/1m", "sliding-window:6/1m,strict,hold=1s,lease=1s,debt=6"},
      {"sliding-log:5/1m", "sliding-log:100000/1m,hold=1s"},
      {"quota:5/1m", "quota:1000000000/1m,hold=1s,lease=1s,debt=9"},
      {"token-bucket:5/1m", "token-bucket:50000/1m,burst=7,hold=1s,lease=2ms,debt=5"},
      {"leaky-bucket:5/1m", "leaky-bucket:50000/1m,queue=7,hold=1s"},
      {"in-flight:5/1m", "in-flight:1000000000/1m,hold=1s,lease=1s"}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
    assert_string_equal(laid_out(pairs[i][0], 64).tag, laid_out(pairs[i][1], 64).tag);
}

static void counts_in_whole_counters_where_there_are_no_cells(void **state) {
  (void)state;
  static const char *const texts[] = {"fixed-window:5/1m", "quota:5/1m",        "sliding-log:5/1m",
                                      "token-bucket:5/1m", "leaky-bucket:5/1m", "in-flight:5/1m"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weir_rule rule = laid_out(texts[i], 1);
    assert_int_equal(rule.cells, 1);
    assert_int_equal(rule.cell_us, 60000000);
    assert_int_equal(rule.lanes, 1);
    assert_int_equal(rule.lane_bits, 63);
  }
}

static void packs_beside_rules_of_other_kinds(void **state) {
  (void)state;
  assert_int_equal(laid_out("sliding-window:5/1m;sliding-log:9/1m;token-bucket:5/s", 64).lanes, 4);
  assert_int_equal(laid_out("sliding-window:5/1m;sliding-window:9/1h,count=all", 64).lanes, 1);
}

static void keeps_the_longest_tag_within_its_room(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"fixed-window:1000000000/400d,count=all,", "fw-34560000000-all"},
      {"sliding-window:1000000000/400d,cells=64,count=all,", "sw64-34560000000-1x63-all"},
      {"sliding-log:100000/400d,", "log-34560000000"},
      {"quota:1000000000/400d,count=all,", "quota-34560000000-all"},
      {"token-bucket:1000000000/400d,", "tb-34560000000-u0"},
      {"token-bucket:1000000000/1000000s,", "tb-1000000000-u10"},
      {"leaky-bucket:1000000000/400d,", "lb-34560000000-u0"},
      {"in-flight:1000000000/1h,", "if-3600000"}};
  static const char name[] = "12345678901234567890123456789012";
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    char text[160], tag[160];
    snprintf(text, sizeof text, "%sname=%s", pairs[i][0], name);
    snprintf(tag, sizeof tag, "%s+%s", pairs[i][1], name);
    assert_string_equal(laid_out(text, 100000).tag, tag);
  }
}

static void promises_no_more_than_the_limit_where_nothing_is_estimated(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t upper, bound;
  } rules[] = {{"sliding-window:10/1m", 15, 15},
               {"sliding-window:10/1m,cells=1", 30, 20},
               {"sliding-window:10/1m,cells=2", 20, 20},
               {"sliding-window:10/1m,cells=1,strict", 10, 10},
               {"sliding-window:10/1m,strict", 10, 10},
               {"fixed-window:10/1m", 10, 10},
               {"sliding-log:10/1m", 10, 10},
               {"quota:10/1m", 10, 10}};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_rule rule = laid_out(rules[i].text, 64);
    assert_int_equal(weir_rule_upper(&rule), rules[i].upper);
    assert_int_equal(weir_rule_bound(&rule), rules[i].bound);
  }
}

static void rounds_the_width_of_a_cell_up(void **state) {
  (void)state;
  assert_int_equal(laid_out("sliding-window:5/1ms,cells=64", 64).cell_us, 16);
  assert_int_equal(laid_out("sliding-window:5/7s,cells=16", 64).cell_us, 437500);
  assert_int_equal(laid_out("fixed-window:5/7s", 64).cell_us, 7000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packs_four_lanes_while_everything_at_once_fits_half_a_lane),
      cmocka_unit_test(leaves_room_for_a_debt),
      cmocka_unit_test(leaves_room_in_every_layout_it_chooses),
      cmocka_unit_test(gives_a_cell_its_own_counter_where_denied_requests_count),
      cmocka_unit_test(names_in_the_tag_what_changes_the_meaning_of_a_counter),
      cmocka_unit_test(several_logs_are_one),
      cmocka_unit_test(keeps_the_tag_and_so_the_history_through_a_change_of_anything_else),
      cmocka_unit_test(counts_in_whole_counters_where_there_are_no_cells),
      cmocka_unit_test(packs_beside_rules_of_other_kinds),
      cmocka_unit_test(promises_no_more_than_the_limit_where_nothing_is_estimated),
      cmocka_unit_test(keeps_the_longest_tag_within_its_room),
      cmocka_unit_test(rounds_the_width_of_a_cell_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
