/* Connecting ahead of the first decision. */
#include <stdlib.h>
#include <time.h>

#include "wire/internal.h"

enum { SLICE_US = 1000, PAUSE_US = 5000 };

/* One server: whether it is ready, and until then the try under way. */
typedef struct preconnect {
  weir_wire_slot *slot;
  bool ready; /* once, which is enough: a try with little time left must not take it back */
} preconnect;

/* A slot that asks for nothing but a connection that may be used. */
static weir_wire_slot *submit_preconnect(weir_wire *wire, int64_t deadline_us) {
  weir_wire_slot *slot = weir_wire_slot_take(wire);
  if (slot == NULL) return NULL;
  slot->connects = true;
  weir_wire_submit(wire, slot, 0, ~0U, deadline_us);
  weir_wire_flush(wire);
  return slot;
}

/* All at once: one that keeps silent must not hold up the others. */
static void wait_for_all(weir_wire *const *wires, const preconnect *all, size_t count,
                         int64_t deadline_us) {
  int64_t now_us = weir_monotonic_us();
  for (size_t open = 1; open > 0 && now_us < deadline_us;) {
    open = 0;
    for (size_t i = 0; i < count; i++) {
      now_us = weir_monotonic_us();
      open += all[i].slot != NULL && !weir_wire_wait(wires[i], all[i].slot, now_us + SLICE_US);
    }
  }
}

/* One try of every server that is not ready yet. The message is about the first of those that still
 * are not. */
static bool try_all(weir_wire *const *wires, preconnect *all, size_t count, int64_t deadline_us,
                    weir_message *message) {
  bool ready = true;
  for (size_t i = 0; i < count; i++)
    all[i].slot = all[i].ready ? NULL : submit_preconnect(wires[i], deadline_us);
  wait_for_all(wires, all, count, deadline_us);
  for (size_t i = 0; i < count; i++) {
    weir_message *why = ready ? message : NULL;
    if (all[i].ready) continue;
    if (all[i].slot == NULL)
      weir_message_set(why, "%s: no memory, or too many unanswered requests",
                       weir_wire_name(wires[i]));
    else
      all[i].ready = !weir_wire_finish(wires[i], all[i].slot, why);
    ready = ready && all[i].ready;
  }
  return ready;
}

bool weir_wire_connect_all(weir_wire *const *wires, size_t count, int64_t deadline_us,
                           weir_message *message) {
  preconnect *all = calloc(count, sizeof *all);
  bool ready = false;
  if (all == NULL) {
    weir_message_set(message, "no memory");
    return false;
  }
  for (bool more = true; more && !ready;) {
    ready = try_all(wires, all, count, deadline_us, message);
    more = weir_monotonic_us() + PAUSE_US < deadline_us;
    if (more && !ready) nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000}, NULL);
  }
  free(all);
  return ready;
}
