/* Many processes and one key, in virtual time: each has a limiter of its own, the library's, and a
 * thread for each of its requests. */
#ifndef TESTS_SCALE_SCALE_H
#define TESTS_SCALE_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/limiter.h>

typedef struct scale_plan {
  const char *rule;
  bool no_leases; /* lease= then only shrinks a bucket */
  bool raises;    /* the store does, as Redis; else it swaps, as memcached */
  int64_t clients;
  int64_t asked_per_s; /* by all together */
  int64_t burst;       /* so many requests of one client come at once */
  int64_t uneven;      /* each client asks as often as so many of the next; 0 and 1: all alike */
  int64_t warm_up_us;  /* before it, nothing is counted */
  int64_t span_us;
  int64_t round_trip_us;
  int64_t deadline_us;    /* of a decision; 0: the default */
  int64_t command_ns;     /* of the server's time */
  int64_t lost_ppm;       /* of questions, and of answers */
  int64_t skew_us;        /* clocks are that far ahead or behind, at the most */
  int64_t crash_every_us; /* each process dies that often, and begins anew; 0: never */
  int64_t forget_at_us;   /* the server is started anew, empty; 0: never */
  uint64_t seed;

  /* Told of every answer, if not NULL, before anything else happens at that time. */
  void (*told)(void *context, size_t client, int64_t at_us, weir_status status,
               const weir_decision *decision);
  void *told_context;
} scale_plan;

typedef struct scale_figures {
  int64_t asked;
  int64_t allowed; /* to one process beside its store, which is asked all of it in order */
  int64_t admitted;
  int64_t failed; /* without a decision */
  int64_t died;   /* with their process */
  int64_t waited; /* for the store */
  int64_t commands;
  int64_t p50_us; /* until the answer */
  int64_t p99_us;
  int64_t fair_ppm; /* Jain's index of admitted / asked, by client */
  int64_t most;     /* admitted: in any period, or of a bucket beyond what flowed in; all times */
  int64_t bound;    /* as docs/guarantees.md says */
} scale_figures;

weir_status scale_run(const scale_plan *plan, scale_figures *figures, weir_message *message);

#endif
