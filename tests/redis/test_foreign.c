/* Something of somebody else's under a counter's name, as long as a Redis lets it be: who asks for
 * it all must not keep the server from everybody else.
 *
 *     test_redis_foreign [MB SECONDS]    32 MB and 1 s unless said otherwise; 500 60 makes the
 *                                        figures of docs/failure.md
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weir/weir.h>

#include "redis/plain.h"

enum {
  OTHER_KEYS = 100,
  PACE_MS = 1,
  DECISIONS_LEAST = 100,
  WHOLES_MOST = 10,
  CREDENTIALS_BYTES = 64
};

static long megabytes = 32;
static long seconds = 1;

static weir_store *open_url(const char *credentials, const struct server *server,
                            const char *query) {
  char url[256];
  weir_message message = {""};
  weir_store *store = NULL;
  snprintf(url, sizeof url, "redis://%s127.0.0.1:%u?%s", credentials, (unsigned)server_port(server),
           query);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

static void put_long(redisContext *plain, const char *key) {
  redisReply *reply = redisCommand(plain, "SETRANGE %s %ld x", key, megabytes * 1000000 - 1);
  assert_true(reply != NULL && reply->type == REDIS_REPLY_INTEGER);
  freeReplyObject(reply);
}

static void put_text(redisContext *plain, const char *key, const char *text) {
  redisReply *reply = redisCommand(plain, "SET %s %b", key, text, strlen(text));
  assert_true(reply != NULL && reply->type == REDIS_REPLY_STATUS);
  freeReplyObject(reply);
}

/* --- reading with care -------------------------------------------------------------------------
 */

static const char *const texts[] = {"0",
                                    "7",
                                    "-5",
                                    "41",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "123456789012345678",
                                    "",
                                    "9   ",
                                    "hello",
                                    "1.5",
                                    "00",
                                    "-0",
                                    "-",
                                    "9223372036854775808",
                                    "123456789012345678901",
                                    "a text that is no number at all and goes on for a while"};

/* By a store that has met nothing foreign yet. */
static weir_operation read_whole(const char *credentials, const struct server *asked) {
  weir_store *fresh = open_url(credentials, asked, "timeout=5s");
  weir_operation whole = execute(fresh, operation_on(WEIR_GET, "weir:{a}:1"), NULL);
  weir_store_close(fresh);
  return whole;
}

/* A key that went wrong once is read by its first bytes, and comes to the same as a GET; for a
 * while all keys are. */
static void check_texts(const struct server *server, const struct server *asked,
                        const char *credentials) {
  enum { WHILE = 4096 };
  weir_store *store = open_url(credentials, asked, "timeout=5s");
  redisContext *plain = plain_connect(server);
  weir_operation get = operation_on(WEIR_GET, "weir:{a}:1");
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    weir_message message = {""};
    plain_do(plain, "DEL weir:{a}:1");
    assert_int_equal(execute(store, get, NULL).outcome, WEIR_ABSENT); /* it is in order */
    put_text(plain, "weir:{a}:1", texts[i]);
    weir_operation whole = read_whole(credentials, asked);
    put_text(plain, "weir:{a}:1", "no number");
    assert_int_equal(execute(store, add_to("weir:{a}:1", 1), NULL).outcome, WEIR_REFUSED);
    put_text(plain, "weir:{a}:1", texts[i]);
    long long before = plain_calls(plain, "bitfield");
    weir_operation careful = execute(store, get, &message);
    assert_int_equal(plain_calls(plain, "bitfield"), before + 1);
    if (whole.outcome != careful.outcome ||
        (whole.outcome == WEIR_DONE && whole.value != careful.value))
      fail_msg("\"%s\": %d %lld, %d %lld %s", texts[i], (int)whole.outcome, (long long)whole.value,
               (int)careful.outcome, (long long)careful.value, message.text);
    assert_int_equal(message.text[0] != '\0', careful.outcome == WEIR_REFUSED);
  }
  assert_int_equal(execute(store, add_to("weir:{a}:1", 1), NULL).outcome, WEIR_REFUSED);
  plain_do(plain, "DEL weir:{a}:1");
  for (int i = 0; i < WHILE; i++)
    assert_int_equal(execute(store, get, NULL).outcome, WEIR_ABSENT);
  long long before = plain_calls(plain, "bitfield");
  assert_int_equal(execute(store, get, NULL).outcome, WEIR_ABSENT); /* in order again */
  assert_int_equal(plain_calls(plain, "bitfield"), before);
  redisFree(plain);
  weir_store_close(store);
}

static const char *const limiter[] = {"--user",        "limiter",     "on",      ">s3cret",
                                      "~weir:*",       "&*",          "+@all",   "-@scripting",
                                      "-@transaction", "-@dangerous", "-@admin", NULL};
static const char *const strictest[] = {
    "--user",        "strictest", "reset", "on",    ">s3cret",  "~weir:*",
    "resetchannels", "-@all",     "+get",  "+mget", "+set",     "+incrby",
    "+decrby",       "+pexpire",  "+pttl", "+zadd", "+zincrby", "+zscore",
    "+bitfield",     "+del",      "+time", "+ping", NULL};
static const char *const without[] = {"--user",  "without", "on",        ">s3cret",
                                      "~weir:*", "+@all",   "-bitfield", NULL};

static void careful_reading_comes_to_the_same(void **state) {
  static const struct {
    const char *credentials;
    const char *const *arguments;
  } users[] = {{"", NULL}, {"limiter:s3cret@", limiter}, {"strictest:s3cret@", strictest}};
  (void)state;
  for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
    struct server *server = server_start_redis(SERVER_IPV4, users[i].arguments);
    check_texts(server, server, users[i].credentials);
  }
}

static void careful_reading_passes_the_proxy(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  struct server *proxy = server_start_nutcracker(&server, 1);
  check_texts(server, proxy, "");
}

/* It is told once; from then on all is read whole, as doctor warns. */
static void who_may_not_read_with_care_reads_all(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, without);
  weir_store *store = open_url("without:s3cret@", server, "timeout=5s");
  redisContext *plain = plain_connect(server);
  weir_operation get = operation_on(WEIR_GET, "weir:{a}:1");
  weir_message message = {""};
  put_text(plain, "weir:{a}:1", "no number");
  assert_int_equal(execute(store, add_to("weir:{a}:1", 1), NULL).outcome, WEIR_REFUSED);
  assert_int_equal(execute(store, get, &message).outcome, WEIR_REFUSED);
  assert_non_null(strstr(message.text, "+bitfield"));
  put_text(plain, "weir:{a}:1", "41");
  assert_done(execute(store, get, NULL), 41);
  redisFree(plain);
  weir_store_close(store);
}

/* --- the others --------------------------------------------------------------------------------
 */

/* Counts the commands that send all of a value, as a server executed them. */
static void who_was_told_of_it_never_asks_for_all(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  weir_store *store = open_url("", server, "timeout=5s");
  redisContext *plain = plain_connect(server);
  put_long(plain, "weir:{a}:1");
  assert_int_equal(execute(store, add_to("weir:{a}:1", 1), NULL).outcome, WEIR_REFUSED);
  for (int i = 0; i < 20; i++)
    assert_int_equal(execute(store, operation_on(WEIR_GET, "weir:{a}:1"), NULL).outcome,
                     WEIR_REFUSED);
  assert_int_equal(plain_calls(plain, "get"), 0);
  redisFree(plain);
  weir_store_close(store);
}

/* A quota has three keys, and who writes over one has written over the others. */
static void who_met_one_reads_the_others_with_care(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  weir_store *store = open_url("", server, "timeout=5s");
  redisContext *plain = plain_connect(server);
  put_text(plain, "weir:{a}:1", "no number");
  put_long(plain, "weir:{b}:1");
  put_text(plain, "weir:{c}:1", "41");
  assert_int_equal(execute(store, operation_on(WEIR_GET, "weir:{a}:1"), NULL).outcome,
                   WEIR_REFUSED);
  assert_int_equal(execute(store, operation_on(WEIR_GET, "weir:{b}:1"), NULL).outcome,
                   WEIR_REFUSED);
  assert_done(execute(store, operation_on(WEIR_GET, "weir:{c}:1"), NULL), 41);
  assert_int_equal(plain_calls(plain, "get"), 1);
  redisFree(plain);
  weir_store_close(store);
}

/* The reply is not read to its end: the connection is closed, and only that. */
static void who_was_not_told_asks_once(void **state) {
  (void)state;
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  weir_store *store = open_url("", server, "timeout=5s");
  redisContext *plain = plain_connect(server);
  put_long(plain, "weir:{a}:1");
  for (int i = 0; i < 20; i++)
    assert_int_equal(execute(store, operation_on(WEIR_GET, "weir:{a}:1"), NULL).outcome,
                     WEIR_REFUSED);
  assert_int_equal(plain_calls(plain, "get"), 1);
  assert_done(execute(store, add_to("weir:{b}:1", 1), NULL), 1);
  redisFree(plain);
  weir_store_close(store);
}

typedef struct hot {
  weir_limiter *limiter;
  atomic_bool stopped;
  unsigned long asked;
} hot;

static void *ask_for_hot_key(void *argument) {
  hot *self = argument;
  while (!atomic_load(&self->stopped)) {
    weir_decision decision;
    weir_limiter_take(self->limiter, "hot", 3, 1, &decision, NULL);
    self->asked++;
    poll(NULL, 0, PACE_MS);
  }
  return NULL;
}

/* Asks for other keys until the time is over; how many were not decided by the store. */
static unsigned long ask_for_others(weir_limiter *others, unsigned long *asked) {
  int64_t end_us = weir_monotonic_us() + seconds * 1000000;
  unsigned long failed = 0;
  for (*asked = 0; weir_monotonic_us() < end_us || *asked < DECISIONS_LEAST; ++*asked) {
    char key[16];
    weir_decision decision;
    int length = snprintf(key, sizeof key, "k%lu", *asked % OTHER_KEYS);
    weir_status status = weir_limiter_take(others, key, (size_t)length, 1, &decision, NULL);
    failed += status != WEIR_OK || decision.source == WEIR_SOURCE_FALLBACK;
    poll(NULL, 0, PACE_MS);
  }
  return failed;
}

/* Somebody writes over all that the server holds of the hot key. */
static void spoil(redisContext *plain) {
  redisReply *keys = redisCommand(plain, "KEYS *{hot}*");
  assert_true(keys->elements > 0);
  for (size_t i = 0; i < keys->elements; i++)
    put_long(plain, keys->element[i]->str);
  freeReplyObject(keys);
}

/* GETs that took the server more than 2 ms, which is in its log of the last 128 slow commands. */
static unsigned count_wholes(redisContext *plain) {
  redisReply *slow = redisCommand(plain, "SLOWLOG GET 128");
  unsigned count = 0;
  assert_true(slow != NULL && slow->type == REDIS_REPLY_ARRAY);
  for (size_t i = 0; i < slow->elements; i++)
    count += strcmp(slow->element[i]->element[3]->element[0]->str, "GET") == 0;
  freeReplyObject(slow);
  return count;
}

/* Time is no measure on a busy machine, but how often the server was asked for it all is. */
static void the_other_keys_are_decided_by_the_store(void **state) {
  static const char *const rules[] = {"fixed-window:1000000/1d", "sliding-window:1000000/1d",
                                      "quota:1000000/1d", "sliding-log:1000/1d"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    struct server *server = server_start_redis(SERVER_IPV4, NULL);
    weir_store *store = open_url("", server, "timeout=20ms");
    redisContext *plain = plain_connect(server);
    hot self = {0};
    weir_limiter *others = NULL;
    weir_decision decision;
    pthread_t thread;
    assert_int_equal(weir_limiter_create(store, rules[i], NULL, &self.limiter, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_create(store, "fixed-window:1000000/1h", NULL, &others, NULL),
                     WEIR_OK);
    do
      weir_limiter_take(self.limiter, "hot", 3, 1, &decision, NULL);
    while (decision.source != WEIR_SOURCE_STORE);
    spoil(plain);
    unsigned long asked;
    plain_do(plain, "CONFIG SET slowlog-log-slower-than 2000");
    assert_int_equal(pthread_create(&thread, NULL, ask_for_hot_key, &self), 0);
    unsigned long failed = ask_for_others(others, &asked);
    atomic_store(&self.stopped, true);
    pthread_join(thread, NULL);
    unsigned wholes = count_wholes(plain);
    print_message(
        "%s, %ld MB under its counter, %ld s: %lu of %lu decisions on other keys not by "
        "the store; %lu requests for that key, %u GETs of it all\n",
        rules[i], megabytes, seconds, failed, asked, self.asked, wholes);
    assert_in_range(wholes, 0, WHOLES_MOST);
    weir_limiter_destroy(self.limiter);
    weir_limiter_destroy(others);
    redisFree(plain);
    weir_store_close(store);
    server_kill(server);
  }
}

int main(int count, char **arguments) {
  if (count > 2) {
    megabytes = strtol(arguments[1], NULL, 10);
    seconds = strtol(arguments[2], NULL, 10);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(careful_reading_comes_to_the_same),
      cmocka_unit_test(careful_reading_passes_the_proxy),
      cmocka_unit_test(who_may_not_read_with_care_reads_all),
      cmocka_unit_test(who_was_told_of_it_never_asks_for_all),
      cmocka_unit_test(who_met_one_reads_the_others_with_care),
      cmocka_unit_test(who_was_not_told_asks_once),
      cmocka_unit_test(the_other_keys_are_decided_by_the_store),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
