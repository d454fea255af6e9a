/* Any text: a rule that is accepted keeps its promises to the rest of the library, one that is not
 * has a message. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "rule/rule.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

__extension__ typedef __int128 wide;

/* The rate is not exceeded, nor short by a thousandth, and sums stay exact in a double. */
static void check_bucket(const weir_rule *rule) {
  wide period = (wide)rule->period_us << rule->unit_bits;
  wide excess = (wide)rule->token_units * rule->limit - period;
  if (rule->unit_bits != 0 && rule->unit_bits != 10 && rule->unit_bits != 20) abort();
  if (rule->token_units < 1024 || excess < 0 || excess * 1000 >= period) abort();
  if (rule->burst < 1 || rule->burst > WEIR_LIMIT_MOST) abort();
  if ((wide)rule->burst * rule->period_us > (wide)rule->limit * WEIR_PERIOD_MOST_US) abort();
  wide longest_wait = (wide)1800 * 1000000 << rule->unit_bits;
  if (rule->burst * (wide)rule->token_units + longest_wait >= (wide)1 << 52) abort();
}

/* A bucket keeps back what drains during a lease, and no more than a quarter, rounded up. */
static void check_lease(const weir_rule *rule) {
  if (rule->lease_us < WEIR_LEASE_LEAST_US || rule->lease_us > WEIR_LEASE_MOST_US) abort();
  if (rule->count_all || rule->kind == WEIR_SLIDING_LOG || rule->kind == WEIR_LEAKY_BUCKET) abort();
  wide drains = (wide)rule->limit * rule->lease_us;
  if (!weir_rule_moves_in_time(rule) && rule->reserve != 0) abort();
  if (!weir_rule_moves_in_time(rule)) return;
  if ((wide)rule->reserve * rule->period_us < drains) abort();
  if (((wide)rule->reserve - 1) * rule->period_us >= drains) abort();
  if (rule->reserve > (rule->burst + 3) / 4 || weir_rule_capacity(rule) < 1) abort();
}

static void check_rule(const weir_rule *rule, const weir_stack *stack) {
  bool log = rule->kind == WEIR_SLIDING_LOG;
  int64_t largest = weir_rule_keeps_counts(rule) ? WEIR_COUNT_LIMIT_MOST : WEIR_LIMIT_MOST;
  if (log) largest = WEIR_LOG_LIMIT_MOST;
  if (rule->limit < 1 || rule->limit > largest) abort();
  if (rule->period_us < WEIR_PERIOD_LEAST_US || rule->period_us > WEIR_PERIOD_MOST_US) abort();
  if (weir_rule_is_held(rule) &&
      (rule->period_us < WEIR_HELD_LEAST_US || rule->period_us > WEIR_HELD_MOST_US))
    abort();
  if (rule->cells < 1 || rule->cells > WEIR_CELLS_MOST || (rule->cells & (rule->cells - 1)))
    abort();
  if (rule->most != 0 && (rule->most < rule->limit || rule->most < rule->debt)) abort();
  if (rule->most > largest) abort();
  if (rule->kind != WEIR_SLIDING_WINDOW && (rule->cells != 1 || rule->strict)) abort();
  if (rule->cell_us * rule->cells < rule->period_us) abort();
  if (rule->lanes * rule->lane_bits > 63) abort();
  if (rule->hold_us != 0 &&
      (rule->hold_us < WEIR_HOLD_LEAST_US || rule->hold_us > WEIR_HOLD_MOST_US))
    abort();
  if ((rule->lease_us > 0) != (stack->rules[0].lease_us > 0)) abort();
  if (rule->lease_us > 0)
    check_lease(rule);
  else if (rule->reserve != 0)
    abort();
  if (weir_rule_moves_in_time(rule))
    check_bucket(rule);
  else if (rule->burst != 0)
    abort();
  if (rule->count_all && (log || weir_rule_moves_in_time(rule) || !stack->count_all)) abort();
  if (weir_rule_capacity(rule) < weir_stack_least_capacity(stack)) abort();
  if (strlen(rule->tag) == 0 || strpbrk(rule->tag, ":{} ") != NULL) abort();
  size_t name = strlen(rule->name);
  if (strcmp(rule->tag + strlen(rule->tag) - name, rule->name) != 0) abort(); /* not cut */
}

static void check_stack(const weir_stack *stack) {
  int logs = 0;
  for (size_t i = 0; i < stack->count; i++) {
    check_rule(&stack->rules[i], stack);
    logs += stack->rules[i].kind == WEIR_SLIDING_LOG;
    for (size_t j = 0; j < i; j++) /* all logs of a stack are one, and nothing else is */
      if ((strcmp(stack->rules[i].tag, stack->rules[j].tag) == 0) !=
          (stack->rules[i].log_us > 0 && stack->rules[j].log_us > 0))
        abort();
  }
  if (stack->count < 1 || weir_stack_least_capacity(stack) < 1) abort();
  if (logs > 0 && weir_stack_least_capacity(stack) != 1) abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  weir_stack stack;
  weir_message message = {""};
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  weir_status status = weir_stack_parse(text, 64, &stack, &message);
  if (status != WEIR_OK && status != WEIR_BAD_RULE) abort();
  if ((status == WEIR_OK) != (message.text[0] == '\0')) abort();
  if (status == WEIR_OK) check_stack(&stack);
  if (status == WEIR_BAD_RULE) require_readable(&message);
  free(text);
  return 0;
}
