/* Expected charges: a counter that shows less than this process alone was charged and did not give
 * back has been evicted, flushed or restarted, or somebody else has reset or refunded it. There is
 * no other way: everybody takes back only what they added.
 *
 * Only what is certain counts, so one index is watched per rule, the last that was charged: its
 * cell, its window, its epoch. Decisions do not depend on it. */
#include "algorithm/expected.h"

#include <string.h>

#include "algorithm/method.h"
#include "algorithm/share.h"

void weir_expected_change(weir_machine *machine, size_t i, int64_t cost) {
  const weir_method *method = machine->rule_states[i].method;
  if (machine->settings->notices_loss && cost != 0 && method->expect != NULL)
    method->expect(machine, i, cost);
}

void weir_expected_survive(weir_machine *machine) {
  weir_memo *notes = machine->notes;
  int64_t look_until_us = notes->look_until_us;
  if (machine->requests->kind == WEIR_RESET) {
    memset(notes, 0, machine->memo_bytes);
    notes->look_until_us = look_until_us;
    return;
  }
  notes->must_peek = false;
  notes->denied_cost = notes->denied_at_us = notes->denied_until_us = 0;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->rule_states[i].method->forget(machine->rule_states[i].memory);
}

/* A period begins with nothing charged in it. */
static void expected_move(weir_expected *expected, int64_t index, int64_t per_period) {
  int64_t passed = index / per_period - expected->index / per_period;
  if (passed != 0) weir_share_halve(&expected->share, passed > 0 ? passed : 1);
  expected->share.before = expected->share.last = 0;
  expected->index = index;
  expected->amount = 0;
}

/* After a loss, when less is expected than was charged, only the new place is known. */
void weir_expected_count(weir_machine *machine, size_t i, int64_t index, int64_t per_period,
                         int64_t after, int64_t cost) {
  weir_expected *expected = &machine->notes->expected[i];
  weir_share *share = &expected->share;
  if (cost < 0) {
    if (expected->index == index) share->last += cost;
    weir_expected_add(machine, i, index, cost);
    return;
  }
  if (expected->index != index) expected_move(expected, index, per_period);
  bool connected = expected->amount > 0 || (share->before == 0 && share->last == 0);
  weir_share_learn(share, &machine->lessons[i], connected, after - cost, cost);
  expected->amount += cost;
}

void weir_expected_add(weir_machine *machine, size_t i, int64_t index, int64_t amount) {
  weir_expected *expected = &machine->notes->expected[i];
  if (expected->index != index) {
    if (amount < 0) return; /* it was expected before, and is not watched any more */
    expected->index = index;
    expected->amount = 0;
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
