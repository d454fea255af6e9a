/* The further connections to a server: when there are some, and what their loss and the first's mean. */
#include <pthread.h>
#include <sys/socket.h>

#include "fixture/proxy.h"
#include "memcached/codec.h"
#include "wire/outage.h"

/* As many threads as there may be connections are no crowd. */
enum { FEW = WEIR_WIRE_CONNECTIONS, CROWD = 16, ADDITIONS = 200, MOST_TURNS = 200 };

static struct server *server;
static proxy door;
static atomic_bool crowded; /* there was a crowd */

static weir_outcome run_one(weir_wire *wire, weir_operation *operation) {
  weir_message message = {""};
  weir_wire_slot *slot = submit(wire, operation, PATIENCE_US);
  weir_wire_finish(wire, slot, &message);
  return operation->outcome;
}

/* By the connection of that number, if it may be used: as if this thread had chosen it. */
static weir_outcome run_by(weir_wire *wire, uint8_t number, weir_operation *operation) {
  pthread_mutex_lock(&wire->lock);
  wire->crowd = 0;
  for (size_t i = 0; i < WEIR_WIRE_CHOICES; i++)
    wire->choices[i] = (weir_choice){.made = true, .number = number};
  pthread_mutex_unlock(&wire->lock);
  return run_one(wire, operation);
}

static weir_connection_state state_of(weir_wire *wire, int number) {
  pthread_mutex_lock(&wire->lock);
  weir_connection_state state = wire->server.connections[number].state;
  pthread_mutex_unlock(&wire->lock);
  return state;
}

static uint64_t done_by(weir_wire *wire, int number) {
  pthread_mutex_lock(&wire->lock);
  uint64_t done = wire->lines[number].done;
  pthread_mutex_unlock(&wire->lock);
  return done;
}

static void *add_often(void *context) {
  weir_wire *wire = context;
  for (int i = 0; i < ADDITIONS; i++) {
    weir_operation add = add_to("weir:t:{further}:1", 1);
    if (run_one(wire, &add) != WEIR_DONE) return wire;
    pthread_mutex_lock(&wire->lock);
    if (wire->crowd > 0) atomic_store(&crowded, true);
    pthread_mutex_unlock(&wire->lock);
  }
  return NULL;
}

static void add_at_once(weir_wire *wire, int count) {
  pthread_t threads[CROWD];
  for (int i = 0; i < count; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, add_often, wire), 0);
  for (int i = 0; i < count; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
}

static weir_wire *open_one(void) {
  proxy_start(&door, server, PROXY_OPEN);
  return open_wire(address_port(&door.address), PATIENCE_US, 60000 * MS);
}

/* Few threads at once until there are all connections. *made: their additions. */
static weir_wire *open_all(int *made) {
  weir_operation drop = operation_on(WEIR_DROP, "weir:t:{further}:1");
  weir_wire *wire = open_one();
  *made = 0;
  run_one(wire, &drop);
  for (int turn = 0; state_of(wire, WEIR_WIRE_CONNECTIONS - 1) != WEIR_CONNECTION_READY; turn++) {
    assert_true(turn < MOST_TURNS);
    add_at_once(wire, FEW);
    *made += FEW * ADDITIONS;
  }
  return wire;
}

static void close_all(weir_wire *wire) {
  weir_wire_close(wire);
  proxy_stop(&door);
}

static int64_t count_by(weir_wire *wire, uint8_t number) {
  weir_operation get = get_of("weir:t:{further}:1");
  assert_int_equal(run_by(wire, number, &get), WEIR_DONE);
  return get.value;
}

static void one_thread_has_one_connection(void **state) {
  (void)state;
  weir_wire *wire = open_one();
  assert_null(add_often(wire));
  assert_int_equal(atomic_load(&door.connections), 1);
  close_all(wire);
}

static void few_threads_have_one_each(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  assert_int_equal(atomic_load(&door.connections), WEIR_WIRE_CONNECTIONS);
  for (uint8_t number = 0; number < WEIR_WIRE_CONNECTIONS; number++) {
    uint64_t before = done_by(wire, number);
    assert_int_equal(count_by(wire, number), made);
    assert_int_equal(done_by(wire, number), before + 1);
  }
  close_all(wire);
}

static void a_crowd_shares_the_first(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  atomic_store(&crowded, false);
  add_at_once(wire, CROWD);
  assert_true(atomic_load(&crowded));
  assert_int_equal(count_by(wire, 2), made + CROWD * ADDITIONS);
  pthread_mutex_lock(&wire->lock);
  wire->crowd = 2;
  wire->crowded.felt = false;
  uint64_t before = wire->lines[0].done;
  pthread_mutex_unlock(&wire->lock);
  weir_operation get = get_of("weir:t:{further}:1");
  assert_int_equal(run_one(wire, &get), WEIR_DONE);
  assert_int_equal(done_by(wire, 0), before + 1);
  assert_int_equal(run_one(wire, &get), WEIR_DONE);
  assert_int_equal(done_by(wire, 0), before + 1); /* the crowd is over */
  pthread_mutex_lock(&wire->lock);
  wire->crowd = 2;
  wire->crowded.felt = true; /* other work wants the processors */
  wire->crowded.until_us = INT64_MAX;
  pthread_mutex_unlock(&wire->lock);
  assert_int_equal(run_one(wire, &get), WEIR_DONE);
  assert_int_equal(done_by(wire, 0), before + 1);
  assert_int_equal(atomic_load(&door.connections), WEIR_WIRE_CONNECTIONS);
  close_all(wire);
}

static void a_version_fits_by_every_connection(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  for (uint8_t number = 0; number < WEIR_WIRE_CONNECTIONS; number++) {
    weir_operation get = get_of("weir:t:{further}:1");
    assert_int_equal(run_by(wire, number, &get), WEIR_DONE);
    weir_operation swap = swap_to("weir:t:{further}:1", get.version_out, 7);
    assert_int_equal(run_by(wire, (uint8_t)((number + 1) % WEIR_WIRE_CONNECTIONS), &swap),
                     WEIR_DONE);
  }
  close_all(wire);
}

/* As the server does it, or a network: the next that uses it finds out. */
static void cut(weir_wire *wire, int number) {
  pthread_mutex_lock(&wire->lock);
  assert_int_equal(shutdown(wire->lines[number].fd, SHUT_RDWR), 0);
  pthread_mutex_unlock(&wire->lock);
  pause_ms(2 * WEIR_WIRE_IDLE_US / MS);
}

static void what_a_further_one_cannot_send_goes_by_the_first(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  cut(wire, 1);
  assert_int_equal(count_by(wire, 1), made);
  assert_int_equal(state_of(wire, 0), WEIR_CONNECTION_READY);
  assert_int_equal(state_of(wire, 1), WEIR_CONNECTION_CLOSED);
  assert_int_equal(atomic_load(&door.connections), WEIR_WIRE_CONNECTIONS);
  assert_int_equal(outages_of(wire).count, 0);
  close_all(wire);
}

static void the_further_ones_are_left_with_the_first(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  cut(wire, 0);
  assert_int_equal(count_by(wire, 0), made);
  assert_int_equal(state_of(wire, 0), WEIR_CONNECTION_READY);
  for (int number = 1; number < WEIR_WIRE_CONNECTIONS; number++)
    assert_int_equal(state_of(wire, number), WEIR_CONNECTION_CLOSED);
  assert_int_equal(atomic_load(&door.connections), WEIR_WIRE_CONNECTIONS + 1);
  assert_int_equal(outages_of(wire).count, 0);
  close_all(wire);
}

/* The server may be another process by then, which counts its versions anew. */
static void a_version_is_worth_nothing_after_the_first(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  weir_operation get = get_of("weir:t:{further}:1");
  assert_int_equal(run_by(wire, 1, &get), WEIR_DONE);
  cut(wire, 0);
  assert_int_equal(count_by(wire, 0), made);
  weir_operation late = swap_to("weir:t:{further}:1", get.version_out, 7);
  assert_int_equal(run_by(wire, 1, &late), WEIR_CONFLICT);
  assert_int_equal(count_by(wire, 0), made);
  close_all(wire);
}

static void a_version_outlives_a_further_one(void **state) {
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  weir_operation get = get_of("weir:t:{further}:1");
  assert_int_equal(run_by(wire, 1, &get), WEIR_DONE);
  cut(wire, 1);
  weir_operation swap = swap_to("weir:t:{further}:1", get.version_out, 7);
  assert_int_equal(run_by(wire, 1, &swap), WEIR_DONE);
  close_all(wire);
}

/* A further connection may lead to a process that began after the one of the first had gone: it is used
 * once the first has answered what was sent after it was ready. */
static void a_further_one_is_used_once_the_first_has_answered(void **state) {
  enum { SOME = 3 };
  (void)state;
  int made = 0;
  weir_wire *wire = open_all(&made);
  pthread_mutex_lock(&wire->lock);
  weir_connection *further = &wire->server.connections[1];
  further->is_known = false;
  further->known_serial = wire->server.connections[0].serial + SOME - 1;
  wire->server.awaits_known = true;
  pthread_mutex_unlock(&wire->lock);
  uint64_t before = done_by(wire, 1);
  for (int i = 0; i < SOME; i++)
    assert_int_equal(count_by(wire, 1), made);
  assert_int_equal(done_by(wire, 1), before);
  assert_int_equal(count_by(wire, 1), made);
  assert_int_equal(done_by(wire, 1), before + 1);
  close_all(wire);
}

static size_t encode_nothing(const weir_wire_command *command, int64_t unix_s, char *out) {
  (void)command;
  (void)unix_s;
  *out = '.';
  return 1;
}

/* By its serial an answer says what the first has answered, also that of one which others went with. */
static void joined_commands_have_the_serial_of_their_first(void **state) {
  enum { JOINED = 3, STALE = 77 };
  static const weir_wire_codec codec = {.name = "nothing", .encode = encode_nothing};
  static weir_wire_server one;
  weir_connection *first = &one.connections[0];
  weir_wire_command commands[JOINED + 1] = {
      {.serial = STALE}, {.serial = STALE}, {.serial = STALE}, {.serial = STALE}};
  weir_wire_slot slot = {
      .commands = commands, .count = JOINED + 1, .dialects = ~0U, .deadline_us = INT64_MAX};
  (void)state;
  first->server = &one;
  first->state = WEIR_CONNECTION_READY;
  first->codec = &codec;
  first->out_most = sizeof first->out;
  first->serial = 5;
  commands[0].followers = JOINED - 1;
  weir_line_append(first, &slot);
  assert_int_equal(weir_stream_fill(first, 0, 0), 2);
  for (int i = 0; i < JOINED; i++)
    assert_int_equal(commands[i].serial, 5);
  assert_int_equal(commands[JOINED].serial, 6);
}

int main(void) {
  server = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_thread_has_one_connection),
      cmocka_unit_test(few_threads_have_one_each),
      cmocka_unit_test(a_crowd_shares_the_first),
      cmocka_unit_test(a_version_fits_by_every_connection),
      cmocka_unit_test(what_a_further_one_cannot_send_goes_by_the_first),
      cmocka_unit_test(the_further_ones_are_left_with_the_first),
      cmocka_unit_test(a_version_is_worth_nothing_after_the_first),
      cmocka_unit_test(a_version_outlives_a_further_one),
      cmocka_unit_test(a_further_one_is_used_once_the_first_has_answered),
      cmocka_unit_test(joined_commands_have_the_serial_of_their_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
