/* One cell of the matrix: a fault, a store, what happened, and what to think of it. */
#ifndef TESTS_FAULTS_CELL_H
#define TESTS_FAULTS_CELL_H

#include "faults/bound.h"
#include "faults/load.h"
#include "faults/plain.h"
#include "faults/site.h"

enum { STEPS = 12, CELL_LOSSES_MOST = 256, CELL_SPOILED_MOST = 4096 };

/* How the program was asked to run. */
typedef struct settings {
  int processes, threads;
  int64_t deadline_us, pause_us;
  int64_t warm_us, hold_us, after_us; /* before, during and after the fault, at the least */
  int64_t grace_us;                   /* how far past the deadline a call may be */
  bool is_strict; /* at the 99.9th percentile, and recovery within a second; else at the worst */
} settings;

typedef struct cell cell;

/* A row. `step` is called STEPS times while the fault lasts. */
typedef struct fault {
  const char *name;
  bool by_way;     /* through the proxy that fails */
  bool evicts;     /* on servers without memory to spare */
  bool is_silence; /* meanwhile no answer can come from the server that fails */
  bool in_memory;  /* also within a process */
  bool slow_name;  /* the server is found by a name that takes its time */
  void (*begin)(cell *c);
  void (*step)(cell *c, int number);
  void (*end)(cell *c);
} fault;

struct cell {
  const fault *row;
  const site *place;
  const settings *how;
  load *calls;
  bool hit[LOAD_KEYS];           /* keys on the server that fails */
  int64_t on_begin_us, on_us;    /* monotonic: the fault begins, and is complete */
  int64_t off_begin_us, off_us;  /* it ends, and the server is back for certain */
  loss losses[CELL_LOSSES_MOST]; /* of all keys that are hit, by stamp */
  size_t loss_count;
  int64_t began_us;   /* real time */
  loss strays[STEPS]; /* stamps of times at which clocks were wrong */
  size_t stray_count;
  int steps_back; /* of the clock, further than is held back */
  pressure *weight;
  pid_t presser;
  eviction_watch *watch;
  pid_t watcher;
  plain_key *spoiled;
  size_t spoiled_count;
  pid_t opener;
  int64_t opened_us; /* how long opening a store took whose name is not found */
  bool is_back;      /* so far as cell_is_back() tells, in time */
  bool ended;        /* every process of the load ended well */

  /* The findings. */
  size_t call_count, late, odd; /* late: by source; odd: a status that no caller should see */
  int64_t p999_us, longest_us;
  int64_t late_p999_us, late_us; /* the same of what the machine does to a thread that sleeps */
  size_t by_source[WEIR_SOURCE_LATE + 1];        /* during the fault, for keys that are hit */
  size_t spared_by_source[WEIR_SOURCE_LATE + 1]; /* the same for the others */
  worst store, fallback;                         /* over all rules and keys, the worst of each */
  size_t evicted;
  uint64_t keys_lost;
  int64_t back_us; /* until the last process had an answer from the store; -1: never */
  const char *bad; /* NULL: as promised */
};

/* Counts that the servers made between these moments (real time) may be forgotten. */
void cell_lose(cell *c, int64_t from_us, int64_t to_us);

/* Whether every process has had an answer from the store since the server is back, and every key
 * was admitted once more. */
bool cell_is_back(const cell *c);

/* Fills in the findings; the load has ended. */
void cell_check(cell *c);

#endif
