/* How often a limiter did what.
 *
 * Threads take places in turn, and each adds to the cache lines of its place, which it shares with
 * few others: counting costs one addition and no waiting. A reader adds the places up. */
#ifndef WEIR_METRICS_COUNTS_H
#define WEIR_METRICS_COUNTS_H

#include <weir/limiter.h>

enum { WEIR_THREAD_PLACES = 16, WEIR_CACHE_LINE_BYTES = 64 };

typedef struct weir_counts weir_counts;

/* The calling thread's place, below WEIR_THREAD_PLACES; the same for its life. Other things that
 * threads should not share are kept by place as well. */
unsigned weir_thread_place(void);

/* NULL: no memory. */
weir_counts *weir_counts_create(void);
void weir_counts_destroy(weir_counts *counts);

/* From now on the calling thread adds to a line that it shares with few, if there is memory for
 * one, no longer to that of all threads. Counting itself never allocates. */
void weir_counts_part(weir_counts *counts);

/* One request is over. `decision` is that of a request to take, and NULL for others; it is read
 * only where the status is WEIR_OK. */
void weir_counts_add(weir_counts *counts, weir_status status, const weir_decision *decision);

/* So many requests to take are over that the store has decided. */
void weir_counts_add_decided(weir_counts *counts, bool allowed, unsigned number);

/* The work of requests: so many times operations left together and were waited for together, so
 * many counters were found to hold less than they must have, and so many requests waited for
 * servers, each so long; less than 0 is 0. */
typedef struct weir_work {
  unsigned round_trips;
  unsigned keys_lost;
  unsigned limits_lost, tiers_unknown;
  unsigned waits;
  int64_t wait_us;
} weir_work;
void weir_counts_add_work(weir_counts *counts, const weir_work *work);

/* The fates of cost that was charged ahead. */
typedef enum weir_lease_count {
  WEIR_LEASE_CHARGED,
  WEIR_LEASE_USED,
  WEIR_LEASE_RETURNED,
  WEIR_LEASE_LOST,
  WEIR_LEASE_COUNTS
} weir_lease_count;
void weir_counts_add_lease(weir_counts *counts, weir_lease_count what, int64_t cost);

/* The fates of cost that was admitted without the store, under each rule. */
typedef enum weir_outage_count {
  WEIR_OUTAGE_OWED,
  WEIR_OUTAGE_PAID,
  WEIR_OUTAGE_UNPAID,
  WEIR_OUTAGE_COUNTS
} weir_outage_count;
void weir_counts_add_outage(weir_counts *counts, weir_outage_count what, int64_t cost);

/* The fates of places that are held. */
typedef enum weir_place_count {
  WEIR_PLACES_ENTERED,
  WEIR_PLACES_DENIED,
  WEIR_PLACES_RELEASED,
  WEIR_PLACES_LOST,
  WEIR_PLACES_RENEWALS, /* payments: one for each key and period */
  WEIR_PLACE_COUNTS
} weir_place_count;
void weir_counts_add_places(weir_counts *counts, weir_place_count what, uint64_t number);

/* The outcomes of a settlement, in cost under all rules. */
typedef enum weir_settled_count {
  WEIR_SETTLED_UP,
  WEIR_SETTLED_DOWN,
  WEIR_SETTLED_CUT,
  WEIR_SETTLED_COUNTS
} weir_settled_count;
void weir_counts_add_settled(weir_counts *counts, weir_settled_count what, int64_t cost);

/* The sum of all, but for `size` and clock_steps, which are left as they are. */
void weir_counts_read(const weir_counts *counts, weir_limiter_counts *sum);

#endif
