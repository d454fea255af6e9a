#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rule/rule.h"

static weir_rule parsed(const char *text) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(text, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack.rules[0];
}

static void has_cells_of_a_second_or_more_unless_told(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int cells;
    int64_t cell_us;
  } rules[] = {
      {"shared-window:60000/1m,weights=a:1", 60, 1000000},
      {"shared-window:60000/1d,weights=a:1", 60, 1440000000},
      {"shared-window:60000/30s,weights=a:1", 30, 1000000},
      {"shared-window:60000/4s,weights=a:1", 8, 500000},
      {"shared-window:60000/30s,weights=a:1,cells=60", 60, 500000},
      {"shared-window:60000/1m,weights=a:1,cells=9", 9, 6666667},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_rule rule = parsed(rules[i].text);
    assert_int_equal(rule.cells, rules[i].cells);
    assert_int_equal(rule.cell_us, rules[i].cell_us);
  }
}

/* All floors of all cells that a window meets, and of one more, fit under the limit. */
static void divides_the_floors_by_weight(void **state) {
  (void)state;
  weir_rule rule = parsed("shared-window:60000/1m,weights=north:5|south:3|w.e_s-T:2");
  assert_int_equal(rule.floor_of_cell, 483);
  assert_int_equal(rule.weight_of_all, 10);
  assert_int_equal(weir_rule_weight(&rule, "north", 5), 5);
  assert_int_equal(weir_rule_weight(&rule, "south", 5), 3);
  assert_int_equal(weir_rule_weight(&rule, "w.e_s-T", 7), 2);
  assert_int_equal(weir_rule_weight(&rule, "nort", 4), 0);
  assert_int_equal(weir_rule_weight(&rule, "north:5", 7), 0);
  assert_int_equal(weir_rule_weight(&rule, "North", 5), 0);
  assert_int_equal(weir_rule_floor(&rule, 5), 241);
  assert_int_equal(weir_rule_floor(&rule, 0), 0);
  assert_int_equal(rule.capacity, 60000 - 29517); /* 61 * 483.87, rounded up */
  assert_int_equal(rule.upper, 60000);
  assert_string_equal(rule.tag, "sh60-60000");
  rule = parsed("shared-window:60000/1m,floors=100%,weights=a:1,name=x");
  assert_int_equal(rule.floor_of_cell, 967);
  assert_true(rule.capacity >= rule.floor_of_cell);
  assert_string_equal(rule.tag, "sh60-60000+x");
}

/* Counts of others are beside those of tenants that are named: who reads only these must not meet them. */
static void others_have_a_part_and_counts_of_their_own(void **state) {
  (void)state;
  char text[WEIR_RULE_TEXT_BYTES + WEIR_WEIGHTS_MOST];
  weir_rule rule = parsed("shared-window:60000/1m,others=02,weights=north:5|south:3");
  assert_int_equal(rule.weight_of_all, 10);
  assert_int_equal(weir_rule_floor(&rule, rule.others), 96);
  assert_string_equal(rule.tag, "sh60-60000-o");
  weir_rule_write(&rule, text);
  assert_string_equal(text, "shared-window:60000/1m,floors=50%,weights=north:5|south:3,others=2");
  rule = parsed("shared-window:60000/1m,others=1");
  assert_int_equal(weir_rule_floor(&rule, rule.others), rule.floor_of_cell);
  weir_rule_write(&rule, text);
  assert_string_equal(text, "shared-window:60000/1m,floors=50%,others=1");
  rule = parsed("shared-window:24800/1m,weights=a:99,others=1");
  assert_int_equal(weir_rule_floor(&rule, rule.others), 2);
}

/* Floors scale with the limit, down to where some are none. */
static void limits_up_to_most_have_floors_in_proportion(void **state) {
  (void)state;
  weir_rule rule = parsed("shared-window:60000/1m,weights=a:9|b:1,others=2,most=240000");
  int64_t capacity = rule.capacity;
  assert_int_equal(capacity, 60000 - 29517);
  weir_rule_set_limit(&rule, 240000);
  assert_int_equal(rule.floor_of_cell, 1935);
  assert_int_equal(weir_rule_floor(&rule, 9), 1451);
  assert_int_equal(rule.capacity, 240000 - 118065); /* 61 * 1935.48 */
  int64_t least = weir_rule_limit_least(&rule);
  weir_rule_set_limit(&rule, least);
  assert_int_equal(weir_rule_floor(&rule, 1), 1);
  assert_true(weir_rule_floor(&rule, 2) >= 2);
  weir_rule_set_limit(&rule, least - 1);
  assert_int_equal(weir_rule_floor(&rule, 1), 0);
}

static const struct {
  const char *text, *names, *accepts;
} bad[] = {
    {"shared-window:60000/1m", "needs weights=", "weights=north:5|south:3"},
    {"shared-window:60000/1m,floors=50%", "needs weights=", "weights=north:5|south:3"},
    {"shared-window:60000/1m,weights=", "weights= has \"\"", "1 to 1000000"},
    {"shared-window:60000/1m,weights=a", "weights= has \"a\"", "1 to 1000000"},
    {"shared-window:60000/1m,weights=b:1|a:0|c:1", "weights= has \"a:0\"", "1 to 1000000"},
    {"shared-window:60000/1m,weights=a:1000001", "weights= has \"a:1000001\"", "1 to 1000000"},
    {"shared-window:60000/1m,weights=a:1|", "weights= has \"\"", "1 to 1000000"},
    {"shared-window:60000/1m,weights=|a:1", "weights= has \"\"", "1 to 1000000"},
    {"shared-window:60000/1m,weights=:1", "weights= has \":1\"", "names of 1 to 64"},
    {"shared-window:60000/1m,weights=a b:1", "weights= has \"a b:1\"", "A-Z a-z 0-9 _ . -"},
    {"shared-window:60000/1m,weights=a:1|b:2|a:1", "tenant \"a\" twice", "each tenant once"},
    {"shared-window:60000/1m,weights=a:1,floors=0%", "floors=0%", "1% to 100%"},
    {"shared-window:60000/1m,weights=a:1,floors=101%", "floors=101%", "1% to 100%"},
    {"shared-window:60000/1m,weights=a:1,floors=50", "floors=50", "1% to 100%"},
    {"shared-window:60000/1m,weights=a:1,cells=7", "cells=7", "8 to 60"},
    {"shared-window:60000/1m,weights=a:1,cells=61", "cells=61", "8 to 60"},
    {"shared-window:60000/1m,weights=a:1,cells=8,cells=9", "cells", "twice"},
    {"shared-window:60000/20s,weights=a:1,cells=41", "41 cells", "20500ms or more, or fewer cells"},
    {"shared-window:60000/3s,weights=a:1", "8 cells", "periods of 4s or more"},
    {"shared-window:1000000001/1m,weights=a:1", "\"1000000001\"", "1 to 1000000000"},
    {"shared-window:123/1m,weights=a:1", "tenant \"a\"", "a limit of 124 or more"},
    {"shared-window:1000/1m,weights=a:9|b:1", "tenant \"b\" has a part of 1 in 10",
     "a limit of 1240 or more, larger floors, or fewer tenants or cells"},
    {"shared-window:60000/1m,weights=a:1,others=0", "others=0", "a weight of 1 to 1000000"},
    {"shared-window:10000/1m,weights=a:99,others=1", "others= has a part of 1 in 100",
     "a limit of 24800 or more"},
    {"shared-window:60000/1m,weights=a:1,burst=9", "option burst",
     "shared-window accepts cells=, floors=, weights=, others=, hold=, lease=, debt=, most= and "
     "name="},
    {"shared-window:60000/1m,weights=a:1,debt=30484", "debt=30484 is more than the rule admits",
     "0 to 30483"},
    {"shared-window:60000/1m,weights=a:1,most=59999", "most=59999 is below the limit",
     "60000, the limit, to 1000000000"},
    {"shared-window:60000/1m,weights=a:1,count=all", "option count",
     "shared-window accepts cells="},
    {"shared-window:60000/1m,weights=a:1,strict", "option strict", "shared-window accepts cells="},
    {"sliding-window:60000/1m,floors=50%", "option floors belongs to shared-window",
     "sliding-window accepts cells="},
    {"shared-window:60000/1m,weights=a:1;quota:1/1d", "rules 1 and 2",
     "shared-window is accepted as the only rule"},
    {"quota:1/1d;shared-window:60000/1m,weights=a:1", "rules 1 and 2",
     "shared-window is accepted as the only rule"},
};

static void says_what_is_wrong_and_what_is_accepted(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    weir_stack stack;
    weir_message message = {""};
    assert_int_equal(weir_stack_parse(bad[i].text, 64, &stack, &message), WEIR_BAD_RULE);
    if (strstr(message.text, bad[i].names) == NULL || strstr(message.text, bad[i].accepts) == NULL)
      fail_msg("%s: %s", bad[i].text, message.text);
  }
}

static void more_tenants_than_there_is_room_for_are_refused(void **state) {
  (void)state;
  char text[WEIR_RULE_TEXT_BYTES + WEIR_WEIGHTS_MOST], *at = text;
  weir_stack stack;
  weir_message message = {""};
  at += sprintf(at, "shared-window:1000000/1m,weights=");
  for (int i = 0; i < 180; i++)
    at += sprintf(at, "%stenant%d:1", i > 0 ? "|" : "", i);
  assert_int_equal(weir_stack_parse(text, 64, &stack, &message), WEIR_BAD_RULE);
  if (strstr(message.text, "weights= is 2049 bytes long: accepted are up to 2048") == NULL)
    fail_msg("%s", message.text);
}

/* Two texts that mean the same are written as one, so that nobody is warned of them. */
/* Processes whose weights differ find that by this number. */
static void weights_that_differ_divide_otherwise(void **state) {
  static const char *const pairs[][2] = {{"a:1|b:1|c:1", "a:1|b:2|c:2"},
                                         {"1:1|2:1|3:1", "1:1|2:2|3:2"},
                                         {"t1:1|t2:37", "t1:37|t2:1"},
                                         {"a:1|b:1|c:19", "a:1|b:20|c:2"},
                                         {"eu:3", "au:7"}};
  char text[2][64];
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    for (int n = 0; n < 2; n++)
      snprintf(text[n], sizeof text[n], "shared-window:60000/1m,weights=%s", pairs[i][n]);
    assert_int_not_equal(parsed(text[0]).division, parsed(text[1]).division);
  }
  assert_int_equal(parsed("shared-window:60000/1m,weights=a:1|b:2").division,
                   parsed("shared-window:60000/1m,weights=b:2|a:1").division);
}

/* However much of the limit is in floors, and rounded. */
static void a_floor_can_be_asked_for_at_once(void **state) {
  char text[64];
  (void)state;
  for (int limit = 63; limit < 700; limit++) {
    snprintf(text, sizeof text, "shared-window:%d/1m,floors=100%%,weights=a:1", limit);
    weir_rule rule = parsed(text);
    assert_true(rule.floor_of_cell >= 1 && rule.capacity >= rule.floor_of_cell);
  }
}

static void is_written_in_one_way(void **state) {
  (void)state;
  char one[WEIR_RULE_TEXT_BYTES + WEIR_WEIGHTS_MOST], other[sizeof one];
  weir_rule rule = parsed("shared-window:60000/1m,weights=b:2|a.b:3|ab:01|a:0005");
  weir_rule_write(&rule, one);
  assert_string_equal(one, "shared-window:60000/1m,floors=50%,weights=a:5|a.b:3|ab:1|b:2");
  rule = parsed(one);
  weir_rule_write(&rule, other);
  assert_string_equal(one, other);
}

/* A limit that is told as the least is one. */
static void the_least_limit_that_is_told_is_accepted(void **state) {
  (void)state;
  assert_int_equal(weir_rule_floor(&(weir_rule){.floor_of_cell = 1, .weight_of_all = 1}, 1), 1);
  weir_rule rule = parsed("shared-window:124/1m,weights=a:1");
  assert_int_equal(weir_rule_floor(&rule, 1), 1);
  rule = parsed("shared-window:1240/1m,weights=a:9|b:1");
  assert_int_equal(weir_rule_floor(&rule, 1), 1);
}

static void takes_many_tenants(void **state) {
  (void)state;
  char text[WEIR_RULE_TEXT_BYTES + WEIR_WEIGHTS_MOST], *at = text;
  at += sprintf(at, "shared-window:120000/1m,floors=50%%,weights=");
  for (int i = 0; i < 100; i++)
    at += sprintf(at, "%stenant-%d:1", i > 0 ? "|" : "", i);
  weir_rule rule = parsed(text);
  assert_int_equal(rule.weight_of_all, 100);
  assert_int_equal(weir_rule_floor(&rule, weir_rule_weight(&rule, "tenant-99", 9)), 9);
  char written[WEIR_RULE_TEXT_BYTES + WEIR_WEIGHTS_MOST];
  weir_rule_write(&rule, written);
  rule = parsed(written);
  assert_int_equal(rule.weight_of_all, 100);
  assert_int_equal(strlen(written), strlen(text));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(has_cells_of_a_second_or_more_unless_told),
      cmocka_unit_test(divides_the_floors_by_weight),
      cmocka_unit_test(others_have_a_part_and_counts_of_their_own),
      cmocka_unit_test(limits_up_to_most_have_floors_in_proportion),
      cmocka_unit_test(says_what_is_wrong_and_what_is_accepted),
      cmocka_unit_test(more_tenants_than_there_is_room_for_are_refused),
      cmocka_unit_test(weights_that_differ_divide_otherwise),
      cmocka_unit_test(a_floor_can_be_asked_for_at_once),
      cmocka_unit_test(is_written_in_one_way),
      cmocka_unit_test(the_least_limit_that_is_told_is_accepted),
      cmocka_unit_test(takes_many_tenants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
