/* A connection that stands: what is done on it, how it is left, what its loss means. Nothing here
 * waits. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "wire/internal.h"

void weir_wire_parser_drop(weir_wire_connection *connection) {
  if (connection->parser != NULL) connection->wire->protocol->destroy_parser(connection->parser);
  connection->parser = NULL;
}

void weir_wire_drop_socket(weir_wire_connection *connection) {
  weir_wire_parser_drop(connection);
  weir_tls_session_end(connection->session);
  connection->session = NULL;
  connection->unread = connection->leaving = connection->demoted = false;
  if (connection->fd >= 0) close(connection->fd);
  connection->fd = -1;
  connection->state = WEIR_WIRE_CLOSED;
  connection->out_start = connection->out_end = 0;
  connection->in_start = connection->in_end = 0;
  connection->skip = connection->accepted = 0;
}

/* Whether a byte of it was sent. */
static bool is_touched(const weir_wire_slot *slot) {
  return slot->encoded > 0 && slot->commands[0].start < slot->connection->accepted;
}

/* Of the second, what is in line goes to the first. */
static void hand_over(weir_wire_connection *second, weir_wire_slot *slot) {
  weir_wire *wire = second->wire;
  weir_wire_line_remove(second, slot);
  slot->encoded = 0;
  weir_wire_line_append(&wire->connections[0], slot);
  if (slot->sleeping) weir_wire_rouse(wire, slot);
}

void weir_wire_settle(weir_wire_connection *connection, weir_wire_slot *slot, int64_t now_us) {
  bool touched = is_touched(slot);
  if (!touched && !slot->abandoned && weir_wire_is_second(connection)) {
    hand_over(connection, slot);
    return;
  }
  if (!touched && !slot->moved && !slot->abandoned) {
    slot->moved = true;
    slot->encoded = 0;
    return;
  }
  if (touched && !slot->missed)
    weir_breaker_miss(&connection->wire->breaker, slot, connection->why.text, now_us);
  weir_breaker_end(&connection->wire->breaker, slot, now_us);
  weir_wire_slot_mark(slot, connection->accepted);
  weir_wire_slot_explain(slot, connection->why.text);
  weir_wire_slot_end(connection, slot);
}

static void settle_line(weir_wire_connection *connection, int64_t now_us) {
  weir_wire_slot *next = NULL;
  for (weir_wire_slot *slot = connection->first; slot != NULL; slot = next) {
    next = slot->next;
    weir_wire_settle(connection, slot, now_us);
  }
  connection->unsent = connection->first;
}

/* Closes a ready connection; its `why` says why. The second stands only beside the first. */
static void lose(weir_wire_connection *connection, int64_t now_us) {
  connection->greeting.kind = WEIR_SERVER_UNKNOWN;
  if (!connection->leaving) {
    weir_wire_name_doubt(connection->wire);
    connection->wire->lost_us = now_us;
  }
  settle_line(connection, now_us);
  weir_wire_drop_socket(connection);
  if (!weir_wire_is_second(connection)) weir_wire_leave_second(connection->wire);
}

void weir_wire_adopt(weir_wire *wire, weir_addresses *found) {
  weir_addresses *known = &wire->addresses;
  weir_wire_connection *connection = &wire->connections[0];
  if (weir_addresses_equal(known, found)) {
    weir_addresses_free(found);
    return;
  }
  size_t used = connection->state == WEIR_WIRE_CLOSED ? wire->address : wire->trying;
  size_t at = known->count > 0 ? weir_addresses_find(found, &known->list[used]) : found->count;
  bool named = at < found->count;
  weir_addresses_free(known);
  *known = *found;
  wire->address = wire->trying = named ? at : 0;
  wire->tried = 0;
  weir_breaker_hasten(&wire->breaker);
  if (named) return;
  if (connection->state == WEIR_WIRE_READY) {
    connection->leaving = true;
    weir_wire_leave_second(wire);
  } else {
    weir_wire_drop_socket(connection);
    connection->greeting.step = 0;
    connection->greeting.kind = WEIR_SERVER_UNKNOWN;
    wire->unready = NULL;
  }
}

/* Until when an answer to the slot, which was sent, is in time. A caller who gives it the store's
 * timeout has spent a little of that on the way here. */
static int64_t due_us(const weir_wire_slot *slot) {
  int64_t timeout_us = slot->connection->wire->timeout_us;
  bool patient = slot->deadline_us - slot->sent_us >= timeout_us - timeout_us / 8;
  return patient ? slot->deadline_us : slot->sent_us + timeout_us;
}

/* Whether all that has come was taken in. The leader may hold bytes while it is inside a receive; a
 * closed connection is found by the next who reads. */
static bool is_read_out(const weir_wire_connection *connection) {
  struct pollfd socket = {.fd = connection->fd, .events = POLLIN};
  return !connection->receiving && !connection->unread && poll(&socket, 1, 0) == 0;
}

/* A caller who waits tells by itself, at its deadline. */
static bool is_missing(const weir_wire_slot *slot, int64_t now_us) {
  return slot->abandoned && !slot->missed && now_us >= due_us(slot);
}

void weir_wire_find_misses(weir_wire_connection *connection, int64_t now_us) {
  weir_wire_slot *slot = connection->first;
  if (connection->abandoned == 0) return;
  while (slot != NULL && is_touched(slot) && !is_missing(slot, now_us))
    slot = slot->next;
  if (slot == NULL || !is_touched(slot) || !is_read_out(connection)) return;
  for (; slot != NULL && is_touched(slot); slot = slot->next) {
    if (!is_missing(slot, now_us)) continue;
    slot->missed = true;
    weir_breaker_miss(&connection->wire->breaker, slot, "no answer by the deadline", now_us);
  }
}

/* When the next of those whose callers have left is a miss. They stand in the order of that time. */
static int64_t next_miss_us(const weir_wire_connection *connection) {
  const weir_wire_slot *slot = connection->first;
  if (connection->abandoned == 0) return INT64_MAX;
  while (slot != NULL && is_touched(slot) && (!slot->abandoned || slot->missed))
    slot = slot->next;
  return slot != NULL && is_touched(slot) ? due_us(slot) : INT64_MAX;
}

/* Later than the miss, by more than what another one takes: then that one has opened the breaker. */
static int64_t overdue_us(const weir_wire_connection *connection) {
  const weir_wire_slot *oldest = connection->first;
  if (oldest == NULL || oldest->encoded == 0) return INT64_MAX;
  return due_us(oldest) + 2 * connection->wire->timeout_us;
}

/* It is closed from this side: that those behind the oldest get no answer is not the server's
 * fault. */
static void give_up_overdue(weir_wire_connection *connection) {
  weir_message_set(&connection->why,
                   "closed, as the oldest request stayed unanswered for too long");
  for (weir_wire_slot *slot = connection->first; slot != NULL; slot = slot->next)
    slot->missed = true;
}

/* A server that refuses to write is as good as away. Its name may lead elsewhere in a moment, or
 * its address to another server; and another of its addresses may be the primary's. */
static void leave_demoted(weir_wire_connection *connection, int64_t now_us) {
  weir_message_set(&connection->why,
                   "closed, as the server refuses to write: another is the primary by now");
  weir_breaker_fail(&connection->wire->breaker, connection->why.text, now_us);
  connection->wire->lost_us = now_us;
  connection->wire->address = (connection->wire->address + 1) % connection->wire->addresses.count;
}

/* Leaves a connection that is to be left once it has nothing more to say and to hear. */
static bool may_leave(weir_wire_connection *connection, int64_t now_us) {
  bool drained = connection->out_start == connection->out_end &&
                 (connection->first == NULL || connection->first->encoded == 0);
  if (!drained) return false;
  if (connection->demoted) {
    leave_demoted(connection, now_us);
  } else {
    weir_message_set(&connection->why, "closed, as another server may be meant by now");
  }
  return true;
}

static bool work(weir_wire_connection *connection, short revents, int64_t now_us) {
  bool idle = now_us - connection->active_us > WEIR_WIRE_IDLE_US;
  connection->active_us = now_us;
  /* TLS may have waited to write before it could read. */
  if (connection->session != NULL && revents != 0) revents |= POLLIN;
  if ((idle || (revents & ~POLLOUT) != 0) && !weir_wire_receive(connection)) return false;
  if (connection->first == NULL && !connection->leaving)
    return true; /* nothing to send, nothing is due */
  weir_wire_find_misses(connection, now_us);
  if (now_us > overdue_us(connection)) {
    give_up_overdue(connection);
    return false;
  }
  if (weir_wire_send(connection, now_us))
    return !connection->leaving || !may_leave(connection, now_us);
  /* What the server answered before it hung up still counts. */
  weir_message why = connection->why;
  if (weir_wire_receive(connection)) connection->why = why;
  return false;
}

void weir_wire_step(weir_wire_connection *connection, short revents, int64_t now_us) {
  if (connection->state == WEIR_WIRE_READY) {
    if (work(connection, revents, now_us)) return;
    lose(connection, now_us);
  }
  if (!weir_wire_is_second(connection)) weir_wire_step_towards_ready(connection, revents, now_us);
  if (connection->state == WEIR_WIRE_READY && !work(connection, 0, now_us))
    lose(connection, now_us);
}

bool weir_wire_only_receives(const weir_wire_connection *connection) {
  return connection->state == WEIR_WIRE_READY && !weir_wire_has_to_send(connection);
}

short weir_wire_events(const weir_wire_connection *connection) {
  if (connection->state == WEIR_WIRE_CONNECTING) return POLLOUT;
  bool listens = connection->state != WEIR_WIRE_READY || weir_wire_only_receives(connection);
  if (connection->session != NULL) return weir_tls_session_events(connection->session, !listens);
  return listens ? POLLIN : POLLIN | POLLOUT;
}

int64_t weir_wire_alarm_us(const weir_wire_connection *connection) {
  if (connection->state == WEIR_WIRE_READY) {
    int64_t miss_us = next_miss_us(connection);
    return miss_us < overdue_us(connection) ? miss_us : overdue_us(connection);
  }
  if (connection->state != WEIR_WIRE_CLOSED) return connection->attempt_end_us;
  int64_t due_us = weir_wire_name_due_us(connection->wire);
  return due_us != 0 ? due_us : INT64_MAX;
}

int weir_wire_dialect(const weir_wire *wire) {
  return atomic_load_explicit(&wire->dialect, memory_order_relaxed);
}
