/* Where a machine and a memo keep what: one block each, laid out once for a stack of rules.
 *
 *     memo       weir_memo │ held, by rule │ what each method remembers, rule after rule
 *     machine    weir_machine │ actions of one round │ notes: a memo │ what each method knows
 */
#include "algorithm/method.h"

static size_t own_offset(const weir_stack *stack, size_t i) {
  size_t offset = sizeof(weir_memo) + stack->count * sizeof(weir_held);
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

size_t weir_machine_actions_most(const weir_stack *stack) {
  size_t actions = 0;
  for (size_t i = 0; i < stack->count; i++)
    actions += weir_method_of(&stack->rules[i])->actions_most(&stack->rules[i]);
  return actions;
}

/* A machine, its actions, its notes, its parts' states. */
size_t weir_machine_bytes(const weir_stack *stack) {
  size_t bytes = sizeof(weir_machine) + weir_machine_actions_most(stack) * sizeof(weir_action) +
                 weir_memo_bytes(stack);
  for (size_t i = 0; i < stack->count; i++)
    bytes += weir_method_of(&stack->rules[i])->state_bytes;
  return bytes;
}

weir_machine *weir_machine_init(void *memory, const weir_stack *stack, const weir_terms *terms) {
  weir_machine *machine = memory;
  *machine = (weir_machine){
      .stack = stack, .terms = terms, .memo_bytes = weir_memo_bytes(stack), .only_windows = true};
  machine->actions = (weir_action *)(machine + 1);
  machine->notes = (weir_memo *)(machine->actions + weir_machine_actions_most(stack));
  char *state = (char *)machine->notes + machine->memo_bytes;
  for (size_t i = 0; i < stack->count; i++) {
    weir_part *part = &machine->parts[i];
    part->method = weir_method_of(&stack->rules[i]);
    part->memory = (char *)machine->notes + own_offset(stack, i);
    part->state = state;
    state += part->method->state_bytes;
    if (!part->method->charges_at_once) machine->only_windows = false;
  }
  return machine;
}
