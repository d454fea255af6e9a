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
  memcpy(woken, wire->woken, count * sizeof woken[0]);
  wire->woken_count = 0;
  pthread_mutex_unlock(&wire->lock);
  wake_all(woken, count);
}

/* With nobody leading, lets the first who sleeps in line know, unless one who is awake will see. */
static void wake_next(weir_wire *wire) {
  weir_wire_slot *sleeper = NULL;
  for (weir_wire_slot *slot = wire->first; slot != NULL; slot = slot->next) {
    if (slot->waiting && !slot->sleeping) return;
    if (slot->sleeping && sleeper == NULL) sleeper = slot;
  }
  if (sleeper != NULL) weir_wire_rouse(wire, sleeper);
}

/* Whether the server has done its part on the way to a connection, while nobody worked on it. */
static bool has_spoken(const weir_wire *wire) {
  struct pollfd socket = {.fd = wire->fd, .events = weir_wire_events(wire)};
  return poll(&socket, 1, 0) > 0;
}

static void start_leading(weir_wire *wire, int64_t now_us) {
  atomic_store_explicit(&wire->leading, true, memory_order_relaxed);
  weir_wire_name_follow(wire, now_us);
  if (weir_wire_is_connecting(wire) && now_us >= weir_wire_alarm_us(wire))
    weir_wire_end_attempt(wire, has_spoken(wire), now_us);
}

static void stop_leading(weir_wire *wire) {
  atomic_store_explicit(&wire->leading, false, memory_order_relaxed);
}

static bool is_leading(const weir_wire *wire) {
  return atomic_load_explicit(&wire->leading, memory_order_relaxed);
}

static bool is_done(const weir_wire_slot *slot) {
  return atomic_load_explicit(&slot->done, memory_order_acquire);
}

/* A receive that waits saves the poll before it, a tenth of a round trip. It ends by itself, but
 * not at once, so it is not for the last milliseconds before a deadline, nor for TLS, whose session
 * a follower may not touch meanwhile. */
static bool may_wait_in_receive(const weir_wire *wire, int64_t wait_us) {
  return wire->session == NULL && weir_wire_only_receives(wire) && wait_us > wire->patience_us;
}

/* Waits for the socket, in whole milliseconds rounded up, as poll wants them. */
static short poll_socket(weir_wire *wire, int64_t wait_us) {
  struct pollfd socket = {.fd = wire->fd, .events = weir_wire_events(wire)};
  int64_t wait_ms = wait_us <= 0 || wire->unread ? 0 : (wait_us + 999) / 1000;
  wire->resting = true;
  weir_wire_unlock(wire);
  int ready = poll(&socket, 1, wait_ms > POLL_MOST_MS ? POLL_MOST_MS : (int)wait_ms);
  pthread_mutex_lock(&wire->lock);
  wire->resting = false;
  return (short)((ready > 0 ? socket.revents : 0) | (wire->unread ? POLLIN : 0));
}

/* Works the connection until the slot is done or the time is over. */
static void lead(weir_wire *wire, const weir_wire_slot *slot, int64_t end_us, int64_t now_us) {
  short revents = 0;
  start_leading(wire, now_us);
  for (int turn = 0;; turn++) {
    weir_wire_step(wire, revents, now_us);
    if (is_done(slot)) break;
    if (turn > 0) now_us = weir_monotonic_us();
    if (now_us >= end_us) break;
    int64_t alarm_us = weir_wire_alarm_us(wire);
    int64_t until_us = alarm_us < end_us ? alarm_us : end_us;
    revents = 0;
    if (turn == 0 && may_wait_in_receive(wire, until_us - now_us)) {
      wire->patient = true;
      revents = POLLIN;
    } else if (wire->fd >= 0) {
      revents = poll_socket(wire, until_us - now_us);
      now_us = weir_monotonic_us();
    }
  }
  stop_leading(wire);
}

static void sleep_until(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  struct timespec until = {.tv_sec = (time_t)(end_us / 1000000),
                           .tv_nsec = (long)(end_us % 1000000) * 1000};
  wake_all(wire->woken, wire->woken_count); /* waiting gives the lock back as well */
  wire->woken_count = 0;
  slot->sleeping = true;
  pthread_cond_timedwait(&slot->wake, &wire->lock, &until);
  slot->sleeping = false;
}

/* Returns when the slot is done, nobody leads, or some time has passed. */
static void follow(weir_wire *wire, weir_wire_slot *slot, int64_t end_us, int64_t now_us) {
  if (wire->waiting > CROWD) {
    weir_wire_unlock(wire);
    for (int i = 0; i < YIELDS && !is_done(slot) && is_leading(wire); i++)
      sched_yield();
    pthread_mutex_lock(&wire->lock);
    if (is_done(slot) || !is_leading(wire)) return;
  }
  /* The leader is asleep and the slot still here: it must not wait for replies to others. A failure
   * is the leader's to find; its wait for the socket ends then. */
  if (wire->resting && wire->state == WEIR_WIRE_READY && slot->encoded == 0) {
    weir_wire_send(wire, now_us, true);
  }
  if (!is_done(slot)) sleep_until(wire, slot, end_us);
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
  atomic_store_explicit(&slot->done, true, memory_order_release);
}

/* Before a slot is turned away, while nobody leads: whether the name leads elsewhere by now, or the
 * server has gone on with a connection whose caller has left. Either way the next need not wait for
 * the pause to end. */
static void look_around(weir_wire *wire, int64_t now_us) {
  weir_wire_name_follow(wire, now_us);
  if (weir_wire_is_connecting(wire) && has_spoken(wire)) weir_breaker_hasten(&wire->breaker);
}

/* With the breaker open one slot at a time goes on; the rest is told why outside the lock, which
 * this gives back. */
static void submit_to_silent(weir_wire *wire, weir_wire_slot *slot) {
  int64_t now_us = weir_monotonic_us();
  weir_wire_name_doubt(wire);
  if (!is_leading(wire)) look_around(wire, now_us);
  bool goes = weir_breaker_admits(&wire->breaker, slot, now_us);
  bool open = wire->breaker.state == WEIR_BREAKER_OPEN;
  int64_t pause_us = open ? wire->breaker.probe_at_us - now_us : 0;
  weir_message last = wire->breaker.why;
  if (goes) {
    slot->since_us = now_us;
    weir_wire_line_append(wire, slot);
  }
  weir_wire_unlock(wire);
  if (!goes) turn_away(slot, &last, pause_us);
}

void weir_wire_submit(weir_wire *wire, weir_wire_slot *slot, unsigned dialects,
                      int64_t deadline_us) {
  slot->dialects = dialects;
  slot->deadline_us = deadline_us;
  if (slot->count == 0 && !slot->connects) { /* nothing would ever answer it */
    atomic_store_explicit(&slot->done, true, memory_order_release);
    return;
  }
  pthread_mutex_lock(&wire->lock);
  if (wire->breaker.state != WEIR_BREAKER_CLOSED) {
    submit_to_silent(wire, slot);
    return;
  }
  weir_wire_line_append(wire, slot);
  weir_wire_unlock(wire);
}

void weir_wire_flush(weir_wire *wire) {
  int64_t now_us = weir_monotonic_us();
  pthread_mutex_lock(&wire->lock);
  if (!weir_wire_has_to_send(wire)) {
    /* The slot was turned away, or has gone with others: no system call for it. */
  } else if (!is_leading(wire)) {
    start_leading(wire, now_us);
    weir_wire_step(wire, 0, now_us);
    stop_leading(wire);
    wake_next(wire);
  } else if (wire->resting && wire->state == WEIR_WIRE_READY) {
    weir_wire_send(wire, now_us, true);
  }
  weir_wire_unlock(wire);
}

/* Out of time: what was not sent never will be, what was sent is left to be counted off. */
static bool abandon(weir_wire *wire, weir_wire_slot *slot, weir_message *message) {
  const char *what = slot->encoded == 0 ? "not sent by the deadline" : "no answer by the deadline";
  if (wire->state != WEIR_WIRE_READY) what = "no connection by the deadline";
  if (wire->state == WEIR_WIRE_SECURING) what = WEIR_WIRE_NO_HANDSHAKE;
  weir_wire_judge(wire, slot, slot->deadline_us, what);
  slot->late = wire->breaker.state == WEIR_BREAKER_CLOSED;
  weir_wire_slot_mark(slot, UINT64_MAX);
  weir_wire_slot_explain(slot, what);
  bool explained = weir_wire_slot_collect(wire, slot, message);
  slot->abandoned = true;
  slot->waiting = false;
  slot->count = slot->encoded;
  if (wire->unsent == slot) wire->unsent = slot->next;
  if (slot->answered == slot->count) weir_wire_slot_end(wire, slot);
  return explained;
}

/* Leads or follows until the slot is done or the time is over. The lock is held. */
static void wait_until(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  int64_t now_us = weir_monotonic_us();
  slot->waiting = true;
  wire->waiting++;
  if (slot->since_us == 0) slot->since_us = now_us;
  while (!is_done(slot) && now_us < end_us) {
    if (!is_leading(wire)) {
      lead(wire, slot, end_us, now_us);
    } else {
      follow(wire, slot, end_us, now_us);
    }
    if (!is_done(slot)) now_us = weir_monotonic_us();
  }
  slot->waiting = false;
  wire->waiting--;
  if (!is_leading(wire)) wake_next(wire);
}

bool weir_wire_wait(weir_wire *wire, weir_wire_slot *slot, int64_t end_us) {
  if (is_done(slot)) return true;
  pthread_mutex_lock(&wire->lock);
  wait_until(wire, slot, end_us < slot->deadline_us ? end_us : slot->deadline_us);
  weir_wire_unlock(wire);
  return is_done(slot);
}

/* Takes in what has come meanwhile: a thread that was kept from the processor finds its answer
 * here.
 */
static void look_once_more(weir_wire *wire) {
  if (is_leading(wire) || wire->fd < 0) return;
  int64_t now_us = weir_monotonic_us();
  start_leading(wire, now_us);
  if (wire->fd >= 0) weir_wire_step(wire, poll_socket(wire, 0), now_us);
  stop_leading(wire);
  wake_next(wire);
}

bool weir_wire_finish(weir_wire *wire, weir_wire_slot *slot, weir_message *message) {
  if (!is_done(slot)) {
    pthread_mutex_lock(&wire->lock);
    wait_until(wire, slot, slot->deadline_us);
    if (!is_done(slot)) look_once_more(wire);
    bool over = !is_done(slot);
    bool explained = over && abandon(wire, slot, message);
    weir_wire_unlock(wire);
    if (over) return explained;
  }
  bool explained = weir_wire_slot_collect(wire, slot, message);
  pthread_mutex_lock(&wire->lock);
  weir_wire_slot_give(wire, slot);
  weir_wire_unlock(wire);
  return explained;
}
