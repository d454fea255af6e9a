#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rule/rule.h"

static weir_rule parsed(const char *text) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(text, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  assert_int_equal(stack.count, 1);
  return stack.rules[0];
}

static void reads_limit_and_period(void **state) {
  (void)state;
  weir_rule rule = parsed("fixed-window:100/1m");
  assert_int_equal(rule.kind, WEIR_FIXED_WINDOW);
  assert_int_equal(rule.limit, 100);
  assert_int_equal(rule.period_us, 60000000);
  assert_int_equal(rule.cells, 1);
}

static void knows_every_algorithm_by_its_name(void **state) {
  (void)state;
  static const struct {
    const char *name;
    weir_rule_kind kind;
  } kinds[] = {{"fixed-window", WEIR_FIXED_WINDOW}, {"sliding-window", WEIR_SLIDING_WINDOW},
               {"sliding-log", WEIR_SLIDING_LOG},   {"quota", WEIR_QUOTA},
               {"token-bucket", WEIR_TOKEN_BUCKET}, {"leaky-bucket", WEIR_LEAKY_BUCKET},
               {"in-flight", WEIR_IN_FLIGHT},       {"shared-window", WEIR_SHARED_WINDOW}};
  assert_int_equal(sizeof kinds / sizeof kinds[0], WEIR_RULE_KINDS);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    char text[64];
    bool shared = kinds[i].kind == WEIR_SHARED_WINDOW;
    snprintf(text, sizeof text, "%s:70/90s%s", kinds[i].name, shared ? ",cells=8,weights=a:1" : "");
    weir_rule rule = parsed(text);
    assert_int_equal(rule.kind, kinds[i].kind);
    assert_int_equal(rule.limit, 70);
    assert_int_equal(rule.period_us, 90000000);
    assert_string_equal(weir_rule_kind_name(rule.kind), kinds[i].name);
  }
}

static void gives_a_sliding_window_four_cells_unless_told(void **state) {
  (void)state;
  assert_int_equal(parsed("sliding-window:5/s").cells, 4);
  assert_int_equal(parsed("sliding-window:5/s,cells=64").cells, 64);
  assert_int_equal(parsed("sliding-window:5/s").period_us, 1000000);
}

static void reads_every_option(void **state) {
  (void)state;
  weir_rule rule =
      parsed("sliding-window:1000000000/400d,cells=1,strict,count=all,name=per_user.v-2");
  assert_int_equal(rule.limit, WEIR_LIMIT_MOST);
  assert_int_equal(rule.period_us, WEIR_PERIOD_MOST_US);
  assert_true(rule.strict && rule.count_all);
  assert_string_equal(rule.name, "per_user.v-2");
  assert_false(parsed("fixed-window:1/1ms,count=admitted").count_all);
}

static void gives_a_token_bucket_a_burst_of_its_limit_unless_told(void **state) {
  (void)state;
  assert_int_equal(parsed("token-bucket:5/s").burst, 5);
  assert_int_equal(parsed("token-bucket:5/s,burst=1").burst, 1);
  assert_int_equal(parsed("token-bucket:5/s,burst=172800000").burst, 172800000);
}

static void lets_one_act_at_once_in_front_of_a_queue(void **state) {
  (void)state;
  assert_int_equal(parsed("leaky-bucket:5/s").burst, 1);
  assert_int_equal(parsed("leaky-bucket:5/s,queue=0").burst, 1);
  assert_int_equal(parsed("leaky-bucket:5/s,queue=12").burst, 13);
  assert_int_equal(parsed("leaky-bucket:1000/s,queue=999999999").burst, 1000000000);
}

static void holds_a_denial_only_when_told(void **state) {
  (void)state;
  assert_int_equal(parsed("quota:5/s").hold_us, 0);
  assert_int_equal(parsed("quota:5/s,hold=1ms").hold_us, WEIR_HOLD_LEAST_US);
  assert_int_equal(parsed("sliding-log:5/s,hold=60s").hold_us, WEIR_HOLD_MOST_US);
  assert_int_equal(parsed("leaky-bucket:5/s,hold=m").hold_us, WEIR_HOLD_MOST_US);
}

static void owes_only_what_it_is_told(void **state) {
  (void)state;
  assert_int_equal(parsed("quota:5/s").debt, 0);
  assert_int_equal(parsed("quota:5/s,debt=0").debt, 0);
  assert_int_equal(parsed("fixed-window:5/s,debt=5").debt, 5);
  assert_int_equal(parsed("sliding-window:1000000000/1d,debt=1000000000").debt, WEIR_LIMIT_MOST);
  assert_int_equal(parsed("token-bucket:5/s,debt=7,burst=7").debt, 7);
  assert_int_equal(parsed("token-bucket:20000/s,burst=2000,lease=10ms,debt=1800").debt, 1800);
}

static void has_a_ceiling_only_when_told(void **state) {
  (void)state;
  assert_int_equal(parsed("quota:5/s").most, 0);
  assert_int_equal(parsed("quota:5/s,most=5").most, 5);
  assert_int_equal(parsed("fixed-window:5/s,most=6").most, 6);
  assert_int_equal(parsed("sliding-log:5/s,most=100000").most, WEIR_LOG_LIMIT_MOST);
  assert_int_equal(parsed("quota:5/s,most=9007199254740992").most, WEIR_COUNT_LIMIT_MOST);
  assert_int_equal(parsed("quota:9007199254740992/s").limit, WEIR_COUNT_LIMIT_MOST);
  assert_int_equal(parsed("in-flight:5/s,most=1000000000").most, WEIR_LIMIT_MOST);
  assert_int_equal(parsed("token-bucket:5/s,debt=9,burst=10,most=9").debt, 9);
}

/* A part of what the rule admits at once, rounded down, and no class has nothing. */
static void gives_each_class_a_part(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t capacity[3], upper[3]; /* of no class, and of the first two */
  } cases[] = {
      {"fixed-window:10/m", {10, 10, 10}, {10, 10, 10}},
      {"fixed-window:10/m,classes=a:65%|b:8", {10, 6, 8}, {10, 6, 8}},
      {"quota:1/m,classes=a:1%|b:2%", {1, 1, 1}, {1, 1, 1}},
      {"sliding-window:1000/m,classes=batch:60%|free:80%", {1000, 600, 800}, {1500, 900, 1200}},
      {"sliding-window:1000/m,strict,classes=a:1|b:100%", {1000, 1, 1000}, {1000, 1, 1000}},
      {"sliding-window:100/m,most=5000,classes=a:50%|b:51", {100, 50, 51}, {150, 75, 77}},
      {"quota:9007199254740992/m,classes=a:99%|b:100%",
       {9007199254740992, 8917127262193582, 9007199254740992},
       {9007199254740992, 8917127262193582, 9007199254740992}},
      {"sliding-log:30/m,classes=a:33%|b:34%", {30, 9, 10}, {30, 9, 10}},
      {"in-flight:30/m,classes=a:5|b:6", {30, 5, 6}, {30, 5, 6}},
      {"token-bucket:20000/s,burst=2000,lease=10ms,classes=a:50%|b:1800",
       {1800, 900, 1800},
       {1800, 900, 1800}},
      {"leaky-bucket:5/s,queue=9,classes=a:50%|b:60%", {10, 5, 6}, {10, 5, 6}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_rule rule = parsed(cases[i].text);
    for (size_t n = 0; n < 3; n++) {
      assert_int_equal(weir_rule_threshold(&rule, (unsigned)n).capacity, cases[i].capacity[n]);
      assert_int_equal(weir_rule_threshold(&rule, (unsigned)n).upper, cases[i].upper[n]);
    }
    assert_int_equal(rule.capacity, cases[i].capacity[0]);
  }
}

/* A rule that has none beside one that has some, and who goes before whom. */
static void a_stack_has_the_classes_of_its_rules(void **state) {
  (void)state;
  weir_stack stack;
  char list[WEIR_CLASS_LIST_BYTES];
  assert_int_equal(weir_stack_parse("quota:7/s;quota:9/m,classes=a:5|b:6", 64, &stack, NULL),
                   WEIR_OK);
  assert_int_equal(stack.class_count, 2);
  assert_int_equal(weir_stack_find_class(&stack, "a"), 1);
  assert_int_equal(weir_stack_find_class(&stack, "b"), 2);
  assert_int_equal(weir_stack_find_class(&stack, "c"), 0);
  assert_int_equal(weir_stack_find_class(&stack, ""), 0);
  assert_int_equal(weir_rule_threshold(&stack.rules[0], 1).capacity, 7);
  assert_int_equal(weir_rule_threshold(&stack.rules[1], 1).capacity, 5);
  assert_int_equal(weir_stack_least_of_class(&stack, 0), 7);
  assert_int_equal(weir_stack_least_of_class(&stack, 1), 5);
  weir_stack_list_classes(&stack, list);
  assert_string_equal(list, "a and b");
  assert_true(weir_class_rank(0) > weir_class_rank(2) && weir_class_rank(2) > weir_class_rank(1));
}

static void leases_only_when_told(void **state) {
  (void)state;
  assert_int_equal(parsed("quota:5/s").lease_us, 0);
  assert_int_equal(parsed("quota:5/s,lease=1ms").lease_us, WEIR_LEASE_LEAST_US);
  assert_int_equal(parsed("fixed-window:5/s,lease=1000ms").lease_us, WEIR_LEASE_MOST_US);
  assert_int_equal(parsed("sliding-window:1/1ms,strict,lease=s").lease_us, WEIR_LEASE_MOST_US);
  assert_int_equal(parsed("sliding-window:9/s,lease=s").reserve, 0);
  assert_int_equal(parsed("token-bucket:9/s").reserve, 0);
}

/* It keeps back the amount that drains during a lease, rounded up. */
static void a_bucket_keeps_back_what_drains_during_a_lease(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t reserve, capacity;
  } rules[] = {{"token-bucket:20000/s,burst=2000,lease=25ms", 500, 1500},
               {"token-bucket:20000/s,burst=2000,lease=10ms", 200, 1800},
               {"token-bucket:1000/s,burst=8,lease=2ms", 2, 6},
               {"token-bucket:1000/s,burst=4,lease=1ms", 1, 3},
               {"token-bucket:1/s,burst=2,lease=1ms", 1, 1},
               {"token-bucket:1/1d,lease=1s,burst=400", 1, 399},
               {"token-bucket:999/s,burst=8,lease=2ms", 2, 6},
               {"token-bucket:1001/s,burst=9,lease=2ms", 3, 6},
               {"token-bucket:1000000000/s,lease=250ms", 250000000, 750000000}};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_rule rule = parsed(rules[i].text);
    assert_int_equal(rule.reserve, rules[i].reserve);
    assert_int_equal(weir_rule_capacity(&rule), rules[i].capacity);
  }
}

static void admits_at_most_its_capacity_at_once(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t capacity;
    bool bucket;
  } rules[] = {{"fixed-window:7/s", 7, false},          {"sliding-window:7/s,cells=1", 7, false},
               {"sliding-log:7/s", 7, false},           {"quota:7/s", 7, false},
               {"token-bucket:7/s,burst=3", 3, true},   {"token-bucket:7/s", 7, true},
               {"leaky-bucket:7/s,queue=20", 21, true}, {"leaky-bucket:7/s", 1, true}};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_rule rule = parsed(rules[i].text);
    assert_int_equal(weir_rule_capacity(&rule), rules[i].capacity);
    assert_int_equal(weir_rule_moves_in_time(&rule), rules[i].bucket);
  }
}

static int64_t least_capacity(const char *text) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(text, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return weir_stack_least_capacity(&stack);
}

static void charges_a_group_no_more_than_the_least_capacity(void **state) {
  (void)state;
  assert_int_equal(least_capacity("quota:1000000000/s"), 1000000000);
  assert_int_equal(least_capacity("quota:9/s;fixed-window:7/s;quota:8/m"), 7);
  assert_int_equal(least_capacity("fixed-window:7/s;token-bucket:100/s,burst=6"), 6);
  assert_int_equal(least_capacity("fixed-window:7/s;token-bucket:5/s,burst=8"), 7);
  assert_int_equal(least_capacity("fixed-window:7/s;leaky-bucket:100/s,queue=4"), 5);
  assert_int_equal(least_capacity("fixed-window:7/s;sliding-log:100/s"), 1);
  assert_int_equal(least_capacity("sliding-log:100/s"), 1);
  assert_int_equal(least_capacity("quota:7/s,lease=1s;token-bucket:7/s,lease=100ms"), 6);
}

static void reads_several_rules_in_order(void **state) {
  (void)state;
  weir_stack stack;
  assert_int_equal(weir_stack_parse("fixed-window:5/s;fixed-window:5/m;fixed-window:5/h,count=all",
                                    64, &stack, NULL),
                   WEIR_OK);
  assert_int_equal(stack.count, 3);
  assert_int_equal(stack.rules[1].period_us, 60000000);
  assert_true(stack.count_all);
}

static void a_rule_is_written_as_it_would_be_read(void **state) {
  (void)state;
  static const char *const texts[] = {
      "fixed-window:1/1s",
      "fixed-window:1000000000/400d,count=all,hold=59999ms,name=abcdefghijklmnopqrstuvwxyz012345",
      "sliding-window:1000000000/34559999999ms,cells=64,strict,hold=59999ms,name=abcdefghijklmnopq",
      "sliding-window:1/1ms,count=all,name=abcdefghijklmnopqrstuvwxyz012345",
      "sliding-window:5/1m",
      "sliding-window:5/1m,cells=1",
      "sliding-log:100000/1ms",
      "quota:5/30d",
      "quota:5/30d,lease=1s",
      "sliding-window:1000000000/"
      "34559999999ms,cells=64,strict,hold=59999ms,lease=999ms,name=abcdefghi",
      "token-bucket:5/1m",
      "token-bucket:5/1m,burst=1",
      "token-bucket:1000000000/1h,burst=999999999,hold=1ms,name=a",
      "token-bucket:1000000000/"
      "86399999ms,burst=999999999,hold=59999ms,lease=999ms,name=abcdefghijklmn",
      "sliding-window:5/1m,most=5",
      "sliding-window:1000/1m,classes=batch:60%|free:800,name=a",
      "sliding-window:1000/1m,most=5000,classes=low:5%,tiers=Free:10|gold:5000|silver:500,name=a",
      "sliding-window:9007199254740992/34559999999ms,cells=64,strict,hold=59999ms,lease=999ms,"
      "debt=9007199254740992,most=9007199254740992,name=abcdefghijklmnopqrstuvwxyz012345",
      "token-bucket:1000000000/86399999ms,burst=999999999,hold=59999ms,lease=999ms,debt=99999999,"
      "most=1000000000,name=abcdefghijklmnopqrstuvwxyz012345",
      "in-flight:100/30s",
      "in-flight:1/1h,hold=1s,lease=1s,name=a",
      "leaky-bucket:5/1m",
      "leaky-bucket:1000000000/1h,queue=999999999,hold=1ms,name=a",
      "shared-window:60000/1m,floors=50%,weights=north:5|south:3",
      "shared-window:1000000000/400d,cells=8,floors=100%,weights=a:1000000|b:1,hold=1s,name=a",
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    char text[WEIR_RULE_TEXT_BYTES + WEIR_WEIGHTS_MOST];
    weir_rule rule = parsed(texts[i]);
    weir_rule_write(&rule, text);
    assert_string_equal(text, texts[i]);
  }
  char text[WEIR_RULE_TEXT_BYTES];
  weir_rule tiered = parsed("quota:5/1m,tiers=gold:9|a:5|b:6,most=9");
  weir_rule_write(&tiered, text);
  assert_string_equal(text, "quota:5/1m,most=9,tiers=a:5|b:6|gold:9");
  weir_rule rule = parsed("sliding-window:5/60s,count=admitted,cells=4");
  weir_rule_write(&rule, text);
  assert_string_equal(text, "sliding-window:5/1m");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_limit_and_period),
      cmocka_unit_test(knows_every_algorithm_by_its_name),
      cmocka_unit_test(gives_a_sliding_window_four_cells_unless_told),
      cmocka_unit_test(reads_every_option),
      cmocka_unit_test(gives_a_token_bucket_a_burst_of_its_limit_unless_told),
      cmocka_unit_test(lets_one_act_at_once_in_front_of_a_queue),
      cmocka_unit_test(holds_a_denial_only_when_told),
      cmocka_unit_test(owes_only_what_it_is_told),
      cmocka_unit_test(has_a_ceiling_only_when_told),
      cmocka_unit_test(gives_each_class_a_part),
      cmocka_unit_test(a_stack_has_the_classes_of_its_rules),
      cmocka_unit_test(leases_only_when_told),
      cmocka_unit_test(a_bucket_keeps_back_what_drains_during_a_lease),
      cmocka_unit_test(admits_at_most_its_capacity_at_once),
      cmocka_unit_test(charges_a_group_no_more_than_the_least_capacity),
      cmocka_unit_test(reads_several_rules_in_order),
      cmocka_unit_test(a_rule_is_written_as_it_would_be_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
