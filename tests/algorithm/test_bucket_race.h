/* Processes whose clocks differ, at one key: random interleavings of their operations, with faults.
 */
#ifndef TESTS_ALGORITHM_TEST_BUCKET_RACE_H
#define TESTS_ALGORITHM_TEST_BUCKET_RACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "test_bucket_store.h"

enum {
  PROCESSES = 3,
  ADMITTED_MOST = 2048,
  OWED_MOST = 2048,
  RULES_MOST = 2,
  RACES = 400,
  DEADLINE_US = 20000,
  LONGEST_WAIT_US = 30000,
  SKEW_US = 10000
};
#define START_US INT64_C(1700000000000000)

struct scene {
  const char *rules;
  unsigned traits;
  bool hides_versions;
  bool waits;      /* some requests accept a delay */
  bool gives_back; /* some are refunded or cancelled */
  bool faults;     /* answers are lost or late, operations are not sent, a process stops */
  bool rolls;      /* an epoch begins meanwhile */
  int64_t skew_us; /* furthest that a clock is from real time */
  int64_t start_us;
  int64_t length_us;
};

/* An admission, by its process's own clock. */
struct admitted {
  int64_t cost, at_us, start_us;
  int64_t ends[WEIR_RULES_MOST];
  bool given_back;
};

/* The charges that are not admitted, or are being given back, from one step to another: P. */
struct owed {
  size_t rule;
  int64_t cost;
  int64_t from_step, to_step;
};

struct process {
  struct client client;
  int64_t offset_us;
  int64_t deadline_us;
  int64_t charged[RULES_MOST]; /* landed, not decided */
  int64_t first_step;          /* when the first of it landed */
  int64_t ends[CLIENT_REQUESTS_MOST][WEIR_RULES_MOST];
  bool stopped, lost;
};

struct race {
  const struct scene *scene;
  unsigned first_seed, seed;
  weir_stack stack;
  struct fake_store store;
  struct process processes[PROCESSES];
  struct admitted admitted[ADMITTED_MOST];
  struct owed owed[OWED_MOST];
  size_t admitted_count, owed_count;
  int64_t real_us, step;
  int64_t patience_us; /* until a deadline */
  int64_t rest;        /* about as many steps between two requests of a process */
};

/* Over all races of a test, so that none of it passes for lack of what it tries. */
struct tally {
  unsigned admitted, denied, delayed, conflicts, overshoots, given_back, lost, late, handovers;
};

/* From start to end; those admitted are sorted by when they may begin. The caller frees it. */
struct race *race_run(const struct scene *scene, unsigned seed, struct tally *tally);
void race_free(struct race *race);

/* P: most that was owed of a rule at one time. */
int64_t race_most_owed(const struct race *race, size_t rule);

#endif
