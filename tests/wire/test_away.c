/* One miss proves nothing, and two of them a timeout apart do: a real server that pauses, behind a
 * proxy where it takes its time, and callers who come back to their request late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture/proxy.h"
#include "wire/outage.h"

/* A busy machine may hold up a test for longer than what it measures: then it is repeated. */
enum { TIMEOUT_MS = 300, TRIES = 20, THREADS = 8 };

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
  pause_ms(TIMEOUT_MS + TIMEOUT_MS / 2);
  weir_wire_finish(wire, slot, &made.message);
  made.outcome = add.outcome;
  made.late = add.late;
  return made;
}

static void whoever_comes_too_late_finds_the_answer_all_the_same(void **state) {
  (void)state;
  weir_wire *wire = open_through_proxy(TIMEOUT_MS * MS);
  for (int i = 0; i < 3; i++)
    assert_int_equal(ask_and_sleep(wire).outcome, WEIR_DONE);
  assert_int_equal(outages_of(wire).count, 0);
  close_all(wire);
}

static void one_miss_is_late_and_another_one_a_timeout_later_is_away(void **state) {
  (void)state;
  weir_wire *wire = open_through_proxy(TIMEOUT_MS * MS);
  proxy_set(&door, PROXY_SILENT);
  answer first = ask(wire, TIMEOUT_MS * MS);
  assert_int_equal(first.outcome, WEIR_UNKNOWN);
  assert_true(first.late);
  assert_int_equal(outages_of(wire).count, 0);
  answer second = ask(wire, TIMEOUT_MS * MS);
  assert_int_equal(second.outcome, WEIR_UNKNOWN);
  assert_false(second.late);
  assert_int_equal(outages_of(wire).count, 1);
  answer third = ask(wire, TIMEOUT_MS * MS);
  assert_true(third.turned_away);
  assert_false(third.late);
  close_all(wire);
}

/* However many. */
static void misses_at_the_same_time_are_late(void **state) {
  enum { SLOTS = 32 };
  (void)state;
  weir_operation adds[SLOTS];
  weir_wire_slot *slots[SLOTS];
  weir_message message = {""};
  weir_wire *wire = open_through_proxy(TIMEOUT_MS * MS);
  proxy_set(&door, PROXY_SILENT);
  for (int i = 0; i < SLOTS; i++) {
    adds[i] = add_to("weir:t:{same}:1", 1);
    slots[i] = submit(wire, &adds[i], TIMEOUT_MS * MS);
  }
  for (int i = 0; i < SLOTS; i++)
    weir_wire_finish(wire, slots[i], &message);
  for (int i = 0; i < SLOTS; i++)
    assert_true(adds[i].outcome == WEIR_UNKNOWN && adds[i].late);
  assert_int_equal(outages_of(wire).count, 0);
  close_all(wire);
}

static void an_answer_in_between_begins_anew(void **state) {
  (void)state;
  weir_wire *wire = open_through_proxy(TIMEOUT_MS * MS);
  for (int i = 0; i < 4; i++) {
    proxy_set(&door, PROXY_SILENT);
    assert_true(ask(wire, TIMEOUT_MS * MS).late);
    proxy_set(&door, PROXY_OPEN);
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  }
  assert_int_equal(outages_of(wire).count, 0);
  close_all(wire);
}

typedef struct traffic {
  weir_wire *wire;
  atomic_bool *stop;
} traffic;

static void *keep_asking(void *context) {
  traffic *self = context;
  while (!atomic_load(self->stop))
    if (ask(self->wire, TIMEOUT_MS * MS).turned_away) pause_ms(1);
  return NULL;
}

/* Stops the server for so long under traffic, until that took less than `most_us`. How often it was
 * away. */
static uint64_t outages_of_a_pause(long ms, int64_t most_us) {
  for (int tries = 0; tries < TRIES; tries++) {
    pthread_t threads[THREADS];
    atomic_bool stop = false;
    weir_wire *wire = open_wire(server_port(server), TIMEOUT_MS * MS, 60000 * MS);
    traffic self = {wire, &stop};
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
    for (int i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, keep_asking, &self), 0);
    pause_ms(50);
    int64_t begin_us = weir_monotonic_us();
    server_stop(server);
    pause_ms(ms);
    server_continue(server);
    answer after = ask(wire, PATIENCE_US);
    int64_t taken_us = weir_monotonic_us() - begin_us;
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
    uint64_t count = outages_of(wire).count;
    weir_wire_close(wire);
    if (after.turned_away || taken_us < most_us) return count;
  }
  fail_msg("too busy");
  return 0;
}

static void a_pause_below_two_timeouts_opens_nothing(void **state) {
  (void)state;
  assert_int_equal(outages_of_a_pause(TIMEOUT_MS * 3 / 2, 2 * TIMEOUT_MS * MS), 0);
}

static void a_pause_beyond_two_timeouts_opens(void **state) {
  (void)state;
  assert_int_equal(outages_of_a_pause(TIMEOUT_MS * 5 / 2, INT64_MAX), 1);
}

/* It is a miss, and the next connection finds out. */
static void a_lost_connection_alone_is_late(void **state) {
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
  assert_false(add.slow);
  assert_int_equal(outages_of(wire).count, 0);
  answer next = ask(wire, PATIENCE_US);
  assert_int_equal(next.outcome, WEIR_NOT_SENT);
  assert_false(next.late);
  assert_false(next.slow);
  assert_int_equal(outages_of(wire).count, 1);
  weir_wire_close(wire);
}

/* How long until it counts as away. */
static int64_t time_until_away(weir_wire *wire, int64_t deadline_us) {
  int64_t begin_us = weir_monotonic_us();
  while (!outages_of(wire).present) {
    assert_int_not_equal(ask(wire, deadline_us).outcome, WEIR_DONE);
    assert_true(weir_monotonic_us() < begin_us + PATIENCE_US);
  }
  return weir_monotonic_us() - begin_us;
}

/* Bytes all the time, and no answer in time. */
static void a_trickle_is_bytes_and_not_answers(void **state) {
  enum { SHORT_MS = 100, BYTE_MS = 60, GREETING_BYTES = 4 /* "MN" and the end of its line */ };
  (void)state;
  weir_wire *wire = open_through_proxy(SHORT_MS * MS);
  atomic_store(&door.byte_ms, BYTE_MS);
  atomic_store(&door.greeting_bytes, GREETING_BYTES);
  proxy_set(&door, PROXY_TRICKLES);
  assert_true(time_until_away(wire, SHORT_MS * MS) >= 2 * SHORT_MS * MS);
  close_all(wire);
}

/* Each answer comes after its deadline, and is read by the next who looks. False: a caller was held
 * up until its answer was there. */
static bool stays_away(weir_wire *wire, int64_t deadline_us) {
  int64_t end_us = weir_monotonic_us() + 1000 * MS;
  while (weir_monotonic_us() < end_us) {
    answer each = ask(wire, deadline_us);
    if (each.outcome == WEIR_DONE) return false;
    assert_true(outages_of(wire).present);
    assert_int_equal(outages_of(wire).count, 1);
    if (each.turned_away) pause_ms(1);
  }
  return true;
}

static void a_late_answer_neither_closes_nor_clears(void **state) {
  enum { SHORT_MS = 50, SLOW_MS = 80, MISSES = 12 };
  bool shown = false;
  (void)state;
  for (int i = 0; i < TRIES && !shown; i++) {
    proxy_start(&door, server, PROXY_OPEN);
    weir_wire *wire = open_wire(address_port(&door.address), SHORT_MS * MS, 100 * MS);
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
    atomic_store(&door.delay_ms, SLOW_MS);
    /* Each comes before the next is missed. */
    answer each = {.outcome = WEIR_UNKNOWN};
    for (int n = 0; n < MISSES && !shown && each.outcome != WEIR_DONE; n++) {
      each = ask(wire, SHORT_MS * MS);
      shown = outages_of(wire).present;
    }
    if (shown) {
      shown = stays_away(wire, SHORT_MS * MS);
      assert_in_range(atomic_load(&door.connections), 1, 5); /* not one for each: they were read */
      atomic_store(&door.delay_ms, 0);
      if (shown) expect_recovery(wire);
    }
    close_all(wire);
  }
  assert_true(shown);
}

/* Each is a miss, and a timeout after the one before; but all of them are answered. */
static void some_late_answers_in_a_row_are_no_outage(void **state) {
  enum { SHORT_MS = 100, SLOW_MS = 130, MISSES = 3 };
  bool shown = false;
  (void)state;
  for (int i = 0; i < TRIES && !shown; i++) {
    int late = 0;
    proxy_start(&door, server, PROXY_OPEN);
    weir_wire *wire = open_wire(address_port(&door.address), SHORT_MS * MS, 100 * MS);
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
    atomic_store(&door.delay_ms, SLOW_MS);
    for (int n = 0; n < MISSES; n++) {
      answer each = ask(wire, SHORT_MS * MS);
      late += each.outcome == WEIR_UNKNOWN && each.late && each.slow;
    }
    atomic_store(&door.delay_ms, 0);
    shown = late == MISSES && ask(wire, PATIENCE_US).outcome == WEIR_DONE &&
            outages_of(wire).count == 0;
    close_all(wire);
  }
  assert_true(shown);
}

/* Greets as it should, and then says of everything that it is fine. */
typedef struct yes_sayer {
  struct address address;
  const char *greeting;
  int listener;
  pthread_t thread;
} yes_sayer;

static void *say_yes(void *context) {
  const yes_sayer *self = context;
  char heard[4096];
  for (int fd; (fd = accept(self->listener, NULL, NULL)) >= 0; close(fd)) {
    const char *next = self->greeting;
    while (recv(fd, heard, sizeof heard, 0) > 0 && send(fd, next, strlen(next), MSG_NOSIGNAL) > 0)
      next = "+OK\r\n+OK\r\n+OK\r\n";
  }
  return NULL;
}

static void start_yes_sayer(yes_sayer *self, const char *greeting) {
  int on = 1;
  self->greeting = greeting;
  assert_int_equal(address_take_port(&self->address, SERVER_IPV4), 0);
  self->listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  assert_int_equal(bind(self->listener, &self->address.socket.any, self->address.socket_bytes), 0);
  assert_int_equal(listen(self->listener, 8), 0);
  assert_int_equal(pthread_create(&self->thread, NULL, say_yes, self), 0);
}

static void stop_yes_sayer(yes_sayer *self) {
  shutdown(self->listener, SHUT_RDWR);
  pthread_join(self->thread, NULL);
  close(self->listener);
  address_release(&self->address);
}

static void answers_of_another_kind_are_none(void **state) {
  (void)state;
  yes_sayer other;
  start_yes_sayer(&other, "MN\r\n");
  weir_wire *wire = open_wire(address_port(&other.address), TIMEOUT_MS * MS, 60000 * MS);
  assert_true(time_until_away(wire, PATIENCE_US) >= TIMEOUT_MS * MS);
  assert_non_null(strstr(outages_of(wire).last.text, "the server's reply is not memcached"));
  await_probe_time(wire);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_UNKNOWN);
  assert_true(outages_of(wire).present);
  assert_int_equal(outages_of(wire).count, 1);
  weir_wire_close(wire);
  stop_yes_sayer(&other);
}

/* To SET that is an answer, and to INCRBY behind it none: the request has no answer. */
static void a_redis_that_says_ok_to_everything_is_away(void **state) {
  (void)state;
  yes_sayer other;
  char url[SERVER_URL_BYTES];
  weir_store *store;
  weir_message message = {""};
  weir_server_state now = {.size = sizeof now};
  start_yes_sayer(&other, "+PONG\r\n");
  snprintf(url, sizeof url, "redis://127.0.0.1:%u?timeout=%dms&probe=60s",
           (unsigned)address_port(&other.address), TIMEOUT_MS);
  assert_int_equal(weir_store_open(url, &store, &message), WEIR_OK);
  int64_t begin_us = weir_monotonic_us();
  while (now.outages == 0) {
    assert_int_not_equal(execute(store, add_to("weir:t:{yes}:1", 1), &message).outcome, WEIR_DONE);
    weir_store_read_server(store, 0, &now);
    assert_true(weir_monotonic_us() < begin_us + PATIENCE_US / 2);
  }
  assert_true(weir_monotonic_us() - begin_us >= TIMEOUT_MS * MS);
  assert_int_not_equal(now.breaker, WEIR_BREAKER_CLOSED);
  assert_non_null(strstr(now.last_error.text, "the server's reply is not Redis"));
  weir_store_close(store);
  stop_yes_sayer(&other);
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
      test_with_server(one_miss_is_late_and_another_one_a_timeout_later_is_away),
      test_with_server(misses_at_the_same_time_are_late),
      test_with_server(an_answer_in_between_begins_anew),
      test_with_server(a_pause_below_two_timeouts_opens_nothing),
      test_with_server(a_pause_beyond_two_timeouts_opens),
      test_with_server(a_lost_connection_alone_is_late),
      test_with_server(a_trickle_is_bytes_and_not_answers),
      test_with_server(a_late_answer_neither_closes_nor_clears),
      test_with_server(some_late_answers_in_a_row_are_no_outage),
      test_with_server(answers_of_another_kind_are_none),
      test_with_server(a_redis_that_says_ok_to_everything_is_away),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
