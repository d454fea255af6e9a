/* The rules by which a process goes on without its store: the same windows and buckets, counted in
 * parts of a cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rule/rule.h"

static weir_stack parse(const char *rules) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(rules, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack;
}

static weir_stack continued(const char *rules) {
  weir_stack whole = parse(rules);
  weir_stack made;
  weir_stack_continue(&whole, &made);
  assert_int_equal(made.count, whole.count);
  return made;
}

static void a_limit_is_so_many_parts(void **state) {
  static const struct {
    const char *rules;
    int64_t limit, capacity;
  } cases[] = {
      {"fixed-window:100/1m", 100, 100},
      {"fixed-window:1/1m", 1, 1},
      {"fixed-window:1000000000/400d", 1000000000, 1000000000},
      {"sliding-window:100/1m,cells=16", 100, 100},
      {"quota:1000000000/1d", 1000000000, 1000000000},
      {"quota:7/1d,lease=1s", 7, 7},
      {"token-bucket:100/1m,burst=20", 100, 20},
      {"token-bucket:5/1m,burst=800,lease=1s", 5, 799}, /* what a lease reserves is never charged */
      {"token-bucket:5/1m,burst=800,lease=1s,debt=799", 5, 799},
      {"sliding-window:100/1m,debt=60", 100, 100},
      {"leaky-bucket:100/1m,queue=50", 100, 51}, /* the one in front is among them */
      {"leaky-bucket:100/1m", 100, 1},
      {"in-flight:100/30s", 100, 100},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_rule whole = parse(cases[i].rules).rules[0];
    weir_rule rule = continued(cases[i].rules).rules[0];
    assert_int_equal(rule.parts, WEIR_CONTINUED_PARTS);
    assert_int_equal(rule.limit, cases[i].limit * rule.parts);
    assert_int_equal(weir_rule_capacity(&rule), cases[i].capacity * rule.parts);
    assert_int_equal(rule.capacity, weir_rule_capacity(&rule));
    assert_int_equal(rule.period_us, whole.period_us);
    assert_int_equal(rule.kind, whole.kind);
    assert_int_equal(rule.cells, whole.cells);
    assert_int_equal(rule.lease_us, 0); /* nobody else charges it */
    assert_int_equal(rule.reserve, 0);
    assert_int_equal(rule.debt, whole.debt * rule.parts);
  }
}

/* An entry has no parts. */
static void a_log_becomes_a_strict_window(void **state) {
  (void)state;
  weir_rule rule = continued("sliding-log:80/1h").rules[0];
  assert_false(weir_rule_takes_one(&rule));
  assert_true(weir_rule_slides(&rule) && rule.strict && rule.cells > 1);
  assert_int_equal(rule.limit, 80 * WEIR_CONTINUED_PARTS);
  assert_int_equal(rule.period_us, INT64_C(3600000000));
}

/* Each is a rule like any other: what buckets are proved by holds for it, and it fills as the whole
 * one does. */
static void a_bucket_has_as_many_parts_as_its_time_is_fine_enough_for(void **state) {
  static const char *const rules[] = {
      "token-bucket:900/1s",
      "token-bucket:1000/1s",
      "token-bucket:1/400d,burst=1",
      "token-bucket:2/1d,burst=800",
      "token-bucket:1000000/1ms",
      "token-bucket:1000000000/1s",
      "token-bucket:1000000000/1s,burst=1000000000",
      "token-bucket:1000000000/400d,burst=1000000000",
      "token-bucket:1/1s,burst=34560000",
      "leaky-bucket:77777/1m,queue=100",
      "leaky-bucket:1000000/1s,queue=999999",
  };
  bool fewer = false;
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_rule whole = parse(rules[i]).rules[0];
    weir_rule rule = continued(rules[i]).rules[0];
    long double whole_us = (long double)whole.token_units / (long double)(1 << whole.unit_bits);
    long double us = (long double)rule.token_units / (long double)(1 << rule.unit_bits);
    assert_in_range(rule.parts, 1, WEIR_CONTINUED_PARTS);
    assert_int_equal(rule.parts & (rule.parts - 1), 0);
    assert_int_equal(WEIR_CONTINUED_PARTS % rule.parts, 0);
    assert_int_equal(rule.limit, whole.limit * rule.parts);
    assert_int_equal(rule.burst, weir_rule_capacity(&whole) * rule.parts);
    assert_true(rule.token_units >= 1024);
    assert_true((long double)rule.burst * (long double)rule.token_units < 0x1p50L);
    assert_true(us * (long double)rule.parts >= whole_us * 0.999L);
    assert_true(us * (long double)rule.parts <= whole_us * 1.001L);
    fewer = fewer || rule.parts < WEIR_CONTINUED_PARTS;
  }
  assert_true(fewer); /* one of them at least is that fast */
}

/* Rules that differ by their layouts alone have one layout in parts; and rules that share a log no
 * longer do. */
static void rules_of_a_stack_stay_apart(void **state) {
  static const char *const rules[] = {
      "sliding-window:246/1h;sliding-window:50000/1h",
      "token-bucket:900/1s;token-bucket:1000/1s",
      "fixed-window:5/1m,name=1;fixed-window:9/1m,name=2;quota:7/1m",
      "sliding-log:5/1m;sliding-log:9/2m;sliding-window:9/1m,cells=16,strict",
      "quota:5/1s;quota:5/2s;quota:5/3s;quota:5/4s;quota:5/5s;quota:5/6s;quota:5/7s;quota:5/8s",
  };
  (void)state;
  for (size_t n = 0; n < sizeof rules / sizeof rules[0]; n++) {
    weir_stack made = continued(rules[n]);
    for (size_t i = 0; i < made.count; i++) {
      assert_true(made.rules[i].tag[0] != '\0');
      assert_true(made.rules[i].cell_us > 0 && made.rules[i].lanes > 0);
      for (size_t j = 0; j < i; j++)
        assert_string_not_equal(made.rules[i].tag, made.rules[j].tag);
    }
  }
}

static void denied_requests_count_where_they_did(void **state) {
  (void)state;
  assert_true(continued("fixed-window:5/1m,count=all").count_all);
  assert_false(continued("fixed-window:5/1m").count_all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_is_so_many_parts),
      cmocka_unit_test(a_log_becomes_a_strict_window),
      cmocka_unit_test(a_bucket_has_as_many_parts_as_its_time_is_fine_enough_for),
      cmocka_unit_test(rules_of_a_stack_stay_apart),
      cmocka_unit_test(denied_requests_count_where_they_did),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
