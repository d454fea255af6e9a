#include "store/process.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/backend.h>

static atomic_uint number;
static atomic_bool watched;

static void begin_child(void) {
  atomic_fetch_add_explicit(&number, 1, memory_order_relaxed);
}

/* Without a lock, which a child could find taken. Two threads that come at once are both heard: a
 * child then is two further on, which is another number as well. */
bool weir_process_watch(void) {
  if (atomic_load(&watched)) return true;
  if (pthread_atfork(NULL, NULL, begin_child) != 0) return false;
  atomic_store(&watched, true);
  return true;
}

unsigned weir_process_number(void) {
  return atomic_load_explicit(&number, memory_order_relaxed);
}

weir_status weir_process_check(unsigned opened_in, const char *what, weir_message *message) {
  if (opened_in == weir_process_number()) return WEIR_OK;
  weir_message_set(message, "%s was opened in another process: open it after fork()", what);
  return WEIR_BAD_ARGUMENT;
}
