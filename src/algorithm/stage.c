#include "algorithm/stage.h"

#include "algorithm/method.h"

static bool is_open_take(const weir_ask *ask) {
  return !ask->settled && ask->kind == WEIR_ASK_TAKE;
}

bool weir_stage_has_takes(const weir_machine *machine) {
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (is_open_take(ask)) return true;
  return false;
}

bool weir_stage_concerns(const weir_machine *machine, size_t i) {
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && weir_ask_cost(ask, i) > 0) return true;
  return false;
}

int64_t weir_stage_cost(const weir_machine *machine, size_t i) {
  int64_t sum = 0;
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (is_open_take(ask)) sum += weir_ask_cost(ask, i);
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

/* In order every rule is a stage of its own, the smallest limit first. */
static unsigned stage_of(const weir_machine *machine, size_t i) {
  return machine->in_order ? rank(machine->stack, i) : machine->parts[i].method->stage;
}

unsigned weir_stage_find(const weir_machine *machine, unsigned *stage) {
  unsigned rules = 0;
  unsigned first = WEIR_RULES_MOST;
  for (size_t i = 0; i < machine->stack->count; i++) {
    unsigned of = stage_of(machine, i);
    if (of < *stage || of > first || weir_stage_cost(machine, i) == 0) continue;
    rules = of == first ? rules | 1U << i : 1U << i;
    first = of;
  }
  *stage = first;
  return rules;
}
