#include "metrics/counts.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { SOURCES = WEIR_SOURCE_UNLIMITED + 1 };

_Static_assert((int)WEIR_STATUS_COUNT <= (int)WEIR_STATUSES_MOST, "every status is counted");

/* The first line has the decisions. */
typedef struct weir_counts_shard {
  _Alignas(WEIR_CACHE_LINE_BYTES) _Atomic uint64_t decided[SOURCES][2]; /* denied, allowed */
  _Alignas(WEIR_CACHE_LINE_BYTES) _Atomic uint64_t round_trips;
  _Atomic uint64_t changed; /* WEIR_OK without a decision */
  _Atomic uint64_t keys_lost, limits_lost, tiers_unknown;
  _Atomic uint64_t failed[WEIR_STATUS_COUNT];
  _Atomic uint64_t leases[WEIR_LEASE_COUNTS];
  _Atomic uint64_t outages[WEIR_OUTAGE_COUNTS];
  _Atomic uint64_t places[WEIR_PLACE_COUNTS];
  _Atomic uint64_t settled[WEIR_SETTLED_COUNTS], settled_costs[WEIR_SETTLED_COUNTS];
  _Atomic uint64_t waits[WEIR_WAIT_BUCKETS];
  _Atomic uint64_t waited_us;
} weir_counts_shard;

struct weir_counts {
  weir_counts_shard common; /* of threads that have not parted; those that have: */
  weir_counts_shard *_Atomic shards[WEIR_THREAD_PLACES];
};

unsigned weir_thread_place(void) {
  static atomic_uint threads;
  static _Thread_local unsigned place; /* from 1; 0: none yet */
  if (place == 0)
    place = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % WEIR_THREAD_PLACES;
  return place - 1;
}

weir_counts *weir_counts_create(void) {
  weir_counts *made = aligned_alloc(WEIR_CACHE_LINE_BYTES, sizeof *made);
  if (made != NULL) *made = (weir_counts){0};
  return made;
}

void weir_counts_destroy(weir_counts *counts) {
  if (counts == NULL) return;
  for (int i = 0; i < WEIR_THREAD_PLACES; i++)
    free(counts->shards[i]);
  free(counts);
}

/* Where several threads come first at once, the shard of one is kept. */
void weir_counts_part(weir_counts *counts) {
  weir_counts_shard *_Atomic *place = &counts->shards[weir_thread_place()];
  weir_counts_shard *none = NULL;
  if (atomic_load_explicit(place, memory_order_relaxed) != NULL) return;
  weir_counts_shard *made = aligned_alloc(WEIR_CACHE_LINE_BYTES, sizeof *made);
  if (made == NULL) return;
  *made = (weir_counts_shard){0};
  if (!atomic_compare_exchange_strong(place, &none, made)) free(made);
}

static weir_counts_shard *own_shard(weir_counts *counts) {
  weir_counts_shard *shard =
      atomic_load_explicit(&counts->shards[weir_thread_place()], memory_order_acquire);
  return shard != NULL ? shard : &counts->common;
}

/* A policy's decision has two counts: one as a decision, and one for why the store made none. */
void weir_counts_add(weir_counts *counts, weir_status status, const weir_decision *decision) {
  weir_counts_shard *shard = own_shard(counts);
  _Atomic uint64_t *count = &shard->failed[status];
  if (status == WEIR_OK && decision != NULL)
    count = &shard->decided[decision->source][decision->allowed];
  else if (status == WEIR_OK)
    count = &shard->changed;
  atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
  if (status != WEIR_OK || decision == NULL || decision->store_status == WEIR_OK) return;
  atomic_fetch_add_explicit(&shard->failed[decision->store_status], 1, memory_order_relaxed);
}

void weir_counts_add_decided(weir_counts *counts, bool allowed, unsigned number) {
  atomic_fetch_add_explicit(&own_shard(counts)->decided[WEIR_SOURCE_STORE][allowed], number,
                            memory_order_relaxed);
}

void weir_counts_add_lease(weir_counts *counts, weir_lease_count what, int64_t cost) {
  if (cost > 0)
    atomic_fetch_add_explicit(&own_shard(counts)->leases[what], (uint64_t)cost,
                              memory_order_relaxed);
}

void weir_counts_add_outage(weir_counts *counts, weir_outage_count what, int64_t cost) {
  if (cost > 0)
    atomic_fetch_add_explicit(&own_shard(counts)->outages[what], (uint64_t)cost,
                              memory_order_relaxed);
}

void weir_counts_add_places(weir_counts *counts, weir_place_count what, uint64_t number) {
  atomic_fetch_add_explicit(&own_shard(counts)->places[what], number, memory_order_relaxed);
}

void weir_counts_add_settled(weir_counts *counts, weir_settled_count what, int64_t cost) {
  weir_counts_shard *shard = own_shard(counts);
  if (cost <= 0) return;
  atomic_fetch_add_explicit(&shard->settled[what], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&shard->settled_costs[what], (uint64_t)cost, memory_order_relaxed);
}

static const int64_t bounds_us[] = {100,   200,   500,    1000,   2000,   5000,   10000,
                                    20000, 50000, 100000, 200000, 500000, 1000000};
enum { BOUNDS = sizeof bounds_us / sizeof bounds_us[0] };
_Static_assert((int)BOUNDS + 1 == (int)WEIR_WAIT_BUCKETS, "the last has no bound");

int64_t weir_wait_bound_us(size_t bucket) {
  return bucket < BOUNDS ? bounds_us[bucket] : INT64_MAX;
}

void weir_counts_add_work(weir_counts *counts, const weir_work *work) {
  weir_counts_shard *shard = own_shard(counts);
  if (work->round_trips > 0)
    atomic_fetch_add_explicit(&shard->round_trips, work->round_trips, memory_order_relaxed);
  if (work->keys_lost > 0)
    atomic_fetch_add_explicit(&shard->keys_lost, work->keys_lost, memory_order_relaxed);
  if (work->limits_lost > 0)
    atomic_fetch_add_explicit(&shard->limits_lost, work->limits_lost, memory_order_relaxed);
  if (work->tiers_unknown > 0)
    atomic_fetch_add_explicit(&shard->tiers_unknown, work->tiers_unknown, memory_order_relaxed);
  if (work->waits == 0) return;
  size_t bucket = 0;
  int64_t wait_us = work->wait_us > 0 ? work->wait_us : 0;
  while (bucket < BOUNDS && wait_us > bounds_us[bucket])
    bucket++;
  atomic_fetch_add_explicit(&shard->waits[bucket], work->waits, memory_order_relaxed);
  atomic_fetch_add_explicit(&shard->waited_us, (uint64_t)wait_us * work->waits,
                            memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *count) {
  return atomic_load_explicit(count, memory_order_relaxed);
}

static void add_shard(const weir_counts_shard *shard, weir_limiter_counts *sum) {
  uint64_t *sources[SOURCES] = {[WEIR_SOURCE_STORE] = &sum->by_store,
                                [WEIR_SOURCE_LOCAL] = &sum->by_local,
                                [WEIR_SOURCE_FALLBACK] = &sum->by_fallback,
                                [WEIR_SOURCE_LATE] = &sum->by_late,
                                [WEIR_SOURCE_UNLIMITED] = &sum->by_unlimited};
  for (int source = 0; source < SOURCES; source++) {
    if (sources[source] == NULL) continue; /* no decision has it when it is made */
    uint64_t denied = get(&shard->decided[source][0]);
    uint64_t allowed = get(&shard->decided[source][1]);
    *sources[source] += denied + allowed;
    sum->denied += denied;
    sum->allowed += allowed;
    bool by_policy = source == WEIR_SOURCE_FALLBACK || source == WEIR_SOURCE_LATE;
    if (!by_policy) sum->statuses[WEIR_OK] += denied + allowed;
  }
  sum->statuses[WEIR_OK] += get(&shard->changed);
  sum->keys_lost += get(&shard->keys_lost);
  sum->limits_lost += get(&shard->limits_lost);
  sum->tiers_unknown += get(&shard->tiers_unknown);
  sum->round_trips += get(&shard->round_trips);
  sum->leased += get(&shard->leases[WEIR_LEASE_CHARGED]);
  sum->lease_used += get(&shard->leases[WEIR_LEASE_USED]);
  sum->lease_returned += get(&shard->leases[WEIR_LEASE_RETURNED]);
  sum->lease_lost += get(&shard->leases[WEIR_LEASE_LOST]);
  sum->owed += get(&shard->outages[WEIR_OUTAGE_OWED]);
  sum->paid += get(&shard->outages[WEIR_OUTAGE_PAID]);
  sum->unpaid += get(&shard->outages[WEIR_OUTAGE_UNPAID]);
  sum->places_entered += get(&shard->places[WEIR_PLACES_ENTERED]);
  sum->places_denied += get(&shard->places[WEIR_PLACES_DENIED]);
  sum->places_released += get(&shard->places[WEIR_PLACES_RELEASED]);
  sum->places_lost += get(&shard->places[WEIR_PLACES_LOST]);
  sum->renewals += get(&shard->places[WEIR_PLACES_RENEWALS]);
  sum->settled_up += get(&shard->settled[WEIR_SETTLED_UP]);
  sum->settled_down += get(&shard->settled[WEIR_SETTLED_DOWN]);
  sum->settled_cut += get(&shard->settled[WEIR_SETTLED_CUT]);
  sum->settled_up_cost += get(&shard->settled_costs[WEIR_SETTLED_UP]);
  sum->settled_down_cost += get(&shard->settled_costs[WEIR_SETTLED_DOWN]);
  sum->settled_cut_cost += get(&shard->settled_costs[WEIR_SETTLED_CUT]);
  sum->waited_us += get(&shard->waited_us);
  for (int bucket = 0; bucket < WEIR_WAIT_BUCKETS; bucket++)
    sum->waits[bucket] += get(&shard->waits[bucket]);
  for (int status = 0; status < WEIR_STATUS_COUNT; status++)
    sum->statuses[status] += get(&shard->failed[status]);
}

void weir_counts_read(const weir_counts *counts, weir_limiter_counts *sum) {
  *sum = (weir_limiter_counts){.size = sum->size, .clock_steps = sum->clock_steps};
  add_shard(&counts->common, sum);
  for (int i = 0; i < WEIR_THREAD_PLACES; i++) {
    const weir_counts_shard *shard = atomic_load_explicit(&counts->shards[i], memory_order_acquire);
    if (shard != NULL) add_shard(shard, sum);
  }
}
