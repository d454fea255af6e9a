/* Callers with little time, and a server that takes its own: who may call that an outage. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "fixture/proxy.h"
#include "wire/outage.h"

enum { IMPATIENT = 8, SLOW_MS = 20, ANSWERS = 40 };

#define LITTLE_US (2 * MS)

static struct server *server;
static proxy door;

typedef struct impatience {
  weir_wire *wire;
  atomic_bool *stop;
  int missed; /* deadlines */
} impatience;

static void *be_impatient(void *context) {
  impatience *self = context;
  while (!atomic_load(self->stop)) {
    answer each = ask(self->wire, LITTLE_US);
    self->missed += each.outcome != WEIR_DONE;
    if (each.turned_away) pause_ms(1);
  }
  return NULL;
}

/* Beside callers who miss every deadline, a patient one gets every answer. */
static void a_slow_server_is_not_given_up_because_some_have_no_time(void **state) {
  (void)state;
  pthread_t threads[IMPATIENT];
  impatience callers[IMPATIENT];
  atomic_bool stop = false;
  int missed = 0;
  proxy_start(&door, server, PROXY_OPEN);
  atomic_store(&door.delay_ms, SLOW_MS);
  weir_wire *wire = open_wire(address_port(&door.address), PATIENCE_US, 200 * MS);
  for (int i = 0; i < IMPATIENT; i++) {
    callers[i] = (impatience){.wire = wire, .stop = &stop};
    assert_int_equal(pthread_create(&threads[i], NULL, be_impatient, &callers[i]), 0);
  }
  answer last = {.outcome = WEIR_DONE};
  for (int i = 0; i < ANSWERS && last.outcome == WEIR_DONE; i++)
    last = ask(wire, PATIENCE_US);
  atomic_store(&stop, true);
  for (int i = 0; i < IMPATIENT; i++) {
    pthread_join(threads[i], NULL);
    missed += callers[i].missed;
  }
  if (last.outcome != WEIR_DONE) fail_msg("%d: %s", (int)last.outcome, last.message.text);
  assert_true(missed > ANSWERS);
  assert_int_equal(outages_of(wire).count, 0);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* Each of them gives up before the connection stands; together they bring it about. */
static void impatient_callers_alone_connect_to_a_slow_server(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_OPEN);
  atomic_store(&door.delay_ms, SLOW_MS);
  weir_wire *wire = open_wire(address_port(&door.address), PATIENCE_US, 200 * MS);
  for (int64_t end_us = weir_monotonic_us() + PATIENCE_US; weir_wire_dialect(wire) < 0;) {
    assert_false(ask(wire, LITTLE_US).turned_away);
    assert_true(weir_monotonic_us() < end_us);
  }
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  assert_int_equal(outages_of(wire).count, 0);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* While a connection is being made, and one deadline has passed in vain. */
static void only_callers_with_no_more_time_than_has_passed_are_turned_away(void **state) {
  (void)state;
  weir_operation adds[2] = {add_to("weir:t:{unready}:1", 1), add_to("weir:t:{unready}:1", 1)};
  weir_message message = {""};
  proxy_start(&door, server, PROXY_SILENT);
  weir_wire *wire = open_wire(address_port(&door.address), PATIENCE_US, 60000 * MS);
  assert_false(ask(wire, LITTLE_US).turned_away); /* begins the attempt, and leaves */
  weir_wire_slot *first = submit(wire, &adds[0], PATIENCE_US);
  assert_true(ask(wire, LITTLE_US).turned_away);
  weir_wire_slot *patient = submit(wire, &adds[1], PATIENCE_US);
  assert_true(ask(wire, LITTLE_US).turned_away);
  proxy_set(&door, PROXY_OPEN);
  weir_wire_finish(wire, patient, &message);
  assert_outcome(adds[1], WEIR_DONE);
  weir_wire_finish(wire, first, &message);
  assert_outcome(adds[0], WEIR_DONE);
  assert_int_equal(outages_of(wire).count, 0);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* None of them waits for long enough to say so. Each finds what those before it left behind. */
static void impatient_callers_find_out_about_a_stopped_server_together(void **state) {
  (void)state;
  weir_wire *wire = open_wire(server_port(server), 100 * MS, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_stop(server);
  int64_t begin_us = weir_monotonic_us();
  while (!outages_of(wire).present) {
    assert_int_not_equal(ask(wire, LITTLE_US).outcome, WEIR_DONE);
    assert_true(weir_monotonic_us() < begin_us + PATIENCE_US);
  }
  assert_true(weir_monotonic_us() - begin_us >= 200 * MS); /* two timeouts */
  assert_non_null(strstr(outages_of(wire).last.text, "no answer by the deadline"));
  int turned_away = 0;
  for (int i = 0; i < 10; i++)
    turned_away += ask(wire, LITTLE_US).turned_away;
  assert_in_range(turned_away, 5, 10);
  server_continue(server);
  weir_wire_close(wire);
}

/* The requests that the impatient leave behind are answered before the timeout: nobody is ever
 * turned away. The times are those of a link of 15 ms, four times as long; a busy machine may make
 * one longer. */
static void callers_with_5_ms_and_with_1_s_share_a_link_of_15_ms(void **state) {
  enum { LONGER = 4, CALLS = 12, TRIES = 10 };
  bool opened = true;
  (void)state;
  for (int i = 0; opened; i++) {
    assert_true(i < TRIES);
    proxy_start(&door, server, PROXY_OPEN);
    weir_wire *wire = open_wire(address_port(&door.address), LONGER * 20 * MS, 200 * MS);
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
    atomic_store(&door.delay_ms, LONGER * 15);
    for (int calls = 0; calls < CALLS; calls++) {
      ask(wire, LONGER * 5 * MS);
      answer patient = ask(wire, LONGER * 1000 * MS);
      opened = outages_of(wire).count > 0;
      if (!opened && patient.outcome != WEIR_DONE)
        fail_msg("%d: %s", (int)patient.outcome, patient.message.text);
    }
    weir_wire_close(wire);
    proxy_stop(&door);
  }
}

/* Its caller leaves before there can be an answer. Until the timeout has passed the others look for
 * it. */
static void a_probe_outlives_its_caller(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address), PATIENCE_US, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  proxy_set(&door, PROXY_SILENT);
  open_breaker(wire);
  await_probe_time(wire);
  assert_false(ask(wire, LITTLE_US).turned_away);
  assert_int_equal(wire->server.breaker.state, WEIR_BREAKER_HALF_OPEN);
  pause_ms(100);
  assert_true(ask(wire, LITTLE_US).turned_away);
  assert_int_equal(wire->server.breaker.state, WEIR_BREAKER_HALF_OPEN);
  proxy_set(&door, PROXY_OPEN);
  int64_t end_us = weir_monotonic_us() + PATIENCE_US;
  for (answer next = {.turned_away = true}; next.turned_away;) {
    next = ask(wire, PATIENCE_US);
    assert_true(next.turned_away || next.outcome == WEIR_DONE);
    assert_true(weir_monotonic_us() < end_us);
  }
  assert_false(outages_of(wire).present);
  assert_int_equal(atomic_load(&door.connections), 1);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* Also where its caller has left long before. */
static void a_probe_is_over_when_its_timeout_has_passed(void **state) {
  enum { TIMEOUT_MS = 50 };
  (void)state;
  weir_wire *wire = open_wire(server_port(server), TIMEOUT_MS * MS, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_stop(server);
  open_breaker(wire);
  await_probe_time(wire);
  assert_false(ask(wire, LITTLE_US).turned_away);
  pause_ms(TIMEOUT_MS + 1);
  assert_true(ask(wire, LITTLE_US).turned_away);
  assert_int_equal(wire->server.breaker.state, WEIR_BREAKER_OPEN);
  assert_int_equal(wire->server.breaker.pause_us, 2 * WEIR_BREAKER_FIRST_US);
  server_continue(server);
  expect_recovery(wire);
  weir_wire_close(wire);
}

/* The first over a connection that stands, the others find it overdue and make new ones. */
static void probes_double_the_pause(void **state) {
  (void)state;
  weir_wire *wire = open_wire(server_port(server), 20 * MS, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_stop(server);
  open_breaker(wire);
  for (int64_t pause_us = 2 * WEIR_BREAKER_FIRST_US; pause_us <= 8 * WEIR_BREAKER_FIRST_US;
       pause_us *= 2) {
    await_probe_time(wire);
    assert_false(ask(wire, 100 * MS).turned_away);
    assert_int_equal(wire->server.breaker.pause_us, pause_us);
  }
  server_continue(server);
  expect_recovery(wire);
  weir_wire_close(wire);
}

/* It was sent when its connection was lost: the next one may go. */
static void a_probe_that_is_hung_up_on_makes_room_for_the_next(void **state) {
  (void)state;
  weir_operation add = add_to("weir:t:{hung}:1", 1);
  weir_message message = {""};
  weir_wire *wire = open_wire(server_port(server), PATIENCE_US, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_stop(server);
  open_breaker(wire);
  await_probe_time(wire);
  weir_wire_slot *probe = submit(wire, &add, PATIENCE_US);
  weir_wire_flush(wire);
  server_restart(server);
  weir_wire_finish(wire, probe, &message);
  assert_outcome(add, WEIR_UNKNOWN);
  expect_recovery(wire);
  weir_wire_close(wire);
}

/* Somebody else led, and found it too old to be sent. */
static void a_probe_that_is_not_sent_in_time_makes_room_for_the_next(void **state) {
  (void)state;
  weir_operation adds[2] = {add_to("weir:t:{old}:1", 1), add_to("weir:t:{old}:1", 1)};
  weir_message message = {""};
  weir_wire *wire = open_wire(server_port(server), PATIENCE_US, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  weir_wire_slot *before = submit(wire, &adds[0], PATIENCE_US);
  open_breaker(wire);
  await_probe_time(wire);
  weir_wire_slot *probe = submit(wire, &adds[1], LITTLE_US);
  assert_int_equal(wire->server.breaker.state, WEIR_BREAKER_HALF_OPEN);
  pause_ms((long)(LITTLE_US / MS) + 1);
  server_stop(server);
  weir_wire_flush(wire);
  assert_int_equal(wire->server.breaker.state, WEIR_BREAKER_OPEN);
  weir_wire_finish(wire, probe, &message);
  assert_outcome(adds[1], WEIR_NOT_SENT);
  server_continue(server);
  weir_wire_finish(wire, before, &message);
  assert_outcome(adds[0], WEIR_DONE);
  assert_false(outages_of(wire).present);
  weir_wire_close(wire);
}

/* A deadline that is missed although answers came all the while; to the end, there is more to send
 * than the socket takes. */
static void a_server_that_is_still_answering_a_long_batch_is_not_silent(void **state) {
  enum { COUNT = 100000, CHUNK_MS = 300 };
  static weir_operation adds[COUNT];
  char key[WEIR_STORE_KEY_MOST + 1];
  (void)state;
  weir_message message = {""};
  proxy_start(&door, server, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address), 100 * MS, 200 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  atomic_store(&door.delay_ms, CHUNK_MS);
  snprintf(key, sizeof key, "weir:t:{%0230d}:1", 7);
  weir_wire_slot *slot = weir_wire_slot_take(wire);
  for (int i = 0; i < COUNT; i++) {
    adds[i] = add_to(key, 1);
    assert_true(weir_wire_slot_add(slot, &adds[i], 0));
  }
  weir_wire_submit(wire, slot, 1U << WEIR_DIALECT_META, weir_monotonic_us() + 10 * MS * CHUNK_MS);
  weir_wire_finish(wire, slot, &message);
  if (adds[0].outcome != WEIR_DONE) fail_msg("%d: %s", (int)adds[0].outcome, message.text);
  assert_int_not_equal(adds[COUNT - 1].outcome, WEIR_DONE);
  assert_int_equal(outages_of(wire).count, 0);
  weir_wire_close(wire);
  proxy_stop(&door);
}

static void another_protocol_is_turned_away_and_recovers_alike(void **state) {
  (void)state;
  struct server *redis = server_start_redis(SERVER_IPV4, NULL);
  weir_store *store = open_servers(&redis, 1, "probe=50ms");
  weir_message message = {""};
  assert_done(execute(store, add_to("weir:t:{r}:1", 1), &message), 1);
  server_kill(redis);
  pause_ms(20); /* an idle connection is looked at before use */
  for (int i = 0; i < 100 && strstr(message.text, "not answering") == NULL; i++)
    assert_outcome(execute(store, add_to("weir:t:{r}:1", 1), &message), WEIR_NOT_SENT);
  assert_non_null(strstr(message.text, "not answering (last: cannot connect"));
  server_restart(redis);
  assert_done(execute_when_back(store, add_to("weir:t:{r}:1", 1), &message), 1);
  weir_store_close(store);
}

static void the_probe_option_has_bounds(void **state) {
  (void)state;
  static const char *const urls[] = {"memcached://127.0.0.1?probe=", "redis://127.0.0.1?probe=",
                                     "memcached+unix:///a?probe=", "redis+unix:///a?probe="};
  static const struct {
    const char *value;
    weir_status status;
  } values[] = {{"10ms", WEIR_OK},         {"60s", WEIR_OK},        {"9ms", WEIR_BAD_URL},
                {"60001ms", WEIR_BAD_URL}, {"never", WEIR_BAD_URL}, {"", WEIR_BAD_URL}};
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
    for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
      char url[64];
      weir_store *store = NULL;
      weir_message message = {""};
      snprintf(url, sizeof url, "%s%s", urls[i], values[j].value);
      assert_int_equal(weir_store_open(url, &store, &message), values[j].status);
      if (values[j].status != WEIR_OK) assert_non_null(strstr(message.text, "probe"));
      weir_store_close(store);
    }
  }
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
      test_with_server(a_slow_server_is_not_given_up_because_some_have_no_time),
      test_with_server(impatient_callers_alone_connect_to_a_slow_server),
      test_with_server(only_callers_with_no_more_time_than_has_passed_are_turned_away),
      test_with_server(impatient_callers_find_out_about_a_stopped_server_together),
      test_with_server(callers_with_5_ms_and_with_1_s_share_a_link_of_15_ms),
      test_with_server(a_probe_outlives_its_caller),
      test_with_server(a_probe_is_over_when_its_timeout_has_passed),
      test_with_server(probes_double_the_pause),
      test_with_server(a_probe_that_is_hung_up_on_makes_room_for_the_next),
      test_with_server(a_probe_that_is_not_sent_in_time_makes_room_for_the_next),
      test_with_server(a_server_that_is_still_answering_a_long_batch_is_not_silent),
      test_with_server(another_protocol_is_turned_away_and_recovers_alike),
      test_with_server(the_probe_option_has_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
