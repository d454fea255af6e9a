#include "scale/virtual.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scale/fiber.h"
#include "simulate/chance.h"

#define BEGIN_US INT64_C(1000000)

enum { WAITERS_BITS = 12, EVENTS_LEAST = 1024 };

struct event {
  int64_t at_us;
  uint64_t number; /* in the order in which they were made */
  void (*call)(void *);
  void *subject;
};

/* On the stack of a fiber that is parked. */
struct waiter {
  struct waiter *next;
  const void *subject;
  fiber *parked;
  struct alarm *alarm; /* NULL: there is none */
  bool woken;
};

/* May ring when nobody waits for it any more: it is a thing of its own. */
struct alarm {
  struct waiter *waiter; /* NULL: woken before */
};

static int64_t now_us;
static uint64_t random_state;
static uint64_t event_number;
static struct event *events; /* a heap */
static size_t event_count;
static size_t event_room;
static struct waiter *waiters[1 << WAITERS_BITS];

void virtual_begin(uint64_t seed) {
  now_us = BEGIN_US;
  random_state = seed;
  event_number = 0;
  event_count = 0;
}

void virtual_clean_up(void) {
  free(events);
  events = NULL;
  event_room = event_count = 0;
}

int64_t virtual_now_us(void) {
  return now_us;
}

int64_t virtual_below(int64_t below) {
  return weir_chance_below(&random_state, below);
}

/* --- events ------------------------------------------------------------------------------------
 */

static bool comes_before(const struct event *a, const struct event *b) {
  return a->at_us != b->at_us ? a->at_us < b->at_us : a->number < b->number;
}

static void make_room(void) {
  if (event_count < event_room) return;
  size_t room = event_room == 0 ? EVENTS_LEAST : 2 * event_room;
  struct event *larger = realloc(events, room * sizeof *larger);
  if (larger == NULL) {
    perror("events");
    exit(2);
  }
  events = larger;
  event_room = room;
}

void virtual_at(int64_t at_us, void (*call)(void *), void *subject) {
  struct event made = {at_us > now_us ? at_us : now_us, event_number++, call, subject};
  make_room();
  size_t at = event_count++;
  for (; at > 0 && comes_before(&made, &events[(at - 1) / 2]); at = (at - 1) / 2)
    events[at] = events[(at - 1) / 2];
  events[at] = made;
}

static struct event take_first(void) {
  struct event first = events[0];
  struct event last = events[--event_count];
  size_t at = 0;
  for (size_t child = 1; child < event_count; child = 2 * at + 1) {
    if (child + 1 < event_count && comes_before(&events[child + 1], &events[child])) child++;
    if (!comes_before(&events[child], &last)) break;
    events[at] = events[child];
    at = child;
  }
  events[at] = last;
  return first;
}

void virtual_run(void) {
  while (event_count > 0) {
    struct event next = take_first();
    now_us = next.at_us;
    next.call(next.subject);
  }
}

/* --- waiting -----------------------------------------------------------------------------------
 */

static struct waiter **waiters_for(const void *subject) {
  return &waiters[((uintptr_t)subject >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - WAITERS_BITS)];
}

static void resume(void *parked) {
  fiber_resume(parked);
}

static void leave(struct waiter *waiter) {
  struct waiter **link = waiters_for(waiter->subject);
  while (*link != waiter)
    link = &(*link)->next;
  *link = waiter->next;
}

static void ring(void *subject) {
  struct alarm *alarm = subject;
  struct waiter *waiter = alarm->waiter;
  free(alarm);
  if (waiter == NULL) return;
  leave(waiter);
  fiber_resume(waiter->parked);
}

static struct alarm *set_alarm(struct waiter *waiter, int64_t at_us) {
  struct alarm *alarm = malloc(sizeof *alarm);
  if (alarm == NULL) {
    perror("an alarm");
    exit(2);
  }
  alarm->waiter = waiter;
  virtual_at(at_us, ring, alarm);
  return alarm;
}

bool virtual_wait(const void *subject, int64_t until_us) {
  struct waiter **first = waiters_for(subject);
  struct waiter self = {.next = *first, .subject = subject, .parked = fiber_running()};
  if (until_us != INT64_MAX) self.alarm = set_alarm(&self, until_us);
  *first = &self;
  fiber_park();
  return self.woken;
}

/* Who is woken runs as an event of its own, after whoever wakes. */
void virtual_wake(const void *subject) {
  struct waiter *waiter = *waiters_for(subject);
  while (waiter != NULL && waiter->subject != subject)
    waiter = waiter->next;
  if (waiter == NULL) return;
  leave(waiter);
  if (waiter->alarm != NULL) waiter->alarm->waiter = NULL;
  waiter->woken = true;
  virtual_at(now_us, resume, waiter->parked);
}

/* --- what the library is linked to -------------------------------------------------------------
 */

int64_t __wrap_weir_monotonic_us(void);
int64_t __wrap_weir_monotonic_us(void) {
  return now_us;
}

void __wrap_weir_sleep_until(int64_t monotonic_us);
void __wrap_weir_sleep_until(int64_t monotonic_us) {
  if (monotonic_us > now_us) virtual_wait(&monotonic_us, monotonic_us);
}

int64_t __wrap_weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us);
int64_t __wrap_weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us) {
  bool over = attempt >= 63 || base_us > (most_us >> attempt);
  return virtual_below((over ? most_us : base_us << attempt) + 1);
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
  return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_signal(pthread_cond_t *condition) {
  virtual_wake(condition);
  return 0;
}

static int wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_us) {
  pthread_mutex_unlock(mutex);
  bool woken = virtual_wait(condition, until_us);
  pthread_mutex_lock(mutex);
  return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  return wait_for(condition, mutex, INT64_MAX);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until) {
  return wait_for(condition, mutex, until->tv_sec * INT64_C(1000000) + until->tv_nsec / 1000);
}

/* The secrets of stores: with them come the places of keys, and lengths of pauses. */
void __wrap_randombytes_buf(void *bytes, size_t count);
void __wrap_randombytes_buf(void *bytes, size_t count) {
  for (size_t at = 0; at < count; at += sizeof random_state) {
    uint64_t drawn = weir_chance_draw(&random_state);
    memcpy((char *)bytes + at, &drawn, count - at < sizeof drawn ? count - at : sizeof drawn);
  }
}
