/* Commands and round trips per decision on a real memcached, as a proxy in between sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/proxy.h"
#include "limiter/world.h"

enum { URL_BYTES = 128 };

/* With a server of its own. */
typedef struct scene {
  world w;
  struct server *server;
  proxy between;
  bool meta;
  int commands; /* at the last look */
  int round_trips;
} scene;

static void look(scene *s) {
  s->commands = s->between.commands;
  s->round_trips = s->between.round_trips;
}

/* Prints what was needed since the last look, and fails the test where it was more than allowed. */
static void report(scene *s, const char *what, int commands_most, int round_trips_most) {
  int commands = s->between.commands - s->commands;
  int round_trips = s->between.round_trips - s->round_trips;
  print_message("%-8s %-58s %d commands, %d round trips\n", s->meta ? "meta" : "classic", what,
                commands, round_trips);
  assert_in_range(commands, 1, commands_most);
  assert_in_range(round_trips, 1, round_trips_most);
  look(s);
}

/* A deadline that a busy machine keeps, and still shorter than the cells of all rules here.
 * The first decision makes the connection and greets; it is not counted. */
static void open_scene(scene *s, const char *rules, const char *protocol) {
  char url[URL_BYTES];
  weir_limiter_options options = {.deadline_us = 10 * SECOND_US, .clock_error_us = 1000};
  s->meta = strcmp(protocol, "meta") == 0;
  s->server = server_start_memcached(SERVER_IPV4, NULL);
  proxy_start(&s->between, s->server, PROXY_OPEN);
  snprintf(url, sizeof url, "memcached://127.0.0.1:%u?timeout=30s&protocol=%s",
           (unsigned)address_port(&s->between.address), protocol);
  world_open(&s->w, url, rules, &options);
  world_peek(&s->w, "somebody else", 1);
  look(s);
}

static void close_scene(scene *s) {
  world_close(&s->w);
  proxy_stop(&s->between);
  server_kill(s->server);
}

/* classic cannot create and add in one command, so the first addition to a counter is three of
 * them. */
static void count_on(const char *rules, const char *protocol) {
  scene s;
  char what[96];
  open_scene(&s, rules, protocol);
  bool cells = strncmp(rules, "fixed", 5) != 0;
  world_set(&s.w, 30 * SECOND_US);
  world_take(&s.w, "k", 1);
  snprintf(what, sizeof what, "%s: first decision on a key", rules);
  report(&s, what, s.meta ? 1 + cells : 2 + 2 * cells, s.meta ? 1 : 2);
  world_take(&s.w, "k", 1);
  snprintf(what, sizeof what, "%s: finished cells known", rules);
  report(&s, what, 1, 1);
  world_take(&s.w, "k", 4);
  look(&s);
  assert_false(world_take(&s.w, "k", 5).allowed);
  snprintf(what, sizeof what, "%s: denied by its own increment", rules);
  report(&s, what, 2, 2);
  world_set(&s.w, 30 * SECOND_US + 60000);
  assert_false(world_take(&s.w, "k", 5).allowed);
  snprintf(what, sizeof what, "%s: denied after a look", rules);
  report(&s, what, 1, 1);
  close_scene(&s);
}

static void up_to_four_cells_need_at_most_two_commands(void **state) {
  static const char *const rules[] = {"fixed-window:9/1m", "sliding-window:9/1m,cells=1",
                                      "sliding-window:9/1m,cells=2", "sliding-window:9/1m"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    count_on(rules[i], "meta");
    count_on(rules[i], "classic");
  }
}

static void many_cells_still_need_one_round_trip(void **state) {
  scene s;
  (void)state;
  open_scene(&s, "sliding-window:9/1h,cells=64", "meta");
  world_set(&s.w, 30 * SECOND_US);
  world_take(&s.w, "k", 1);
  report(&s, "sliding-window:9/1h,cells=64: first decision on a key", 18, 1);
  close_scene(&s);
}

static void a_batch_of_64_keys_needs_one_round_trip(void **state) {
  scene s;
  static char keys[64][16];
  static weir_request requests[64];
  (void)state;
  open_scene(&s, "sliding-window:9/1m", "meta");
  for (size_t i = 0; i < 64; i++) {
    snprintf(keys[i], sizeof keys[i], "%zu", i);
    requests[i] = (weir_request){.key = keys[i], .key_length = strlen(keys[i]), .cost = 1};
  }
  world_set(&s.w, 30 * SECOND_US);
  assert_int_equal(weir_limiter_decide(s.w.limiter, requests, 64, NULL), WEIR_OK);
  report(&s, "64 keys in a batch: first decisions", 128, 1);
  assert_int_equal(weir_limiter_decide(s.w.limiter, requests, 64, NULL), WEIR_OK);
  report(&s, "64 keys in a batch: finished cells known", 64, 1);
  close_scene(&s);
}

/* One command to enter, one to leave; and one payment a key and period, whatever is held of it. */
static void a_place_needs_two_commands(void **state) {
  enum { PLACES = 100 };
  weir_limiter_options by_caller = {.deadline_us = SECOND_US, .renew = WEIR_RENEW_BY_CALLER};
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  static weir_reservation *held[PLACES];
  int64_t next_us;
  scene s;
  (void)state;
  open_scene(&s, "fixed-window:1/1m", "meta");
  weir_limiter *limiter = world_limiter(&s.w, "in-flight:100/1m", &by_caller);
  for (int i = 0; i < PLACES; i++)
    assert_int_equal(weir_limiter_reserve(limiter, &request, &held[i], NULL), WEIR_OK);
  report(&s, "100 places entered", PLACES, PLACES);
  world_set(&s.w, 55 * SECOND_US);
  assert_int_equal(weir_limiter_renew(limiter, &next_us, NULL), WEIR_OK);
  report(&s, "100 places paid for again", 1, 1);
  world_set(&s.w, 60 * SECOND_US);
  for (int i = 0; i < PLACES; i++) {
    assert_true(weir_reservation_held(held[i]));
    assert_int_equal(weir_reservation_commit(held[i], NULL), WEIR_OK);
    weir_reservation_destroy(held[i]);
  }
  report(&s, "100 places left", PLACES, PLACES);
  weir_limiter_destroy(limiter);
  close_scene(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(up_to_four_cells_need_at_most_two_commands),
      cmocka_unit_test(many_cells_still_need_one_round_trip),
      cmocka_unit_test(a_place_needs_two_commands),
      cmocka_unit_test(a_batch_of_64_keys_needs_one_round_trip),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
