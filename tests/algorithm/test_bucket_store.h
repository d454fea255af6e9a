/* A store of a few keys with the semantics of weir/backend.h, and clients that drive real machines
 * over it, one operation at a time if need be. Include after cmocka.h. */
#ifndef TESTS_ALGORITHM_TEST_BUCKET_STORE_H
#define TESTS_ALGORITHM_TEST_BUCKET_STORE_H

#include <stdlib.h>
#include <string.h>

#include "algorithm/algorithm.h"

enum { STORE_KEYS_MOST = 16, CLIENT_ASKS_MOST = 4 };

struct stored {
  bool present;
  uint32_t rule;
  int64_t index;
  int64_t value;
  uint64_t version;
  int64_t ttl_us;
};

struct toy_store {
  bool hides_versions; /* of what it wrote, as memcached's classic protocol does */
  bool splits_raises;  /* others may come between raising and adding, as with Redis */
  uint64_t version;
  uint64_t operations;
  struct stored keys[STORE_KEYS_MOST];
};

static inline struct stored *store_find(struct toy_store *store, uint32_t rule, int64_t index) {
  for (int i = 0; i < STORE_KEYS_MOST; i++) {
    struct stored *key = &store->keys[i];
    if (key->present && key->rule == rule && key->index == index) return key;
  }
  return NULL;
}

static inline struct stored *store_make(struct toy_store *store, uint32_t rule, int64_t index) {
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

static inline void store_write(struct toy_store *store, struct stored *key, weir_action *action,
                               int64_t value) {
  key->value = value;
  key->version = ++store->version;
  action->outcome = WEIR_DONE;
}

static inline void check_operation(const weir_action *action) {
  bool adds = action->kind == WEIR_ADD || action->kind == WEIR_SUB || action->kind == WEIR_RAISE;
  bool writes = action->kind == WEIR_CREATE || action->kind == WEIR_SWAP;
  assert_true(action->index >= 0);
  if (adds) assert_true(action->delta >= 1 && action->delta <= WEIR_VALUE_MOST);
  if (writes) assert_true(action->value >= 0 && action->value < WEIR_VALUE_MOST);
  if (action->kind == WEIR_RAISE) assert_in_range(action->floor, 0, INT64_C(1) << 52);
  if (action->kind == WEIR_SWAP) assert_true(action->version != 0);
  if (adds || writes) assert_in_range(action->ttl_us, 1000, WEIR_TTL_MOST_US);
  if (action->refresh) assert_true(action->kind == WEIR_RAISE);
  if (action->raised) assert_true(action->kind == WEIR_GET || action->kind == WEIR_SUB);
}

static inline void store_create(struct toy_store *store, struct stored *key, weir_action *action) {
  action->outcome = WEIR_CONFLICT;
  if (key != NULL) return;
  key = store_make(store, action->rule, action->index);
  store_write(store, key, action, action->value);
  action->version_out = store->hides_versions ? 0 : key->version;
}

static inline void store_swap(struct toy_store *store, struct stored *key, weir_action *action) {
  if (key == NULL) return;
  action->outcome = WEIR_CONFLICT;
  if (key->version != action->version) return;
  store_write(store, key, action, action->value);
  action->version_out = store->hides_versions ? 0 : key->version;
}

static inline void store_raise(struct toy_store *store, const weir_action *action) {
  struct stored *key = store_find(store, action->rule, action->index);
  if (key == NULL && !action->refresh) return;
  if (key == NULL) key = store_make(store, action->rule, action->index);
  if (key->value < action->floor) key->value = action->floor;
}

static inline void store_add(struct toy_store *store, struct stored *key, weir_action *action) {
  if (key == NULL && action->kind == WEIR_RAISE) return;
  if (key == NULL) key = store_make(store, action->rule, action->index);
  store_write(store, key, action, key->value + action->delta);
  action->value = key->value;
}

/* A RAISE has been raised before. */
static inline void store_execute(struct toy_store *store, weir_action *action) {
  struct stored *key = store_find(store, action->rule, action->index);
  check_operation(action);
  store->operations++;
  action->outcome = WEIR_ABSENT;
  switch (action->kind) {
    case WEIR_CREATE:
      store_create(store, key, action);
      break;
    case WEIR_SWAP:
      store_swap(store, key, action);
      break;
    case WEIR_ADD:
    case WEIR_RAISE:
      store_add(store, key, action);
      break;
    case WEIR_GET:
      if (key == NULL) break;
      action->outcome = WEIR_DONE;
      action->value = key->value;
      action->version_out = key->version;
      break;
    case WEIR_SUB:
      if (key == NULL) break;
      store_write(store, key, action, key->value - action->delta);
      action->value = key->value;
      break;
    case WEIR_DROP:
      if (key == NULL) break;
      key->present = false;
      action->outcome = WEIR_DONE;
      break;
    case WEIR_PUT:
      fail_msg("no bucket and no window puts");
  }
  key = store_find(store, action->rule, action->index);
  bool renews = action->kind == WEIR_CREATE || action->kind == WEIR_SWAP || action->refresh;
  if (key != NULL && action->outcome == WEIR_DONE && renews) key->ttl_us = action->ttl_us;
}

/* A process: what it remembers, and the machine it is at. */
struct client {
  const weir_stack *stack;
  weir_terms terms;
  weir_memo *memo;
  weir_machine *machine;
  weir_turn turn;
  weir_ask asks[CLIENT_ASKS_MOST];
  size_t landed; /* operations of this round that were executed */
  bool raised;   /* and half of the next one */
};

static inline weir_stack stack_of(const char *rules) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(rules, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack;
}

static inline weir_terms terms_of(unsigned traits) {
  return (weir_terms){.clock_error_us = 10000,
                      .margin_us = 40000,
                      .memo_age_us = 1000000,
                      .local_denial_us = 50000,
                      .longest_wait_us = 60000000,
                      .traits = traits,
                      .cached_cells = true,
                      .local_denial = true};
}

static inline struct client client_of(const weir_stack *stack, unsigned traits) {
  void *memory = malloc(weir_machine_bytes(stack));
  struct client client = {.stack = stack, .terms = terms_of(traits), .turn = WEIR_TURN_DONE};
  client.memo = calloc(1, weir_memo_bytes(stack));
  client.machine = weir_machine_init(memory, stack, NULL);
  return client;
}

static inline void client_free(struct client *client) {
  free(client->machine);
  free(client->memo);
}

/* Begins with asks[0 .. count - 1], which the caller has filled. */
static inline void client_start(struct client *client, int64_t now_us, size_t count) {
  client->machine->terms = &client->terms;
  for (size_t i = 0; i < count; i++) {
    client->asks[i].settled = false;
    client->asks[i].next = i + 1 < count ? &client->asks[i + 1] : NULL;
  }
  client->landed = 0;
  client->turn = weir_machine_start(client->machine, now_us, client->memo, client->asks);
}

static inline void client_take(struct client *client, int64_t now_us, int64_t cost) {
  client->asks[0] = (weir_ask){.kind = WEIR_ASK_TAKE, .cost = cost};
  client_start(client, now_us, 1);
}

static inline void client_keep(struct client *client) {
  if (client->turn == WEIR_TURN_DONE)
    memcpy(client->memo, client->machine->notes, weir_memo_bytes(client->stack));
}

/* Executes the next operation of the round, or half of it. */
static inline void client_land(struct client *client, struct toy_store *store) {
  assert_true(client->landed < client->machine->action_count);
  weir_action *action = &client->machine->actions[client->landed];
  if (action->kind == WEIR_RAISE && !client->raised) {
    store_raise(store, action);
    client->raised = true;
    if (store->splits_raises) return;
  }
  client->raised = false;
  client->landed++;
  store_execute(store, action);
}

/* Executes what is left of the round and goes on; after a pause, only that. */
static inline void client_round(struct client *client, struct toy_store *store, int64_t now_us,
                                bool late) {
  while (client->turn == WEIR_TURN_EXECUTE && client->landed < client->machine->action_count)
    client_land(client, store);
  client->landed = 0;
  client->turn = weir_machine_resume(client->machine, now_us, late);
  client_keep(client);
}

/* To the end, with the clock standing still. */
static inline void client_finish(struct client *client, struct toy_store *store, int64_t now_us) {
  for (int rounds = 0; client->turn != WEIR_TURN_DONE; rounds++) {
    assert_true(rounds < 20);
    client_round(client, store, now_us, false);
  }
  client_keep(client);
}

static inline const weir_decision *client_decide(struct client *client, struct toy_store *store,
                                                 int64_t now_us, int64_t cost) {
  client_take(client, now_us, cost);
  client_finish(client, store, now_us);
  assert_int_equal(client->asks[0].status, WEIR_OK);
  return &client->asks[0].decision;
}

static inline void expect_action(const struct client *client, size_t action,
                                 weir_operation_kind kind) {
  assert_int_equal(client->turn, WEIR_TURN_EXECUTE);
  assert_in_range(action, 0, client->machine->action_count - 1);
  assert_int_equal(client->machine->actions[action].kind, kind);
}

#endif
