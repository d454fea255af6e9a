/* Two processes at one bucket of five that gains a token in 100 ms: its units are microseconds.
 * Include after cmocka.h. */
#ifndef TESTS_ALGORITHM_TEST_BUCKET_BENCH_H
#define TESTS_ALGORITHM_TEST_BUCKET_BENCH_H

#include "test_bucket_store.h"

#define TOKENS_5 "token-bucket:10/1s,burst=5"
#define QUEUE_4 "leaky-bucket:10/1s,queue=4"
#define NOW INT64_C(1700000000000000)
enum { TOKEN = 100000 };

struct bench {
  weir_stack stack;
  struct fake_store store;
  struct client one, other;
};

static inline struct bench *set_up(const char *rule, unsigned traits) {
  struct bench *b = calloc(1, sizeof *b);
  b->stack = stack_of(rule);
  b->one = client_of(&b->stack, traits);
  b->other = client_of(&b->stack, traits);
  return b;
}

static inline void tear_down(struct bench *b) {
  client_free(&b->one);
  client_free(&b->other);
  free(b);
}

static inline int64_t stored_in(struct bench *b, int64_t index) {
  return store_find(&b->store, 0, index)->value;
}

static inline void store_put(struct bench *b, int64_t index, int64_t value) {
  weir_operation create = {.kind = WEIR_CREATE, .counter.index = index, .ttl_us = 5000000};
  store_execute(&b->store, &create);
  store_find(&b->store, 0, index)->value = value;
}

static inline const weir_decision *take(struct bench *b, struct client *client, int64_t now_us,
                                        int64_t cost) {
  return client_decide(client, &b->store, now_us, cost);
}

/* Up to the charge, which has not landed. */
static inline void begin_take(struct bench *b, struct client *client, int64_t now_us,
                              int64_t cost) {
  client_take(client, now_us, cost);
  while (client->machine->frame.phase == WEIR_PHASE_LOOK)
    client_round(client, &b->store, now_us, false);
  assert_int_equal(client->machine->frame.phase, WEIR_PHASE_CHARGE);
}

static inline void start_waiting(struct client *client, int64_t now_us, int64_t cost,
                                 int64_t wait_us) {
  client->requests[0] =
      (weir_claim){.ask = {.kind = WEIR_TAKE, .cost = cost, .waits = true, .wait_us = wait_us}};
  client_start(client, now_us, 1);
}

static inline const weir_decision *wait_for(struct bench *b, struct client *client, int64_t now_us,
                                            int64_t cost, int64_t wait_us) {
  start_waiting(client, now_us, cost, wait_us);
  client_finish(client, &b->store, now_us);
  assert_int_equal(client->requests[0].verdict.status, WEIR_OK);
  return &client->requests[0].verdict.decision;
}

static inline void start_refund(struct client *client, int64_t now_us, int64_t cost, int64_t at_us,
                                int64_t *ends) {
  client->requests[0] =
      (weir_claim){.ask = {.kind = WEIR_REFUND, .cost = cost, .at_us = at_us, .ends = ends}};
  client_start(client, now_us, 1);
}

static inline weir_status refund(struct bench *b, int64_t now_us, int64_t cost, int64_t at_us,
                                 int64_t *ends) {
  start_refund(&b->other, now_us, cost, at_us, ends);
  client_finish(&b->other, &b->store, now_us);
  return b->other.requests[0].verdict.status;
}

static inline const weir_decision *peek(struct bench *b, struct client *client, int64_t now_us) {
  client->requests[0] = (weir_claim){.ask = {.kind = WEIR_PEEK, .cost = 1}};
  client_start(client, now_us, 1);
  client_finish(client, &b->store, now_us);
  return &client->requests[0].verdict.decision;
}

static inline void start_reset(struct client *client, int64_t now_us) {
  client->requests[0] = (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}};
  client_start(client, now_us, 1);
}

#endif
