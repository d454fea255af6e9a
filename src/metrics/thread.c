#include "metrics/thread.h"

#include <stdatomic.h>

unsigned weir_thread_place(void) {
  static atomic_uint threads;
  static _Thread_local unsigned place; /* from 1; 0: none yet */
  if (place == 0)
    place = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % WEIR_THREAD_PLACES;
  return place - 1;
}
