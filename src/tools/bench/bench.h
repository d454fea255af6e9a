/* How fast stores decide, compared in one run: the same work on each, in turns. */
#ifndef WEIR_BENCH_BENCH_H
#define WEIR_BENCH_BENCH_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/weir.h>

/* --- samples ------------------------------------------------------------------------------------
 *
 * A benchmark draws its keys before its clock runs, so that drawing costs nothing then, and puts
 * its latencies here. */

/* --- which key comes next -------------------------------------------------------------------- */

typedef enum weir_bench_pattern {
  WEIR_BENCH_UNIFORM, /* every key as often */
  WEIR_BENCH_HOT,     /* one key */
  WEIR_BENCH_ZIPF     /* the i-th key in proportion to 1/i */
} weir_bench_pattern;

enum { WEIR_BENCH_KEY_BYTES = 64, WEIR_BENCH_DRAWN = 1 << 18 };

typedef struct weir_bench_key {
  uint8_t length;
  char text[WEIR_BENCH_KEY_BYTES - 1];
} weir_bench_key;

/* `count` keys that begin with `prefix` (at most 48 bytes); NULL: no memory. */
weir_bench_key *weir_bench_keys_make(const char *prefix, uint32_t count);

/* WEIR_BENCH_DRAWN numbers below `count`, in the order of use; NULL: no memory. */
uint32_t *weir_bench_keys_draw(weir_bench_pattern pattern, uint32_t count, uint64_t seed);

/* --- latencies -------------------------------------------------------------------------------
 *
 * How many calls took how long, within 1/128 of the truth, in memory of a fixed size that processes
 * can share.
 */

/* 128 steps for each power of two of nanoseconds, up to 2^43 (2.4 hours). */
enum { WEIR_BENCH_STEP_BITS = 7, WEIR_BENCH_POWERS = 37 };
enum { WEIR_BENCH_STEPS = WEIR_BENCH_POWERS << WEIR_BENCH_STEP_BITS };

typedef struct weir_bench_histogram {
  uint64_t count;
  uint64_t steps[WEIR_BENCH_STEPS];
} weir_bench_histogram;

/* `times` calls of this length; what is longer than the last step counts there. */
void weir_bench_histogram_add(weir_bench_histogram *histogram, int64_t ns, uint64_t times);

void weir_bench_histogram_merge(weir_bench_histogram *into, const weir_bench_histogram *from);

/* The time that `share` (0 to 1) of the calls did not exceed, in microseconds; 0 for no calls. */
double weir_bench_histogram_us(const weir_bench_histogram *histogram, double share);

/* --- a run --------------------------------------------------------------------------------------
 */

enum {
  WEIR_BENCH_STORES_MOST = 8,
  WEIR_BENCH_VIAS_MOST = 8,
  WEIR_BENCH_TARGETS_MOST = WEIR_BENCH_STORES_MOST + WEIR_BENCH_VIAS_MOST,
  WEIR_BENCH_CONTESTANTS_MOST = 2 * WEIR_BENCH_TARGETS_MOST,
  WEIR_BENCH_ROUNDS_MOST = 101,
  WEIR_BENCH_THREADS_MOST = 256,
  WEIR_BENCH_PROCESSES_MOST = 64,
  WEIR_BENCH_KEYS_MOST = 1000000
};

typedef struct weir_bench_plan {
  const char *const *stores; /* URLs */
  size_t store_count;
  const char *const *vias; /* URLs of servers of weir: redis://HOST/LIMITER, and so on */
  size_t via_count;
  const char *rule; /* of the stores; NULL where there are none */
  weir_limiter_options limiter;
  unsigned processes, threads; /* of each process */
  uint32_t keys;
  weir_bench_pattern pattern;
  unsigned batch;         /* keys of one call; 1: weir_limiter_take, as where a rule is held */
  const char *class_name; /* that each request of the stores says; NULL: none */
  const char *tenant;     /* the same; then keys are pools */
  int64_t duration_us;    /* of each contestant, in all rounds together */
  unsigned rounds;
  bool baseline; /* beside each store a raw loop on its first server, beside RESP one of PING */
  bool pair;     /* that of Redis sends what a charge must: SET NX and INCRBY, not one INCRBY */
  /* Called after every slice of work; may be NULL. */
  void (*progress)(void *context, size_t done, size_t all);
  void *context;
  const volatile sig_atomic_t *stop; /* not 0: no further turn; NULL: it never is */
} weir_bench_plan;

/* One slice: a contestant in one round. Figures that are not known are negative. */
typedef struct weir_bench_figures {
  double rate; /* decisions, or increments, a second */
  double p50_us, p99_us, p999_us;
  double commands;    /* for each decision, as the servers count them */
  double round_trips; /* for each decision: rounds of operations that left together */
  double client_us;   /* processor time of all clients, for each decision */
  double local;       /* share of the decisions made without the store */
  double late;        /* share of the requests that got no decision in time, or were contended */
  double admitted;    /* of the slice with its warm-up */
  double allowed;     /* the most that the rule can have admitted meanwhile */
  /* In cost, as weir_limiter_counts has them; not known where nothing is leased. */
  double leased, lease_used, lease_returned, lease_lost;
} weir_bench_figures;

typedef struct weir_bench_contestant {
  const char *url;
  size_t target; /* its place among the stores and, behind them, the servers of weir */
  bool baseline; /* the raw loop on the first server of the URL */
  bool pair;     /* it sends two commands an increment */
  weir_bench_figures rounds[WEIR_BENCH_ROUNDS_MOST];
  weir_bench_figures median; /* each figure's own, over the rounds */
  /* Where a store has a raw loop beside it: each figure over the raw loop's of the same round, and
   * the median of these. Negative where one of them is not known. A change of the machine's pace
   * changes both. */
  weir_bench_figures ratio;
} weir_bench_contestant;

typedef struct weir_bench {
  bool leases;             /* the rule has lease=, and the limiters' options let them */
  bool via_failed;         /* where it fails: what the message says is of a server, of no store */
  unsigned rounds;         /* that are whole: all of the plan's, unless it was stopped */
  size_t contestant_count; /* each store and server, followed by its raw loop if there is one */
  weir_bench_contestant contestants[WEIR_BENCH_CONTESTANTS_MOST];
} weir_bench;

/* The member of the figures at `offset`, which is a double like all of them. */
double weir_bench_figure_at(const weir_bench_figures *figures, size_t offset);

/* Runs the plan. Every slice has processes of its own, which are gone when it ends, and keys of
 * its own; a tenth of it, before the clock runs, is to warm up. The message says what went wrong:
 * WEIR_BAD_URL, WEIR_BAD_RULE and so on as weir_store_open() and weir_limiter_create() answer, or
 * what the first failing decision was answered. One that is stopped has the figures of the rounds
 * that were whole, and is WEIR_UNAVAILABLE where none was. Forks: the caller must have one thread.
 */
weir_status weir_bench_run(const weir_bench_plan *plan, weir_bench *bench, weir_message *message);

#endif
