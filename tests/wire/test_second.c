/* The second connection to a server: when there is one, and what its loss and the first's mean. */
#include <pthread.h>
#include <sys/socket.h>

#include "fixture/proxy.h"
#include "memcached/codec.h"
#include "wire/outage.h"

enum { THREADS = 4, ADDITIONS = 200, MOST_TURNS = 200 };

static struct server *server;
static proxy door;

/* Executes one operation by the connection of that number. */
static weir_outcome do_by(weir_wire *wire, int number, weir_operation *operation) {
  weir_message message = {""};
  weir_wire_slot *slot = weir_wire_slot_take(wire);
  assert_non_null(slot);
  assert_true(weir_wire_slot_add(slot, operation, 0));
  weir_wire_submit(wire, slot, number, 1U << WEIR_DIALECT_META, weir_monotonic_us() + PATIENCE_US);
  weir_wire_finish(wire, slot, &message);
  return operation->outcome;
}

static weir_connection_state state_of(weir_wire *wire, int number) {
  pthread_mutex_lock(&wire->lock);
  weir_connection_state state = wire->server.connections[number].state;
  pthread_mutex_unlock(&wire->lock);
  return state;
}

static void *add_often(void *wire) {
  for (int i = 0; i < ADDITIONS; i++) {
    weir_operation add = add_to("weir:t:{second}:1", 1);
    if (do_by(wire, WEIR_WIRE_ANY_CONNECTION, &add) != WEIR_DONE) return wire;
  }
  return NULL;
}

/* Threads at once until there are two connections. Returns the additions made. */
static int crowd(weir_wire *wire) {
  int made = 0;
  for (int turn = 0; state_of(wire, 1) != WEIR_CONNECTION_READY; turn++) {
    pthread_t threads[THREADS];
    assert_true(turn < MOST_TURNS);
    for (int i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, add_often, wire), 0);
    for (int i = 0; i < THREADS; i++) {
      void *failed = NULL;
      pthread_join(threads[i], &failed);
      assert_null(failed);
    }
    made += THREADS * ADDITIONS;
  }
  return made;
}

static int64_t count_of(weir_wire *wire, int number) {
  weir_operation get = get_of("weir:t:{second}:1");
  assert_int_equal(do_by(wire, number, &get), WEIR_DONE);
  return get.value;
}

static weir_wire *open_two(int *made) {
  weir_operation drop = operation_on(WEIR_DROP, "weir:t:{second}:1");
  proxy_start(&door, server, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address), PATIENCE_US, 60000 * MS);
  do_by(wire, 0, &drop);
  *made = crowd(wire);
  return wire;
}

static void close_two(weir_wire *wire) {
  weir_wire_close(wire);
  proxy_stop(&door);
}

static void one_thread_has_one_connection(void **state) {
  (void)state;
  proxy_start(&door, server, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address), PATIENCE_US, 60000 * MS);
  assert_null(add_often(wire));
  assert_int_equal(atomic_load(&door.connections), 1);
  close_two(wire);
}

static void threads_in_each_others_way_have_two(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_two(&made);
  assert_int_equal(atomic_load(&door.connections), 2);
  assert_int_equal(count_of(wire, 0), made);
  assert_int_equal(count_of(wire, 1), made);
  close_two(wire);
}

static void a_version_fits_by_its_own_connection_alone(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_two(&made);
  for (int number = 0; number < WEIR_WIRE_CONNECTIONS; number++) {
    weir_operation get = get_of("weir:t:{second}:1");
    assert_int_equal(do_by(wire, number, &get), WEIR_DONE);
    assert_int_equal(weir_version_connection(get.version_out), number);
    weir_operation other = swap_to("weir:t:{second}:1", get.version_out, 7);
    assert_int_equal(do_by(wire, 1 - number, &other), WEIR_CONFLICT);
    weir_operation own = swap_to("weir:t:{second}:1", get.version_out, 7);
    assert_int_equal(do_by(wire, number, &own), WEIR_DONE);
  }
  close_two(wire);
}

/* As the server does it, or a network: found by whoever uses it next. */
static void cut(weir_wire *wire, int number) {
  pthread_mutex_lock(&wire->lock);
  assert_int_equal(shutdown(wire->lines[number].fd, SHUT_RDWR), 0);
  pthread_mutex_unlock(&wire->lock);
  pause_ms(2 * WEIR_WIRE_IDLE_US / MS);
}

static void what_the_second_cannot_send_goes_by_the_first(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_two(&made);
  cut(wire, 1);
  assert_int_equal(count_of(wire, 1), made);
  assert_int_equal(state_of(wire, 0), WEIR_CONNECTION_READY);
  assert_int_equal(state_of(wire, 1), WEIR_CONNECTION_CLOSED);
  assert_int_equal(atomic_load(&door.connections), 2);
  assert_int_equal(outages_of(wire).count, 0);
  close_two(wire);
}

static void the_second_is_left_with_the_first(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_two(&made);
  cut(wire, 0);
  assert_int_equal(count_of(wire, 0), made);
  assert_int_equal(state_of(wire, 0), WEIR_CONNECTION_READY);
  assert_int_equal(state_of(wire, 1), WEIR_CONNECTION_CLOSED);
  assert_int_equal(atomic_load(&door.connections), 3);
  assert_int_equal(outages_of(wire).count, 0);
  close_two(wire);
}

/* A version that came by a connection which is gone may go by any: it fits nothing. */
static void a_version_is_worth_nothing_by_the_next_connection(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_two(&made);
  weir_operation get = get_of("weir:t:{second}:1");
  assert_int_equal(do_by(wire, 1, &get), WEIR_DONE);
  cut(wire, 1);
  weir_operation late = swap_to("weir:t:{second}:1", get.version_out, 7);
  assert_int_equal(do_by(wire, weir_version_connection(get.version_out), &late), WEIR_CONFLICT);
  assert_int_equal(count_of(wire, 0), made);
  close_two(wire);
}

int main(void) {
  server = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_thread_has_one_connection),
      cmocka_unit_test(threads_in_each_others_way_have_two),
      cmocka_unit_test(a_version_fits_by_its_own_connection_alone),
      cmocka_unit_test(what_the_second_cannot_send_goes_by_the_first),
      cmocka_unit_test(the_second_is_left_with_the_first),
      cmocka_unit_test(a_version_is_worth_nothing_by_the_next_connection)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
