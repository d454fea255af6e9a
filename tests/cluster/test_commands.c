/* A cluster is asked no more than one server is: the same requests are the same commands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "fixture/clock.h"
#include "fixture/cluster.h"

enum { KEYS = 20, TURNS = 30 };

static const char *const rules[] = {
    "fixed-window:20/1h",
    "sliding-window:20/1h",
    "sliding-window:20/1h,strict",
    "quota:20/1h",
    "sliding-log:9/1h",
    "token-bucket:20/1h,burst=15",
    "leaky-bucket:20/1h,queue=15",
};

static const char *const commands[] = {"set",     "incrby", "decrby",  "get",    "pttl",
                                       "pexpire", "zadd",   "zincrby", "zscore", "del"};
enum { RULES = sizeof rules / sizeof rules[0], COMMANDS = sizeof commands / sizeof commands[0] };

static cluster several;
static cluster one; /* of a server that is none */

static int start(void **state) {
  (void)state;
  cluster_start(&several, &(cluster_options){.replicas = 0}, false);
  one = (cluster){.masters = 1, .count = 1, .nodes = {server_start_redis(SERVER_IPV4, NULL)}};
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  cluster_stop(&several);
  server_kill(one.nodes[0]);
  return 0;
}

/* In time that passes as the requests come, on both alike. */
static void ask_all(const cluster *nodes, const char *rule, long long *admitted) {
  char url[SERVER_URL_BYTES];
  weir_store *store = NULL;
  weir_limiter *limiter = NULL;
  weir_message message = {""};
  hand_clock clock = {.now_us = INT64_C(1700000000) * 1000000};
  const weir_limiter_options options = {.size = sizeof options,
                                        .clock = hand_clock_as_clock(&clock),
                                        .deadline_us = 60000000,
                                        .fallback = WEIR_FALLBACK_NONE};
  cluster_url(nodes, "timeout=60s", url);
  if (weir_store_open(url, &store, &message) != WEIR_OK) fail_msg("%s: %s", url, message.text);
  if (weir_limiter_create(store, rule, &options, &limiter, &message) != WEIR_OK)
    fail_msg("%s: %s", rule, message.text);
  for (int i = 0; i < KEYS * TURNS; i++, clock.now_us += 200000) {
    char key[32];
    weir_decision decision;
    snprintf(key, sizeof key, "key%d", i % KEYS);
    if (weir_limiter_take(limiter, key, strlen(key), 1, &decision, &message) != WEIR_OK)
      fail_msg("%s: %s", rule, message.text);
    *admitted += decision.allowed;
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void count_commands(const cluster *nodes, long long counts[COMMANDS]) {
  for (size_t i = 0; i < COMMANDS; i++) {
    counts[i] = 0;
    for (size_t node = 0; node < nodes->count; node++)
      counts[i] += cluster_calls(nodes, node, commands[i]);
  }
}

static void a_cluster_takes_no_more_commands(void **state) {
  (void)state;
  for (size_t rule = 0; rule < RULES; rule++) {
    long long before[2][COMMANDS];
    long long after[2][COMMANDS];
    long long admitted[2] = {0, 0};
    long long sum = 0;
    for (size_t which = 0; which < 2; which++) {
      const cluster *nodes = which == 0 ? &one : &several;
      count_commands(nodes, before[which]);
      ask_all(nodes, rules[rule], &admitted[which]);
      count_commands(nodes, after[which]);
    }
    assert_int_equal(admitted[1], admitted[0]);
    for (size_t i = 0; i < COMMANDS; i++) {
      long long alone = after[0][i] - before[0][i];
      long long shared = after[1][i] - before[1][i];
      if (shared != alone)
        fail_msg("%s: %lld %s on one server, %lld on a cluster", rules[rule], alone, commands[i],
                 shared);
      sum += alone;
    }
    assert_in_range(sum, admitted[0], LLONG_MAX);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_cluster_takes_no_more_commands)};
  return cmocka_run_group_tests(tests, start, tear_down);
}
