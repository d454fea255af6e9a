/* One of three memcached servers is stopped: its keys have no answer, and nobody else notices. */
#include <stdio.h>
#include <unistd.h>

#include "wire/operations.h"

/* The deadline is what the two servers that answer may take, on a busy machine; the third one costs
 * it whole, once and with every probe. Their pauses double, so there are not many. */
enum { SERVERS = 3, KEYS = 60, DEADLINE_MS = 4000, TURNED_AWAY = 30, WAITED_MOST = 20 };

typedef struct pool {
  struct server *servers[SERVERS];
  weir_store *store;
  char names[KEYS][32];
  bool away[KEYS];    /* on the server that is stopped */
  int unknown[KEYS];  /* additions that it may execute later */
  int64_t most[KEYS]; /* the last total that was told */
} pool;

static void open_pool(pool *p, const char *query) {
  *p = (pool){.store = NULL};
  for (int i = 0; i < SERVERS; i++)
    p->servers[i] = server_start_memcached(SERVER_IPV4, NULL);
  p->store = open_servers(p->servers, SERVERS, query);
  for (int i = 0; i < KEYS; i++)
    snprintf(p->names[i], sizeof p->names[i], "weir:t:{three%d}:1", i);
}

/* Whether that server has the key. */
static bool holds(const struct server *server, const char *name) {
  char text[64];
  char got[64] = "";
  int fd = server_connect(server);
  assert_true(fd >= 0);
  int length = snprintf(text, sizeof text, "get %s\r\n", name);
  assert_int_equal(send(fd, text, (size_t)length, MSG_NOSIGNAL), length);
  assert_true(recv(fd, got, sizeof got - 1, 0) > 0);
  close(fd);
  return strncmp(got, "VALUE ", 6) == 0;
}

/* All keys in one batch. Whether those of the stopped server were turned away at once. */
static bool add_to_all(pool *p, weir_message *message) {
  weir_operation adds[KEYS];
  bool turned_away = true;
  for (int i = 0; i < KEYS; i++)
    adds[i] = add_to(p->names[i], 1);
  weir_store_exec(p->store, adds, KEYS, deadline_in_ms(DEADLINE_MS), message);
  for (int i = 0; i < KEYS; i++) {
    if (!p->away[i]) {
      assert_done(adds[i], p->most[i] + 1);
      p->most[i]++;
      continue;
    }
    if (adds[i].outcome != WEIR_UNKNOWN) assert_outcome(adds[i], WEIR_NOT_SENT);
    p->unknown[i] += adds[i].outcome == WEIR_UNKNOWN;
    turned_away = turned_away && was_turned_away(adds[i], message);
  }
  return turned_away;
}

/* Fills the pool, finds out which keys the first server has. */
static void begin(pool *p) {
  weir_message message = {""};
  int away = 0;
  for (int i = 0; i < KEYS; i++) {
    assert_done(execute(p->store, add_to(p->names[i], 1), &message), 1);
    p->most[i] = 1;
    p->away[i] = holds(p->servers[0], p->names[i]);
    away += p->away[i];
  }
  assert_in_range(away, 1, KEYS - 1);
}

/* Nothing was counted that was not sent, nothing twice, and nothing anywhere else. */
static void expect_every_key_at_home(pool *p) {
  weir_message message = {""};
  for (int i = 0; i < KEYS; i++) {
    weir_operation get = execute_when_back(p->store, get_of(p->names[i]), &message);
    assert_outcome(get, WEIR_DONE);
    assert_in_range(get.value, p->most[i], p->most[i] + p->unknown[i]);
    for (int j = 0; j < SERVERS; j++) {
      if (holds(p->servers[j], p->names[i])) assert_int_equal(j == 0, p->away[i]);
    }
  }
}

static void only_the_keys_of_the_stopped_server_are_affected(const char *query) {
  pool p;
  weir_message message = {""};
  open_pool(&p, query);
  begin(&p);
  server_stop(p.servers[0]);
  int turned_away = 0;
  for (int waited = 0; turned_away < TURNED_AWAY;) {
    bool at_once = add_to_all(&p, &message);
    turned_away += at_once;
    waited += !at_once;
    assert_true(waited <= WAITED_MOST);
  }
  server_continue(p.servers[0]);
  expect_every_key_at_home(&p);
  weir_store_close(p.store);
}

static void with_meta_commands(void **state) {
  (void)state;
  only_the_keys_of_the_stopped_server_are_affected("protocol=meta&probe=60s");
}

static void with_classic_commands(void **state) {
  (void)state;
  only_the_keys_of_the_stopped_server_are_affected("protocol=classic&probe=60s");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_meta_commands),
      cmocka_unit_test(with_classic_commands),
  };
  return cmocka_run_group_tests_name("one of three is stopped", tests, NULL, NULL);
}
