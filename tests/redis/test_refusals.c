/* A server or proxy refuses: one clear message for each cause, and no wrong reply. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "redis/plain.h"

static weir_store *open_as(const struct server *server, const char *credentials, const char *rest) {
  char url[256];
  weir_message message = {""};
  weir_store *store = NULL;
  snprintf(url, sizeof url, "redis://%s127.0.0.1:%u%s?timeout=5s", credentials,
           (unsigned)server_port(server), rest);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

/* Executes, closes the store, and expects the outcome and the text. */
static void expect(weir_store *store, weir_operation operation, weir_outcome outcome,
                   const char *text) {
  weir_message message = {""};
  weir_operation result = execute(store, operation, &message);
  if (result.outcome != outcome || strstr(message.text, text) == NULL)
    fail_msg("outcome %d, \"%s\" instead of \"%s\"", (int)result.outcome, message.text, text);
  assert_null(strstr(message.text, "s3cret"));
  weir_store_close(store);
}

static const char *const users[] = {"--user", "limiter",       "on",     ">s3cret", "~weir:*",
                                    "+@all",  "--requirepass", "s3cret", NULL};

static void tells_why_it_cannot_log_in(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, users);
  weir_operation add = add_to("weir:{a}", 1);
  const char *wrong = "auth: the server does not accept this user and password";
  expect(open_as(server, "limiter:wr0ng@", ""), add, WEIR_NOT_SENT, wrong);
  expect(open_as(server, ":wr0ng@", ""), add, WEIR_NOT_SENT, wrong);
  expect(open_as(server, "nobody:s3cret@", ""), add, WEIR_NOT_SENT, wrong);
  expect(open_as(server, "", ""), add, WEIR_NOT_SENT, "ping: the server wants a password");
  weir_store *store = open_as(server, "limiter:s3cret@", "");
  assert_done(execute(store, add, NULL), 1);
  weir_store_close(store);
  store = open_as(server, ":s3cret@", "/2");
  assert_done(execute(store, add, NULL), 1);
  weir_store_close(store);
}

static void tells_that_no_password_is_set(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  expect(open_as(server, ":s3cret@", ""), add_to("weir:{a}", 1), WEIR_NOT_SENT,
         "auth: the server has no password");
  expect(open_as(server, "", "/99"), add_to("weir:{a}", 1), WEIR_NOT_SENT,
         "select: the server has no database of this number");
}

static void names_the_command_that_a_user_lacks(void **state) {
  (void)state;
  static const struct {
    const char *lacks;
    weir_operation_kind kind;
    weir_outcome outcome;
    bool raised;
  } cases[] = {
      {"set", WEIR_PUT, WEIR_REFUSED, false},    {"set", WEIR_CREATE, WEIR_REFUSED, false},
      {"set", WEIR_ADD, WEIR_UNKNOWN, false},    {"incrby", WEIR_ADD, WEIR_REFUSED, false},
      {"pttl", WEIR_ADD, WEIR_UNKNOWN, false},   {"decrby", WEIR_SUB, WEIR_REFUSED, false},
      {"get", WEIR_GET, WEIR_REFUSED, false},    {"del", WEIR_DROP, WEIR_REFUSED, false},
      {"zadd", WEIR_RAISE, WEIR_REFUSED, false}, {"pexpire", WEIR_RAISE, WEIR_UNKNOWN, false},
      {"zscore", WEIR_GET, WEIR_REFUSED, true},  {"zadd", WEIR_SUB, WEIR_REFUSED, true}};
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[128];
    weir_operation operation = operation_on(cases[i].kind, "weir:{a}");
    operation.delta = 1;
    operation.raised = cases[i].raised;
    operation.refresh = cases[i].kind == WEIR_RAISE;
    plain_do(plain, "FLUSHALL");
    snprintf(text, sizeof text, "ACL SETUSER limiter reset on >s3cret ~weir:* +@all -%s",
             cases[i].lacks);
    plain_do(plain, text);
    snprintf(text, sizeof text,
             "%s of key \"weir:{a}\": the user may not run this command: let it with ACL SETUSER "
             "<user> +%s",
             cases[i].lacks, cases[i].lacks);
    expect(open_as(server, "limiter:s3cret@", ""), operation, cases[i].outcome, text);
  }
  plain_do(plain, "ACL SETUSER limiter reset on >s3cret ~other:* +@all");
  expect(open_as(server, "limiter:s3cret@", ""), add_to("weir:{a}", 1), WEIR_REFUSED, "~weir:*");
  plain_do(plain, "ACL SETUSER limiter reset on >s3cret ~weir:* +@all -ping");
  expect(open_as(server, "limiter:s3cret@", ""), add_to("weir:{a}", 1), WEIR_NOT_SENT, "+ping");
  redisFree(plain);
}

/* A user who may count but not SET: every key that this leaves has its TTL. */
static void a_user_without_set_leaves_no_immortal_key(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  size_t count;
  plain_do(plain, "ACL SETUSER limiter reset on >s3cret ~weir:* +@all -set");
  expect(open_as(server, "limiter:s3cret@", ""), add_to("weir:{a}", 1), WEIR_UNKNOWN, "+set");
  expect(open_as(server, "limiter:s3cret@", ""), sub_from("weir:{b}", 1), WEIR_UNKNOWN, "+set");
  assert_int_equal(plain_count_immortal(plain, &count), 0);
  assert_int_equal(count, 2);
  weir_store *store = open_as(server, "limiter:s3cret@", "");
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 2); /* the key is there: no SET needed */
  weir_store_close(store);
  redisFree(plain);
}

static void tells_of_a_command_that_is_renamed_away(void **state) {
  (void)state;
  static const char *const renamed[] = {"--rename-command", "INCRBY", "", NULL};
  struct server *server = server_start_redis(SERVER_IPV4, renamed);
  expect(open_as(server, "", ""), add_to("weir:{a}", 1), WEIR_REFUSED,
         "incrby of key \"weir:{a}\": the server does not have this command");
}

static void tells_of_a_replica(void **state) {
  (void)state;
  struct server *primary = server_start_redis(SERVER_IPV4, NULL);
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  char command[64];
  snprintf(command, sizeof command, "REPLICAOF 127.0.0.1 %u", (unsigned)server_port(primary));
  plain_do(plain, command);
  expect(open_as(server, "", ""), add_to("weir:{a}", 1), WEIR_REFUSED, "read-only replica");
  expect(open_as(server, "", ""), put_to(WEIR_PUT, "weir:{a}", 1), WEIR_REFUSED,
         "read-only replica");
  redisFree(plain);
}

static void tells_of_memory_that_ran_out(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *plain = plain_connect(server);
  weir_store *store = open_as(server, "", "");
  assert_done(execute(store, put_to(WEIR_PUT, "weir:{a}", 1), NULL), 1);
  plain_do(plain, "CONFIG SET maxmemory 1");
  weir_message message = {""};
  assert_outcome(execute(store, add_to("weir:{a}", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "out of memory"));
  assert_done(execute(store, get_of("weir:{a}"), NULL), 1); /* nothing was charged */
  plain_do(plain, "CONFIG SET maxmemory 0");
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 2);
  weir_store_close(store);
  redisFree(plain);
}

/* A server that reads its data slowly from disk. */
static void tells_of_a_server_that_still_loads(void **state) {
  (void)state;
  static const char *const slow[] = {"--key-load-delay",
                                     "2000",
                                     "--loading-process-events-interval-bytes",
                                     "1024",
                                     "--enable-debug-command",
                                     "yes",
                                     NULL};
  struct server *server = server_start_redis(SERVER_IPV4, slow);
  redisContext *plain = plain_connect(server);
  weir_store *store = open_as(server, "", "");
  weir_message message = {""};
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 1);
  plain_do(plain, "DEBUG POPULATE 4000 weir 100");
  redisContext *other = plain_connect(server);
  const char *reload =
      "*2\r\n$5\r\nDEBUG\r\n$6\r\nRELOAD\r\n"; /* its reply comes after the loading */
  assert_int_equal(write(other->fd, reload, strlen(reload)), strlen(reload));
  weir_operation add = add_to("weir:{a}", 1);
  for (int tries = 0; tries < 200; tries++) {
    message.text[0] = '\0';
    add = execute(store, add_to("weir:{a}", 1), &message);
    if (add.outcome != WEIR_DONE) break;
    poll(NULL, 0, 2);
  }
  if (add.outcome != WEIR_REFUSED || strstr(message.text, "still loads its data") == NULL)
    fail_msg("outcome %d: %s", (int)add.outcome, message.text);
  weir_store_close(store);
  expect(open_as(server, "", ""), add, WEIR_NOT_SENT, "ping: the server still loads its data");
  redisFree(other);
  redisFree(plain);
}

static void tells_of_a_cluster(void **state) {
  (void)state;
  static const char *const cluster[] = {"--cluster-enabled", "yes", NULL};
  struct server *server = server_start_redis(SERVER_IPV4, cluster);
  redisContext *plain = plain_connect(server);
  bool may_have_more = plain_do(plain, "CONFIG GET cluster-databases") > 0; /* Valkey 9 */
  redisFree(plain);
  expect(open_as(server, "", ""), add_to("weir:{a}", 1), WEIR_REFUSED, "the cluster is down");
  expect(open_as(server, "", "/1"), add_to("weir:{a}", 1), WEIR_NOT_SENT,
         may_have_more ? "select: the server has no database of this number"
                       : "select: a cluster has database 0 alone");
}

static void tells_of_a_proxy_without_its_server(void **state) {
  (void)state;
  struct server *behind = server_start_redis(SERVER_IPV4, NULL);
  struct server *proxy = server_start_nutcracker(&behind, 1);
  weir_store *store = open_as(proxy, "", "");
  weir_message message = {""};
  assert_done(execute(store, add_to("weir:{a}", 1), NULL), 1);
  server_kill(behind);
  for (int tries = 0; tries < 3; tries++) { /* the first may find the connection closing */
    weir_outcome outcome = execute(store, add_to("weir:{a}", 1), &message).outcome;
    assert_true(outcome == WEIR_REFUSED || outcome == WEIR_UNKNOWN);
  }
  assert_outcome(execute(store, add_to("weir:{a}", 1), &message), WEIR_REFUSED);
  assert_non_null(strstr(message.text, "the proxy cannot reach its server"));
  weir_store_close(store);
  expect(open_as(proxy, "", "/1"), add_to("weir:{a}", 1), WEIR_NOT_SENT,
         "hung up instead of answering \"select\"");
  expect(open_as(proxy, "limiter:s3cret@", ""), add_to("weir:{a}", 1), WEIR_NOT_SENT,
         "hung up instead of answering \"auth\"");
}

static void tells_of_a_server_that_is_not_redis(void **state) {
  (void)state;
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  expect(open_as(server, "", ""), add_to("weir:{a}", 1), WEIR_NOT_SENT,
         "the server does not answer \"ping\" as Redis does");
}

static void names_what_is_wrong_with_a_url(void **state) {
  (void)state;
  static const char *const urls[][2] = {
      {"redis://localhost/x", "the path is not the number of a database: accepted are 0 to 65535"},
      {"redis://localhost/65536", "the path is not the number"},
      {"redis://localhost/1/2", "the path is not the number"},
      {"redis://localhost/1?db=1", "named twice"},
      {"redis://localhost?db=-1", "db=-1"},
      {"redis://limiter@localhost", "a user without a password"},
      {"redis://limiter:@localhost", "a user without a password"},
      {"redis://127.0.0.1:1,127.0.0.1:2/1", "database 0 alone"},
      {"redis://127.0.0.1:1,127.0.0.1:2?cluster=off", "leave out cluster=off"},
      {"redis://127.0.0.1:1:2", "no weight"},
      {"redis://127.0.0.1?cluster=on", "cluster=on"},
      {"redis+unix://", "path is missing"},
      {"redis://localhost?protocol=meta", "unknown option \"protocol\""},
      {"rediss+unix:///s", "unknown scheme"}};
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
    weir_store *store = NULL;
    weir_message message = {""};
    assert_int_equal(weir_store_open(urls[i][0], &store, &message), WEIR_BAD_URL);
    if (strstr(message.text, urls[i][1]) == NULL) fail_msg("%s: %s", urls[i][0], message.text);
  }
  char url[700];
  weir_store *store = NULL;
  weir_message message = {""};
  snprintf(url, sizeof url, "redis://:%0600d@localhost", 0);
  assert_int_equal(weir_store_open(url, &store, &message), WEIR_BAD_URL);
  assert_non_null(strstr(message.text, "password are longer"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tells_why_it_cannot_log_in),
      cmocka_unit_test(tells_that_no_password_is_set),
      cmocka_unit_test(names_the_command_that_a_user_lacks),
      cmocka_unit_test(a_user_without_set_leaves_no_immortal_key),
      cmocka_unit_test(tells_of_a_command_that_is_renamed_away),
      cmocka_unit_test(tells_of_a_replica),
      cmocka_unit_test(tells_of_memory_that_ran_out),
      cmocka_unit_test(tells_of_a_server_that_still_loads),
      cmocka_unit_test(tells_of_a_cluster),
      cmocka_unit_test(tells_of_a_proxy_without_its_server),
      cmocka_unit_test(tells_of_a_server_that_is_not_redis),
      cmocka_unit_test(names_what_is_wrong_with_a_url),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
