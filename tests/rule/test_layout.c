#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/chance.h"
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

/* Tags name what processes of all versions count by: rules without most= keep theirs for ever. */
static void keeps_the_tags_that_there_are(void **state) {
  (void)state;
  static const char *const golden[][2] = {
      {"fixed-window:1/1ms", "fw-1"},
      {"fixed-window:1000000000/400d,lease=1s,debt=9", "fw-34560000000"},
      {"fixed-window:5/1h,count=all,name=a", "fw-3600000-all+a"},
      {"sliding-window:1/1m", "sw4-60000-4x15"},
      {"sliding-window:246/1m", "sw4-60000-4x15"},
      {"sliding-window:247/1m", "sw4-60000-2x31"},
      {"sliding-window:16146493/1m", "sw4-60000-2x31"},
      {"sliding-window:16146494/1m", "sw4-60000-1x63"},
      {"sliding-window:240/1m,cells=1", "sw1-60000-4x15"},
      {"sliding-window:241/1m,cells=1", "sw1-60000-2x31"},
      {"sliding-window:244/1m,cells=2", "sw2-60000-4x15"},
      {"sliding-window:245/1m,cells=2", "sw2-60000-2x31"},
      {"sliding-window:248/1m,strict", "sw4-60000-4x15"},
      {"sliding-window:249/1m,strict", "sw4-60000-2x31"},
      {"sliding-window:123/1m,debt=123", "sw4-60000-4x15"},
      {"sliding-window:124/1m,debt=124", "sw4-60000-2x31"},
      {"sliding-window:5/1m,count=all", "sw4-60000-1x63-all"},
      {"sliding-window:1000000000/1m,cells=64,name=a", "sw64-60000-1x63+a"},
      {"sliding-log:100000/1d", "log-86400000"},
      {"quota:5/30d", "quota-2592000000"},
      {"quota:1000000000/1h,count=all", "quota-3600000-all"},
      {"token-bucket:977/1s", "tb-1000-u0"},
      {"token-bucket:978/1s", "tb-1000-u10"},
      {"token-bucket:1000977/1s", "tb-1000-u10"},
      {"token-bucket:1000978/1s", "tb-1000-u20"},
      {"token-bucket:1/400d,name=a", "tb-34560000000-u0+a"},
      {"token-bucket:977/1s,burst=1000000000,debt=5000", "tb-1000-u0"},
      {"leaky-bucket:977/1s,queue=5", "lb-1000-u0"},
      {"leaky-bucket:978/1s", "lb-1000-u10"},
      {"leaky-bucket:1025000/1ms", "lb-1-u20"},
      {"in-flight:1000000000/1h", "if-3600000"},
  };
  for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
    assert_string_equal(laid_out(golden[i][0], 64).tag, golden[i][1]);
}

/* The limit itself is free. */
static void is_laid_out_for_the_largest_limit_of_its_name(void **state) {
  (void)state;
  static const char *const same[][2] = {
      {"sliding-window:1/1m,most=247", "sliding-window:247/1m"},
      {"sliding-window:100/1m,name=api,most=5000", "sliding-window:5000/1m,name=api,most=5000"},
      {"sliding-window:246/1m,most=246", "sliding-window:1/1m"},
      {"sliding-window:1/1m,most=16146494", "sliding-window:16146494/1m"},
      {"sliding-window:200/1m,debt=1,most=246", "sliding-window:246/1m,debt=1"},
      {"sliding-window:5/1m,count=all,most=5000", "sliding-window:5/1m,count=all"},
      {"token-bucket:1/1s,most=977", "token-bucket:1/1s"},
      {"token-bucket:1/1s,most=978", "token-bucket:978/1s"},
      {"token-bucket:1/1s,burst=5000,most=978", "token-bucket:978/1s"},
      {"leaky-bucket:1/1s,queue=9,most=1000978", "leaky-bucket:1000978/1s"},
      {"fixed-window:1/1m,most=1000000000", "fixed-window:1/1m"},
      {"quota:1/1m,most=1000000000", "quota:1/1m"},
      {"sliding-log:1/1m,most=100000", "sliding-log:1/1m"},
      {"in-flight:1/1m,most=1000000000", "in-flight:1/1m"},
  };
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    assert_string_equal(laid_out(same[i][0], 64).tag, laid_out(same[i][1], 64).tag);
  assert_int_equal(laid_out("token-bucket:1/1s,most=978", 64).token_units, 1024000000);
  assert_int_equal(laid_out("sliding-window:1/1m,most=247", 64).upper, 2);
}

/* Whatever a limit is and becomes, up to what most= says: one tag, one layout, and in each lane room for
 * all that the largest may do at once. */
static void all_limits_below_one_ceiling_are_laid_out_alike(void **state) {
  (void)state;
  static const char *const heads[] = {"fixed-window", "sliding-window", "sliding-log", "quota",
                                      "token-bucket", "leaky-bucket",   "in-flight"};
  uint32_t seed = 7;
  for (int i = 0; i < 20000; i++) {
    uint32_t kind = chance(&seed, 7);
    bool window = kind == 1, log = kind == 2, bucket = kind == 4 || kind == 5;
    int64_t most = 1 + chance(&seed, UINT32_C(1) << chance(&seed, log ? 17 : 30));
    int64_t period_s = 1 + chance(&seed, 600);
    int64_t debt = window ? chance(&seed, 3) : 0, processes = 1 + chance(&seed, 200);
    int cells = 1 << chance(&seed, 7);
    weir_stack stacks[2];
    weir_status statuses[2];
    if (log && most > WEIR_LOG_LIMIT_MOST) continue;
    for (int n = 0; n < 2; n++) {
      char text[120], options[64] = "";
      int64_t limit = 1 + chance(&seed, (uint32_t)most);
      if (window)
        snprintf(options, sizeof options, ",cells=%d,debt=%d", cells, (int)(debt % (limit + 1)));
      if (kind == 4) snprintf(options, sizeof options, ",burst=1");
      snprintf(text, sizeof text, "%s:%d/%ds,most=%d%s", heads[kind], (int)limit, (int)period_s,
               (int)most, options);
      statuses[n] = weir_stack_parse(text, (uint32_t)processes, &stacks[n], NULL);
      const weir_rule *rule = &stacks[n].rules[0];
      if (statuses[n] == WEIR_OK && bucket) assert_true(rule->token_units >= 1024);
      if (statuses[n] != WEIR_OK || !window || rule->lanes == 1) continue;
      int64_t upper = most + (2 * most + cells - 1) / cells;
      int64_t room = INT64_C(1) << (rule->lane_bits - 1);
      assert_true(upper + rule->debt + (processes + 1) * (most + rule->debt) < room);
    }
    assert_true(bucket || (statuses[0] == WEIR_OK && statuses[1] == WEIR_OK));
    if (statuses[0] != WEIR_OK || statuses[1] != WEIR_OK) continue;
    const weir_rule *one = &stacks[0].rules[0], *other = &stacks[1].rules[0];
    if (one->debt != other->debt) continue;
    assert_string_equal(one->tag, other->tag);
    assert_int_equal(one->lanes, other->lanes);
    assert_int_equal(one->unit_bits, other->unit_bits);
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
      cmocka_unit_test(keeps_the_tags_that_there_are),
      cmocka_unit_test(is_laid_out_for_the_largest_limit_of_its_name),
      cmocka_unit_test(all_limits_below_one_ceiling_are_laid_out_alike),
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
