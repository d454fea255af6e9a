/* Storage layout: which counters hold a rule's cells, and the tag that names what is stored. Only
 * sliding windows have cells to share a counter; other rules count in whole ones.
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

#include "rule/parse.h"

static const struct {
  int lanes;
  int bits;
} layouts[] = {{4, 15}, {2, 31}, {1, 63}};

int64_t weir_rule_upper(const weir_rule *rule) {
  if (rule->strict || !weir_rule_has_cells(rule)) return rule->limit;
  return rule->limit + (2 * rule->limit + rule->cells - 1) / rule->cells;
}

/* A window of less than four cells meets two of its estimates, each of at most L. */
int64_t weir_rule_bound(const weir_rule *rule) {
  bool estimates = weir_rule_has_cells(rule) && !rule->strict;
  return estimates && rule->cells < 4 ? 2 * rule->limit : weir_rule_upper(rule);
}

int64_t weir_rule_capacity(const weir_rule *rule) {
  return weir_rule_moves_in_time(rule) ? rule->burst - rule->reserve : rule->limit;
}

int64_t weir_stack_least_capacity(const weir_stack *stack) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    int64_t capacity = weir_rule_takes_one(rule) ? 1 : weir_rule_capacity(rule);
    if (capacity < least) least = capacity;
  }
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

enum { PREFIX_BYTES = 32 };
_Static_assert(PREFIX_BYTES + WEIR_NAME_MOST <= WEIR_TAG_MOST, "prefix, '+' and name are a tag");

/* "sw4-60000-4x15": everything that changes the meaning of what is stored, and nothing else. */
static void write_tag(weir_rule *rule) {
  char prefix[PREFIX_BYTES]; /* "sw64-34560000000-1x63-all" is the longest */
  char *at = prefix, *end = prefix + sizeof prefix;
  bool cells = weir_rule_has_cells(rule);
  at += snprintf(at, (size_t)(end - at), "%s", weir_rule_kind_tag(rule->kind));
  if (cells) at += snprintf(at, (size_t)(end - at), "%d", rule->cells);
  int64_t period_us = rule->log_us > 0 ? rule->log_us : rule->period_us;
  at += snprintf(at, (size_t)(end - at), "-%" PRId64, period_us / 1000);
  if (cells) at += snprintf(at, (size_t)(end - at), "-%dx%d", rule->lanes, rule->lane_bits);
  if (weir_rule_moves_in_time(rule))
    at += snprintf(at, (size_t)(end - at), "-u%d", rule->unit_bits);
  snprintf(at, (size_t)(end - at), "%s", rule->count_all ? "-all" : "");
  const char *plus = rule->name[0] != '\0' ? "+" : ""; /* no name holds one */
  snprintf(rule->tag, sizeof rule->tag, "%s%s%s", prefix, plus, rule->name);
}

static bool is_window(const weir_rule *rule) {
  return weir_rule_keeps_counts(rule) && !weir_rule_opens_windows(rule);
}

/* Only windows alone are charged without a look, and so for denied requests too. */
static weir_status check_count(const weir_rule *rule, const weir_rule *beside,
                               weir_message *message) {
  if (!rule->count_all || (is_window(rule) && is_window(beside))) return WEIR_OK;
  const weir_rule *no_window = is_window(rule) ? beside : rule;
  weir_message_set(message,
                   "count=all in a stack with a %s: accepted is count=admitted, unless all rules "
                   "are windows",
                   weir_rule_kind_name(no_window->kind));
  return WEIR_BAD_RULE;
}

/* A log's charge cannot be given back, so it must come last, and only one log can: all rules of a
 * stack that are logs read the same one. */
static weir_status check_logs(const weir_stack *stack, size_t i, size_t j, weir_message *message) {
  const weir_rule *one = &stack->rules[i];
  const weir_rule *other = &stack->rules[j];
  const char *fault = NULL;
  if (one->period_us == other->period_us) fault = "have one period: accepted is one limit for it";
  if (strcmp(one->name, other->name) != 0)
    fault = "share one log: accepted is one name= for both, or none";
  if (fault == NULL) return WEIR_OK;
  weir_message_set(message, "rules %zu and %zu are both %s and %s", i + 1, j + 1,
                   weir_rule_kind_name(one->kind), fault);
  return WEIR_BAD_RULE;
}

static weir_status check_pair(const weir_stack *stack, size_t i, size_t j, weir_message *message) {
  const weir_rule *one = &stack->rules[i];
  const weir_rule *other = &stack->rules[j];
  if (weir_rule_takes_one(one) && weir_rule_takes_one(other))
    return check_logs(stack, i, j, message);
  weir_status status = check_count(one, other, message);
  if (status == WEIR_OK) status = check_count(other, one, message);
  if (status != WEIR_OK) return status;
  if (strcmp(one->tag, other->tag) == 0) {
    weir_message_set(
        message, "rules %zu and %zu would share their counts (%s): give one of them a name=", i + 1,
        j + 1, one->tag);
    return WEIR_BAD_RULE;
  }
  return WEIR_OK;
}

static int64_t longest_log_us(const weir_stack *stack) {
  int64_t longest_us = 0;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    if (weir_rule_takes_one(rule) && rule->period_us > longest_us) longest_us = rule->period_us;
  }
  return longest_us;
}

weir_status weir_stack_lay_out(weir_stack *stack, uint32_t processes, weir_message *message) {
  weir_status status = WEIR_OK;
  int64_t log_us = longest_log_us(stack);
  for (size_t i = 0; i < stack->count && status == WEIR_OK; i++) {
    weir_rule *rule = &stack->rules[i];
    rule->capacity = weir_rule_capacity(rule);
    rule->upper = weir_rule_upper(rule);
    rule->log_us = weir_rule_takes_one(rule) ? log_us : 0;
    rule->cell_us = (rule->period_us + rule->cells - 1) / rule->cells;
    choose_lanes(rule, processes, weir_rule_has_cells(rule) && !stack->count_all);
    write_tag(rule);
    for (size_t j = 0; j < i && status == WEIR_OK; j++)
      status = check_pair(stack, j, i, message);
  }
  return status;
}
