/* Servers that die, stop and come back. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "wire/operations.h"

/* What a deadline may be missed by. The machine may be busy with other things, so only the best
 * call of a test is held to the first. */
enum { GRACE_US = 5000, BUSY_US = 500000 };

static struct server *server;
static int64_t least_late_us;

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void note_lateness(int64_t late_us) {
  if (late_us < least_late_us) least_late_us = late_us;
  if (late_us > BUSY_US) fail_msg("%lld us late", (long long)late_us);
}

/* Executes within that deadline, and notes how well it was kept. */
static weir_operation execute_within(weir_store *store, weir_operation operation, int64_t ms,
                                     weir_message *message) {
  int64_t begin_us = weir_monotonic_us();
  weir_store_exec(store, &operation, 1, begin_us + ms * 1000, message);
  note_lateness(weir_monotonic_us() - begin_us - ms * 1000);
  return operation;
}

static void an_idle_connection_to_a_restarted_server_is_reopened(void **state) {
  weir_message message = {""};
  assert_done(execute(*state, add_to("weir:t:{r}:1", 1), &message), 1);
  for (int i = 0; i < 5; i++) {
    server_restart(server);
    pause_ms(20);
    assert_done(execute(*state, add_to("weir:t:{r}:1", 1), &message), 1);
    assert_done(execute(*state, add_to("weir:t:{r}:1", 1), &message), 2);
  }
}

static void a_busy_connection_to_a_restarted_server_never_sends_twice(void **state) {
  weir_message message = {""};
  for (int i = 0; i < 20; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:t:{twice%d}:1", i);
    assert_done(execute(*state, add_to("weir:t:{before}:1", 1), &message), 1);
    server_restart(server);
    weir_operation add = execute(*state, add_to(key, 1), &message);
    assert_true(add.outcome == WEIR_DONE || add.outcome == WEIR_UNKNOWN);
    weir_operation get = execute(*state, get_of(key), &message);
    if (add.outcome == WEIR_DONE) assert_done(get, 1);
    if (get.outcome == WEIR_DONE) assert_int_equal(get.value, 1);
  }
}

static void a_dead_server_is_refused_at_once_and_back_when_it_is(void **state) {
  weir_message message = {""};
  server_kill(server);
  pause_ms(10);
  weir_operation add = execute_within(*state, add_to("weir:t:{d}:1", 1), 500, &message);
  assert_outcome(add, WEIR_NOT_SENT);
  assert_non_null(strstr(message.text, "onnect"));
  int64_t begin_us = weir_monotonic_us();
  add = execute_within(*state, add_to("weir:t:{d}:1", 1), 500, &message);
  assert_outcome(add, WEIR_NOT_SENT);
  assert_true(weir_monotonic_us() - begin_us < 100000);
  server_restart(server);
  assert_done(execute(*state, add_to("weir:t:{d}:1", 1), &message), 1);
}

static void a_stopped_server_costs_one_deadline_and_the_stream_stays_in_step(void **state) {
  weir_message message = {""};
  for (int i = 0; i < 5; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:t:{stop%d}:1", i);
    assert_done(execute(*state, add_to(key, 1), &message), 1);
    server_stop(server);
    assert_outcome(execute_within(*state, add_to(key, 10), 20, &message), WEIR_UNKNOWN);
    assert_string_not_equal(message.text, "");
    assert_outcome(execute_within(*state, add_to(key, 100), 20, &message), WEIR_UNKNOWN);
    server_continue(server);
    weir_operation get = execute(*state, get_of(key), &message);
    assert_done(get, 111); /* both were executed late, neither was sent again */
    assert_done(execute(*state, add_to(key, 1), &message), 112);
  }
}

static void an_overdue_connection_is_closed(void **state) {
  weir_message message = {""};
  weir_store *store = open_servers(&server, 1, "timeout=100ms");
  (void)state;
  assert_done(execute(store, put_to(WEIR_PUT, "weir:t:{o}:1", 1), &message), 1);
  server_stop(server);
  assert_outcome(execute_within(store, add_to("weir:t:{o}:1", 10), 20, &message), WEIR_UNKNOWN);
  pause_ms(150);
  /* A new connection to a stopped server is accepted by its kernel; nothing is sent before a
   * greeting. */
  weir_operation late = execute_within(store, add_to("weir:t:{o}:1", 100), 20, &message);
  assert_outcome(late, WEIR_NOT_SENT);
  server_continue(server);
  assert_done(execute(store, get_of("weir:t:{o}:1"), &message), 11);
  weir_store_close(store);
}

static void a_stopped_server_during_the_first_connection_costs_one_deadline(void **state) {
  weir_message message = {""};
  (void)state;
  server_stop(server);
  weir_store *store = open_servers(&server, 1, "timeout=20ms");
  for (int i = 0; i < 3; i++) {
    assert_outcome(execute_within(store, add_to("weir:t:{f}:1", 1), 20, &message), WEIR_NOT_SENT);
  }
  server_continue(server);
  assert_done(execute(store, add_to("weir:t:{f}:1", 1), &message), 1);
  weir_store_close(store);
}

static void a_large_batch_to_a_stopped_server_keeps_the_deadline(void **state) {
  enum { COUNT = 100000, DEADLINE_US = 1500000 };
  static char keys[COUNT][200];
  static weir_operation operations[COUNT];
  weir_message message = {""};
  for (int i = 0; i < COUNT; i++) {
    snprintf(keys[i], sizeof keys[i], "weir:large:{%0150d}:1", i);
    operations[i] = add_to(keys[i], 1);
  }
  assert_outcome(execute(*state, get_of("weir:t:{warm}:1"), &message), WEIR_ABSENT);
  server_stop(server);
  int64_t begin_us = weir_monotonic_us();
  weir_store_exec(*state, operations, COUNT, begin_us + DEADLINE_US, &message);
  int64_t taken_us = weir_monotonic_us() - begin_us;
  server_continue(server);
  int unknown = 0;
  int not_sent = 0;
  for (int i = 0; i < COUNT; i++) {
    unknown += operations[i].outcome == WEIR_UNKNOWN;
    not_sent += operations[i].outcome == WEIR_NOT_SENT;
  }
  assert_int_equal(unknown + not_sent, COUNT);
  assert_true(unknown > 0);
  assert_true(not_sent > 0);                      /* what the socket had no room for */
  note_lateness(taken_us - DEADLINE_US - 100000); /* copying so large a batch takes a while */
  /* Nothing reported as not sent is ever executed. */
  for (int i = COUNT - 1; i >= 0 && operations[i].outcome == WEIR_NOT_SENT; i -= 5000) {
    weir_operation get = operations[i];
    get.kind = WEIR_GET;
    weir_store_exec(*state, &get, 1, deadline_in_ms(5000), &message);
    assert_outcome(get, WEIR_ABSENT);
  }
}

enum { THREADS = 16 };

typedef struct load {
  weir_store *store;
  atomic_bool *stop;
  int number;
  int64_t done;
  int64_t unknown;
  int64_t slowest_us;
} load;

static void *keep_adding(void *context) {
  load *self = context;
  char key[32];
  weir_message message = {""};
  snprintf(key, sizeof key, "weir:load:{%d}:1", self->number);
  while (!atomic_load(self->stop)) {
    weir_operation add = add_to(key, 1);
    int64_t begin_us = weir_monotonic_us();
    weir_store_exec(self->store, &add, 1, begin_us + 50000, &message);
    int64_t taken_us = weir_monotonic_us() - begin_us;
    if (taken_us > self->slowest_us) self->slowest_us = taken_us;
    self->done += add.outcome == WEIR_DONE;
    self->unknown += add.outcome == WEIR_UNKNOWN;
  }
  return NULL;
}

/* The count on the server lies between what is known to be done and that plus what is unknown. */
static void stops_under_load_lose_and_double_nothing(void **state) {
  pthread_t threads[THREADS];
  load loads[THREADS];
  atomic_bool stop = false;
  weir_message message = {""};
  for (int i = 0; i < THREADS; i++) {
    loads[i] = (load){.store = *state, .stop = &stop, .number = i};
    assert_int_equal(pthread_create(&threads[i], NULL, keep_adding, &loads[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    pause_ms(50);
    server_stop(server);
    pause_ms(i % 2 == 0 ? 30 : 150);
    server_continue(server);
  }
  pause_ms(50);
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:load:{%d}:1", i);
    weir_operation get = execute(*state, get_of(key), &message);
    assert_outcome(get, WEIR_DONE);
    assert_in_range(get.value, loads[i].done, loads[i].done + loads[i].unknown);
    assert_true(loads[i].done > 0);
    note_lateness(loads[i].slowest_us - 50000);
  }
}

static int open_store(void **state) {
  least_late_us = INT64_MAX;
  *state = open_servers(&server, 1, "timeout=1s");
  return 0;
}

static int shut(void **state) {
  weir_store_close(*state);
  if (least_late_us == INT64_MAX || least_late_us <= GRACE_US) return 0;
  print_error("at best %lld us late\n", (long long)least_late_us);
  return -1;
}

#define test_with_store(name) cmocka_unit_test_setup_teardown(name, open_store, shut)

int main(void) {
  server = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      test_with_store(an_idle_connection_to_a_restarted_server_is_reopened),
      test_with_store(a_busy_connection_to_a_restarted_server_never_sends_twice),
      test_with_store(a_dead_server_is_refused_at_once_and_back_when_it_is),
      test_with_store(a_stopped_server_costs_one_deadline_and_the_stream_stays_in_step),
      test_with_store(an_overdue_connection_is_closed),
      test_with_store(a_stopped_server_during_the_first_connection_costs_one_deadline),
      test_with_store(a_large_batch_to_a_stopped_server_keeps_the_deadline),
      test_with_store(stops_under_load_lose_and_double_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
