/* Servers that die, stop and come back. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "wire/operations.h"

/* A deadline may be missed by so much. The machine may be busy with other things and wake nobody in
 * time, so only the best call of a test is held to the first, and is waited for. */
enum { GRACE_US = 5000, BUSY_US = 10000000, DEADLINE_MS = 20 };

static struct server *server;

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Executes within that deadline; *late_us: how much that was missed by. */
static weir_operation execute_within(weir_store *store, weir_operation operation, int64_t ms,
                                     int64_t *late_us, weir_message *message) {
  int64_t begin_us = weir_monotonic_us();
  weir_store_exec(store, &operation, 1, begin_us + ms * 1000, message);
  *late_us = weir_monotonic_us() - begin_us - ms * 1000;
  if (*late_us > BUSY_US) fail_msg("%lld us late", (long long)*late_us);
  return operation;
}

/* For a server that is stopped: asks until a call that was let through ends in time. */
static void expect_the_deadline_to_be_kept(weir_store *store, weir_outcome outcome) {
  weir_message message = {""};
  int64_t late_us = INT64_MAX;
  int64_t least_us = INT64_MAX;
  for (int tries = 0; tries < 500 && least_us > GRACE_US;) {
    weir_operation get = get_of("weir:t:{late}:1");
    get = execute_within(store, get, DEADLINE_MS, &late_us, &message);
    if (was_turned_away(get, &message)) {
      pause_ms(1);
      continue;
    }
    tries++;
    assert_true(get.outcome == outcome || get.outcome == WEIR_NOT_SENT);
    if (get.outcome == outcome && late_us < least_us) least_us = late_us;
  }
  if (least_us > GRACE_US) fail_msg("at best %lld us late", (long long)least_us);
}

/* Sends to a server that is stopped, over a connection that stands. A busy machine may let a short
 * deadline pass before anything is sent: then there was nothing to execute, ever. */
static void send_without_answer(weir_store *store, weir_operation operation) {
  weir_message message = {""};
  weir_operation sent = {.outcome = WEIR_NOT_SENT};
  int64_t late_us;
  for (int64_t ms = DEADLINE_MS; sent.outcome == WEIR_NOT_SENT && ms < PATIENCE_MS; ms *= 2)
    sent = execute_within(store, operation, ms, &late_us, &message);
  assert_outcome(sent, WEIR_UNKNOWN);
  assert_string_not_equal(message.text, "");
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
  enum { AT_ONCE_US = 100000 };
  weir_message message = {""};
  int64_t least_us = INT64_MAX;
  server_kill(server);
  for (int tries = 0; tries < 2 || (tries < 100 && least_us >= AT_ONCE_US); tries++) {
    int64_t begin_us = weir_monotonic_us();
    assert_outcome(execute(*state, add_to("weir:t:{d}:1", 1), &message), WEIR_NOT_SENT);
    assert_non_null(strstr(message.text, "onnect"));
    int64_t taken_us = weir_monotonic_us() - begin_us;
    assert_true(taken_us < PATIENCE_MS * 1000 / 2);
    if (taken_us < least_us) least_us = taken_us;
  }
  assert_true(least_us < AT_ONCE_US);
  server_restart(server);
  assert_done(execute_when_back(*state, add_to("weir:t:{d}:1", 1), &message), 1);
}

static void a_stopped_server_costs_one_deadline_and_the_stream_stays_in_step(void **state) {
  weir_message message = {""};
  for (int i = 0; i < 5; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:t:{stop%d}:1", i);
    assert_done(execute(*state, add_to(key, 1), &message), 1);
    server_stop(server);
    send_without_answer(*state, add_to(key, 10));
    send_without_answer(*state, add_to(key, 100));
    expect_the_deadline_to_be_kept(*state, WEIR_UNKNOWN);
    server_continue(server);
    weir_operation get = execute(*state, get_of(key), &message);
    assert_done(get, 111); /* both were executed late, neither was sent again */
    assert_done(execute(*state, add_to(key, 1), &message), 112);
  }
}

/* Reads until the value is there: what an older connection brought may be executed after what a
 * newer one asks. */
static void await_value(weir_store *store, const char *key, int64_t before, int64_t value) {
  weir_message message = {""};
  int64_t end_us = weir_monotonic_us() + PATIENCE_MS * INT64_C(1000);
  weir_operation get = execute_when_back(store, get_of(key), &message);
  while (get.outcome == WEIR_DONE && get.value == before && weir_monotonic_us() < end_us) {
    pause_ms(1);
    get = execute(store, get_of(key), &message);
  }
  assert_done(get, value);
}

static void an_overdue_connection_is_closed(void **state) {
  weir_message message = {""};
  weir_store *store = open_servers(&server, 1, "timeout=100ms");
  int64_t late_us;
  (void)state;
  assert_done(execute(store, put_to(WEIR_PUT, "weir:t:{o}:1", 1), &message), 1);
  server_stop(server);
  send_without_answer(store, add_to("weir:t:{o}:1", 10));
  pause_ms(350);
  /* A new connection to a stopped server is accepted by its kernel; nothing is sent before a
   * greeting. */
  weir_operation late = add_to("weir:t:{o}:1", 100);
  late = execute_within(store, late, DEADLINE_MS, &late_us, &message);
  assert_outcome(late, WEIR_NOT_SENT);
  expect_the_deadline_to_be_kept(store, WEIR_NOT_SENT);
  server_continue(server);
  await_value(store, "weir:t:{o}:1", 1, 11);
  pause_ms(20);
  assert_done(execute(store, get_of("weir:t:{o}:1"), &message), 11); /* never 111 */
  weir_store_close(store);
}

static void a_stopped_server_during_the_first_connection_costs_one_deadline(void **state) {
  weir_message message = {""};
  int64_t late_us;
  (void)state;
  server_stop(server);
  weir_store *store = open_servers(&server, 1, "timeout=20ms");
  for (int i = 0; i < 3; i++) {
    weir_operation add = add_to("weir:t:{f}:1", 1);
    assert_outcome(execute_within(store, add, DEADLINE_MS, &late_us, &message), WEIR_NOT_SENT);
  }
  expect_the_deadline_to_be_kept(store, WEIR_NOT_SENT);
  server_continue(server);
  assert_done(execute_when_back(store, add_to("weir:t:{f}:1", 1), &message), 1);
  weir_store_close(store);
}

enum { LARGE = 100000 };

static weir_operation large[LARGE];

/* Executes the large batch within that deadline; how many operations were sent. */
static int execute_large(weir_store *store, int64_t deadline_us) {
  weir_message message = {""};
  int64_t begin_us = weir_monotonic_us();
  weir_store_exec(store, large, LARGE, begin_us + deadline_us, &message);
  int64_t late_us = weir_monotonic_us() - begin_us - deadline_us;
  int sent = 0;
  if (late_us > BUSY_US) fail_msg("%lld us late", (long long)late_us);
  for (int i = 0; i < LARGE; i++) {
    assert_true(large[i].outcome == WEIR_UNKNOWN || large[i].outcome == WEIR_NOT_SENT);
    sent += large[i].outcome == WEIR_UNKNOWN;
  }
  return sent;
}

static void a_large_batch_to_a_stopped_server_keeps_the_deadline(void **state) {
  static char keys[LARGE][200];
  weir_message message = {""};
  int sent = 0;
  for (int i = 0; i < LARGE; i++) {
    snprintf(keys[i], sizeof keys[i], "weir:large:{%0150d}:1", i);
    large[i] = add_to(keys[i], 1);
  }
  assert_outcome(execute(*state, get_of("weir:t:{warm}:1"), &message), WEIR_ABSENT);
  server_stop(server);
  /* A request that a busy machine did not even begin to send can be sent again. */
  for (int64_t deadline_us = 1500000; sent == 0 && deadline_us < 60000000; deadline_us *= 2)
    sent = execute_large(*state, deadline_us);
  server_continue(server);
  assert_in_range(sent, 1, LARGE - 1); /* the socket has no room for all */
  assert_done(execute_when_back(*state, add_to("weir:t:{back}:1", 1), &message), 1);
  /* Nothing reported as not sent is ever executed. */
  for (int i = LARGE - 1; i >= 0 && large[i].outcome == WEIR_NOT_SENT; i -= 5000) {
    weir_operation get = large[i];
    get.kind = WEIR_GET;
    assert_outcome(execute(*state, get, &message), WEIR_ABSENT);
  }
}

enum { THREADS = 16, LOAD_DEADLINE_US = 50000, ROUNDS = 4, ROUNDS_MOST = 200 };

typedef struct load {
  weir_store *store;
  const atomic_bool *stop;
  int number;
  _Atomic int64_t done;
  int64_t unknown;
  _Atomic int64_t most_late_us; /* since the last look; negative: every call was answered in time */
} load;

static void *keep_adding(void *context) {
  load *self = context;
  char key[32];
  weir_message message = {""};
  snprintf(key, sizeof key, "weir:load:{%d}:1", self->number);
  while (!atomic_load(self->stop)) {
    weir_operation add = add_to(key, 1);
    int64_t begin_us = weir_monotonic_us();
    weir_store_exec(self->store, &add, 1, begin_us + LOAD_DEADLINE_US, &message);
    int64_t late_us = weir_monotonic_us() - begin_us - LOAD_DEADLINE_US;
    if (late_us > self->most_late_us) self->most_late_us = late_us;
    self->done += add.outcome == WEIR_DONE;
    self->unknown += add.outcome == WEIR_UNKNOWN;
  }
  return NULL;
}

/* The best thread's worst call since the last look, among those that did not get every answer. */
static int64_t look_at_lateness(load *loads) {
  int64_t least_us = INT64_MAX;
  for (int i = 0; i < THREADS; i++) {
    int64_t late_us = atomic_exchange(&loads[i].most_late_us, INT64_MIN);
    assert_true(late_us <= BUSY_US);
    if (late_us >= 0 && late_us < least_us) least_us = late_us;
  }
  return least_us;
}

static bool all_got_something_done(const load *loads) {
  int idle = 0;
  for (int i = 0; i < THREADS; i++)
    idle += loads[i].done == 0;
  return idle == 0;
}

/* Stops the server for less and for more than a deadline; as often as a busy machine needs to let
 * every thread get something done, and one be in time for a round. */
static void stop_and_go(load *loads) {
  static const long stops_ms[] = {30, 150};
  int64_t least_late_us = INT64_MAX;
  bool enough = false;
  for (int round = 0; round < ROUNDS || (!enough && round < ROUNDS_MOST); round++) {
    for (int i = 0; i < 2; i++) {
      pause_ms(50);
      server_stop(server);
      pause_ms(stops_ms[i]);
      server_continue(server);
    }
    int64_t late_us = look_at_lateness(loads);
    if (late_us < least_late_us) least_late_us = late_us;
    enough = all_got_something_done(loads) && least_late_us <= GRACE_US;
  }
  assert_true(all_got_something_done(loads));
  if (least_late_us > GRACE_US) fail_msg("at best %lld us late", (long long)least_late_us);
  pause_ms(50);
}

/* The count on the server lies between what is known to be done and that plus what is unknown. */
static void stops_under_load_lose_and_double_nothing(void **state) {
  pthread_t threads[THREADS];
  static load loads[THREADS];
  static atomic_bool stop;
  weir_message message = {""};
  for (int i = 0; i < THREADS; i++) {
    loads[i] = (load){.store = *state, .stop = &stop, .number = i, .most_late_us = INT64_MIN};
    assert_int_equal(pthread_create(&threads[i], NULL, keep_adding, &loads[i]), 0);
  }
  stop_and_go(loads);
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:load:{%d}:1", i);
    weir_operation get = execute(*state, get_of(key), &message);
    assert_outcome(get, WEIR_DONE);
    assert_in_range(get.value, loads[i].done, loads[i].done + loads[i].unknown);
  }
}

static int open_store(void **state) {
  *state = open_servers(&server, 1, "timeout=30s");
  return 0;
}

static int shut(void **state) {
  weir_store_close(*state);
  return 0;
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
