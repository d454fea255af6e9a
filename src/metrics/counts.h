/* How often a limiter did what. Each thread adds to a cache line that it shares with few others, so
 * that counting costs one addition and no waiting; who reads adds them up. */
#ifndef WEIR_METRICS_COUNTS_H
#define WEIR_METRICS_COUNTS_H

#include <weir/limiter.h>

typedef struct weir_counts weir_counts;

/* NULL: no memory. */
weir_counts *weir_counts_create(void);
void weir_counts_destroy(weir_counts *counts);

/* From now on the calling thread adds to a line that it shares with few, if there is memory for
 * one, no longer to that of all threads. Counting itself never allocates. */
void weir_counts_part(weir_counts *counts);

/* One request is over. `decision` is that of a request to take, and NULL for others; it is read
 * only where the status is WEIR_OK. */
void weir_counts_add(weir_counts *counts, weir_status status, const weir_decision *decision);

/* Operations have left together, to be waited for together. */
void weir_counts_round_trip(weir_counts *counts);

/* So many counters held less than they must have. */
void weir_counts_lose(weir_counts *counts, unsigned keys);

/* The sum of all, but for `size` and clock_steps, which are left as they are. */
void weir_counts_read(const weir_counts *counts, weir_limiter_counts *sum);

#endif
