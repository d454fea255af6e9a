/* weir_limiter_wait. Where the clock is moved by hand it stands still: what a call says is exact,
 * and it sleeps in real time all the same. Nothing here depends on how fast the machine is: only
 * too short a sleep is wrong, or one that is longer than the test could bear. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/stores.h"
#include "limiter/world.h"

/* Longer than any machine stalls, shorter than the sleeps that must not happen. */
#define AT_ONCE_US (15 * SECOND_US)

static const weir_limiter_options patient = {.deadline_us = 20 * SECOND_US,
                                             .fallback = WEIR_FALLBACK_NONE};

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  world_open(w, stores_url(store, url), rules, &patient);
}

/* With the real clock. */
static void open_real(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  weir_message message = {""};
  weir_limiter_options options = patient;
  options.size = sizeof options;
  if (weir_store_open(stores_url(store, url), &w->store, &message) != WEIR_OK ||
      weir_limiter_create(w->store, rules, &options, &w->limiter, &message) != WEIR_OK)
    fail_msg("%s", message.text);
}

static int64_t real_time_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

typedef struct waited {
  weir_decision decision;
  int64_t took_us;
} waited;

static waited wait_for(weir_limiter *limiter, const char *key, int64_t cost,
                       int64_t longest_wait_us) {
  waited result = {0};
  weir_message message = {""};
  int64_t began_us = weir_monotonic_us();
  weir_status status = weir_limiter_wait(limiter, key, strlen(key), cost, longest_wait_us,
                                         &result.decision, &message);
  result.took_us = weir_monotonic_us() - began_us;
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
  return result;
}

static void assert_slept(waited result, int64_t delay_us) {
  assert_true(result.decision.allowed);
  assert_int_equal(result.decision.delay_us, delay_us);
  assert_true(result.took_us >= delay_us);
}

static void buckets_hand_out_places_one_after_another(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "leaky-bucket:50/1s,queue=9");
    for (int64_t place = 0; place < 5; place++)
      assert_slept(wait_for(w.limiter, "k", 1, SECOND_US), place * 20000);
    assert_slept(wait_for(w.limiter, "k", 2, SECOND_US), 100000);
    assert_slept(wait_for(w.limiter, "k", 1, SECOND_US), 140000);
    world_close(&w);

    open_on(&w, store, "token-bucket:50/1s,burst=2");
    for (int64_t place = 0; place < 5; place++)
      assert_slept(wait_for(w.limiter, "k", 1, SECOND_US), place < 2 ? 0 : (place - 1) * 20000);
    world_close(&w);
  }
}

/* The wait of a place is exactly what the caller said it would bear, or a microsecond too much. */
static void a_place_is_taken_up_to_the_very_wait(void **state) {
  static const char *const rules[] = {"leaky-bucket:50/1s,queue=9", "token-bucket:50/1s,burst=1"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < 2; i++) {
      world w;
      open_on(&w, store, rules[i]);
      assert_slept(wait_for(w.limiter, "k", 1, 0), 0);
      assert_false(wait_for(w.limiter, "k", 1, 0).decision.allowed);
      assert_false(wait_for(w.limiter, "k", 1, 19999).decision.allowed);
      assert_slept(wait_for(w.limiter, "k", 1, 20000), 20000);
      world_close(&w);
    }
  }
}

typedef struct queue {
  weir_limiter *limiter;
  pthread_barrier_t start;
  _Atomic int early; /* came back before their time */
  _Atomic int failures;
} queue;

enum { WAITERS = 8 };

typedef struct waiter {
  queue *in;
  int64_t start_us;
} waiter;

static void *wait_in_thread(void *context) {
  waiter *mine = context;
  weir_decision decision = {0};
  pthread_barrier_wait(&mine->in->start);
  weir_status status =
      weir_limiter_wait(mine->in->limiter, "k", 1, 1, 60 * SECOND_US, &decision, NULL);
  mine->start_us = decision.at_us + decision.delay_us;
  if (status != WEIR_OK || !decision.allowed) atomic_fetch_add(&mine->in->failures, 1);
  if (real_time_us() < mine->start_us) atomic_fetch_add(&mine->in->early, 1);
  return NULL;
}

static int compare(const void *left, const void *right) {
  int64_t a = ((const waiter *)left)->start_us;
  int64_t b = ((const waiter *)right)->start_us;
  return (a > b) - (a < b);
}

/* Many come at once; their starts are in order at the end. */
static void let_all_wait(weir_limiter *limiter, waiter waiters[WAITERS]) {
  queue all = {.limiter = limiter};
  pthread_t threads[WAITERS];
  pthread_barrier_init(&all.start, NULL, WAITERS);
  for (size_t i = 0; i < WAITERS; i++) {
    waiters[i] = (waiter){.in = &all};
    assert_int_equal(pthread_create(&threads[i], NULL, wait_in_thread, &waiters[i]), 0);
  }
  for (size_t i = 0; i < WAITERS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all.start);
  assert_int_equal(all.failures, 0);
  assert_int_equal(all.early, 0);
  qsort(waiters, WAITERS, sizeof waiters[0], compare);
}

static void starts_are_spaced_however_many_come_at_once(void **state) {
  static const char *const rules[] = {"leaky-bucket:50/1s,queue=20", "leaky-bucket:50/1s,queue=2",
                                      "leaky-bucket:50/1s", "token-bucket:50/1s,burst=1"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      world w;
      waiter waiters[WAITERS];
      open_real(&w, store, rules[i]);
      let_all_wait(w.limiter, waiters);
      for (size_t j = 1; j < WAITERS; j++)
        assert_true(waiters[j].start_us - waiters[j - 1].start_us >= 20000);
      world_close(&w);
    }
  }
}

static void windows_admit_no_more_of_those_who_wait(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    waiter waiters[WAITERS];
    open_real(&w, store, "fixed-window:2/100ms");
    let_all_wait(w.limiter, waiters);
    for (size_t i = 2; i < WAITERS; i++)
      assert_true(waiters[i].start_us / 100000 > waiters[i - 2].start_us / 100000);
    world_close(&w);
    open_real(&w, store, "sliding-log:2/100ms");
    let_all_wait(w.limiter, waiters);
    for (size_t i = 2; i < WAITERS; i++)
      assert_true(waiters[i].start_us - waiters[i - 2].start_us >= 100000);
    world_close(&w);
  }
}

/* A caller that polls would need hundreds of round trips. */
static void a_window_is_asked_again_only_when_it_can_fit(void **state) {
  weir_limiter_options options = patient;
  weir_decision decision;
  weir_store *store;
  weir_limiter *limiter;
  (void)state;
  options.size = sizeof options;
  assert_int_equal(weir_store_open_backend(&fake_backend, "fake:", &store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, "fixed-window:1/1s", &options, &limiter, NULL),
                   WEIR_OK);
  for (int64_t i = 0, before_us = 0; i < 3; i++, before_us = decision.at_us) {
    assert_int_equal(weir_limiter_wait(limiter, "k", 1, 1, 60 * SECOND_US, &decision, NULL),
                     WEIR_OK);
    assert_true(decision.allowed);
    assert_true(decision.at_us / SECOND_US > before_us / SECOND_US);
  }
  assert_in_range(the_fake.counts.round_trips, 3, 40);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* Each would be right to sleep a little, and wrong to: its way is longer than its time. */
static void who_cannot_be_admitted_in_time_is_told_at_once(void **state) {
  static const struct {
    const char *rules;
    int64_t before, cost, retry_after_us;
  } cases[] = {
      {"fixed-window:1/1h", 1, 1, 3600 * SECOND_US - START_US % (3600 * SECOND_US)},
      {"leaky-bucket:1/20s,queue=3", 4, 1, 20 * SECOND_US}, /* then 60 s in the queue */
      {"token-bucket:1/50s,burst=2", 2, 2, 40 * SECOND_US}, /* 100 s, of which 60 are accepted */
      {"leaky-bucket:1/20s,queue=3;fixed-window:9/1s", 4, 1, 20 * SECOND_US},
      {"fixed-window:5/1m", 0, 6, WEIR_NEVER},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    open_on(&w, 0, cases[i].rules);
    if (cases[i].before > 0) assert_true(world_take(&w, "k", cases[i].before).allowed);
    waited result = wait_for(w.limiter, "k", cases[i].cost, 60 * SECOND_US);
    assert_false(result.decision.allowed);
    assert_int_equal(result.decision.retry_after_us, cases[i].retry_after_us);
    assert_true(result.took_us < AT_ONCE_US);
    world_close(&w);
  }
}

/* START_US is the start of a window of 1 s; the clock stands still in it. */
static void a_wait_ends_with_its_time_even_if_the_clock_stands_still(void **state) {
  world w;
  (void)state;
  open_on(&w, 0, "sliding-window:1/20ms,cells=1");
  world_take(&w, "k", 1);
  waited result = wait_for(w.limiter, "k", 1, 200000);
  assert_false(result.decision.allowed);
  assert_true(result.took_us >= 150000);
  assert_true(result.took_us < AT_ONCE_US);
  world_close(&w);
}

static void only_a_wait_sleeps_what_hold_asks_for(void **state) {
  world w;
  weir_limiter_options options = patient;
  (void)state;
  options.longest_wait_us = 60 * SECOND_US;
  world_open(&w, "memory:", "fixed-window:1/1h,hold=60s", &options);
  int64_t began_us = weir_monotonic_us();
  world_take(&w, "k", 1);
  assert_int_equal(world_take(&w, "k", 1).delay_us, 60 * SECOND_US);
  assert_int_equal(world_peek(&w, "k", 1).delay_us, 60 * SECOND_US);
  assert_int_equal(world_take(&w, "k", 2).delay_us, 60 * SECOND_US); /* never */
  assert_true(weir_monotonic_us() - began_us < AT_ONCE_US);
  waited result = wait_for(w.limiter, "k", 1, 50000);
  assert_false(result.decision.allowed);
  assert_true(result.decision.delay_us <= 50000);
  assert_true(result.took_us >= 50000);
  assert_int_equal(wait_for(w.limiter, "k", 1, 0).decision.delay_us, 0);
  world_close(&w);
  world_open(&w, "memory:", "fixed-window:1/1h,hold=30ms", &options);
  world_take(&w, "k", 1);
  result = wait_for(w.limiter, "k", 1, 60 * SECOND_US);
  assert_int_equal(result.decision.delay_us, 30000);
  assert_true(result.took_us >= 30000);
  world_close(&w);
}

static void ignore(int number) {
  (void)number;
}

/* A signal every 2 ms, none of which restarts what it interrupts. */
static void signals_do_not_shorten_a_wait(void **state) {
  world w;
  struct sigaction before;
  const struct sigaction interrupting = {.sa_handler = ignore};
  const struct itimerval often = {{0, 2000}, {0, 2000}};
  const struct itimerval never = {{0, 0}, {0, 0}};
  (void)state;
  open_on(&w, 0, "leaky-bucket:10/1s,queue=1");
  world_take(&w, "k", 1);
  sigaction(SIGALRM, &interrupting, &before);
  setitimer(ITIMER_REAL, &often, NULL);
  waited result = wait_for(w.limiter, "k", 1, SECOND_US);
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  assert_slept(result, 100000);
  world_close(&w);
}

/* The charge of the place that nobody got must not stay. */
static void who_gives_up_leaves_no_trace(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:9/1h;token-bucket:1/1h,burst=2");
    world_take(&w, "k", 2);
    assert_false(wait_for(w.limiter, "k", 1, 10000).decision.allowed);
    weir_limiter *other = world_limiter(&w, "fixed-window:9/1h", &patient);
    assert_int_equal(limiter_peek(other, "k", 1).remaining, 7);
    weir_limiter_destroy(other);
    assert_int_equal(world_peek(&w, "k", 1).reset_after_us, 7200 * SECOND_US);
    world_close(&w);
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(buckets_hand_out_places_one_after_another),
      cmocka_unit_test(a_place_is_taken_up_to_the_very_wait),
      cmocka_unit_test(starts_are_spaced_however_many_come_at_once),
      cmocka_unit_test(windows_admit_no_more_of_those_who_wait),
      cmocka_unit_test(a_window_is_asked_again_only_when_it_can_fit),
      cmocka_unit_test(who_cannot_be_admitted_in_time_is_told_at_once),
      cmocka_unit_test(a_wait_ends_with_its_time_even_if_the_clock_stands_still),
      cmocka_unit_test(only_a_wait_sleeps_what_hold_asks_for),
      cmocka_unit_test(signals_do_not_shorten_a_wait),
      cmocka_unit_test(who_gives_up_leaves_no_trace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
