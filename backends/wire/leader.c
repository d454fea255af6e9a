/* Who works the connection, and how the others wait. */
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "wire/internal.h"

/* Checks before a waiter sleeps, where many wait: replies then come in bursts, and a wake-up costs
 * more than three. Among few, a yield costs more than it saves: the kernel may take the rest of the
 * time slice, which is a millisecond and more. Measured on two processors: sleeping is faster for 4
 * and 6 threads, yielding from 8 on. */
enum { YIELDS = 3, CROWD = 6 };

enum { POLL_MOST_MS = 60000 };

void weir_wire_rouse(weir_wire *wire, weir_wire_slot *slot) {
  if (wire->woken_count < WEIR_WIRE_WOKEN_MOST)
    wire->woken[wire->woken_count++] = slot;
  else
    pthread_cond_signal(&slot->wake);
}

/* A slot stays where it is while the wire is open: at worst somebody else sleeps on it by now, and
 * looks up in vain. */
static void wake_all(weir_wire_slot *const *woken, size_t count) {
  for (size_t i = 0; i < count; i++)
    pthread_cond_signal(&woken[i]->wake);
}

void weir_wire_unlock(weir_wire *wire) {
  weir_wire_slot *woken[WEIR_WIRE_WOKEN_MOST];
  size_t count = wire->woken_count;
  if (count == 0) {
    pthread_mutex_unlock(&wire->lock);
    return;
  }
  memcpy(woken, wire->woken, count * sizeof woken[0]);
  wire->woken_count = 0;
  pthread_mutex_unlock(&wire->lock);
  wake_all(woken, count);
}

/* With nobody leading, lets the first who sleeps in line know, unless one who is awake will see. */
static void wake_next(weir_wire_connection *connection) {
  weir_wire_slot *sleeper = NULL;
  for (weir_wire_slot *slot = connection->first; slot != NULL; slot = slot->next) {
    if (slot->waiting && !slot->sleeping) return;
    if (slot->sleeping && sleeper == NULL) sleeper = slot;
  }
  if (sleeper != NULL) weir_wire_rouse(connection->wire, sleeper);
}

/* Whether the server has done its part on the way to a connection, while nobody worked on it. */
static bool has_spoken(const weir_wire_connection *connection) {
  struct pollfd socket = {.fd = connection->fd, .events = weir_wire_events(connection)};
  return poll(&socket, 1, 0) > 0;
}

static void start_leading(weir_wire_connection *connection, int64_t now_us) {
  weir_wire *wire = connection->wire;
  bool may_follow = connection == &wire->connections[0] || !wire->connections[0].leading;
  connection->leading = true;
  if (may_follow && (wire->lookup != NULL || now_us >= wire->lookup_at_us))
    weir_wire_name_follow(wire, now_us);
  if (connection->state != WEIR_WIRE_READY && weir_wire_is_connecting(connection) &&
      now_us >= weir_wire_alarm_us(connection))
    weir_wire_end_attempt(connection, has_spoken(connection), now_us);
}

void weir_wire_come_back(weir_wire_connection *connection) {
  connection->resting = false;
  while (connection->sending)
    pthread_cond_wait(&connection->wire->sent, &connection->wire->lock);
}

/* While the leader waits for the socket, what is queued must not wait for replies to others. A
 * failure is the leader's to find; its wait for the socket ends then. */
static void send_beside(weir_wire_connection *connection, int64_t now_us) {
  if (!connection->resting || connection->sending || connection->state != WEIR_WIRE_READY) return;
  connection->sending = true;
  weir_wire_send(connection, now_us);
  connection->sending = false;
  if (!connection->resting) pthread_cond_broadcast(&connection->wire->sent);
}

/* Waits for the socket, in whole milliseconds rounded up, as poll wants them. */
static short poll_socket(weir_wire_connection *connection, int64_t wait_us) {
  struct pollfd socket = {.fd = connection->fd, .events = weir_wire_events(connection)};
  int64_t wait_ms = wait_us <= 0 || connection->unread ? 0 : (wait_us + 999) / 1000;
  connection->resting = true;
  weir_wire_unlock(connection->wire);
  int ready = poll(&socket, 1, wait_ms > POLL_MOST_MS ? POLL_MOST_MS : (int)wait_ms);
  pthread_mutex_lock(&connection->wire->lock);
  weir_wire_come_back(connection);
  return (short)((ready > 0 ? socket.revents : 0) | (connection->unread ? POLLIN : 0));
}

/* Before there is a connection: the resolver decides where to. */
static void await_resolver(weir_wire *wire, int64_t until_us) {
  weir_lookup *lookup = wire->lookup;
  weir_wire_unlock(wire);
  weir_lookup_await(lookup, until_us);
  pthread_mutex_lock(&wire->lock);
}

/* Works the connection until the slot is done or the time is over.
 *
 * A receive that waits saves the poll before it, a tenth of a round trip. It ends by itself, but
 * not at once, so it is not for the last milliseconds before a deadline, nor for TLS, whose session
 * a follower may not touch meanwhile. */
static void lead(weir_wire_connection *connection, const weir_wire_slot *slot, int64_t end_us,
                 int64_t now_us) {
  short revents = 0;
  start_leading(connection, now_us);
  for (int turn = 0;; turn++) {
    weir_wire_step(connection, revents, now_us);
    if (slot->done || slot->connection != connection) break;
    if (turn > 0) now_us = weir_monotonic_us();
    if (now_us >= end_us) break;
    int64_t alarm_us = weir_wire_alarm_us(connection);
    int64_t until_us = alarm_us < end_us ? alarm_us : end_us;
    revents = 0;
    if (turn == 0 && connection->session == NULL &&
        until_us - now_us > connection->wire->patience_us && weir_wire_only_receives(connection)) {
      connection->patient = true;
      revents = POLLIN;
    } else if (connection->fd >= 0) {
      revents = poll_socket(connection, until_us - now_us);
      now_us = weir_monotonic_us();
    } else if (connection->wire->lookup != NULL) {
      await_resolver(connection->wire, until_us);
      now_us = weir_monotonic_us();
    }
  }
  connection->leading = false;
}

static void sleep_until(weir_wire_connection *connection, weir_wire_slot *slot, int64_t end_us) {
  struct timespec until = {.tv_sec = (time_t)(end_us / 1000000),
                           .tv_nsec = (long)(end_us % 1000000) * 1000};
  wake_all(connection->wire->woken,
           connection->wire->woken_count); /* waiting gives the lock back as well */
  connection->wire->woken_count = 0;
  slot->sleeping = true;
  pthread_cond_timedwait(&slot->wake, &connection->wire->lock, &until);
  slot->sleeping = false;
}

/* Returns when the slot is done, nobody leads, or some time has passed. */
static void follow(weir_wire_connection *connection, weir_wire_slot *slot, int64_t end_us,
                   int64_t now_us) {
  if (connection->waiting > CROWD) {
    weir_wire_unlock(connection->wire);
    for (int i = 0; i < YIELDS && !slot->done && connection->leading; i++)
      sched_yield();
    pthread_mutex_lock(&connection->wire->lock);
    if (slot->done || slot->connection != connection || !connection->leading) return;
  }
  if (slot->encoded == 0) send_beside(connection, now_us);
  bool leads = !connection->leading || slot->connection != connection; /* the lock was let go */
  if (!slot->done && !leads) sleep_until(connection, slot, end_us);
}

/* Ends a slot that never stood in line. */
static void turn_away(weir_wire_slot *slot, const weir_message *last, int64_t pause_us) {
  weir_wire_slot_mark(slot, 0);
  if (pause_us > 0) {
    weir_message_set(&slot->message, "not answering (last: %.300s); next try in %" PRId64 " ms",
                     last->text, (pause_us + 999) / 1000);
  } else {
    weir_message_set(&slot->message, "not answering (last: %.300s); a try is under way",
                     last->text);
  }
  slot->done = true;
}

/* Takes in what has come meanwhile: a thread that was kept from the processor finds its answer
 * here, and whoever comes by that of a probe whose caller has left. */
static void look_once_more(weir_wire_connection *connection) {
  if (connection->leading || connection->fd < 0) return;
  int64_t now_us = weir_monotonic_us();
  start_leading(connection, now_us);
  if (connection->fd >= 0) weir_wire_step(connection, poll_socket(connection, 0), now_us);
  connection->leading = false;
  wake_next(connection);
}

/* Before a slot is turned away, while nobody leads: whether the probe is over, the name leads
 * elsewhere by now, or the server has gone on with a connection whose caller has left. Then the
 * next need not wait for the pause to end. */
static void look_around(weir_wire *wire, int64_t now_us) {
  weir_wire_connection *connection = &wire->connections[0];
  if (wire->breaker.state == WEIR_BREAKER_HALF_OPEN) look_once_more(connection);
  if (connection->leading) return;
  weir_wire_name_follow(wire, now_us);
  if (weir_wire_is_connecting(connection) && has_spoken(connection))
    weir_breaker_hasten(&wire->breaker);
}

/* With the breaker open one slot at a time goes on; the rest is told why outside the lock, which
 * this gives back. False: it has closed, and the lock is held still. */
static bool submit_to_silent(weir_wire *wire, weir_wire_slot *slot) {
  int64_t now_us = weir_monotonic_us();
  weir_wire_connection *connection = &wire->connections[0];
  weir_wire_name_doubt(wire);
  if (!connection->leading) look_around(wire, now_us);
  if (wire->breaker.state == WEIR_BREAKER_CLOSED) return false;
  bool goes = weir_breaker_admits(&wire->breaker, slot, now_us);
  bool open = wire->breaker.state == WEIR_BREAKER_OPEN;
  int64_t pause_us = open ? wire->breaker.probe_at_us - now_us : 0;
  weir_message last = wire->breaker.why;
  if (goes) weir_wire_line_append(connection, slot);
  weir_wire_unlock(wire);
  if (!goes) turn_away(slot, &last, pause_us);
  return true;
}

/* A connection that takes longer than a deadline is brought about by one slot at a time, and by those
 * with more time left than it has taken so far: callers with little time must not turn away patient
 * ones. The rest is told so outside the lock, which this gives back. False: the slot may go. */
static bool submit_to_unready(weir_wire *wire, weir_wire_slot *slot) {
  weir_message why = {""};
  const weir_wire_connection *connection = &wire->connections[0];
  if (connection->state == WEIR_WIRE_READY || slot->connects) return false;
  int64_t now_us = weir_monotonic_us();
  if (connection->first == NULL && wire->unready == NULL) wire->awaited_us = now_us;
  if (connection->first == NULL || wire->unready == NULL) return false;
  if (slot->deadline_us - now_us > now_us - wire->awaited_us) return false;
  weir_message_set(&why, "%s", wire->unready);
  weir_wire_unlock(wire);
  turn_away(slot, &why, 0);
  return true;
}

/* The connection of this thread, and how often in a row that was busy while the other was free. Who
 * stays with one meets a thread of the server that runs on the same processor: picked by the hash
 * of the key, two connections were worth half as much. So threads take them by turns, and one
 * leaves its own only where all who are at work have the same. */
static _Thread_local struct {
  unsigned number;
  unsigned met;
  bool chosen;
} own;
static atomic_uint threads;
enum { MET_MOST = 32 };

/* Where a slot is to stand in line. Without a second connection at the first; who must wait there
 * wants a second. Else at the one that is asked for, or at this thread's own, unless that is busy
 * and the other is not. */
static weir_wire_connection *choose(weir_wire *wire, int number) {
  weir_wire_connection *first = &wire->connections[0];
  const weir_wire_connection *second = &wire->connections[1];
  if (second->state != WEIR_WIRE_READY || second->leaving || first->state != WEIR_WIRE_READY ||
      first->leaving) {
    wire->wants_second |= first->first != NULL && !wire->one_at_a_time;
    return first;
  }
  if (number >= 0) return &wire->connections[number];
  if (!own.chosen) {
    own.chosen = true;
    own.number = atomic_fetch_add(&threads, 1) % WEIR_WIRE_CONNECTIONS;
  }
  bool busy = wire->connections[own.number].first != NULL;
  own.met = busy && wire->connections[1 - own.number].first == NULL ? own.met + 1 : 0;
  if (own.met >= MET_MOST) {
    own.number = 1 - own.number;
    own.met = 0;
  }
  return &wire->connections[own.number];
}

void weir_wire_submit(weir_wire *wire, weir_wire_slot *slot, int connection, unsigned dialects,
                      int64_t deadline_us) {
  slot->dialects = dialects;
  slot->deadline_us = deadline_us;
  if (slot->count == 0 && !slot->connects) { /* nothing would ever answer it */
    slot->done = true;
    return;
  }
  pthread_mutex_lock(&wire->lock);
  if (wire->breaker.state != WEIR_BREAKER_CLOSED && submit_to_silent(wire, slot)) return;
  if (submit_to_unready(wire, slot)) return;
  weir_wire_line_append(choose(wire, slot->connects ? 0 : connection), slot);
  weir_wire_unlock(wire);
}

void weir_wire_flush(weir_wire *wire) {
  int64_t now_us = weir_monotonic_us();
  pthread_mutex_lock(&wire->lock);
  for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_wire_connection *connection = &wire->connections[i];
    if (!weir_wire_has_to_send(connection)) {
      /* The slot was turned away, or has gone with others: no system call for it. */
    } else if (!connection->leading) {
      start_leading(connection, now_us);
      weir_wire_step(connection, 0, now_us);
      connection->leading = false;
      wake_next(connection);
    } else {
      send_beside(connection, now_us);
    }
  }
  weir_wire_unlock(wire);
}

/* Tells the breaker of a slot that has run out of time. What was sent is still the probe, until its
 * timeout has passed as well. Without a connection nothing is known of the server, and late is who
 * had one. */
static void note_absence(weir_wire_connection *connection, weir_wire_slot *slot, const char *what) {
  weir_wire *wire = connection->wire;
  int64_t now_us = weir_monotonic_us();
  if (connection->state == WEIR_WIRE_READY) {
    if (slot->encoded == 0) weir_breaker_end(&wire->breaker, slot, now_us);
    weir_wire_find_misses(connection, now_us);
    slot->late = wire->breaker.state == WEIR_BREAKER_CLOSED;
  } else if (wire->breaker.state == WEIR_BREAKER_CLOSED) {
    wire->unready = what;
  } else {
    weir_breaker_miss(&wire->breaker, slot, what, now_us);
  }
}

/* Out of time: what was not sent never will be, what was sent is left to be counted off. */
static bool abandon(weir_wire_connection *connection, weir_wire_slot *slot, weir_message *message) {
  const char *what = slot->encoded == 0 ? "not sent by the deadline" : "no answer by the deadline";
  if (connection->state != WEIR_WIRE_READY) what = "no connection by the deadline";
  if (connection->state == WEIR_WIRE_SECURING) what = WEIR_WIRE_NO_HANDSHAKE;
  slot->abandoned = true;
  connection->abandoned++;
  slot->waiting = false;
  note_absence(connection, slot, what);
  weir_wire_slot_mark(slot, UINT64_MAX);
  weir_wire_slot_explain(slot, what);
  bool explained = weir_wire_slot_collect(connection->wire, slot, message);
  slot->count = slot->encoded;
  if (connection->unsent == slot) connection->unsent = slot->next;
  if (slot->answered == slot->count) weir_wire_slot_end(connection, slot);
  return explained;
}

/* Leads or follows until the slot is done or the time is over. The lock is held. A slot may be
 * handed over to the first connection meanwhile. */
static void wait_until(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  int64_t now_us = weir_monotonic_us();
  slot->waiting = true;
  if (wire->wants_second) weir_wire_push_second(wire, now_us);
  while (!slot->done && now_us < end_us) {
    weir_wire_connection *connection = slot->connection;
    connection->waiting++;
    if (!connection->leading) {
      lead(connection, slot, end_us, now_us);
    } else {
      follow(connection, slot, end_us, now_us);
    }
    connection->waiting--;
    if (!slot->done) now_us = weir_monotonic_us();
  }
  slot->waiting = false;
  weir_wire_connection *left = slot->connection;
  if (left->first != NULL && !left->leading) wake_next(left);
}

bool weir_wire_wait(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  if (slot->done) return true;
  pthread_mutex_lock(&wire->lock);
  wait_until(wire, slot, end_us < slot->deadline_us ? end_us : slot->deadline_us);
  weir_wire_unlock(wire);
  return slot->done;
}

bool weir_wire_finish(weir_wire *wire, weir_wire_slot *slot, weir_message *message) {
  bool explained = false;
  pthread_mutex_lock(&wire->lock);
  if (!slot->done) wait_until(wire, slot, slot->deadline_us);
  if (!slot->done) look_once_more(slot->connection);
  if (slot->done) {
    explained = weir_wire_slot_collect(wire, slot, message);
    weir_wire_slot_give(wire, slot);
  } else {
    explained = abandon(slot->connection, slot, message);
  }
  weir_wire_unlock(wire);
  return explained;
}
