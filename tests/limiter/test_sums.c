/* What requests cost a Redis that has INCREX beside the same without it, and what they write:
 *
 *   test_limiter_sums [ROUNDS]
 *
 * Both are asked the same in turns, by one thread and as often, so that a busy machine makes both slow
 * alike. CPU time is that which a server has used itself. It is for people to read; what is written is
 * asserted. Other servers than that of Debian: PATH=FOLDER:$PATH, with a redis-server in FOLDER. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "limiter/world.h"
#include "redis/plain.h"

enum { ASKED = 2000, KEYS = 100, BATCH_MOST = 16, ROUNDS_MOST = 1000 };

static size_t rounds = 1;

/* `batch` requests leave together. Each key is asked for 20 times a period; a quota writes three times to open
 * one. */
static const struct row {
  const char *name, *rules;
  size_t batch;
  double written_most; /* with INCREX, for one that is admitted */
} rows[] = {
    {"fixed window", "fixed-window:1000000/1m", 1, 1},
    {"the same, 16 together", "fixed-window:1000000/1m", 16, 1},
    {"sliding window", "sliding-window:1000000/1m", 1, 1},
    {"quota", "quota:1000000/1m", 1, 1.2},
    {"fixed window, ten times the limit", "fixed-window:2/1m", 1, 1.05},
    {"sliding window, ten times the limit", "sliding-window:2/1m", 1, 1.05},
    {"token bucket, which has no INCREX", "token-bucket:1000000/1m", 1, 3},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

typedef struct scene {
  world w;
  struct server *server;
  redisContext *plain;
} scene;

/* What some requests needed. */
typedef struct cost {
  double cpu_s, commands, written, admitted;
} cost;

static double seconds(redisContext *plain, const char *label) {
  redisReply *reply = redisCommand(plain, "INFO cpu");
  assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
  const char *found = strstr(reply->str, label);
  assert_non_null(found);
  double value = strtod(found + strlen(label), NULL);
  freeReplyObject(reply);
  return value;
}

/* The questions of this program are commands too, five of them a time. */
static cost read_cost(const scene *s) {
  return (cost){
      .cpu_s = seconds(s->plain, "used_cpu_user:") + seconds(s->plain, "used_cpu_sys:"),
      .commands = (double)plain_number(s->plain, "stats", "total_commands_processed:"),
      .written = (double)plain_number(s->plain, "persistence", "rdb_changes_since_last_save:")};
}

/* By keys of its own: a limit is not in the name of a counter. */
static double ask(weir_limiter *limiter, const struct row *row) {
  static char keys[KEYS][32];
  size_t batch = row->batch;
  weir_request requests[BATCH_MOST];
  double admitted = 0;
  for (size_t n = 0; n < ASKED; n += batch) {
    for (size_t i = 0; i < batch; i++) {
      size_t key = (n + i) % KEYS;
      snprintf(keys[key], sizeof keys[key], "%td.%zu", row - rows, key);
      requests[i] = (weir_request){.key = keys[key], .key_length = strlen(keys[key]), .cost = 1};
    }
    assert_int_equal(weir_limiter_decide(limiter, requests, batch, NULL), WEIR_OK);
    for (size_t i = 0; i < batch; i++)
      admitted += requests[i].decision.allowed;
  }
  return admitted;
}

static cost measure(const scene *s, weir_limiter *limiter, const struct row *row) {
  cost before = read_cost(s);
  double admitted = ask(limiter, row);
  cost after = read_cost(s);
  return (cost){.cpu_s = after.cpu_s - before.cpu_s,
                .commands = after.commands - before.commands - 4,
                .written = after.written - before.written,
                .admitted = admitted};
}

static void open_scene(scene *s, const char *const *arguments, const char *rules) {
  char url[SERVER_URL_BYTES];
  s->server = server_start_redis(SERVER_IPV4, arguments);
  s->plain = plain_connect(s->server);
  server_url(&s->server, 1, "timeout=30s", url);
  world_open(&s->w, url, rules, NULL);
}

/* Until it was asked for INCREX, and has answered. */
static void await_question(scene *s, bool has) {
  for (int i = 0; i < 10000; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    world_take(&s->w, "w", 1);
    if (has ? plain_calls(s->plain, "increx") > 1
            : plain_number(s->plain, "stats", "total_error_replies:") > 0)
      return;
  }
  fail_msg("nobody asks for INCREX");
}

static int compare(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static void run_row(scene scenes[2], const struct row *row) {
  static double ratios[ROUNDS_MOST];
  const weir_limiter_options options = {.deadline_us = 10 * SECOND_US,
                                        .flags = WEIR_NO_LOCAL_DENIAL};
  weir_limiter *limiters[2];
  cost sums[2] = {{0}};
  for (size_t i = 0; i < 2; i++)
    limiters[i] = world_limiter(&scenes[i].w, row->rules, &options);
  for (size_t n = 0; n < rounds; n++) {
    cost costs[2];
    for (size_t turn = 0; turn < 2; turn++) {
      size_t i = (n + turn) % 2;
      world_set(&scenes[i].w, (int64_t)(2 * n + 1) * 60 * SECOND_US);
      costs[i] = measure(&scenes[i], limiters[i], row);
      sums[i].cpu_s += costs[i].cpu_s;
      sums[i].commands += costs[i].commands;
      sums[i].written += costs[i].written;
      sums[i].admitted += costs[i].admitted;
    }
    assert_true(costs[0].admitted == costs[1].admitted);
    ratios[n] = costs[1].cpu_s / costs[0].cpu_s;
  }
  qsort(ratios, rounds, sizeof ratios[0], compare);
  double asked = (double)(rounds * ASKED);
  printf("| %s | %.3f | %.2f, %.2f | %.2f, %.2f | %.2f, %.2f s | %.2f (%.2f to %.2f) |\n",
         row->name, sums[0].admitted / asked, sums[0].commands / asked, sums[1].commands / asked,
         sums[0].written / sums[0].admitted, sums[1].written / sums[1].admitted,
         sums[0].cpu_s / asked * 1e5, sums[1].cpu_s / asked * 1e5, ratios[rounds / 2],
         ratios[rounds / 4], ratios[rounds - 1 - rounds / 4]);
  assert_true(sums[1].written <= sums[1].admitted * row->written_most);
  for (size_t i = 0; i < 2; i++)
    weir_limiter_destroy(limiters[i]);
}

static void what_requests_cost_the_server(void **state) {
  static const char *const with_module[] = {"--loadmodule", WEIR_INCREX_MODULE, NULL};
  static scene scenes[2];
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    open_scene(&scenes[i], i > 0 ? with_module : NULL, "fixed-window:1000000/1m");
    await_question(&scenes[i], i > 0);
  }
  puts(
      "| with and without `INCREX` | admitted | commands a request | written for one admitted | "
      "CPU time of 100,000 | ratio, middle half |\n|---|---|---|---|---|---|");
  for (size_t i = 0; i < ROWS; i++)
    run_row(scenes, &rows[i]);
  for (size_t i = 0; i < 2; i++) {
    world_close(&scenes[i].w);
    redisFree(scenes[i].plain);
    server_kill(scenes[i].server);
  }
}

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_requests_cost_the_server)};
  if (count > 1) rounds = strtoul(arguments[1], NULL, 10);
  if (rounds < 1 || rounds > ROUNDS_MOST) return 2;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
