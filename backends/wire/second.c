/* The second connection to a server.
 *
 * Two threads on one connection wake one another for each decision, across processors: with 2 to 8
 * threads that costs more than what they save by sending together. More connections than two bring
 * them nothing, and 32 threads lose nothing by two (docs/performance.md).
 *
 * It is made on the side, by threads that wait for something else, once a thread found the first
 * busy; no caller waits for it, and what goes wrong with it says nothing of the server. It leads
 * where the first leads, and is left when the first is. */
#include <poll.h>

#include "wire/internal.h"

/* The least time between two looks at a second that is on its way. */
enum { LOOK_US = 200 };

bool weir_wire_is_second(const weir_wire_connection *connection) {
  return connection != &connection->wire->connections[0];
}

static bool stands(const weir_wire_connection *connection) {
  return connection->state == WEIR_WIRE_READY && !connection->leaving;
}

void weir_wire_push_second(weir_wire *wire, int64_t now_us) {
  weir_wire_connection *second = &wire->connections[1];
  if (second->leading || now_us < wire->second_at_us || !stands(&wire->connections[0])) return;
  wire->wants_second = false;
  wire->second_at_us = now_us + LOOK_US;
  second->leading = true; /* the lock is let go on the way */
  if (second->leaving) {
    weir_wire_step(second, 0, now_us);
  } else if (second->state == WEIR_WIRE_CLOSED) {
    weir_wire_try_address(second, now_us);
  } else if (weir_wire_is_connecting(second)) {
    struct pollfd socket = {.fd = second->fd, .events = weir_wire_events(second)};
    bool spoken = poll(&socket, 1, 0) > 0;
    weir_wire_go_on(second, spoken ? socket.revents : 0, now_us);
  }
  second->leading = false;
  if (second->leaving || !stands(&wire->connections[0])) weir_wire_leave_second(wire);
}

void weir_wire_leave_second(weir_wire *wire) {
  weir_wire_connection *second = &wire->connections[1];
  if (second->state == WEIR_WIRE_CLOSED) return;
  if (second->first == NULL && !second->leading) {
    weir_wire_drop_socket(second);
    second->greeting.step = 0;
  } else {
    second->leaving = true;
  }
}
