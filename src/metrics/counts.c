#include "metrics/counts.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "metrics/thread.h"

enum { SOURCES = WEIR_SOURCE_LATE + 1 };

_Static_assert((int)WEIR_STATUS_COUNT <= (int)WEIR_STATUSES_MOST, "every status is counted");

/* The first line has the decisions. */
typedef struct weir_counts_shard {
  _Alignas(WEIR_CACHE_LINE_BYTES) _Atomic uint64_t decided[SOURCES][2]; /* denied, allowed */
  _Alignas(WEIR_CACHE_LINE_BYTES) _Atomic uint64_t round_trips;
  _Atomic uint64_t changed; /* WEIR_OK without a decision */
  _Atomic uint64_t keys_lost;
  _Atomic uint64_t failed[WEIR_STATUS_COUNT];
} weir_counts_shard;

struct weir_counts {
  weir_counts_shard common; /* of threads that have not parted; those that have: */
  weir_counts_shard *_Atomic shards[WEIR_THREAD_PLACES];
};

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

/* Of threads that come first at once one has its shard kept. */
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

static void add(_Atomic uint64_t *count, uint64_t number) {
  atomic_fetch_add_explicit(count, number, memory_order_relaxed);
}

/* The store did not decide; why not is counted as well. */
static bool is_of_policy(weir_source source) {
  return source == WEIR_SOURCE_FALLBACK || source == WEIR_SOURCE_LATE;
}

void weir_counts_add(weir_counts *counts, weir_status status, const weir_decision *decision) {
  weir_counts_shard *shard = own_shard(counts);
  if (status != WEIR_OK) {
    add(&shard->failed[status], 1);
  } else if (decision == NULL) {
    add(&shard->changed, 1);
  } else {
    add(&shard->decided[decision->source][decision->allowed], 1);
    if (is_of_policy(decision->source)) add(&shard->failed[decision->store_status], 1);
  }
}

void weir_counts_round_trip(weir_counts *counts) {
  add(&own_shard(counts)->round_trips, 1);
}

void weir_counts_lose(weir_counts *counts, unsigned keys) {
  add(&own_shard(counts)->keys_lost, keys);
}

static uint64_t get(const _Atomic uint64_t *count) {
  return atomic_load_explicit(count, memory_order_relaxed);
}

static void add_shard(const weir_counts_shard *shard, weir_limiter_counts *sum) {
  uint64_t *sources[SOURCES] = {[WEIR_SOURCE_STORE] = &sum->by_store,
                                [WEIR_SOURCE_LOCAL] = &sum->by_local,
                                [WEIR_SOURCE_FALLBACK] = &sum->by_fallback,
                                [WEIR_SOURCE_LATE] = &sum->by_late};
  for (int source = 0; source < SOURCES; source++) {
    uint64_t denied = get(&shard->decided[source][0]);
    uint64_t allowed = get(&shard->decided[source][1]);
    *sources[source] += denied + allowed;
    sum->denied += denied;
    sum->allowed += allowed;
    if (!is_of_policy((weir_source)source)) sum->statuses[WEIR_OK] += denied + allowed;
  }
  sum->statuses[WEIR_OK] += get(&shard->changed);
  sum->keys_lost += get(&shard->keys_lost);
  sum->round_trips += get(&shard->round_trips);
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
