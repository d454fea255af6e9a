#include "algorithm/stage.h"

enum { KIND_STAGES = 3 };

bool weir_stage_only_windows(const weir_stack *stack) {
  for (size_t i = 0; i < stack->count; i++)
    if (stack->rules[i].kind != WEIR_FIXED_WINDOW && stack->rules[i].kind != WEIR_SLIDING_WINDOW)
      return false;
  return true;
}

bool weir_stage_concerns(const weir_machine *machine, size_t i) {
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && weir_ask_cost(ask, i) > 0) return true;
  return false;
}

bool weir_stage_has_takes(const weir_machine *machine) {
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && ask->kind == WEIR_ASK_TAKE) return true;
  return false;
}

int64_t weir_stage_wants(const weir_machine *machine, size_t i) {
  int64_t sum = 0;
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && ask->kind == WEIR_ASK_TAKE) sum += weir_ask_cost(ask, i);
  return sum;
}

/* How many rules are tighter than rule i. */
static unsigned rank(const weir_stack *stack, size_t i) {
  int64_t limit = stack->rules[i].limit;
  unsigned tighter = 0;
  for (size_t j = 0; j < stack->count; j++) {
    int64_t other = stack->rules[j].limit;
    if (other < limit || (other == limit && j < i)) tighter++;
  }
  return tighter;
}

unsigned weir_stage_of(const weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  if (machine->in_order) return rank(machine->stack, i);
  if (rule->kind == WEIR_SLIDING_LOG) return 2;
  return weir_rule_is_bucket(rule) ? 1 : 0;
}

unsigned weir_stage_count(const weir_machine *machine) {
  return machine->in_order ? (unsigned)machine->stack->count : KIND_STAGES;
}

bool weir_stage_is_last(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (weir_stage_of(machine, i) > machine->stage && weir_stage_wants(machine, i) > 0)
      return false;
  return true;
}
