/* Connections that are cut anywhere, and keys that vanish at any time: afterwards, at the latest
 * after the next use, every key has a TTL, and no counter is further off than what was lost
 * explains. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "redis/plain.h"
#include "redis/relay.h"

enum { KEYS = 12, BATCH = 10, LOOKS = 40, ROUNDS = 20, CUT_MOST = 3000 };

static const weir_operation_kind kinds[KEYS] = {WEIR_ADD, WEIR_ADD, WEIR_ADD,   WEIR_SUB,
                                                WEIR_ADD, WEIR_SUB, WEIR_ADD,   WEIR_SUB,
                                                WEIR_ADD, WEIR_SUB, WEIR_RAISE, WEIR_RAISE};
static char keys[KEYS][16];

/* Key `i` is used by operations that fit what it holds. */
static weir_operation use(unsigned i, unsigned chance) {
  weir_operation_kind kind = kinds[i];
  if (kind != WEIR_RAISE) kind = chance % 3 == 0 ? WEIR_SUB : WEIR_ADD;
  weir_operation operation = operation_on(kind, keys[i]);
  operation.delta = 1 + chance % 5;
  operation.floor = 1000;
  operation.refresh = chance % 7 == 0;
  operation.seed = i % 2 == 0 ? 0 : 100;
  operation.ttl_us = chance % 4 == 0 ? 1000 : MINUTE_US;
  return operation;
}

static unsigned chance_next(unsigned *state) {
  *state = *state * 1664525U + 1013904223U;
  return *state >> 8;
}

static unsigned run_batch(weir_store *store, unsigned *state) {
  weir_operation batch[BATCH];
  unsigned unknown = 0;
  for (unsigned i = 0; i < BATCH; i++)
    batch[i] = use(chance_next(state) % KEYS, chance_next(state));
  weir_store_exec(store, batch, BATCH, deadline_in_ms(500), NULL);
  for (unsigned i = 0; i < BATCH; i++) {
    assert_int_not_equal(batch[i].outcome, WEIR_REFUSED);
    unknown += batch[i].outcome == WEIR_UNKNOWN;
  }
  return unknown;
}

/* Deletes keys as an eviction would: at any time, between any two commands. */
typedef struct vanisher {
  redisContext *plain;
  atomic_bool stopping;
  pthread_t thread;
} vanisher;

static void *vanish(void *argument) {
  vanisher *self = argument;
  unsigned state = 7;
  while (!atomic_load(&self->stopping)) {
    redisReply *reply = redisCommand(self->plain, "DEL %s", keys[chance_next(&state) % KEYS]);
    freeReplyObject(reply);
    poll(NULL, 0, 1); /* most keys live long enough to be looked at */
  }
  return NULL;
}

static weir_store *open_port(unsigned port) {
  char url[64];
  weir_store *store = NULL;
  weir_message message = {""};
  snprintf(url, sizeof url, "redis://127.0.0.1:%u?timeout=500ms", port);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s", message.text);
  return store;
}

/* Uses every key once. */
static void use_all(weir_store *store) {
  for (unsigned i = 0; i < KEYS; i++) {
    weir_operation operation = use(i, 1);
    weir_outcome outcome = execute(store, operation, NULL).outcome;
    assert_true(outcome == WEIR_DONE || outcome == WEIR_ABSENT);
  }
}

static void name_keys(void) {
  for (unsigned i = 0; i < KEYS; i++)
    snprintf(keys[i], sizeof keys[i], "weir:{%u}", i);
}

/* Writes through the relay while keys vanish. */
static unsigned disturb(weir_store *store, redisContext *plain, unsigned *chance) {
  vanisher evictor = {.plain = plain};
  unsigned unknown = 0;
  atomic_init(&evictor.stopping, false);
  assert_int_equal(pthread_create(&evictor.thread, NULL, vanish, &evictor), 0);
  for (int round = 0; round < ROUNDS; round++)
    unknown += run_batch(store, chance);
  atomic_store(&evictor.stopping, true);
  pthread_join(evictor.thread, NULL);
  return unknown;
}

static void after_the_next_use_every_key_has_a_ttl(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  struct relay *relay = relay_start(server, 1, CUT_MOST);
  redisContext *plain = plain_connect(server);
  weir_store *cut_off = open_port(relay_port(relay));
  weir_store *whole = open_port(server_port(server));
  unsigned chance = 3;
  unsigned unknown = 0;
  long long bare = 0;
  size_t count;
  for (int look = 0; look < LOOKS; look++) {
    unknown += disturb(cut_off, plain, &chance);
    bare += plain_count_immortal(plain, &count);
    use_all(whole);
    assert_int_equal(plain_count_immortal(plain, &count), 0);
    assert_true(count >= KEYS / 2);
  }
  unsigned cuts = relay_stop(relay);
  printf("%d writes, %u connections cut, %u outcomes unknown, %lld times a key had no TTL\n",
         LOOKS * ROUNDS, cuts, unknown, bare);
  assert_true(cuts > LOOKS * ROUNDS / 10);
  weir_store_close(whole);
  weir_store_close(cut_off);
  redisFree(plain);
}

/* A take-back that was cut, of keys that are not there, leaves none below nothing and none without
 * a TTL. */
static void a_cut_sub_leaves_nothing_below_nothing(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  struct relay *relay = relay_start(server, 5, 120);
  redisContext *plain = plain_connect(server);
  weir_store *store = open_port(relay_port(relay));
  size_t count;
  for (int round = 0; round < 200; round++) {
    char key[24];
    snprintf(key, sizeof key, "weir:{%d}", round);
    execute(store, sub_from(key, 5), NULL);
  }
  assert_int_equal(plain_count_immortal(plain, &count), 0);
  assert_true(count > 20);
  redisReply *names = redisCommand(plain, "KEYS *");
  for (size_t i = 0; i < names->elements; i++) {
    redisReply *value = redisCommand(plain, "GET %s", names->element[i]->str);
    long number = strtol(value->str, NULL, 10);
    assert_true(number == 0 || number == 5); /* 5: cut between SET and DECRBY */
    freeReplyObject(value);
  }
  freeReplyObject(names);
  relay_stop(relay);
  weir_store_close(store);
  redisFree(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(after_the_next_use_every_key_has_a_ttl),
      cmocka_unit_test(a_cut_sub_leaves_nothing_below_nothing),
  };
  name_keys();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
