/* Many threads, one connection to each server. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "wire/operations.h"

enum { THREADS = 32, ROUNDS = 300, SERVERS = 3 };

static struct server *servers[SERVERS];
static struct server *proxy;
static struct server *secure[2];

typedef struct worker {
  weir_store *store;
  int number;
  int failures;
  int out_of_order;
  int64_t last_total;
} worker;

static bool is_done(const weir_operation *operations, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (operations[i].outcome != WEIR_DONE) return false;
  }
  return true;
}

/* Adds to a key of its own, to one that all share, and to some that meet other threads. */
static void *work(void *context) {
  worker *self = context;
  char own[32];
  char met[32];
  weir_message message = {""};
  snprintf(own, sizeof own, "weir:own:{%d}:1", self->number);
  for (int i = 0; i < ROUNDS; i++) {
    snprintf(met, sizeof met, "weir:met:{%d}:1", (self->number + i) % THREADS);
    weir_operation operations[] = {add_to(own, 1), add_to("weir:shared:{all}:1", 1),
                                   get_of("weir:shared:{all}:1"), get_of(own), add_to(met, 1)};
    weir_store_exec(self->store, operations, 5, deadline_in_ms(PATIENCE_MS), &message);
    if (!is_done(operations, 5)) {
      self->failures++;
      continue;
    }
    /* A total only grows, and a read never lags behind the addition before it. */
    self->out_of_order += operations[1].value <= self->last_total ||
                          operations[2].value < operations[1].value ||
                          operations[3].value != operations[0].value;
    self->last_total = operations[1].value;
  }
  return NULL;
}

static void share(weir_store *store) {
  pthread_t threads[THREADS];
  worker workers[THREADS];
  weir_message message = {""};
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.store = store, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    char key[32];
    assert_int_equal(workers[i].failures, 0);
    assert_int_equal(workers[i].out_of_order, 0);
    snprintf(key, sizeof key, "weir:own:{%d}:1", i);
    assert_done(execute(store, get_of(key), &message), ROUNDS);
    snprintf(key, sizeof key, "weir:met:{%d}:1", i);
    assert_done(execute(store, get_of(key), &message), ROUNDS);
  }
  assert_done(execute(store, get_of("weir:shared:{all}:1"), &message), THREADS * ROUNDS);
  weir_store_close(store);
}

static void threads_share_one_connection(void **state) {
  (void)state;
  share(open_servers(servers, 1, "timeout=30s&namespace=one"));
}

static void threads_share_connections_to_several_servers(void **state) {
  (void)state;
  for (int i = 0; i < SERVERS; i++)
    server_restart(servers[i]);
  share(open_servers(servers, SERVERS, "timeout=30s"));
}

static void threads_share_one_connection_to_a_proxy(void **state) {
  (void)state;
  share(open_servers(&proxy, 1, "timeout=30s"));
}

static void threads_share_one_connection_that_speaks_tls(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    char query[SERVER_URL_BYTES];
    snprintf(query, sizeof query, "timeout=30s&tls-ca=%s", certificate_file(CERTIFICATE_CA));
    share(open_servers(&secure[i], 1, query));
  }
}

static void threads_take_turns_without_pipelining(void **state) {
  (void)state;
  server_restart(servers[0]);
  share(open_servers(servers, 1, "timeout=30s&pipelining=off"));
}

/* The outcome of a second request while the first has no answer. */
static weir_outcome outcome_of_the_second(const char *query) {
  enum { SHORT_MS = 100 };
  weir_message message = {""};
  weir_store *store = open_servers(servers, 1, query);
  weir_operation first = get_of("weir:turns:{a}:1");
  weir_operation second = get_of("weir:turns:{b}:1");
  assert_outcome(execute(store, get_of("weir:turns:{a}:1"), &message), WEIR_ABSENT);
  server_stop(servers[0]);
  weir_store_exec(store, &first, 1, deadline_in_ms(SHORT_MS), &message);
  weir_store_exec(store, &second, 1, deadline_in_ms(SHORT_MS), &message);
  server_continue(servers[0]);
  assert_outcome(first, WEIR_UNKNOWN);
  weir_store_close(store);
  return second.outcome;
}

static void nothing_is_sent_behind_what_has_no_answer_without_pipelining(void **state) {
  (void)state;
  assert_int_equal(outcome_of_the_second("timeout=30s"), WEIR_UNKNOWN);
  assert_int_equal(outcome_of_the_second("timeout=30s&pipelining=off"), WEIR_NOT_SENT);
}

int main(void) {
  for (int i = 0; i < SERVERS; i++)
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  struct server *behind = server_start_memcached(SERVER_IPV4, NULL);
  proxy = server_start_nutcracker(&behind, 1);
  secure[0] = server_start_memcached_tls(SERVER_IPV4, CERTIFICATE_SERVER, NULL);
  secure[1] = server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER,
                                     (const char *const[]){"--tls-auth-clients", "no", NULL});
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_share_one_connection),
      cmocka_unit_test(threads_share_connections_to_several_servers),
      cmocka_unit_test(threads_share_one_connection_to_a_proxy),
      cmocka_unit_test(threads_share_one_connection_that_speaks_tls),
      cmocka_unit_test(threads_take_turns_without_pipelining),
      cmocka_unit_test(nothing_is_sent_behind_what_has_no_answer_without_pipelining),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
