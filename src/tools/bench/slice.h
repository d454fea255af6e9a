/* One slice of work: what one process does for one contestant, and the memory it shares with the
 * process that waits for it. */
#ifndef WEIR_BENCH_SLICE_H
#define WEIR_BENCH_SLICE_H

#include <stdatomic.h>

#include "bench/bench.h"
#include "bench/raw.h"

/* One process's share. */
typedef struct weir_bench_share {
  atomic_bool ready; /* warm, and waiting for `go` */
  atomic_bool done;
  weir_status status; /* WEIR_OK, or why this process gave up */
  weir_message message;
  uint64_t decisions, admitted, local, late;               /* while the clock ran */
  uint64_t warm_admitted;                                  /* before */
  uint64_t rounds;                                         /* while the clock ran, as are: */
  uint64_t leased, lease_used, lease_returned, lease_lost; /* in cost */
  int64_t elapsed_us;
  int64_t lived_us; /* since the first decision of all */
  int64_t client_ns;
  weir_bench_histogram latencies; /* of calls, a batch being one */
} weir_bench_share;

typedef struct weir_bench_slice {
  const weir_bench_plan *plan;
  const weir_bench_target *target;
  const char *url;
  bool baseline;
  bool pair;  /* weir_bench_contestant.pair */
  bool holds; /* a rule is held: a call enters a place, which is left behind it */
  int64_t time_us;
  char prefix[48];         /* of its keys */
  atomic_int_fast64_t *go; /* shared: when to begin, weir_monotonic_us(); 0: not yet */
} weir_bench_slice;

/* In the process that works: everything from opening the store to closing it. */
void weir_bench_slice_work(const weir_bench_slice *slice, unsigned process,
                           weir_bench_share *share);

/* Whatever signals come. */
void weir_bench_sleep_us(int64_t us);

#endif
