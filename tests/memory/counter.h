/* Operations on a memory store, one a call, through the check that every exec passes. */
#ifndef TESTS_MEMORY_COUNTER_H
#define TESTS_MEMORY_COUNTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/clock.h"
#include "store/store.h"

#define MINUTE_US INT64_C(60000000)

static inline weir_store *open_memory(const char *url) {
  weir_store *store;
  weir_message message = {""};
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s", message.text);
  return store;
}

/* Fills in the key, and runs it. */
static inline weir_operation run(weir_store *store, const char *key, weir_operation operation) {
  weir_message message;
  operation.key = key;
  operation.key_length = (uint16_t)strlen(key);
  operation.home_length = operation.key_length;
  weir_store_exec(store, &operation, 1, deadline_in_ms(60000), &message);
  return operation;
}

static inline weir_operation add(weir_store *store, const char *key, int64_t delta,
                                 int64_t ttl_us) {
  return run(store, key, (weir_operation){.kind = WEIR_ADD, .delta = delta, .ttl_us = ttl_us});
}

static inline weir_operation get(weir_store *store, const char *key) {
  return run(store, key, (weir_operation){.kind = WEIR_GET});
}

static inline weir_operation put(weir_store *store, const char *key, int64_t value,
                                 int64_t ttl_us) {
  return run(store, key, (weir_operation){.kind = WEIR_PUT, .value = value, .ttl_us = ttl_us});
}

static inline void assert_holds(weir_store *store, const char *key, int64_t value) {
  weir_operation operation = get(store, key);
  assert_int_equal(operation.outcome, WEIR_DONE);
  assert_int_equal(operation.value, value);
}

static inline void assert_absent(weir_store *store, const char *key) {
  assert_int_equal(get(store, key).outcome, WEIR_ABSENT);
}

/* For setup and teardown: every test has a store of its own in *state. */
static inline int set_up_store(void **state) {
  *state = open_memory("memory:");
  return 0;
}

static inline int tear_down_store(void **state) {
  weir_store_close(*state);
  return 0;
}

#endif
