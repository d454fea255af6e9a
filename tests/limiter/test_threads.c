/* Many threads, one limiter. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/world.h"

enum { THREADS = 16, TAKES = 500 };

typedef struct crowd {
  weir_limiter *limiter;
  size_t keys;       /* each thread goes round these */
  size_t batch;      /* requests per call; 1: weir_limiter_take */
  int64_t cost_most; /* costs 1 to this */
  pthread_barrier_t start;
  _Atomic int64_t admitted;
  _Atomic int failures;
} crowd;

static void count(crowd *crowd_of, weir_status status, int64_t cost, bool allowed) {
  if (status != WEIR_OK)
    atomic_fetch_add(&crowd_of->failures, 1);
  else if (allowed)
    atomic_fetch_add(&crowd_of->admitted, cost);
}

static void take_some(crowd *crowd_of, size_t from) {
  weir_request requests[8];
  char keys[8][24];
  for (size_t i = 0; i < crowd_of->batch; i++) {
    snprintf(keys[i], sizeof keys[i], "%zu", (from + i) % crowd_of->keys);
    requests[i] = (weir_request){.key = keys[i],
                                 .key_length = strlen(keys[i]),
                                 .cost = 1 + (int64_t)(from + i) % crowd_of->cost_most};
  }
  if (crowd_of->batch == 1)
    requests[0].status =
        weir_limiter_take(crowd_of->limiter, requests[0].key, requests[0].key_length,
                          requests[0].cost, &requests[0].decision, NULL);
  else
    weir_limiter_decide(crowd_of->limiter, requests, crowd_of->batch, NULL);
  for (size_t i = 0; i < crowd_of->batch; i++)
    count(crowd_of, requests[i].status, requests[i].cost, requests[i].decision.allowed);
}

static void *run(void *context) {
  crowd *mine = context;
  pthread_barrier_wait(&mine->start);
  for (size_t i = 0; i < TAKES; i++)
    take_some(mine, i * 7);
  return NULL;
}

/* The admissions of a crowd in all, at one moment. */
static int64_t admitted(const char *rules, crowd members) {
  static crowd everyone;
  weir_limiter_options options = {.deadline_us = 60 * SECOND_US};
  pthread_t threads[THREADS];
  world w;
  world_open(&w, "memory:", rules, &options);
  everyone = members;
  everyone.limiter = w.limiter;
  pthread_barrier_init(&everyone.start, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run, &everyone), 0);
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&everyone.start);
  assert_int_equal(everyone.failures, 0);
  world_close(&w);
  return everyone.admitted;
}

static void get_exactly_the_limit_of_a_fixed_window(void **state) {
  (void)state;
  assert_int_equal(admitted("fixed-window:777/1m", (crowd){.keys = 1, .batch = 1, .cost_most = 1}),
                   777);
}

static void get_exactly_the_limit_of_a_sliding_window(void **state) {
  (void)state;
  assert_int_equal(
      admitted("sliding-window:777/1m", (crowd){.keys = 1, .batch = 1, .cost_most = 1}), 777);
}

static void get_exactly_the_limit_of_every_key(void **state) {
  (void)state;
  assert_int_equal(
      admitted("sliding-window:31/1m,cells=16", (crowd){.keys = 5, .batch = 1, .cost_most = 1}),
      5 * 31);
}

static void get_exactly_the_limit_in_batches(void **state) {
  (void)state;
  assert_int_equal(
      admitted("sliding-window:300/1m", (crowd){.keys = 3, .batch = 8, .cost_most = 1}), 3 * 300);
}

/* A cost of 1 comes often enough to take the last place. */
static void get_exactly_the_limit_with_mixed_costs(void **state) {
  (void)state;
  assert_int_equal(admitted("fixed-window:1000/1m", (crowd){.keys = 1, .batch = 1, .cost_most = 5}),
                   1000);
}

static void get_exactly_the_limit_of_the_tightest_rule(void **state) {
  (void)state;
  assert_int_equal(admitted("fixed-window:777/1m;sliding-window:555/1h;fixed-window:9999/1h",
                            (crowd){.keys = 1, .batch = 1, .cost_most = 1}),
                   555);
}

static void get_exactly_the_limit_where_all_count(void **state) {
  (void)state;
  assert_int_equal(
      admitted("fixed-window:777/1m,count=all", (crowd){.keys = 1, .batch = 1, .cost_most = 1}),
      777);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(get_exactly_the_limit_of_a_fixed_window),
      cmocka_unit_test(get_exactly_the_limit_of_a_sliding_window),
      cmocka_unit_test(get_exactly_the_limit_of_every_key),
      cmocka_unit_test(get_exactly_the_limit_in_batches),
      cmocka_unit_test(get_exactly_the_limit_with_mixed_costs),
      cmocka_unit_test(get_exactly_the_limit_of_the_tightest_rule),
      cmocka_unit_test(get_exactly_the_limit_where_all_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
