/* A bucket's loss by leases: a process alone admits nearly as much as without, whatever the rate,
 * the lease, and the way in which requests come. Both ask the same at the same times; the bucket
 * without leases holds what the other one has left beside its reserve. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "limiter/leases.h"
#include "limiter/stores.h"

typedef struct bucket {
  int64_t limit, period_us, burst, lease_us;
} bucket;

static const bucket buckets[] = {
    {1000, 86400 * SECOND_US, 1000, 10000},  {6000, 3600 * SECOND_US, 1000, 10000},
    {6000, 3600 * SECOND_US, 1000, 1000000}, {600, 60 * SECOND_US, 100, 20000},
    {100, SECOND_US, 100, 250000},           {400, SECOND_US, 1000, 10000},
    {1000, SECOND_US, 1000, 10000},          {1000, SECOND_US, 1000, 250000},
    {10000, SECOND_US, 1000, 20000},         {5000, SECOND_US, 20000, 1000000},
    {200000, SECOND_US, 8000, 10000},
};
enum { BUCKETS = sizeof buckets / sizeof buckets[0] };

typedef struct two {
  world leased, plain;
  int64_t admitted, admitted_plain;
  int64_t at_us;
} two;

static void open_two(two *t, int store, uint32_t processes, const bucket *b) {
  char url[STORE_URL_BYTES];
  char rule[128];
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US, .processes = processes};
  int64_t reserve = (b->limit * b->lease_us + b->period_us - 1) / b->period_us;
  *t = (two){.admitted = 0};
  snprintf(rule, sizeof rule, "token-bucket:%lld/%llds,burst=%lld,lease=%lldms",
           (long long)b->limit, (long long)(b->period_us / SECOND_US), (long long)b->burst,
           (long long)b->lease_us / 1000);
  world_open(&t->leased, stores_url(store, url), rule, &options);
  snprintf(rule, sizeof rule, "token-bucket:%lld/%llds,burst=%lld", (long long)b->limit,
           (long long)(b->period_us / SECOND_US), (long long)(b->burst - reserve));
  world_open(&t->plain, stores_url(store, url), rule, &options);
}

static void ask(two *t, int64_t cost) {
  world_set(&t->leased, t->at_us);
  world_set(&t->plain, t->at_us);
  if (world_take(&t->leased, "k", cost).allowed) t->admitted += cost;
  if (world_take(&t->plain, "k", cost).allowed) t->admitted_plain += cost;
}

/* --- ways to come ------------------------------------------------------------------------------
 */

static int64_t drained_in(const bucket *b, int64_t us) {
  return b->limit * us / b->period_us;
}

/* As was seen to lose half: a burst just longer apart than a lease. */
static void bursts_of_20(two *t, const bucket *b, int requests) {
  for (int i = 0; i < requests; i++) {
    if (i % 20 == 0) t->at_us += 3 * b->lease_us;
    ask(t, 1);
  }
}

/* All that drains between two of them, and half as much again. */
static void bursts_above_the_rate(two *t, const bucket *b, int requests) {
  int64_t size = drained_in(b, 3 * b->lease_us) * 3 / 2 + 8;
  for (int i = 0; i < requests; i++) {
    if (i % size == 0) t->at_us += 3 * b->lease_us;
    ask(t, 1);
  }
}

/* One after another at twice the rate, of any small cost. */
static void steadily(two *t, const bucket *b, int requests) {
  uint32_t seed = 3;
  int64_t apart_us = b->period_us / b->limit * 2;
  if (apart_us < 4) apart_us = 4;
  for (int i = 0; i < requests; i++) {
    t->at_us += chance(&seed, (uint32_t)(apart_us < 100000 ? apart_us : 100000));
    ask(t, 1 + (i % 3 == 0 ? chance(&seed, 4) : 0));
  }
}

/* Busy for half a lease or more, quiet for a while: what is held when it gets quiet is lost. */
static void busy_and_quiet(two *t, const bucket *b, int requests) {
  uint32_t seed = 5;
  for (int i = 0; i < requests; i++) {
    t->at_us += chance(&seed, (uint32_t)(b->lease_us / 50));
    if (chance(&seed, 60) == 0) t->at_us += b->lease_us + chance(&seed, 2 * (uint32_t)b->lease_us);
    ask(t, 1);
  }
}

static void (*const ways[])(two *, const bucket *, int) = {bursts_of_20, bursts_above_the_rate,
                                                           steadily, busy_and_quiet};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* Alone, whether it was told so or not. */
static void loses_one_in_a_hundred_at_most(void **state) {
  (void)state;
  for (int turn = 0; turn <= STORES; turn++) {
    int store = turn % STORES;
    uint32_t processes = turn < STORES ? 1 : 64;
    uint64_t used = 0;
    int64_t least = 1000;
    for (int i = 0; i < BUCKETS; i++) {
      for (int way = 0; way < WAYS; way++) {
        two t;
        open_two(&t, store, processes, &buckets[i]);
        ways[way](&t, &buckets[i], store == 0 ? 8000 : 800);
        int64_t part = t.admitted * 1000 / t.admitted_plain;
        if (part < least) least = part;
        if (t.admitted * 100 < t.admitted_plain * 99)
          fail_msg("%s, %lld in %lld s, burst %lld, lease %lld us, way %d: %lld of %lld",
                   stores[store].name, (long long)buckets[i].limit,
                   (long long)(buckets[i].period_us / SECOND_US), (long long)buckets[i].burst,
                   (long long)buckets[i].lease_us, way, (long long)t.admitted,
                   (long long)t.admitted_plain);
        used += lease_counts(t.leased.limiter).lease_used;
        world_close(&t.leased);
        world_close(&t.plain);
      }
    }
    print_message("%s: %lld of 1000 at the least; %llu used from leases\n", stores[store].name,
                  (long long)least, (unsigned long long)used);
    assert_true(used > 500);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loses_one_in_a_hundred_at_most)};
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
