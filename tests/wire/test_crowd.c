/* A crowd of threads on one wire: how many others a leader serves. */
#include <pthread.h>

#include "memcached/codec.h"
#include "wire/operations.h"
#include "wire/wire.h"

enum { THREADS = 32, ROUNDS = 500, TIMEOUT_US = 30000000 };

static struct server *server;

static void *work(void *context) {
  static const char key[] = "weir:crowd:{all}:1";
  weir_wire *wire = context;
  for (int i = 0; i < ROUNDS; i++) {
    weir_operation get = get_of(key);
    weir_wire_slot *slot = weir_wire_slot_take(wire);
    assert_non_null(slot);
    assert_true(weir_wire_slot_add(slot, &get, 0));
    weir_wire_submit(wire, slot, ~0U, weir_monotonic_us() + TIMEOUT_US);
    assert_false(weir_wire_finish(wire, slot, NULL));
    assert_int_equal(get.outcome, WEIR_ABSENT);
  }
  return NULL;
}

/* Those whose slots stand before the leader's are served on the way to it; and the slots that they
 * submit next, where the server answers them together with its own. */
static void a_leader_serves_each_other_thread_twice_at_most(void **state) {
  static const weir_memcached_login login = {.wanted = WEIR_DIALECT_META};
  const weir_wire_place place = {.host = "127.0.0.1", .port = server_port(server)};
  const weir_wire_options options = {.timeout_us = TIMEOUT_US,
                                     .connect_us = TIMEOUT_US,
                                     .probe_us = TIMEOUT_US,
                                     .lookup_end_us = weir_monotonic_us() + TIMEOUT_US};
  pthread_t threads[THREADS];
  weir_message why = {""};
  weir_wire *wire = NULL;
  (void)state;
  assert_int_equal(weir_wire_open(&place, &weir_memcached_protocol, &login, &options, &wire, &why),
                   WEIR_OK);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, wire), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  weir_wire_leading led = weir_wire_read_leading(wire);
  assert_true(led.times > 0);
  assert_true(led.most <= 2 * (THREADS - 1));
  weir_wire_close(wire);
}

int main(void) {
  server = server_start_memcached(SERVER_IPV4, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_leader_serves_each_other_thread_twice_at_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
