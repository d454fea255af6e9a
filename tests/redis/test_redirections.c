/* Nodes that redirect at will, in front of one server that counts what was executed. */
#include "redis/cluster.h"
#include "redis/relay.h"

#define MS INT64_C(1000)

static struct server *server;
static redisContext *plain;
static relay left, right;

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

/* The left node is the one that the store's URL names. */
static weir_store *open_left(relay_judge *judge_left, relay_judge *judge_right,
                             const char *options) {
  char url[256];
  weir_message message = {""};
  weir_store *store = NULL;
  plain_do(plain, "FLUSHALL");
  relay_start(&left, server, judge_left);
  relay_start(&right, server, judge_right);
  snprintf(url, sizeof url, "redis://127.0.0.1:%u?timeout=5s%s",
           (unsigned)address_port(&left.address), options);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s", message.text);
  return store;
}

static void close_all(weir_store *store) {
  weir_store_close(store);
  relay_stop(&left);
  relay_stop(&right);
}

/* The slot of the key that a command names. */
static unsigned slot_of(const relay_command *command) {
  const char *home = strchr(command->words, '{') + 1;
  return weir_redis_slot(home, strcspn(home, "}"));
}

static bool say(const relay_command *command, char error[RELAY_TEXT], const char *kind,
                const relay *to) {
  snprintf(error, RELAY_TEXT, "%s %u 127.0.0.1:%u", kind, slot_of(command),
           (unsigned)address_port(&to->address));
  return true;
}

static bool moves_right(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  return say(command, error, "MOVED", &right);
}

static bool moves_left(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  return say(command, error, "MOVED", &left);
}

static bool moves_right_in_other_words(relay *self, const relay_command *command,
                                       char error[RELAY_TEXT]) {
  (void)self;
  return say(command, error, "ERR MOVED", &right);
}

static bool moves_to_the_same_host(relay *self, const relay_command *command,
                                   char error[RELAY_TEXT]) {
  (void)self;
  snprintf(error, RELAY_TEXT, "MOVED %u :%u", slot_of(command),
           (unsigned)address_port(&right.address));
  return true;
}

static bool moves_nowhere(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  (void)command;
  snprintf(error, RELAY_TEXT, "MOVED 42 ?:0");
  return true;
}

static bool asks_right(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  return say(command, error, "ASK", &right);
}

/* A node that imports a slot knows nobody who does not say ASKING. */
static bool imports(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  return !command->asking && say(command, error, "MOVED", &left);
}

/* The first so many commands pass, or are redirected. */
static atomic_int pattern; /* a bit for each command, lowest first: it is redirected */
static atomic_int at;      /* the next one's number */
static const char *pattern_kind = "MOVED";

static bool by_pattern(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  int number = atomic_fetch_add(&at, 1);
  bool sent_on = number < 16 && (atomic_load(&pattern) >> number & 1) != 0;
  return sent_on && say(command, error, pattern_kind, &right);
}

static long long value_of(const char *key) {
  redisReply *reply = redisCommand(plain, "GET %s", key);
  long long value = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : -1;
  freeReplyObject(reply);
  return value;
}

static void follows_moved_and_stays_there(void **state) {
  static relay_judge *const judges[] = {moves_right, moves_right_in_other_words,
                                        moves_to_the_same_host};
  (void)state;
  for (size_t i = 0; i < sizeof judges / sizeof judges[0]; i++) {
    weir_store *store = open_left(judges[i], NULL, "");
    assert_done(execute(store, add_to("weir:{h}:1", 3), NULL), 3);
    assert_done(execute(store, add_to("weir:{h}:1", 3), NULL), 6);
    assert_int_equal(value_of("weir:{h}:1"), 6);
    assert_int_equal(atomic_load(&left.seen), 3); /* SET, INCRBY, PTTL, and never again */
    close_all(store);
  }
}

static void refuses_where_nobody_is_named(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = open_left(moves_nowhere, NULL, "");
  assert_outcome(execute(store, add_to("weir:{h}:1", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "names another node"));
  assert_int_equal(value_of("weir:{h}:1"), -1);
  close_all(store);
}

static void refuses_to_follow_where_told_not_to(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = open_left(moves_right, NULL, "&cluster=off");
  assert_outcome(execute(store, add_to("weir:{h}:1", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "leave out cluster=off"));
  assert_int_equal(atomic_load(&right.seen), 0);
  close_all(store);
}

/* ASKING stands before each command, and nothing is learnt. */
static void asks_for_each_command_anew(void **state) {
  (void)state;
  weir_store *store = open_left(asks_right, imports, "");
  assert_done(execute(store, add_to("weir:{h}:1", 3), NULL), 3);
  assert_int_equal(atomic_load(&right.asked), 3); /* SET, INCRBY, PTTL */
  assert_int_equal(atomic_load(&right.passed), 3);
  assert_int_equal(atomic_load(&left.seen), 3);
  relay_set(&left, NULL);
  relay_set(&right, imports);
  assert_done(execute(store, add_to("weir:{h}:1", 3), NULL), 6);
  assert_int_equal(atomic_load(&right.seen), 0);
  assert_int_equal(value_of("weir:{h}:1"), 6);
  close_all(store);
}

/* Two nodes that name one another: five hops, then no more. Nothing was executed. */
static void does_not_walk_in_a_circle(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = open_left(moves_right, moves_left, "");
  assert_outcome(execute(store, put_to(WEIR_PUT, "weir:{h}:1", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "redirected too often"));
  assert_int_equal(atomic_load(&left.seen) + atomic_load(&right.seen), 6);
  close_all(store);
}

/* The node that is asked in its stead knows no other: the message is about the dead one, and that
 * nothing was sent lets the policy answer at once. */
static void a_dead_owner_is_named(void **state) {
  (void)state;
  char dead[32];
  weir_store *store = open_left(moves_right, NULL, "");
  snprintf(dead, sizeof dead, "127.0.0.1:%u", (unsigned)address_port(&right.address));
  assert_done(execute(store, add_to("weir:{h}:1", 1), NULL), 1);
  relay_hang_up(&right);
  for (int i = 0; i < 200; i++) {
    weir_message message = {""};
    weir_operation add = execute(store, add_to("weir:{h}:1", 1), &message);
    bool cut = i == 0 && add.outcome == WEIR_UNKNOWN; /* it was sent before the end was seen */
    if (!cut && add.outcome != WEIR_NOT_SENT) fail_msg("%d: %d, %s", i, add.outcome, message.text);
    if (!cut && strncmp(message.text, dead, strlen(dead)) != 0) fail_msg("%s", message.text);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  close_all(store);
}

/* Every half of a pipeline, in every way, over and over: an ADD counts once, a SUB takes once, and
 * the read behind them sees both. */
static void every_pattern_counts_once(void **state) {
  static const char *const kinds[] = {"MOVED", "ASK"};
  (void)state;
  for (size_t kind = 0; kind < 2; kind++) {
    weir_store *store = open_left(NULL, NULL, "");
    pattern_kind = kinds[kind];
    for (int bits = 1; bits < 1 << 7; bits++) { /* SET INCRBY PTTL, SET DECRBY PTTL, GET */
      char key[64];
      snprintf(key, sizeof key, "weir:{p%zu.%d}:1", kind, bits);
      weir_message message = {""};
      weir_operation made[3] = {add_to(key, 5), sub_from(key, 2), get_of(key)};
      atomic_store(&pattern, bits);
      atomic_store(&at, 0);
      relay_set(&left, by_pattern);
      relay_set(&right, NULL);
      weir_store_exec(store, made, 3, deadline_in_ms(PATIENCE_MS), &message);
      relay_set(&left, NULL);
      long long value = value_of(key);
      /* No node redirects one command and executes the next. Should one do so, what it executed
       * comes first. */
      bool sub_first = made[1].outcome == WEIR_ABSENT;
      if (made[0].outcome == WEIR_UNKNOWN || made[1].outcome == WEIR_UNKNOWN)
        assert_true(value == 3 || value == 5);
      else
        assert_int_equal(value, sub_first ? 5 : 3);
      assert_true(made[0].outcome == WEIR_DONE || made[0].outcome == WEIR_UNKNOWN);
      assert_done(made[2], value);
      redisReply *ttl = redisCommand(plain, "PTTL %s", key);
      if (ttl->integer <= 0) fail_msg("%s, pattern %d: no TTL", kinds[kind], bits);
      freeReplyObject(ttl);
    }
    close_all(store);
  }
}

static void a_raise_counts_once_too(void **state) {
  (void)state;
  weir_store *store = open_left(NULL, NULL, "");
  pattern_kind = "MOVED";
  for (int bits = 1; bits < 1 << 3; bits++) { /* ZADD, ZADD INCR, PEXPIRE */
    char key[64];
    snprintf(key, sizeof key, "weir:{r%d}:1", bits);
    atomic_store(&pattern, bits);
    atomic_store(&at, 0);
    relay_set(&left, by_pattern);
    relay_set(&right, NULL);
    weir_operation made = execute(store, raise_to(key, 100, 5), NULL);
    relay_set(&left, NULL);
    if ((bits & 3) == 1) { /* the sum may not have had its floor */
      assert_outcome(made, WEIR_UNKNOWN);
      continue;
    }
    assert_done(made, 105);
    redisReply *ttl = redisCommand(plain, "PTTL %s", key);
    assert_true(ttl->integer > 0);
    freeReplyObject(ttl);
  }
  close_all(store);
}

static atomic_int busy;

static bool tries_again_twice(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  (void)command;
  if (atomic_fetch_sub(&busy, 1) <= 0) return false;
  snprintf(error, RELAY_TEXT, "TRYAGAIN Multiple keys request during rehashing of slot");
  return true;
}

static void tries_again(void **state) {
  (void)state;
  weir_store *store = open_left(tries_again_twice, NULL, "");
  atomic_store(&busy, 2);
  assert_done(execute(store, put_to(WEIR_PUT, "weir:{h}:1", 7), NULL), 7);
  weir_message message = {""};
  atomic_store(&busy, 1000);
  assert_outcome(execute(store, put_to(WEIR_PUT, "weir:{h}:1", 8), &message), WEIR_REFUSED);
  assert_int_equal(value_of("weir:{h}:1"), 7);
  close_all(store);
}

static bool is_down(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  (void)command;
  snprintf(error, RELAY_TEXT, "CLUSTERDOWN The cluster is down");
  return true;
}

static void tells_that_the_cluster_is_down(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = open_left(is_down, NULL, "");
  assert_outcome(execute(store, add_to("weir:{h}:1", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "the cluster is down"));
  assert_true(atomic_load(&left.seen) <= 6);
  relay_set(&left, NULL);
  assert_done(execute(store, add_to("weir:{h}:1", 1), NULL), 1);
  close_all(store);
}

static bool forbids_asking(relay *self, const relay_command *command, char error[RELAY_TEXT]) {
  (void)self;
  return say(command, error, "ASK", &right);
}

/* ASK to somebody who does not know of it, and to nobody at all. */
static void ask_to_a_stranger_ends(void **state) {
  (void)state;
  weir_message message = {""};
  weir_store *store = open_left(forbids_asking, moves_left, "");
  assert_outcome(execute(store, add_to("weir:{h}:1", 1), &message), WEIR_REFUSED);
  assert_int_equal(value_of("weir:{h}:1"), -1);
  close_all(store);
}

/* NOPERM on CLUSTER SLOTS: asked once, by MOVED alone afterwards. */
static void a_map_that_is_refused_is_asked_for_once(void **state) {
  (void)state;
  weir_store *store = open_left(moves_right, NULL, "");
  for (int i = 0; i < 20; i++) {
    char key[32];
    snprintf(key, sizeof key, "weir:{m%d}:1", i);
    assert_done(execute(store, add_to(key, 1), NULL), 1);
  }
  weir_store_close(store); /* waits for who asks */
  assert_int_equal(atomic_load(&left.maps) + atomic_load(&right.maps), 1);
  relay_stop(&left);
  relay_stop(&right);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(follows_moved_and_stays_there),
      cmocka_unit_test(refuses_where_nobody_is_named),
      cmocka_unit_test(refuses_to_follow_where_told_not_to),
      cmocka_unit_test(asks_for_each_command_anew),
      cmocka_unit_test(does_not_walk_in_a_circle),
      cmocka_unit_test(a_dead_owner_is_named),
      cmocka_unit_test(every_pattern_counts_once),
      cmocka_unit_test(a_raise_counts_once_too),
      cmocka_unit_test(tries_again),
      cmocka_unit_test(tells_that_the_cluster_is_down),
      cmocka_unit_test(ask_to_a_stranger_ends),
      cmocka_unit_test(a_map_that_is_refused_is_asked_for_once),
  };
  return cmocka_run_group_tests(tests, start, end);
}
