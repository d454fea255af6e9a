/* Connections that are cut anywhere, and keys that vanish at any time: no key stays without a TTL
 * that nobody was cut from; and what a cut leaves is mended by the next use of who does not know
 * the key, or by one of the next 64 of who does. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "fixture/proxy.h"
#include "redis/plain.h"
#include "redis/seen.h"

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
  operation.refresh = kind == WEIR_RAISE ? chance % 3 != 2 : chance % 7 == 0;
  operation.seed = i % 2 == 0 ? 0 : 100;
  operation.ttl_us = chance % 4 == 0 ? 1000 : MINUTE_US;
  return operation;
}

static unsigned chance_next(unsigned *state) {
  *state = *state * 1664525U + 1013904223U;
  return *state >> 8;
}

/* A greeting that was cut is an outage, and keeps the next writes back for a while. */
static unsigned run_batch(weir_store *store, unsigned *state) {
  weir_operation batch[BATCH];
  weir_message message = {""};
  unsigned unknown = 0;
  for (unsigned i = 0; i < BATCH; i++)
    batch[i] = use(chance_next(state) % KEYS, chance_next(state));
  weir_store_exec(store, batch, BATCH, deadline_in_ms(500), &message);
  while (was_turned_away(batch[0], &message)) {
    poll(NULL, 0, 1);
    weir_store_exec(store, batch, BATCH, deadline_in_ms(500), &message);
  }
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
  snprintf(url, sizeof url, "redis://127.0.0.1:%u?timeout=5s&probe=10ms", port);
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

/* So few bytes at a time, and so slowly, that others act between any two commands of a write. */
enum { CHUNK_BYTES = 48, PAUSE_US = 20 };

/* Each connection is cut after 1 to `most` bytes from its client. */
static void cut_start(proxy *between, const struct server *server, unsigned seed, unsigned most) {
  proxy_start(between, server, PROXY_OPEN);
  atomic_store(&between->seed, seed);
  atomic_store(&between->cut_most, most);
  atomic_store(&between->piece, CHUNK_BYTES);
  atomic_store(&between->pause_us, PAUSE_US);
}

/* How many were cut. */
static unsigned cut_stop(proxy *between) {
  proxy_stop(between);
  return atomic_load(&between->cuts);
}

/* Writes through the proxy while keys vanish. */
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

/* A store that has never used the keys, or `old`, which has used them all before. */
static void mend_all(const struct server *server, weir_store *old) {
  weir_store *store = old != NULL ? old : open_port(server_port(server));
  for (int i = 0; i < (old != NULL ? WEIR_SEEN_USES : 1); i++)
    use_all(store);
  if (old == NULL) weir_store_close(store);
}

static void after_the_next_uses_every_key_has_a_ttl(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  proxy between;
  cut_start(&between, server, 1, CUT_MOST);
  redisContext *plain = plain_connect(server);
  weir_store *cut_off = open_port(proxy_port(&between));
  weir_store *whole = open_port(server_port(server));
  unsigned chance = 3;
  unsigned unknown = 0;
  long long bare = 0;
  size_t count;
  for (int look = 0; look < LOOKS; look++) {
    unknown += disturb(cut_off, plain, &chance);
    bare += plain_count_immortal(plain, &count);
    mend_all(server, look % 2 == 0 ? NULL : whole);
    assert_int_equal(plain_count_immortal(plain, &count), 0);
    assert_true(count >= KEYS / 2);
  }
  unsigned cuts = cut_stop(&between);
  printf("%d writes, %u connections cut, %u outcomes unknown, %lld times a key had no TTL\n",
         LOOKS * ROUNDS, cuts, unknown, bare);
  assert_true(cuts > LOOKS * ROUNDS / 10);
  weir_store_close(whole);
  weir_store_close(cut_off);
  redisFree(plain);
}

enum { CROWD = 4, SPAN_KEYS = 4, SPAN_BATCHES = 8, SPANS = 50, PIECE_MOST = 1 << 30 };

/* One of several processes, as it were: a store of its own, its writes torn into pieces. */
typedef struct process {
  proxy between;
  weir_store *store;
  pthread_t thread;
  unsigned chance;
  unsigned sure; /* operations that ended DONE or ABSENT */
} process;

/* The shortest of lives: keys expire between any two commands. */
static void use_briefly(process *self, unsigned span) {
  weir_operation batch[BATCH];
  char names[BATCH][24];
  for (unsigned i = 0; i < BATCH; i++) {
    unsigned chance = chance_next(&self->chance);
    snprintf(names[i], sizeof names[i], "weir:{%u.%u}", span, chance % SPAN_KEYS);
    batch[i] =
        chance % 13 == 0 ? sub_from(names[i], 1 + chance % 3) : add_to(names[i], 1 + chance % 3);
    if (chance % 7 < 3) {
      snprintf(names[i], sizeof names[i], "weir:{%u.%u}r", span, chance % SPAN_KEYS);
      batch[i] = raise_to(names[i], 10, 1);
      batch[i].refresh = chance % 7 == 0;
    }
    batch[i].ttl_us = 1000;
  }
  weir_store_exec(self->store, batch, BATCH, deadline_in_ms(20000), NULL);
  for (unsigned i = 0; i < BATCH; i++)
    self->sure += batch[i].outcome == WEIR_DONE || batch[i].outcome == WEIR_ABSENT;
}

/* Goes from key to key, so that nobody mends later what was left. */
static void *use_all_spans(void *argument) {
  for (unsigned i = 0; i < SPANS * SPAN_BATCHES; i++)
    use_briefly(argument, i / SPAN_BATCHES);
  return NULL;
}

/* Whoever creates a bare key mends it before its operation ends: where nobody is cut, no key
 * needs a further use. */
static void without_cuts_no_key_stays_without_a_ttl(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  process crowd[CROWD];
  size_t count;
  for (unsigned i = 0; i < CROWD; i++) {
    crowd[i] = (process){.chance = i};
    cut_start(&crowd[i].between, server, i, PIECE_MOST);
    crowd[i].store = open_port(proxy_port(&crowd[i].between));
  }
  for (unsigned i = 0; i < CROWD; i++)
    assert_int_equal(pthread_create(&crowd[i].thread, NULL, use_all_spans, &crowd[i]), 0);
  for (unsigned i = 0; i < CROWD; i++) {
    pthread_join(crowd[i].thread, NULL);
    assert_int_equal(crowd[i].sure, SPANS * SPAN_BATCHES * BATCH);
    weir_store_close(crowd[i].store);
    assert_int_equal(cut_stop(&crowd[i].between), 0);
  }
  assert_int_equal(plain_count_immortal(plain, &count), 0);
  printf("%lld repairs\n", plain_calls(plain, "pexpire"));
  redisFree(plain);
}

/* A take-back that was cut, of keys that are not there, leaves none below nothing and none without
 * a TTL. */
static void a_cut_sub_leaves_nothing_below_nothing(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  proxy between;
  cut_start(&between, server, 5, 120);
  redisContext *plain = plain_connect(server);
  weir_store *store = open_port(proxy_port(&between));
  weir_message message = {""};
  size_t count;
  for (int round = 0; round < 200; round++) {
    char key[24];
    snprintf(key, sizeof key, "weir:{%d}", round);
    execute_when_back(store, sub_from(key, 5), &message);
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
  cut_stop(&between);
  weir_store_close(store);
  redisFree(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(after_the_next_uses_every_key_has_a_ttl),
      cmocka_unit_test(without_cuts_no_key_stays_without_a_ttl),
      cmocka_unit_test(a_cut_sub_leaves_nothing_below_nothing),
  };
  name_keys();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
