/* Names that lead elsewhere after a while, and resolvers that fail: what a wire makes of them. */
#include <netdb.h>
#include <stdio.h>

#include "fixture/proxy.h"
#include "wire/outage.h"
#include "wire/resolver.h"

#define TIMEOUT_US (100 * MS)

static struct server *servers[2];

static void lead_to(size_t server) {
  const uint16_t port = server_port(servers[server]);
  resolver_lead_to_ports(&port, 1);
}

static weir_wire *open_name(void) {
  return open_wire_at("cache.test", 1, TIMEOUT_US, 200 * MS);
}

/* As if the last answer were 30 s old. */
static void let_thirty_seconds_pass(weir_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  assert_true(wire->server.destination.lookup_at_us > weir_monotonic_us() + 20000 * MS);
  wire->server.destination.lookup_at_us = 0;
  pthread_mutex_unlock(&wire->lock);
}

/* Calls until the look-ups that are wanted have ended. */
static void call_until_looked_up(weir_wire *wire, unsigned asked) {
  int64_t end_us = weir_monotonic_us() + PATIENCE_US;
  for (bool done = false; !done; pause_ms(1)) {
    assert_true(weir_monotonic_us() < end_us);
    ask(wire, PATIENCE_US);
    pthread_mutex_lock(&wire->lock);
    done = resolver_asked() >= asked && wire->server.destination.lookup == NULL;
    pthread_mutex_unlock(&wire->lock);
  }
}

/* Where the name leads by now is known a moment later; until then calls fail. */
static void call_until_done(weir_wire *wire) {
  int64_t end_us = weir_monotonic_us() + PATIENCE_US;
  while (ask(wire, PATIENCE_US).outcome != WEIR_DONE) {
    assert_true(weir_monotonic_us() < end_us);
    pause_ms(1);
  }
  assert_false(outages_of(wire).present);
}

/* The count of one server, by a wire of its own. */
static int64_t count_on(size_t server) {
  weir_wire *wire = open_wire(server_port(servers[server]), PATIENCE_US, 200 * MS);
  weir_operation get = get_of("weir:t:{outage}:1");
  weir_message message = {""};
  weir_wire_slot *slot = submit(wire, &get, PATIENCE_US);
  weir_wire_finish(wire, slot, &message);
  weir_wire_close(wire);
  return get.outcome == WEIR_DONE ? get.value : 0;
}

static void a_name_is_looked_up_again_and_followed(void **state) {
  (void)state;
  lead_to(0);
  weir_wire *wire = open_name();
  unsigned asked = resolver_asked();
  for (int i = 0; i < 20; i++)
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  assert_int_equal(resolver_asked(), asked); /* not before it is time */
  lead_to(1);
  let_thirty_seconds_pass(wire);
  call_until_looked_up(wire, asked + 1);
  int64_t before = count_on(0);
  for (int i = 0; i < 20; i++)
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  assert_int_equal(count_on(0), before);
  assert_true(count_on(1) >= 20);
  assert_int_equal(resolver_asked(), asked + 1);
  assert_int_equal(outages_of(wire).count, 0);
  weir_wire_close(wire);
}

/* A request under way is answered by the server that it was sent to; the next ones go on. */
static void what_is_in_flight_drains_first(void **state) {
  enum { SENT = 16 };
  (void)state;
  weir_operation adds[SENT];
  weir_operation next = add_to("weir:t:{outage}:1", 1);
  weir_wire_slot *slots[SENT];
  weir_message message = {""};
  proxy door;
  proxy_start(&door, servers[0], PROXY_OPEN);
  const uint16_t port = address_port(&door.address);
  resolver_lead_to_ports(&port, 1);
  weir_wire *wire = open_wire_at("cache.test", 1, PATIENCE_US, 200 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  int64_t before = count_on(0);
  proxy_set(&door, PROXY_SILENT);
  for (int i = 0; i < SENT; i++) {
    adds[i] = add_to("weir:t:{outage}:1", 1);
    slots[i] = submit(wire, &adds[i], PATIENCE_US);
  }
  weir_wire_flush(wire); /* all are sent, and nothing comes */
  lead_to(1);
  let_thirty_seconds_pass(wire);
  unsigned asked = resolver_asked();
  while (resolver_asked() == asked) {
    assert_false(weir_wire_wait(wire, slots[0], weir_monotonic_us() + 5 * MS));
    pause_ms(1);
  }
  int64_t on_the_other = count_on(1);
  weir_wire_slot *last = submit(wire, &next, PATIENCE_US);
  pause_ms(20);
  assert_false(weir_wire_wait(wire, last, weir_monotonic_us() + 5 * MS));
  proxy_set(&door, PROXY_OPEN);
  for (int i = 0; i < SENT; i++) {
    weir_wire_finish(wire, slots[i], &message);
    assert_done(adds[i], before + 1 + i);
  }
  weir_wire_finish(wire, last, &message);
  assert_done(next, on_the_other + 1);
  assert_int_equal(outages_of(wire).count, 0);
  weir_wire_close(wire);
  proxy_stop(&door);
}

static void a_failed_look_up_keeps_what_is_known(void **state) {
  static const int errors[] = {EAI_AGAIN, EAI_FAIL, EAI_NONAME};
  (void)state;
  lead_to(0);
  weir_wire *wire = open_name();
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    unsigned asked = resolver_asked();
    resolver_fail(errors[i]);
    let_thirty_seconds_pass(wire);
    call_until_looked_up(wire, asked + 1);
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  }
  weir_wire_close(wire);
}

/* However long it hangs: nobody waits for it, and there is one thread of it. */
static void a_resolver_that_hangs_is_asked_once(void **state) {
  (void)state;
  lead_to(0);
  weir_wire *wire = open_name();
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  unsigned asked = resolver_asked();
  resolver_hang();
  let_thirty_seconds_pass(wire);
  for (int i = 0; i < 3; i++) {
    server_restart(servers[0]); /* every loss is a reason to ask */
    pause_ms(20);
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
    pthread_mutex_lock(&wire->lock);
    wire->server.destination.lookup_at_us = 0;
    pthread_mutex_unlock(&wire->lock);
  }
  assert_int_equal(resolver_asked(), asked + 1);
  weir_wire_close(wire);
  lead_to(0);
}

static void a_resolver_that_fails_at_first_is_asked_again(void **state) {
  static const int errors[] = {EAI_AGAIN, EAI_FAIL, EAI_SYSTEM};
  (void)state;
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    resolver_fail(errors[i]);
    weir_wire *wire = open_name();
    answer first = ask(wire, PATIENCE_US);
    assert_int_equal(first.outcome, WEIR_NOT_SENT);
    assert_non_null(strstr(first.message.text, "host \"cache.test\" cannot be found: "));
    lead_to(0);
    call_until_done(wire);
    weir_wire_close(wire);
  }
}

static weir_server_state state_of(const weir_store *store, size_t server) {
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  assert_int_equal(weir_store_read_server(store, server, &state), WEIR_OK);
  return state;
}

static weir_store *open_store(const char *url) {
  weir_store *store = NULL;
  weir_message message = {""};
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

/* As one of a pod that starts: the other members of its pool go on, and it is found when it is there. */
static void a_name_that_does_not_exist_yet_is_looked_for(void **state) {
  (void)state;
  char url[200];
  weir_message message = {""};
  resolver_fail(EAI_NONAME);
  snprintf(url, sizeof url, "memcached://cache.test,127.0.0.1:%u?timeout=10s",
           (unsigned)server_port(servers[1]));
  weir_store *store = open_store(url);
  assert_int_equal(state_of(store, 0).addresses, 0);
  assert_non_null(
      strstr(state_of(store, 0).last_error.text, "host \"cache.test\" cannot be found: "));
  assert_int_equal(state_of(store, 1).addresses, 1);
  assert_int_equal(weir_store_connect(store, 200 * MS, &message), WEIR_UNAVAILABLE);
  assert_non_null(strstr(message.text, "host \"cache.test\" cannot be found: "));
  assert_true(state_of(store, 1).answered);
  lead_to(0);
  if (weir_store_connect(store, PATIENCE_US, &message) != WEIR_OK) fail_msg("%s", message.text);
  assert_true(state_of(store, 0).answered);
  assert_int_equal(state_of(store, 0).addresses, 1);
  weir_store_close(store);
}

/* While a server is away its name is asked about twice a second at most, not with every call. */
static void a_server_that_is_away_is_looked_for_now_and_then(void **state) {
  (void)state;
  lead_to(0);
  weir_wire *wire = open_name();
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_kill(servers[0]);
  unsigned asked = resolver_asked();
  int64_t begin_us = weir_monotonic_us();
  while (weir_monotonic_us() - begin_us < 1500 * MS) {
    assert_int_not_equal(ask(wire, 10 * MS).outcome, WEIR_DONE);
    pause_ms(1);
  }
  int64_t taken_us = weir_monotonic_us() - begin_us;
  assert_in_range(resolver_asked() - asked, 1, (uint64_t)(1 + taken_us / (500 * MS)));
  lead_to(1);
  call_until_done(wire);
  weir_wire_close(wire);
}

static int let_run(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++)
    server_restart(servers[i]);
  return 0;
}

#define test_with_servers(name) cmocka_unit_test_setup(name, let_run)

int main(void) {
  for (size_t i = 0; i < 2; i++)
    servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      test_with_servers(a_name_is_looked_up_again_and_followed),
      test_with_servers(what_is_in_flight_drains_first),
      test_with_servers(a_failed_look_up_keeps_what_is_known),
      test_with_servers(a_resolver_that_hangs_is_asked_once),
      test_with_servers(a_resolver_that_fails_at_first_is_asked_again),
      test_with_servers(a_name_that_does_not_exist_yet_is_looked_for),
      test_with_servers(a_server_that_is_away_is_looked_for_now_and_then),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
