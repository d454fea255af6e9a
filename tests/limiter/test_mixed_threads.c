/* Threads that use one key in every way at once: when all are done, what was admitted and not given
 * back is charged, under every rule. On every store. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

enum { THREADS = 6, STEPS = 120, RULES = 3, LIMIT = 300 };

static const char stack[] = "fixed-window:300/1h;quota:300/1h;token-bucket:300/1h";
static const char *const rules[RULES] = {"fixed-window:300/1h", "quota:300/1h",
                                         "token-bucket:300/1h"};

typedef struct crowd {
  weir_limiter *limiters[2];
  pthread_barrier_t start;
  _Atomic int64_t used[RULES];
  _Atomic int64_t open[RULES]; /* of those, may or may not have gone back */
  _Atomic int failures;
  _Atomic int failures_to_give_back;
} crowd;

typedef struct member {
  crowd *in;
  uint64_t seed;
} member;

static int64_t random_below(uint64_t *seed, int64_t most) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return (int64_t)(*seed % (uint64_t)most);
}

static void add(_Atomic int64_t *sums, const int64_t *costs) {
  for (size_t i = 0; i < RULES; i++)
    atomic_fetch_add(&sums[i], costs[i]);
}

static void use_one(crowd *in, int64_t cost) {
  add(in->used, (const int64_t[]){cost, cost, cost});
}

static bool is_ok(crowd *in, weir_status status) {
  if (status != WEIR_OK) atomic_fetch_add(&in->failures, 1);
  return status == WEIR_OK;
}

/* Others can keep a bucket's part from going back. */
static void note_given_back(crowd *in, weir_status status, const int64_t *costs) {
  const int64_t back[RULES] = {-costs[0], -costs[1], -costs[2]};
  if (status == WEIR_OK) {
    add(in->used, back);
    return;
  }
  atomic_fetch_add(&in->failures_to_give_back, 1);
  if (status != WEIR_CONTENDED && status != WEIR_UNKNOWN_OUTCOME)
    atomic_fetch_add(&in->failures, 1);
  if (status == WEIR_UNKNOWN_OUTCOME) add(in->open, costs);
}

static void take_and_give_some_back(member *mine, weir_limiter *limiter, bool up_to) {
  weir_decision decision = {0};
  int64_t cost = 1 + random_below(&mine->seed, 5);
  weir_status status =
      (up_to ? weir_limiter_take_up_to : weir_limiter_take)(limiter, "k", 1, cost, &decision, NULL);
  if (!is_ok(mine->in, status) || !decision.allowed) return;
  use_one(mine->in, decision.cost);
  cost = random_below(&mine->seed, decision.cost + 1);
  if (cost == 0) return;
  status = weir_limiter_refund(limiter, "k", 1, cost, &decision, NULL);
  note_given_back(mine->in, status, (const int64_t[]){cost, cost, cost});
}

static void reserve_and_end(member *mine, weir_limiter *limiter) {
  int64_t costs[RULES] = {1 + random_below(&mine->seed, 3), random_below(&mine->seed, 3),
                          random_below(&mine->seed, 3)};
  weir_request request = {.key = "k", .key_length = 1, .costs = costs};
  weir_reservation *reservation;
  if (!is_ok(mine->in, weir_limiter_reserve(limiter, &request, &reservation, NULL))) return;
  if (reservation != NULL) {
    add(mine->in->used, costs);
    if (random_below(&mine->seed, 3) == 0)
      note_given_back(mine->in, weir_reservation_cancel(reservation, NULL), costs);
    else
      is_ok(mine->in, weir_reservation_commit(reservation, NULL));
  }
  weir_reservation_destroy(reservation);
}

static void decide_some(member *mine, weir_limiter *limiter) {
  int64_t costs[RULES] = {0, 2, 1};
  weir_request requests[4] = {{.cost = 2},
                              {.costs = costs},
                              {.cost = 1, .flags = WEIR_REQUEST_PEEK},
                              {.cost = 3, .flags = WEIR_REQUEST_UP_TO}};
  for (size_t i = 0; i < 4; i++) {
    requests[i].key = "k";
    requests[i].key_length = 1;
  }
  weir_limiter_decide(limiter, requests, 4, NULL);
  for (size_t i = 0; i < 4; i++) {
    if (!is_ok(mine->in, requests[i].status) || !requests[i].decision.allowed || i == 2) continue;
    if (i == 1)
      add(mine->in->used, costs);
    else
      use_one(mine->in, requests[i].decision.cost);
  }
}

static void *run(void *context) {
  member *mine = context;
  pthread_barrier_wait(&mine->in->start);
  for (int i = 0; i < STEPS; i++) {
    weir_limiter *limiter = mine->in->limiters[random_below(&mine->seed, 2)];
    switch (random_below(&mine->seed, 4)) {
      case 0:
        take_and_give_some_back(mine, limiter, false);
        break;
      case 1:
        take_and_give_some_back(mine, limiter, true);
        break;
      case 2:
        reserve_and_end(mine, limiter);
        break;
      default:
        decide_some(mine, limiter);
    }
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

static void check(world *w, const crowd *all, const char *name, bool exactly) {
  weir_limiter_options options = {.deadline_us = 60 * SECOND_US};
  if (all->failures > 0) fail_msg("%s: %d failures", name, all->failures);
  for (size_t i = 0; i < RULES; i++) {
    weir_limiter *observer = world_limiter(w, rules[i], &options);
    int64_t left = limiter_peek(observer, "k", 1).remaining;
    print_message("%s, %s: %d used, %d left; %d times not given back\n", name, rules[i],
                  (int)all->used[i], (int)left, all->failures_to_give_back);
    if (exactly)
      assert_int_equal(all->used[i] + left, LIMIT);
    else
      assert_true(all->used[i] - all->open[i] + left <= LIMIT);
    weir_limiter_destroy(observer);
  }
}

static void run_on(int store, bool two_limiters) {
  static const crowd nobody;
  crowd all = nobody;
  world w;
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 60 * SECOND_US};
  world_open(&w, stores_url(store, url), stack, &options);
  all.limiters[0] = w.limiter;
  all.limiters[1] = two_limiters ? world_limiter(&w, stack, &options) : w.limiter;
  let_all_run(&all);
  check(&w, &all, stores[store].name, !two_limiters);
  if (!two_limiters) assert_int_equal(all.failures_to_give_back, 0);
  if (two_limiters) weir_limiter_destroy(all.limiters[1]);
  world_close(&w);
}

static void of_one_limiter_are_charged_exactly_what_they_used(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    run_on(store, false);
}

/* Two keep each other, now and then, from giving back to a bucket: too much is charged then, and
 * said, and never too little. */
static void of_two_limiters_are_charged_no_less_than_they_used(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    run_on(store, true);
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_one_limiter_are_charged_exactly_what_they_used),
      cmocka_unit_test(of_two_limiters_are_charged_no_less_than_they_used),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
