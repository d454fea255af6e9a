/* Storage layout: which counters hold a rule's cells, and the tag that names them.
 *
 * Several cells share one 64-bit counter, so that one increment answers with all of them. A lane
 * must never carry into its neighbour, whatever happens at once. A cell holds at most
 *
 *     what may be admitted          upper(L, N)
 *   + one charge per process that is not yet taken back, each at most L
 *   + one more, left behind by a crash or an unknown outcome
 *
 * because a process has one group under way per key, a group charges at most L, and after a denial
 * or an unknown outcome the next touch of the key is a peek. Lanes are signed digits, so that sum
 * must stay below half a lane. Where denied requests stay charged there is no such bound, and each
 * cell has a counter of its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>

#include "rule/rule.h"

static const struct {
  int lanes;
  int bits;
} layouts[] = {{4, 15}, {2, 31}, {1, 63}};

int64_t weir_rule_upper(const weir_rule *rule) {
  if (rule->strict || rule->kind == WEIR_FIXED_WINDOW) return rule->limit;
  return rule->limit + (2 * rule->limit + rule->cells - 1) / rule->cells;
}

int64_t weir_stack_least_limit(const weir_stack *stack) {
  int64_t least = stack->rules[0].limit;
  for (size_t i = 1; i < stack->count; i++)
    if (stack->rules[i].limit < least) least = stack->rules[i].limit;
  return least;
}

/* At most 3e9 + 100001 * 1e9: far below 2^63. */
static int64_t most_in_a_cell(const weir_rule *rule, uint32_t processes) {
  return weir_rule_upper(rule) + ((int64_t)processes + 1) * rule->limit;
}

static void choose_lanes(weir_rule *rule, uint32_t processes, bool packable) {
  size_t i = 0;
  int64_t most = most_in_a_cell(rule, processes);
  while (layouts[i].lanes > 1 && (!packable || most >= INT64_C(1) << (layouts[i].bits - 1)))
    i++;
  rule->lanes = layouts[i].lanes;
  rule->lane_bits = layouts[i].bits;
}

/* Everything that changes the meaning of a stored counter, and nothing else: "sw4-60000-4x15". */
static void write_tag(weir_rule *rule) {
  int64_t period_ms = rule->period_us / 1000;
  const char *all = rule->count_all ? "-all" : "";
  const char *plus = rule->name[0] != '\0' ? "+" : ""; /* no name holds one */
  if (rule->kind == WEIR_FIXED_WINDOW)
    snprintf(rule->tag, sizeof rule->tag, "fw-%" PRId64 "%s%s%s", period_ms, all, plus, rule->name);
  else
    snprintf(rule->tag, sizeof rule->tag, "sw%d-%" PRId64 "-%dx%d%s%s%s", rule->cells, period_ms,
             rule->lanes, rule->lane_bits, all, plus, rule->name);
}

weir_status weir_stack_lay_out(weir_stack *stack, uint32_t processes, weir_message *message) {
  for (size_t i = 0; i < stack->count; i++) {
    weir_rule *rule = &stack->rules[i];
    rule->cell_us = (rule->period_us + rule->cells - 1) / rule->cells;
    choose_lanes(rule, processes, rule->kind == WEIR_SLIDING_WINDOW && !stack->count_all);
    write_tag(rule);
    for (size_t j = 0; j < i; j++) {
      if (strcmp(stack->rules[j].tag, rule->tag) != 0) continue;
      weir_message_set(message,
                       "rules %zu and %zu would share their counts (%s): give one of them a name=",
                       j + 1, i + 1, rule->tag);
      return WEIR_BAD_RULE;
    }
  }
  return WEIR_OK;
}
