/* Processes and threads that ask for a few keys as fast as they may, and note every call. */
#ifndef TESTS_FAULTS_LOAD_H
#define TESTS_FAULTS_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <weir/weir.h>

#include "fixture/servers.h"
#include "rule/rule.h"

enum { LOAD_RULES = 3, LOAD_KEYS = 4, LOAD_PROCESSES_MOST = 8, CALLS_MOST = 1 << 19 };

#define LOAD_CLOCK_ERROR_US INT64_C(10000)

typedef struct load_call {
  int64_t begin_us, end_us; /* monotonic */
  int64_t at_us;            /* the decision's stamp */
  int64_t late_us;          /* how long after the end of its pause the thread was woken */
  uint8_t process, rule, key;
  uint8_t status, source, store_status;
  bool allowed;
  atomic_bool written;
} load_call;

typedef struct load {
  char url[SERVER_URL_BYTES];
  int processes, threads;
  int64_t deadline_us, pause_us;
  char keys[LOAD_KEYS][32];
  pid_t children[LOAD_PROCESSES_MOST];
  _Atomic int64_t offsets_us[LOAD_PROCESSES_MOST]; /* of each process's clock */
  _Atomic int running;                             /* threads that have had an answer */
  atomic_bool stopped;
  _Atomic uint64_t keys_lost, clock_steps;
  _Atomic int64_t opened_us; /* how long opening the store took while its name was not found */
  _Atomic size_t used;
  load_call calls[CALLS_MOST];
} load;

/* The text of rule number `i`. */
const char *load_rule_text(int i);
const weir_rule *load_rule(const load *of, int i);

/* Comes back when every thread has had an answer. */
void load_start(load *mine);

/* False: a process did not end, or not well. */
bool load_stop(load *mine);

/* How many calls are complete, from the first on. */
size_t load_calls(const load *of);

#endif
