/* Where a machine and a memo keep what: one block each, laid out once for a stack of rules.
 *
 *     memo       weir_memo │ expected, by rule │ what each method remembers, rule after rule
 *     machine    weir_machine │ notes: a memo │ what each method knows
 */
#include "algorithm/method.h"

static size_t own_offset(const weir_stack *stack, size_t i) {
  size_t offset = sizeof(weir_memo) + stack->count * sizeof(weir_expected);
  for (size_t before = 0; before < i; before++)
    offset += weir_method_of(&stack->rules[before])->memory_bytes(&stack->rules[before]);
  return offset;
}

size_t weir_memo_bytes(const weir_stack *stack) {
  return own_offset(stack, stack->count);
}

const void *weir_memo_own(const weir_stack *stack, const weir_memo *memo, size_t i) {
  return (const char *)memo + own_offset(stack, i);
}

void *weir_memo_memory(const weir_stack *stack, weir_memo *memo, size_t i) {
  return (char *)memo + own_offset(stack, i);
}

void weir_memo_known(const weir_stack *stack, const weir_settings *settings, const weir_memo *memo,
                     size_t i, int64_t now_us, weir_known *known) {
  const weir_rule *rule = &stack->rules[i];
  known->count = 0;
  known->of_log = false;
  weir_method_of(rule)->known(rule, settings, weir_memo_own(stack, memo, i), &memo->expected[i],
                              now_us, known);
}

size_t weir_machine_operations_most(const weir_stack *stack) {
  size_t operations = 0;
  for (size_t i = 0; i < stack->count; i++)
    operations += weir_method_of(&stack->rules[i])->operations_most(&stack->rules[i]);
  return operations;
}

/* A machine, its notes, its rule states' states. */
size_t weir_machine_bytes(const weir_stack *stack) {
  size_t bytes = sizeof(weir_machine) + weir_memo_bytes(stack);
  for (size_t i = 0; i < stack->count; i++)
    bytes += weir_method_of(&stack->rules[i])->state_bytes;
  return bytes;
}

weir_machine *weir_machine_init(void *memory, const weir_stack *stack,
                                const weir_settings *settings) {
  weir_machine *machine = memory;
  *machine = (weir_machine){.stack = stack,
                            .settings = settings,
                            .memo_bytes = weir_memo_bytes(stack),
                            .only_windows = true};
  machine->notes = (weir_memo *)(machine + 1);
  char *state = (char *)machine->notes + machine->memo_bytes;
  for (size_t i = 0; i < stack->count; i++) {
    weir_rule_state *rule_state = &machine->rule_states[i];
    rule_state->method = weir_method_of(&stack->rules[i]);
    rule_state->memory = (char *)machine->notes + own_offset(stack, i);
    rule_state->state = state;
    rule_state->ttl_us = weir_method_ttl_us(&stack->rules[i], settings);
    state += rule_state->method->state_bytes;
    if (!rule_state->method->charges_at_once) machine->only_windows = false;
  }
  machine->retries = machine->only_windows && stack->count > 1 && !stack->count_all;
  return machine;
}
