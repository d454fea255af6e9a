/* The breaker at work: what a server that does not answer costs, and whom. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "fixture/proxy.h"
#include "wire/outage.h"

/* A busy machine may hold up a caller so that it waits once more. A caller that notices counts it
 * as late; so many more may be held up where they cannot notice. */
enum { HELD_UP = 8 };

enum { THREADS = 32 };

#define RUN_US (1500 * MS)
#define DEADLINE_US (100 * MS)
#define TIMEOUT_US (100 * MS)

static struct server *server;
static proxy door;

typedef struct caller {
  weir_wire *wire;
  pthread_barrier_t *start;
  int64_t end_us;
  int asked;
  int waited; /* calls that were not turned away */
  int late;   /* of these, took a quarter longer than the deadline */
  int done;
} caller;

static void *keep_asking(void *context) {
  caller *self = context;
  pthread_barrier_wait(self->start);
  while (weir_monotonic_us() < self->end_us) {
    int64_t begin_us = weir_monotonic_us();
    answer each = ask(self->wire, DEADLINE_US);
    bool late = weir_monotonic_us() - begin_us > DEADLINE_US + DEADLINE_US / 4;
    self->asked++;
    self->waited += !each.turned_away;
    self->late += !each.turned_away && late;
    self->done += each.outcome == WEIR_DONE;
    if (each.turned_away) pause_ms(1);
  }
  return NULL;
}

/* All threads ask for a while; returns their sums, and how long it took. */
static caller ask_from_threads(weir_wire *wire, int64_t *taken_us) {
  pthread_t threads[THREADS];
  caller callers[THREADS];
  pthread_barrier_t start;
  caller sum = {0};
  pthread_barrier_init(&start, NULL, THREADS);
  int64_t begin_us = weir_monotonic_us();
  for (int i = 0; i < THREADS; i++) {
    callers[i] = (caller){.wire = wire, .start = &start, .end_us = begin_us + RUN_US};
    assert_int_equal(pthread_create(&threads[i], NULL, keep_asking, &callers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    sum.asked += callers[i].asked;
    sum.waited += callers[i].waited;
    sum.late += callers[i].late;
    sum.done += callers[i].done;
  }
  *taken_us = weir_monotonic_us() - begin_us;
  pthread_barrier_destroy(&start);
  return sum;
}

/* How many probes fit into that time: the n-th failure is followed by 20 ms, doubled n times or
 * half of `probe`, at the least. `each_us`: what a probe takes itself. */
static int most_probes(int64_t taken_us, int64_t probe_us, int64_t each_us) {
  int probes = 0;
  for (int64_t pause_us = 20 * MS; taken_us > pause_us; probes++) {
    taken_us -= pause_us + each_us;
    pause_us = pause_us * 2 < probe_us / 2 ? pause_us * 2 : probe_us / 2;
  }
  return probes;
}

static void expect_waiting(const caller *sum, int most) {
  most += HELD_UP + sum->late;
  assert_int_equal(sum->done, 0);
  assert_true(sum->asked > sum->waited);
  if (sum->waited > most)
    fail_msg("%d waited, at most %d may (%d were late)", sum->waited, most, sum->late);
}

/* Every thread waits so many times at most, and then nobody but probes. */
static void expect_deadlines_and_probes(weir_wire *wire, int deadlines, int64_t probe_us,
                                        int64_t each_us) {
  int64_t taken_us;
  caller sum = ask_from_threads(wire, &taken_us);
  expect_waiting(&sum, deadlines * THREADS + most_probes(taken_us, probe_us, each_us));
  assert_int_equal(outages_of(wire).count, 1);
  assert_true(outages_of(wire).present);
}

/* While a connection is being made: every thread waits once, and then one at a time. That is no
 * outage. */
static void expect_one_deadline_and_one_at_a_time(weir_wire *wire) {
  int64_t taken_us;
  caller sum = ask_from_threads(wire, &taken_us);
  expect_waiting(&sum, THREADS + (int)(taken_us / DEADLINE_US) + 1);
  assert_int_equal(outages_of(wire).count, 0);
  assert_false(outages_of(wire).present);
}

static void a_stopped_server_costs_two_deadlines_and_probes(void **state) {
  (void)state;
  weir_wire *wire = open_wire(server_port(server), TIMEOUT_US, 200 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_stop(server);
  expect_deadlines_and_probes(wire, 2, 200 * MS, DEADLINE_US);
  server_continue(server);
  expect_recovery(wire);
  weir_wire_close(wire);
}

static void a_server_that_is_stopped_from_the_start_costs_one_deadline(void **state) {
  (void)state;
  server_stop(server);
  weir_wire *wire = open_wire(server_port(server), TIMEOUT_US, 200 * MS);
  expect_one_deadline_and_one_at_a_time(wire);
  server_continue(server);
  expect_recovery(wire);
  weir_wire_close(wire);
}

/* Refusing takes no time, so only the pauses bound the probes. */
static void a_killed_server_is_tried_ever_less_often(void **state) {
  (void)state;
  weir_wire *wire = open_wire(server_port(server), TIMEOUT_US, 60000 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  server_kill(server);
  expect_deadlines_and_probes(wire, 1, 60000 * MS, 0);
  assert_non_null(strstr(outages_of(wire).last.text, "cannot connect: "));
  weir_wire_close(wire);
  server_restart(server);
}

static void a_restarted_server_answers_the_first_probe(void **state) {
  (void)state;
  weir_wire *wire = open_wire(server_port(server), TIMEOUT_US, 50 * MS);
  for (int i = 0; i < 10; i++) {
    server_kill(server);
    while (!outages_of(wire).present)
      assert_int_not_equal(ask(wire, DEADLINE_US).outcome, WEIR_DONE);
    for (int calls = 0; calls < 20 * i; calls++)
      assert_int_equal(ask(wire, DEADLINE_US).outcome, WEIR_NOT_SENT);
    server_restart(server);
    expect_recovery(wire);
  }
  assert_int_equal(outages_of(wire).count, 10);
  weir_wire_close(wire);
}

/* It hangs up and can be connected to again at once: not an outage. */
static void a_restart_between_calls_is_no_outage(void **state) {
  (void)state;
  weir_wire *wire = open_wire(server_port(server), PATIENCE_US, 200 * MS);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
    server_restart(server);
    pause_ms(20); /* an idle connection is looked at before use */
  }
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  assert_int_equal(outages_of(wire).count, 0);
  assert_string_equal(outages_of(wire).last.text, "");
  weir_wire_close(wire);
}

/* Nobody connects who does not wait. */
static void a_server_that_accepts_and_never_answers_is_left_in_peace(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_SILENT);
  weir_wire *wire = open_wire(address_port(&door.address), TIMEOUT_US, 200 * MS);
  expect_one_deadline_and_one_at_a_time(wire);
  assert_int_equal(atomic_load(&door.connections), 1);
  proxy_set(&door, PROXY_OPEN);
  expect_recovery(wire);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* A greeting is no answer to anybody. Probes that are longer apart than a request may be overdue
 * have a new connection each. */
static void a_server_that_greets_and_says_no_more_is_not_taken_for_back(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_GREETS);
  weir_wire *wire = open_wire(address_port(&door.address), 20 * MS, 60000 * MS);
  while (!outages_of(wire).present)
    assert_int_not_equal(ask(wire, DEADLINE_US).outcome, WEIR_DONE);
  int before = atomic_load(&door.connections);
  for (int i = 0; i < 5; i++) {
    await_probe_time(wire);
    assert_int_not_equal(ask(wire, DEADLINE_US).outcome, WEIR_DONE);
    assert_int_equal(outages_of(wire).count, 1);
  }
  assert_true(atomic_load(&door.connections) > before);
  proxy_set(&door, PROXY_OPEN);
  expect_recovery(wire);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* A connection that stood when the network went: nothing is refused, nothing comes. */
static void a_connection_that_passes_nothing_on_is_an_outage(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address), TIMEOUT_US, 200 * MS);
  assert_int_equal(ask(wire, PATIENCE_US).outcome, WEIR_DONE);
  proxy_set(&door, PROXY_SILENT);
  expect_deadlines_and_probes(wire, 2, 200 * MS, DEADLINE_US);
  proxy_set(&door, PROXY_OPEN);
  expect_recovery(wire);
  weir_wire_close(wire);
  proxy_stop(&door);
}

static void a_server_that_cannot_be_reached_costs_one_deadline(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_FULL);
  weir_wire *wire = open_wire(address_port(&door.address), TIMEOUT_US, 200 * MS);
  expect_one_deadline_and_one_at_a_time(wire);
  assert_int_equal(atomic_load(&door.connections), 0);
  proxy_set(&door, PROXY_OPEN);
  expect_recovery(wire);
  weir_wire_close(wire);
  proxy_stop(&door);
}

typedef struct contender {
  weir_wire *wire;
  pthread_barrier_t *barrier;
  int rounds;
  atomic_int *let_through;
} contender;

static void *contend(void *context) {
  contender *self = context;
  for (int i = 0; i < self->rounds; i++) {
    weir_operation add = add_to("weir:t:{outage}:1", 1);
    weir_message message = {""};
    pthread_barrier_wait(self->barrier); /* the probe is due */
    weir_wire_slot *slot = submit(self->wire, &add, DEADLINE_US);
    if (slot->state != WEIR_SLOT_DONE) atomic_fetch_add(self->let_through, 1);
    pthread_barrier_wait(self->barrier); /* all have submitted, nobody has led */
    weir_wire_finish(self->wire, slot, &message);
    pthread_barrier_wait(self->barrier); /* the probe is over */
  }
  return NULL;
}

/* Until the second barrier nobody works the connection, so no probe can end and make room. */
static void half_open_lets_exactly_one_of_32_threads_through(void **state) {
  enum { ROUNDS = 12 };
  (void)state;
  pthread_t threads[THREADS];
  pthread_barrier_t barrier;
  atomic_int let_through = 0;
  weir_wire *wire = open_wire(server_port(server), TIMEOUT_US, 10 * MS);
  contender self = {wire, &barrier, ROUNDS, &let_through};
  server_kill(server);
  assert_int_not_equal(ask(wire, DEADLINE_US).outcome, WEIR_DONE);
  assert_true(outages_of(wire).present);
  server_restart(server);
  server_stop(server);
  pthread_barrier_init(&barrier, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, contend, &self), 0);
  for (int i = 0; i < ROUNDS; i++) {
    await_probe_time(wire);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    assert_int_equal(atomic_exchange(&let_through, 0), 1);
    pthread_barrier_wait(&barrier);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&barrier);
  server_continue(server);
  expect_recovery(wire);
  assert_int_equal(outages_of(wire).count, 1);
  weir_wire_close(wire);
}

static void who_is_turned_away_is_told_why_and_when(void **state) {
  (void)state;
  weir_wire *wire = open_wire(server_port(server), TIMEOUT_US, 60000 * MS);
  weir_operation add = add_to("weir:t:{outage}:1", 1);
  weir_message message = {""};
  server_kill(server);
  assert_false(ask(wire, PATIENCE_US).turned_away);
  answer next = ask(wire, PATIENCE_US);
  while (!next.turned_away)
    next = ask(wire, PATIENCE_US);
  char begin[128];
  snprintf(begin, sizeof begin,
           "127.0.0.1:%u: not answering (last: cannot connect: Connection refused); next try in ",
           (unsigned)server_port(server));
  assert_memory_equal(next.message.text, begin, strlen(begin));
  await_probe_time(wire);
  weir_wire_slot *probe = submit(wire, &add, PATIENCE_US);
  assert_non_null(strstr(ask(wire, PATIENCE_US).message.text, "); a try is under way"));
  weir_wire_finish(wire, probe, &message);
  assert_non_null(strstr(message.text, ": cannot connect: Connection refused"));
  weir_wire_close(wire);
  server_restart(server);
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
      test_with_server(a_stopped_server_costs_two_deadlines_and_probes),
      test_with_server(a_server_that_is_stopped_from_the_start_costs_one_deadline),
      test_with_server(a_killed_server_is_tried_ever_less_often),
      test_with_server(a_restarted_server_answers_the_first_probe),
      test_with_server(a_restart_between_calls_is_no_outage),
      test_with_server(a_server_that_accepts_and_never_answers_is_left_in_peace),
      test_with_server(a_server_that_greets_and_says_no_more_is_not_taken_for_back),
      test_with_server(a_connection_that_passes_nothing_on_is_an_outage),
      test_with_server(a_server_that_cannot_be_reached_costs_one_deadline),
      test_with_server(half_open_lets_exactly_one_of_32_threads_through),
      test_with_server(who_is_turned_away_is_told_why_and_when),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
