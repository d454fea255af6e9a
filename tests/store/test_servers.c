/* weir_store_read_server(): what is known of each server, of our backends and of others'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "fixture/servers.h"
#include "store/store.h"

enum { SERVERS = 3 };
#define PATIENCE_US INT64_C(60000000)

static weir_server_state state_of(const weir_store *store, size_t index) {
  weir_server_state state = {.size = sizeof state};
  assert_int_equal(weir_store_read_server(store, index, &state), WEIR_OK);
  assert_int_equal(state.size, sizeof state);
  return state;
}

static void assert_calm(const weir_server_state *state) {
  assert_int_equal(state->breaker, WEIR_BREAKER_CLOSED);
  assert_int_equal(state->outages, 0);
  assert_int_equal(state->next_try_us, 0);
  assert_string_equal(state->last_error.text, "");
}

static weir_outcome add_somewhere(weir_store *store, char where) {
  char key[] = "weir:t:{a}:1";
  key[8] = where;
  weir_operation add = {.kind = WEIR_ADD,
                        .key = key,
                        .key_length = sizeof key - 1,
                        .home_offset = 8,
                        .home_length = 1,
                        .delta = 1,
                        .ttl_us = 60000000};
  weir_store_exec(store, &add, 1, weir_monotonic_us() + PATIENCE_US, NULL);
  return add.outcome;
}

static void each_server_tells_its_own_state(void **state) {
  struct server *servers[SERVERS];
  char url[SERVER_URL_BYTES];
  weir_store *store;
  (void)state;
  for (int i = 0; i < SERVERS; i++)
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  server_url(servers, SERVERS, "probe=60s", url);
  assert_int_equal(weir_store_open(url, &store, NULL), WEIR_OK);
  for (size_t i = 0; i < SERVERS; i++) {
    const weir_server_state each = state_of(store, i);
    char port[16];
    snprintf(port, sizeof port, ":%u", (unsigned)server_port(servers[i]));
    assert_calm(&each);
    assert_non_null(strstr(each.name, port));
    assert_false(each.answered);
  }
  server_kill(servers[1]);
  for (char c = 'a'; c <= 'z'; c++)
    add_somewhere(store, c);
  weir_server_state dead = state_of(store, 1);
  assert_int_equal(dead.breaker, WEIR_BREAKER_OPEN);
  assert_int_equal(dead.outages, 1);
  assert_true(dead.next_try_us <= 60000000);
  assert_non_null(strstr(dead.last_error.text, "cannot connect"));
  assert_false(dead.answered);
  for (size_t i = 0; i < SERVERS; i += 2) {
    const weir_server_state each = state_of(store, i);
    assert_calm(&each);
    assert_true(each.answered);
  }
  server_restart(servers[1]);
  for (int64_t end_us = weir_monotonic_us() + PATIENCE_US;
       state_of(store, 1).breaker != WEIR_BREAKER_CLOSED;) {
    for (char c = 'a'; c <= 'z'; c++)
      add_somewhere(store, c);
    assert_true(weir_monotonic_us() < end_us);
  }
  dead = state_of(store, 1);
  assert_int_equal(dead.outages, 1);
  assert_int_equal(dead.next_try_us, 0);
  assert_true(dead.answered);
  server_kill(servers[1]);
  while (state_of(store, 1).breaker == WEIR_BREAKER_CLOSED)
    for (char c = 'a'; c <= 'z'; c++)
      add_somewhere(store, c);
  assert_true(state_of(store, 1).answered); /* it did, once */
  weir_store_close(store);
}

static void redis_tells_as_well(void **state) {
  char url[SERVER_URL_BYTES];
  weir_store *store;
  (void)state;
  struct server *redis = server_start_redis(SERVER_IPV4, NULL);
  server_url(&redis, 1, NULL, url);
  assert_int_equal(weir_store_open(url, &store, NULL), WEIR_OK);
  assert_int_equal(add_somewhere(store, 'a'), WEIR_DONE);
  server_kill(redis);
  while (state_of(store, 0).breaker == WEIR_BREAKER_CLOSED)
    assert_int_not_equal(add_somewhere(store, 'a'), WEIR_DONE);
  assert_int_equal(state_of(store, 0).outages, 1);
  assert_true(state_of(store, 0).answered);
  weir_store_close(store);
}

static void a_server_that_is_not_there_is_an_error(void **state) {
  weir_store *store;
  weir_server_state untouched = {.size = sizeof untouched, .outages = 7};
  (void)state;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  const weir_server_state only = state_of(store, 0);
  assert_calm(&only);
  assert_null(only.name);
  assert_true(only.answered);
  assert_int_equal(weir_store_read_server(store, 1, &untouched), WEIR_BAD_ARGUMENT);
  untouched.size = sizeof untouched.size - 1;
  assert_int_equal(weir_store_read_server(store, 0, &untouched), WEIR_BAD_ARGUMENT);
  assert_int_equal(untouched.outages, 7);
  weir_store_close(store);
}

/* A caller that was built with an older header, and one with a newer. */
static void what_fits_is_written(void **state) {
  struct {
    weir_server_state known;
    char more[16];
  } larger;
  weir_store *store;
  weir_server_state smaller = {.size = offsetof(weir_server_state, outages), .outages = 7};
  (void)state;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  assert_int_equal(weir_store_read_server(store, 0, &smaller), WEIR_OK);
  assert_int_equal(smaller.outages, 7);
  memset(&larger, 1, sizeof larger);
  larger.known.size = sizeof larger;
  assert_int_equal(weir_store_read_server(store, 0, &larger.known), WEIR_OK);
  assert_int_equal(larger.known.outages, 0);
  assert_int_equal(larger.more[15], 0);
  weir_store_close(store);
}

static void report_much(void *handle, size_t server, weir_server_state *state) {
  (void)handle;
  state->name = "mine";
  state->breaker = WEIR_BREAKER_HALF_OPEN;
  state->outages = server + 5;
}

static void others_may_tell_and_need_not(void **state) {
  weir_backend backend = fake_backend_with(0);
  weir_store *store;
  (void)state;
  assert_int_equal(weir_store_open_backend(&backend, "fake:", &store, NULL), WEIR_OK);
  weir_server_state each = state_of(store, 0);
  assert_calm(&each);
  backend.read_server = report_much;
  each = state_of(store, 0);
  assert_string_equal(each.name, "mine");
  assert_int_equal(each.breaker, WEIR_BREAKER_HALF_OPEN);
  assert_int_equal(each.outages, 5);
  assert_true(each.answered);                         /* of an older header it says nothing */
  backend.size = offsetof(weir_backend, read_server); /* of an older header */
  each = state_of(store, 0);
  assert_calm(&each);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_server_tells_its_own_state),
      cmocka_unit_test(redis_tells_as_well),
      cmocka_unit_test(a_server_that_is_not_there_is_an_error),
      cmocka_unit_test(what_fits_is_written),
      cmocka_unit_test(others_may_tell_and_need_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
