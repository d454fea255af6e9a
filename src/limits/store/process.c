#include "store/process.h"

#include <pthread.h>

#include <weir/backend.h>

atomic_uint weir_process_number;

static atomic_bool watched;

static void begin_child(void) {
  atomic_fetch_add_explicit(&weir_process_number, 1, memory_order_relaxed);
}

/* Without a lock, which a child could find taken. Two threads that come at once are both heard: a
 * child then is two further on, which is another number as well. */
bool weir_process_watch(void) {
  if (atomic_load(&watched)) return true;
  if (pthread_atfork(NULL, NULL, begin_child) != 0) return false;
  atomic_store(&watched, true);
  return true;
}

weir_status weir_process_check(unsigned opened_in, const char *what, weir_message *message) {
  if (opened_in == weir_process_number) return WEIR_OK;
  weir_message_set(message, "%s was opened in another process: open it after fork()", what);
  return WEIR_BAD_ARGUMENT;
}
