/* Connections that take longer than the decision that began them. */
#include <netinet/tcp.h>
#include <stdio.h>

#include "fixture/proxy.h"
#include "wire/outage.h"

enum { SLOW_MS = 11, CALLS_MOST = 200 };

static struct server *server;
static proxy door;

/* Each reply is in time, and TLS and AUTH need several. */
static void tls_and_a_password_at_11_ms_a_reply_connect_under_the_default_deadline(void **state) {
  static const char *const arguments[] = {"--tls-auth-clients", "no", "--requirepass", "secret",
                                          NULL};
  (void)state;
  char url[SERVER_URL_BYTES];
  weir_message message = {""};
  weir_store *store;
  struct server *redis = server_start_redis_tls(SERVER_IPV4, CERTIFICATE_SERVER, arguments);
  proxy_start(&door, redis, PROXY_OPEN);
  atomic_store(&door.secure, true);
  atomic_store(&door.delay_ms, SLOW_MS);
  snprintf(url, sizeof url, "rediss://:secret@127.0.0.1:%u?tls-ca=%s",
           (unsigned)address_port(&door.address), certificate_file(CERTIFICATE_CA));
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s", message.text);
  weir_operation add = {.outcome = WEIR_NOT_SENT};
  for (int calls = 0; calls < CALLS_MOST && add.outcome == WEIR_NOT_SENT; calls++) {
    add = add_to("weir:t:{slow}:1", 1);
    weir_store_exec(store, &add, 1, deadline_in_ms(20), &message);
    if (add.outcome == WEIR_NOT_SENT) pause_ms(5);
  }
  if (add.outcome != WEIR_DONE && add.outcome != WEIR_UNKNOWN) fail_msg("%s", message.text);
  assert_int_equal(atomic_load(&door.connections), 1); /* all went on with the first */
  weir_store_close(store);
  proxy_stop(&door);
}

/* Calls that come further apart than an attempt may last: what the server has said meanwhile
 * counts. */
static void rare_callers_bring_a_connection_about(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_OPEN);
  atomic_store(&door.delay_ms, 20);
  weir_wire *wire = open_wire(address_port(&door.address), 5 * MS, 10 * MS);
  wire->server.connect_us = 30 * MS;
  for (int calls = 0; weir_wire_dialect(wire) < 0; calls++) {
    assert_true(calls < CALLS_MOST);
    ask(wire, 5 * MS);
    pause_ms(50);
  }
  assert_int_equal(atomic_load(&door.connections), 1);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* However patient: a server that does not even greet is away. */
static void an_attempt_has_an_end(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_SILENT);
  weir_wire *wire = open_wire(address_port(&door.address), 20 * MS, 200 * MS);
  wire->server.connect_us = 50 * MS;
  int64_t begin_us = weir_monotonic_us();
  answer waited = ask(wire, PATIENCE_US);
  int64_t taken_us = weir_monotonic_us() - begin_us;
  assert_int_equal(waited.outcome, WEIR_NOT_SENT);
  assert_non_null(strstr(waited.message.text, "the server does not answer the greeting"));
  assert_in_range(taken_us, 50 * MS, PATIENCE_US / 2);
  assert_true(outages_of(wire).present);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* Before anybody has lost a deadline all wait in line: the server is not away. */
static void who_comes_while_the_first_connection_is_made_waits_for_it(void **state) {
  enum { CALLERS = 16 };
  (void)state;
  weir_operation adds[CALLERS];
  weir_wire_slot *slots[CALLERS];
  weir_message message = {""};
  proxy_start(&door, server, PROXY_OPEN);
  atomic_store(&door.delay_ms, 20);
  weir_wire *wire = open_wire(address_port(&door.address), PATIENCE_US, 200 * MS);
  for (int i = 0; i < CALLERS; i++) {
    adds[i] = add_to("weir:t:{first}:1", 1);
    slots[i] = submit(wire, &adds[i], PATIENCE_US);
  }
  for (int i = 0; i < CALLERS; i++) {
    weir_wire_finish(wire, slots[i], &message);
    assert_done(adds[i], 1 + i);
  }
  assert_int_equal(atomic_load(&door.connections), 1);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* Whoever waits is answered at its deadline; whoever comes later with as little time at once, while one
 * at a time goes on. Nothing is known of the server yet, so it is not away. */
static void a_connection_that_takes_longer_than_a_deadline_is_no_outage(void **state) {
  enum { LATE_MS = 50, ROUNDS = 5 };
  (void)state;
  weir_operation adds[2];
  weir_wire_slot *slots[2];
  weir_message message = {""};
  proxy_start(&door, server, PROXY_SILENT);
  weir_wire *wire = open_wire(address_port(&door.address), LATE_MS * MS, 200 * MS);
  for (int i = 0; i < 2; i++) {
    adds[i] = add_to("weir:t:{connecting}:1", 1);
    slots[i] = submit(wire, &adds[i], LATE_MS * MS);
  }
  for (int i = 0; i < 2; i++) {
    weir_wire_finish(wire, slots[i], &message);
    assert_outcome(adds[i], WEIR_NOT_SENT);
    assert_false(adds[i].late);
  }
  for (int i = 0; i < ROUNDS; i++) {
    weir_operation add = add_to("weir:t:{connecting}:1", 1);
    weir_wire_slot *goes_on = submit(wire, &add, PATIENCE_US);
    assert_false(goes_on->state == WEIR_SLOT_DONE);
    answer other = ask(wire, LATE_MS * MS);
    assert_int_equal(other.outcome, WEIR_NOT_SENT);
    assert_true(other.turned_away);
    assert_false(other.late);
    assert_non_null(strstr(other.message.text, "(last: no connection by the deadline); a try is"));
    goes_on->deadline_us = weir_monotonic_us() + LATE_MS * MS;
    weir_wire_finish(wire, goes_on, &message);
    assert_outcome(add, WEIR_NOT_SENT);
    assert_false(add.late);
  }
  assert_int_equal(outages_of(wire).count, 0);
  assert_false(outages_of(wire).present);
  assert_int_equal(atomic_load(&door.connections), 1);
  proxy_set(&door, PROXY_OPEN);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* A caller by itself, and a host that does not even refuse: what it takes in vain has an end, long before
 * the attempt has. Nothing but time speaks against the server, until the attempt has failed. */
static void nobody_waits_on_for_a_host_that_swallows_connections(void **state) {
  enum { TIMEOUT_MS = 20, WAITS_MOST_MS = 80, CONNECT_MS = 400 };
  (void)state;
  int64_t waited_us = 0;
  int calls = 0;
  proxy_start(&door, server, PROXY_FULL);
  weir_wire *wire = open_wire(address_port(&door.address), TIMEOUT_MS * MS, 60000 * MS);
  wire->server.connect_us = CONNECT_MS * MS;
  int64_t begin_us = weir_monotonic_us();
  for (answer each = {.slow = true}; each.slow; calls++) {
    int64_t since_us = weir_monotonic_us();
    each = ask(wire, TIMEOUT_MS * MS);
    assert_int_equal(each.outcome, WEIR_NOT_SENT);
    assert_false(each.late);
    assert_int_equal(each.slow, !outages_of(wire).present);
    if (since_us - begin_us > WAITS_MOST_MS * MS) {
      assert_true(each.turned_away || outages_of(wire).present);
      waited_us += weir_monotonic_us() - since_us;
    }
    pause_ms(1);
  }
  assert_in_range(weir_monotonic_us() - begin_us, CONNECT_MS * MS, PATIENCE_US);
  assert_true(calls > 20);
  assert_in_range(waited_us / calls, 0, MS);
  assert_int_equal(outages_of(wire).count, 1);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* They only look, and so the attempt goes on: each step of it is taken by who comes next. */
static void callers_that_only_look_bring_a_connection_about(void **state) {
  enum { TIMEOUT_MS = 5 };
  (void)state;
  proxy_start(&door, server, PROXY_SILENT);
  weir_wire *wire = open_wire(address_port(&door.address), TIMEOUT_MS * MS, 200 * MS);
  for (answer each = {.turned_away = false}; !each.turned_away;)
    each = ask(wire, TIMEOUT_MS * MS);
  proxy_set(&door, PROXY_OPEN);
  for (int calls = 0; weir_wire_dialect(wire) < 0; calls++) {
    assert_true(calls < 1000);
    ask(wire, 1);
    pause_ms(1);
  }
  assert_int_equal(outages_of(wire).count, 0);
  assert_int_equal(atomic_load(&door.connections), 1);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* Nobody need be there when it ends. */
static void an_attempt_that_ends_between_two_calls_has_failed(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_SILENT);
  weir_wire *wire = open_wire(address_port(&door.address), 20 * MS, 60000 * MS);
  wire->server.connect_us = 50 * MS;
  assert_int_equal(ask(wire, 5 * MS).outcome, WEIR_NOT_SENT);
  assert_int_equal(outages_of(wire).count, 0);
  pause_ms(100);
  answer next = ask(wire, PATIENCE_US);
  assert_int_equal(next.outcome, WEIR_NOT_SENT);
  assert_false(next.late);
  assert_int_equal(outages_of(wire).count, 1);
  assert_non_null(strstr(outages_of(wire).last.text, "the server does not answer the greeting"));
  weir_wire_close(wire);
  proxy_stop(&door);
}

static void the_connect_timeout_option_has_bounds(void **state) {
  static const char *const bad[] = {"0ms", "61s", "fast"};
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char url[64];
    weir_store *store;
    weir_message message = {""};
    snprintf(url, sizeof url, "memcached://127.0.0.1?connect-timeout=%s", bad[i]);
    assert_int_equal(weir_store_open(url, &store, &message), WEIR_BAD_URL);
    assert_non_null(strstr(message.text, "from 1ms to 1m"));
  }
}

static void a_connection_is_kept_alive(void **state) {
  (void)state;
  static const struct {
    int level, name, value;
  } wanted[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, 15},
                {IPPROTO_TCP, TCP_KEEPINTVL, 5},
                {IPPROTO_TCP, TCP_KEEPCNT, 3}};
  weir_wire *wire = open_wire(server_port(server), PATIENCE_US, 200 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    int value = 0;
    socklen_t length = sizeof value;
    assert_int_equal(
        getsockopt(wire->lines[0].fd, wanted[i].level, wanted[i].name, &value, &length), 0);
    assert_int_equal(value, wanted[i].value);
  }
  weir_wire_close(wire);
}

int main(void) {
  server = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tls_and_a_password_at_11_ms_a_reply_connect_under_the_default_deadline),
      cmocka_unit_test(rare_callers_bring_a_connection_about),
      cmocka_unit_test(an_attempt_has_an_end),
      cmocka_unit_test(who_comes_while_the_first_connection_is_made_waits_for_it),
      cmocka_unit_test(a_connection_that_takes_longer_than_a_deadline_is_no_outage),
      cmocka_unit_test(nobody_waits_on_for_a_host_that_swallows_connections),
      cmocka_unit_test(callers_that_only_look_bring_a_connection_about),
      cmocka_unit_test(an_attempt_that_ends_between_two_calls_has_failed),
      cmocka_unit_test(the_connect_timeout_option_has_bounds),
      cmocka_unit_test(a_connection_is_kept_alive),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
