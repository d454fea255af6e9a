/* Nodes that redirections alone name: how many are followed, what they are told, and what is left of
 * them. */
#include <netdb.h>

#include "fixture/process.h"
#include "redis/cluster.h"
#include "redis/relay.h"

enum { DEAD = 300, NAMES = 60, THREADS_MORE = 8 };

static struct server *server;
static redisContext *plain;
static relay left, right;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

/* A resolver that has lost its servers. */
static atomic_bool hangs;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found) {
  bool hanging = strncmp(host, "hangs", 5) == 0 && (hints->ai_flags & AI_NUMERICHOST) == 0;
  while (hanging && atomic_load(&hangs))
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  return hanging ? EAI_AGAIN : __real_getaddrinfo(host, port, hints, found);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int start(void **state) {
  (void)state;
  server = server_start_redis(SERVER_IPV4, NULL);
  plain = plain_connect(server);
  return 0;
}

static int end(void **state) {
  (void)state;
  redisFree(plain);
  server_kill(server);
  return 0;
}

static weir_store *open_left(const char *credentials, const char *options, relay_judge *judge) {
  char url[256];
  weir_message message = {""};
  weir_store *store = NULL;
  plain_do(plain, "FLUSHALL");
  relay_start(&left, server, judge);
  relay_start(&right, server, NULL);
  snprintf(url, sizeof url, "redis://%s127.0.0.1:%u?%s", credentials,
           (unsigned)address_port(&left.address), options);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s", message.text);
  return store;
}

static void close_all(weir_store *store) {
  weir_store_close(store);
  relay_stop(&left);
  relay_stop(&right);
}

static unsigned slot_of(const relay_command *command) {
  const char *home = strchr(command->words, '{') + 1;
  return weir_redis_slot(home, strcspn(home, "}"));
}

static bool moves_right(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "MOVED %u 127.0.0.1:%u", slot_of(command),
           (unsigned)address_port(&right.address));
  return true;
}

/* Each slot has a dead owner of its own. */
static bool moves_to_the_dead(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  unsigned slot = slot_of(command);
  snprintf(error, RELAY_TEXT, "MOVED %u 127.1.%u.%u:1", slot, slot / 200, slot % 200 + 1);
  return true;
}

static atomic_uint named;

static bool moves_to_hanging_names(relay *self, const relay_command *command,
                                   char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "MOVED %u hangs%u.test:6379", slot_of(command),
           atomic_fetch_add(&named, 1));
  return true;
}

/* The table is too small for all: some are refused, with the reason; a moment later there is
 * room. */
static void dead_addresses_do_not_fill_the_table_for_ever(void **state) {
  (void)state;
  int full = 0;
  weir_store *store = open_left("", "timeout=5s", moves_to_the_dead);
  int descriptors = process_descriptors();
  int64_t first_us = weir_monotonic_us();
  for (int i = 0; i < DEAD; i++) {
    char key[32];
    weir_message message = {""};
    snprintf(key, sizeof key, "weir:{d%d}:1", i);
    weir_operation add = execute(store, add_to(key, 1), &message);
    assert_true(add.outcome == WEIR_NOT_SENT || add.outcome == WEIR_REFUSED);
    full += strstr(message.text, "256 are known already") != NULL;
  }
  print_message("%d dead addresses were named; %d calls were refused for want of room\n", DEAD,
                full);
  assert_true(full > 0 || weir_monotonic_us() > first_us + 900000); /* a busy machine */
  assert_in_range(process_descriptors(), descriptors, descriptors + 4);
  relay_set(&left, moves_right);
  int64_t begin_us = weir_monotonic_us();
  while (execute(store, add_to("weir:{fresh}:1", 1), NULL).outcome != WEIR_DONE)
    assert_true(weir_monotonic_us() < begin_us + 2000000);
  for (int i = 0; i < DEAD; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:{d%d}:1", i);
    while (execute(store, add_to(key, 1), NULL).outcome != WEIR_DONE)
      assert_true(weir_monotonic_us() < begin_us + 5000000);
  }
  close_all(store);
}

/* However many names there are, few are looked up. */
static void names_without_end_make_few_threads(void **state) {
  (void)state;
  atomic_store(&hangs, true);
  weir_store *store = open_left("", "timeout=10ms", moves_to_hanging_names);
  int threads = process_threads();
  for (int i = 0; i < NAMES; i++) {
    char key[32];
    weir_message message = {""};
    weir_operation add;
    snprintf(key, sizeof key, "weir:{n%d}:1", i);
    add = add_to(key, 1);
    weir_store_exec(store, &add, 1, deadline_in_ms(10), &message);
    assert_int_not_equal(add.outcome, WEIR_DONE);
  }
  print_message("%d threads before, %d now\n", threads, process_threads());
  assert_in_range(process_threads(), threads, threads + THREADS_MORE);
  atomic_store(&hangs, false);
  close_all(store);
}

/* The cluster's own list. */
static void write_map(char map[RELAY_TEXT], const relay *owner) {
  snprintf(map, RELAY_TEXT, "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n",
           (unsigned)address_port(&owner->address));
}

static void expect_refused(weir_store *store, const char *text) {
  weir_message message = {""};
  for (int i = 0; i < 3; i++) {
    assert_outcome(execute(store, add_to("weir:{h}:1", 1), &message), WEIR_REFUSED);
    if (strstr(message.text, text) == NULL) fail_msg("%s", message.text);
  }
  assert_int_equal(atomic_load(&right.visits), 0);
}

static void a_password_is_not_told_on_a_redirection_alone(void **state) {
  (void)state;
  static char maps[2][RELAY_TEXT]; /* the relay may read the first still */
  weir_store *store = open_left(":s3cret@", "timeout=5s", moves_right);
  expect_refused(store, "let the user with ACL SETUSER <user> +cluster|slots");
  close_all(store);
  store = open_left("u:s3cret@", "timeout=5s", moves_right);
  write_map(maps[0], &left);
  atomic_store(&left.map, maps[0]);
  expect_refused(store, "the cluster's own list does not");
  write_map(maps[1], &right);
  atomic_store(&left.map, maps[1]);
  assert_done(execute(store, add_to("weir:{h}:1", 1), NULL), 1);
  assert_int_equal(atomic_load(&right.logins), 1);
  close_all(store);
}

/* Where there is nothing to be told, any node is followed. */
static void without_a_password_anybody_is_followed(void **state) {
  (void)state;
  weir_store *store = open_left("", "timeout=5s", moves_right);
  assert_done(execute(store, add_to("weir:{h}:1", 1), NULL), 1);
  assert_int_equal(atomic_load(&right.logins), 0);
  close_all(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dead_addresses_do_not_fill_the_table_for_ever),
      cmocka_unit_test(names_without_end_make_few_threads),
      cmocka_unit_test(a_password_is_not_told_on_a_redirection_alone),
      cmocka_unit_test(without_a_password_anybody_is_followed),
  };
  return cmocka_run_group_tests(tests, start, end);
}
