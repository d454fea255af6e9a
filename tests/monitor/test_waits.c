/* How long requests waited for servers: who is counted, and where. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <weir/weir.h>

#include "fixture/proxy.h"
#include "fixture/servers.h"

enum { THREADS = 8, TAKES = 50 };

static weir_limiter_counts counts_of(const weir_limiter *limiter) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(limiter, &counts);
  return counts;
}

static uint64_t waits_of(const weir_limiter_counts *counts) {
  uint64_t sum = 0;
  for (int i = 0; i < WEIR_WAIT_BUCKETS; i++)
    sum += counts->waits[i];
  return sum;
}

static weir_limiter *open_limiter(const char *url, const char *rules, int64_t deadline_us,
                                  weir_store **store) {
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = deadline_us, .fallback = WEIR_FALLBACK_NONE};
  weir_limiter *limiter;
  assert_int_equal(weir_store_open(url, store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(*store, rules, &options, &limiter, NULL), WEIR_OK);
  return limiter;
}

static void bounds_grow_and_the_last_has_none(void **state) {
  (void)state;
  assert_int_equal(weir_wait_bound_us(0), 100);
  for (size_t i = 1; i < WEIR_WAIT_BUCKETS; i++)
    assert_true(weir_wait_bound_us(i) > weir_wait_bound_us(i - 1));
  assert_true(weir_wait_bound_us(WEIR_WAIT_BUCKETS - 1) == INT64_MAX);
  assert_true(weir_wait_bound_us(SIZE_MAX) == INT64_MAX);
}

static void whoever_needs_no_server_is_not_counted(void **state) {
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  char url[SERVER_URL_BYTES];
  weir_store *store;
  weir_decision decision;
  (void)state;
  server_url(&server, 1, NULL, url);
  weir_limiter *limiter = open_limiter(url, "fixed-window:3/400d", 60000000, &store);
  for (int i = 0; i < TAKES; i++)
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  weir_limiter_counts counts = counts_of(limiter);
  assert_int_equal(waits_of(&counts), counts.by_store);
  assert_true(counts.by_store < TAKES); /* denials were repeated */
  weir_limiter_destroy(limiter);
  weir_store_close(store);

  limiter = open_limiter("memory:", "fixed-window:3/400d", 60000000, &store);
  for (int i = 0; i < TAKES; i++)
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  counts = counts_of(limiter);
  assert_int_equal(waits_of(&counts), 0);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

static void *take_many(void *limiter) {
  weir_decision decision;
  for (int i = 0; i < TAKES; i++)
    if (weir_limiter_take(limiter, "k", 1, 1, &decision, NULL) != WEIR_OK) return limiter;
  return NULL;
}

/* One leads and others wait for it: each has a wait of its own, and none is below a round trip
 * that takes 5 ms, but for those who came while their answer was on its way. */
static void those_who_wait_for_a_leader_are_counted_too(void **state) {
  static proxy between;
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  char url[SERVER_URL_BYTES];
  weir_store *store;
  pthread_t threads[THREADS];
  void *failed;
  (void)state;
  proxy_start(&between, server, PROXY_OPEN);
  between.delay_ms = 5;
  snprintf(url, sizeof url, "memcached://127.0.0.1:%u", proxy_port(&between));
  weir_limiter *limiter = open_limiter(url, "fixed-window:1000000/400d", 60000000, &store);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, take_many, limiter), 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  weir_limiter_counts counts = counts_of(limiter);
  assert_int_equal(counts.by_store, THREADS * TAKES);
  assert_int_equal(waits_of(&counts), THREADS * TAKES);
  assert_true(counts.waited_us >= counts.round_trips * 5000);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  proxy_stop(&between);
}

static void giving_up_counts_as_a_wait(void **state) {
  static proxy between;
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  char url[SERVER_URL_BYTES];
  weir_store *store;
  weir_decision decision;
  (void)state;
  proxy_start(&between, server, PROXY_SILENT);
  snprintf(url, sizeof url, "memcached://127.0.0.1:%u", proxy_port(&between));
  weir_limiter *limiter = open_limiter(url, "fixed-window:5/400d", 50000, &store);
  assert_int_not_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  weir_limiter_counts counts = counts_of(limiter);
  assert_int_equal(waits_of(&counts), 1);
  assert_true(counts.waited_us >= 30000);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  proxy_stop(&between);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bounds_grow_and_the_last_has_none),
      cmocka_unit_test(whoever_needs_no_server_is_not_counted),
      cmocka_unit_test(those_who_wait_for_a_leader_are_counted_too),
      cmocka_unit_test(giving_up_counts_as_a_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
