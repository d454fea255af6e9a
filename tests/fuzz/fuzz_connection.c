/* Any course of events on two of a server's connections: every slot ends, once, and what its commands'
 * outcomes say of being sent is true of the bytes that went out. The protocol is a small one of this
 * file's own; time, socket and callers are the input's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "wire/connection.h"

enum { SLOTS = 12, COMMANDS = 3, TIMEOUT_US = 20000, STEP_US = 700, HOSTS = 3 };

/* --- the protocol ----------------------------------------------------------------------------- */

/* A letter, one that tells the commands of a connection apart, and a newline. */
static size_t encode(const weir_wire_command *command, int64_t unix_s, char *out) {
  (void)unix_s;
  memcpy(out, "cc\n", 3);
  out[1] = (char)('a' + command->serial % 26);
  return 3;
}

static weir_reading decode(weir_wire_command *command, const char *bytes, size_t length,
                           size_t *taken, weir_message *message) {
  if (length < 2) return WEIR_READING_MORE;
  *taken = 2;
  switch (bytes[0]) {
    case 'r':
      return WEIR_READING_REPLY;
    case 'l':
      command->operation.outcome = WEIR_REFUSED;
      weir_message_set(message, "the last");
      return WEIR_READING_LAST;
    case 'd': /* it refuses to write */
      command->demoted = true;
      command->operation.outcome = WEIR_REFUSED;
      return WEIR_READING_DONE;
    case 's': /* a long reply, of which the rest is skipped */
      *taken = 2 + (unsigned char)bytes[1];
      command->operation.outcome = WEIR_DONE;
      return WEIR_READING_DONE;
    case 'b':
      return WEIR_READING_BROKEN;
    default:
      command->operation.outcome = WEIR_DONE;
      return WEIR_READING_DONE;
  }
}

static weir_greeting_answer greet(weir_greeting *greeting, const char *bytes, size_t length,
                                  bool closed, weir_message *message) {
  if (greeting->step == 0) {
    greeting->step = 1;
    greeting->say_length = 2;
    memcpy(greeting->say, "g\n", 2);
    return WEIR_GREETING_SAY;
  }
  if (length == 0) return WEIR_GREETING_MORE;
  greeting->taken = 1;
  switch (bytes[0]) {
    case 'f':
      weir_message_set(message, "not one for us");
      return WEIR_GREETING_FAILED;
    case 'c':
      return closed ? WEIR_GREETING_FAILED : WEIR_GREETING_RECONNECT;
    case 'm':
      return WEIR_GREETING_MORE;
    case 'g':
      greeting->step = 0;
      return greet(greeting, bytes, length, closed, message);
    default:
      greeting->kind = (weir_server_kind)(bytes[0] % 3);
      greeting->dialect = bytes[0] == 'o';
      return WEIR_GREETING_READY;
  }
}

static const weir_wire_codec codec = {.name = "fuzz", .encode = encode, .decode = decode};
static const weir_wire_codec *const codecs[] = {&codec, &codec};
static const weir_wire_protocol protocol = {.codecs = codecs, .greet = greet};

/* --- the world -------------------------------------------------------------------------------- */

/* The bytes that went out of a slot. */
typedef struct sent {
  bool in_use;
  bool touched[COMMANDS];
  unsigned life[COMMANDS]; /* of the connection by which it went */
} sent;

static weir_wire_server server;
static weir_wire_slot slots[SLOTS];
static weir_wire_command commands[SLOTS][COMMANDS];
static weir_operation operations[SLOTS][COMMANDS];
static sent went[SLOTS];
static weir_connection_ask
    asks[WEIR_WIRE_CONNECTIONS]; /* WAIT: the line has no leader, or it waits */
static unsigned lives[WEIR_WIRE_CONNECTIONS];
static int64_t now_us;

static const uint8_t *input;
static size_t left;

static uint8_t next(void) {
  if (left == 0) return 0;
  left--;
  return *input++;
}

static void end(weir_wire_slot *slot) {
  sent *of = &went[slot - slots];
  require(of->in_use);
  for (size_t i = 0; i < slot->count && slot->state != WEIR_SLOT_ABANDONED; i++) {
    weir_outcome outcome = slot->commands[i].operation.outcome;
    require(outcome != WEIR_PENDING);
    require((outcome == WEIR_NOT_SENT) == !of->touched[i]);
  }
  of->in_use = false;
}

/* As line.c does after each step. */
static void tidy(weir_connection *connection) {
  for (weir_wire_slot *slot; (slot = connection->left) != NULL;) {
    connection->left = slot->next;
    if (slot->state == WEIR_SLOT_QUEUED) {
      require(connection->number > 0 && !went[slot - slots].touched[0]);
      weir_line_append(&server.connections[0], slot);
    } else {
      require(slot->state == WEIR_SLOT_DONE || slot->state == WEIR_SLOT_ABANDONED);
      end(slot);
    }
  }
}

/* The kernel has taken bytes: of which commands? None goes out by two connections. */
static void note_accepted(const weir_connection *connection) {
  for (weir_wire_slot *slot = connection->first; slot != NULL; slot = slot->next) {
    sent *of = &went[slot - slots];
    for (size_t i = slot->answered; i < slot->encoded; i++) {
      if (slot->commands[i].start >= connection->accepted) continue;
      require(!of->touched[i] || of->life[i] == lives[connection->number]);
      of->touched[i] = true;
      of->life[i] = lives[connection->number];
    }
  }
}

static void check(const weir_connection *connection) {
  size_t abandoned = 0;
  require(connection->left == NULL);
  require(connection->out_start <= connection->out_end &&
          connection->out_end <= sizeof connection->out);
  require(connection->in_start <= connection->in_end &&
          connection->in_end <= sizeof connection->in);
  for (const weir_wire_slot *slot = connection->first; slot != NULL; slot = slot->next) {
    require(went[slot - slots].in_use && slot->connection == connection);
    require(slot->answered <= slot->encoded && slot->encoded <= slot->count);
    require((slot->state == WEIR_SLOT_QUEUED) == (slot->encoded == 0));
    require(slot->next != NULL || connection->last == slot);
    abandoned += slot->state == WEIR_SLOT_ABANDONED;
  }
  require(abandoned == connection->abandoned);
  /* A further connection's slots that it cannot send go by the first. */
  if (connection->number > 0 && connection->state == WEIR_CONNECTION_CLOSED)
    require(connection->first == NULL);
}

static void step(weir_connection *connection, const weir_event *event) {
  weir_connection_state before = connection->state;
  asks[connection->number] = weir_connection_step(connection, event, now_us);
  if (connection->state == WEIR_CONNECTION_CLOSED && before != WEIR_CONNECTION_CLOSED)
    lives[connection->number]++;
  tidy(connection);
  check(&server.connections[0]);
  check(&server.connections[1]);
  weir_connection_ask ask = asks[connection->number];
  if (ask == WEIR_ASK_SEND) require(connection->out_start < connection->out_end);
  if (ask == WEIR_ASK_RECEIVE) require(connection->in_end < sizeof connection->in);
  if (ask == WEIR_ASK_LOOK_UP) require(connection->state == WEIR_CONNECTION_CLOSED);
  if (ask == WEIR_ASK_CONNECT) require(connection->state == WEIR_CONNECTION_CONNECTING);
  if (ask == WEIR_ASK_SHAKE) require(connection->state == WEIR_CONNECTION_SECURING);
  if (ask == WEIR_ASK_WAIT && connection->state == WEIR_CONNECTION_READY)
    require(connection->wait_until_us >= 0);
}

/* --- what happens ----------------------------------------------------------------------------- */

static void submit(uint8_t how) {
  weir_connection *connection = &server.connections[how & 1];
  size_t at = 0;
  while (at < SLOTS && went[at].in_use)
    at++;
  if (at == SLOTS || (connection->number > 0 && connection->state != WEIR_CONNECTION_READY)) return;
  weir_wire_slot *slot = &slots[at];
  *slot = (weir_wire_slot){.commands = commands[at],
                           .count = how >> 1 & 3,
                           .connects = (how >> 1 & 3) == 0,
                           .dialects = how >> 3 & 3,
                           .deadline_us = now_us + (how >> 5) * INT64_C(4000)};
  for (size_t i = 0; i < slot->count; i++) {
    operations[at][i] = (weir_operation){.kind = WEIR_ADD};
    commands[at][i] = (weir_wire_command){.operation = {.kind = WEIR_ADD, .outcome = WEIR_PENDING},
                                          .caller = &operations[at][i]};
  }
  went[at] = (sent){.in_use = true};
  weir_line_append(connection, slot);
}

/* Its caller leaves, as line.c lets it. */
static void abandon(uint8_t which) {
  weir_wire_slot *slot = &slots[which % SLOTS];
  weir_connection *connection = slot->connection;
  if (!went[slot - slots].in_use || slot->state == WEIR_SLOT_ABANDONED) return;
  bool unsent = slot->encoded == 0;
  weir_slot_become(slot, WEIR_SLOT_ABANDONED);
  connection->abandoned++;
  if (unsent) weir_breaker_end(&server.breaker, slot, now_us);
  if (weir_connection_has_miss(connection, now_us)) weir_connection_tell_misses(connection, now_us);
  weir_slot_mark(slot, UINT64_MAX);
  for (size_t i = slot->encoded; i < slot->count; i++)
    require(!went[slot - slots].touched[i]);
  slot->count = slot->encoded;
  if (connection->unsent == slot) connection->unsent = slot->next;
  if (slot->answered == slot->count) weir_slot_end(connection, slot);
  tidy(connection);
}

/* The socket answers what it was asked. */
static void perform(weir_connection *connection, uint8_t how) {
  weir_event event = {.kind = WEIR_EVENT_FAILED,
                      .error = ECONNRESET,
                      .sending = asks[connection->number] == WEIR_ASK_SEND,
                      .fault = how & 8 ? "TLS" : ""};
  size_t room = sizeof connection->in - connection->in_end;
  bool well = (how & 7) != 0;
  switch (asks[connection->number]) {
    case WEIR_ASK_NOTHING:
      event.kind = connection->number > 0 && how & 1 ? WEIR_EVENT_OPEN : WEIR_EVENT_LOOK;
      if (event.kind == WEIR_EVENT_OPEN && connection->state != WEIR_CONNECTION_CLOSED) return;
      if (event.kind == WEIR_EVENT_OPEN && server.connections[0].state != WEIR_CONNECTION_READY)
        return;
      break;
    case WEIR_ASK_WAIT:
      now_us += (how >> 4) * STEP_US;
      event.kind = how & 1 ? WEIR_EVENT_SOCKET : how & 2 ? WEIR_EVENT_TIME : WEIR_EVENT_LOOK;
      event.readable = how & 4;
      if (connection->state == WEIR_CONNECTION_CLOSED) event.kind = WEIR_EVENT_LOOK;
      break;
    case WEIR_ASK_LOOK_UP:
      event.kind = WEIR_EVENT_LOOKED_UP;
      if (!well) weir_server_move(&server);
      break;
    case WEIR_ASK_CONNECT:
      event.error = how & 8 ? ECONNREFUSED : EHOSTUNREACH;
      event.fault = "";
      if (well) event.kind = how & 16 ? WEIR_EVENT_CONNECTED : WEIR_EVENT_CONNECTING;
      break;
    case WEIR_ASK_SHAKE:
      if (well) event.kind = how & 8 ? WEIR_EVENT_SHAKEN : WEIR_EVENT_SHAKING;
      break;
    case WEIR_ASK_SEND:
      if (!well) break;
      event.kind = WEIR_EVENT_SENT;
      event.amount = connection->out_end - connection->out_start;
      if (how & 8) event.amount = (size_t)(how >> 4) % (event.amount + 1);
      break;
    case WEIR_ASK_RECEIVE:
      if (!well && how & 16) event.kind = WEIR_EVENT_HUNG_UP;
      if (!well) break;
      event.kind = WEIR_EVENT_RECEIVED;
      event.amount = (size_t)(how >> 3);
      if (event.amount > left) event.amount = left;
      if (event.amount > room) event.amount = room;
      memcpy(connection->in + connection->in_end, input, event.amount);
      input += event.amount;
      left -= event.amount;
      event.more = server.secure && how & 1 && event.amount > 0;
      break;
  }
  /* Bytes that are sent are noted before the machine may forget the connection. */
  if (event.kind == WEIR_EVENT_SENT && weir_connection_is_open(connection)) {
    weir_connection *of = connection;
    uint64_t accepted = of->accepted;
    of->accepted += event.amount;
    note_accepted(of);
    of->accepted = accepted;
  }
  step(connection, &event);
}

/* A follower sends while the leader waits. */
static void send_beside(weir_connection *connection, uint8_t how) {
  if (asks[connection->number] != WEIR_ASK_WAIT || !weir_connection_is_open(connection)) return;
  size_t length = weir_stream_fill(connection, 0, now_us);
  tidy(connection);
  if (length == 0) return;
  weir_stream_accept(connection, how % (length + 1));
  note_accepted(connection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static weir_address list[HOSTS];
  input = data;
  left = size;
  now_us = 1000000;
  memset(&server, 0, sizeof server);
  memset(went, 0, sizeof went);
  memset(lives, 0, sizeof lives);
  memset(asks, 0, sizeof asks);
  uint8_t options = next();
  server.protocol = &protocol;
  server.timeout_us = TIMEOUT_US;
  server.connect_us = TIMEOUT_US;
  server.secure = options & 1;
  server.one_at_a_time = options & 2;
  server.destination.any_address = options & 4;
  server.destination.addresses = (weir_addresses){list, 1 + (options >> 3) % HOSTS};
  server.destination.lookup_at_us = INT64_MAX;
  atomic_init(&server.dialect, -1);
  weir_breaker_init(&server.breaker, TIMEOUT_US, 2 * TIMEOUT_US, 1);
  for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++) {
    server.connections[i].server = &server;
    server.connections[i].number = (uint8_t)i;
  }
  while (left > 0) {
    uint8_t what = next();
    uint8_t how = next();
    weir_connection *connection = &server.connections[(what >> 3) % WEIR_WIRE_CONNECTIONS];
    switch (what & 7) {
      case 0:
        submit(how);
        break;
      case 1:
        abandon(how);
        break;
      case 2:
        send_beside(connection, how);
        break;
      case 3:
        now_us += how * (int64_t)STEP_US;
        break;
      default:
        perform(connection, how);
    }
  }
  /* Everything fails from here on: what is left of the slots ends. */
  for (int i = 0; i < SLOTS; i++)
    if (went[i].in_use) abandon((uint8_t)i);
  for (int turn = 0; turn < 128; turn++) {
    now_us += 4 * (int64_t)TIMEOUT_US;
    perform(&server.connections[turn % WEIR_WIRE_CONNECTIONS], 0);
  }
  for (int i = 0; i < SLOTS; i++)
    require(!went[i].in_use);
  return 0;
}
