/* Counts what all processes of a run admitted, in memory that they share: by lane, key and window.
 *
 * A lane is traffic under one limiter: its rule, its policy, its callers. The lanes of a run share
 * a store and what happens to it. */
#ifndef TESTS_OUTAGE_TALLY_H
#define TESTS_OUTAGE_TALLY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/weir.h>

enum {
  PROCESSES = 8,
  LANES_MOST = 20,
  KEYS_MOST = 24,
  WINDOWS_MOST = 640,
  WAITS_MOST = 4096, /* of a process */
  HELD_MOST = 1 << 16,
  WINDOW_US = 1000000
};

typedef enum lane_keys_kind {
  KEYS_ANYWHERE,
  KEYS_STAY, /* each comes to one process: as many as there are */
  KEYS_MOVE  /* they do, but from the fault on the first comes to all */
} lane_keys_kind;

typedef enum lane_callers {
  CALLERS_TAKE,    /* take, and that is it */
  CALLERS_SETTLE,  /* take ten, find that they needed one, and give back nine */
  CALLERS_RESERVE, /* reserve, and cancel three of four */
  CALLERS_HOLD     /* each thread holds one place after another, as fast as it gets them */
} lane_callers;

struct lane {
  const char *name;
  const char *rule;
  int64_t limit;  /* in a window of a second, or in the day */
  double demand;  /* of all keys on average, a second, in limits; where places are held, nothing */
  int keys;       /* 0: one */
  bool is_uneven; /* keys by Zipf; half of them at one process alone, half at all by 50/20/10/.. */
  bool is_day; /* the rule has a window of a day: key 0 begins late, after others have warmed up */
  bool is_beside_before; /* its worst window is compared with the worst before the fault, if that
                            is above the limit */
  lane_keys_kind kept;
  uint32_t peers; /* told; 0: not */
  lane_callers callers;
  unsigned fallback; /* WEIR_FALLBACK_... */
  int threads;       /* of each process; 0: two */
  int64_t work_us;   /* how long a place is held, on average */

  /* The goals; 0: none. Those of totals are in limits: the worst of all runs, and the median. */
  double worst, median;
  double unused_percent; /* of the window of the outage in which least is admitted */
  double denied_percent; /* of what an ideal limiter admits around the outage, was denied */
};

/* The counts of a lane, a key and a window. Costs; what was given back is taken off. */
struct cell {
  _Atomic int64_t by_store, by_policy;
  _Atomic int64_t asked;          /* requests */
  _Atomic int64_t due;            /* that came while fewer than the limit had come */
  _Atomic int64_t wrongly_denied; /* of those due */
};

/* The answers to a lane, once the fault has begun. */
struct answers {
  _Atomic int64_t by_store, by_policy_allowed, by_policy_denied, late_allowed, late_denied, errors;
  _Atomic int64_t wrongly_denied[WEIR_SOURCE_LATE + 1]; /* by source */
};

struct wait_span {
  int64_t begin_us, end_us; /* weir_monotonic_us() */
};

/* A place of a lane, by the real time: until it was left, or was believed no more. */
struct holding {
  size_t lane;
  int64_t from_us, until_us;
  bool is_by_policy;
};

struct tally {
  pthread_barrier_t ready;
  int64_t origin_us;               /* of window 0, by the real time */
  _Atomic bool over;               /* the children end */
  _Atomic bool day_begun;          /* key 0 of the lanes of a day is asked for */
  _Atomic int64_t fault_us;        /* weir_monotonic_us(); 0: all is well so far */
  _Atomic int64_t first_policy_us; /* the same, of the first answer by a policy; 0: none */
  struct cell cells[LANES_MOST][KEYS_MOST][WINDOWS_MOST];
  struct answers answers[LANES_MOST];
  struct wait_span waits[PROCESSES][WAITS_MOST]; /* requests that took longer than WAIT_LEAST_US */
  _Atomic size_t waited[PROCESSES];
  _Atomic size_t held;
  struct holding holdings[HELD_MOST];
  _Atomic uint64_t
      shares[LANES_MOST][PROCESSES]; /* of each process before the fault, in millionths */
};

enum { WAIT_LEAST_US = 10000, WAITS_END_US = 80000 };

int lane_keys(const struct lane *lane);

/* The cell of a stamp; NULL for one outside of the run. */
struct cell *tally_cell(struct tally *tally, const struct lane *lane, size_t number, int key,
                        int64_t stamp_us);

/* Counts one decision and what of its cost its caller kept. */
void tally_note(struct tally *tally, const struct lane *lane, size_t number, int key,
                const weir_decision *decision, int64_t kept);
void tally_note_wait(struct tally *tally, size_t process, int64_t begin_us, int64_t end_us);

/* A place was left. */
void tally_note_held(struct tally *tally, const struct holding *holding);

/* The most that were held at once under a lane, at or after that time; all processes have ended. */
struct most_held {
  int64_t all, by_policy;
  int64_t at_us;
};
struct most_held tally_most_held(const struct tally *tally, size_t number, int64_t after_us);

/* The admissions of key 0 of the lane in window 0; `by_store` alone, or in all. */
int64_t tally_of_day(struct tally *tally, size_t number, bool by_store);

/* When requests waited. One of a process may at any time, as a probe does. */
struct waiting {
  int64_t end_us; /* from then on no two of a process waited at once; from the fault on */
  size_t late;    /* how many did that began later than WAITS_END_US */
};

/* Those that began within so long after the fault. */
struct waiting tally_waiting(struct tally *tally, int64_t within_us);

#endif
