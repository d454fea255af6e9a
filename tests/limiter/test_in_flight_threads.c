/* Places in real time: the thread that renews, who waits, and what a child has of them. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/backend.h>

#include "fixture/process.h"
#include "limiter/stores.h"
#include "limiter/world.h"

#define PERIOD_US SECOND_US

static const weir_limiter_options short_options = {.size = sizeof short_options,
                                                   .deadline_us = 80000,
                                                   .clock_error_us = 1000,
                                                   .fallback = WEIR_FALLBACK_NONE};

typedef struct scene {
  weir_store *store;
  weir_limiter *limiter;
} scene;

static weir_limiter *make_limiter(weir_store *store, const char *rules) {
  weir_limiter *limiter;
  weir_message message = {""};
  if (weir_limiter_create(store, rules, &short_options, &limiter, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  return limiter;
}

static void open_scene(scene *s, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  weir_message message = {""};
  if (weir_store_open(stores_url(store, url), &s->store, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  s->limiter = make_limiter(s->store, rules);
}

static void close_scene(scene *s) {
  weir_limiter_destroy(s->limiter);
  weir_store_close(s->store);
}

static void sleep_us(int64_t us) {
  struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

/* A machine that stands still for as long as a deadline or a payment can spoil a try. */
enum { TRIES = 20, LATE_US = 50000 };

static bool was_late(weir_status status) {
  weir_status_class class = weir_status_classify(status);
  return class == WEIR_CLASS_STORE || class == WEIR_CLASS_TRANSIENT;
}

static weir_reservation *enter_in(weir_limiter *limiter, int64_t wait_us, weir_source *source) {
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  weir_reservation *made = NULL;
  weir_message message = {""};
  weir_status status = WEIR_TIMEOUT;
  for (int i = 0; i < TRIES && was_late(status); i++) {
    if (i > 0) sleep_us(LATE_US);
    status = weir_limiter_reserve_wait(limiter, &request, wait_us, &made, &message);
  }
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(request.status), message.text);
  assert_int_equal(made != NULL, request.decision.allowed);
  if (source != NULL) *source = request.decision.source;
  return made;
}

static weir_reservation *enter(weir_limiter *limiter) {
  return enter_in(limiter, 0, NULL);
}

static void leave(weir_reservation *place) {
  weir_message message = {""};
  weir_status status = weir_reservation_commit(place, &message);
  if (status != WEIR_OK && !was_late(status)) fail_msg("%s", message.text);
  weir_reservation_destroy(place);
}

static void *do_nothing(void *nothing) {
  return nothing;
}

/* A sanitizer starts a thread of its own with the first of the program: it is there before they are
 * counted. */
static void start_first_thread(void) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
  pthread_join(thread, NULL);
}

/* On all stores at once, as that takes time. False: the machine stood still, and places were lost. */
static bool pay_on_all_stores(void) {
  scene scenes[STORES];
  weir_reservation *places[STORES];
  bool kept = true;
  for (int store = 0; store < STORES; store++)
    open_scene(&scenes[store], store, "in-flight:1/1s");
  start_first_thread();
  int before = process_threads();
  for (int store = 0; store < STORES; store++)
    places[store] = enter(scenes[store].limiter);
  assert_int_equal(process_threads(), before + STORES);
  sleep_us(5 * PERIOD_US / 2);
  for (int store = 0; store < STORES; store++) {
    weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
    weir_limiter *other = make_limiter(scenes[store].store, "in-flight:1/1s");
    weir_reservation *second = enter(other);
    weir_limiter_read_counts(scenes[store].limiter, &counts);
    if (weir_reservation_held(places[store])) {
      assert_in_range(counts.renewals, 2, 4);
      assert_null(second);
    } else {
      kept = false;
    }
    if (second != NULL) leave(second);
    leave(places[store]);
    weir_limiter_destroy(other);
  }
  for (int tries = 0; tries < 100 && process_threads() > before; tries++)
    sleep_us(PERIOD_US / 20);
  assert_int_equal(process_threads(), before);
  for (int store = 0; store < STORES; store++) { /* and another when it is needed again */
    weir_reservation *again = enter_in(scenes[store].limiter, PERIOD_US, NULL);
    assert_non_null(again);
    leave(again);
    close_scene(&scenes[store]);
  }
  return kept;
}

static void a_thread_pays_while_something_is_held(void **state) {
  bool kept = false;
  (void)state;
  for (int i = 0; i < TRIES / 4 && !kept; i++)
    kept = pay_on_all_stores();
  assert_true(kept);
}

typedef struct waiter {
  weir_limiter *limiter;
  weir_reservation *place;
  weir_source source;
  int64_t entered_us;
  pthread_t thread;
} waiter;

static void *wait_for_place(void *context) {
  waiter *self = context;
  self->place = enter_in(self->limiter, 20 * SECOND_US, &self->source);
  return NULL;
}

/* Hands a place that was held for so long to a thread that waits for it meanwhile. */
static weir_source hand_over(scene *s, int64_t held_us) {
  weir_reservation *place = enter_in(s->limiter, 3 * SECOND_US, NULL);
  uint64_t token = weir_reservation_token(place);
  waiter other = {.limiter = s->limiter};
  assert_int_equal(pthread_create(&other.thread, NULL, wait_for_place, &other), 0);
  sleep_us(held_us);
  leave(place);
  pthread_join(other.thread, NULL);
  assert_non_null(other.place);
  assert_true(weir_reservation_held(other.place));
  assert_true(weir_reservation_token(other.place) > token);
  leave(other.place);
  return other.source;
}

/* A place that is left is handed to a thread of this process that waits, but for a second. One that
 * was just looking in the store finds it there: on a busy machine that may be many. */
static void a_place_is_handed_to_who_waits(void **state) {
  enum { TIMES = 4, LOOKS = 100 };
  (void)state;
  for (int store = 0; store < STORES; store++) {
    int handed = 0;
    scene s;
    open_scene(&s, store, "in-flight:1/2s");
    for (int i = 0; i < LOOKS && handed < TIMES; i++)
      handed += hand_over(&s, 50000) == WEIR_SOURCE_LOCAL;
    assert_int_equal(handed, TIMES);
    assert_int_equal(hand_over(&s, 11 * SECOND_US / 10), WEIR_SOURCE_STORE);
    close_scene(&s);
  }
}

static void *enter_and_leave(void *context) {
  waiter *self = context;
  weir_reservation *place = enter_in(self->limiter, 20 * SECOND_US, NULL);
  self->entered_us = weir_monotonic_us();
  leave(place);
  return NULL;
}

/* After a second from hand to hand, with one that waits, it is left to other processes for a while: by
 * the one that waits, and by the thread that leaves. One that is just looking is none that waits. */
static void a_process_that_had_its_turn_rests(void **state) {
  enum { REST_US = 25000, LOOKS = 5 };
  int64_t rested_us = 0;
  scene s;
  (void)state;
  open_scene(&s, 1, "in-flight:1/2s");
  for (int i = 0; i < LOOKS && rested_us < REST_US; i++) {
    weir_reservation *place = enter_in(s.limiter, 3 * SECOND_US, NULL);
    waiter other = {.limiter = s.limiter}, own = other;
    assert_int_equal(pthread_create(&other.thread, NULL, enter_and_leave, &other), 0);
    sleep_us(11 * SECOND_US / 10);
    int64_t left_us = weir_monotonic_us();
    leave(place);
    enter_and_leave(&own);
    pthread_join(other.thread, NULL);
    rested_us = (own.entered_us < other.entered_us ? own.entered_us : other.entered_us) - left_us;
  }
  assert_in_range(rested_us, REST_US, 20 * SECOND_US);
  close_scene(&s);
}

/* A thread that waits comes in when another process leaves; or back with nothing when its time is
 * over. */
static void who_waits_looks_for_what_others_leave(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    scene s;
    open_scene(&s, store, "in-flight:1/10s");
    weir_limiter *other = make_limiter(s.store, "in-flight:1/10s");
    weir_reservation *place = enter(other);
    assert_null(enter_in(s.limiter, 100000, NULL));
    waiter waits = {.limiter = s.limiter};
    assert_int_equal(pthread_create(&waits.thread, NULL, wait_for_place, &waits), 0);
    sleep_us(50000);
    leave(place);
    pthread_join(waits.thread, NULL);
    assert_non_null(waits.place);
    leave(waits.place);
    weir_limiter_destroy(other);
    close_scene(&s);
  }
}

/* In the child it is nobody's, and the parent's stays. */
static void a_child_holds_nothing(void **state) {
  scene s;
  (void)state;
  open_scene(&s, 1, "in-flight:1/10s");
  weir_reservation *place = enter(s.limiter);
  pid_t child = fork();
  if (child == 0) {
    bool holds = weir_reservation_held(place) || weir_reservation_held_until_us(place) != 0;
    bool ends = weir_reservation_commit(place, NULL) != WEIR_BAD_ARGUMENT;
    int64_t next_us;
    bool pays = weir_limiter_renew(s.limiter, &next_us, NULL) != WEIR_BAD_ARGUMENT;
    weir_reservation_destroy(place);
    weir_limiter_destroy(s.limiter);
    _exit(holds ? 1 : ends ? 2 : pays ? 3 : 0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_true(weir_reservation_held(place));
  leave(place);
  close_scene(&s);
}

/* A signal that is sent to the process is never the thread's to answer. */
static void the_thread_blocks_all_signals(void **state) {
  scene s;
  sigset_t all, before, pending;
  (void)state;
  open_scene(&s, 0, "in-flight:1/10s");
  weir_reservation *place = enter(s.limiter);
  sigemptyset(&all);
  sigaddset(&all, SIGUSR1); /* unblocked it would end the process */
  pthread_sigmask(SIG_BLOCK, &all, &before);
  kill(getpid(), SIGUSR1);
  sleep_us(20000);
  sigpending(&pending);
  assert_true(sigismember(&pending, SIGUSR1));
  int got;
  sigwait(&all, &got);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  leave(place);
  close_scene(&s);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_thread_pays_while_something_is_held),
      cmocka_unit_test(a_place_is_handed_to_who_waits),
      cmocka_unit_test(a_process_that_had_its_turn_rests),
      cmocka_unit_test(who_waits_looks_for_what_others_leave),
      cmocka_unit_test(a_child_holds_nothing),
      cmocka_unit_test(the_thread_blocks_all_signals),
  };
  stores_start();
  return cmocka_run_group_tests_name("limiter in flight threads", tests, NULL, NULL);
}
