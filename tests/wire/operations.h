/* Short forms for operations and their execution in tests. The home of a key is the text between
 * its braces, or all of it. */
#ifndef TESTS_WIRE_OPERATIONS_H
#define TESTS_WIRE_OPERATIONS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "fixture/clock.h"
#include "fixture/servers.h"
#include "store/store.h"

/* PATIENCE_MS: for what is to end well on however busy a machine. */
enum { MINUTE_US = 60 * 1000000, PATIENCE_MS = 30000 };

static inline weir_operation operation_on(weir_operation_kind kind, const char *key) {
  const char *open = strchr(key, '{');
  const char *shut = open == NULL ? NULL : strchr(open, '}');
  weir_operation operation = {.kind = kind, .key = key, .key_length = (uint16_t)strlen(key)};
  operation.home_length = operation.key_length;
  if (shut != NULL) {
    operation.home_offset = (uint16_t)(open + 1 - key);
    operation.home_length = (uint16_t)(shut - open - 1);
  }
  operation.ttl_us = MINUTE_US;
  return operation;
}

static inline weir_operation add_to(const char *key, int64_t delta) {
  weir_operation operation = operation_on(WEIR_ADD, key);
  operation.delta = delta;
  return operation;
}

static inline weir_operation sub_from(const char *key, int64_t delta) {
  weir_operation operation = operation_on(WEIR_SUB, key);
  operation.delta = delta;
  return operation;
}

static inline weir_operation get_of(const char *key) {
  return operation_on(WEIR_GET, key);
}

static inline weir_operation put_to(weir_operation_kind kind, const char *key, int64_t value) {
  weir_operation operation = operation_on(kind, key);
  operation.value = value;
  return operation;
}

static inline weir_operation swap_to(const char *key, uint64_t version, int64_t value) {
  weir_operation operation = put_to(WEIR_SWAP, key, value);
  operation.version = version;
  return operation;
}

static inline weir_store *open_servers(struct server *const *servers, size_t count,
                                       const char *query) {
  char url[SERVER_URL_BYTES];
  weir_message message = {""};
  weir_store *store = NULL;
  server_url(servers, count, query, url);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

/* Executes one operation, patiently. */
static inline weir_operation execute(weir_store *store, weir_operation operation,
                                     weir_message *message) {
  weir_store_exec(store, &operation, 1, deadline_in_ms(PATIENCE_MS), message);
  return operation;
}

/* Whether the breaker ended a call at once, with no word to the server. */
static inline bool was_turned_away(weir_operation operation, const weir_message *message) {
  return operation.outcome == WEIR_NOT_SENT &&
         strstr(message->text, ": not answering (last: ") != NULL;
}

/* The same as execute, for a server that is back: calls that are still turned away are made again.
 */
static inline weir_operation execute_when_back(weir_store *store, weir_operation operation,
                                               weir_message *message) {
  int64_t end_us = deadline_in_ms(PATIENCE_MS);
  weir_operation made = execute(store, operation, message);
  while (was_turned_away(made, message) && weir_monotonic_us() < end_us) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    made = execute(store, operation, message);
  }
  return made;
}

#define assert_outcome(operation, expected) assert_int_equal((operation).outcome, expected)

#define assert_done(operation, expected)           \
  do {                                             \
    weir_operation asserted = (operation);         \
    assert_int_equal(asserted.outcome, WEIR_DONE); \
    assert_int_equal(asserted.value, expected);    \
  } while (0)

#endif
