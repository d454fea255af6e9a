/* Open stores, from the inside: what a limiter does with one. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include <weir/backend.h>

#include "store/url.h"

struct weir_store {
  const weir_backend *backend;
  void *handle;
  char namespace_text[WEIR_NAMESPACE_MOST + 1]; /* empty: none */
  int64_t timeout_us;
  unsigned process; /* that opened it: weir_process_number() */
};

/* The backend's exec, with both sides held to the contract of weir/backend.h.
 *
 * An operation that breaks it keeps the whole batch from being sent: every outcome is REFUSED. An
 * outcome that breaks it, or is missing, becomes UNKNOWN. Either way the message says which
 * operation and what is wrong with it. The outcomes that come in do not matter; `message` may be
 * NULL, and is empty when there is nothing to explain. In another process than the one that opened
 * the store every outcome is REFUSED. */
void weir_store_exec(weir_store *store, weir_operation *operations, size_t count,
                     int64_t deadline_us, weir_message *message);

#endif
