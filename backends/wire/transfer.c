/* Bytes of a ready connection: encoding and sending, receiving and decoding. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "wire/internal.h"

/* System calls in a row before the leader looks at the other direction again. */
enum { TURNS = 16 };

ssize_t weir_wire_put(weir_wire *wire, const char *bytes, size_t length) {
  if (wire->session == NULL) return weir_socket_send(wire->fd, bytes, length);
  return weir_tls_session_send(wire->session, bytes, length);
}

ssize_t weir_wire_take(weir_wire *wire, char *bytes, size_t room, bool wait) {
  if (wire->session == NULL) return weir_socket_receive(wire->fd, bytes, room, wait);
  return weir_tls_session_receive(wire->session, bytes, room);
}

bool weir_wire_holds(const weir_wire *wire) {
  return wire->session != NULL && weir_tls_session_holds(wire->session);
}

void weir_wire_explain(weir_wire *wire, const char *what, int error) {
  const char *fault = wire->session != NULL ? weir_tls_session_fault(wire->session) : "";
  char text[128] = "";
  if (fault[0] != '\0') {
    weir_message_set(&wire->why, "%s", fault);
    return;
  }
  if (strerror_r(error, text, sizeof text) != 0) text[0] = '\0';
  weir_message_set(&wire->why, "%s: %s", what, text);
}

/* On a connection that is to be left only what has begun is sent to its end. */
static bool may_encode(const weir_wire *wire) {
  if (wire->unsent == NULL || (wire->leaving && wire->unsent->encoded == 0)) return false;
  return !wire->one_at_a_time || wire->unsent == wire->first;
}

bool weir_wire_has_to_send(const weir_wire *wire) {
  return may_encode(wire) || wire->out_start < wire->out_end;
}

static bool encode_slot(weir_wire *wire, weir_wire_slot *slot, int64_t unix_s, int64_t now_us) {
  if (wire->silent_since_us == 0) wire->silent_since_us = now_us;
  if (slot->encoded == 0) {
    slot->heard = wire->heard;
    slot->sent_us = now_us;
  }
  while (slot->encoded < slot->count) {
    if (wire->out_most - wire->out_end < WEIR_WIRE_COMMAND_MOST) return false;
    weir_wire_command *command = &slot->commands[slot->encoded++];
    command->serial = wire->serial++;
    command->parser = wire->parser;
    command->demoted = false;
    command->start = wire->accepted + (wire->out_end - wire->out_start);
    wire->out_end += wire->codec->encode(command, unix_s, wire->out + wire->out_end);
  }
  return true;
}

/* Ends a slot of which nothing was sent. */
static void refuse_slot(weir_wire *wire, weir_wire_slot *slot, const char *why) {
  weir_wire_slot_explain(slot, why);
  weir_wire_slot_mark(slot, 0);
  weir_wire_slot_end(wire, slot);
}

/* Ends a slot that asked for this connection alone. Its greeting is an answer. */
static void connect_slot(weir_wire *wire, weir_wire_slot *slot) {
  weir_breaker_answered(&wire->breaker, true);
  slot->connected = true;
  weir_wire_slot_end(wire, slot);
}

/* Encodes as much of the line as the buffer holds. */
static void fill(weir_wire *wire, int64_t now_us) {
  if (!may_encode(wire)) return;
  if (wire->out_start > 0) {
    memmove(wire->out, wire->out + wire->out_start, wire->out_end - wire->out_start);
    wire->out_end -= wire->out_start;
    wire->out_start = 0;
  }
  int64_t unix_s = (int64_t)time(NULL);
  while (may_encode(wire)) {
    weir_wire_slot *slot = wire->unsent;
    if (slot->encoded == 0 && now_us >= slot->deadline_us) {
      weir_breaker_excuse(&wire->breaker, slot, now_us);
      refuse_slot(wire, slot, "not sent by the deadline");
    } else if (slot->connects) {
      connect_slot(wire, slot);
    } else if ((slot->dialects & 1U << wire->greeting.dialect) == 0) {
      weir_breaker_answered(&wire->breaker, false); /* its greeting */
      refuse_slot(wire, slot, "the server has changed its dialect");
    } else if (encode_slot(wire, slot, unix_s, now_us)) {
      wire->unsent = slot->next;
    } else {
      return;
    }
  }
}

/* A thread may be kept from the processor between reading the clock and the end of its send. */
static void note_hold_up(weir_wire *wire, int64_t began_us) {
  int64_t now_us = weir_monotonic_us();
  if (now_us - began_us > wire->timeout_us / 8) wire->held_up_us = now_us;
}

bool weir_wire_send(weir_wire *wire, int64_t now_us, bool keep_lock) {
  for (int turn = 0; turn < TURNS; turn++) {
    fill(wire, now_us);
    size_t length = wire->out_end - wire->out_start;
    if (length == 0) return true;
    if (!keep_lock) weir_wire_unlock(wire);
    ssize_t sent = weir_wire_put(wire, wire->out + wire->out_start, length);
    int error = errno;
    if (!keep_lock) pthread_mutex_lock(&wire->lock);
    note_hold_up(wire, now_us);
    if (sent < 0) {
      if (error == EAGAIN || error == EWOULDBLOCK) return true;
      weir_wire_explain(wire, "sending failed", error);
      return false;
    }
    wire->accepted += (uint64_t)sent;
    wire->out_start += (size_t)sent;
    if (wire->out_start == wire->out_end) wire->out_start = wire->out_end = 0;
  }
  return true;
}

/* Drops bytes of a reply that was longer than anyone wants to see. */
static void skip(weir_wire *wire) {
  size_t have = wire->in_end - wire->in_start;
  size_t drop = wire->skip < have ? (size_t)wire->skip : have;
  wire->skip -= drop;
  wire->in_start += drop;
}

/* For a caller who still waits. */
static bool is_in_time(const weir_wire_slot *slot) {
  return !slot->abandoned && weir_monotonic_us() < slot->deadline_us;
}

/* A server that refuses to write is left; the first time, to find out whether it is one. Behind a
 * proxy others are well. */
static void meet_refusal_to_write(weir_wire *wire) {
  if (wire->leaving) return;
  weir_wire_name_doubt(wire);
  wire->greeting.asks_peer = true;
  wire->demoted = wire->greeting.peer == WEIR_PEER_SERVER;
  wire->leaving = wire->greeting.peer != WEIR_PEER_PROXY;
}

/* Takes one reply. False: no whole reply is left, or *broken. */
static bool take_reply(weir_wire *wire, bool *broken) {
  weir_wire_slot *slot = wire->first;
  if (slot == NULL || slot->answered == slot->encoded ||
      slot->commands[slot->answered].start >= wire->accepted) {
    weir_message_set(&wire->why, "the server sent a reply that nobody asked for");
    *broken = true;
    return false;
  }
  size_t length = wire->in_end - wire->in_start;
  size_t taken = 0;
  weir_wire_command *command = &slot->commands[slot->answered];
  weir_reading reading =
      wire->codec->decode(command, wire->in + wire->in_start, length, &taken, &slot->message);
  if (reading == WEIR_READING_MORE && length < WEIR_WIRE_REPLY_MOST) return false;
  if (reading == WEIR_READING_MORE || reading == WEIR_READING_BROKEN) {
    weir_message_set(&wire->why, "the server's reply is not %s", wire->codec->name);
    *broken = true;
    return false;
  }
  wire->skip = taken > length ? taken - length : 0;
  wire->in_start += taken > length ? length : taken;
  command->replies++;
  if (command->demoted) meet_refusal_to_write(wire);
  if (weir_breaker_wants_answer(&wire->breaker) && !wire->demoted)
    weir_breaker_answered(&wire->breaker, is_in_time(slot));
  if (reading == WEIR_READING_REPLY) return true;
  if (reading == WEIR_READING_LAST) {
    weir_message_set(&wire->why, "closed after an error, as what follows it cannot be trusted");
    *broken = true;
  }
  if (++slot->answered == slot->count) weir_wire_slot_end(wire, slot);
  return !*broken;
}

static bool decode(weir_wire *wire) {
  bool broken = false;
  do {
    skip(wire);
  } while (wire->in_start < wire->in_end && take_reply(wire, &broken));
  return !broken;
}

/* One recv; the first of a patient wire waits a little. Bytes got, 0 for none yet, -1 for a loss.
 */
static ssize_t receive_some(weir_wire *wire, size_t room) {
  bool wait = wire->patient;
  wire->patient = false;
  wire->resting = wait;
  wire->receiving = true;
  weir_wire_unlock(wire);
  ssize_t got = weir_wire_take(wire, wire->in + wire->in_end, room, wait);
  int error = errno;
  pthread_mutex_lock(&wire->lock);
  wire->resting = wire->receiving = false;
  if (got > 0) return got;
  if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK || error == EINTR)) return 0;
  if (got < 0) weir_wire_explain(wire, "receiving failed", error);
  if (got == 0) weir_message_set(&wire->why, "the server closed the connection");
  return -1;
}

bool weir_wire_receive(weir_wire *wire) {
  wire->unread = false;
  for (int turn = 0; turn < TURNS; turn++) {
    memmove(wire->in, wire->in + wire->in_start, wire->in_end - wire->in_start);
    wire->in_end -= wire->in_start;
    wire->in_start = 0;
    size_t room = sizeof wire->in - wire->in_end;
    ssize_t got = receive_some(wire, room);
    if (got <= 0) return got == 0;
    wire->in_end += (size_t)got;
    weir_wire_note_answer(wire, weir_monotonic_us());
    if (!decode(wire)) return false;
    if ((size_t)got < room && !weir_wire_holds(wire)) return true;
  }
  wire->unread = weir_wire_holds(wire);
  return true;
}
