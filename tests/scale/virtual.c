#include "scale/virtual.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "random.h"
#include "scale/fiber.h"

#define BEGIN_US INT64_C(1000000)

/* A power of two, and longer than a deadline. */
enum { RING_US = 1 << 15, WAITERS_BITS = 14, EVENTS_AT_ONCE = 1024 };

struct event {
  struct event *next, *before;
  int64_t at_us;
  void (*call)(void *);
  void *subject;
};

struct events {
  struct events *next;
  struct event events[EVENTS_AT_ONCE];
};

/* On the stack of a fiber that is parked. */
struct waiter {
  struct waiter *next;
  const void *subject;
  fiber *parked;
  struct event *alarm; /* NULL: there is none */
  bool woken;
};

static int64_t now_us;
static uint64_t random_state;
static struct event
    ring[RING_US]; /* heads of circular lists: what is of one place, as it was made */
static size_t event_count;
static struct event *unused;
static struct events *all_events;
static struct waiter *waiters[1 << WAITERS_BITS];

void virtual_begin(uint64_t seed) {
  now_us = BEGIN_US;
  random_state = seed;
  for (size_t i = 0; i < RING_US; i++)
    ring[i].next = ring[i].before = &ring[i];
}

void virtual_clean_up(void) {
  for (struct events *next; all_events != NULL; all_events = next) {
    next = all_events->next;
    free(all_events);
  }
  unused = NULL;
  event_count = 0;
}

int64_t virtual_now_us(void) {
  return now_us;
}

int64_t virtual_below(int64_t below) {
  return weir_random_below(&random_state, below);
}

/* --- events ------------------------------------------------------------------------------------
 */

static void make_room(void) {
  struct events *more = malloc(sizeof *more);
  if (more == NULL) {
    perror("events");
    exit(2);
  }
  more->next = all_events;
  all_events = more;
  for (size_t i = 0; i < EVENTS_AT_ONCE; i++) {
    more->events[i].next = unused;
    unused = &more->events[i];
  }
}

static struct event *make_event(int64_t at_us, void (*call)(void *), void *subject) {
  if (unused == NULL) make_room();
  struct event *made = unused;
  unused = made->next;
  if (at_us < now_us) at_us = now_us;
  struct event *head = &ring[at_us % RING_US];
  *made = (struct event){head, head->before, at_us, call, subject};
  made->before->next = head->before = made;
  event_count++;
  return made;
}

void virtual_at(int64_t at_us, void (*call)(void *), void *subject) {
  make_event(at_us, call, subject);
}

static void remove_event(struct event *removed) {
  removed->before->next = removed->next;
  removed->next->before = removed->before;
  removed->next = unused;
  unused = removed;
  event_count--;
}

/* The next of this time, of those that are due at it or whole turns of the ring later; NULL: there
 * is none. */
static struct event *find_due(void) {
  struct event *head = &ring[now_us % RING_US];
  struct event *due = head->next;
  while (due != head && due->at_us != now_us)
    due = due->next;
  return due == head ? NULL : due;
}

void virtual_run(void) {
  while (event_count > 0) {
    struct event *due = find_due();
    if (due == NULL) {
      now_us++;
      continue;
    }
    struct event event = *due;
    remove_event(due);
    event.call(event.subject);
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

static void give_up_waiting(void *subject) {
  struct waiter *waiter = subject;
  leave(waiter);
  fiber_resume(waiter->parked);
}

bool virtual_wait(const void *subject, int64_t until_us) {
  struct waiter **first = waiters_for(subject);
  struct waiter self = {.next = *first, .subject = subject, .parked = fiber_running()};
  if (until_us != INT64_MAX) self.alarm = make_event(until_us, give_up_waiting, &self);
  *first = &self;
  fiber_park();
  return self.woken;
}

/* The thread that is woken runs as an event of its own, after the one that wakes it. */
void virtual_wake(const void *subject) {
  struct waiter *waiter = *waiters_for(subject);
  while (waiter != NULL && waiter->subject != subject)
    waiter = waiter->next;
  if (waiter == NULL) return;
  leave(waiter);
  if (waiter->alarm != NULL) remove_event(waiter->alarm);
  waiter->woken = true;
  make_event(now_us, resume, waiter->parked);
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

/* --- threads -----------------------------------------------------------------------------------
 */

struct thread {
  void *(*run)(void *);
  void *argument;
  bool over;
};

static void live(void *subject) {
  struct thread *thread = subject;
  thread->run(thread->argument);
  thread->over = true;
  virtual_wake(thread);
}

static void begin_thread(void *subject) {
  fiber_start(live, subject);
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument) {
  (void)attributes;
  struct thread *made = malloc(sizeof *made);
  if (made == NULL) return EAGAIN;
  *made = (struct thread){.run = run, .argument = argument};
  *id = (pthread_t)(uintptr_t)made;
  virtual_at(now_us, begin_thread, made);
  return 0;
}

/* Joins a thread that is not over only from within a fiber. */
int __wrap_pthread_join(pthread_t id, void **result);
int __wrap_pthread_join(pthread_t id, void **result) {
  struct thread *thread = (struct thread *)(uintptr_t)id;
  (void)result;
  if (!thread->over) virtual_wait(thread, INT64_MAX);
  free(thread);
  return 0;
}

/* The secrets of stores: with them come the places of keys, and lengths of pauses. */
void __wrap_randombytes_buf(void *bytes, size_t count);
void __wrap_randombytes_buf(void *bytes, size_t count) {
  for (size_t at = 0; at < count; at += sizeof random_state) {
    uint64_t drawn = weir_random_next(&random_state);
    memcpy((char *)bytes + at, &drawn, count - at < sizeof drawn ? count - at : sizeof drawn);
  }
}
