/* Connecting ahead of the first decision. */
#include <string.h>

#include "store/process.h"
#include "store/store.h"

#define TIMEOUT_LEAST_US INT64_C(1000)
#define TIMEOUT_MOST_US INT64_C(60000000)

/* Of a backend that does not connect ahead: whether it answers at all. */
static bool read_once(weir_store *store, int64_t deadline_us, weir_message *message) {
  static const char key[] = "weir:connect";
  weir_operation read = {
      .kind = WEIR_GET, .key = key, .key_length = sizeof key - 1, .home_length = sizeof key - 1};
  weir_store_exec(store, &read, 1, deadline_us, message);
  return read.outcome == WEIR_DONE || read.outcome == WEIR_ABSENT;
}

weir_status weir_store_connect(weir_store *store, int64_t timeout_us, weir_message *message) {
  weir_message why = {""};
  if (store == NULL) {
    weir_message_set(message, "the store is NULL");
    return WEIR_BAD_ARGUMENT;
  }
  if (timeout_us < TIMEOUT_LEAST_US || timeout_us > TIMEOUT_MOST_US) {
    weir_message_set(message, "timeout_us is %lld: accepted are %lld to %lld",
                     (long long)timeout_us, (long long)TIMEOUT_LEAST_US,
                     (long long)TIMEOUT_MOST_US);
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_process_check(store->process, "the store", message);
  if (status != WEIR_OK) return status;
  int64_t deadline_us = weir_monotonic_us() + timeout_us;
  bool ready = WEIR_BACKEND_HAS(store->backend, connect)
                   ? store->backend->connect(store->handle, deadline_us, &why)
                   : read_once(store, deadline_us, &why);
  if (ready) return WEIR_OK;
  weir_message_set(message, "%s", why.text);
  return WEIR_UNAVAILABLE;
}
