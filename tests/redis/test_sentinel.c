/* A primary that sentinels name is followed wherever it goes. */
#include <stdio.h>

#include "fixture/sentinel.h"
#include "fixture/server.h"
#include "redis/plain.h"

#define KEY "weir:{k}:1"
#define LONG_US (INT64_C(3600) * 1000000)
enum { TIMEOUT_MS = 50, QUERY_BYTES = 512, FOLLOWED_US = 5000000 };

typedef struct tally {
  long long done, unknown, others;
  weir_message last; /* of what was not done */
} tally;

static sentinel_group group;

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static weir_store *open_store(const char *url) {
  weir_store *store = NULL;
  weir_message message = {""};
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  return store;
}

static weir_outcome add(weir_store *store, tally *sum) {
  weir_operation operation = add_to(KEY, 1);
  weir_message message = {""};
  operation.ttl_us = LONG_US;
  weir_store_exec(store, &operation, 1, deadline_in_ms(TIMEOUT_MS), &message);
  sum->done += operation.outcome == WEIR_DONE;
  sum->unknown += operation.outcome == WEIR_UNKNOWN;
  sum->others += operation.outcome != WEIR_DONE && operation.outcome != WEIR_UNKNOWN;
  if (operation.outcome != WEIR_DONE) sum->last = message;
  return operation.outcome;
}

static void add_many(weir_store *store, tally *sum, int count) {
  for (int i = 0; i < count; i++)
    add(store, sum);
}

/* How long it takes until one is done. */
static int64_t await_done(weir_store *store, tally *sum) {
  int64_t start_us = weir_monotonic_us();
  while (add(store, sum) != WEIR_DONE) {
    if (weir_monotonic_us() > start_us + PATIENCE_MS * INT64_C(1000))
      fail_msg("%s", sum->last.text);
    pause_ms(1);
  }
  return weir_monotonic_us() - start_us;
}

/* Adds until every sentinel names that one, and until it is written to: about a second later, and
 * here five at most, and ten times what this program was held up once. The server that was the
 * primary would still take what it is sent, for another eight seconds or more. */
static void add_until_followed(weir_store *store, tally *sum, size_t wanted) {
  int64_t end_us = weir_monotonic_us() + PATIENCE_MS * INT64_C(1000);
  while (sentinel_primary(&group, 0) != wanted) {
    add(store, sum);
    assert_true(weir_monotonic_us() < end_us);
    pause_ms(1);
  }
  assert_true(sentinel_await_primary(&group, wanted, PATIENCE_MS));
  int64_t named_us = weir_monotonic_us();
  int64_t before_us = named_us;
  int64_t longest_us = 0;
  for (long long first = sentinel_read(&group, wanted, KEY), now = first; now == first;) {
    add(store, sum);
    now = sentinel_read(&group, wanted, KEY);
    int64_t now_us = weir_monotonic_us();
    if (now_us - before_us > longest_us) longest_us = now_us - before_us;
    before_us = now_us;
    if (now_us > end_us) fail_msg("it is not followed: %s", sum->last.text);
    pause_ms(1);
  }
  printf("  followed %.1f ms after all sentinels name it\n", (double)(before_us - named_us) / 1000);
  assert_true(before_us - named_us < FOLLOWED_US + 10 * longest_us);
}

/* Every addition from here on is where the primary is, to the last one. */
static void nothing_is_lost_now(weir_store *store, size_t primary) {
  tally sum = {0};
  long long before = sentinel_read(&group, primary, KEY);
  add_many(store, &sum, 200);
  long long after = sentinel_read(&group, primary, KEY);
  if (sum.done < 1) fail_msg("%s", sum.last.text);
  assert_in_range(after - before, sum.done, sum.done + sum.unknown);
}

/* --- sentinels with a password, over TLS --------------------------------------------------------
 */

static int start_secure(void **state) {
  (void)state;
  sentinel_start(
      &group,
      &(sentinel_options){.down_after_ms = 60000, .secure = true, .sentinel_password = "pr1vate"});
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  sentinel_stop(&group);
  return 0;
}

/* "...&tls-ca=", with that password. */
static void secure_query(const char *password, char query[QUERY_BYTES]) {
  snprintf(query, QUERY_BYTES, "sentinel-tls=on&sentinel-password=%s&tls-ca=%s", password,
           certificate_file(CERTIFICATE_CA));
}

static void expect_fault(const char *url, const char *text) {
  weir_store *store = NULL;
  weir_message message = {""};
  assert_int_equal(weir_store_open(url, &store, &message), WEIR_BAD_URL);
  if (strstr(message.text, text) == NULL) fail_msg("%s: %s", url, message.text);
}

static void expect_away(const char *url, const char *text) {
  tally sum = {0};
  weir_store *store = open_store(url);
  assert_int_equal(add(store, &sum), WEIR_NOT_SENT);
  if (strstr(sum.last.text, "sentinel 127.0.0.1:") == NULL || strstr(sum.last.text, text) == NULL)
    fail_msg("%s", sum.last.text);
  weir_store_close(store);
}

static void what_is_wrong_is_told(void **state) {
  (void)state;
  tally sum = {0};
  char query[QUERY_BYTES];
  char url[2 * SERVER_URL_BYTES];
  secure_query("pr1vate", query);
  snprintf(url, sizeof url, "redis+sentinel://%s/other?%s", group.sentinels[0]->host, query);
  expect_fault(url, "no sentinel knows a primary of the name \"other\"");
  sentinel_url(&group, NULL, query, url);
  weir_store *store = open_store(url);
  await_done(store, &sum);
  weir_store_close(store);
  secure_query("wr0ng", query);
  sentinel_url(&group, NULL, query, url);
  expect_away(url, "does not accept this");
  sentinel_url(&group, NULL, "sentinel-password=pr1vate", url); /* and no TLS */
  expect_away(url, "");
}

/* One of the five that a URL names is well. */
static void any_sentinel_will_do(void **state) {
  (void)state;
  tally sum = {0};
  char query[QUERY_BYTES];
  char url[2 * SERVER_URL_BYTES];
  struct server *garbage = server_start_memcached(SERVER_IPV4, NULL);
  secure_query("pr1vate", query);
  server_kill(group.sentinels[0]);
  server_stop(group.sentinels[1]);
  snprintf(url, sizeof url, "redis+sentinel://%s,%s,%s,%s,%s/" SENTINEL_NAME "?%s",
           group.sentinels[0]->host, garbage->host, group.data[0]->host, group.sentinels[1]->host,
           group.sentinels[2]->host, query);
  weir_store *store = open_store(url);
  await_done(store, &sum);
  nothing_is_lost_now(store, 0);
  weir_store_close(store);
  server_continue(group.sentinels[1]);
  server_kill(garbage);
}

/* As one line: doctor breaks its own by their width. */
static void unfold(char *text) {
  char *to = text;
  for (const char *from = text; *from != '\0'; from++) {
    bool is_space = *from == ' ' || *from == '\n';
    if (!is_space || to == text || to[-1] != ' ') *to++ = is_space ? ' ' : *from;
  }
  *to = '\0';
}

/* The findings of doctor, as people see them; one sentinel is dead. */
static void doctor_names_the_primary(void **state) {
  (void)state;
  char query[QUERY_BYTES];
  char url[2 * SERVER_URL_BYTES];
  char command[3 * SERVER_URL_BYTES];
  char wanted[128];
  char text[16384];
  secure_query("pr1vate", query);
  sentinel_url(&group, NULL, query, url);
  snprintf(command, sizeof command, "'%s' doctor --store '%s' --rule fixed-window:5/1m 2>&1",
           getenv("WEIR_PROGRAM"), url);
  FILE *output = popen(command, "r");
  assert_non_null(output);
  text[fread(text, 1, sizeof text - 1, output)] = '\0';
  pclose(output);
  unfold(text);
  snprintf(wanted, sizeof wanted, "says that shop is 127.0.0.1:%u", server_port(group.data[0]));
  if (strstr(text, "primary shop") == NULL || strstr(text, wanted) == NULL ||
      strstr(text, "Connection refused") == NULL ||
      strstr(text, "2 of 3 sentinels must find the primary silent, for 60000 ms") == NULL)
    fail_msg("%s", text);
}

/* --- one that lies -----------------------------------------------------------------------------
 */

static int start_three(void **state) {
  (void)state;
  sentinel_start(&group, &(sentinel_options){.down_after_ms = 60000});
  return 0;
}

/* A real one, which watches another server under the same name. */
static void make_lie(struct server *sentinel, const struct server *other) {
  char command[128];
  redisContext *plain = plain_connect(sentinel);
  plain_do(plain, "SENTINEL REMOVE " SENTINEL_NAME);
  snprintf(command, sizeof command, "SENTINEL MONITOR " SENTINEL_NAME " 127.0.0.1 %u 2",
           (unsigned)server_port(other));
  plain_do(plain, command);
  redisFree(plain);
}

/* The sentinels of the URL, in the order of the numbers. */
static weir_store *open_in_order(const size_t *numbers, size_t count) {
  char url[SERVER_URL_BYTES] = "redis+sentinel://";
  for (size_t i = 0; i < count; i++) {
    size_t used = strlen(url);
    snprintf(url + used, sizeof url - used, "%s%s", i > 0 ? "," : "",
             group.sentinels[numbers[i]]->host);
  }
  size_t used = strlen(url);
  snprintf(url + used, sizeof url - used, "/" SENTINEL_NAME "?timeout=5s");
  return open_store(url);
}

static void expect_counted(const size_t *numbers, size_t count, struct server *there) {
  tally sum = {0};
  weir_store *store = open_in_order(numbers, count);
  redisContext *plain = plain_connect(there);
  plain_do(plain, "FLUSHALL");
  await_done(store, &sum);
  for (int second = 0; second < 3; second++) { /* it is asked again each second */
    add_many(store, &sum, 10);
    pause_ms(700);
  }
  redisReply *reply = redisCommand(plain, "GET " KEY);
  if (reply->type != REDIS_REPLY_STRING || strtoll(reply->str, NULL, 10) < sum.done)
    fail_msg("%lld were counted elsewhere", sum.done);
  freeReplyObject(reply);
  redisFree(plain);
  weir_store_close(store);
}

/* Until both honest ones name the other. */
static void order_failover_by_an_honest_one(void) {
  int64_t end_us = weir_monotonic_us() + PATIENCE_MS * INT64_C(1000);
  redisContext *plain = plain_connect(group.sentinels[1]);
  for (bool taken = false; !taken; pause_ms(50)) {
    redisReply *reply = redisCommand(plain, "SENTINEL FAILOVER " SENTINEL_NAME);
    taken = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    assert_true(weir_monotonic_us() < end_us);
  }
  while (sentinel_primary(&group, 1) != 1 || sentinel_primary(&group, 2) != 1) {
    assert_true(weir_monotonic_us() < end_us);
    pause_ms(20);
  }
  redisFree(plain);
}

static void one_that_lies_is_outvoted(void **state) {
  static const size_t liar_first[] = {0, 1, 2}, two[] = {0, 1}, alone[] = {0};
  (void)state;
  struct server *other = server_start_redis(SERVER_IPV4, NULL);
  make_lie(group.sentinels[0], other);
  expect_counted(liar_first, 3, group.data[0]);
  /* Nothing settles it: none has a newer configuration. Whoever asks it alone must believe it. */
  expect_counted(alone, 1, other);
  weir_store *store = open_in_order(two, 2);
  tally sum = {0};
  await_done(store, &sum);
  weir_store_close(store);
  /* One does not answer, and the two others disagree: the newer configuration is the true one. */
  order_failover_by_an_honest_one();
  server_stop(group.sentinels[2]);
  expect_counted(liar_first, 3, group.data[1]);
  server_continue(group.sentinels[2]);
  server_kill(other);
}

/* --- fail-overs --------------------------------------------------------------------------------
 */

static int start_plain(void **state) {
  (void)state;
  sentinel_start(&group, &(sentinel_options){.data_password = "s3cret"});
  return 0;
}

/* It is killed, and back at its old address, empty, and a primary for all that it knows: until
 * sentinels tell it otherwise. Nobody may count there. */
static void a_new_primary_is_followed(void **state) {
  (void)state;
  tally sum = {0};
  char url[SERVER_URL_BYTES];
  sentinel_url(&group, ":s3cret", NULL, url);
  weir_store *store = open_store(url);
  await_done(store, &sum);
  add_many(store, &sum, 200);
  sentinel_await_replica(&group, 0);
  long long kept = sum.done;
  server_kill(group.data[0]);
  add_until_followed(store, &sum, 1);
  assert_in_range(sentinel_read(&group, 1, KEY), kept, sum.done + sum.unknown);
  server_restart(group.data[0]);
  nothing_is_lost_now(store, 1);
  sentinel_await_replica(&group, 1);
  nothing_is_lost_now(store, 1);
  weir_store_close(store);
}

/* And back to the first. The server that was the primary takes what it is sent for some seconds
 * more. */
static void an_ordered_failover_is_followed(void **state) {
  (void)state;
  tally sum = {0};
  char url[SERVER_URL_BYTES];
  sentinel_await_replica(&group, 1);
  long long kept = sentinel_read(&group, 1, KEY);
  sentinel_url(&group, ":s3cret", NULL, url);
  weir_store *store = open_store(url);
  await_done(store, &sum);
  sentinel_order_failover(&group);
  add_until_followed(store, &sum, 0);
  assert_in_range(sentinel_read(&group, 0, KEY), kept, kept + sum.done + sum.unknown);
  nothing_is_lost_now(store, 0);
  weir_store_close(store);
}

/* --- servers of different ages -----------------------------------------------------------------
 */

static int start_mixed(void **state) {
  static const char *const with_module[] = {"--loadmodule", WEIR_INCREX_MODULE, NULL};
  (void)state;
  sentinel_start(&group, &(sentinel_options){.only_first = with_module});
  return 0;
}

static long long calls(size_t which, const char *command) {
  redisContext *plain = plain_connect(group.data[which]);
  long long count = plain_calls(plain, command);
  redisFree(plain);
  return count;
}

/* Adds until sums go by INCREX. */
static void add_until_in_one(weir_store *store, tally *sum) {
  int64_t end_us = weir_monotonic_us() + PATIENCE_MS * INT64_C(1000);
  for (long long before = calls(0, "increx"); calls(0, "increx") < before + 10; pause_ms(2)) {
    add(store, sum);
    if (weir_monotonic_us() > end_us) fail_msg("INCREX is not used: %s", sum->last.text);
  }
}

static void assert_mortal(size_t which) {
  redisContext *plain = plain_connect(group.data[which]);
  assert_true(plain_do(plain, "PTTL " KEY) > 0);
  redisFree(plain);
}

/* The replica does not know INCREX, by which its primary counted; then the first is back. */
static void an_older_server_takes_over(void **state) {
  (void)state;
  tally sum = {0};
  char url[SERVER_URL_BYTES];
  sentinel_url(&group, NULL, NULL, url);
  weir_store *store = open_store(url);
  await_done(store, &sum);
  add_until_in_one(store, &sum);
  sentinel_await_replica(&group, 0);
  long long kept = sum.done;
  server_kill(group.data[0]);
  add_until_followed(store, &sum, 1);
  assert_in_range(sentinel_read(&group, 1, KEY), kept, sum.done + sum.unknown);
  long long before = calls(1, "incrby");
  nothing_is_lost_now(store, 1);
  assert_true(calls(1, "incrby") >= before + 200);
  assert_mortal(1);
  server_restart(group.data[0]);
  sentinel_await_replica(&group, 1);
  sentinel_order_failover(&group);
  add_until_followed(store, &sum, 0);
  add_until_in_one(store, &sum);
  nothing_is_lost_now(store, 0);
  assert_mortal(0);
  weir_store_close(store);
}

static void urls_are_read_with_care(void **state) {
  (void)state;
  static const char *const urls[][2] = {
      {"redis+sentinel://s1", "path"},
      {"redis+sentinel://s1/", "is not the name under which sentinels know the primary"},
      {"redis+sentinel://s1/a%20b", "is not the name under which sentinels know the primary"},
      {"redis+sentinel:///shop", "host"},
      {"redis+sentinel://s1:26379:2/shop", "takes no weight"},
      {"redis+sentinel://s1/shop?sentinel-user=u", "sentinel-user without sentinel-password"},
      {"redis+sentinel://s1/shop?sentinel-tls=perhaps", "sentinel-tls"},
      {"redis+sentinel://s1/shop?tls-ca=/x", "tls-ca is an option of"},
      {"redis+sentinel://s1/shop?db=x", "db"},
      {"redis://s1?sentinel-user=u", "sentinel-user is an option of redis+sentinel://"},
      {"rediss+sentinel://s1/shop?tls-ca=/none", "tls-ca=/none"},
  };
  for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
    expect_fault(urls[i][0], urls[i][1]);
}

/* With an argument: the fail-overs, of which each takes sentinels some ten seconds. */
int main(int count, char **arguments) {
  (void)arguments;
  const struct CMUnitTest secure[] = {
      cmocka_unit_test(urls_are_read_with_care),
      cmocka_unit_test(what_is_wrong_is_told),
      cmocka_unit_test(any_sentinel_will_do),
      cmocka_unit_test(doctor_names_the_primary),
  };
  const struct CMUnitTest lies[] = {
      cmocka_unit_test(one_that_lies_is_outvoted),
  };
  const struct CMUnitTest plain[] = {
      cmocka_unit_test(a_new_primary_is_followed),
      cmocka_unit_test(an_ordered_failover_is_followed),
  };
  const struct CMUnitTest mixed[] = {
      cmocka_unit_test(an_older_server_takes_over),
  };
  if (count > 1)
    return cmocka_run_group_tests(plain, start_plain, tear_down) +
           cmocka_run_group_tests(mixed, start_mixed, tear_down);
  int failed = cmocka_run_group_tests(secure, start_secure, tear_down);
  return failed + cmocka_run_group_tests(lies, start_three, tear_down);
}
