#include "wire/connection.h"

#include <errno.h>
#include <string.h>

#include "wire/socket.h"

/* --- losing ---------------------------------------------------------------------------------- */

/* Forgets the socket, which line.c closes, and all that belongs to it. */
static void forget_socket(weir_connection *connection) {
  if (connection->parser != NULL) connection->server->protocol->destroy_parser(connection->parser);
  connection->parser = NULL;
  connection->state = WEIR_CONNECTION_CLOSED;
  connection->unread = connection->failing = connection->overslept = false;
  connection->out_start = connection->out_end = 0;
  connection->in_start = connection->in_end = 0;
  connection->skip = connection->accepted = 0;
}

/* What a lost connection means for one slot: its end; one more connection, if the kernel took no
 * byte of it; or, in line at a further one, the line of the first. */
static void settle(weir_connection *connection, weir_wire_slot *slot, int64_t now_us) {
  weir_breaker *breaker = &connection->server->breaker;
  bool touched = weir_slot_is_touched(slot);
  if (!touched && slot->state != WEIR_SLOT_ABANDONED && (connection->number > 0 || !slot->moved)) {
    if (connection->number > 0) {
      weir_line_leave(connection, slot);
    } else {
      slot->moved = true;
    }
    slot->encoded = 0;
    weir_slot_become(slot, WEIR_SLOT_QUEUED);
    return;
  }
  if (touched && !slot->missed) weir_breaker_miss(breaker, slot, connection->why.text, now_us);
  weir_breaker_end(breaker, slot, now_us);
  weir_slot_mark(slot, connection->accepted);
  weir_slot_explain(slot, connection->why.text);
  weir_slot_end(connection, slot);
}

/* None of the addresses took the connection: what is in line cannot be sent. */
static void give_up(weir_connection *connection, int64_t now_us) {
  weir_wire_server *server = connection->server;
  weir_destination_end_round(&server->destination);
  server->unready = NULL;
  weir_breaker_fail(&server->breaker, connection->why.text, now_us);
  while (connection->first != NULL) {
    connection->first->moved = true;
    settle(connection, connection->first, now_us);
  }
}

/* --- towards a connection -------------------------------------------------------------------- */

/* How long an attempt may last. Where any address will do the time is shared among them, so that a
 * dead one does not hide the next. */
static int64_t attempt_us(const weir_wire_server *server) {
  const weir_destination *destination = &server->destination;
  if (!destination->any_address) return server->connect_us;
  return server->connect_us / (int64_t)destination->addresses.count;
}

static weir_connection_ask wait_for_attempt(weir_connection *connection) {
  connection->wait_until_us = connection->attempt_end_us;
  return WEIR_ASK_WAIT;
}

/* Closed: where to, if slots wait for it; or, with OPEN, where the first is. */
static weir_connection_ask step_closed(weir_connection *connection, weir_event_kind event,
                                       int64_t now_us) {
  weir_wire_server *server = connection->server;
  weir_destination *destination = &server->destination;
  if (connection->number > 0) {
    if (event != WEIR_EVENT_OPEN) return WEIR_ASK_NOTHING;
  } else {
    if (connection->first == NULL) return WEIR_ASK_NOTHING;
    if (event != WEIR_EVENT_LOOKED_UP) return WEIR_ASK_LOOK_UP;
    bool stale = weir_destination_is_stale(destination, now_us);
    connection->wait_until_us = weir_destination_due_us(destination);
    if (stale && now_us < connection->wait_until_us) return WEIR_ASK_WAIT;
    if (stale || destination->tried >= destination->addresses.count) {
      if (stale || destination->addresses.count == 0) connection->why = destination->why;
      give_up(connection, now_us);
      return WEIR_ASK_NOTHING;
    }
    weir_destination_try(destination);
  }
  connection->state = WEIR_CONNECTION_CONNECTING;
  connection->attempt_end_us = now_us + attempt_us(server);
  connection->heard_us = now_us;
  return WEIR_ASK_CONNECT;
}

/* Only an address that refuses is left for the next: keys that are counted on one server must not
 * go to another because it is slow, hangs up or answers nonsense. A further connection says nothing
 * of the server: it is tried again after a while. */
static weir_connection_ask fail_attempt(weir_connection *connection, bool refused, int64_t now_us) {
  weir_wire_server *server = connection->server;
  weir_destination *destination = &server->destination;
  forget_socket(connection);
  connection->greeting.step = 0;
  connection->greeting.kind = WEIR_SERVER_UNKNOWN;
  if (connection->number > 0) {
    server->further_at_us = now_us + WEIR_WIRE_FURTHER_PAUSE_US;
    return WEIR_ASK_NOTHING;
  }
  weir_destination_doubt(destination);
  destination->lost_us = now_us;
  destination->tried =
      refused || destination->any_address ? destination->tried + 1 : destination->addresses.count;
  return step_closed(connection, WEIR_EVENT_LOOK, now_us);
}

static void explain(weir_connection *connection, const char *what, const weir_event *event) {
  char text[WEIR_ERROR_BYTES];
  if (event->fault[0] != '\0') {
    weir_message_set(&connection->why, "%s", event->fault);
    return;
  }
  weir_message_set(&connection->why, "%s: %s", what, weir_error_text(event->error, text));
}

/* The server has kept silent until the attempt was over. */
static weir_connection_ask fail_silent(weir_connection *connection, int64_t now_us) {
  if (connection->state == WEIR_CONNECTION_CONNECTING) {
    explain(connection, "cannot connect", &(weir_event){.error = ETIMEDOUT, .fault = ""});
  } else {
    bool securing = connection->state == WEIR_CONNECTION_SECURING;
    const char *silence = securing ? NULL : connection->server->protocol->silence;
    weir_message_set(&connection->why, "%s%s%s",
                     securing ? WEIR_WIRE_NO_HANDSHAKE : "the server does not answer the greeting",
                     silence != NULL ? "; " : "", silence != NULL ? silence : "");
  }
  return fail_attempt(connection, false, now_us);
}

static weir_connection_ask step_connecting(weir_connection *connection, const weir_event *event,
                                           int64_t now_us) {
  weir_wire_server *server = connection->server;
  switch (event->kind) {
    case WEIR_EVENT_SOCKET:
      return WEIR_ASK_CONNECT;
    case WEIR_EVENT_CONNECTED:
      connection->out_most = server->secure ? WEIR_WIRE_RECORD_BYTES : sizeof connection->out;
      connection->state = server->secure ? WEIR_CONNECTION_SECURING : WEIR_CONNECTION_GREETING;
      return server->secure ? WEIR_ASK_SHAKE : WEIR_ASK_RECEIVE;
    case WEIR_EVENT_FAILED: {
      /* Refused: no server takes connections there, or none can go there from this machine at all. A
       * host that cannot be reached (EHOSTUNREACH) is as silent as one that lets a connection time
       * out. EADDRNOTAVAIL means no IPv6 here; with IPv4 it means: out of ports. */
      const weir_destination *to = &server->destination;
      bool v6 = to->addresses.list[to->trying].bytes.ss_family == AF_INET6;
      bool refused = event->error == ECONNREFUSED || event->error == ENETUNREACH ||
                     event->error == EAFNOSUPPORT || (event->error == EADDRNOTAVAIL && v6);
      explain(connection, "cannot connect", event);
      return fail_attempt(connection, refused, now_us);
    }
    default:
      if (event->kind == WEIR_EVENT_TIME && now_us >= connection->attempt_end_us)
        return fail_silent(connection, now_us);
      return wait_for_attempt(connection);
  }
}

static weir_connection_ask step_securing(weir_connection *connection, const weir_event *event,
                                         int64_t now_us) {
  switch (event->kind) {
    case WEIR_EVENT_SHAKEN:
      connection->state = WEIR_CONNECTION_GREETING;
      return WEIR_ASK_RECEIVE;
    case WEIR_EVENT_SHAKING:
      if (now_us < connection->attempt_end_us) return wait_for_attempt(connection);
      return fail_silent(connection, now_us);
    case WEIR_EVENT_FAILED:
      weir_message_set(&connection->why, "%s", event->fault);
      return fail_attempt(connection, false, now_us);
    default:
      return WEIR_ASK_SHAKE;
  }
}

/* The greeting is over. False: the connection cannot be used, `why` says why. */
static bool become_ready(weir_connection *connection, int64_t now_us) {
  weir_wire_server *server = connection->server;
  const weir_wire_protocol *protocol = server->protocol;
  int dialect = (int)connection->greeting.dialect;
  if (connection->in_start < connection->in_end) {
    weir_message_set(&connection->why, "the server said more than the greeting asked for");
    return false;
  }
  if (protocol->create_parser != NULL) {
    connection->parser =
        protocol->create_parser(connection->greeting.settings,
                                connection->number > 0 ? server->connections[0].parser : NULL);
    if (connection->parser == NULL) {
      weir_message_set(&connection->why, "no memory for another connection");
      return false;
    }
  }
  /* A further one that speaks another dialect than the first leads to another server by now. */
  if (connection->number > 0 && dialect != server->dialect) {
    weir_message_set(&connection->why, "the server has changed its dialect");
    return false;
  }
  connection->state = WEIR_CONNECTION_READY;
  connection->codec = protocol->codecs[dialect];
  connection->active_us = now_us;
  connection->serial = 0;
  connection->greeting.step = 0;
  if (connection->number > 0) {
    connection->is_known = false;
    connection->known_serial = server->connections[0].serial;
    server->awaits_known = true;
    return true;
  }
  server->destination.address = server->destination.trying;
  server->destination.tried = 0;
  server->unready = NULL;
  atomic_store_explicit(&server->dialect, dialect, memory_order_relaxed);
  return true;
}

/* What came is read by the protocol, which says what is answered. In between nothing else goes:
 * `closed`, the server has hung up. READY: *ready. */
static weir_connection_ask converse(weir_connection *connection, bool closed, bool *ready,
                                    int64_t now_us) {
  weir_greeting *greeting = &connection->greeting;
  greeting->taken = 0;
  weir_greeting_answer answer = connection->server->protocol->greet(
      greeting, connection->in + connection->in_start, connection->in_end - connection->in_start,
      closed, &connection->why);
  connection->in_start += greeting->taken;
  switch (answer) {
    case WEIR_GREETING_MORE:
      if (!closed && connection->in_end < sizeof connection->in) {
        if (now_us < connection->attempt_end_us) return wait_for_attempt(connection);
        return fail_silent(connection, now_us);
      }
      weir_message_set(&connection->why, "the server hung up during the greeting");
      break;
    case WEIR_GREETING_SAY:
      memcpy(connection->out, greeting->say, greeting->say_length);
      connection->out_start = 0;
      connection->out_end = greeting->say_length;
      return WEIR_ASK_SEND;
    case WEIR_GREETING_READY:
      *ready = become_ready(connection, now_us);
      if (*ready) return WEIR_ASK_NOTHING;
      break;
    case WEIR_GREETING_RECONNECT:
      forget_socket(connection);
      return step_closed(connection, WEIR_EVENT_LOOK, now_us);
    case WEIR_GREETING_FAILED:
      break;
  }
  return fail_attempt(connection, false, now_us);
}

/* A greeting is short and first on its connection: the socket takes it whole or is broken. A server
 * that refuses a certificate says so before it hangs up, so that is read. */
static weir_connection_ask step_greeting(weir_connection *connection, const weir_event *event,
                                         bool *ready, int64_t now_us) {
  bool closed = event->kind == WEIR_EVENT_HUNG_UP || event->kind == WEIR_EVENT_FAILED;
  bool has_fault = closed && event->fault[0] != '\0';
  if (connection->failing) {
    weir_message_set(&connection->why, "%s",
                     has_fault ? event->fault : "the greeting cannot be sent");
    return fail_attempt(connection, false, now_us);
  }
  if (has_fault) {
    weir_message_set(&connection->why, "%s", event->fault);
    return fail_attempt(connection, false, now_us);
  }
  if (connection->out_start < connection->out_end) { /* it was to be sent */
    if (event->kind == WEIR_EVENT_SENT && event->amount == connection->out_end) {
      connection->out_end = 0;
      return WEIR_ASK_RECEIVE;
    }
    connection->failing = true;
    if (connection->server->secure) return WEIR_ASK_RECEIVE;
    weir_message_set(&connection->why, "the greeting cannot be sent");
    return fail_attempt(connection, false, now_us);
  }
  if (event->kind == WEIR_EVENT_RECEIVED) {
    connection->in_end += event->amount;
    connection->unread = event->more;
  } else if (!closed) {
    return WEIR_ASK_RECEIVE;
  }
  return converse(connection, closed, ready, now_us);
}

/* --- an open connection ---------------------------------------------------------------------- */

/* Until when an answer to the slot, which was sent, is in time. A caller who gives it the store's
 * timeout has spent a little of that on the way here. */
static int64_t due_us(const weir_wire_slot *slot) {
  int64_t timeout_us = slot->connection->server->timeout_us;
  bool patient = slot->deadline_us - slot->sent_us >= timeout_us - timeout_us / 8;
  return patient ? slot->deadline_us : slot->sent_us + timeout_us;
}

/* When the next of those whose callers have left is a miss. They stand in the order of that time. */
static int64_t next_miss_us(const weir_connection *connection) {
  const weir_wire_slot *slot = connection->first;
  if (connection->abandoned == 0) return INT64_MAX;
  while (slot != NULL && weir_slot_is_touched(slot) &&
         (slot->state != WEIR_SLOT_ABANDONED || slot->missed))
    slot = slot->next;
  return slot != NULL && weir_slot_is_touched(slot) ? due_us(slot) : INT64_MAX;
}

bool weir_connection_has_miss(const weir_connection *connection, int64_t now_us) {
  return connection->abandoned > 0 && now_us >= next_miss_us(connection);
}

void weir_connection_tell_misses(weir_connection *connection, int64_t now_us) {
  for (weir_wire_slot *slot = connection->first; slot != NULL && weir_slot_is_touched(slot);
       slot = slot->next) {
    if (slot->state != WEIR_SLOT_ABANDONED || slot->missed || now_us < due_us(slot)) continue;
    slot->missed = true;
    weir_breaker_miss(&connection->server->breaker, slot, "no answer by the deadline", now_us);
  }
}

/* When the oldest has waited for too long: later than the miss, by more than what another one takes,
 * as that one has opened the breaker then. */
static int64_t overdue_us(const weir_connection *connection) {
  const weir_wire_slot *oldest = connection->first;
  if (oldest == NULL || oldest->encoded == 0) return INT64_MAX;
  return due_us(oldest) + 2 * connection->server->timeout_us;
}

/* Closes an open connection; `why` says why. Out of line: what every request goes through is short. */
__attribute__((cold, noinline)) static weir_connection_ask lose(weir_connection *connection,
                                                                int64_t now_us) {
  weir_wire_server *server = connection->server;
  connection->greeting.kind = WEIR_SERVER_UNKNOWN;
  if (connection->state == WEIR_CONNECTION_READY) {
    weir_destination_doubt(&server->destination);
    server->destination.lost_us = now_us;
  }
  for (weir_wire_slot *slot = connection->first, *next = NULL; slot != NULL; slot = next) {
    next = slot->next;
    settle(connection, slot, now_us);
  }
  connection->unsent = connection->first;
  forget_socket(connection);
  connection->greeting.step = 0;
  if (connection->number == 0) weir_server_leave_further(server);
  return step_closed(connection, WEIR_EVENT_LOOK, now_us);
}

/* Leaves a connection that drains, once it has nothing more to say and to hear. A server that refuses
 * to write is as good as away. Its name may lead elsewhere in a moment, or its address to another
 * server; and another of its addresses may be the primary's. */
__attribute__((cold, noinline)) static weir_connection_ask depart(weir_connection *connection,
                                                                  int64_t now_us) {
  weir_wire_server *server = connection->server;
  weir_destination *destination = &server->destination;
  if (connection->draining == WEIR_DRAINING_DEMOTED) {
    weir_message_set(&connection->why,
                     "closed, as the server refuses to write: another is the primary by now");
    weir_breaker_fail(&server->breaker, connection->why.text, now_us);
    destination->lost_us = now_us;
    destination->address = (destination->address + 1) % destination->addresses.count;
  } else {
    weir_message_set(&connection->why, "closed, as another server may be meant by now");
  }
  return lose(connection, now_us);
}

/* Nothing more is sent at present. */
static weir_connection_ask rest(weir_connection *connection, int64_t now_us) {
  if (connection->state == WEIR_CONNECTION_DRAINING &&
      connection->out_start == connection->out_end &&
      (connection->first == NULL || connection->first->encoded == 0))
    return depart(connection, now_us);
  int64_t miss_us = next_miss_us(connection);
  int64_t end_us = overdue_us(connection);
  connection->wait_until_us = miss_us < end_us ? miss_us : end_us;
  return WEIR_ASK_WAIT;
}

static weir_connection_ask send_more(weir_connection *connection, int64_t now_us) {
  if (connection->turns++ < WEIR_WIRE_TURNS &&
      weir_stream_fill(connection, connection->unix_s, now_us) > 0)
    return WEIR_ASK_SEND;
  return rest(connection, now_us);
}

/* What has come is taken in: is a slot without its answer for too long? Else sends what is in line. */
static weir_connection_ask tend(weir_connection *connection, int64_t now_us) {
  if (connection->first == NULL && connection->state == WEIR_CONNECTION_READY) {
    connection->wait_until_us = INT64_MAX;
    return WEIR_ASK_NOTHING;
  }
  bool overdue = now_us > overdue_us(connection);
  if (overdue || weir_connection_has_miss(connection, now_us)) {
    if (!connection->read_out && connection->turns++ < WEIR_WIRE_TURNS) return WEIR_ASK_RECEIVE;
    if (connection->read_out) weir_connection_tell_misses(connection, now_us);
  }
  if (overdue) {
    /* It is closed from this side: that those behind the oldest get no answer is not the server's
     * fault. */
    weir_message_set(&connection->why,
                     "closed, as the oldest request stayed unanswered for too long");
    for (weir_wire_slot *slot = connection->first; slot != NULL; slot = slot->next)
      slot->missed = true;
    return lose(connection, now_us);
  }
  connection->turns = 0;
  return send_more(connection, now_us);
}

void weir_server_move(weir_wire_server *server) {
  weir_connection *first = &server->connections[0];
  if (!weir_connection_is_open(first)) {
    forget_socket(first);
    first->greeting.step = 0;
    first->greeting.kind = WEIR_SERVER_UNKNOWN;
    server->unready = NULL;
    return;
  }
  if (first->state == WEIR_CONNECTION_READY) {
    first->state = WEIR_CONNECTION_DRAINING;
    first->draining = WEIR_DRAINING_MOVED;
  }
  weir_server_leave_further(server);
}

/* One that is closed or on its way. */
__attribute__((cold, noinline)) static weir_connection_ask step_towards_ready(
    weir_connection *connection, const weir_event *event, int64_t now_us) {
  bool waited = event->kind == WEIR_EVENT_SOCKET || event->kind == WEIR_EVENT_TIME;
  bool ready = false;
  if (waited || event->kind == WEIR_EVENT_LOOK) connection->unix_s = event->unix_s;
  if (event->kind == WEIR_EVENT_SOCKET || (event->kind == WEIR_EVENT_RECEIVED && event->amount > 0))
    connection->heard_us = now_us;
  weir_connection_ask ask = WEIR_ASK_NOTHING;
  if (connection->state == WEIR_CONNECTION_CLOSED)
    return step_closed(connection, event->kind, now_us);

  /* The time of an attempt may run out while no thread is there: it has failed, unless the server
   * has done its part meanwhile. Then it was not the server that took the time. */
  if (event->kind == WEIR_EVENT_LOOK && now_us >= connection->attempt_end_us) {
    connection->overslept = true;
    connection->wait_until_us = now_us;
    return WEIR_ASK_WAIT;
  }
  if (connection->overslept && waited) {
    connection->overslept = false;
    if (event->kind == WEIR_EVENT_TIME) return fail_silent(connection, now_us);
    connection->attempt_end_us = now_us + attempt_us(connection->server);
  }
  switch (connection->state) {
    case WEIR_CONNECTION_CONNECTING:
      return step_connecting(connection, event, now_us);
    case WEIR_CONNECTION_SECURING:
      return step_securing(connection, event, now_us);
    default:
      ask = step_greeting(connection, event, &ready, now_us);
      return ready ? tend(connection, now_us) : ask;
  }
}

weir_connection_ask weir_connection_step(weir_connection *connection, const weir_event *event,
                                         int64_t now_us) {
  bool whole;
  if (!weir_connection_is_open(connection)) return step_towards_ready(connection, event, now_us);
  if (connection->state == WEIR_CONNECTION_DRAINING && connection->first == NULL &&
      event->kind == WEIR_EVENT_LOOK)
    return depart(connection, now_us);
  switch (event->kind) {
    case WEIR_EVENT_LOOK:
    case WEIR_EVENT_SOCKET:
    case WEIR_EVENT_TIME: {
      bool idle = now_us - connection->active_us > WEIR_WIRE_IDLE_US;
      bool readable = event->kind == WEIR_EVENT_SOCKET && event->readable;
      connection->active_us = now_us;
      connection->unix_s = event->unix_s;
      connection->unread = connection->read_out = false;
      connection->turns = 0;
      return idle || readable ? WEIR_ASK_RECEIVE : tend(connection, now_us);
    }
    case WEIR_EVENT_RECEIVED:
      connection->read_out = event->amount == 0;
      whole = event->amount == sizeof connection->in - connection->in_end;
      if (event->amount > 0 && !weir_stream_decode(connection, event->amount))
        return lose(connection, now_us);
      if ((whole || event->more) && ++connection->turns < WEIR_WIRE_TURNS) return WEIR_ASK_RECEIVE;
      connection->unread = event->more;
      return connection->failing ? lose(connection, now_us) : tend(connection, now_us);
    case WEIR_EVENT_SENT:
      if (event->amount == 0) return rest(connection, now_us);
      weir_stream_accept(connection, event->amount);
      return send_more(connection, now_us);
    case WEIR_EVENT_HUNG_UP:
      weir_message_set(&connection->why, "the server closed the connection");
      return lose(connection, now_us);
    case WEIR_EVENT_FAILED:
      if (!event->sending) {
        explain(connection, "receiving failed", event);
        return lose(connection, now_us);
      }
      /* What the server answered before it hung up still counts. */
      explain(connection, "sending failed", event);
      connection->failing = true;
      connection->turns = 0;
      return WEIR_ASK_RECEIVE;
    default: /* of a connection that was being made when it was left */
      return tend(connection, now_us);
  }
}
