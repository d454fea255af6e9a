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

static void leaves_room_in_every_layout_it_chooses(void **state) {
  (void)state;
  for (int64_t limit = 1; limit <= WEIR_LIMIT_MOST; limit += 1 + limit / 7) {
    for (uint32_t processes = 1; processes <= 100000; processes *= 10) {
      for (int cells = 1; cells <= 64; cells *= 2) {
        char text[80];
        snprintf(text, sizeof text, "sliding-window:%lld/1m,cells=%d", (long long)limit, cells);
        weir_rule rule = laid_out(text, processes);
        int64_t most = weir_rule_upper(&rule) + ((int64_t)processes + 1) * limit;
        assert_true(rule.lanes * rule.lane_bits <= 63);
        assert_true(rule.lanes == 1 || most < INT64_C(1) << (rule.lane_bits - 1));
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
}

static void keeps_the_longest_tag_within_its_room(void **state) {
  (void)state;
  weir_rule rule = laid_out(
      "sliding-window:1000000000/400d,cells=64,count=all,name=12345678901234567890123456789012",
      100000);
  assert_string_equal(rule.tag, "sw64-34560000000-1x63-all+12345678901234567890123456789012");
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
      cmocka_unit_test(leaves_room_in_every_layout_it_chooses),
      cmocka_unit_test(gives_a_cell_its_own_counter_where_denied_requests_count),
      cmocka_unit_test(names_in_the_tag_what_changes_the_meaning_of_a_counter),
      cmocka_unit_test(keeps_the_longest_tag_within_its_room),
      cmocka_unit_test(rounds_the_width_of_a_cell_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
