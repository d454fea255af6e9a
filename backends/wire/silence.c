/* Who proves that a server is away.
 *
 *     a request is over,    ┌─> not a byte came, by somebody who was on time,
 *     or overdue, without   │   or not a byte for a second                     ──> silent: away
 *     its answer ──────────>┼─> bytes came, or the connection was lost;
 *                           │   no answer came in time for a second            ──> too slow: away
 *                           └─> else                                           ──> it was late
 *
 * On time: the socket was looked at, once more, when the answer was due or within a quarter of the
 * timeout after, and the server had had the request for half of the timeout. A thread that comes
 * later was kept from looking by a busy machine, which may have kept the server from answering as
 * well. The same shows where an answer took longer than that quarter: for ten seconds
 * after either, nobody in this process counts as on time. */
#include <poll.h>

#include "wire/internal.h"

/* Stalls of a busy machine come in bursts, some seconds apart. */
enum { BUSY_US = 10000000 };

/* Whether bytes wait to be read; a closed connection is found by whoever reads. */
static bool is_readable(const weir_wire_connection *connection) {
  struct pollfd socket = {.fd = connection->fd, .events = POLLIN};
  return connection->unread || poll(&socket, 1, 0) != 0;
}

/* Whether all that has come was taken in. The leader may hold bytes while it is inside a receive.
 */
static bool is_read_out(const weir_wire_connection *connection) {
  return !connection->receiving && !is_readable(connection);
}

/* Whether no byte has come since the slot was sent. */
static bool is_unheard(const weir_wire_connection *connection, const weir_wire_slot *slot) {
  bool sent = slot->encoded > 0 && slot->commands[0].start < connection->accepted;
  return sent && slot->heard == connection->wire->heard;
}

/* When the server had the slot at the latest. */
static int64_t sent_us(const weir_wire_connection *connection, const weir_wire_slot *slot) {
  return slot->sent_us > connection->wire->held_up_us ? slot->sent_us
                                                      : connection->wire->held_up_us;
}

/* Whether what should have happened at `due_us` happens now, on time. */
static bool note_time(weir_wire *wire, int64_t due_us, int64_t now_us) {
  bool on_time = now_us <= due_us + wire->timeout_us / 4;
  if (!on_time) wire->busy_until_us = now_us + BUSY_US;
  return on_time;
}

void weir_wire_note_answer(weir_wire_connection *connection, int64_t now_us) {
  connection->wire->heard++;
  connection->wire->silent_since_us = 0;
  bool waited = connection->first != NULL && connection->first->encoded > 0;
  if (waited && now_us > connection->first->sent_us + connection->wire->timeout_us / 4)
    connection->wire->busy_until_us = now_us + BUSY_US;
}

static void silence_found(weir_wire *wire, const weir_wire_slot *slot, const char *what,
                          int64_t now_us) {
  if (wire->breaker.probe == slot) {
    weir_breaker_fail(&wire->breaker, what, now_us);
  } else {
    weir_breaker_trip(&wire->breaker, what, now_us);
  }
}

/* Before there is a connection the time counts from when the caller began to wait. */
static void classify_unconnected(weir_wire_connection *connection, const weir_wire_slot *slot,
                                 int64_t due_us, const char *what, int64_t now_us) {
  bool on_time =
      note_time(connection->wire, due_us, now_us) && now_us >= connection->wire->busy_until_us;
  bool had_time = due_us - slot->since_us >= connection->wire->timeout_us / 2;
  if (connection->state != WEIR_WIRE_CLOSED && on_time && had_time) {
    silence_found(connection->wire, slot, what, now_us);
  } else {
    weir_breaker_excuse(&connection->wire->breaker, slot, now_us);
  }
}

void weir_wire_classify_late(weir_wire_connection *connection, const weir_wire_slot *slot,
                             int64_t due_us, const char *what) {
  if (connection->state != WEIR_WIRE_READY) {
    classify_unconnected(connection, slot, due_us, what, weir_monotonic_us());
    return;
  }
  bool read_out = is_read_out(connection);
  int64_t now_us = weir_monotonic_us(); /* after the look */
  bool had_time =
      slot->encoded > 0 && now_us - sent_us(connection, slot) >= connection->wire->timeout_us / 2;
  /* That nobody looked for an answer whose caller has left shows no stall. */
  bool in_time = slot->abandoned ? now_us <= due_us + connection->wire->timeout_us / 4
                                 : note_time(connection->wire, due_us, now_us);
  bool on_time = in_time && had_time;
  bool long_unheard = connection->wire->silent_since_us > 0 &&
                      now_us - connection->wire->silent_since_us >= WEIR_BREAKER_PROOF_US;
  if (read_out && is_unheard(connection, slot) &&
      ((on_time && now_us >= connection->wire->busy_until_us) || long_unheard)) {
    silence_found(connection->wire, slot, what, now_us);
  } else if (read_out && on_time) {
    weir_breaker_miss(&connection->wire->breaker, slot, what, now_us);
  } else {
    weir_breaker_excuse(&connection->wire->breaker, slot, now_us);
  }
}
