/* Places that could not go back when they were left, or when a lease that kept them empty was over: the store was
 * away, or refused. They go back with a later try, and none goes back twice. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/backend.h>

#include "fixture/proxy.h"
#include "limiter/away.h"

#define PERIOD_US (60 * SECOND_US)
#define RULE "in-flight:4/1m"
#define LEASED RULE ",lease=1s"

static weir_reservation *enter(weir_limiter *limiter, const char *key) {
  weir_request request = {.key = key, .key_length = strlen(key), .cost = 1};
  weir_reservation *made;
  weir_message message = {""};
  if (weir_limiter_reserve(limiter, &request, &made, &message) != WEIR_OK)
    fail_msg("%s: %s", key, message.text);
  assert_non_null(made);
  return made;
}

static void leave(weir_reservation *place) {
  assert_int_equal(weir_reservation_commit(place, NULL), WEIR_OK);
  weir_reservation_destroy(place);
}

static weir_status give_back(weir_limiter *limiter) {
  return weir_limiter_return_leases(limiter, NULL);
}

/* --- on a store in this process ----------------------------------------------------------------
 */

enum { PATIENCE_US = 500000 }; /* of a busy machine: what is away says so at once */

static void open_leased(world *w, const char *rules) {
  away_open_with(w, rules,
                 &(weir_limiter_options){.peers = 2,
                                         .fallback = WEIR_FALLBACK_LOCAL,
                                         .renew = WEIR_RENEW_BY_CALLER,
                                         .deadline_us = PATIENCE_US});
}

/* With so many empty places. */
static void open_with_spares(world *w, int spares) {
  weir_reservation *places[4];
  open_leased(w, LEASED);
  for (int i = 0; i < spares; i++)
    places[i] = enter(w->limiter, "k");
  for (int i = 0; i < spares; i++)
    leave(places[i]);
  assert_int_equal(away_remaining(w, RULE, "k"), 4 - spares);
  fake_forget();
}

static int given_back(void) {
  return the_fake.counts.of_kind[WEIR_SUB];
}

static void what_is_not_sent_goes_back_with_the_next_try(void **state) {
  int64_t next_us;
  (void)state;
  for (int by_renewing = 0; by_renewing < 2; by_renewing++) {
    world w;
    open_with_spares(&w, 3);
    the_fake.trouble = FAKE_AWAY;
    for (int i = 0; i < 3; i++)
      assert_int_equal(give_back(w.limiter), WEIR_UNAVAILABLE);
    assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_UNAVAILABLE);
    assert_in_range(next_us, 1, 100000);
    the_fake.trouble = FAKE_WELL;
    assert_int_equal(away_remaining(&w, RULE, "k"), 1);
    fake_forget();
    if (by_renewing)
      assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
    else
      assert_int_equal(give_back(w.limiter), WEIR_OK);
    assert_int_equal(given_back(), 3);
    assert_int_equal(away_remaining(&w, RULE, "k"), 4);
    assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
    assert_true(next_us == WEIR_NEVER);
    assert_int_equal(given_back(), 3);
    world_close(&w);
  }
}

/* The others go back beside it. */
static void what_is_refused_goes_back_with_the_next_try(void **state) {
  world w;
  (void)state;
  open_with_spares(&w, 3);
  fake_fail_next(WEIR_SUB, WEIR_REFUSED, false);
  assert_int_equal(give_back(w.limiter), WEIR_REFUSED_BY_STORE);
  assert_int_equal(away_remaining(&w, RULE, "k"), 3);
  assert_int_equal(give_back(w.limiter), WEIR_OK);
  assert_int_equal(away_remaining(&w, RULE, "k"), 4);
  world_close(&w);
}

/* Whether or not it arrived: with the count of another's place, so that one too many would show. */
static void what_is_not_answered_is_never_sent_again(void **state) {
  (void)state;
  for (int arrives = 0; arrives < 2; arrives++) {
    world w;
    open_with_spares(&w, 1);
    weir_limiter *other =
        world_limiter(&w, RULE, &(weir_limiter_options){.renew = WEIR_RENEW_BY_CALLER});
    weir_reservation *place = enter(other, "k");
    fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, arrives);
    assert_int_equal(give_back(w.limiter), WEIR_UNKNOWN_OUTCOME);
    for (int i = 0; i < 3; i++)
      assert_int_equal(give_back(w.limiter), WEIR_OK);
    assert_int_equal(given_back(), 1);
    assert_int_equal(away_remaining(&w, RULE, "k"), arrives ? 3 : 2);
    leave(place);
    weir_limiter_destroy(other);
    world_close(&w);
  }
}

/* What stands in two periods, and comes off the first alone, is not sent again. */
static void what_went_back_in_part_is_never_sent_again(void **state) {
  world w;
  (void)state;
  open_leased(&w, LEASED);
  world_set(&w, PERIOD_US - SECOND_US); /* who enters now pays for both */
  leave(enter(w.limiter, "k"));
  fake_forget();
  fake_fail_next(WEIR_SUB, WEIR_NOT_SENT, false);
  assert_int_equal(give_back(w.limiter), WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(give_back(w.limiter), WEIR_OK);
  assert_int_equal(given_back(), 2);
  world_close(&w);
}

/* It has ended with its period; and what was tried is no place for a next caller. */
static void what_is_over_is_forgotten(void **state) {
  world w;
  int64_t next_us;
  (void)state;
  open_with_spares(&w, 2);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(give_back(w.limiter), WEIR_UNAVAILABLE);
  world_set(&w, PERIOD_US);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_true(next_us == WEIR_NEVER);
  world_close(&w);

  open_with_spares(&w, 2);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(give_back(w.limiter), WEIR_UNAVAILABLE); /* and goes with its limiter */
  world_close(&w);
}

/* Half of all is its share, which it holds: it may have none more, however often it tried to give back what
 * it does not hold. */
static void many_tries_leave_the_share_as_it_is(void **state) {
  world w;
  weir_reservation *made;
  weir_request half = {.key = "k", .key_length = 1, .cost = 20};
  weir_request more = {.key = "k", .key_length = 1, .cost = 1};
  (void)state;
  open_leased(&w, "in-flight:40/1m,lease=1s");
  assert_int_equal(weir_limiter_reserve(w.limiter, &half, &made, NULL), WEIR_OK);
  leave(enter(w.limiter, "k"));
  the_fake.trouble = FAKE_AWAY;
  for (int i = 0; i < 20; i++)
    assert_int_equal(give_back(w.limiter), WEIR_UNAVAILABLE);
  weir_reservation *none;
  assert_int_equal(weir_limiter_reserve(w.limiter, &more, &none, NULL), WEIR_OK);
  assert_int_equal(more.decision.source, WEIR_SOURCE_FALLBACK);
  assert_null(none);
  the_fake.trouble = FAKE_WELL;
  leave(made);
  world_close(&w);
}

/* However it was left; what a stack's other rule was charged is not given back later. */
static void what_is_left_meanwhile_goes_back_later(void **state) {
  (void)state;
  for (int way = 0; way < 4; way++) {
    world w;
    weir_reservation *places[2];
    weir_status statuses[2];
    int64_t costs[2] = {0, 0}, next_us;
    open_leased(&w, RULE ";fixed-window:100/1m");
    for (int i = 0; i < 2; i++)
      places[i] = enter(w.limiter, "k");
    the_fake.trouble = FAKE_AWAY;
    if (way == 0)
      assert_int_equal(weir_release_together(places, 2, statuses, NULL), WEIR_UNAVAILABLE);
    for (int i = 0; i < 2; i++) {
      if (way == 1) assert_int_equal(weir_reservation_commit(places[i], NULL), WEIR_UNAVAILABLE);
      if (way == 2) assert_int_equal(weir_reservation_cancel(places[i], NULL), WEIR_UNAVAILABLE);
      if (way == 3)
        assert_int_equal(weir_reservation_settle(places[i], costs, NULL), WEIR_UNAVAILABLE);
      assert_false(weir_reservation_held(places[i]));
      assert_int_equal(weir_reservation_commit(places[i], NULL), WEIR_BAD_ARGUMENT);
      weir_reservation_destroy(places[i]);
    }
    assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_UNAVAILABLE);
    the_fake.trouble = FAKE_WELL;
    assert_int_equal(away_remaining(&w, RULE, "k"), 2);
    fake_forget();
    assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
    assert_int_equal(given_back(), 2);
    assert_true(next_us == WEIR_NEVER);
    assert_int_equal(away_remaining(&w, RULE, "k"), 4);
    assert_int_equal(away_remaining(&w, "fixed-window:100/1m", "k"), 98);
    world_close(&w);
  }
}

/* Its work cost more than it had reserved under the other rule: that is owed, and its place is left. */
static void the_place_of_what_is_owed_goes_back_later(void **state) {
  world w;
  int64_t costs[2] = {0, 3}, next_us;
  (void)state;
  open_leased(&w, RULE ";fixed-window:100/1m");
  weir_reservation *place = enter(w.limiter, "k");
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(weir_reservation_settle(place, costs, NULL), WEIR_OK);
  weir_reservation_destroy(place);
  the_fake.trouble = FAKE_WELL;
  assert_int_equal(away_remaining(&w, RULE, "k"), 3);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_int_equal(away_remaining(&w, RULE, "k"), 4);
  world_close(&w);
}

static void *commit(void *place) {
  weir_reservation_commit(place, NULL);
  return NULL;
}

/* It stood behind another of its key until its time was over: nothing was sent, and this process still counts it. Once
 * it has gone back nothing is missing. */
static void what_waited_for_others_is_not_missed(void **state) {
  world w;
  pthread_t thread;
  int64_t next_us;
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  (void)state;
  open_leased(&w, RULE);
  weir_reservation *first = enter(w.limiter, "k"), *second = enter(w.limiter, "k");
  fake_forget();
  fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, true);
  the_fake.delay_us = 2 * PATIENCE_US;
  assert_int_equal(pthread_create(&thread, NULL, commit, first), 0);
  while (the_fake.counts.round_trips == 0)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  assert_int_equal(weir_reservation_commit(second, NULL), WEIR_TIMEOUT);
  pthread_join(thread, NULL);
  the_fake.delay_us = 0;
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_int_equal(given_back(), 2);
  leave(enter(w.limiter, "k"));
  weir_limiter_read_counts(w.limiter, &counts);
  assert_int_equal(counts.keys_lost, 0);
  weir_reservation_destroy(first);
  weir_reservation_destroy(second);
  world_close(&w);
}

static void what_is_left_and_not_answered_is_never_sent_again(void **state) {
  world w;
  int64_t next_us;
  (void)state;
  open_leased(&w, RULE);
  weir_reservation *place = enter(w.limiter, "k");
  fake_forget();
  fake_fail_next(WEIR_SUB, WEIR_UNKNOWN, true);
  assert_int_equal(weir_reservation_commit(place, NULL), WEIR_UNKNOWN_OUTCOME);
  weir_reservation_destroy(place);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_true(next_us == WEIR_NEVER);
  assert_int_equal(give_back(w.limiter), WEIR_OK);
  assert_int_equal(given_back(), 1);
  world_close(&w);
}

/* The store knows nothing of what the policy gave, and others find no room for it as long as that may be held. */
static void what_is_left_stands_for_what_the_policy_gave(void **state) {
  world w;
  weir_reservation *given, *held;
  int64_t next_us;
  (void)state;
  open_leased(&w, RULE);
  held = enter(w.limiter, "k");
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(weir_reservation_commit(held, NULL), WEIR_UNAVAILABLE);
  weir_reservation_destroy(held);
  given = enter(w.limiter, "k");
  the_fake.trouble = FAKE_WELL;
  fake_forget();
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_in_range(next_us, 1, 100000);
  assert_int_equal(give_back(w.limiter), WEIR_OK);
  assert_int_equal(given_back(), 0);
  assert_int_equal(away_remaining(&w, RULE, "k"), 3);
  leave(given);
  world_set(&w, PERIOD_US);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  assert_true(next_us == WEIR_NEVER);
  world_close(&w);
}

/* --- on real servers ---------------------------------------------------------------------------
 */

enum { KEYS = 200, DEADLINE_US = 1000000 };

typedef struct away_kind {
  const char *name, *query;
  bool is_redis;
} away_kind;

static const away_kind kinds[] = {{"memcached, meta", "protocol=meta", false},
                                  {"memcached, classic", "protocol=classic", false},
                                  {"redis", NULL, true}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef struct scene {
  struct server *server;
  proxy between;
  world w;             /* has an empty place of each key */
  weir_store *direct;  /* beside the proxy: */
  weir_limiter *other; /* holds a place of each key, ... */
  weir_limiter *looks; /* ... and another knows nothing */
  weir_reservation *held[KEYS];
} scene;

static const char *key_of(int n) {
  static char key[16];
  snprintf(key, sizeof key, "k%d", n);
  return key;
}

static weir_limiter *open_at(scene *s, weir_store *store, const char *rules,
                             const weir_limiter_options *options) {
  weir_limiter_options whole = *options;
  weir_limiter *made;
  whole.size = sizeof whole;
  whole.clock = hand_clock_as_clock(&s->w.clock);
  whole.fallback = WEIR_FALLBACK_NONE;
  assert_int_equal(weir_limiter_create(store, rules, &whole, &made, NULL), WEIR_OK);
  return made;
}

static void open_scene(scene *s, const away_kind *kind, const char *rules, weir_renew_by renew) {
  char url[SERVER_URL_BYTES], through[64];
  const weir_limiter_options own = {.deadline_us = DEADLINE_US, .renew = renew};
  const weir_limiter_options patient = {.deadline_us = 7 * SECOND_US,
                                        .renew = WEIR_RENEW_BY_CALLER};
  print_message("%s, %s\n", kind->name, rules);
  s->server = kind->is_redis ? server_start_redis(SERVER_IPV4, NULL)
                             : server_start_memcached(SERVER_IPV4, NULL);
  proxy_start(&s->between, s->server, PROXY_OPEN);
  snprintf(through, sizeof through, "%s://127.0.0.1:%d?timeout=500ms%s%s",
           kind->is_redis ? "redis" : "memcached", proxy_port(&s->between),
           kind->query != NULL ? "&" : "", kind->query != NULL ? kind->query : "");
  server_url(&s->server, 1, kind->query, url);
  world_set(&s->w, 0);
  assert_int_equal(weir_store_open(through, &s->w.store, NULL), WEIR_OK);
  assert_int_equal(weir_store_open(url, &s->direct, NULL), WEIR_OK);
  s->other = open_at(s, s->direct, RULE, &patient);
  s->looks = open_at(s, s->direct, RULE, &patient);
  s->w.limiter = open_at(s, s->w.store, rules, &own);
  for (int n = 0; n < KEYS; n++) {
    s->held[n] = enter(s->other, key_of(n));
    leave(enter(s->w.limiter, key_of(n)));
  }
}

static void close_scene(scene *s) {
  for (int n = 0; n < KEYS; n++)
    leave(s->held[n]);
  weir_limiter_destroy(s->other);
  weir_limiter_destroy(s->looks);
  weir_store_close(s->direct);
  world_close(&s->w);
  proxy_stop(&s->between);
  server_kill(s->server);
}

/* How many keys have so many places left. */
static int keys_with(scene *s, int64_t remaining) {
  int found = 0;
  for (int n = 0; n < KEYS; n++)
    found += limiter_peek(s->looks, key_of(n), 1).remaining == remaining;
  return found;
}

static void rest(void) {
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

/* All but what was sent and not answered, of which nobody knows: a server that goes on may take a moment until it
 * has carried out what waits for it. Where one went back twice, the other's would count no more. */
static void expect_all_back(scene *s) {
  int64_t end_us = weir_monotonic_us() + 3 * SECOND_US;
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  while (keys_with(s, 2) > 0 && weir_monotonic_us() < end_us)
    rest();
  weir_limiter_read_counts(s->w.limiter, &counts);
  int unknown = (int)counts.statuses[WEIR_UNKNOWN_OUTCOME];
  int lost = keys_with(s, 2), twice = keys_with(s, 4);
  print_message("  %d of %d are not back, of %d nothing is known\n", lost, KEYS, unknown);
  assert_int_equal(keys_with(s, 3) + lost, KEYS);
  assert_int_equal(twice, 0);
  assert_true(lost <= unknown && unknown < KEYS);
}

static bool is_open(const weir_store *store) {
  weir_server_state state = {.size = sizeof state};
  assert_int_equal(weir_store_read_server(store, 0, &state), WEIR_OK);
  return state.breaker == WEIR_BREAKER_OPEN;
}

/* At first what is sent gets no answer; from then on nothing is sent any more. */
static void try_in_vain(scene *s) {
  int64_t end_us = weir_monotonic_us() + 30 * SECOND_US;
  weir_decision decision;
  assert_int_not_equal(give_back(s->w.limiter), WEIR_OK);
  while (!is_open(s->w.store) && weir_monotonic_us() < end_us)
    weir_limiter_peek(s->w.limiter, "another", 7, 1, &decision, NULL);
  for (int i = 0; i < 3; i++)
    assert_int_not_equal(give_back(s->w.limiter), WEIR_OK);
}

static void try_until_it_is_done(scene *s) {
  int64_t end_us = weir_monotonic_us() + 60 * SECOND_US;
  while (give_back(s->w.limiter) != WEIR_OK) {
    assert_true(weir_monotonic_us() < end_us);
    rest();
  }
}

/* It carries out what it was sent, once it goes on. */
static void all_go_back_to_a_server_that_was_stopped(void **state) {
  static scene s;
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    open_scene(&s, &kinds[kind], LEASED, WEIR_RENEW_BY_CALLER);
    assert_int_equal(keys_with(&s, 2), KEYS);
    server_stop(s.server);
    try_in_vain(&s);
    server_continue(s.server);
    try_until_it_is_done(&s);
    expect_all_back(&s);
    close_scene(&s);
  }
}

/* It has carried out all that it was sent, and no answer came back. */
static void none_goes_back_twice_where_answers_are_lost(void **state) {
  static scene s;
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    open_scene(&s, &kinds[kind], LEASED, WEIR_RENEW_BY_CALLER);
    proxy_set(&s.between, PROXY_DROPS_REPLIES);
    try_in_vain(&s);
    proxy_set(&s.between, PROXY_OPEN);
    try_until_it_is_done(&s);
    expect_all_back(&s);
    close_scene(&s);
  }
}

/* By the limiter's own thread, from where nobody answers any more until somebody does. */
static void the_thread_gives_back_what_it_could_not(void **state) {
  static scene s;
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    open_scene(&s, &kinds[kind], LEASED, WEIR_RENEW_BY_THREAD);
    proxy_set(&s.between, PROXY_FULL);
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    assert_int_equal(keys_with(&s, 2) + keys_with(&s, 3), KEYS);
    proxy_set(&s.between, PROXY_OPEN);
    expect_all_back(&s);
    close_scene(&s);
  }
}

/* By the limiter's own thread, as soon as the server goes on: most of the period is still to come. */
static void what_is_left_of_a_server_that_was_stopped_goes_back(void **state) {
  static scene s;
  weir_reservation *left[KEYS];
  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    open_scene(&s, &kinds[kind], RULE, WEIR_RENEW_BY_THREAD);
    for (int n = 0; n < KEYS; n++)
      left[n] = enter(s.w.limiter, key_of(n));
    server_stop(s.server);
    for (int n = 0; n < KEYS; n++) {
      assert_int_not_equal(weir_reservation_commit(left[n], NULL), WEIR_OK);
      weir_reservation_destroy(left[n]);
    }
    server_continue(s.server);
    expect_all_back(&s);
    close_scene(&s);
  }
}

static void say(const scene *s, const char *line) {
  char answer[8] = "";
  int fd = server_connect(s->server);
  assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
  assert_true(recv(fd, answer, sizeof answer, 0) > 0);
  assert_memory_equal(answer, "+OK", 3);
  close(fd);
}

/* Out of memory, Redis writes nothing, and says so. */
static void all_go_back_that_were_refused(void **state) {
  static scene s;
  (void)state;
  open_scene(&s, &kinds[KINDS - 1], LEASED, WEIR_RENEW_BY_CALLER);
  say(&s, "CONFIG SET maxmemory 1\r\n");
  for (int i = 0; i < 3; i++)
    assert_int_equal(give_back(s.w.limiter), WEIR_REFUSED_BY_STORE);
  assert_int_equal(keys_with(&s, 2), KEYS);
  say(&s, "CONFIG SET maxmemory 0\r\n");
  try_until_it_is_done(&s);
  expect_all_back(&s);
  close_scene(&s);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_not_sent_goes_back_with_the_next_try),
      cmocka_unit_test(what_is_refused_goes_back_with_the_next_try),
      cmocka_unit_test(what_is_not_answered_is_never_sent_again),
      cmocka_unit_test(what_went_back_in_part_is_never_sent_again),
      cmocka_unit_test(what_is_over_is_forgotten),
      cmocka_unit_test(many_tries_leave_the_share_as_it_is),
      cmocka_unit_test(what_is_left_meanwhile_goes_back_later),
      cmocka_unit_test(the_place_of_what_is_owed_goes_back_later),
      cmocka_unit_test(what_waited_for_others_is_not_missed),
      cmocka_unit_test(what_is_left_and_not_answered_is_never_sent_again),
      cmocka_unit_test(what_is_left_stands_for_what_the_policy_gave),
      cmocka_unit_test(what_is_left_of_a_server_that_was_stopped_goes_back),
      cmocka_unit_test(all_go_back_to_a_server_that_was_stopped),
      cmocka_unit_test(none_goes_back_twice_where_answers_are_lost),
      cmocka_unit_test(the_thread_gives_back_what_it_could_not),
      cmocka_unit_test(all_go_back_that_were_refused),
  };
  return cmocka_run_group_tests_name("limiter in flight spares", tests, NULL, NULL);
}
