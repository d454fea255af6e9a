/* Expected charges: a counter that shows less than this process alone was charged and did not give
 * back has been evicted, flushed or restarted, or somebody else has reset or refunded it. There is
 * no other way: everybody takes back only what they added.
 *
 * Only what is certain counts, so one index is watched per rule, the last that was charged: its
 * cell, its window, its epoch. Decisions do not depend on it. */
#include "algorithm/expected.h"

#include <string.h>

#include "algorithm/method.h"

void weir_expected_change(weir_machine *machine, size_t i, int64_t cost) {
  const weir_method *method = machine->rule_states[i].method;
  if (machine->settings->notices_loss && cost != 0 && method->expect != NULL)
    method->expect(machine, i, cost);
}

void weir_expected_survive(weir_machine *machine) {
  weir_expected expected[WEIR_RULES_MOST];
  size_t survivors = machine->requests->kind != WEIR_RESET ? machine->stack->count : 0;
  int64_t look_until_us = machine->notes->look_until_us;
  for (size_t i = 0; i < survivors; i++)
    expected[i] = machine->notes->expected[i];
  memset(machine->notes, 0, machine->memo_bytes);
  machine->notes->look_until_us = look_until_us;
  for (size_t i = 0; i < survivors; i++)
    machine->notes->expected[i] = expected[i];
}

void weir_expected_add(weir_machine *machine, size_t i, int64_t index, int64_t amount) {
  weir_expected *expected = &machine->notes->expected[i];
  if (expected->index != index) {
    if (amount < 0) return; /* it was expected before, and is not watched any more */
    *expected = (weir_expected){.index = index};
  }
  expected->amount += amount;
  if (expected->amount < 0) expected->amount = 0;
}

void weir_expected_compare(weir_machine *machine, size_t i, int64_t index, int64_t found) {
  weir_expected *expected = &machine->notes->expected[i];
  if (expected->index != index || found >= expected->amount) return;
  expected->amount = 0;
  machine->lost++;
}
