/* A store of a few keys with the semantics of weir/backend.h, and clients that drive real machines
 * over it, one operation at a time if need be. Include after cmocka.h. */
#ifndef TESTS_ALGORITHM_TEST_BUCKET_STORE_H
#define TESTS_ALGORITHM_TEST_BUCKET_STORE_H

#include <stdlib.h>
#include <string.h>

#include "algorithm/view.h"

enum { STORE_KEYS_MOST = 16, CLIENT_REQUESTS_MOST = 4 };

struct stored {
  bool present;
  uint32_t rule;
  int64_t index;
  int64_t value;
  uint64_t version;
  int64_t ttl_us;
};

struct fake_store {
  bool hides_versions; /* of what it wrote, as memcached's classic protocol does */
  bool splits_raises;  /* others may come between raising and adding, as with Redis */
  uint64_t version;
  uint64_t operations;
  struct stored keys[STORE_KEYS_MOST];
};

static inline struct stored *store_find(struct fake_store *store, uint32_t rule, int64_t index) {
  for (int i = 0; i < STORE_KEYS_MOST; i++) {
    struct stored *key = &store->keys[i];
    if (key->present && key->rule == rule && key->index == index) return key;
  }
  return NULL;
}

static inline struct stored *store_make(struct fake_store *store, uint32_t rule, int64_t index) {
  struct stored *key = store->keys;
  while (key < store->keys + STORE_KEYS_MOST && key->present)
    key++;
  if (key == store->keys + STORE_KEYS_MOST) { /* the oldest epoch is long gone */
    key = store->keys;
    for (int i = 1; i < STORE_KEYS_MOST; i++)
      if (store->keys[i].index < key->index) key = &store->keys[i];
  }
  *key = (struct stored){.present = true, .rule = rule, .index = index};
  return key;
}

static inline void store_write(struct fake_store *store, struct stored *key,
                               weir_operation *operation, int64_t value) {
  key->value = value;
  key->version = ++store->version;
  operation->outcome = WEIR_DONE;
}

static inline void check_operation(const weir_operation *operation) {
  bool adds =
      operation->kind == WEIR_ADD || operation->kind == WEIR_SUB || operation->kind == WEIR_RAISE;
  bool writes = operation->kind == WEIR_CREATE || operation->kind == WEIR_SWAP;
  assert_true(operation->counter.index >= 0);
  if (adds) assert_true(operation->delta >= 1 && operation->delta <= WEIR_VALUE_MOST);
  if (writes) assert_true(operation->value >= 0 && operation->value < WEIR_VALUE_MOST);
  if (operation->kind == WEIR_RAISE) assert_in_range(operation->floor, 0, INT64_C(1) << 52);
  if (operation->kind == WEIR_SWAP) assert_true(operation->version != 0);
  if (adds || writes) assert_in_range(operation->ttl_us, 1000, WEIR_TTL_MOST_US);
  if (operation->refresh) assert_true(operation->kind == WEIR_RAISE);
  if (operation->raised) assert_true(operation->kind == WEIR_GET || operation->kind == WEIR_SUB);
}

static inline void store_create(struct fake_store *store, struct stored *key,
                                weir_operation *operation) {
  operation->outcome = WEIR_CONFLICT;
  if (key != NULL) return;
  key = store_make(store, operation->counter.rule, operation->counter.index);
  store_write(store, key, operation, operation->value);
  operation->version_out = store->hides_versions ? 0 : key->version;
}

static inline void store_swap(struct fake_store *store, struct stored *key,
                              weir_operation *operation) {
  if (key == NULL) return;
  operation->outcome = WEIR_CONFLICT;
  if (key->version != operation->version) return;
  store_write(store, key, operation, operation->value);
  operation->version_out = store->hides_versions ? 0 : key->version;
}

static inline void store_raise(struct fake_store *store, const weir_operation *operation) {
  struct stored *key = store_find(store, operation->counter.rule, operation->counter.index);
  if (key == NULL && !operation->refresh) return;
  if (key == NULL) key = store_make(store, operation->counter.rule, operation->counter.index);
  if (key->value < operation->floor) key->value = operation->floor;
}

static inline void store_add(struct fake_store *store, struct stored *key,
                             weir_operation *operation) {
  if (key == NULL && operation->kind == WEIR_RAISE) return;
  if (key == NULL) key = store_make(store, operation->counter.rule, operation->counter.index);
  store_write(store, key, operation, key->value + operation->delta);
  operation->value = key->value;
}

/* A RAISE has been raised before. */
static inline void store_execute(struct fake_store *store, weir_operation *operation) {
  struct stored *key = store_find(store, operation->counter.rule, operation->counter.index);
  check_operation(operation);
  store->operations++;
  operation->outcome = WEIR_ABSENT;
  switch (operation->kind) {
    case WEIR_CREATE:
      store_create(store, key, operation);
      break;
    case WEIR_SWAP:
      store_swap(store, key, operation);
      break;
    case WEIR_ADD:
    case WEIR_RAISE:
      store_add(store, key, operation);
      break;
    case WEIR_GET:
      if (key == NULL) break;
      operation->outcome = WEIR_DONE;
      operation->value = key->value;
      operation->version_out = key->version;
      break;
    case WEIR_SUB:
      if (key == NULL) break;
      store_write(store, key, operation, key->value - operation->delta);
      operation->value = key->value;
      break;
    case WEIR_DROP:
      if (key == NULL) break;
      key->present = false;
      operation->outcome = WEIR_DONE;
      break;
    case WEIR_PUT:
      fail_msg("no bucket and no window puts");
  }
  key = store_find(store, operation->counter.rule, operation->counter.index);
  bool renews =
      operation->kind == WEIR_CREATE || operation->kind == WEIR_SWAP || operation->refresh;
  if (key != NULL && operation->outcome == WEIR_DONE && renews) key->ttl_us = operation->ttl_us;
}

/* A process: what it remembers, and the machine it is at. */
struct client {
  const weir_stack *stack;
  weir_settings settings;
  weir_memo *memo;
  weir_machine *machine;
  weir_operation *operations; /* of one round */
  weir_turn turn;
  weir_claim requests[CLIENT_REQUESTS_MOST];
  size_t landed; /* operations of this round that were executed */
  bool raised;   /* and half of the next one */
};

static inline weir_stack stack_of(const char *rules) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(rules, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack;
}

static inline weir_settings settings_of(unsigned traits) {
  return (weir_settings){.clock_error_us = 10000,
                         .ahead_us = 40000,
                         .final_us = 120000,
                         .memo_age_us = 1000000,
                         .local_denial_us = 50000,
                         .longest_wait_us = 60000000,
                         .traits = traits,
                         .cached_cells = true,
                         .local_denial = true};
}

static inline struct client client_of(const weir_stack *stack, unsigned traits) {
  struct client client = {.stack = stack, .settings = settings_of(traits), .turn = WEIR_TURN_DONE};
  client.memo = calloc(1, weir_memo_bytes(stack));
  client.operations = calloc(weir_machine_operations_most(stack), sizeof *client.operations);
  client.machine = malloc(weir_machine_bytes(stack));
  return client;
}

static inline void client_free(struct client *client) {
  free(client->machine);
  free(client->operations);
  free(client->memo);
}

/* Begins with requests[0 .. count - 1], which the caller has filled. */
static inline void client_start(struct client *client, int64_t now_us, size_t count) {
  weir_machine_init(client->machine, client->stack, &client->settings);
  for (size_t i = 0; i < count; i++) {
    client->requests[i].verdict.answered = false;
    client->requests[i].next = i + 1 < count ? &client->requests[i + 1] : NULL;
  }
  client->landed = 0;
  client->turn = weir_machine_start(client->machine, now_us, client->memo, client->requests,
                                    client->operations);
}

static inline void client_take(struct client *client, int64_t now_us, int64_t cost) {
  client->requests[0] = (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = cost}};
  client_start(client, now_us, 1);
}

static inline void client_keep(struct client *client) {
  if (client->turn == WEIR_TURN_DONE)
    memcpy(client->memo, client->machine->frame.memo, weir_memo_bytes(client->stack));
}

/* Executes the next operation of the round, or half of it. */
static inline void client_land(struct client *client, struct fake_store *store) {
  assert_true(client->landed < client->machine->frame.operation_count);
  weir_operation *operation = &client->machine->frame.operations[client->landed];
  if (operation->kind == WEIR_RAISE && !client->raised) {
    store_raise(store, operation);
    client->raised = true;
    if (store->splits_raises) return;
  }
  client->raised = false;
  client->landed++;
  store_execute(store, operation);
}

/* Executes what is left of the round and goes on; after a pause, only that. */
static inline void client_round(struct client *client, struct fake_store *store, int64_t now_us,
                                bool late) {
  while (client->turn == WEIR_TURN_EXECUTE &&
         client->landed < client->machine->frame.operation_count)
    client_land(client, store);
  client->landed = 0;
  client->turn = weir_machine_resume(client->machine, now_us, late, client->operations);
  client_keep(client);
}

/* To the end, with the clock standing still. */
static inline void client_finish(struct client *client, struct fake_store *store, int64_t now_us) {
  for (int rounds = 0; client->turn != WEIR_TURN_DONE; rounds++) {
    assert_true(rounds < 20);
    client_round(client, store, now_us, false);
  }
  client_keep(client);
}

static inline const weir_decision *client_decide(struct client *client, struct fake_store *store,
                                                 int64_t now_us, int64_t cost) {
  client_take(client, now_us, cost);
  client_finish(client, store, now_us);
  assert_int_equal(client->requests[0].verdict.status, WEIR_OK);
  return &client->requests[0].verdict.decision;
}

static inline void expect_operation(const struct client *client, size_t operation,
                                    weir_operation_kind kind) {
  assert_int_equal(client->turn, WEIR_TURN_EXECUTE);
  assert_in_range(operation, 0, client->machine->frame.operation_count - 1);
  assert_int_equal(client->machine->frame.operations[operation].kind, kind);
}

#endif
