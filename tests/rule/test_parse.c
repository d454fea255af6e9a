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

/* Each bad text, and the words that its message must hold. */
static const struct {
  const char *text, *names, *accepts;
} bad[] = {
    {"", "\"\"", "fixed-window"},
    {"token:1/s", "\"token\"", "fixed-window"},
    {"fixed-window", "LIMIT/PERIOD", "100/1m"},
    {"fixed-window:5", "LIMIT/PERIOD", "100/1m"},
    {"fixed-window:0/s", "\"0\"", "1 to 1000000000"},
    {"fixed-window:-1/s", "\"-1\"", "1 to 1000000000"},
    {"fixed-window:1000000001/s", "\"1000000001\"", "1 to 1000000000"},
    {"fixed-window:99999999999999999999999/s", "99999999999999999999999", "1 to 1000000000"},
    {"fixed-window:1.5/s", "\"1.5\"", "whole number"},
    {"fixed-window:/s", "\"\"", "whole number"},
    {"fixed-window:1/", "\"\"", "1ms to 400d"},
    {"fixed-window:1/0s", "\"0s\"", "1ms to 400d"},
    {"fixed-window:1/401d", "\"401d\"", "1ms to 400d"},
    {"fixed-window:1/5x", "\"5x\"", "ms, s, m, h, d"},
    {"fixed-window:1/99999999999999999999d", "99999999999999999999d", "1ms to 400d"},
    {"fixed-window:1/s,", "\"\"", "count="},
    {"fixed-window:1/s,cells=4", "\"cells\"", "count= and name="},
    {"fixed-window:1/s,strict", "\"strict\"", "count= and name="},
    {"sliding-window:1/s,burst=3", "\"burst\"", "cells="},
    {"sliding-window:1/s,cells=3", "cells=3", "1, 2, 4"},
    {"sliding-window:1/s,cells=128", "cells=128", "and 64"},
    {"sliding-window:1/s,cells=0", "cells=0", "1, 2, 4"},
    {"sliding-window:1/s,cells", "cells", "needs a value"},
    {"sliding-window:1/s,strict=yes", "strict=yes", "no value"},
    {"sliding-window:1/s,count=some", "count=some", "admitted and all"},
    {"sliding-window:1/s,name=", "name=", "1 to 32"},
    {"sliding-window:1/s,name=a b", "name=a b", "A-Z"},
    {"sliding-window:1/s,name=123456789012345678901234567890123", "name=", "1 to 32"},
    {"sliding-window:1/s,strict,strict", "strict", "twice"},
    {"fixed-window:1/s;", "\"\"", "fixed-window"},
    {"fixed-window:1/s;fixed-window:2/s", "rules 1 and 2", "name="},
    {"sliding-window:1/s;sliding-window:2/s,strict", "rules 1 and 2", "name="},
    {"fixed-window:1/1s;fixed-window:1/2s;fixed-window:1/3s;fixed-window:1/4s;fixed-window:1/5s;"
     "fixed-window:1/6s;fixed-window:1/7s;fixed-window:1/8s;fixed-window:1/9s",
     "more than 8", "1 to 8"},
};

static void names_what_is_wrong_and_what_is_accepted(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    weir_stack stack;
    weir_message message = {""};
    weir_status status = weir_stack_parse(bad[i].text, 64, &stack, &message);
    if (status != WEIR_BAD_RULE || strstr(message.text, bad[i].names) == NULL ||
        strstr(message.text, bad[i].accepts) == NULL)
      fail_msg("\"%s\" gave %d \"%s\", wanted \"%s\" and \"%s\"", bad[i].text, (int)status,
               message.text, bad[i].names, bad[i].accepts);
  }
}

static void bears_very_long_text(void **state) {
  (void)state;
  char text[5000];
  weir_stack stack;
  weir_message message = {""};
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  assert_int_equal(weir_stack_parse(text, 64, &stack, &message), WEIR_BAD_RULE);
  assert_true(strlen(message.text) < WEIR_MESSAGE_BYTES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_limit_and_period),
      cmocka_unit_test(gives_a_sliding_window_four_cells_unless_told),
      cmocka_unit_test(reads_every_option),
      cmocka_unit_test(reads_several_rules_in_order),
      cmocka_unit_test(names_what_is_wrong_and_what_is_accepted),
      cmocka_unit_test(bears_very_long_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
