/* Commands per decision on a real Redis, as the server itself counts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "limiter/world.h"
#include "redis/plain.h"

/* With a server of its own. */
typedef struct scene {
  world w;
  struct server *server;
  redisContext *plain;
} scene;

/* The first decision makes the connection and greets; the clock keeps the pace of nothing, and the
 * test is over long before it matters. */
static void open_scene_with(scene *s, const char *const *arguments, const char *rules) {
  char url[SERVER_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 10 * SECOND_US, .clock_error_us = 1000};
  s->server = server_start_redis(SERVER_IPV4, arguments);
  s->plain = plain_connect(s->server);
  server_url(&s->server, 1, "timeout=30s", url);
  world_open(&s->w, url, rules, &options);
  world_peek(&s->w, "somebody else", 1);
}

static void open_scene(scene *s, const char *rules) {
  open_scene_with(s, NULL, rules);
}

static void close_scene(scene *s) {
  world_close(&s->w);
  redisFree(s->plain);
  server_kill(s->server);
}

static long long commands(const scene *s) {
  static const char *const all[] = {"zadd",   "zscore", "pexpire", "set",  "get",   "del",
                                    "incrby", "decrby", "pttl",    "mget", "increx"};
  long long sum = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    sum += plain_calls(s->plain, all[i]);
  return sum;
}

/* A bucket that is asked for all the time has its TTL renewed when a quarter of it may be over:
 * else a decision is two commands. */
static void a_busy_token_bucket_needs_two_commands(void **state) {
  enum { DECISIONS = 2000, STEP_US = 100000 };
  scene s;
  (void)state;
  open_scene(&s, "token-bucket:1000/1m");
  world_take(&s.w, "k", 1);
  long long before = commands(&s);
  for (int i = 1; i <= DECISIONS; i++) {
    world_set(&s.w, i * (int64_t)STEP_US);
    assert_true(world_take(&s.w, "k", 1).allowed);
  }
  long long needed = commands(&s) - before;
  print_message("%d decisions: %lld commands\n", DECISIONS, needed);
  assert_in_range(needed, 2 * DECISIONS, 2 * DECISIONS + DECISIONS / 100);
  close_scene(&s);
}

/* A bucket that was lost, or reset by another, costs one write more. */
static void a_bucket_that_is_gone_begins_again_in_one_decision(void **state) {
  scene s;
  (void)state;
  open_scene(&s, "token-bucket:1000/1m");
  world_take(&s.w, "k", 5);
  plain_do(s.plain, "FLUSHALL");
  long long before = commands(&s);
  weir_decision decision = world_take(&s.w, "k", 1);
  assert_true(decision.allowed);
  assert_int_equal(decision.remaining, 999);
  assert_int_equal(commands(&s) - before, 2 + 3);
  size_t count;
  assert_int_equal(plain_count_immortal(s.plain, &count), 0);
  assert_int_equal(count, 1);
  close_scene(&s);
}

/* Whoever uses a key for the first time looks, and renews. */
static void a_key_seldom_asked_for_is_renewed_every_time(void **state) {
  enum { KEYS = 50 };
  scene s;
  (void)state;
  open_scene(&s, "token-bucket:10/1s");
  for (int round = 0; round < 2; round++) {
    world_set(&s.w, round * 200 * SECOND_US);
    long long before = commands(&s);
    for (int i = 0; i < KEYS; i++) {
      char key[16];
      snprintf(key, sizeof key, "%d", i);
      world_take(&s.w, key, 1);
    }
    assert_int_equal(commands(&s) - before, KEYS * (1 + 3));
  }
  close_scene(&s);
}

/* Entering and leaving; and one payment a key and period, whatever is held of it. */
static void a_place_needs_five_commands(void **state) {
  enum { PLACES = 200, HELD = 20 };
  weir_limiter_options by_caller = {.deadline_us = SECOND_US, .renew = WEIR_RENEW_BY_CALLER};
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  weir_reservation *held[HELD];
  int64_t next_us;
  scene s;
  (void)state;
  open_scene(&s, "fixed-window:1/1m");
  weir_limiter *limiter = world_limiter(&s.w, "in-flight:100/1m", &by_caller);
  assert_int_equal(weir_limiter_reserve(limiter, &request, &held[0], NULL), WEIR_OK);
  long long before = commands(&s);
  for (int i = 0; i < PLACES; i++) {
    assert_int_equal(weir_limiter_reserve(limiter, &request, &held[1], NULL), WEIR_OK);
    assert_int_equal(weir_reservation_commit(held[1], NULL), WEIR_OK);
    weir_reservation_destroy(held[1]);
  }
  double needed = (double)(commands(&s) - before) / PLACES;
  print_message("%.2f commands for each of %d places\n", needed, PLACES);
  assert_true(needed <= 5.7);
  for (int i = 1; i < HELD; i++)
    assert_int_equal(weir_limiter_reserve(limiter, &request, &held[i], NULL), WEIR_OK);
  before = commands(&s);
  for (int period = 1; period <= 3; period++) {
    world_set(&s.w, (period * 60 - 5) * SECOND_US);
    assert_int_equal(weir_limiter_renew(limiter, &next_us, NULL), WEIR_OK);
  }
  print_message("%lld commands for 3 periods of %d places\n", commands(&s) - before, HELD);
  assert_in_range(commands(&s) - before, 3 * 2, 3 * 3); /* the first of an epoch asks for its TTL */
  for (int i = 0; i < HELD; i++) {
    assert_true(weir_reservation_held(held[i]));
    assert_int_equal(weir_reservation_commit(held[i], NULL), WEIR_OK);
    weir_reservation_destroy(held[i]);
  }
  weir_limiter_destroy(limiter);
  close_scene(&s);
}

/* A key that is full answers from memory, or by one GET; and is charged once in 50 ms at most. */
static void a_full_key_is_looked_at_and_seldom_charged(void **state) {
  enum { DENIALS = 1000, EVERY_US = 1000, ADDITIONS_MOST = 20 };
  static const unsigned flags[] = {0, WEIR_NO_LOCAL_DENIAL};
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  (void)state;
  for (size_t n = 0; n < sizeof flags / sizeof *flags; n++) {
    weir_limiter_options options = {
        .deadline_us = SECOND_US, .renew = WEIR_RENEW_BY_CALLER, .flags = flags[n]};
    weir_reservation *held, *none;
    scene s;
    open_scene(&s, "fixed-window:1/1m");
    weir_limiter *full = world_limiter(&s.w, "in-flight:1/1m", &options);
    weir_limiter *other = world_limiter(&s.w, "in-flight:1/1m", &options);
    assert_int_equal(weir_limiter_reserve(full, &request, &held, NULL), WEIR_OK);
    long long gets = plain_calls(s.plain, "get");
    long long additions = plain_calls(s.plain, "incrby");
    for (int i = 0; i < DENIALS; i++) {
      world_set(&s.w, SECOND_US + i * EVERY_US);
      assert_int_equal(weir_limiter_reserve(other, &request, &none, NULL), WEIR_OK);
      assert_null(none);
    }
    gets = plain_calls(s.plain, "get") - gets;
    additions = plain_calls(s.plain, "incrby") - additions;
    print_message("%d denials in 1 s: %lld additions, %lld times GET\n", DENIALS, additions, gets);
    assert_in_range(additions, 1, ADDITIONS_MOST);
    assert_in_range(gets, 1, flags[n] == 0 ? ADDITIONS_MOST : DENIALS);
    assert_int_equal(weir_reservation_commit(held, NULL), WEIR_OK);
    weir_reservation_destroy(held);
    weir_limiter_destroy(other);
    weir_limiter_destroy(full);
    close_scene(&s);
  }
}

/* Where the server has INCREX a charge is one command, a denial by it too, and nothing of it is written. */
static void what_a_charge_needs_and_a_denial(void **state) {
  static const char *const with_module[] = {"--loadmodule", WEIR_INCREX_MODULE, NULL};
  static const struct row {
    const char *rules;
    int charge[2], denial[2]; /* on a plain server, and with INCREX */
  } rows[] = {{"fixed-window:99/1m", {2, 1}, {5, 1}},
              {"sliding-window:99/1m", {2, 1}, {5, 1}},
              {"quota:99/1m", {2, 1}, {5, 1}},
              {"fixed-window:99/1m;fixed-window:999/1h", {4, 2}, {11, 5}}};
  enum { ROWS = sizeof rows / sizeof rows[0], WARM = 100 };
  (void)state;
  for (int bounded = 0; bounded < 2; bounded++) {
    for (size_t i = 0; i < ROWS; i++) {
      scene s;
      open_scene_with(&s, bounded ? with_module : NULL, rows[i].rules);
      world_set(&s.w, 31 * SECOND_US);
      for (int n = 0; n < WARM; n++) {
        world_take(&s.w, "w", 1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
      }
      world_take(&s.w, "k", 1);
      world_take(&s.w, "k", 90);
      long long before = commands(&s);
      assert_true(world_take(&s.w, "k", 3).allowed);
      long long charge = commands(&s) - before;
      before = commands(&s);
      assert_false(world_take(&s.w, "k", 9).allowed);
      long long denial = commands(&s) - before;
      print_message("%-52s %s: %lld commands for a charge, %lld for a denial\n", rows[i].rules,
                    bounded ? "INCREX" : "plain", charge, denial);
      assert_int_equal(charge, rows[i].charge[bounded]);
      assert_int_equal(denial, rows[i].denial[bounded]);
      assert_int_equal(world_peek(&s.w, "k", 1).remaining, 5);
      close_scene(&s);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_charge_needs_and_a_denial),
      cmocka_unit_test(a_busy_token_bucket_needs_two_commands),
      cmocka_unit_test(a_bucket_that_is_gone_begins_again_in_one_decision),
      cmocka_unit_test(a_place_needs_five_commands),
      cmocka_unit_test(a_full_key_is_looked_at_and_seldom_charged),
      cmocka_unit_test(a_key_seldom_asked_for_is_renewed_every_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
