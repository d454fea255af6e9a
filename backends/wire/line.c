/* One thread works each connection of a wire. This file decides which one, and lets the others wait as
 * waiting.h says. All that has to do with the lock and the slots' memory is here; connection.c says what
 * is to be done, and line_perform() does it.
 *
 * Over 600 lines, as all of it rests on one lock: that no wake-up is lost, and nothing is touched that
 * another thread works on, shows only where those who take the lock and let it go stand side by side. */
#include "wire/line.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "array.h"
#include "condition.h"
#include "wire/socket.h"
#include "wire/waiting.h"

enum { POLL_MOST_MS = 60000 };

/* While a connection is made, nobody waits for a server that has kept silent for so many timeouts. */
enum { SILENT_TIMEOUTS = 3 };

/* A pooled slot with room for more commands gives its memory back. */
enum { COMMANDS_KEPT = 4096 };

/* The least time between two looks at a further connection that is on its way. */
enum { LOOK_US = 200 };

/* A thread leaves its connection when that was busy, and another free, so often in a row. */
enum { MET_MOST = 32 };

/* --- the memory of slots --------------------------------------------------------------------- */

static weir_wire_slot *slot_new(void) {
  weir_wire_slot *slot = calloc(1, sizeof *slot);
  if (slot == NULL) return NULL;
  if (weir_condition_init(&slot->wake)) return slot;
  free(slot);
  return NULL;
}

weir_wire_slot *weir_wire_slot_take(weir_wire *wire) {
  weir_wire_slot *slot = atomic_exchange_explicit(&wire->spare, NULL, memory_order_acquire);
  if (slot == NULL) {
    pthread_mutex_lock(&wire->lock);
    slot = wire->pool;
    if (slot != NULL) {
      wire->pool = slot->next;
    } else if (wire->slot_count < WEIR_WIRE_SLOTS_MOST && (slot = slot_new()) != NULL) {
      wire->slot_count++;
    }
    pthread_mutex_unlock(&wire->lock);
    if (slot == NULL) return NULL;
  }
  slot->connection = &wire->server.connections[0];
  slot->count = slot->encoded = slot->answered = slot->keys_length = 0;
  slot->connects = slot->connected = slot->moved = slot->missed = slot->late = slot->slow = false;
  slot->message.text[0] = '\0';
  return slot;
}

static void give(weir_wire *wire, weir_wire_slot *slot) {
  if (slot->room > COMMANDS_KEPT) {
    free(slot->commands);
    free(slot->keys);
    slot->commands = NULL;
    slot->keys = NULL;
    slot->room = slot->keys_room = 0;
  }
  weir_slot_become(slot, WEIR_SLOT_POOLED);
  if (atomic_load_explicit(&wire->spare, memory_order_relaxed) == NULL) {
    atomic_store_explicit(&wire->spare, slot, memory_order_release);
    return;
  }
  slot->next = wire->pool;
  wire->pool = slot;
}

bool weir_wire_slot_add(weir_wire_slot *slot, weir_operation *operation, uint8_t attempt) {
  size_t keys_length = slot->keys_length + operation->key_length;
  /* Both double, so that a pooled slot settles. */
  if (!weir_array_grow(&slot->commands, &slot->room, slot->count + 1, sizeof *slot->commands) ||
      !weir_array_grow(&slot->keys, &slot->keys_room, keys_length, 1))
    return false;
  weir_wire_command *command = &slot->commands[slot->count++];
  memcpy(&command->operation, operation, offsetof(weir_operation, counter));
  command->operation.outcome = WEIR_PENDING;
  command->caller = operation;
  memset(command->notes, 0, sizeof command->notes);
  command->kept = NULL;
  command->attempt = attempt;
  command->replies = command->followers = 0;
  command->follows = false;
  memcpy(slot->keys + slot->keys_length, operation->key, operation->key_length);
  slot->keys_length = keys_length;
  return true;
}

void weir_wire_slot_keep_notes(weir_wire_slot *slot, void *notes) {
  weir_wire_command *command = &slot->commands[slot->count - 1];
  memcpy(command->notes, notes, sizeof command->notes);
  command->kept = notes;
}

void weir_wire_slot_join(weir_wire_slot *slot, size_t before) {
  slot->commands[slot->count - 1].follows = true;
  slot->commands[slot->count - 1 - before].followers = (uint8_t)before;
}

/* Keeps what the server said, for those who look after it: with no key in it, which is what a client sent. In
 * keys there are no spaces, so `key "` and the next `" ` or `": ` are around one. */
static void note_refusal(weir_wire_server *server, const char *text) {
  char *room = server->refusal.text;
  const char *quote = strstr(text, "key \"");
  const char *end = quote != NULL ? quote + 5 : NULL;
  server->refusals++;
  while (end != NULL && (end = strchr(end, '"')) != NULL && end[1] != ' ' &&
         (end[1] != ':' || end[2] != ' '))
    end++;
  if (end == NULL)
    snprintf(room, sizeof server->refusal.text, "%s", quote == NULL ? text : "");
  else
    snprintf(room, sizeof server->refusal.text, "%.*sa key%s", (int)(quote - text), text, end + 1);
}

/* Copies the results to the callers' operations; whether one of them needs explaining. */
static bool collect(weir_wire *wire, const weir_wire_slot *slot, weir_message *message) {
  bool failed = slot->connects && !slot->connected;
  bool refused = false;
  for (size_t i = 0; i < slot->count; i++) {
    const weir_wire_command *command = &slot->commands[i];
    const weir_operation *result = &command->operation;
    weir_operation *caller = command->caller;
    bool in_vain = result->outcome >= WEIR_NOT_SENT && result->outcome <= WEIR_REFUSED;
    caller->outcome = result->outcome;
    caller->value = result->value;
    caller->version_out = result->version_out;
    caller->late = slot->late && in_vain;
    caller->slow = slot->slow && in_vain;
    if (command->kept != NULL) memcpy(command->kept, command->notes, sizeof command->notes);
    failed |= in_vain;
    refused |= result->outcome == WEIR_REFUSED;
  }
  if (refused) note_refusal(&wire->server, slot->message.text);
  if (failed) weir_message_set(message, "%s: %s", wire->name, slot->message.text);
  return failed;
}

static weir_wire_line *line_of(weir_wire *wire, const weir_wire_slot *slot) {
  return &wire->lines[slot->connection->number];
}

static void line_work(weir_wire_line *line, weir_worker worker) {
  atomic_store_explicit(&line->worker, worker, memory_order_release);
}

/* --- letting the lock go --------------------------------------------------------------------- */

/* There is news for the thread that sleeps on this slot. It is told when the lock is free: a thread
 * that is woken under the lock would only wait for it. */
static void rouse(weir_wire *wire, weir_wire_slot *slot) {
  if (wire->woken_count < WEIR_WIRE_WOKEN_MOST)
    wire->woken[wire->woken_count++] = slot;
  else
    pthread_cond_signal(&slot->wake);
}

/* Gives the lock back, then wakes the threads whose slots have news. Slots are not freed while the wire
 * is open; a thread that got one of these meanwhile wakes once for nothing. */
static void unlock(weir_wire *wire) {
  weir_wire_slot *woken[WEIR_WIRE_WOKEN_MOST];
  size_t count = wire->woken_count;
  if (count > 0) memcpy(woken, wire->woken, count * sizeof woken[0]);
  wire->woken_count = 0;
  pthread_mutex_unlock(&wire->lock);
  for (size_t i = 0; i < count; i++)
    pthread_cond_signal(&woken[i]->wake);
}

/* Takes the slots that have left the line, and closes the socket of a connection that is closed. */
static void tidy(weir_wire_line *line) {
  weir_wire *wire = line->wire;
  weir_connection *connection = line->connection;
  for (weir_wire_slot *slot; (slot = connection->left) != NULL;) {
    connection->left = slot->next;
    if (slot->state == WEIR_SLOT_ABANDONED) {
      give(wire, slot);
      continue;
    }
    if (slot->state == WEIR_SLOT_QUEUED) /* of a further one: it goes by the first */
      weir_line_append(&wire->server.connections[0], slot);
    else
      line->done++;
    if (slot->waiter == WEIR_WAITER_ASLEEP) rouse(wire, slot);
  }
  if (connection->state != WEIR_CONNECTION_CLOSED || line->fd < 0) return;
  weir_tls_session_end(line->session);
  line->session = NULL;
  close(line->fd);
  line->fd = -1;
}

static struct pollfd poll_of(const weir_wire_line *line) {
  const weir_connection *connection = line->connection;
  struct pollfd socket = {.fd = line->fd, .events = POLLIN};
  bool sends = weir_connection_is_open(connection) && weir_stream_has_to_send(connection);
  if (connection->state == WEIR_CONNECTION_CONNECTING) {
    socket.events = POLLOUT;
  } else if (line->session != NULL) {
    socket.events = weir_tls_session_events(line->session, sends);
  } else if (sends) {
    socket.events = POLLIN | POLLOUT;
  }
  return socket;
}

/* Whether the socket has anything to report just now. */
static bool reports(const weir_wire_line *line) {
  struct pollfd socket = poll_of(line);
  return poll(&socket, 1, 0) > 0;
}

/* Takes in what a look-up has found. Not while another thread works the first connection. */
static void follow_name(weir_wire *wire, int64_t now_us) {
  weir_wire_server *server = &wire->server;
  weir_destination_news news = weir_destination_follow(
      &server->destination, server->connections[0].state != WEIR_CONNECTION_CLOSED, now_us);
  if (news != WEIR_DESTINATION_SAME) weir_breaker_hasten(&server->breaker);
  if (news != WEIR_DESTINATION_ELSEWHERE) return;
  weir_server_move(server);
  tidy(&wire->lines[0]);
}

static ssize_t put(weir_wire_line *line, const char *bytes, size_t length) {
  if (line->session == NULL) return weir_socket_send(line->fd, bytes, length);
  return weir_tls_session_send(line->session, bytes, length);
}

/* Receives as weir_socket_receive() does. Where the thread tries before it waits, that may be all. */
static ssize_t get(weir_wire_line *line, char *bytes, size_t room, bool waits) {
  if (line->session != NULL) return weir_tls_session_receive(line->session, bytes, room);
  if (waits && line->tries) {
    ssize_t got = weir_socket_try(line->fd, bytes, room, weir_waiting.near_us, &line->yield_us);
    if (got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return got;
  }
  return weir_socket_receive(line->fd, bytes, room, waits);
}

/* Sends what is to be sent; how much went is in *moved. Returns whether the leader goes on to receive,
 * without the lock in between: where it is to listen, all has gone, and no follower has come meanwhile.
 * One that comes later sends by itself. */
static bool send_out(weir_wire_line *line, bool listens, ssize_t *moved) {
  const weir_connection *connection = line->connection;
  size_t length = connection->out_end - connection->out_start;
  weir_worker worker = WEIR_WORKER_SENDING;
  *moved = put(line, connection->out + connection->out_start, length);
  if (!listens || *moved != (ssize_t)length) return false;
  line->sent = length;
  if (atomic_compare_exchange_strong_explicit(&line->worker, &worker, WEIR_WORKER_LISTENING,
                                              memory_order_release, memory_order_relaxed))
    return true;
  line->sent = 0;
  return false;
}

/* Tells the stream what went before its leader listened. The lock is held. */
static void take_sent(weir_wire_line *line) {
  if (line->sent == 0) return;
  weir_stream_accept(line->connection, line->sent);
  line->sent = 0;
}

/* Does what is asked as far as that is little enough to hold the lock. Whether more is to be done. */
static bool begin(weir_wire_line *line, weir_connection_ask ask, int64_t now_us,
                  weir_event *event) {
  weir_wire *wire = line->wire;
  weir_destination *destination = &wire->server.destination;
  if (ask == WEIR_ASK_LOOK_UP) {
    follow_name(wire, now_us);
    event->kind = WEIR_EVENT_LOOKED_UP;
    return false;
  }
  if (ask == WEIR_ASK_CONNECT) {
    bool begun = line->fd >= 0;
    event->error =
        begun ? weir_socket_finish(line->fd)
              : weir_socket_connect(&destination->addresses.list[destination->trying], &line->fd);
    if (begun && event->error == 0) event->kind = WEIR_EVENT_CONNECTED;
    if (!begun && (event->error == 0 || event->error == EINPROGRESS))
      event->kind = WEIR_EVENT_CONNECTING;
    return false;
  }
  if (ask == WEIR_ASK_SHAKE && line->session == NULL) {
    line->session = weir_tls_session_start(wire->tls, destination->asked.host, line->fd);
    if (line->session == NULL) {
      event->fault = "no memory for TLS";
      return false;
    }
  }
  return true;
}

/* What a look at the socket found. */
static void tell_look(const weir_wire_line *line, ssize_t moved, short revents, weir_event *event) {
  bool unread = line->connection->unread;
  event->kind = moved > 0 || unread ? WEIR_EVENT_SOCKET : WEIR_EVENT_TIME;
  /* TLS may have waited to write before it could read. */
  event->readable = unread || line->session != NULL || (moved > 0 && (revents & ~POLLOUT) != 0);
  event->unix_s = (int64_t)time(NULL);
}

/* How much was sent or received. A receive that waits may end with EINTR; one of no bytes says that the
 * server hung up. */
static void tell_moved(const weir_wire_line *line, bool receives, ssize_t moved,
                       weir_event *event) {
  bool blocked = moved < 0 && (event->error == EAGAIN || event->error == EWOULDBLOCK ||
                               (event->error == EINTR && receives));
  if (blocked || moved > 0 || (moved == 0 && !receives)) {
    event->kind = receives ? WEIR_EVENT_RECEIVED : WEIR_EVENT_SENT;
    event->amount = blocked ? 0 : (size_t)moved;
    if (receives)
      event->more = !blocked && line->session != NULL && weir_tls_session_holds(line->session);
  } else {
    event->sending = !receives;
    if (moved == 0) event->kind = WEIR_EVENT_HUNG_UP;
    if (line->session != NULL) event->fault = weir_tls_session_fault(line->session);
  }
}

/* Tells what came of it: `moved` as the system call returned it, with its errno in event->error. */
static void tell(const weir_wire_line *line, weir_connection_ask ask, ssize_t moved, short revents,
                 weir_tls_hands hands, weir_event *event) {
  if (ask == WEIR_ASK_WAIT) {
    tell_look(line, moved, revents, event);
  } else if (ask == WEIR_ASK_SHAKE) {
    if (hands != WEIR_TLS_REFUSED)
      event->kind = hands == WEIR_TLS_SHAKEN ? WEIR_EVENT_SHAKEN : WEIR_EVENT_SHAKING;
    event->fault = line->fault.text;
  } else {
    tell_moved(line, ask == WEIR_ASK_RECEIVE, moved, event);
  }
}

/* Waits for the socket, as poll() does; or where there is none yet for the resolver, which decides where to. */
static int line_wait(const weir_wire_line *line, weir_lookup *lookup, struct pollfd *socket,
                     int64_t now_us, int64_t until_us) {
  if (line->fd >= 0) {
    bool at_once = until_us <= now_us || line->connection->unread;
    /* Whole ones rounded up, as poll wants them. */
    int64_t wait_ms = at_once ? 0 : (until_us - now_us + 999) / 1000;
    return poll(socket, 1, wait_ms > POLL_MOST_MS ? POLL_MOST_MS : (int)wait_ms);
  }
  if (lookup != NULL) weir_lookup_await(lookup, until_us);
  return 0;
}

/* Does what the connection asks for, and tells what came of it. It waits until `until_us` if it is
 * to wait, and a little, in place of a wait before it, if it is to receive and `until_us` is not
 * `now_us`; if it is to send, it may receive like that as well, and tells of that alone. This is the
 * one place where a leader lets the lock go: while it does, it alone touches the socket, but for a
 * follower that sends while it waits. */
static void line_perform(weir_wire_line *line, weir_connection_ask ask, int64_t now_us,
                         int64_t until_us, weir_event *event) {
  static const weir_worker workers[] = {[WEIR_ASK_WAIT] = WEIR_WORKER_POLLING,
                                        [WEIR_ASK_SHAKE] = WEIR_WORKER_SHAKING,
                                        [WEIR_ASK_SEND] = WEIR_WORKER_SENDING,
                                        [WEIR_ASK_RECEIVE] = WEIR_WORKER_RECEIVING};
  weir_wire *wire = line->wire;
  weir_connection *connection = line->connection;
  weir_lookup *lookup = wire->server.destination.lookup;
  bool listens = ask >= WEIR_ASK_SEND && until_us > now_us;
  struct pollfd socket = {.revents = 0};
  weir_tls_hands hands = WEIR_TLS_REFUSED;
  ssize_t moved = 0;
  event->kind = WEIR_EVENT_FAILED;
  event->fault = "";

  if (!begin(line, ask, now_us, event)) return;
  if (ask == WEIR_ASK_WAIT) socket = poll_of(line);

  /* The lock is let go. */
  line_work(line, listens && ask == WEIR_ASK_RECEIVE ? WEIR_WORKER_LISTENING : workers[ask]);
  unlock(wire);
  if (ask == WEIR_ASK_SEND && send_out(line, listens, &moved)) ask = WEIR_ASK_RECEIVE;
  if (ask == WEIR_ASK_RECEIVE) {
    moved = get(line, connection->in + connection->in_end,
                sizeof connection->in - connection->in_end, listens);
  } else if (ask == WEIR_ASK_SHAKE) {
    weir_message_set(&line->fault, "%s", WEIR_WIRE_NO_HANDSHAKE);
    hands = weir_tls_session_shake(line->session, &line->fault);
  } else if (ask == WEIR_ASK_WAIT) {
    moved = line_wait(line, lookup, &socket, now_us, until_us);
  }
  event->error = moved < 0 || ask == WEIR_ASK_SHAKE ? errno : 0;
  pthread_mutex_lock(&wire->lock);
  while (line->beside)
    pthread_cond_wait(&wire->sent, &wire->lock);
  take_sent(line);
  line_work(line, WEIR_WORKER_STEPPING);
  tell(line, ask, moved, socket.revents, hands, event);
}

/* --- leading --------------------------------------------------------------------------------- */

/* The thread is the leader from here on; what it begins with is told by `event`. */
static void start_leading(weir_wire_line *line, int64_t now_us, weir_event *event) {
  weir_wire *wire = line->wire;
  const weir_destination *destination = &wire->server.destination;
  bool may_follow = line == &wire->lines[0] || wire->lines[0].worker == WEIR_WORKER_NONE;
  line_work(line, WEIR_WORKER_STEPPING);
  if (may_follow && (destination->lookup != NULL || now_us >= destination->lookup_at_us))
    follow_name(wire, now_us);
  event->kind = WEIR_EVENT_LOOK;
  event->unix_s = (int64_t)time(NULL);
}

/* With no leader, lets the first who sleeps in line know, unless one who is awake will see. */
static void wake_next(weir_wire_line *line) {
  weir_wire_slot *sleeper = NULL;
  for (weir_wire_slot *slot = line->connection->first; slot != NULL; slot = slot->next) {
    if (slot->waiter == WEIR_WAITER_AWAKE) return;
    if (slot->waiter == WEIR_WAITER_ASLEEP && sleeper == NULL) sleeper = slot;
  }
  if (sleeper != NULL) rouse(line->wire, sleeper);
}

/* Does all that can be done without waiting; with `looks`, also what the socket reports just now. */
static void come_by(weir_wire_line *line, weir_event_kind kind, bool looks, int64_t now_us) {
  weir_event event;
  bool polled = false;
  start_leading(line, now_us, &event);
  event.kind = kind;
  for (;;) {
    weir_connection_ask ask = weir_connection_step(line->connection, &event, now_us);
    tidy(line);
    if (ask == WEIR_ASK_NOTHING) break;
    if (ask == WEIR_ASK_WAIT) {
      looks |= line->connection->wait_until_us <= now_us;
      if (line->fd < 0 || polled || !looks) break;
      polled = true;
    }
    line_perform(line, ask, now_us, now_us, &event);
  }
  line_work(line, WEIR_WORKER_NONE);
  wake_next(line);
}

/* The first has been worked: those that are left with it, and have nothing in line, are closed. */
static void leave_further(weir_wire *wire, int64_t now_us) {
  for (int i = 1; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_wire_line *further = &wire->lines[i];
    if (further->connection->state == WEIR_CONNECTION_DRAINING &&
        further->worker == WEIR_WORKER_NONE)
      come_by(further, WEIR_EVENT_LOOK, false, now_us);
  }
}

/* Two threads on one connection wake one another for each decision, across processors, which costs
 * more than what they save by sending together (docs/performance.md). So a further one is made on the
 * side, by threads that wait for something else, once a thread found its connection busy. */
static void push_further(weir_wire *wire, int64_t now_us) {
  weir_wire_server *server = &wire->server;
  int number = 1;
  while (number < WEIR_WIRE_CONNECTIONS &&
         server->connections[number].state == WEIR_CONNECTION_READY)
    number++;
  if (number == WEIR_WIRE_CONNECTIONS) server->wants_further = false;
  if (number == WEIR_WIRE_CONNECTIONS || now_us < server->further_at_us ||
      server->connections[0].state != WEIR_CONNECTION_READY)
    return;
  weir_wire_line *line = &wire->lines[number];
  bool closed = line->connection->state == WEIR_CONNECTION_CLOSED;
  if (line->worker != WEIR_WORKER_NONE) return;
  server->wants_further = false;
  server->further_at_us = now_us + LOOK_US;
  come_by(line, closed ? WEIR_EVENT_OPEN : WEIR_EVENT_LOOK, !closed, now_us);
}

static void judge_tries(weir_wire_line *line) {
  if (line->yield_us < 0) return; /* it had no need to yield */
  bool lost = line->yield_us > weir_waiting.lost_us;
  if (lost && line->lost) weir_pressure_feel(&line->wire->watched, weir_monotonic_us());
  line->lost = lost;
}

/* A thread that leads, from its first step to its last. */
typedef struct leader {
  weir_wire_line *line;
  const weir_wire_slot *slot;
  int64_t end_us, now_us;
  int64_t until_us; /* how long the next step may take; now_us: it does not wait */
  int waits;        /* so many steps have waited */
  weir_event event; /* of the last step */
} leader;

/* Nothing can be done without waiting: plans how to wait. WEIR_ASK_NOTHING: the leader is done. */
static weir_connection_ask plan_wait(leader *me) {
  const weir_wire_line *line = me->line;
  const weir_connection *connection = line->connection;
  if (me->slot->state == WEIR_SLOT_DONE || me->slot->connection != connection)
    return WEIR_ASK_NOTHING;
  if (me->waits > 0) me->now_us = weir_monotonic_us();
  if (me->now_us >= me->end_us) return WEIR_ASK_NOTHING;
  me->until_us = connection->wait_until_us < me->end_us ? connection->wait_until_us : me->end_us;
  bool comes = line->tries && me->event.kind == WEIR_EVENT_RECEIVED && me->event.amount > 0;
  bool receives = (me->waits++ == 0 || comes) &&
                  weir_how_to_wait(line, me->slot, me->until_us - me->now_us).listens &&
                  weir_connection_is_open(connection) && !weir_stream_has_to_send(connection);
  return receives ? WEIR_ASK_RECEIVE : WEIR_ASK_WAIT;
}

/* Whether the leader sends and listens in one go: its slot is alone in line, so nothing else is due
 * before its deadline. */
static bool goes_on(const leader *me) {
  const weir_connection *connection = me->line->connection;
  return me->waits == 0 && weir_how_to_wait(me->line, me->slot, me->end_us - me->now_us).listens &&
         connection->first == me->slot && me->slot->next == NULL && connection->unsent == NULL &&
         connection->state == WEIR_CONNECTION_READY;
}

/* Counts who led while others waited: the figures say whether some starve. */
static void count_leading(weir_wire_line *line, int64_t led_us, uint64_t served) {
  weir_wire_leading *leading = &line->leading;
  int bin = served > 0 ? 64 - __builtin_clzll(served) : 0;
  leading->times++;
  leading->bins[bin < WEIR_WIRE_LEADING_BINS ? bin : WEIR_WIRE_LEADING_BINS - 1]++;
  leading->led_us += led_us;
  leading->served += served;
  if (led_us > leading->longest_us) leading->longest_us = led_us;
  if (served > leading->most) leading->most = served;
}

/* Works the connection until the slot is done or the time is over. */
static void lead(weir_wire_line *line, const weir_wire_slot *slot, int64_t end_us, int64_t now_us) {
  weir_wire *wire = line->wire;
  weir_connection *connection = line->connection;
  uint64_t done = line->done;
  leader me = {.line = line, .slot = slot, .end_us = end_us, .now_us = now_us};
  line->tries = false;
  start_leading(line, now_us, &me.event);
  for (;;) {
    weir_connection_ask ask = weir_connection_step(connection, &me.event, me.now_us);
    bool both = false;
    me.until_us = me.now_us;
    if (connection->left != NULL || connection->state == WEIR_CONNECTION_CLOSED) tidy(line);
    if (ask == WEIR_ASK_WAIT || ask == WEIR_ASK_NOTHING) {
      ask = plan_wait(&me);
      if (ask == WEIR_ASK_NOTHING) break;
    } else if (ask == WEIR_ASK_SEND && goes_on(&me)) {
      both = true;
      me.until_us = end_us;
    }
    line->tries =
        ask >= WEIR_ASK_SEND && weir_how_to_wait(line, slot, me.until_us - me.now_us).tries;
    line->yield_us = -1;
    line_perform(line, ask, me.now_us, me.until_us, &me.event);
    me.waits += both && me.event.kind != WEIR_EVENT_SENT;
    if (ask != WEIR_ASK_SEND && ask != WEIR_ASK_RECEIVE) me.now_us = weir_monotonic_us();
    if (line->tries) judge_tries(line);
  }
  line_work(line, WEIR_WORKER_NONE);
  if (line == &wire->lines[0]) leave_further(wire, me.now_us);
  if (line->waiting >= 2)
    count_leading(line, weir_monotonic_us() - now_us,
                  line->done - done - (slot->state == WEIR_SLOT_DONE));
}

/* --- following ------------------------------------------------------------------------------- */

/* While the leader waits for the socket, what is queued must not wait for replies to others. A
 * failure is the leader's to find; its wait for the socket ends then. */
static void send_beside(weir_wire_line *line, int64_t now_us) {
  weir_wire *wire = line->wire;
  weir_connection *connection = line->connection;
  int64_t unix_s = (int64_t)time(NULL);
  weir_worker worker = WEIR_WORKER_SENDING;
  if (atomic_compare_exchange_strong_explicit(&line->worker, &worker, WEIR_WORKER_CALLED,
                                              memory_order_acquire, memory_order_acquire))
    return; /* the leader comes back before it waits */
  bool rests = worker == WEIR_WORKER_POLLING || worker == WEIR_WORKER_LISTENING;
  if (!rests || line->beside || !weir_connection_is_open(connection)) return;
  take_sent(line);
  line->beside = true;
  for (int turn = 0; turn < WEIR_WIRE_TURNS && weir_stream_has_to_send(connection); turn++) {
    size_t length = weir_stream_fill(connection, unix_s, now_us);
    tidy(line);
    if (length == 0) break;
    unlock(wire);
    ssize_t sent = put(line, connection->out + connection->out_start, length);
    pthread_mutex_lock(&wire->lock);
    if (sent < 0) break;
    weir_stream_accept(connection, (size_t)sent);
  }
  line->beside = false;
  pthread_cond_broadcast(&wire->sent);
}

static void sleep_until(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  for (size_t i = 0; i < wire->woken_count; i++) /* waiting gives the lock back as well */
    pthread_cond_signal(&wire->woken[i]->wake);
  wire->woken_count = 0;
  slot->waiter = WEIR_WAITER_ASLEEP;
  weir_condition_wait_until(&slot->wake, &wire->lock, end_us);
  slot->waiter = WEIR_WAITER_AWAKE;
}

/* Yields the processor up to so many times, while there is a leader at the line; once at least. The
 * kernel takes a yield for a wish to wait: where other work wants the processor, the thread gets it back
 * after a time slice or more, and so do the others. It shows by what is done meanwhile. */
static void yield(weir_wire_line *line, const weir_wire_slot *slot, int times, int64_t *now_us) {
  weir_wire *wire = line->wire;
  int64_t took_us = 0;
  uint64_t done = line->done;
  unlock(wire);
  for (int i = 0; i < times && took_us <= weir_waiting.yield_us; i++) {
    int64_t since_us = *now_us;
    if (i > 0 && (slot->state == WEIR_SLOT_DONE || line->worker == WEIR_WORKER_NONE)) break;
    sched_yield();
    *now_us = weir_monotonic_us();
    took_us = *now_us - since_us;
  }
  pthread_mutex_lock(&wire->lock);
  if (took_us > weir_waiting.yield_us &&
      (int64_t)(line->done - done) * weir_waiting.done_us < took_us)
    weir_pressure_feel(&wire->crowded, *now_us);
}

/* Returns when the slot is done, there is no leader, or some time has passed. Those who run while this
 * thread yields bring their next slots, which then go together. */
static void follow(weir_wire_line *line, weir_wire_slot *slot, int64_t end_us, int64_t now_us) {
  weir_wire *wire = line->wire;
  if (slot->encoded == 0) send_beside(line, now_us);
  int yields = weir_how_to_wait(line, slot, end_us - now_us).yields;
  if (yields > 0 && slot->state != WEIR_SLOT_DONE) yield(line, slot, yields, &now_us);
  bool leads = line->worker == WEIR_WORKER_NONE || slot->connection != line->connection;
  if (slot->state != WEIR_SLOT_DONE && !leads) sleep_until(wire, slot, end_us);
}

/* Leads or follows until the slot is done or the time is over. A slot may be handed over to the first
 * connection meanwhile. */
static void wait_until(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  int64_t now_us = weir_monotonic_us();
  slot->waiter = WEIR_WAITER_AWAKE;
  wire->waiting++;
  weir_pressure_ease(&wire->crowded, now_us);
  weir_pressure_ease(&wire->watched, now_us);
  if (wire->server.wants_further) push_further(wire, now_us);
  while (slot->state != WEIR_SLOT_DONE && now_us < end_us) {
    weir_wire_line *line = line_of(wire, slot);
    line->waiting++;
    int gives_way = weir_how_to_wait(line, slot, end_us - now_us).gives_way;
    if (gives_way > 0) yield(line, slot, gives_way, &now_us);
    bool stays = slot->state != WEIR_SLOT_DONE && slot->connection == line->connection;
    if (stays && line->worker == WEIR_WORKER_NONE)
      lead(line, slot, end_us, now_us);
    else if (stays)
      follow(line, slot, end_us, now_us);
    line->waiting--;
    if (slot->state != WEIR_SLOT_DONE) now_us = weir_monotonic_us();
  }
  slot->waiter = WEIR_WAITER_NONE;
  wire->waiting--;
  weir_wire_line *left = line_of(wire, slot);
  if (weir_how_to_wait(left, slot, 0).counts) wire->took_us = weir_monotonic_us() - slot->sent_us;
  if (left->connection->first != NULL && left->worker == WEIR_WORKER_NONE) wake_next(left);
}

/* Takes in what has come meanwhile: a thread that was kept from the processor finds its answer here,
 * and one that comes by later that of a probe whose caller has left. */
static void look_once_more(weir_wire_line *line) {
  if (line->worker != WEIR_WORKER_NONE || line->fd < 0) return;
  come_by(line, WEIR_EVENT_LOOK, true, weir_monotonic_us());
}

/* --- joining the line ------------------------------------------------------------------------ */

/* Why a slot may not join. */
typedef struct refusal {
  weir_message last;
  int64_t pause_us; /* until the next try; 0: one is under way */
  bool slow;        /* which is the first */
} refusal;

static bool is_unmet(const weir_wire_server *server) {
  return server->breaker.state == WEIR_BREAKER_CLOSED && server->dialect < 0;
}

static void refuse(const weir_wire_server *server, int64_t now_us, refusal *refused) {
  const weir_breaker *breaker = &server->breaker;
  bool closed = breaker->state == WEIR_BREAKER_CLOSED;
  bool open = breaker->state == WEIR_BREAKER_OPEN;
  weir_message_set(&refused->last, "%s", closed ? server->unready : breaker->why.text);
  refused->pause_us = open ? breaker->probe_at_us - now_us : 0;
  refused->slow = is_unmet(server);
}

/* Takes in, without waiting, what has come for a connection that is being made. Whether it is a slot's
 * turn now: the name may be known by now, and an address be next. */
static bool look_after(weir_wire *wire, int64_t now_us) {
  weir_wire_line *line = &wire->lines[0];
  const weir_destination *destination = &wire->server.destination;
  if (line->worker != WEIR_WORKER_NONE) return false;
  if (weir_connection_is_on_its_way(line->connection)) {
    look_once_more(line);
    return weir_connection_is_open(line->connection);
  }
  follow_name(wire, now_us);
  return !weir_destination_is_stale(destination, now_us) ||
         now_us >= weir_destination_due_us(destination);
}

/* Whether a slot may wait for a connection for which one has waited in vain: a caller with more time left
 * than that has taken so far, as those with little time must not turn away patient ones; and others,
 * one at a time, until the server has kept silent for some timeouts. */
static bool may_await(weir_wire *wire, const weir_wire_slot *slot, int64_t now_us) {
  const weir_wire_server *server = &wire->server;
  const weir_connection *connection = &server->connections[0];
  if (slot->deadline_us - now_us > now_us - wire->awaited_us) return true;
  return connection->first == NULL &&
         now_us - connection->heard_us < SILENT_TIMEOUTS * server->timeout_us;
}

/* Whether a slot may join a line whose server does not answer, or has no connection yet. */
static bool may_join(weir_wire *wire, weir_wire_slot *slot, refusal *refused) {
  weir_wire_server *server = &wire->server;
  weir_breaker *breaker = &server->breaker;
  weir_wire_line *line = &wire->lines[0];
  weir_connection *connection = line->connection;
  int64_t now_us = weir_monotonic_us();
  if (breaker->state != WEIR_BREAKER_CLOSED) {
    weir_destination_doubt(&server->destination);
    /* With no leader: the probe may be over, the name may lead elsewhere by now, or the server has
     * gone on with a connection whose caller has left. Then the next need not wait for the pause to
     * end. */
    if (line->worker == WEIR_WORKER_NONE && breaker->state == WEIR_BREAKER_HALF_OPEN)
      look_once_more(line);
    if (line->worker == WEIR_WORKER_NONE) {
      follow_name(wire, now_us);
      if (weir_connection_is_on_its_way(connection) && reports(line)) weir_breaker_hasten(breaker);
    }
  }
  if (breaker->state != WEIR_BREAKER_CLOSED) {
    /* With the breaker open one slot at a time goes on. */
    if (weir_breaker_admits(breaker, slot, now_us)) return true;
    refuse(server, now_us, refused);
    return false;
  }
  if (weir_connection_is_open(connection) || slot->connects) return true;
  if (connection->first == NULL && server->unready == NULL)
    wire->awaited_us = connection->heard_us = now_us;
  if (server->unready == NULL || may_await(wire, slot, now_us)) return true;
  bool goes_on = look_after(wire, now_us) || may_await(wire, slot, now_us);
  if (goes_on && breaker->state == WEIR_BREAKER_CLOSED) return true;
  refuse(server, now_us, refused);
  return false;
}

/* Ends a slot that never stood in line. Not under the lock: in an outage that is most of them. */
static void turn_away(weir_wire_slot *slot, const refusal *refused) {
  weir_slot_mark(slot, 0);
  slot->slow = refused->slow;
  if (refused->pause_us > 0) {
    weir_message_set(&slot->message, "not answering (last: %.300s); next try in %" PRId64 " ms",
                     refused->last.text, (refused->pause_us + 999) / 1000);
  } else {
    weir_message_set(&slot->message, "not answering (last: %.300s); a try is under way",
                     refused->last.text);
  }
  weir_slot_become(slot, WEIR_SLOT_DONE);
}

/* The connection that this thread takes. Threads take them by turns. */
static weir_choice *choice_of(weir_wire *wire) {
  static _Thread_local unsigned thread; /* 0: not counted yet */
  static atomic_uint threads;
  if (thread == 0) thread = atomic_fetch_add(&threads, 1) + 1;
  weir_choice *own = &wire->choices[thread % WEIR_WIRE_CHOICES];
  if (own->made) return own;
  own->made = true;
  own->number = wire->next_choice++ % WEIR_WIRE_CONNECTIONS;
  return own;
}

/* Where a slot is to stand in line. A crowd shares the first connection: what its threads ask goes
 * together. Few threads have one each, and stay with it, so that a thread of the server that serves it
 * can run on the same processor: picked by the hash of the key, two were worth half as much. A thread
 * leaves its own where it meets others there and another is free. */
static weir_connection *choose(weir_wire *wire) {
  weir_wire_server *server = &wire->server;
  weir_connection *connections = server->connections;
  uint8_t open = 1;
  if (wire->waiting >= WEIR_WIRE_CONNECTIONS)
    wire->crowd = weir_waiting.crowd_slots;
  else if (wire->crowd > 0)
    wire->crowd--;
  if (weir_is_crowd(wire) || server->one_at_a_time || connections[0].state != WEIR_CONNECTION_READY)
    return &connections[0];
  while (open < WEIR_WIRE_CONNECTIONS && connections[open].state == WEIR_CONNECTION_READY &&
         connections[open].is_known)
    open++;
  weir_choice *own = open > 1 ? choice_of(wire) : NULL;
  weir_connection *chosen = &connections[own != NULL ? own->number % open : 0];
  bool busy = chosen->first != NULL;
  server->wants_further |= busy && open < WEIR_WIRE_CONNECTIONS;
  if (own == NULL) return chosen;
  uint8_t idle = 0;
  while (busy && idle < open && connections[idle].first != NULL)
    idle++;
  own->met = busy && idle < open ? own->met + 1 : 0;
  if (own->met < MET_MOST) return chosen;
  own->number = idle;
  own->met = 0;
  return &connections[idle];
}

/* Puts the slot in line. False: it may not join. */
static bool join(weir_wire *wire, weir_wire_slot *slot, const weir_wire_round *round,
                 refusal *refused) {
  const weir_wire_server *server = &wire->server;
  bool probes = false;
  slot->dialects = round->dialects;
  slot->deadline_us = round->deadline_us;
  if (server->breaker.state != WEIR_BREAKER_CLOSED ||
      !weir_connection_is_open(&server->connections[0])) {
    if (!may_join(wire, slot, refused)) return false;
    probes = server->breaker.state != WEIR_BREAKER_CLOSED;
  }
  /* The keys stand still from here on; until now they could move as the slot grew. */
  const char *key = slot->keys;
  for (size_t i = 0; i < slot->count; i++) {
    slot->commands[i].operation.key = key;
    key += slot->commands[i].operation.key_length;
  }
  weir_line_append(probes || slot->connects ? &wire->server.connections[0] : choose(wire), slot);
  return true;
}

/* --- what a caller does with a slot ---------------------------------------------------------- */

void weir_wire_submit(weir_wire *wire, weir_wire_slot *slot, unsigned dialects,
                      int64_t deadline_us) {
  const weir_wire_round round = {dialects, deadline_us};
  refusal refused;
  if (slot->count == 0 && !slot->connects) { /* nothing would ever answer it */
    weir_slot_become(slot, WEIR_SLOT_DONE);
    return;
  }
  pthread_mutex_lock(&wire->lock);
  bool joined = join(wire, slot, &round, &refused);
  unlock(wire);
  if (!joined) turn_away(slot, &refused);
}

void weir_wire_flush(weir_wire *wire) {
  int64_t now_us = weir_monotonic_us();
  pthread_mutex_lock(&wire->lock);
  for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_wire_line *line = &wire->lines[i];
    if (!weir_stream_has_to_send(line->connection)) {
      /* The slot was turned away, or has gone with others: no system call for it. */
    } else if (line->worker == WEIR_WORKER_NONE) {
      come_by(line, WEIR_EVENT_LOOK, false, now_us);
    } else {
      send_beside(line, now_us);
    }
  }
  unlock(wire);
}

bool weir_wire_wait(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  if (slot->state == WEIR_SLOT_DONE) return true;
  pthread_mutex_lock(&wire->lock);
  wait_until(wire, slot, end_us < slot->deadline_us ? end_us : slot->deadline_us);
  unlock(wire);
  return slot->state == WEIR_SLOT_DONE;
}

/* Out of time: what was not sent never will be, what was sent is left to be counted off. */
static bool abandon(weir_wire *wire, weir_wire_slot *slot, weir_message *message) {
  weir_wire_server *server = &wire->server;
  weir_wire_line *line = line_of(wire, slot);
  weir_connection *connection = line->connection;
  bool open = weir_connection_is_open(connection);
  bool sent = slot->encoded > 0;
  int64_t now_us = weir_monotonic_us();
  const char *what = sent ? "no answer by the deadline" : "not sent by the deadline";
  if (!open) what = "no connection by the deadline";
  if (connection->state == WEIR_CONNECTION_SECURING) what = WEIR_WIRE_NO_HANDSHAKE;
  weir_slot_become(slot, WEIR_SLOT_ABANDONED);
  connection->abandoned++;

  /* A slot that was sent is still the probe, until its timeout has passed as well. Without a connection
   * nothing is known of the server, and a slot is late only where there was one. */
  if (open) {
    weir_worker worker = line->worker;
    bool holds = worker == WEIR_WORKER_LISTENING || worker == WEIR_WORKER_RECEIVING ||
                 worker == WEIR_WORKER_SENDING;
    if (!sent) weir_breaker_end(&server->breaker, slot, now_us);
    if (weir_connection_has_miss(connection, now_us) && !holds && !connection->unread &&
        poll(&(struct pollfd){.fd = line->fd, .events = POLLIN}, 1, 0) == 0)
      weir_connection_tell_misses(connection, now_us);
    slot->late = slot->slow = server->breaker.state == WEIR_BREAKER_CLOSED;
  } else if (server->breaker.state == WEIR_BREAKER_CLOSED) {
    server->unready = what;
    slot->slow = is_unmet(server);
  } else {
    weir_breaker_miss(&server->breaker, slot, what, now_us);
  }
  weir_slot_mark(slot, UINT64_MAX);
  weir_slot_explain(slot, what);
  bool explained = collect(wire, slot, message);
  slot->count = slot->encoded;
  if (connection->unsent == slot) connection->unsent = slot->next;
  if (slot->answered == slot->count) {
    weir_slot_end(connection, slot);
    tidy(line);
  }
  return explained;
}

/* Ends the slot for its caller. The lock is held. */
static bool finish(weir_wire *wire, weir_wire_slot *slot, weir_message *message) {
  if (slot->state != WEIR_SLOT_DONE) {
    wait_until(wire, slot, slot->deadline_us);
    if (slot->state != WEIR_SLOT_DONE) look_once_more(line_of(wire, slot));
    if (slot->state != WEIR_SLOT_DONE) return abandon(wire, slot, message);
  }
  bool explained = collect(wire, slot, message);
  give(wire, slot);
  return explained;
}

bool weir_wire_finish(weir_wire *wire, weir_wire_slot *slot, weir_message *message) {
  pthread_mutex_lock(&wire->lock);
  bool explained = finish(wire, slot, message);
  unlock(wire);
  return explained;
}

bool weir_wire_run(weir_wire *wire, weir_wire_slot *slot, const weir_wire_round *round,
                   weir_message *message) {
  refusal refused;
  pthread_mutex_lock(&wire->lock);
  if ((slot->count > 0 || slot->connects) && !join(wire, slot, round, &refused)) {
    unlock(wire);
    turn_away(slot, &refused);
    pthread_mutex_lock(&wire->lock);
  }
  bool explained = false;
  if (slot->count == 0 && !slot->connects) /* nothing would ever answer it */
    give(wire, slot);
  else
    explained = finish(wire, slot, message);
  unlock(wire);
  return explained;
}

weir_wire_leading weir_wire_read_leading(weir_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  weir_wire_leading all = wire->lines[0].leading;
  for (int number = 1; number < WEIR_WIRE_CONNECTIONS; number++) {
    const weir_wire_leading *further = &wire->lines[number].leading;
    all.times += further->times;
    for (int i = 0; i < WEIR_WIRE_LEADING_BINS; i++)
      all.bins[i] += further->bins[i];
    all.served += further->served;
    all.led_us += further->led_us;
    if (further->longest_us > all.longest_us) all.longest_us = further->longest_us;
    if (further->most > all.most) all.most = further->most;
  }
  unlock(wire);
  return all;
}
