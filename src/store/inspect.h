/* Trying out a store. Files: inspect.c goes from server to server, trial.c tries the operations of
 * one, trial_time.c what takes time: round trips, order in a write, expiry. */
#ifndef WEIR_STORE_INSPECT_H
#define WEIR_STORE_INSPECT_H

#include <weir/inspect.h>

#include "store/store.h"

/* What is inspected, and what it is held against. */
typedef struct weir_inspect_plan {
  unsigned needs; /* enum weir_need */
  int64_t timeout_us;
  int64_t deadline_us; /* of a decision */
  int64_t clock_error_us;
  weir_tell *tell;
  void *context;
} weir_inspect_plan;

/* Everything that the store's traits allow. */
unsigned weir_store_needs(const weir_store *store);

/* weir_store_inspect() with a plan. */
weir_status weir_store_inspect_plan(weir_store *store, const weir_inspect_plan *plan,
                                    weir_message *message);

/* --- for the files named above ----------------------------------------------------------------
 */

enum { WEIR_TRIAL_KEYS = 10, WEIR_TRIAL_KEY_BYTES = 128, WEIR_HOME_DIGITS = 32 };
#define WEIR_TRIAL_TTL_US INT64_C(60000000)

/* One server under trial. */
typedef struct weir_trial {
  weir_store *store;
  const weir_inspect_plan *plan;
  size_t server;
  const char *name; /* NULL: it has none */
  uint16_t home_offset;
  char keys[WEIR_TRIAL_KEYS][WEIR_TRIAL_KEY_BYTES]; /* with one home, which is of this server */
  bool answers;
  int64_t end_us;   /* when the time for what is being tried is over */
  weir_message why; /* of the last operation */
  /* A key that expires: */
  weir_operation read;
  int64_t made_us; /* just before it was made; 0: there is none */
  int64_t gone_us; /* when it was first not there; 0: not yet */
} weir_trial;

void weir_trial_tell(const weir_trial *trial, weir_finding_level level, const char *topic,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

/* An operation on one of the trial's keys, that may be changed before it runs. */
weir_operation weir_trial_operation(const weir_trial *trial, weir_operation_kind kind, size_t key);

/* So much time from now on, for all that follows together. */
void weir_trial_give_time(weir_trial *trial, int64_t us);
bool weir_trial_is_over(const weir_trial *trial);

/* Within the trial's time. */
void weir_trial_run(weir_trial *trial, weir_operation *operations, size_t count);

/* Whether the server is there at all; tells when not. */
bool weir_trial_connect(weir_trial *trial);

/* trial.c: every operation that is needed does what weir/backend.h says. */
void weir_trial_operations(weir_trial *trial);
/* Deletes what the trial made. */
void weir_trial_clean(weir_trial *trial);

/* trial_time.c */
void weir_trial_round_trips(weir_trial *trial);
void weir_trial_order(weir_trial *trial);
void weir_trial_expiry_begin(weir_trial *trial);
/* Whether something is still to be waited for. */
bool weir_trial_expiry_look(weir_trial *trial);
void weir_trial_expiry_tell(const weir_trial *trial);

#endif
