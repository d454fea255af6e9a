#include "lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 100, TRIES_AWAKE = 32 };

/* The processor does nothing for a while: 50 ns on those of today, where it knows how. */
static void rest(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

/* Tries without writing: the holder's cache line stays with it. A thread that has slept does not know
 * of others that do, and so leaves it marked. */
void weir_lock_wait(weir_lock *lock) {
  for (int tries = 0; tries < TRIES; tries++)
    if (atomic_load_explicit(&lock->state, memory_order_relaxed) == WEIR_LOCK_FREE &&
        weir_lock_try(lock))
      return;
  while (atomic_exchange_explicit(&lock->state, WEIR_LOCK_WAITED_FOR, memory_order_acquire) !=
         WEIR_LOCK_FREE)
    syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, WEIR_LOCK_WAITED_FOR, NULL);
}

void weir_lock_wait_awake(weir_lock *lock) {
  for (int tries = 0; tries < TRIES_AWAKE; tries++) {
    rest();
    if (atomic_load_explicit(&lock->state, memory_order_relaxed) == WEIR_LOCK_FREE &&
        weir_lock_try(lock))
      return;
  }
  weir_lock_wait(lock);
}

void weir_lock_wake(weir_lock *lock) {
  syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1);
}
