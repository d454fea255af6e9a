/* One round of an exec that goes to several servers at once. */
#include "wire/wire.h"

enum { SLICE_US = 1000 };

/* Waits for all servers a little at a time, until all but the slowest are done: one that keeps
 * silent costs its own keys and no others. */
static void wait_in_turn(weir_wire *const *wires, weir_wire_slot *const *slots, size_t count,
                         int64_t deadline_us) {
  size_t open = 2;
  for (int64_t now_us = 0; open > 1 && now_us < deadline_us;) {
    open = 0;
    for (size_t i = 0; i < count; i++) {
      now_us = weir_monotonic_us();
      open += slots[i] != NULL && !weir_wire_wait(wires[i], slots[i], now_us + SLICE_US);
    }
  }
}

bool weir_wire_fleet_run(weir_wire *const *wires, weir_wire_slot *const *slots, size_t count,
                         const weir_wire_round *round, weir_message *message) {
  bool explained = false;
  for (size_t i = 0; i < count; i++) {
    if (slots[i] == NULL) continue;
    weir_wire_submit(wires[i], slots[i], round->connection, round->dialects, round->deadline_us);
  }
  for (size_t i = 0; i < count && count > 1; i++) {
    if (slots[i] != NULL) weir_wire_flush(wires[i]);
  }
  if (count > 1) wait_in_turn(wires, slots, count, round->deadline_us);
  for (size_t i = 0; i < count; i++) {
    if (slots[i] == NULL) continue;
    explained |= weir_wire_finish(wires[i], slots[i], explained ? NULL : message);
  }
  return explained;
}
