/* A flood of keys that come once each: whatever is left of it on a server goes by itself, as every
 * key has a TTL that fits its rule. */
#include "attack/stores.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fixture/servers.h"

enum { KEYS = 300 };

static const char *const all_rules[] = {
    "fixed-window:1/1m,count=all",
    "sliding-window:1/1m",
    "sliding-window:1/1m,cells=16,strict",
    "sliding-log:1/1m",
    "quota:1/1m",
    "token-bucket:1/1m",
    "leaky-bucket:1/1m,queue=1",
    "sliding-window:1/1m;quota:1/1m;token-bucket:1/1m;sliding-log:1/1m"};
enum { RULES = sizeof all_rules / sizeof all_rules[0] };

/* The leaky bucket's: its two minutes and the longest wait of one, and as much again while an epoch
 * hands over to the next, with four margins x in all; where the store raises a third more, so that
 * not every charge has to renew it. Servers round up. */
enum {
  LONGEST_S = 2 * (120 + 60) + 4 * 31 + 2,
  LONGEST_RAISED_S = LONGEST_S * 4 / 3,
  ROUNDED_S = 5
};

static void use(weir_limiter *limiter, unsigned number) {
  char key[32];
  weir_decision decision = {0};
  weir_reservation *reservation = NULL;
  int length = snprintf(key, sizeof key, "10.%u %u", number, number % 7);
  weir_request request = {.key = key, .key_length = (size_t)length, .cost = 1};
  for (int i = 0; i < 2; i++)
    assert_int_equal(weir_limiter_take(limiter, key, (size_t)length, 1, &decision, NULL), WEIR_OK);
  if (number % 3 == 0)
    assert_int_equal(weir_limiter_reset(limiter, key, (size_t)length, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_reserve(limiter, &request, &reservation, NULL), WEIR_OK);
  if (reservation != NULL) assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
  weir_reservation_destroy(reservation);
}

static void flood(const char *url) {
  weir_limiter_options options = attack_options(NULL);
  weir_store *store = attack_open(url);
  for (size_t i = 0; i < RULES; i++) {
    weir_limiter *limiter = attack_limiter(store, all_rules[i], &options);
    for (unsigned key = 0; key < KEYS; key++)
      use(limiter, key);
    weir_limiter_destroy(limiter);
  }
  weir_store_close(store);
}

static void check_result(const char *store, long count, long longest_s, long most_s) {
  print_message("%s: %ld keys, the last for %ld s\n", store, count, longest_s);
  assert_true(count > RULES * KEYS / 2);
  assert_in_range(longest_s, 1, most_s + ROUNDED_S);
}

/* --- redis ---------------------------------------------------------------------------------- */

static void look_at_page(redisContext *redis, const redisReply *keys, long *count,
                         long *longest_s) {
  for (size_t i = 0; i < keys->elements; i++)
    redisAppendCommand(redis, "PTTL %b", keys->element[i]->str, keys->element[i]->len);
  for (size_t i = 0; i < keys->elements; i++) {
    redisReply *ttl = NULL;
    assert_int_equal(redisGetReply(redis, (void **)&ttl), REDIS_OK);
    if (ttl->integer == -1) fail_msg("%s has no TTL", keys->element[i]->str);
    if (ttl->integer / 1000 > *longest_s) *longest_s = (long)ttl->integer / 1000;
    *count += 1;
    freeReplyObject(ttl);
  }
}

static void every_key_in_redis_is_mortal(void **state) {
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  char url[SERVER_URL_BYTES], cursor[24] = "0";
  long count = 0, longest_s = 0;
  (void)state;
  server_url(&server, 1, NULL, url);
  flood(url);
  redisContext *redis = redisConnectFd(server_connect(server));
  assert_non_null(redis);
  do {
    redisReply *page = redisCommand(redis, "SCAN %s COUNT 1000", cursor);
    assert_true(page != NULL && page->elements == 2);
    snprintf(cursor, sizeof cursor, "%s", page->element[0]->str);
    look_at_page(redis, page->element[1], &count, &longest_s);
    freeReplyObject(page);
  } while (strcmp(cursor, "0") != 0);
  redisFree(redis);
  check_result("redis", count, longest_s, LONGEST_RAISED_S);
}

/* --- memcached ------------------------------------------------------------------------------ */

/* "key=... exp=1700000000 la=... cas=... fetch=no cls=1 size=71", exp=-1 for never; at last "END".
 */
static void look_at_dump(FILE *dump, long *count, long *longest_s) {
  char line[1024];
  time_t now = time(NULL);
  while (fgets(line, sizeof line, dump) != NULL && strcmp(line, "END\r\n") != 0) {
    if (strcmp(line, "OK\r\n") == 0) continue; /* 1.6.43 and newer begin with it */
    const char *expiry = strstr(line, " exp=");
    if (expiry == NULL) fail_msg("not a line of a dump: %s", line);
    long long until = strtoll(expiry + strlen(" exp="), NULL, 10);
    if (until <= 0) fail_msg("has no TTL: %s", line);
    if (until - now > *longest_s) *longest_s = (long)(until - now);
    *count += 1;
  }
}

static void every_key_in_memcached_is_mortal(void **state) {
  static const char *const protocols[] = {"protocol=meta", "protocol=classic"};
  static const char request[] = "lru_crawler metadump all\r\n";
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct server *server = server_start_memcached(SERVER_IPV4, NULL);
    char url[SERVER_URL_BYTES];
    long count = 0, longest_s = 0;
    server_url(&server, 1, protocols[i], url);
    flood(url);
    int fd = server_connect(server);
    assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
    FILE *dump = fdopen(fd, "r");
    assert_non_null(dump);
    look_at_dump(dump, &count, &longest_s);
    fclose(dump);
    check_result(protocols[i], count, longest_s, LONGEST_S);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_key_in_redis_is_mortal),
      cmocka_unit_test(every_key_in_memcached_is_mortal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
