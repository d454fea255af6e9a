/* Threads that use, hold, refill and give back leases of a few keys in every way at once, while
 * time goes on: what was admitted and not given back is charged, no more and no less, when all that
 * is held has gone back. On every store. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/leases.h"
#include "limiter/stores.h"

enum { THREADS = 6, STEPS = 400, KEYS = 3, LIMITERS_MOST = 2, LIMIT = 1500 };

typedef struct crowd {
  world w;
  weir_limiter *limiters[LIMITERS_MOST];
  size_t limiter_count;
  pthread_barrier_t start;
  _Atomic int64_t after_start_us;
  _Atomic int64_t used[KEYS];
  _Atomic int failures;
} crowd;

typedef struct member {
  crowd *in;
  uint64_t seed;
} member;

static const char *const keys[KEYS] = {"a", "b", "c"};

static int64_t random_below(uint64_t *seed, int64_t most) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return (int64_t)(*seed % (uint64_t)most);
}

static bool is_ok(crowd *in, weir_status status) {
  if (status != WEIR_OK) atomic_fetch_add(&in->failures, 1);
  return status == WEIR_OK;
}

static void take(member *mine, weir_limiter *limiter, size_t key, bool up_to) {
  weir_decision decision = {0};
  int64_t cost = random_below(&mine->seed, 4) == 0 ? 1 + random_below(&mine->seed, 20) : 1;
  weir_status status = (up_to ? weir_limiter_take_up_to : weir_limiter_take)(limiter, keys[key], 1,
                                                                             cost, &decision, NULL);
  if (!is_ok(mine->in, status) || !decision.allowed) return;
  if (decision.cost < 1 || decision.cost > cost || (!up_to && decision.cost != cost))
    atomic_fetch_add(&mine->in->failures, 1);
  atomic_fetch_add(&mine->in->used[key], decision.cost);
  int64_t back = random_below(&mine->seed, 8) == 0 ? random_below(&mine->seed, cost + 1) : 0;
  if (back == 0 || back > decision.cost) return;
  if (is_ok(mine->in, weir_limiter_refund(limiter, keys[key], 1, back, &decision, NULL)))
    atomic_fetch_sub(&mine->in->used[key], back);
}

static void reserve(member *mine, weir_limiter *limiter, size_t key) {
  weir_request request = {.key = keys[key], .key_length = 1, .cost = 3};
  weir_reservation *reservation;
  if (!is_ok(mine->in, weir_limiter_reserve(limiter, &request, &reservation, NULL))) return;
  if (reservation == NULL) return;
  if (random_below(&mine->seed, 2) == 0)
    is_ok(mine->in, weir_reservation_cancel(reservation, NULL));
  else
    atomic_fetch_add(&mine->in->used[key], 3);
  weir_reservation_destroy(reservation);
}

static void decide_some(member *mine, weir_limiter *limiter) {
  weir_request requests[8];
  for (size_t i = 0; i < 8; i++)
    requests[i] =
        (weir_request){.key = keys[i % KEYS],
                       .key_length = 1,
                       .cost = 1 + (int64_t)i / 3,
                       .flags = i == 4 ? WEIR_REQUEST_PEEK : (i == 5 ? WEIR_REQUEST_UP_TO : 0)};
  weir_limiter_decide(limiter, requests, 8, NULL);
  for (size_t i = 0; i < 8; i++)
    if (is_ok(mine->in, requests[i].status) && requests[i].decision.allowed && i != 4)
      atomic_fetch_add(&mine->in->used[i % KEYS], requests[i].decision.cost);
}

/* Now and then time goes on: past some leases, never past the cell. */
static void go_on(member *mine) {
  crowd *in = mine->in;
  int64_t step_us = random_below(&mine->seed, 3000);
  world_set(&in->w, atomic_fetch_add(&in->after_start_us, step_us) + step_us);
}

static void *run(void *context) {
  member *mine = context;
  crowd *in = mine->in;
  pthread_barrier_wait(&in->start);
  for (int i = 0; i < STEPS; i++) {
    weir_limiter *limiter =
        in->limiters[(size_t)random_below(&mine->seed, 100) % in->limiter_count];
    size_t key = (size_t)random_below(&mine->seed, KEYS);
    int64_t what = random_below(&mine->seed, 100);
    if (what < 2)
      is_ok(in, weir_limiter_return_leases(limiter, NULL));
    else if (what < 6)
      reserve(mine, limiter, key);
    else if (what < 16)
      decide_some(mine, limiter);
    else if (what < 24)
      go_on(mine);
    else
      take(mine, limiter, key, what < 40);
  }
  return NULL;
}

static void let_all_run(crowd *all) {
  pthread_t threads[THREADS];
  member members[THREADS];
  pthread_barrier_init(&all->start, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++) {
    members[i] = (member){all, UINT64_C(0x9e3779b97f4a7c15) * (i + 1)};
    assert_int_equal(pthread_create(&threads[i], NULL, run, &members[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&all->start);
}

static void check(crowd *all, const char *rules, const char *store) {
  weir_limiter_counts sum = {0};
  if (all->failures > 0) fail_msg("%s on %s: %d failures", rules, store, all->failures);
  for (size_t i = 0; i < all->limiter_count; i++) {
    assert_int_equal(weir_limiter_return_leases(all->limiters[i], NULL), WEIR_OK);
    weir_limiter_counts counts = lease_counts(all->limiters[i]);
    assert_int_equal(lease_held(all->limiters[i]), 0);
    assert_int_equal(counts.lease_lost, 0);
    assert_int_equal(counts.keys_lost, 0);
    assert_true(counts.lease_used > 0 && counts.lease_returned > 0);
    sum.leased += counts.leased;
    sum.lease_used += counts.lease_used;
    sum.by_store += counts.by_store;
    sum.by_local += counts.by_local;
  }
  print_message("%s on %s: leased %llu, used %llu; %llu by the store, %llu not\n", rules, store,
                (unsigned long long)sum.leased, (unsigned long long)sum.lease_used,
                (unsigned long long)sum.by_store, (unsigned long long)sum.by_local);
  for (size_t key = 0; key < KEYS; key++)
    assert_int_equal(all->used[key] + lease_store_room(&all->w, rules, keys[key]), LIMIT);
}

static void run_with(const char *rules, int store, size_t limiter_count) {
  static crowd all;
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 60 * SECOND_US,
                                  .processes = (uint32_t)limiter_count};
  all = (crowd){.limiter_count = limiter_count};
  world_open(&all.w, stores_url(store, url), rules, &options);
  all.limiters[0] = all.w.limiter;
  if (limiter_count > 1) all.limiters[1] = world_limiter(&all.w, rules, &options);
  let_all_run(&all);
  check(&all, rules, stores[store].name);
  if (limiter_count > 1) weir_limiter_destroy(all.limiters[1]);
  world_close(&all.w);
}

static void what_threads_used_is_charged(void **state) {
  static const char *const rules[] = {
      "fixed-window:1500/1h,lease=20ms", "sliding-window:1500/1h,lease=20ms",
      "quota:1500/1h,lease=20ms",
      "fixed-window:1500/1h,lease=20ms;sliding-window:1500/1h,lease=5ms;quota:1500/1h,lease=50ms"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    for (int store = 0; store < STORES; store++)
      for (size_t limiters = 1; limiters <= LIMITERS_MOST; limiters++)
        run_with(rules[i], store, limiters);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_threads_used_is_charged)};
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
