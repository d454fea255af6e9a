/* A Redis that was the primary, and is a replica by now: whoever still counts on it must leave. */
#include <stdio.h>

#include "fixture/proxy.h"
#include "redis/codec.h"
#include "redis/plain.h"
#include "wire/line.h"
#include "wire/operations.h"

#define MS INT64_C(1000)
#define PATIENCE_US (PATIENCE_MS * MS)

static weir_redis_login login;

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static weir_wire *open_wire(uint16_t port) {
  const weir_wire_place place = {.host = "127.0.0.1", .port = port};
  const weir_wire_options options = {
      .timeout_us = PATIENCE_US, .connect_us = PATIENCE_US, .probe_us = 100 * MS};
  weir_message message = {""};
  weir_wire *wire = NULL;
  assert_true(weir_redis_login_write(&login, NULL, NULL, 0));
  if (weir_wire_open(&place, &weir_redis_protocol, &login, &options, &wire, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  return wire;
}

static weir_outcome add(weir_wire *wire, const char *key) {
  weir_operation operation = add_to(key, 1);
  weir_message message = {""};
  weir_wire_slot *slot = weir_wire_slot_take(wire);
  assert_non_null(slot);
  assert_true(weir_wire_slot_add(slot, &operation, 0));
  weir_wire_submit(wire, slot, 1, weir_monotonic_us() + PATIENCE_US);
  weir_wire_finish(wire, slot, &message);
  return operation.outcome;
}

/* The server becomes a replica of the other. */
static void demote(struct server *server, struct server *primary) {
  char text[64];
  redisContext *plain = plain_connect(server);
  snprintf(text, sizeof text, "REPLICAOF 127.0.0.1 %u", (unsigned)server_port(primary));
  plain_do(plain, text);
  redisFree(plain);
}

/* Behind one address, as a virtual one has it: the next connection goes to the new primary. */
static void a_demoted_server_is_left(void **state) {
  (void)state;
  proxy door;
  struct server *old = server_start_redis(SERVER_IPV4, NULL);
  struct server *new = server_start_redis(SERVER_IPV4, NULL);
  proxy_start(&door, old, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address));
  assert_int_equal(add(wire, "weir:{a}"), WEIR_DONE);
  demote(old, new);
  atomic_store(&door.behind, new);
  int refused = 0;
  while (add(wire, "weir:{a}") != WEIR_DONE)
    assert_true(++refused <= 2);
  assert_int_equal(refused, 1);
  assert_int_equal(atomic_load(&door.connections), 2);
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* Until there is another it is away: asked as often as a probe is, each time by a new connection,
 * and not with every call. */
static void a_demoted_server_without_a_successor_is_away(void **state) {
  (void)state;
  proxy door;
  struct server *old = server_start_redis(SERVER_IPV4, NULL);
  struct server *new = server_start_redis(SERVER_IPV4, NULL);
  proxy_start(&door, old, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address));
  assert_int_equal(add(wire, "weir:{a}"), WEIR_DONE);
  demote(old, new);
  int calls = 0;
  int refused = 0;
  for (int64_t end_us = weir_monotonic_us() + 500 * MS; weir_monotonic_us() < end_us; pause_ms(1)) {
    weir_outcome outcome = add(wire, "weir:{a}");
    assert_true(outcome == WEIR_REFUSED || outcome == WEIR_NOT_SENT);
    refused += outcome == WEIR_REFUSED;
    calls++;
  }
  weir_server_state now;
  weir_wire_read_server(wire, &now);
  assert_int_not_equal(now.breaker, WEIR_BREAKER_CLOSED);
  assert_int_equal(now.outages, 1);
  assert_non_null(strstr(now.last_error.text, "the server refuses to write"));
  assert_in_range(refused, 2, 2 + 500 / 20); /* a pause has 20 ms at the least */
  assert_true(refused <= atomic_load(&door.connections));
  assert_true(calls > refused);
  demote(new, old); /* which makes it a replica of a replica */
  redisContext *plain = plain_connect(old);
  plain_do(plain, "REPLICAOF NO ONE");
  redisFree(plain);
  for (int64_t end_us = weir_monotonic_us() + PATIENCE_US; add(wire, "weir:{a}") != WEIR_DONE;) {
    assert_true(weir_monotonic_us() < end_us);
    pause_ms(1);
  }
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* The keys of the other shard are decided all the time. The store asks once who its peer is. */
static void a_proxy_stays_as_its_other_shards_are_well(void **state) {
  (void)state;
  enum { KEYS = 40, ROUNDS = 5 };
  proxy door;
  struct server *shards[2];
  for (size_t i = 0; i < 2; i++)
    shards[i] = server_start_redis(SERVER_IPV4, NULL);
  struct server *primary = server_start_redis(SERVER_IPV4, NULL);
  struct server *twemproxy = server_start_nutcracker(shards, 2);
  proxy_start(&door, twemproxy, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address));
  assert_int_equal(add(wire, "weir:{0}"), WEIR_DONE);
  demote(shards[0], primary);
  int well = 0;
  int connections = 0;
  for (int round = 0; round < ROUNDS; round++) {
    int done = 0;
    for (int i = 0; i < KEYS; i++) {
      char key[32];
      snprintf(key, sizeof key, "weir:{%08x}", 2654435761U * (unsigned)i); /* on both shards */
      weir_outcome outcome = add(wire, key);
      assert_true(outcome == WEIR_REFUSED || outcome == WEIR_DONE); /* never away */
      done += outcome == WEIR_DONE;
    }
    if (round == 0) {
      well = done;
      connections = atomic_load(&door.connections);
    }
    assert_int_equal(done, well);
  }
  assert_in_range(well, 1, KEYS - 1);
  assert_int_equal(wire->server.connections[0].greeting.kind, WEIR_SERVER_PROXY);
  assert_int_equal(atomic_load(&door.connections), connections);
  assert_true(connections <= 3); /* the first, the one that asked, and the one that stays */
  weir_wire_close(wire);
  proxy_stop(&door);
}

/* A user that may not say SELECT is answered by a server all the same. */
static void a_user_without_select_knows_a_server(void **state) {
  (void)state;
  proxy door;
  struct server *old = server_start_redis(SERVER_IPV4, NULL);
  struct server *new = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(old);
  plain_do(plain, "ACL SETUSER default -select");
  redisFree(plain);
  proxy_start(&door, old, PROXY_OPEN);
  weir_wire *wire = open_wire(address_port(&door.address));
  assert_int_equal(add(wire, "weir:{a}"), WEIR_DONE);
  demote(old, new);
  assert_int_equal(add(wire, "weir:{a}"), WEIR_REFUSED);
  assert_int_equal(add(wire, "weir:{a}"), WEIR_REFUSED); /* which now is known for a server's */
  atomic_store(&door.behind, new);
  for (int64_t end_us = weir_monotonic_us() + PATIENCE_US; add(wire, "weir:{a}") != WEIR_DONE;) {
    assert_true(weir_monotonic_us() < end_us);
    pause_ms(1);
  }
  weir_wire_close(wire);
  proxy_stop(&door);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_demoted_server_is_left),
      cmocka_unit_test(a_demoted_server_without_a_successor_is_away),
      cmocka_unit_test(a_proxy_stays_as_its_other_shards_are_well),
      cmocka_unit_test(a_user_without_select_knows_a_server),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
