#include "algorithm/algorithm.h"

#include <string.h>

#include "algorithm/cells.h"
#include "algorithm/window.h"

static size_t cells_of(const weir_stack *stack) {
  size_t cells = 0;
  for (size_t i = 0; i < stack->count; i++)
    cells += (size_t)weir_cells_room(&stack->rules[i]);
  return cells;
}

size_t weir_memo_bytes(const weir_stack *stack) {
  return sizeof(weir_memo) + cells_of(stack) * sizeof(weir_memo_cell);
}

/* The cells of a span touch at most two counters more than they fill. */
size_t weir_machine_actions_most(const weir_stack *stack) {
  size_t actions = 0;
  for (size_t i = 0; i < stack->count; i++)
    actions += (size_t)(weir_cells_room(&stack->rules[i]) / stack->rules[i].lanes) + 2;
  return actions;
}

size_t weir_machine_bytes(const weir_stack *stack) {
  return sizeof(weir_machine) + weir_machine_actions_most(stack) * sizeof(weir_action) +
         weir_memo_bytes(stack);
}

weir_machine *weir_machine_init(void *memory, const weir_stack *stack, const weir_terms *terms) {
  weir_machine *machine = memory;
  *machine = (weir_machine){.stack = stack, .terms = terms};
  machine->actions = (weir_action *)(machine + 1);
  machine->notes = (weir_memo *)(machine->actions + weir_machine_actions_most(stack));
  return machine;
}

weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_ask *asks) {
  memcpy(machine->notes, memo, weir_memo_bytes(machine->stack));
  machine->asks = asks;
  return weir_window_start(machine, now_us);
}

weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late) {
  return weir_window_resume(machine, now_us, late);
}
