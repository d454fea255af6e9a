/* Limits of what is in flight, and what they would have denied: requests with their durations, each
 * of which holds its place from its begin to its end.
 *
 * This counts places itself: a rule whose processes live and whose store answers denies exactly what
 * would be more than its limit, whatever its period (docs/guarantees.md, "In flight"). */
#ifndef WEIR_SIMULATE_HELD_H
#define WEIR_SIMULATE_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <weir/status.h>

#include "simulate/recommend.h"
#include "simulate/simulation.h"

/* --- requests with their durations --------------------------------------------------------------
 *
 * Requests with their durations, sorted by when they began: a log has them by when they ended. The
 * part that is being sorted has a bound; more of it goes to a temporary file, 24 bytes for each
 * request. */

enum { WEIR_SPANS_MOST = 1 << 19 }; /* in memory: 12 MiB, and as much while they are sorted */

typedef struct weir_span {
  int64_t begin_us, duration_us;
  uint32_t key; /* the caller's */
  uint32_t cost;
} weir_span;

typedef struct weir_spans {
  uint64_t count;

  /* In memory at once: WEIR_SPANS_MOST, or what was set before the first; 16 at least. */
  size_t most;
  weir_span *memory; /* the latest; once there is a file: what was read of it */
  size_t used, room;
  FILE *file; /* `most` at a time, each time sorted, and in the end all; NULL: memory is enough */
  uint64_t written; /* to the file */
  uint64_t read;    /* of all, in this pass */
  size_t at;        /* in memory, of this pass */
  int error;        /* an errno: of the file, or ENOMEM; 0: none */
} weir_spans;

/* Begins zeroed. */
void weir_spans_clean_up(weir_spans *spans);

/* False, for good: weir_spans_check() says why. */
bool weir_spans_add(weir_spans *spans, const weir_span *span);

/* After the last. */
bool weir_spans_sort(weir_spans *spans);

/* Goes through all of them, once more with each begin(): in order of their begins, of those that
 * begin at the same time the shorter first. False: there is no more, or weir_spans_check() says why. */
void weir_spans_begin(weir_spans *spans);
bool weir_spans_next(weir_spans *spans, weir_span *span);

/* WEIR_OK, WEIR_NO_MEMORY, or WEIR_BAD_ARGUMENT where the temporary file is not what it should be. */
weir_status weir_spans_check(const weir_spans *spans, weir_message *message);

/* --- limits -------------------------------------------------------------------------------------
 */

typedef struct weir_held {
  weir_record record; /* of the keys alone; a peak is the most that a key had in flight at once */
  weir_spans spans;
  int64_t first_us, last_us; /* from the first begin to the last end */
  int64_t most, most_us;     /* in flight at once of all keys together, and when first */
  size_t keys_most;          /* that had anything in flight at once */
} weir_held;

/* Begins zeroed. */
void weir_held_clean_up(weir_held *held);

/* WEIR_NO_MEMORY, or as weir_spans_check(). A cost is 1 to 2^31. */
weir_status weir_held_add(weir_held *held, const weir_span *request, const char *key,
                          size_t key_length, weir_message *message);

/* After the last: finds peaks. */
weir_status weir_held_finish(weir_held *held, weir_message *message);

/* WEIR_BAD_RULE where it is not one in-flight rule. */
weir_status weir_held_check_rule(const char *rule, weir_message *message);

/* Writes into `simulation`, as if it had been fed with these requests, what of it is told of rules
 * that are held: decisions, and who is denied. It is to be cleaned up, whatever the answer. */
weir_status weir_held_simulate(weir_held *held, const char *const *rules, size_t rule_count,
                               weir_simulation *simulation, weir_message *message);

/* As weir_recommend(). */
weir_status weir_held_recommend(weir_held *held, const char *rule, const weir_goal *goal,
                                weir_recommendation *found, weir_message *message);

/* The most that a key (NULL: all together) had in flight in each of `count` equal parts of the time. */
weir_status weir_held_history(weir_held *held, const weir_record_key *key, int64_t *most,
                              size_t count, weir_message *message);

#endif
