/* From no connection to a ready one: which address, connecting, securing where it speaks TLS,
 * greeting. Nothing here waits. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "wire/internal.h"

/* Which address comes next: that in use; then, as it refuses, the others in their order. Where any
 * will do, one after the other. */
static size_t next_address(const weir_wire *wire) {
  if (wire->any_address) return (wire->address + wire->tried) % wire->addresses.count;
  if (wire->tried == 0) return wire->address;
  return wire->tried - 1 < wire->address ? wire->tried - 1 : wire->tried;
}

/* None took the connection. The next try begins with the address in use, unless that refused: then
 * with the first. */
static void end_round(weir_wire *wire) {
  if (wire->any_address && wire->addresses.count > 0) {
    wire->address = (wire->trying + 1) % wire->addresses.count;
  } else if (wire->trying != wire->address) {
    wire->address = 0;
  }
  wire->tried = 0;
}

/* Only one that refuses is left for the next: keys that are counted on one server must not go to
 * another because it is slow, hangs up or answers nonsense. The second connection says nothing of
 * the server: it is tried again after a while. */
static void fail_attempt(weir_wire_connection *connection, bool refused) {
  weir_wire *wire = connection->wire;
  weir_wire_drop_socket(connection);
  connection->greeting.step = 0;
  connection->greeting.kind = WEIR_SERVER_UNKNOWN;
  if (weir_wire_is_second(connection)) {
    wire->second_at_us = weir_monotonic_us() + WEIR_WIRE_SECOND_PAUSE_US;
    return;
  }
  weir_wire_name_doubt(wire);
  wire->lost_us = weir_monotonic_us();
  wire->tried = refused || wire->any_address ? wire->tried + 1 : wire->addresses.count;
}

/* What is in line cannot be sent. */
static void give_up(weir_wire_connection *connection, int64_t now_us) {
  end_round(connection->wire);
  connection->wire->unready = NULL;
  weir_breaker_fail(&connection->wire->breaker, connection->why.text, now_us);
  while (connection->first != NULL) {
    connection->first->moved = true;
    weir_wire_settle(connection, connection->first, now_us);
  }
}

static void explain_connect(weir_wire_connection *connection, int error) {
  char text[128] = "";
  if (strerror_r(error, text, sizeof text) != 0) text[0] = '\0';
  weir_message_set(&connection->why, "cannot connect: %s", text);
}

/* The server has kept silent until the attempt was over. */
static void explain_silence(weir_wire_connection *connection) {
  if (connection->state == WEIR_WIRE_CONNECTING) {
    explain_connect(connection, ETIMEDOUT);
  } else {
    bool securing = connection->state == WEIR_WIRE_SECURING;
    weir_message_set(&connection->why, "%s",
                     securing ? WEIR_WIRE_NO_HANDSHAKE : "the server does not answer the greeting");
  }
}

/* How long an attempt may last. Where any address will do it is shared among them, so that a dead
 * one does not hide the next. */
static int64_t attempt_us(const weir_wire *wire) {
  if (!wire->any_address) return wire->connect_us;
  return wire->connect_us / (int64_t)wire->addresses.count;
}

/* Whether nobody takes connections there, or none can go there from this machine at all. A host
 * that cannot be reached (EHOSTUNREACH) is as silent as one that lets a connection time out. */
static bool is_refusal(const weir_wire *wire, int error) {
  bool v6 = wire->addresses.list[wire->trying].bytes.ss_family == AF_INET6;
  return error == ECONNREFUSED || error == ENETUNREACH || error == EAFNOSUPPORT ||
         (error == EADDRNOTAVAIL && v6); /* no IPv6 here; with IPv4 it means: out of ports */
}

void weir_wire_try_address(weir_wire_connection *connection, int64_t now_us) {
  weir_wire *wire = connection->wire;
  connection->attempt_end_us = now_us + attempt_us(wire);
  if (!weir_wire_is_second(connection)) wire->trying = next_address(wire);
  int error = weir_socket_connect(&wire->addresses.list[wire->trying], &connection->fd);
  if (error == 0 || error == EINPROGRESS) {
    connection->state = WEIR_WIRE_CONNECTING;
  } else {
    explain_connect(connection, error);
    fail_attempt(connection, is_refusal(wire, error));
  }
}

/* On a socket that is connected. */
static void start_talking(weir_wire_connection *connection) {
  connection->state = WEIR_WIRE_GREETING;
  connection->out_most =
      connection->wire->tls == NULL ? sizeof connection->out : WEIR_WIRE_RECORD_BYTES;
  if (connection->wire->tls == NULL) return;
  connection->state = WEIR_WIRE_SECURING;
  connection->session =
      weir_tls_session_start(connection->wire->tls, connection->wire->asked.host, connection->fd);
  if (connection->session != NULL) return;
  weir_message_set(&connection->why, "no memory for TLS");
  fail_attempt(connection, false);
}

/* Whether there is nothing to do but wait. */
static bool step_connecting(weir_wire_connection *connection, short revents, int64_t now_us) {
  if ((revents & (POLLOUT | POLLERR | POLLHUP)) != 0) {
    int error = weir_socket_finish(connection->fd);
    if (error == 0) {
      start_talking(connection);
    } else {
      explain_connect(connection, error);
      fail_attempt(connection, is_refusal(connection->wire, error));
    }
    return false;
  }
  if (now_us < connection->attempt_end_us) return true;
  explain_silence(connection);
  fail_attempt(connection, false);
  return false;
}

/* The lock is let go, as signatures take their time. */
static bool step_securing(weir_wire_connection *connection, int64_t now_us) {
  weir_message why = {WEIR_WIRE_NO_HANDSHAKE};
  weir_wire_unlock(connection->wire);
  weir_tls_hands hands = weir_tls_session_shake(connection->session, &why);
  pthread_mutex_lock(&connection->wire->lock);
  if (hands == WEIR_TLS_SHAKING && now_us < connection->attempt_end_us) return true;
  if (hands == WEIR_TLS_SHAKEN) {
    connection->state = WEIR_WIRE_GREETING;
    return false;
  }
  connection->why = why;
  fail_attempt(connection, false);
  return false;
}

/* A second that speaks another dialect than the first leads to another server by now. */
static bool become_ready(weir_wire_connection *connection, int64_t now_us) {
  weir_wire *wire = connection->wire;
  int dialect = (int)connection->greeting.dialect;
  if (weir_wire_is_second(connection) && dialect != wire->dialect) {
    weir_message_set(&connection->why, "the server has changed its dialect");
    return false;
  }
  connection->state = WEIR_WIRE_READY;
  connection->codec = wire->protocol->codecs[dialect];
  connection->active_us = now_us;
  connection->serial = 0;
  connection->greeting.step = 0;
  if (weir_wire_is_second(connection)) return true;
  wire->address = wire->trying;
  wire->tried = 0;
  wire->unready = NULL;
  atomic_store_explicit(&wire->dialect, dialect, memory_order_relaxed);
  return true;
}

static bool make_parser(weir_wire_connection *connection) {
  if (connection->wire->protocol->create_parser == NULL) return true;
  connection->parser = connection->wire->protocol->create_parser(
      connection->greeting.settings, weir_wire_is_second(connection) ? 1 : 0);
  if (connection->parser == NULL)
    weir_message_set(&connection->why, "no memory for another connection");
  return connection->parser != NULL;
}

/* What TLS has to say on why the server hung up, if anything. */
static bool has_fault(weir_wire_connection *connection) {
  if (connection->session == NULL || weir_tls_session_fault(connection->session)[0] == '\0')
    return false;
  weir_wire_explain(connection, "", 0);
  return true;
}

/* A greeting is short and first on its connection: the socket takes it whole or is broken. A server
 * that refuses a certificate says so before it hangs up. */
static bool say(weir_wire_connection *connection) {
  size_t length = connection->greeting.say_length;
  if (weir_wire_put(connection, connection->greeting.say, length) == (ssize_t)length) return true;
  if (connection->session != NULL)
    weir_wire_take(connection, connection->in, sizeof connection->in, false);
  if (!has_fault(connection)) weir_message_set(&connection->why, "the greeting cannot be sent");
  return false;
}

/* Lets the protocol read what came and answer; false when the peer must speak next. */
static bool converse(weir_wire_connection *connection, bool closed, int64_t now_us) {
  weir_greeting *greeting = &connection->greeting;
  greeting->taken = 0;
  weir_greeting_answer answer = connection->wire->protocol->greet(
      greeting, connection->in + connection->in_start, connection->in_end - connection->in_start,
      closed, &connection->why);
  connection->in_start += greeting->taken;
  switch (answer) {
    case WEIR_GREETING_MORE:
      if (!closed && connection->in_end < sizeof connection->in) return false;
      weir_message_set(&connection->why, "the server hung up during the greeting");
      break;
    case WEIR_GREETING_SAY:
      if (say(connection)) return true;
      break;
    case WEIR_GREETING_READY:
      if (connection->in_start < connection->in_end) {
        weir_message_set(&connection->why, "the server said more than the greeting asked for");
        break;
      }
      if (!make_parser(connection) || !become_ready(connection, now_us)) break;
      return true;
    case WEIR_GREETING_RECONNECT:
      weir_wire_drop_socket(connection);
      return true;
    case WEIR_GREETING_FAILED:
      break;
  }
  fail_attempt(connection, false);
  return true;
}

static bool step_greeting(weir_wire_connection *connection, int64_t now_us) {
  size_t room = sizeof connection->in - connection->in_end;
  ssize_t got = weir_wire_take(connection, connection->in + connection->in_end, room, false);
  bool closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
  if (got > 0) connection->in_end += (size_t)got;
  connection->unread = got > 0 && weir_wire_holds(connection);
  if (closed && has_fault(connection)) {
    fail_attempt(connection, false);
    return false;
  }
  bool moved = false;
  while (connection->state == WEIR_WIRE_GREETING && converse(connection, closed, now_us))
    moved = true;
  if (moved || now_us < connection->attempt_end_us) return !moved;
  explain_silence(connection);
  fail_attempt(connection, false);
  return false;
}

void weir_wire_go_on(weir_wire_connection *connection, short revents, int64_t now_us) {
  bool stuck = false;
  while (!stuck && weir_wire_is_connecting(connection)) {
    if (connection->state == WEIR_WIRE_CONNECTING) {
      stuck = step_connecting(connection, revents, now_us);
    } else if (connection->state == WEIR_WIRE_SECURING) {
      stuck = step_securing(connection, now_us);
    } else {
      stuck = step_greeting(connection, now_us);
    }
  }
}

void weir_wire_step_towards_ready(weir_wire_connection *connection, short revents, int64_t now_us) {
  weir_wire *wire = connection->wire;
  while (connection->first != NULL && connection->state != WEIR_WIRE_READY) {
    if (connection->state == WEIR_WIRE_CLOSED) {
      weir_wire_name_follow(wire, now_us);
      if (weir_wire_name_is_stale(wire, now_us)) {
        if (now_us < weir_wire_name_due_us(wire)) return;
        connection->why = wire->unresolved;
        give_up(connection, now_us);
      } else if (wire->tried < wire->addresses.count) {
        weir_wire_try_address(connection, now_us);
      } else {
        give_up(connection, now_us);
      }
      revents = 0;
    } else {
      weir_wire_go_on(connection, revents, now_us);
      if (weir_wire_is_connecting(connection)) return;
    }
  }
}

bool weir_wire_is_connecting(const weir_wire_connection *connection) {
  return connection->state != WEIR_WIRE_CLOSED && connection->state != WEIR_WIRE_READY;
}

void weir_wire_end_attempt(weir_wire_connection *connection, bool spoken, int64_t now_us) {
  if (spoken) {
    connection->attempt_end_us = now_us + attempt_us(connection->wire);
    return;
  }
  explain_silence(connection);
  fail_attempt(connection, false);
}
