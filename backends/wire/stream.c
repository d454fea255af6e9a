/* The bytes of an open connection: operations become bytes at the end of the line, bytes become
 * outcomes at its front. */
#include <string.h>

#include "wire/connection.h"

/* --- the line -------------------------------------------------------------------------------- */

void weir_line_append(weir_connection *connection, weir_wire_slot *slot) {
  weir_slot_become(slot, WEIR_SLOT_QUEUED);
  slot->connection = connection;
  slot->encoded = 0;
  slot->next = NULL;
  if (connection->last != NULL) connection->last->next = slot;
  if (connection->first == NULL) connection->first = slot;
  if (connection->unsent == NULL) connection->unsent = slot;
  connection->last = slot;
}

void weir_line_leave(weir_connection *connection, weir_wire_slot *slot) {
  weir_wire_slot *before = NULL;
  for (weir_wire_slot *each = connection->first; each != slot; each = each->next)
    before = each;
  if (before != NULL) {
    before->next = slot->next;
  } else {
    connection->first = slot->next;
  }
  if (connection->last == slot) connection->last = before;
  if (connection->unsent == slot) connection->unsent = slot->next;
  slot->next = NULL;
  if (connection->left == NULL) {
    connection->left = slot;
  } else {
    connection->left_last->next = slot;
  }
  connection->left_last = slot;
}

void weir_slot_mark(weir_wire_slot *slot, uint64_t accepted) {
  for (size_t i = slot->answered; i < slot->count; i++) {
    weir_wire_command *command = &slot->commands[i];
    bool sent = i < slot->encoded && command->start < accepted;
    command->operation.outcome = sent ? WEIR_UNKNOWN : WEIR_NOT_SENT;
  }
}

void weir_slot_explain(weir_wire_slot *slot, const char *why) {
  if (slot->message.text[0] == '\0') weir_message_set(&slot->message, "%s", why);
}

void weir_slot_end(weir_connection *connection, weir_wire_slot *slot) {
  slot->late = connection->server->breaker.state == WEIR_BREAKER_CLOSED;
  weir_line_leave(connection, slot);
  if (slot->state == WEIR_SLOT_ABANDONED)
    connection->abandoned--;
  else
    weir_slot_become(slot, WEIR_SLOT_DONE);
}

/* --- sending --------------------------------------------------------------------------------- */

/* Encodes a slot. False: not all of it has room in the buffer. */
static bool encode(weir_connection *connection, weir_wire_slot *slot, int64_t unix_s,
                   int64_t now_us) {
  if (slot->encoded == 0) {
    weir_slot_become(slot, WEIR_SLOT_SENT);
    slot->sent_us = now_us;
    slot->missed = false; /* on the connection before */
  }
  while (slot->encoded < slot->count) {
    if (connection->out_most - connection->out_end < WEIR_WIRE_COMMAND_MOST) return false;
    weir_wire_command *command = &slot->commands[slot->encoded++];
    command->serial = connection->serial++;
    command->parser = connection->parser;
    command->demoted = false;
    command->shared = 0;
    command->start = connection->accepted + (connection->out_end - connection->out_start);
    for (unsigned i = command->followers; i > 0; i--) { /* which go with it */
      weir_wire_command *follower = &slot->commands[slot->encoded++];
      follower->serial = command->serial;
      follower->parser = command->parser;
      follower->demoted = false;
      follower->shared = 0;
      follower->start = command->start;
    }
    connection->out_end +=
        connection->codec->encode(command, unix_s, connection->out + connection->out_end);
  }
  connection->unsent = slot->next;
  return true;
}

size_t weir_stream_fill(weir_connection *connection, int64_t unix_s, int64_t now_us) {
  weir_breaker *breaker = &connection->server->breaker;
  unix_s += atomic_load_explicit(&connection->server->clock_ahead_s, memory_order_relaxed);
  if (connection->out_start > 0) {
    memmove(connection->out, connection->out + connection->out_start,
            connection->out_end - connection->out_start);
    connection->out_end -= connection->out_start;
    connection->out_start = 0;
  }
  for (weir_wire_slot *slot = NULL; (slot = weir_stream_next(connection)) != NULL;) {
    const char *refused = NULL;
    if (slot->encoded == 0 && now_us >= slot->deadline_us) {
      refused = "not sent by the deadline";
    } else if (slot->connects) { /* for this it stood in line; its greeting is an answer */
      weir_breaker_answered(breaker);
      slot->connected = true;
      weir_slot_end(connection, slot);
      continue;
    } else if ((slot->dialects & 1U << connection->greeting.dialect) == 0) {
      refused = "the server has changed its dialect";
    }
    if (refused == NULL) {
      if (!encode(connection, slot, unix_s, now_us)) break;
      continue;
    }
    bool has_greeted = now_us < slot->deadline_us;
    slot->slow = !has_greeted && breaker->state == WEIR_BREAKER_CLOSED;
    weir_breaker_end(breaker, slot, now_us);
    weir_slot_explain(slot, refused);
    weir_slot_mark(slot, 0);
    weir_slot_end(connection, slot);
    if (has_greeted) weir_breaker_hasten(breaker);
  }
  return connection->out_end - connection->out_start;
}

void weir_stream_accept(weir_connection *connection, size_t amount) {
  connection->accepted += amount;
  connection->out_start += amount;
  if (connection->out_start == connection->out_end) connection->out_start = connection->out_end = 0;
}

/* --- receiving ------------------------------------------------------------------------------- */

void weir_server_leave_further(weir_wire_server *server) {
  for (int i = 1; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_connection *further = &server->connections[i];
    if (further->state == WEIR_CONNECTION_CLOSED) continue;
    further->state = WEIR_CONNECTION_DRAINING;
    further->draining = WEIR_DRAINING_FURTHER;
  }
}

/* A server that refuses to write is left, by all connections; the first time, to find out whether
 * it is one itself, as a server that a resolver names always is. Behind a proxy others are well. */
__attribute__((cold, noinline)) static void meet_refusal_to_write(weir_wire_server *server) {
  weir_connection *first = &server->connections[0];
  if (first->state != WEIR_CONNECTION_READY) return;
  weir_destination_doubt(&server->destination);
  first->greeting.asks_kind = true;
  if (server->destination.resolver != NULL) first->greeting.kind = WEIR_SERVER_ITSELF;
  if (first->greeting.kind == WEIR_SERVER_PROXY) return;
  first->state = WEIR_CONNECTION_DRAINING;
  first->draining =
      first->greeting.kind == WEIR_SERVER_ITSELF ? WEIR_DRAINING_DEMOTED : WEIR_DRAINING_MOVED;
  weir_server_leave_further(server);
}

/* The first connection has answered what was sent after a further one was ready: both lead to the same
 * process, as one that had begun later would have closed the first. */
static void know_further(weir_wire_server *server, uint32_t serial) {
  server->awaits_known = false;
  for (int i = 1; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_connection *further = &server->connections[i];
    if (further->state != WEIR_CONNECTION_READY || further->is_known) continue;
    further->is_known = (int32_t)(serial - further->known_serial) >= 0;
    server->awaits_known |= !further->is_known;
  }
}

/* Takes one reply. False: no whole reply is left, or *broken. */
static bool take_reply(weir_connection *connection, bool *broken) {
  weir_wire_server *server = connection->server;
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
  if (taken > length) {
    connection->skip = taken - length;
    taken = length;
  }
  connection->in_start += taken;
  command->replies++;
  if (command->demoted) meet_refusal_to_write(server);
  if (reading == WEIR_READING_REPLY) return true;

  if (server->awaits_known && connection->number == 0) know_further(server, command->serial);

  /* The command is answered. One that was told as a miss says nothing more of the server, nor does
   * one that is left because it refuses to write. */
  const weir_connection *first = &server->connections[0];
  bool demoted =
      first->state == WEIR_CONNECTION_DRAINING && first->draining == WEIR_DRAINING_DEMOTED;
  if (slot->missed)
    weir_breaker_answered_late(&server->breaker);
  else if (!demoted)
    weir_breaker_answered(&server->breaker);
  if (reading == WEIR_READING_LAST) {
    weir_message_set(&connection->why,
                     "closed after an error, as what follows it cannot be trusted");
    *broken = true;
  }
  slot->answered += 1U + command->shared;
  if (slot->answered == slot->count) weir_slot_end(connection, slot);
  return !*broken;
}

bool weir_stream_decode(weir_connection *connection, size_t amount) {
  bool broken = false;
  connection->in_end += amount;
  if (connection->skip > 0) {
    /* Of a reply that was longer than its codec asked to see, the rest is dropped. */
    size_t have = connection->in_end - connection->in_start;
    size_t drop = connection->skip < have ? (size_t)connection->skip : have;
    connection->skip -= drop;
    connection->in_start += drop;
  }
  while (connection->in_start < connection->in_end && take_reply(connection, &broken))
    ;

  /* What is left of a reply goes to the front, so that the rest has room behind it. */
  size_t rest = connection->in_end - connection->in_start;
  if (rest > 0 && connection->in_start > 0)
    memmove(connection->in, connection->in + connection->in_start, rest);
  connection->in_start = 0;
  connection->in_end = rest;
  return !broken;
}
