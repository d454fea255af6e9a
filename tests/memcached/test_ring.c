/* Other clients of a pool must find weir's keys: a plain libmemcached client does. */
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>

#include "memcached/memcached.h"
#include "wire/operations.h"

enum { SERVERS = 3, KEYS = 1000 };

static struct server *servers[SERVERS];

static memcached_st *plain_client(memcached_behavior_t behavior, uint64_t value) {
  memcached_st *client = memcached_create(NULL);
  memcached_behavior_set(client, behavior, value);
  for (size_t i = 0; i < SERVERS; i++) {
    memcached_server_add(client, "127.0.0.1", server_port(servers[i]));
  }
  return client;
}

static void expect_every_key(weir_store *store, memcached_st *client, const char *tag) {
  for (int i = 0; i < KEYS; i++) {
    char key[64];
    char home[16];
    size_t length = 0;
    uint32_t flags = 0;
    memcached_return_t result;
    weir_message message = {""};
    snprintf(home, sizeof home, "user-%d", i);
    snprintf(key, sizeof key, "weir:%s:{%s}:17", tag, home);
    assert_done(execute(store, add_to(key, i + 1), &message), i + 1);
    char *value = memcached_get_by_key(client, home, strlen(home), key, strlen(key), &length,
                                       &flags, &result);
    assert_int_equal(result, MEMCACHED_SUCCESS);
    assert_int_equal(strtol(value, NULL, 10), i + 1);
    free(value);
  }
}

static void check_distribution(const char *name, memcached_behavior_t behavior, uint64_t value) {
  char query[64];
  snprintf(query, sizeof query, "timeout=1s&distribution=%s", name);
  weir_store *store = open_servers(servers, SERVERS, query);
  memcached_st *client = plain_client(behavior, value);
  expect_every_key(store, client, name);
  memcached_free(client);
  weir_store_close(store);
}

static void weighted_ketama_agrees_with_libmemcached(void **state) {
  (void)state;
  check_distribution("ketama-weighted", MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
}

static void ketama_agrees_with_libmemcached(void **state) {
  (void)state;
  check_distribution("ketama", MEMCACHED_BEHAVIOR_KETAMA, 1);
}

static void modula_agrees_with_libmemcached(void **state) {
  (void)state;
  check_distribution("modula", MEMCACHED_BEHAVIOR_DISTRIBUTION, MEMCACHED_DISTRIBUTION_MODULA);
}

static void weighted_ketama_is_the_default(void **state) {
  (void)state;
  weir_store *store = open_servers(servers, SERVERS, "timeout=1s");
  memcached_st *client = plain_client(MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1);
  expect_every_key(store, client, "default");
  memcached_free(client);
  weir_store_close(store);
}

/* How many of `keys` homes each of three hosts gets. */
static void spread(const weir_url_host hosts[SERVERS], size_t counts[SERVERS]) {
  weir_message message = {""};
  weir_ring *ring = NULL;
  assert_int_equal(weir_ring_create(hosts, SERVERS, 11211, WEIR_KETAMA_WEIGHTED, &ring, &message),
                   WEIR_OK);
  for (int i = 0; i < KEYS * 10; i++) {
    char home[16];
    snprintf(home, sizeof home, "home-%d", i);
    size_t server = weir_ring_pick(ring, home, strlen(home));
    assert_true(server < SERVERS);
    counts[server]++;
  }
  weir_ring_destroy(ring);
}

static void weights_count(void **state) {
  (void)state;
  const weir_url_host hosts[SERVERS] = {
      {"a.example", 0, 1}, {"b.example", 0, 1}, {"::1", 11212, 8}};
  size_t counts[SERVERS] = {0};
  spread(hosts, counts);
  assert_true(counts[2] > 3 * counts[0]);
  assert_true(counts[2] > 3 * counts[1]);
  assert_true(counts[0] > KEYS / 2 && counts[1] > KEYS / 2);
}

static void one_batch_reaches_all_servers(void **state) {
  (void)state;
  enum { COUNT = 300 };
  static char keys[COUNT][32];
  static weir_operation operations[2 * COUNT];
  weir_store *store = open_servers(servers, SERVERS, "timeout=1s");
  weir_message message = {""};
  for (int round = 1; round <= 3; round++) {
    for (int i = 0; i < COUNT; i++) {
      snprintf(keys[i], sizeof keys[i], "weir:all:{%d}:1", i);
      operations[2 * i] = add_to(keys[i], i + 1);
      operations[2 * i + 1] = get_of(keys[i]);
    }
    weir_store_exec(store, operations, 2 * COUNT, deadline_in_ms(1000), &message);
    for (int i = 0; i < COUNT; i++) {
      assert_done(operations[2 * i], round * (i + 1));
      assert_done(operations[2 * i + 1], round * (i + 1));
    }
  }
  weir_store_close(store);
}

int main(void) {
  for (size_t i = 0; i < SERVERS; i++)
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weighted_ketama_agrees_with_libmemcached),
      cmocka_unit_test(ketama_agrees_with_libmemcached),
      cmocka_unit_test(modula_agrees_with_libmemcached),
      cmocka_unit_test(weighted_ketama_is_the_default),
      cmocka_unit_test(weights_count),
      cmocka_unit_test(one_batch_reaches_all_servers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
