/* A lock of one word, for what is held for less time than a thread takes to sleep and wake: taking and
 * letting go of a free one is an exchange each. A thread that finds it held tries a hundred times, and
 * then sleeps until it is woken.
 *
 * As in Drepper, "Futexes are tricky" (2011). Zeroed it is free. In a child of a process, one that a
 * thread of the parent held at the fork is never let go. */
#ifndef WEIR_COMMON_LOCK_H
#define WEIR_COMMON_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

enum weir_lock_state { WEIR_LOCK_FREE, WEIR_LOCK_HELD, WEIR_LOCK_WAITED_FOR };

typedef struct weir_lock {
  atomic_uint state; /* enum weir_lock_state; WAITED_FOR: held, and a thread may sleep for it */
} weir_lock;

static inline bool weir_lock_try(weir_lock *lock) {
  unsigned seen = WEIR_LOCK_FREE;
  return atomic_compare_exchange_strong_explicit(&lock->state, &seen, WEIR_LOCK_HELD,
                                                 memory_order_acquire, memory_order_relaxed);
}

/* Where it is held by another thread. */
void weir_lock_wait(weir_lock *lock);
void weir_lock_wake(weir_lock *lock);

static inline void weir_lock_take(weir_lock *lock) {
  if (!weir_lock_try(lock)) weir_lock_wait(lock);
}

/* The same where who holds it comes seldom, finds its caches cold, and so holds it longer than others do,
 * but for less time than a sleep takes: this tries for that long first. */
void weir_lock_wait_awake(weir_lock *lock);

static inline void weir_lock_take_awake(weir_lock *lock) {
  if (!weir_lock_try(lock)) weir_lock_wait_awake(lock);
}

static inline void weir_lock_leave(weir_lock *lock) {
  if (atomic_exchange_explicit(&lock->state, WEIR_LOCK_FREE, memory_order_release) ==
      WEIR_LOCK_WAITED_FOR)
    weir_lock_wake(lock);
}

#endif
