#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>

#include <cmocka.h>

#include "algorithm/plan.h"
#include "algorithm/window.h"

static weir_rule rule_of(const char *text) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(text, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack.rules[0];
}

/* The span at `now_us` with the given counts, oldest first. */
static weir_cell_span span_at(const weir_rule *rule, int64_t now_us, const weir_cell *cells) {
  weir_cell_span span = {.cells = cells};
  weir_cells_span(rule, now_us, 40000, &span);
  return span;
}

static void spans_from_the_far_edge_to_the_current_cell(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:10/4s");
  weir_cell_span span = span_at(&rule, 10500000, NULL); /* half-way through cell 10 of 1 s */
  assert_int_equal(span.first, 6);
  assert_int_equal(span.current, 10);
  assert_int_equal(span.last, 10);
  assert_int_equal(span.left_us, 499999); /* ticks 6500001 .. 6999999 */
}

static void looks_one_cell_ahead_within_the_margin_of_its_end(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:10/4s");
  assert_int_equal(span_at(&rule, 10959999, NULL).last, 10);
  assert_int_equal(span_at(&rule, 10960000, NULL).last, 11);
  rule = rule_of("sliding-window:10/64ms,cells=64"); /* cells of 1 ms: far more within the margin */
  assert_int_equal(span_at(&rule, 1000500, NULL).last, 1001);
}

static void sees_nothing_left_of_a_cell_that_has_just_gone(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:10/4s");
  assert_int_equal(span_at(&rule, 10999999, NULL).left_us, 0);
  assert_int_equal(span_at(&rule, 11000000, NULL).left_us, 999999);
}

static void bears_times_before_one_period(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:10/4s");
  weir_cell_span span = span_at(&rule, 0, NULL);
  assert_int_equal(span.first, -4);
  assert_int_equal(span.current, 0);
}

static void rounds_the_weighted_estimate_half_up(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:10/10s,cells=1");
  weir_cell cells[3] = {{5, 0}, {3, 0}, {0, 0}};
  weir_cell_span span = span_at(&rule, 15000000, cells); /* 4999999 of 10000000 left: 2.4999995 */
  assert_int_equal(weir_cells_remaining(&rule, weir_rule_threshold(&rule, 0), &span), 10 - 3 - 2);
  span = span_at(&rule, 14999999, cells); /* exactly half of 5: 2.5 */
  assert_int_equal(weir_cells_remaining(&rule, weir_rule_threshold(&rule, 0), &span), 10 - 3 - 3);
}

static void counts_the_edge_whole_under_strict(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:10/10s,cells=1,strict");
  weir_cell cells[3] = {{5, 0}, {3, 0}, {0, 0}};
  weir_cell_span span = span_at(&rule, 15000000, cells);
  assert_int_equal(weir_cells_remaining(&rule, weir_rule_threshold(&rule, 0), &span), 2);
  span = span_at(&rule, 19999999, cells); /* nothing of it is left */
  assert_int_equal(span.left_us, 0);
}

static void holds_the_sum_of_whole_cells_under_its_bound(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:100/4s"); /* at most 150 */
  weir_cell cells[6] = {{90, 0}, {30, 0}, {30, 0}, {0, 0}, {0, 0}, {0, 0}};
  weir_cell_span span =
      span_at(&rule, 10900000, cells); /* estimate 60 + 9: 31 would fit by itself */
  assert_int_equal(weir_cells_remaining(&rule, weir_rule_threshold(&rule, 0), &span), 0);
}

/* By definition: the first later microsecond at which the cost fits. */
static int64_t fits_after(const weir_rule *rule, const weir_cell *cells, int64_t first, int count,
                          int64_t now_us, int64_t wait_us, int64_t cost) {
  weir_cell later[8] = {{0, 0}};
  weir_cell_span span = span_at(rule, now_us + wait_us, later);
  for (int i = 0; i < 8; i++) {
    int64_t from = span.first + i - first;
    if (from >= 0 && from < count) later[i] = cells[from];
  }
  for (int64_t cell = span.last + 1; cell < first + count; cell++)
    later[span.last - span.first].count += cells[cell - first].count; /* known, and ahead */
  return weir_cells_remaining(rule, weir_rule_threshold(rule, 0), &span) >= cost;
}

static void finds_the_shortest_wait_exactly(void **state) {
  (void)state;
  const char *texts[] = {"sliding-window:20/1s,cells=1", "sliding-window:20/1s,cells=2",
                         "sliding-window:20/1s", "sliding-window:20/1s,strict",
                         "sliding-window:20/1001ms"};
  unsigned seed = 7;
  int waits = 0;
  for (int round = 0; round < 200000; round++) {
    weir_rule rule = rule_of(texts[round % 5]);
    weir_cell cells[8] = {{0, 0}};
    int64_t now_us = 50000000 + rand_r(&seed) % 3000000;
    weir_cell_span span = span_at(&rule, now_us, cells);
    int count = (int)(span.last - span.first) + 1;
    for (int i = 0; i < count; i++)
      cells[i].count = rand_r(&seed) % 12;
    int64_t cost = 1 + rand_r(&seed) % 20;
    int64_t wait_us =
        weir_cells_retry_after(&rule, weir_rule_threshold(&rule, 0), &span, now_us, cost);
    assert_true(fits_after(&rule, cells, span.first, count, now_us, wait_us, cost));
    if (wait_us == 0) continue;
    assert_false(fits_after(&rule, cells, span.first, count, now_us, wait_us - 1, cost));
    waits++;
  }
  assert_true(waits > 50000);
}

static void forgets_when_the_newest_charged_cell_has_gone(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:10/4s");
  weir_cell cells[6] = {{1, 0}, {0, 0}, {2, 0}, {0, 0}, {0, 0}, {0, 0}};
  weir_cell_span span =
      span_at(&rule, 10500000, cells); /* cell 8 ends at 9 s, is gone at 13 s - 1 us */
  assert_int_equal(weir_cells_reset_after(&rule, &span, 10500000), 12999999 - 10500000);
  cells[2].count = cells[0].count = 0;
  assert_int_equal(weir_cells_reset_after(&rule, &span, 10500000), 0);
}

/* Lanes as the library writes them: sums of shifted charges and take-backs. */
static void reads_lanes_back_whatever_was_borrowed(void **state) {
  (void)state;
  const char *texts[] = {"sliding-window:100/4s", "sliding-window:100000/4s",
                         "sliding-window:9/4s,count=all"};
  unsigned seed = 3;
  for (int round = 0; round < 100000; round++) {
    weir_rule rule = rule_of(texts[round % 3]);
    int64_t half = INT64_C(1) << (rule.lane_bits - 1);
    int64_t lanes[4], counter = 0;
    for (int i = 0; i < rule.lanes; i++) {
      int64_t digit = rand_r(&seed) % 20000;
      if (digit >= half) digit = half - 1;
      lanes[i] = rand_r(&seed) % 3 == 0 ? -digit : digit;
      counter += lanes[i] * (INT64_C(1) << (i * rule.lane_bits));
    }
    int64_t counts[WEIR_LANES_MOST];
    weir_cells_decode(&rule, counter, counts);
    for (int i = 0; i < rule.lanes; i++)
      assert_int_equal(counts[i], lanes[i] > 0 ? lanes[i] : 0);
  }
}

static void bears_any_counter(void **state) {
  (void)state;
  weir_rule rule = rule_of("sliding-window:100/4s");
  int64_t most[WEIR_LANES_MOST], least[WEIR_LANES_MOST];
  weir_cells_decode(&rule, INT64_MAX, most);
  weir_cells_decode(&rule, INT64_MIN, least);
  for (int lane = 0; lane < 4; lane++) {
    assert_in_range(most[lane], 0, 16384);
    assert_in_range(least[lane], 0, 16384);
  }
  rule = rule_of("fixed-window:5/1s");
  weir_cells_decode(&rule, INT64_MAX, most);
  weir_cells_decode(&rule, INT64_MIN, least);
  assert_int_equal(most[0], WEIR_COUNT_MOST);
  assert_int_equal(least[0], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_from_the_far_edge_to_the_current_cell),
      cmocka_unit_test(looks_one_cell_ahead_within_the_margin_of_its_end),
      cmocka_unit_test(sees_nothing_left_of_a_cell_that_has_just_gone),
      cmocka_unit_test(bears_times_before_one_period),
      cmocka_unit_test(rounds_the_weighted_estimate_half_up),
      cmocka_unit_test(counts_the_edge_whole_under_strict),
      cmocka_unit_test(holds_the_sum_of_whole_cells_under_its_bound),
      cmocka_unit_test(finds_the_shortest_wait_exactly),
      cmocka_unit_test(forgets_when_the_newest_charged_cell_has_gone),
      cmocka_unit_test(reads_lanes_back_whatever_was_borrowed),
      cmocka_unit_test(bears_any_counter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
