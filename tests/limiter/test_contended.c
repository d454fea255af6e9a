/* Threads of several limiters fight for one key with hardly any time. Whatever each is told, what
 * was admitted is within the bound, and all of it is charged. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

enum { LIMITERS = 4, THREADS = 8, TAKES = 400, DEADLINE_US = 1000, BOUND = 500 };

typedef struct fight {
  hand_clock clock; /* stands still: nothing drains */
  weir_store *stores[LIMITERS];
  weir_limiter *limiters[LIMITERS];
  pthread_barrier_t start;
  _Atomic int statuses[WEIR_STATUS_COUNT];
  _Atomic int64_t admitted;
} fight;

typedef struct fighter {
  fight *in;
  weir_limiter *limiter;
} fighter;

static void *take_many(void *context) {
  fighter *mine = context;
  pthread_barrier_wait(&mine->in->start);
  for (int i = 0; i < TAKES; i++) {
    int64_t cost = 1 + i % 3;
    weir_decision decision = {0};
    weir_status status = weir_limiter_take(mine->limiter, "k", 1, cost, &decision, NULL);
    atomic_fetch_add(&mine->in->statuses[status], 1);
    if (status == WEIR_OK && decision.allowed) atomic_fetch_add(&mine->in->admitted, cost);
  }
  return NULL;
}

static weir_limiter *limiter_on(fight *all, size_t store, const char *rules, int64_t deadline_us) {
  weir_limiter *limiter;
  weir_limiter_options options = {
      .size = sizeof options,
      .clock = hand_clock_as_clock(&all->clock),
      .deadline_us = deadline_us,
      .fallback = WEIR_FALLBACK_NONE,
  };
  assert_int_equal(weir_limiter_create(all->stores[store], rules, &options, &limiter, NULL),
                   WEIR_OK);
  return limiter;
}

/* Each limiter with connections of its own, as another process would have; what is inside this
 * process is one store. */
static void open_all(fight *all, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  stores_url(store, url);
  all->clock.now_us = START_US;
  for (size_t i = 0; i < LIMITERS; i++) {
    if (store == 0 && i > 0)
      all->stores[i] = all->stores[0];
    else
      assert_int_equal(weir_store_open(url, &all->stores[i], NULL), WEIR_OK);
    all->limiters[i] = limiter_on(all, i, rules, DEADLINE_US);
  }
}

static void close_all(fight *all, int store) {
  for (size_t i = 0; i < LIMITERS; i++)
    weir_limiter_destroy(all->limiters[i]);
  for (size_t i = 0; i < (store == 0 ? 1 : LIMITERS); i++)
    weir_store_close(all->stores[i]);
}

static void let_them_fight(fight *all) {
  pthread_t threads[THREADS];
  fighter fighters[THREADS];
  pthread_barrier_init(&all->start, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++) {
    fighters[i] = (fighter){all, all->limiters[i % LIMITERS]};
    assert_int_equal(pthread_create(&threads[i], NULL, take_many, &fighters[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all->start);
}

/* A thread that stalls beyond the deadline after a charge hears of an unknown outcome; inside this
 * process nothing else can go wrong. */
static void assert_statuses(const fight *all, bool embedded) {
  static const bool expected[WEIR_STATUS_COUNT] = {[WEIR_OK] = true,
                                                   [WEIR_CONTENDED] = true,
                                                   [WEIR_TIMEOUT] = true,
                                                   [WEIR_UNKNOWN_OUTCOME] = true};
  for (int i = 0; i < WEIR_STATUS_COUNT; i++) {
    bool fine = expected[i] || (i == WEIR_UNAVAILABLE && !embedded);
    if (all->statuses[i] > 0 && !fine)
      fail_msg("%d times %s", all->statuses[i], weir_status_name((weir_status)i));
  }
}

/* On a busy machine a server may have been too slow for those with hardly any time, and is asked
 * again a little later. */
static int64_t what_is_left(weir_limiter *observer) {
  const int64_t end_us = weir_monotonic_us() + 20 * SECOND_US;
  weir_decision decision;
  weir_message message = {""};
  weir_status status = WEIR_UNAVAILABLE;
  while (status == WEIR_UNAVAILABLE && weir_monotonic_us() < end_us)
    status = weir_limiter_peek(observer, "k", 1, 1, &decision, &message);
  if (status != WEIR_OK) fail_msg("%s: %s", weir_status_name(status), message.text);
  return decision.remaining;
}

static void everyone_hears_the_truth_and_the_bound_holds(void **state) {
  static const char *const rules[] = {
      "token-bucket:500/1h",
      "leaky-bucket:500/1h,queue=499",
      "quota:500/1h",
      "sliding-window:500/1h",
      "quota:600/1h;token-bucket:500/1h;fixed-window:550/1h",
      "token-bucket:500/1h;token-bucket:550/1d;leaky-bucket:600/1h,queue=599",
  };
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
      static const fight nobody;
      fight all = nobody;
      open_all(&all, store, rules[i]);
      let_them_fight(&all);
      weir_limiter *observer = limiter_on(&all, 0, rules[i], 20 * SECOND_US);
      int64_t left = what_is_left(observer);
      print_message("%s, %s: %d admitted, %d left, ok %d, contended %d, timeout %d, unknown %d\n",
                    stores[store].name, rules[i], (int)all.admitted, (int)left,
                    all.statuses[WEIR_OK], all.statuses[WEIR_CONTENDED], all.statuses[WEIR_TIMEOUT],
                    all.statuses[WEIR_UNKNOWN_OUTCOME]);
      assert_statuses(&all, store == 0);
      assert_true(all.admitted + left <= BOUND);
      weir_limiter_destroy(observer);
      close_all(&all, store);
    }
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everyone_hears_the_truth_and_the_bound_holds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
