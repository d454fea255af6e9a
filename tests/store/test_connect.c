/* weir_store_connect(): every server is ready before the first decision, or the first that is not
 * is named. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "fixture/fake.h"
#include "fixture/proxy.h"
#include "wire/operations.h"

#include <weir/weir.h>

enum { SERVERS = 3 };

#define TIMEOUT_US INT64_C(60000000)

static weir_store *open_url(const char *url) {
  weir_message message = {""};
  weir_store *store = NULL;
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

static void expect_connected(weir_store *store) {
  weir_message message = {""};
  if (weir_store_connect(store, TIMEOUT_US, &message) != WEIR_OK) fail_msg("%s", message.text);
  assert_string_equal(message.text, "");
}

/* Through a proxy that counts: the decision finds the connection there. */
static void the_first_decision_finds_a_connection(void **state) {
  static const char *const arguments[] = {"--requirepass", "secret", NULL};
  (void)state;
  struct server *const servers[] = {server_start_memcached(SERVER_IPV4, NULL),
                                    server_start_redis(SERVER_IPV4, arguments)};
  static const char *const formats[] = {"memcached://127.0.0.1:%u", "redis://:secret@127.0.0.1:%u"};
  for (size_t i = 0; i < 2; i++) {
    proxy door;
    char url[64];
    weir_message message = {""};
    proxy_start(&door, servers[i], PROXY_OPEN);
    snprintf(url, sizeof url, formats[i], (unsigned)address_port(&door.address));
    weir_store *store = open_url(url);
    assert_int_equal(atomic_load(&door.connections), 0);
    expect_connected(store);
    assert_int_equal(atomic_load(&door.connections), 1);
    expect_connected(store);
    assert_done(execute(store, add_to("weir:t:{c}:1", 1), &message), 1);
    assert_int_equal(atomic_load(&door.connections), 1);
    weir_store_close(store);
    proxy_stop(&door);
  }
}

/* Whatever a greeting takes: the first decision has its deadline for itself. */
static void the_first_decision_needs_its_own_round_trip_alone(void **state) {
  static const char *const arguments[] = {"--requirepass", "secret", NULL};
  static const char *const formats[] = {
      "memcached://127.0.0.1:%u?timeout=30s",
      "redis://:secret@127.0.0.1:%u/3?timeout=30s",
  };
  (void)state;
  struct server *const servers[] = {server_start_memcached(SERVER_IPV4, NULL),
                                    server_start_redis(SERVER_IPV4, arguments)};
  for (size_t i = 0; i < 2; i++) {
    proxy door;
    char url[80];
    weir_limiter *limiter;
    weir_decision decision;
    proxy_start(&door, servers[i], PROXY_OPEN);
    snprintf(url, sizeof url, formats[i], (unsigned)address_port(&door.address));
    weir_store *store = open_url(url);
    assert_int_equal(weir_limiter_create(store, "sliding-window:9/1h", NULL, &limiter, NULL),
                     WEIR_OK);
    expect_connected(store);
    int before = atomic_load(&door.round_trips);
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
    assert_int_equal(decision.source, WEIR_SOURCE_STORE);
    assert_int_equal(atomic_load(&door.round_trips) - before, 1);
    weir_limiter_destroy(limiter);
    weir_store_close(store);
    proxy_stop(&door);
  }
}

static void the_first_server_that_is_not_ready_is_named(void **state) {
  (void)state;
  struct server *servers[SERVERS];
  char url[SERVER_URL_BYTES];
  char name[32];
  weir_message message = {""};
  for (size_t i = 0; i < SERVERS; i++)
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  server_url(servers, SERVERS, NULL, url);
  weir_store *store = open_url(url);
  expect_connected(store);
  for (size_t i = SERVERS; i-- > 1;) {
    server_kill(servers[i]);
    nanosleep(&(struct timespec){.tv_nsec = 20000000},
              NULL); /* an idle connection is looked at before use */
    assert_int_equal(weir_store_connect(store, 500000, &message), WEIR_UNAVAILABLE);
    snprintf(name, sizeof name, "127.0.0.1:%u: ", (unsigned)server_port(servers[i]));
    if (strncmp(message.text, name, strlen(name)) != 0)
      fail_msg("\"%s\" does not name %s", message.text, name);
  }
  for (size_t i = 1; i < SERVERS; i++)
    server_restart(servers[i]);
  expect_connected(store);
  weir_store_close(store);
}

static void *connect_for_a_minute(void *context) {
  static weir_status status;
  status = weir_store_connect(context, TIMEOUT_US, NULL);
  return &status;
}

static void a_server_that_comes_later_is_waited_for(void **state) {
  (void)state;
  pthread_t thread;
  void *status;
  char url[SERVER_URL_BYTES];
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  server_kill(server);
  server_url(&server, 1, NULL, url);
  weir_store *store = open_url(url);
  assert_int_equal(pthread_create(&thread, NULL, connect_for_a_minute, store), 0);
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  server_restart(server);
  pthread_join(thread, &status);
  assert_int_equal(*(weir_status *)status, WEIR_OK);
  weir_store_close(store);
}

static void a_store_without_servers_is_ready(void **state) {
  (void)state;
  weir_store *store = open_url("memory:");
  expect_connected(store);
  weir_store_close(store);
}

/* A backend that was written before `connect` was a member is only asked whether it answers. */
static void a_backend_that_does_not_connect_ahead_is_asked(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store;
  weir_backend backend = fake_backend_with(0);
  backend.size = offsetof(weir_backend, connect);
  the_fake = (fake){.scripted = true, .outcomes = {WEIR_ABSENT}};
  assert_int_equal(weir_store_open_backend(&backend, "fake:", &store, &message), WEIR_OK);
  expect_connected(store);
  assert_int_equal(the_fake.counts.round_trips, 1);
  the_fake.outcomes[0] = WEIR_NOT_SENT;
  the_fake.exec_message = "nobody is there";
  assert_int_equal(weir_store_connect(store, 1000, &message), WEIR_UNAVAILABLE);
  assert_string_equal(message.text, "nobody is there");
  weir_store_close(store);
}

static void arguments_out_of_range_are_named(void **state) {
  static const int64_t bad[] = {0, -1, 999, 60000001};
  (void)state;
  weir_message message = {""};
  weir_store *store = open_url("memory:");
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    assert_int_equal(weir_store_connect(store, bad[i], &message), WEIR_BAD_ARGUMENT);
    assert_non_null(strstr(message.text, "accepted are 1000 to 60000000"));
  }
  assert_int_equal(weir_store_connect(NULL, 1000, &message), WEIR_BAD_ARGUMENT);
  weir_store_close(store);
}

static weir_store_times times_of(const char *url) {
  weir_store_times times = WEIR_STORE_TIMES_INIT;
  weir_store *store = open_url(url);
  assert_int_equal(weir_store_read_times(store, &times), WEIR_OK);
  assert_int_equal(times.size, sizeof times);
  weir_store_close(store);
  return times;
}

static void a_store_tells_its_times(void **state) {
  static const struct {
    const char *url;
    int64_t timeout_us, connect_us;
  } cases[] = {
      {"memory:", 20000, 1000000},
      {"memcached://127.0.0.1", 20000, 1000000},
      {"memcached://127.0.0.1?timeout=3s", 3000000, 3000000},
      {"redis://127.0.0.1?connect-timeout=250ms", 20000, 250000},
      {"redis://127.0.0.1?timeout=3s&connect-timeout=2s", 3000000, 2000000},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const weir_store_times times = times_of(cases[i].url);
    assert_int_equal(times.timeout_us, cases[i].timeout_us);
    assert_int_equal(times.connect_timeout_us, cases[i].connect_us);
  }
}

/* A caller that was built with an older header, and one with a newer. */
static void of_its_times_what_fits_is_written(void **state) {
  struct {
    weir_store_times known;
    char more[16];
  } larger;
  weir_store_times smaller = {.size = offsetof(weir_store_times, connect_timeout_us),
                              .connect_timeout_us = 7};
  (void)state;
  weir_store *store = open_url("memory:");
  assert_int_equal(weir_store_read_times(store, &smaller), WEIR_OK);
  assert_int_equal(smaller.timeout_us, 20000);
  assert_int_equal(smaller.connect_timeout_us, 7);
  memset(&larger, 1, sizeof larger);
  larger.known.size = sizeof larger;
  assert_int_equal(weir_store_read_times(store, &larger.known), WEIR_OK);
  assert_int_equal(larger.known.connect_timeout_us, 1000000);
  assert_int_equal(larger.more[15], 0);
  smaller.size = sizeof smaller.size - 1;
  assert_int_equal(weir_store_read_times(store, &smaller), WEIR_BAD_ARGUMENT);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_decision_finds_a_connection),
      cmocka_unit_test(the_first_decision_needs_its_own_round_trip_alone),
      cmocka_unit_test(the_first_server_that_is_not_ready_is_named),
      cmocka_unit_test(a_server_that_comes_later_is_waited_for),
      cmocka_unit_test(a_store_without_servers_is_ready),
      cmocka_unit_test(a_backend_that_does_not_connect_ahead_is_asked),
      cmocka_unit_test(arguments_out_of_range_are_named),
      cmocka_unit_test(a_store_tells_its_times),
      cmocka_unit_test(of_its_times_what_fits_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
