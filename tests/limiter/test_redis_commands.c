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
  static const char *const all[] = {"zadd",   "zscore", "pexpire", "set",  "get",    "del",
                                    "incrby", "decrby", "pttl",    "mget", "increx", "bitfield"};
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

/* --- the table of docs/stores.md ----------------------------------------------------------------
 */

/* One request of a limiter of its own, and what stands before it. */
typedef struct asking {
  scene *s;
  const char *rules, *key;
  weir_limiter *limiter;
  weir_decision taken;
} asking;

static void take_of(asking *self, int64_t cost, bool admitted) {
  self->taken = limiter_take(self->limiter, self->key, cost);
  assert_int_equal(self->taken.allowed, admitted);
}

static void nothing(asking *self) {
  (void)self;
}

static void take_one(asking *self) {
  take_of(self, 1, true);
}

static void take_90(asking *self) {
  take_of(self, 90, true);
}

/* The first asks for the TTL, the 63 behind it do not. */
static void take_64_times(asking *self) {
  for (int i = 0; i < 64; i++)
    take_one(self);
}

static void take_and_lose(asking *self) {
  take_90(self);
  plain_do(self->s->plain, "FLUSHALL");
}

/* So that its own charge finds out, and no look before. */
static void others_take_90(asking *self) {
  weir_limiter *other = world_limiter(&self->s->w, self->rules, NULL);
  take_one(self);
  assert_true(limiter_take(other, self->key, 90).allowed);
  weir_limiter_destroy(other);
}

static void be_denied(asking *self) {
  take_of(self, 20, false);
}

static void take_90_and_be_denied(asking *self) {
  take_90(self);
  be_denied(self);
}

static void give_back(asking *self) {
  assert_int_equal(
      weir_limiter_refund(self->limiter, self->key, strlen(self->key), 90, &self->taken, NULL),
      WEIR_OK);
}

static void settle_of(asking *self, int64_t real, int64_t charged) {
  assert_int_equal(
      weir_limiter_settle(self->limiter, self->key, strlen(self->key), real, &self->taken, NULL),
      WEIR_OK);
  assert_int_equal(self->taken.cost, charged);
}

static void settle_down(asking *self) {
  settle_of(self, 40, 40);
}

static void settle_up(asking *self) {
  settle_of(self, 95, 95);
}

static void settle_and_be_cut(asking *self) {
  settle_of(self, 120, 99);
}

static void enter_and_leave(asking *self) {
  weir_request request = {.key = self->key, .key_length = strlen(self->key), .cost = 1};
  weir_reservation *held;
  assert_int_equal(weir_limiter_reserve(self->limiter, &request, &held, NULL), WEIR_OK);
  assert_non_null(held);
  assert_int_equal(weir_reservation_commit(held, NULL), WEIR_OK);
  weir_reservation_destroy(held);
}

#define WINDOW "fixed-window:99/1m"
#define SLIDING "sliding-window:99/1m"
#define QUOTA "quota:99/1m"
#define BOTH WINDOW ";fixed-window:999/1h"
#define BUCKET "token-bucket:99/1m"
#define LEAKY "leaky-bucket:99/1m,queue=98"

/* Commands, and round trips, on a server without INCREX and on one with it; of each rule alike. */
static const struct row {
  const char *what, *rules[3];
  void (*before)(asking *self), (*act)(asking *self);
  const char *needed[2];
} rows[] = {
    {"charge, key known", {WINDOW, SLIDING, QUOTA}, take_one, take_one, {"2, 1", "1, 1"}},
    {"charge, each 64th of a key",
     {WINDOW, SLIDING, QUOTA},
     take_64_times,
     take_one,
     {"3, 1", "1, 1"}},
    {"charge, a new key", {WINDOW}, nothing, take_one, {"3, 1", "1, 1"}},
    {"charge of a known key that was lost", {WINDOW}, take_and_lose, take_one, {"3, 2", "1, 1"}},
    {"denied by its own charge", {WINDOW, SLIDING, QUOTA}, take_90, be_denied, {"5, 2", "1, 1"}},
    {"the next request of that key, admitted",
     {WINDOW, SLIDING, QUOTA},
     take_90_and_be_denied,
     take_one,
     {"3, 2", "1, 1"}},
    {"given back, window", {WINDOW, SLIDING}, take_90, give_back, {"4, 2", "2, 2"}},
    {"given back, quota", {QUOTA}, take_90, give_back, {"6, 3", "4, 3"}},
    {"settled downward", {WINDOW, SLIDING, QUOTA}, take_90, settle_down, {"3, 1", "1, 1"}},
    {"settled upward, window", {WINDOW, SLIDING}, take_90, settle_up, {"2, 1", "1, 1"}},
    {"settled upward, quota", {QUOTA}, take_90, settle_up, {"2, 1", "2, 1"}},
    {"settled upward and cut, window",
     {WINDOW, SLIDING},
     take_90,
     settle_and_be_cut,
     {"5, 2", "2, 2"}},
    {"settled upward and cut, quota", {QUOTA}, take_90, settle_and_be_cut, {"5, 2", "3, 2"}},
    {"a place entered and left",
     {"in-flight:99/2m"},
     enter_and_leave,
     enter_and_leave,
     {"6, 2", "2, 2"}},
    {"two windows, charge", {BOTH}, take_one, take_one, {"4, 1", "2, 1"}},
    {"two windows, denied by one's charge", {BOTH}, take_90, be_denied, {"11, 2", "5, 2"}},
    {"token bucket, admitted", {BUCKET}, take_one, take_one, {"2, 1", "2, 1"}},
    {"token bucket, denied by its own charge",
     {BUCKET},
     others_take_90,
     be_denied,
     {"3, 2", "3, 2"}},
    {"leaky bucket, admitted", {LEAKY}, take_one, take_one, {"3, 2", "3, 2"}},
    {"leaky bucket, denied", {LEAKY}, take_90, be_denied, {"1, 1", "1, 1"}},
    {"token bucket, given back", {BUCKET}, take_90, give_back, {"2, 2", "2, 2"}},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void measure(scene *s, const struct row *row, const char *rules, char needed[32]) {
  char key[16];
  const weir_limiter_options options = {.deadline_us = 10 * SECOND_US,
                                        .renew = WEIR_RENEW_BY_CALLER};
  asking self = {
      .s = s, .rules = rules, .key = key, .limiter = world_limiter(&s->w, rules, &options)};
  snprintf(key, sizeof key, "row %zu", (size_t)(row - rows));
  row->before(&self);
  long long sent = commands(s);
  long long reads = plain_number(s->plain, "stats", "total_reads_processed:");
  row->act(&self);
  /* A write of a store is read at once, and so is the second question. */
  reads = plain_number(s->plain, "stats", "total_reads_processed:") - reads - 1;
  snprintf(needed, 32, "%lld, %lld", commands(s) - sent, reads);
  weir_limiter_destroy(self.limiter);
}

/* Until it was asked for INCREX, and the connection for that is gone. */
static void await_question(scene *s, bool has) {
  enum { TRIES = 10000, OWN = 2 };
  for (int i = 0; i < TRIES; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    world_take(&s->w, "w", 1);
    bool asked = has ? plain_calls(s->plain, "increx") > 1
                     : plain_number(s->plain, "stats", "total_error_replies:") > 0;
    if (asked && plain_number(s->plain, "clients", "connected_clients:") == OWN) return;
  }
  fail_msg("nobody asks for INCREX");
}

static void assert_on_page(const char *line) {
  static char page[1 << 17];
  if (page[0] == '\0') {
    FILE *file = fopen(WEIR_STORES_PAGE, "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
  }
  if (strstr(page, line) == NULL) fail_msg("%s lacks: %s", WEIR_STORES_PAGE, line);
}

/* What a real server counts, without INCREX and with it; the page says the same. */
static void what_each_request_needs(void **state) {
  static const char *const with_module[] = {"--loadmodule", WEIR_INCREX_MODULE, NULL};
  static scene scenes[2];
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    open_scene_with(&scenes[i], i > 0 ? with_module : NULL, "fixed-window:1000000/1m");
    world_set(&scenes[i].w, 31 * SECOND_US);
    await_question(&scenes[i], i > 0);
  }
  for (const struct row *row = rows; row < rows + ROWS; row++) {
    char line[128], needed[2][32];
    for (size_t n = 0; n < 3 && row->rules[n] != NULL; n++) {
      for (size_t i = 0; i < 2; i++) {
        measure(&scenes[i], row, row->rules[n], needed[i]);
        if (strcmp(needed[i], row->needed[i]) != 0)
          fail_msg("%s, %s, %s INCREX: %s, not %s", row->what, row->rules[n],
                   i > 0 ? "with" : "without", needed[i], row->needed[i]);
      }
    }
    snprintf(line, sizeof line, "| %s | %s | %s |\n", row->what, needed[0], needed[1]);
    print_message("%s", line);
    assert_on_page(line);
  }
  for (size_t i = 0; i < 2; i++)
    close_scene(&scenes[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_each_request_needs),
      cmocka_unit_test(a_busy_token_bucket_needs_two_commands),
      cmocka_unit_test(a_bucket_that_is_gone_begins_again_in_one_decision),
      cmocka_unit_test(a_place_needs_five_commands),
      cmocka_unit_test(a_full_key_is_looked_at_and_seldom_charged),
      cmocka_unit_test(a_key_seldom_asked_for_is_renewed_every_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
