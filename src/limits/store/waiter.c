/* Where threads sleep until others have answered them.
 *
 * A waiter is told by threads that may still be about to do so when the one that slept has gone on. So
 * none is freed while its store is open: limiters take theirs from the store and hand them back, and
 * a thread that tells one late touches memory that is there, and wakes another for nothing.
 */
#include <stdlib.h>

#include "condition.h"
#include "store/store.h"

static void put_back(weir_store *store, weir_waiter *first, weir_waiter *last) {
  last->next = atomic_load_explicit(&store->waiters, memory_order_relaxed);
  while (!atomic_compare_exchange_weak(&store->waiters, &last->next, first)) {
  }
}

static weir_waiter *create(void) {
  weir_waiter *waiter = calloc(1, sizeof *waiter);
  if (waiter == NULL) return NULL;
  if (!weir_condition_init(&waiter->changed)) goto no_condition;
  if (pthread_mutex_init(&waiter->mutex, NULL) != 0) goto no_mutex;
  return waiter;

no_mutex:
  pthread_cond_destroy(&waiter->changed);
no_condition:
  free(waiter);
  return NULL;
}

/* All are taken off at once, which no other thread can disturb, and those that are left put back. */
weir_waiter *weir_store_take_waiter(weir_store *store) {
  weir_waiter *taken = atomic_exchange(&store->waiters, NULL);
  if (taken == NULL) return create();
  weir_waiter *last = taken->next;
  while (last != NULL && last->next != NULL)
    last = last->next;
  if (last != NULL) put_back(store, taken->next, last);
  return taken;
}

void weir_store_keep_waiter(weir_store *store, weir_waiter *waiter) {
  put_back(store, waiter, waiter);
}

void weir_store_free_waiters(weir_store *store) {
  for (weir_waiter *waiter = store->waiters, *next; waiter != NULL; waiter = next) {
    next = waiter->next;
    pthread_cond_destroy(&waiter->changed);
    pthread_mutex_destroy(&waiter->mutex);
    free(waiter);
  }
}
