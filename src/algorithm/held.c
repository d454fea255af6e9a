/* Held charges: a counter that shows less than this process alone was charged and did not give back
 * has been evicted, flushed or restarted, or somebody else has reset or refunded it. There is no
 * other way: everybody takes back only what they added.
 *
 * Only what is certain counts, so one index is watched per rule, the last that was charged: its
 * cell, its window, its epoch. Decisions do not depend on it. */
#include "algorithm/held.h"

#include <string.h>

#include "algorithm/method.h"

static void hold(weir_machine *machine, size_t i, int64_t cost) {
  const weir_method *method = machine->parts[i].method;
  if (machine->terms->notices_loss && cost != 0 && method->hold != NULL)
    method->hold(machine, i, cost);
}

void weir_held_keep(weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_part *part = &machine->parts[i];
    if (part->charged) hold(machine, i, part->charge - part->unused);
  }
}

void weir_held_release(weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    hold(machine, i, -machine->parts[i].unused);
}

void weir_held_survive(weir_machine *machine) {
  weir_held held[WEIR_RULES_MOST];
  size_t survivors = machine->asks->kind != WEIR_ASK_RESET ? machine->stack->count : 0;
  int64_t look_until_us = machine->notes->look_until_us;
  for (size_t i = 0; i < survivors; i++)
    held[i] = machine->notes->held[i];
  memset(machine->notes, 0, machine->memo_bytes);
  machine->notes->look_until_us = look_until_us;
  for (size_t i = 0; i < survivors; i++)
    machine->notes->held[i] = held[i];
}

void weir_held_add(weir_machine *machine, size_t i, int64_t index, int64_t amount) {
  weir_held *held = &machine->notes->held[i];
  if (held->index != index) {
    if (amount < 0) return; /* it was held before, and is not watched any more */
    *held = (weir_held){.index = index};
  }
  held->amount += amount;
  if (held->amount < 0) held->amount = 0;
}

void weir_held_compare(weir_machine *machine, size_t i, int64_t index, int64_t found) {
  weir_held *held = &machine->notes->held[i];
  if (held->index != index || found >= held->amount) return;
  held->amount = 0;
  machine->lost++;
}
