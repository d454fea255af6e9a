/* A twemproxy in front of three servers, one of which falls silent: what of the keys of the two
 * others is still decided, by how long the proxy waits for a server. It answers in the order of the
 * questions, so the keys behind one that waits wait as well. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "wire/operations.h"

/* A busy machine takes more than TIMEOUT_MS for what needs no waiting: then it is repeated. */
enum { SERVERS = 3, KEYS = 60, THREADS = 4, TIMEOUT_MS = 20, LOAD_MS = 2000, TRIES = 4 };

typedef struct setup {
  weir_store *store;
  bool silent[KEYS]; /* the key is the silent server's */
  atomic_bool over;
  atomic_int asked[2], done[2], unknown[2]; /* of the others, of the silent one's */
} setup;

static void name_key(int number, char key[32]) {
  snprintf(key, 32, "weir:s:{%d}:1", number);
}

static weir_operation add_once(weir_store *store, int number, int64_t deadline_ms) {
  char key[32];
  weir_message message = {""};
  name_key(number, key);
  weir_operation add = add_to(key, 1);
  weir_store_exec(store, &add, 1, deadline_in_ms(deadline_ms), &message);
  return add;
}

/* The servers know which keys they have. */
static int find_keys(setup *self, struct server *server) {
  int count = 0;
  weir_store *direct = open_servers(&server, 1, "timeout=5s");
  for (int i = 0; i < KEYS; i++) {
    char key[32];
    name_key(i, key);
    self->silent[i] = execute(direct, get_of(key), NULL).outcome == WEIR_DONE;
    count += self->silent[i];
  }
  weir_store_close(direct);
  return count;
}

static void *keep_adding(void *context) {
  setup *self = context;
  for (int i = 0; !atomic_load(&self->over); i = (i + 7) % KEYS) {
    int which = self->silent[i];
    weir_outcome outcome = add_once(self->store, i, TIMEOUT_MS).outcome;
    atomic_fetch_add(&self->asked[which], 1);
    if (outcome == WEIR_DONE) atomic_fetch_add(&self->done[which], 1);
    if (outcome == WEIR_UNKNOWN) atomic_fetch_add(&self->unknown[which], 1);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return NULL;
}

static int percent(int part, int whole) {
  return whole == 0 ? 0 : (100 * part + whole / 2) / whole;
}

/* How much of the keys of the two others is decided, in percent. */
static int decide(const char *kind, struct server *const *behind, int timeout_ms) {
  setup self = {.store = NULL};
  pthread_t threads[THREADS];
  char query[32];
  struct server *proxy = server_start_nutcracker_waiting(timeout_ms, behind, SERVERS);
  snprintf(query, sizeof query, "timeout=%dms", TIMEOUT_MS);
  self.store = open_servers(&proxy, 1, query);
  for (int i = 0; i < KEYS; i++)
    while (add_once(self.store, i, PATIENCE_MS).outcome != WEIR_DONE) {
    }
  assert_in_range(find_keys(&self, behind[1]), 1, KEYS - 1);
  server_stop(behind[1]);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, keep_adding, &self), 0);
  nanosleep(&(struct timespec){.tv_sec = LOAD_MS / 1000}, NULL);
  atomic_store(&self.over, true);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  server_continue(behind[1]);
  weir_store_close(self.store);
  server_kill(proxy);
  int decided = percent(self.done[0], self.asked[0]);
  print_message(
      "%-9s timeout: %4d   of %5d for the others %3d %% decided, %3d %% unknown; of %5d for "
      "the silent one %d %% unknown\n",
      kind, timeout_ms, self.asked[0], decided, percent(self.unknown[0], self.asked[0]),
      self.asked[1], percent(self.unknown[1], self.asked[1]));
  return decided;
}

/* With an argument: more of them. */
static bool in_full;

static void try_all(const char *kind, struct server *const *behind) {
  static const int others_ms[] = {400, 40, 20, 15, 5, 2};
  bool more = false;
  for (int tries = 0; tries < TRIES && !more; tries++) {
    int long_ones = decide(kind, behind, 5000);
    more = decide(kind, behind, TIMEOUT_MS / 2) > long_ones + 30;
  }
  assert_true(more);
  for (size_t i = 0; in_full && i < sizeof others_ms / sizeof others_ms[0]; i++)
    decide(kind, behind, others_ms[i]);
}

static void of_memcached(void **state) {
  struct server *behind[SERVERS];
  (void)state;
  for (int i = 0; i < SERVERS; i++)
    behind[i] = server_start_memcached(SERVER_IPV4, NULL);
  try_all("memcached", behind);
}

static void of_redis(void **state) {
  struct server *behind[SERVERS];
  (void)state;
  for (int i = 0; i < SERVERS; i++)
    behind[i] = server_start_redis(SERVER_IPV4, NULL);
  try_all("redis", behind);
}

int main(int count, char **arguments) {
  (void)arguments;
  in_full = count > 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_memcached),
      cmocka_unit_test(of_redis),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
