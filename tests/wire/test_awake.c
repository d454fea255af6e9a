/* Which answers a thread waits for awake, and that it stops where others want the processor. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/outage.h"
#include "wire/socket.h"

enum { MANY = 16, TURNS_MOST = 2000 };

static struct server *server;

/* Runs a slot of so many reads; whether the thread waited awake for the last answer. */
static bool run(weir_wire *wire, weir_operation *gets, int count, int64_t time_us) {
  weir_wire_slot *slot = weir_wire_slot_take(wire);
  assert_non_null(slot);
  for (int i = 0; i < count; i++) {
    gets[i] = get_of("weir:t:{awake}:1");
    assert_true(weir_wire_slot_add(slot, &gets[i], 0));
  }
  weir_wire_submit(wire, slot, 1U << WEIR_DIALECT_META, weir_monotonic_us() + time_us);
  assert_false(weir_wire_finish(wire, slot, NULL));
  pthread_mutex_lock(&wire->lock);
  bool tries = wire->lines[0].tries;
  pthread_mutex_unlock(&wire->lock);
  return tries;
}

static bool waits_awake(weir_wire *wire, int count) {
  weir_operation gets[MANY];
  bool tries = run(wire, gets, count, PATIENCE_US);
  for (int i = 0; i < count; i++)
    assert_int_equal(gets[i].outcome, WEIR_ABSENT);
  return tries;
}

/* As if that had been found. */
static void have_found(weir_wire *wire, int64_t took_us, bool is_pressed, size_t others) {
  pthread_mutex_lock(&wire->lock);
  wire->took_us = took_us;
  wire->watched = (weir_pressure){.felt = is_pressed, .until_us = is_pressed ? INT64_MAX : 0};
  wire->waiting = others;
  wire->lines[0].lost = false;
  pthread_mutex_unlock(&wire->lock);
}

static weir_wire *open_near(void) {
  weir_wire *wire = open_wire(server_port(server), PATIENCE_US, 60000 * MS);
  waits_awake(wire, 1); /* it is connected */
  return wire;
}

static void many_commands_to_a_near_server_are_waited_for_awake(void **state) {
  (void)state;
  weir_wire *wire = open_near();
  have_found(wire, 0, false, 0);
  assert_true(waits_awake(wire, MANY));
  have_found(wire, 0, false, 0);
  assert_false(waits_awake(wire, MANY - 1));
  have_found(wire, 100 * MS, false, 0); /* the server is far */
  assert_false(waits_awake(wire, MANY));
  have_found(wire, 0, true, 0);
  assert_false(waits_awake(wire, MANY));
  have_found(wire, 0, false, 1); /* another thread waits as well */
  assert_false(waits_awake(wire, MANY));
  have_found(wire, 0, false, 0);
  wire->server.connections[1].state = WEIR_CONNECTION_READY; /* threads have met */
  assert_false(waits_awake(wire, MANY));
  wire->server.connections[1].state = WEIR_CONNECTION_CLOSED;
  weir_wire_close(wire);
}

/* A receive that waits follows the tries, and ends so much later at the most. */
static void the_tries_are_over_before_the_deadline(void **state) {
  enum { TRIED_US = 300 };
  weir_operation gets[MANY];
  (void)state;
  weir_wire *wire = open_near();
  for (int i = 0; i < MANY; i++) {
    have_found(wire, 0, false, 0);
    assert_false(run(wire, gets, MANY, wire->patience_us + TRIED_US));
  }
  weir_wire_close(wire);
}

/* The time that answers take is found out also while the thread sleeps. */
static void a_server_may_become_near(void **state) {
  (void)state;
  weir_wire *wire = open_near();
  have_found(wire, 100 * MS, true, 0);
  int64_t before_us = 100 * MS;
  for (int i = 0; i < MANY; i++)
    waits_awake(wire, MANY);
  pthread_mutex_lock(&wire->lock);
  assert_true(wire->took_us < before_us);
  pthread_mutex_unlock(&wire->lock);
  have_found(wire, 0, false, 0);
  weir_wire_close(wire);
}

static atomic_bool others_run;

int __wrap_sched_yield(void);

/* As where other work has the processor meanwhile. */
int __wrap_sched_yield(void) {
  if (atomic_load(&others_run)) pause_ms(1);
  return 0;
}

static void a_thread_sleeps_where_others_want_the_processor(void **state) {
  (void)state;
  bool sleeps = false;
  weir_wire *wire = open_near();
  have_found(wire, 0, false, 0);
  atomic_store(&others_run, true);
  for (int i = 0; i < TURNS_MOST && !sleeps; i++) {
    pthread_mutex_lock(&wire->lock);
    wire->took_us = 0; /* whatever these waits have made of it */
    pthread_mutex_unlock(&wire->lock);
    sleeps = !waits_awake(wire, MANY);
  }
  atomic_store(&others_run, false);
  assert_true(sleeps);
  weir_wire_close(wire);
}

static void a_try_ends_with_what_has_come_or_with_its_time(void **state) {
  enum { MOST_US = 2000 };
  int ends_of[2];
  char bytes[4];
  int64_t longest_us = -2;
  (void)state;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_of), 0);
  int64_t since_us = weir_monotonic_us();
  assert_int_equal(weir_socket_try(ends_of[0], bytes, sizeof bytes, MOST_US, &longest_us), -1);
  assert_true(errno == EAGAIN || errno == EWOULDBLOCK);
  assert_true(weir_monotonic_us() - since_us >= MOST_US);
  assert_true(longest_us >= 0);
  assert_int_equal(weir_socket_send(ends_of[1], "abc", 3), 3);
  assert_int_equal(weir_socket_try(ends_of[0], bytes, sizeof bytes, MOST_US, &longest_us), 3);
  assert_int_equal(longest_us, -1);
  close(ends_of[1]);
  assert_int_equal(weir_socket_try(ends_of[0], bytes, sizeof bytes, MOST_US, &longest_us), 0);
  close(ends_of[0]);
}

int main(void) {
  server = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_commands_to_a_near_server_are_waited_for_awake),
      cmocka_unit_test(the_tries_are_over_before_the_deadline),
      cmocka_unit_test(a_server_may_become_near),
      cmocka_unit_test(a_thread_sleeps_where_others_want_the_processor),
      cmocka_unit_test(a_try_ends_with_what_has_come_or_with_its_time)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
