/* Names with several addresses: which server a limiter counts on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fixture/servers.h"
#include "limiter/world.h"
#include "wire/resolver.h"

/* A stall: longer than a deadline and the store's timeout after it, so that a connection is given
 * up for overdue meanwhile. */
enum { LIMIT = 3, STALL_MS = 150, TAKES_MOST = 200 };

static struct server *servers[2];
static uint16_t ports[2];

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void lead(size_t first, size_t second) {
  const uint16_t order[] = {ports[first], ports[second]};
  resolver_lead_to_ports(order, 2);
}

typedef struct counting {
  weir_store *store;
  weir_limiter *limiter;
} counting;

/* Charges that may count or not: their answer came too late, on a machine that was held up. */
static int unknown;

static weir_status take(const counting *c, const char *key, weir_decision *decision) {
  weir_status status = weir_limiter_take(c->limiter, key, strlen(key), 1, decision, NULL);
  unknown += status == WEIR_UNKNOWN_OUTCOME;
  return status;
}

static void expect_admitted(int admitted, int limit) {
  assert_in_range(admitted + unknown, limit, limit + unknown);
}

static counting open_url(const char *url) {
  const weir_limiter_options options = {.size = sizeof options, .fallback = WEIR_FALLBACK_NONE};
  weir_message message = {""};
  counting made;
  if (weir_store_open(url, &made.store, &message) != WEIR_OK ||
      weir_limiter_create(made.store, "fixed-window:3/400d", &options, &made.limiter, &message) !=
          WEIR_OK)
    fail_msg("%s", message.text);
  return made;
}

static counting open_by_name(void) {
  return open_url("memcached://cache.test");
}

static void shut(counting *done) {
  weir_limiter_destroy(done->limiter);
  weir_store_close(done->store);
}

/* Takes until the store has decided as many; how many of those were admitted. */
static int take_decided(const counting *c, const char *key, int decided) {
  int admitted = 0;
  for (int takes = 0; decided > 0 && takes < TAKES_MOST; takes++) {
    weir_decision decision;
    if (take(c, key, &decision) == WEIR_OK && decision.source == WEIR_SOURCE_STORE) {
      decided--;
      admitted += decision.allowed;
    } else {
      pause_ms(5);
    }
  }
  assert_int_equal(decided, 0);
  return admitted;
}

/* Two processes are two stores here: nothing is shared but the servers. */
static void resolvers_that_order_differently_count_as_one(void **state) {
  (void)state;
  lead(0, 1);
  counting one = open_by_name();
  lead(1, 0);
  counting other = open_by_name();
  int admitted = take_decided(&one, "order", 2 * LIMIT) + take_decided(&other, "order", 2 * LIMIT);
  expect_admitted(admitted, LIMIT);
  shut(&one);
  shut(&other);
}

static void a_stall_moves_no_key(void **state) {
  (void)state;
  for (size_t stalled = 0; stalled < 2; stalled++) { /* whichever of them is the first */
    char key[8];
    snprintf(key, sizeof key, "stall%zu", stalled);
    lead(0, 1);
    counting c = open_by_name();
    int admitted = take_decided(&c, key, LIMIT);
    server_stop(servers[stalled]);
    for (int64_t end_us = deadline_in_ms(STALL_MS); weir_monotonic_us() < end_us; pause_ms(2)) {
      weir_decision decision;
      if (take(&c, key, &decision) == WEIR_OK) admitted += decision.allowed;
    }
    server_continue(servers[stalled]);
    admitted += take_decided(&c, key, 2 * LIMIT);
    expect_admitted(admitted, LIMIT);
    shut(&c);
  }
}

/* A process that begins while the first address stalls. */
static void who_starts_during_a_stall_moves_no_key_either(void **state) {
  (void)state;
  lead(0, 1);
  for (size_t stalled = 0; stalled < 2; stalled++) {
    char key[8];
    snprintf(key, sizeof key, "begin%zu", stalled);
    counting before = open_by_name();
    int admitted = take_decided(&before, key, 2 * LIMIT);
    server_stop(servers[stalled]);
    counting meanwhile = open_by_name();
    for (int64_t end_us = deadline_in_ms(STALL_MS); weir_monotonic_us() < end_us; pause_ms(2)) {
      weir_decision decision;
      if (take(&meanwhile, key, &decision) == WEIR_OK) admitted += decision.allowed;
    }
    server_continue(servers[stalled]);
    admitted += take_decided(&meanwhile, key, 2 * LIMIT);
    expect_admitted(admitted, LIMIT);
    shut(&before);
    shut(&meanwhile);
  }
}

/* The counts that it left are lost to it, as after a restart: one limit for each server, and no
 * more. */
static void an_address_that_refuses_is_left_for_the_next(void **state) {
  (void)state;
  lead(0, 1);
  counting c = open_by_name();
  int admitted = take_decided(&c, "refuses", LIMIT + 1);
  size_t first = ports[0] < ports[1] ? 0 : 1;
  server_kill(servers[first]);
  admitted += take_decided(&c, "refuses", LIMIT + 1);
  server_restart(servers[first]);
  admitted += take_decided(&c, "refuses", LIMIT); /* it stays: only a refusal moves it */
  expect_admitted(admitted, 2 * LIMIT);
  shut(&c);
}

/* Two proxies before one server: either is right, and one that stalls is passed by. */
static void any_address_will_do_in_a_tier_of_proxies(void **state) {
  (void)state;
  struct server *proxies[2];
  uint16_t proxy_ports[2];
  for (size_t i = 0; i < 2; i++) {
    proxies[i] = server_start_nutcracker(&servers[0], 1);
    proxy_ports[i] = server_port(proxies[i]);
  }
  resolver_lead_to_ports(proxy_ports, 2);
  int admitted = 0;
  for (size_t stalled = 0; stalled < 2; stalled++) {
    server_stop(proxies[stalled]);
    counting c = open_url("memcached://cache.test?addresses=any");
    admitted += take_decided(&c, "any", LIMIT); /* with one of the two stopped all the time */
    shut(&c);
    server_continue(proxies[stalled]);
  }
  expect_admitted(admitted, LIMIT);
  for (size_t i = 0; i < 2; i++)
    server_kill(proxies[i]);
}

static void the_addresses_option_knows_two_words(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store;
  assert_int_equal(weir_store_open("redis://127.0.0.1?addresses=all", &store, &message),
                   WEIR_BAD_URL);
  assert_string_equal(message.text, "store URL: addresses=all: accepted are first, any");
  assert_int_equal(weir_store_open("redis://127.0.0.1?addresses=first", &store, &message), WEIR_OK);
  weir_store_close(store);
}

static int let_run(void **state) {
  (void)state;
  unknown = 0;
  for (size_t i = 0; i < 2; i++)
    server_restart(servers[i]);
  return 0;
}

#define test_with_servers(name) cmocka_unit_test_setup_teardown(name, let_run, let_run)

int main(void) {
  for (size_t i = 0; i < 2; i++) {
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
    ports[i] = server_port(servers[i]);
  }
  const struct CMUnitTest tests[] = {
      test_with_servers(resolvers_that_order_differently_count_as_one),
      test_with_servers(a_stall_moves_no_key),
      test_with_servers(who_starts_during_a_stall_moves_no_key_either),
      test_with_servers(an_address_that_refuses_is_left_for_the_next),
      test_with_servers(any_address_will_do_in_a_tier_of_proxies),
      cmocka_unit_test(the_addresses_option_knows_two_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
