/* Bytes of a ready connection: encoding and sending, receiving and decoding. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "wire/internal.h"

/* System calls in a row before the leader looks at the other direction again. */
enum { TURNS = 16 };

ssize_t weir_wire_put(weir_wire_connection *connection, const char *bytes, size_t length) {
  if (connection->session == NULL) return weir_socket_send(connection->fd, bytes, length);
  return weir_tls_session_send(connection->session, bytes, length);
}

ssize_t weir_wire_take(weir_wire_connection *connection, char *bytes, size_t room, bool wait) {
  if (connection->session == NULL) return weir_socket_receive(connection->fd, bytes, room, wait);
  return weir_tls_session_receive(connection->session, bytes, room);
}

bool weir_wire_holds(const weir_wire_connection *connection) {
  return connection->session != NULL && weir_tls_session_holds(connection->session);
}

void weir_wire_explain(weir_wire_connection *connection, const char *what, int error) {
  const char *fault =
      connection->session != NULL ? weir_tls_session_fault(connection->session) : "";
  char text[128] = "";
  if (fault[0] != '\0') {
    weir_message_set(&connection->why, "%s", fault);
    return;
  }
  if (strerror_r(error, text, sizeof text) != 0) text[0] = '\0';
  weir_message_set(&connection->why, "%s: %s", what, text);
}

/* The slot that is encoded next; NULL: none at present. On a connection that is to be left only
 * what has begun is sent to its end. */
static weir_wire_slot *next_unsent(const weir_wire_connection *connection) {
  weir_wire_slot *next = connection->unsent;
  if (next == NULL || (connection->leaving && next->encoded == 0)) return NULL;
  return connection->wire->one_at_a_time && next != connection->first ? NULL : next;
}

bool weir_wire_has_to_send(const weir_wire_connection *connection) {
  return connection->out_start < connection->out_end || next_unsent(connection) != NULL;
}

static bool encode_slot(weir_wire_connection *connection, weir_wire_slot *slot, int64_t unix_s,
                        int64_t now_us) {
  if (slot->encoded == 0) {
    slot->sent_us = now_us;
    slot->missed = false; /* on the connection before */
  }
  while (slot->encoded < slot->count) {
    if (connection->out_most - connection->out_end < WEIR_WIRE_COMMAND_MOST) return false;
    weir_wire_command *command = &slot->commands[slot->encoded++];
    command->serial = connection->serial++;
    command->parser = connection->parser;
    command->demoted = false;
    command->start = connection->accepted + (connection->out_end - connection->out_start);
    connection->out_end +=
        connection->codec->encode(command, unix_s, connection->out + connection->out_end);
  }
  return true;
}

/* Ends a slot of which nothing was sent. */
static void refuse_slot(weir_wire_connection *connection, weir_wire_slot *slot, const char *why,
                        int64_t now_us) {
  weir_breaker_end(&connection->wire->breaker, slot, now_us);
  weir_wire_slot_explain(slot, why);
  weir_wire_slot_mark(slot, 0);
  weir_wire_slot_end(connection, slot);
}

/* Ends a slot that asked for this connection alone. Its greeting is an answer. */
static void connect_slot(weir_wire_connection *connection, weir_wire_slot *slot) {
  weir_breaker_answered(&connection->wire->breaker);
  slot->connected = true;
  weir_wire_slot_end(connection, slot);
}

/* Encodes as much of the line as the buffer holds. */
static void fill(weir_wire_connection *connection, int64_t now_us) {
  if (connection->out_start > 0) {
    memmove(connection->out, connection->out + connection->out_start,
            connection->out_end - connection->out_start);
    connection->out_end -= connection->out_start;
    connection->out_start = 0;
  }
  int64_t unix_s = (int64_t)time(NULL);
  for (weir_wire_slot *slot = NULL; (slot = next_unsent(connection)) != NULL;) {
    if (slot->encoded == 0 && now_us >= slot->deadline_us) {
      refuse_slot(connection, slot, "not sent by the deadline", now_us);
    } else if (slot->connects) {
      connect_slot(connection, slot);
    } else if ((slot->dialects & 1U << connection->greeting.dialect) == 0) {
      refuse_slot(connection, slot, "the server has changed its dialect", now_us);
      weir_breaker_hasten(&connection->wire->breaker); /* it has greeted */
    } else if (encode_slot(connection, slot, unix_s, now_us)) {
      connection->unsent = slot->next;
    } else {
      return;
    }
  }
}

bool weir_wire_send(weir_wire_connection *connection, int64_t now_us) {
  for (int turn = 0; turn < TURNS && weir_wire_has_to_send(connection); turn++) {
    fill(connection, now_us);
    size_t length = connection->out_end - connection->out_start;
    if (length == 0) return true;
    weir_wire_unlock(connection->wire);
    ssize_t sent = weir_wire_put(connection, connection->out + connection->out_start, length);
    int error = errno;
    pthread_mutex_lock(&connection->wire->lock);
    if (sent < 0) {
      if (error == EAGAIN || error == EWOULDBLOCK) return true;
      weir_wire_explain(connection, "sending failed", error);
      return false;
    }
    connection->accepted += (uint64_t)sent;
    connection->out_start += (size_t)sent;
    if (connection->out_start == connection->out_end)
      connection->out_start = connection->out_end = 0;
  }
  return true;
}

/* A server that refuses to write is left, by both connections; the first time, to find out whether
 * it is one, which whom a resolver names always is. Behind a proxy others are well. */
static void meet_refusal_to_write(weir_wire *wire) {
  weir_wire_connection *first = &wire->connections[0];
  if (first->leaving || first->state != WEIR_WIRE_READY) return;
  weir_wire_name_doubt(wire);
  first->greeting.asks_kind = true;
  if (wire->resolver != NULL) first->greeting.kind = WEIR_SERVER_ITSELF;
  first->demoted = first->greeting.kind == WEIR_SERVER_ITSELF;
  first->leaving = first->greeting.kind != WEIR_SERVER_PROXY;
  if (first->leaving) weir_wire_leave_second(wire);
}

/* Takes one reply. False: no whole reply is left, or *broken. */
static bool take_reply(weir_wire_connection *connection, bool *broken) {
  weir_wire_slot *slot = connection->first;
  if (slot == NULL || slot->answered == slot->encoded ||
      slot->commands[slot->answered].start >= connection->accepted) {
    weir_message_set(&connection->why, "the server sent a reply that nobody asked for");
    *broken = true;
    return false;
  }
  size_t length = connection->in_end - connection->in_start;
  size_t taken = 0;
  weir_wire_command *command = &slot->commands[slot->answered];
  weir_reading reading = connection->codec->decode(command, connection->in + connection->in_start,
                                                   length, &taken, &slot->message);
  if (reading == WEIR_READING_MORE && length < WEIR_WIRE_REPLY_MOST) return false;
  if (reading == WEIR_READING_MORE || reading == WEIR_READING_BROKEN) {
    weir_message_set(&connection->why, "the server's reply is not %s", connection->codec->name);
    *broken = true;
    return false;
  }
  connection->skip = taken > length ? taken - length : 0;
  connection->in_start += taken > length ? length : taken;
  command->replies++;
  if (command->demoted) meet_refusal_to_write(connection->wire);
  if (reading == WEIR_READING_REPLY) return true;
  if (!slot->missed && !connection->wire->connections[0].demoted)
    weir_breaker_answered(&connection->wire->breaker);
  if (reading == WEIR_READING_LAST) {
    weir_message_set(&connection->why,
                     "closed after an error, as what follows it cannot be trusted");
    *broken = true;
  }
  if (++slot->answered == slot->count) weir_wire_slot_end(connection, slot);
  return !*broken;
}

static bool decode(weir_wire_connection *connection) {
  bool broken = false;
  do { /* of a reply that was longer than anyone wants to see, bytes are dropped */
    size_t have = connection->in_end - connection->in_start;
    size_t drop = connection->skip < have ? (size_t)connection->skip : have;
    connection->skip -= drop;
    connection->in_start += drop;
  } while (connection->in_start < connection->in_end && take_reply(connection, &broken));
  return !broken;
}

/* One recv; the first of a patient wire waits a little. Bytes got, 0 for none yet, -1 for a loss.
 */
static ssize_t receive_some(weir_wire_connection *connection, size_t room) {
  bool wait = connection->patient;
  connection->patient = false;
  connection->resting = wait;
  connection->receiving = true;
  weir_wire_unlock(connection->wire);
  ssize_t got = weir_wire_take(connection, connection->in + connection->in_end, room, wait);
  int error = errno;
  pthread_mutex_lock(&connection->wire->lock);
  weir_wire_come_back(connection);
  connection->receiving = false;
  if (got > 0) return got;
  if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK || error == EINTR)) return 0;
  if (got < 0) weir_wire_explain(connection, "receiving failed", error);
  if (got == 0) weir_message_set(&connection->why, "the server closed the connection");
  return -1;
}

bool weir_wire_receive(weir_wire_connection *connection) {
  connection->unread = false;
  for (int turn = 0; turn < TURNS; turn++) {
    memmove(connection->in, connection->in + connection->in_start,
            connection->in_end - connection->in_start);
    connection->in_end -= connection->in_start;
    connection->in_start = 0;
    size_t room = sizeof connection->in - connection->in_end;
    ssize_t got = receive_some(connection, room);
    if (got <= 0) return got == 0;
    connection->in_end += (size_t)got;
    if (!decode(connection)) return false;
    if ((size_t)got < room && (connection->session == NULL || !weir_wire_holds(connection)))
      return true;
  }
  connection->unread = weir_wire_holds(connection);
  return true;
}
