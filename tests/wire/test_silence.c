/* Who proves that a server is away, and who was only late: a real server behind a proxy, and
 * callers who come back to their request at a time of the test's choosing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/proxy.h"
#include "wire/outage.h"

/* A caller who comes back this late is no longer on time, and its request not yet overdue. */
enum { TIMEOUT_MS = 400, BACK_MS = 550, TRIES = 10 };

static struct server *server;
static proxy door;

static weir_wire *open_through_proxy(int64_t timeout_us) {
  proxy_start(&door, server, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address), timeout_us, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  return wire;
}

static void close_all(weir_wire *wire) {
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* Sends, is kept from the processor until long after the deadline, and looks. */
static answer ask_and_sleep(weir_wire *wire) {
  weir_operation add = add_to("weir:t:{late}:1", 1);
  answer made = {.message = {""}};
  weir_wire_slot *slot = submit(wire, &add, TIMEOUT_MS * MS);
  weir_wire_flush(wire);
  pause_ms(BACK_MS);
  weir_wire_finish(wire, slot, &made.message);
  made.outcome = add.outcome;
  made.late = add.late;
  return made;
}

static void whoever_comes_too_late_finds_the_answer_all_the_same(void **state) {
  (void)state;
  weir_wire *wire = open_through_proxy(TIMEOUT_MS * MS);
  assert_int_equal(ask_and_sleep(wire).outcome, WEIR_DONE);
  assert_int_equal(outages_of(wire).count, 0);
  close_all(wire);
}

/* One silent server, and nobody on time: the first look proves nothing, the one that finds a whole
 * second without a byte does. */
static void nobody_on_time_proves_silence_after_a_second(void **state) {
  (void)state;
  weir_wire *wire = open_through_proxy(TIMEOUT_MS * MS);
  proxy_set(&door, PROXY_SILENT);
  answer first = ask_and_sleep(wire);
  assert_int_equal(first.outcome, WEIR_UNKNOWN);
  assert_true(first.late);
  assert_int_equal(outages_of(wire).count, 0);
  answer second = ask_and_sleep(wire);
  assert_int_not_equal(second.outcome, WEIR_DONE);
  assert_false(second.late);
  assert_true(outages_of(wire).present);
  close_all(wire);
}

static void somebody_on_time_proves_silence_at_once(void **state) {
  (void)state;
  weir_wire *wire = open_through_proxy(TIMEOUT_MS * MS);
  proxy_set(&door, PROXY_SILENT);
  answer only = {.late = true};
  for (int i = 0; i < TRIES && only.late; i++) /* a busy machine may make it late */
    only = ask(wire, TIMEOUT_MS * MS);
  assert_false(only.late);
  assert_true(outages_of(wire).present);
  assert_true(ask(wire, TIMEOUT_MS * MS).turned_away);
  assert_false(ask(wire, TIMEOUT_MS * MS).late);
  close_all(wire);
}

/* A process of before this may have come back, or nobody: the next connection will tell. */
static void a_lost_connection_proves_nothing(void **state) {
  (void)state;
  weir_operation add = add_to("weir:t:{lost}:1", 1);
  weir_message message = {""};
  weir_wire *wire = open_wire(server_port(server), PATIENCE_US, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_stop(server);
  weir_wire_slot *slot = submit(wire, &add, PATIENCE_US);
  weir_wire_flush(wire);
  server_kill(server);
  weir_wire_finish(wire, slot, &message);
  assert_outcome(add, WEIR_UNKNOWN);
  assert_true(add.late);
  assert_int_equal(outages_of(wire).count, 0);
  answer next = ask(wire, PATIENCE_US);
  assert_int_equal(next.outcome, WEIR_NOT_SENT);
  assert_false(next.late);
  assert_int_equal(outages_of(wire).count, 1);
  weir_wire_close(wire);
}

/* Until the server counts as away; how many requests were late before. */
static int ask_until_away(weir_wire *wire, int64_t deadline_us) {
  int late = 0;
  for (int64_t end_us = weir_monotonic_us() + PATIENCE_US; !outages_of(wire).present;) {
    answer each = ask(wire, deadline_us);
    late += each.late;
    assert_int_not_equal(each.outcome, WEIR_DONE);
    assert_true(weir_monotonic_us() < end_us);
  }
  return late;
}

/* Bytes all the time, and no answer in time: late for a second, then away. Where the machine is so
 * busy that the proxy brings nothing for a while the server is silent instead. */
static void a_trickle_is_bytes_and_not_answers(void **state) {
  enum { SHORT_MS = 100, BYTE_MS = 20, GREETING_BYTES = 4 /* "MN" and the end of its line */ };
  bool shown = false;
  (void)state;
  for (int i = 0; i < TRIES && !shown; i++) {
    weir_wire *wire = open_through_proxy(SHORT_MS * MS);
    atomic_store(&door.byte_ms, BYTE_MS);
    atomic_store(&door.greeting_bytes, GREETING_BYTES);
    proxy_set(&door, PROXY_TRICKLES);
    int64_t began_us = weir_monotonic_us();
    int late = ask_until_away(wire, SHORT_MS * MS);
    int64_t took_us = weir_monotonic_us() - began_us;
    shown = strstr(outages_of(wire).last.text, "no answer in time for a second") != NULL;
    if (shown) assert_true(late > 1 && took_us >= WEIR_BREAKER_PROOF_US);
    close_all(wire);
  }
  assert_true(shown);
}

/* Also after a test that failed half-way. */
static int let_run(void **state) {
  (void)state;
  server_restart(server);
  return 0;
}

#define test_with_server(name) cmocka_unit_test_teardown(name, let_run)

int main(void) {
  server = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      test_with_server(whoever_comes_too_late_finds_the_answer_all_the_same),
      test_with_server(nobody_on_time_proves_silence_after_a_second),
      test_with_server(somebody_on_time_proves_silence_at_once),
      test_with_server(a_lost_connection_proves_nothing),
      test_with_server(a_trickle_is_bytes_and_not_answers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
