/* A client that was denied hammers on: the store hears next to nothing of it. */
#include "attack/stores.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture/process.h"
#include "fixture/proxy.h"
#include "fixture/servers.h"

enum { BLOWS = 100000, SPELLS = 20, DENIAL_US = 50000, PER_SPELL = 8, USES = 20 };

static void take(weir_limiter *limiter, bool allowed) {
  weir_decision decision = {0};
  weir_message message = {""};
  if (weir_limiter_take(limiter, "mallory", 7, 1, &decision, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  assert_int_equal(decision.allowed, allowed);
}

/* Redis is asked once in which form it takes sums, when a connection has been used for a while, and by a
 * thread of its own. */
static void ask_for_form(weir_limiter *limiter, int threads) {
  for (int i = 0; i < USES; i++) {
    weir_decision decision;
    char key[32];
    size_t length = (size_t)snprintf(key, sizeof key, "other-%d", i);
    assert_int_equal(weir_limiter_take(limiter, key, length, 1, &decision, NULL), WEIR_OK);
  }
  process_await_threads(threads);
}

/* Admitted 5 times, then denied: the commands from the first denial on. Time stands still between
 * spells of 50 ms, after which a denial may be asked about again. */
static int hammer(const char *url, const char *rules, int (*count)(void *context), void *context) {
  hand_clock clock = {.now_us = START_US};
  weir_limiter_options options = attack_options(&clock);
  int threads = process_threads();
  weir_store *store = attack_open(url);
  weir_limiter *limiter = attack_limiter(store, rules, &options);
  ask_for_form(limiter, threads);
  for (int i = 0; i < 5; i++)
    take(limiter, true);
  take(limiter, false);
  int before = count(context);
  for (int i = 0; i < BLOWS; i++)
    take(limiter, false);
  assert_int_equal(count(context), before);
  for (int spell = 0; spell < SPELLS; spell++) {
    clock.now_us += DENIAL_US;
    for (int i = 0; i < BLOWS / SPELLS; i++)
      take(limiter, false);
  }
  int heard = count(context) - before;
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return heard;
}

static const char *const all_rules[] = {"fixed-window:5/1h",
                                        "sliding-window:5/1h",
                                        "sliding-log:5/1h",
                                        "quota:5/1h",
                                        "token-bucket:5/1h",
                                        "leaky-bucket:5/1h,queue=4",
                                        "fixed-window:5/1h;quota:5/1d"};
enum { RULES = sizeof all_rules / sizeof all_rules[0] };

/* At most one peek a spell. */
static void check_result(const char *store, const char *rules, int heard) {
  print_message("%s, %s: %d commands for %d requests\n", store, rules, heard, 2 * BLOWS);
  assert_in_range(heard, 1, SPELLS * PER_SPELL);
}

static int passed_on(void *context) {
  return ((proxy *)context)->commands;
}

static void memcached_hears_nothing_of_it(void **state) {
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    proxy between;
    char url[96];
    proxy_start(&between, server, PROXY_OPEN);
    snprintf(url, sizeof url, "memcached://127.0.0.1:%u?protocol=meta&namespace=n%zu",
             (unsigned)address_port(&between.address), i);
    check_result("memcached", all_rules[i], hammer(url, all_rules[i], passed_on, &between));
    proxy_stop(&between);
  }
}

/* The server's own count, less the question for it. */
static int executed(void *context) {
  redisReply *reply = redisCommand(context, "INFO stats");
  assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
  const char *found = strstr(reply->str, "total_commands_processed:");
  assert_non_null(found);
  static int asked;
  int count = (int)strtol(strchr(found, ':') + 1, NULL, 10) - asked++;
  freeReplyObject(reply);
  return count;
}

static void redis_hears_nothing_of_it(void **state) {
  struct server *server = server_start_redis(SERVER_IPV4, NULL);
  redisContext *redis = redisConnectFd(server_connect(server));
  char url[SERVER_URL_BYTES];
  (void)state;
  assert_non_null(redis);
  for (size_t i = 0; i < RULES; i++) {
    char own[SERVER_URL_BYTES + 16];
    server_url(&server, 1, NULL, url);
    snprintf(own, sizeof own, "%s?namespace=n%zu", url, i);
    check_result("redis", all_rules[i], hammer(own, all_rules[i], executed, redis));
  }
  redisFree(redis);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memcached_hears_nothing_of_it),
      cmocka_unit_test(redis_hears_nothing_of_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
