/* Conditions that are waited for by the clock of deadlines, weir_monotonic_us(): one that is set back
 * or forward lets no thread sleep longer or shorter. */
#ifndef WEIR_COMMON_CONDITION_H
#define WEIR_COMMON_CONDITION_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* False: the system has no memory for it. */
static inline bool weir_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic) != 0) return false;
  bool made = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(condition, &monotonic) == 0;
  pthread_condattr_destroy(&monotonic);
  return made;
}

/* Waits, with the mutex let go, to be told or for this moment. False: it has come. As with any condition
 * a thread may wake for nothing. */
static inline bool weir_condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                             int64_t end_us) {
  struct timespec end = {.tv_sec = (time_t)(end_us / 1000000),
                         .tv_nsec = (long)(end_us % 1000000) * 1000};
  return pthread_cond_timedwait(condition, mutex, &end) != ETIMEDOUT;
}

#endif
