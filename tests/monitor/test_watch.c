/* Rare events: each is told once, with its count, and not too often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "fixture/clock.h"
#include "fixture/servers.h"

enum { TOLD_MOST = 16 };
#define HOUR_US (INT64_C(3600) * 1000000)
#define START_US (INT64_C(1700000160) * 1000000)

/* The events that a hook was told. */
typedef struct told {
  size_t count;
  weir_event events[TOLD_MOST];
  char text[WEIR_MESSAGE_BYTES]; /* of the last */
} told;

static void keep(void *context, const weir_event *event) {
  told *to = context;
  assert_true(to->count < TOLD_MOST);
  snprintf(to->text, sizeof to->text, "%s", event->text);
  to->events[to->count++] = *event;
}

static size_t look(weir_watch *watch, told *to) {
  *to = (told){.count = 0};
  size_t count = weir_watch_look(watch, keep, to);
  assert_int_equal(count, to->count);
  return count;
}

static weir_watch *watch_one(const char *name, const weir_limiter *limiter, const weir_store *store,
                             int64_t quiet_us) {
  const weir_monitor_source source = {name, limiter, store};
  weir_watch *watch;
  assert_int_equal(weir_watch_create(&source, 1, quiet_us, &watch, NULL), WEIR_OK);
  return watch;
}

typedef struct world {
  hand_clock clock;
  weir_store *store;
  weir_limiter *limiter;
} world;

static void open_world(world *w, const char *url) {
  w->clock.now_us = START_US;
  const weir_limiter_options options = {
      .size = sizeof options, .clock = hand_clock_as_clock(&w->clock), .deadline_us = 20000000};
  assert_int_equal(weir_store_open(url, &w->store, NULL), WEIR_OK);
  assert_int_equal(
      weir_limiter_create(w->store, "fixed-window:1000/400d", &options, &w->limiter, NULL),
      WEIR_OK);
}

static void close_world(world *w) {
  weir_limiter_destroy(w->limiter);
  weir_store_close(w->store);
}

static weir_decision take(const world *w) {
  weir_decision decision;
  assert_int_equal(weir_limiter_take(w->limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  return decision;
}

static void step_back(world *w) {
  take(w);
  w->clock.now_us -= HOUR_US;
  take(w);
}

static void nothing_is_told_twice(void **state) {
  world w;
  told to;
  (void)state;
  open_world(&w, "memory:");
  step_back(&w); /* before there is a watch */
  weir_watch *watch = watch_one("api", w.limiter, w.store, 0);
  assert_int_equal(look(watch, &to), 0);
  w.clock.now_us += 2 * HOUR_US;
  step_back(&w);
  assert_int_equal(look(watch, &to), 1);
  assert_int_equal(to.events[0].kind, WEIR_EVENT_CLOCK_STEP);
  assert_string_equal(to.events[0].kind_name, "clock-step");
  assert_string_equal(to.events[0].source, "api");
  assert_null(to.events[0].server);
  assert_int_equal(to.events[0].count, 1);
  assert_int_equal(look(watch, &to), 0);
  weir_watch_destroy(watch);
  close_world(&w);
}

static void what_happens_in_the_quiet_is_counted(void **state) {
  const int64_t quiet_us = 400000;
  world w;
  told to;
  (void)state;
  open_world(&w, "memory:");
  weir_watch *watch = watch_one("api", w.limiter, NULL, quiet_us);
  step_back(&w);
  assert_int_equal(look(watch, &to), 1);
  int64_t told_us = weir_monotonic_us();
  for (int i = 0; i < 3; i++) {
    w.clock.now_us += 2 * HOUR_US;
    step_back(&w);
  }
  size_t count = look(watch, &to);
  if (weir_monotonic_us() < told_us + quiet_us / 2) assert_int_equal(count, 0);
  while (count == 0) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    count = look(watch, &to);
  }
  assert_int_equal(to.events[0].count, 3);
  weir_watch_destroy(watch);
  close_world(&w);
}

/* Until the server counts as lost, then until it counts as back. */
static void a_server_is_lost_and_comes_back(void **state) {
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  char url[SERVER_URL_BYTES];
  world w;
  told to;
  (void)state;
  server_url(&server, 1, NULL, url);
  open_world(&w, url);
  take(&w);
  weir_watch *watch = watch_one("counts", w.limiter, w.store, 0);
  assert_int_equal(look(watch, &to), 0);
  server_kill(server);
  int64_t end_us = weir_monotonic_us() + 60000000;
  while (take(&w).source != WEIR_SOURCE_FALLBACK)
    assert_true(weir_monotonic_us() < end_us);
  look(watch, &to);
  bool lost = false;
  bool fell_back = false;
  for (size_t i = 0; i < to.count; i++) {
    lost = lost || to.events[i].kind == WEIR_EVENT_SERVER_LOST;
    fell_back = fell_back || to.events[i].kind == WEIR_EVENT_FALLBACK;
    if (to.events[i].kind != WEIR_EVENT_SERVER_LOST) continue;
    assert_true(to.events[i].count >= 1);
    assert_non_null(strstr(url, to.events[i].server));
    assert_true(strlen(to.text) > 0);
  }
  assert_true(lost && fell_back);
  weir_watch *second = watch_one("counts", NULL, w.store, 0); /* comes too late for the loss */
  assert_int_equal(look(second, &to), 1);
  assert_int_equal(to.events[0].kind, WEIR_EVENT_SERVER_LOST);
  server_restart(server);
  end_us = weir_monotonic_us() + 60000000;
  while (take(&w).store_status != WEIR_OK) /* denied by its share, and the store looked at */
    assert_true(weir_monotonic_us() < end_us);
  while (look(second, &to) == 0 || to.events[to.count - 1].kind != WEIR_EVENT_SERVER_BACK) {
    assert_true(weir_monotonic_us() < end_us);
    take(&w);
  }
  look(watch, &to);
  bool lost_keys = false;
  for (size_t i = 0; i < to.count; i++)
    lost_keys = lost_keys || to.events[i].kind == WEIR_EVENT_KEYS_LOST;
  assert_true(lost_keys); /* it came back empty */
  weir_watch_destroy(watch);
  weir_watch_destroy(second);
  close_world(&w);
}

/* It says why itself, and no key. */
static void a_server_that_refuses_is_told(void **state) {
  static const char *const full[] = {"--maxmemory", "1", NULL};
  struct server *server = server_start_redis(SERVER_IPV4, full);
  char url[SERVER_URL_BYTES];
  world w;
  told to;
  weir_decision decision;
  (void)state;
  server_url(&server, 1, NULL, url);
  open_world(&w, url);
  weir_watch *watch = watch_one("counts", NULL, w.store, 0);
  assert_int_equal(look(watch, &to), 0);
  int64_t end_us = weir_monotonic_us() + 60000000;
  do {
    weir_limiter_take(w.limiter, "a\":b", 4, 1, &decision, NULL);
    look(watch, &to);
    assert_true(weir_monotonic_us() < end_us);
  } while (to.count == 0 || to.events[to.count - 1].kind != WEIR_EVENT_REFUSED);
  assert_non_null(strstr(url, to.events[to.count - 1].server));
  assert_true(to.events[to.count - 1].count >= 1);
  assert_non_null(strstr(to.text, " of a key: the server is out of memory"));
  assert_null(strstr(to.text, ":b"));
  weir_watch_destroy(watch);
  close_world(&w);
}

static void a_quiet_time_outside_its_range_is_refused(void **state) {
  weir_message why = {""};
  weir_watch *watch;
  (void)state;
  assert_int_equal(weir_watch_create(NULL, 0, -1, &watch, &why), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(why.text, "quiet_us is -1: accepted are 0 to 86400000000"));
  assert_int_equal(weir_watch_create(NULL, 0, INT64_C(86400000001), &watch, NULL),
                   WEIR_BAD_ARGUMENT);
  assert_int_equal(weir_watch_create(NULL, 0, 0, &watch, NULL), WEIR_OK);
  assert_int_equal(weir_watch_look(watch, keep, NULL), 0);
  weir_watch_destroy(watch);
  weir_watch_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_told_twice),
      cmocka_unit_test(what_happens_in_the_quiet_is_counted),
      cmocka_unit_test(a_server_is_lost_and_comes_back),
      cmocka_unit_test(a_server_that_refuses_is_told),
      cmocka_unit_test(a_quiet_time_outside_its_range_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
