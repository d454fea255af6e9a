/* The measures of one rule.
 *
 * The yardstick is the exact sliding window with the rule's limit and period: it admits a request
 * iff what was admitted in the last W, this request included, is at most L. Each decision is held
 * against it on the rule's own history, so that one difference does not count again in all that
 * follow from it:
 *
 *     wrongly allowed: admitted, and together with what the rule admitted in the last W above L
 *     wrongly denied:  denied, though together with that at most L
 *
 * Both are sums of costs. Besides, an exact window of its own history sees the same requests. A
 * stack admits a request iff it fits into the window of each of its rules. For a request of a class, L is the
 * part of it that the class may fill.
 */
#ifndef WEIR_SIMULATE_MEASURE_H
#define WEIR_SIMULATE_MEASURE_H

#include <weir/limiter.h>

#include "rule/rule.h"

/* --- the exact sliding window: every request of the last W, one by one --------------------------
 */

typedef struct weir_stamp {
  int64_t at_us;
  int64_t counted;
  int64_t admitted;
} weir_stamp;

typedef struct weir_stamps {
  weir_stamp *stamps; /* stamps[first] to stamps[end - 1], oldest first */
  size_t first;
  size_t end;
  size_t room;
  int64_t counted; /* their sums */
  int64_t admitted;
} weir_stamps;

void weir_stamps_clean_up(weir_stamps *stamps);

/* Empties them; memory for few stays. */
void weir_stamps_clear(weir_stamps *stamps);

/* Drops what is `period_us` old or older: what is left lies in an interval of the period's length
 * that ends now. */
void weir_stamps_slide(weir_stamps *stamps, int64_t now_us, int64_t period_us);

/* False: not enough memory. */
bool weir_stamps_add(weir_stamps *stamps, int64_t now_us, int64_t counted, int64_t admitted);

/* --- what is measured --------------------------------------------------------------------------
 */

enum {
  WEIR_ERROR_STEPS = 1000, /* of the histogram, per limit */
  WEIR_ERROR_BINS = 2 * WEIR_ERROR_STEPS + 1,
  WEIR_SHOWN_KEY_BYTES = 64
};

/* How the exact window sees one key: after the rule's decisions, and after its own. */
typedef struct weir_exact {
  weir_stamps ruled;
  weir_stamps own;
  /* Of a rule with classes: what it admitted of each that may still be charged; the first is of none. */
  weir_stamps classes[WEIR_CLASSES_MOST + 1];
} weir_exact;

/* What requests of one class asked for. */
typedef struct weir_class_measure {
  uint64_t requests, allowed;
  int64_t cost, cost_allowed;
  int64_t cost_kept_denied; /* denied, though it fits into what is kept from all lower classes */
} weir_class_measure;

typedef struct weir_measure {
  uint64_t requests;
  uint64_t allowed;
  uint64_t local; /* answered without the store */
  uint64_t wrongly_allowed;
  uint64_t wrongly_denied;
  uint64_t differing; /* from the exact window on its own history */
  int64_t cost;       /* all costs are sums over requests */
  int64_t cost_allowed;
  int64_t cost_wrongly_allowed;
  int64_t cost_wrongly_denied;
  int64_t cost_exactly_allowed; /* by the exact window, on its own history */
  int64_t cost_differing;       /* |admitted - exactly admitted| of each key, their sum */

  int64_t most_admitted;    /* in any W, of one key, under the rule it filled most, ... */
  int64_t most_limit;       /* ... which has this limit */
  int64_t most_admitted_us; /* when: the end of that W */
  char most_admitted_key[WEIR_SHOWN_KEY_BYTES];

  /* The errors of what the rule takes for used, after each decision, against what it admitted in
   * the last W.
   */
  uint64_t errors;
  double error_sum; /* of absolute values, in limits */
  uint64_t error_bins[WEIR_ERROR_BINS];

  uint64_t entries; /* in the store, of the key in question: sum over requests */
  uint64_t entries_most;
  weir_class_measure classes[WEIR_CLASSES_MOST + 1]; /* the first is of none */

  uint64_t state_bytes;   /* their names and values: sum over some of the requests, ... */
  uint64_t state_samples; /* ... this many */
} weir_measure;

void weir_exact_clean_up(weir_exact *exact);
void weir_exact_clear(weir_exact *exact); /* memory for few stays */

/* A request as it was decided. */
typedef struct weir_measured {
  int64_t now_us;
  const char *key;
  size_t key_length;
  int64_t cost;
  unsigned class; /* of the stack's; 0: none */
} weir_measured;

/* Takes in one decision; `exact`: one for each rule of the stack. False: not enough memory. */
bool weir_measure_decision(weir_measure *measure, const weir_stack *stack, weir_exact *exact,
                           const weir_measured *request, const weir_decision *decision);

/* The limit of an exact window for requests of this class. */
int64_t weir_measure_limit(const weir_rule *rule, unsigned class);

/* Whether a request counts that was decided so: with count=all a denied one does as well, unless it
 * never fits. */
bool weir_measure_counts(const weir_rule *rule, int64_t cost, bool allowed);

/* The amount that an answer's `remaining` should say is used. As that is never below 0, what denied
 * requests have added beyond the limit cannot be seen in it, and is no error of it; what was
 * admitted beyond is. Beyond the limit of a class others may be admitted. */
int64_t weir_measure_truth(const weir_rule *rule, unsigned class, const weir_stamps *ruled);

/* Whether the rule says what it takes for used: windows and quotas. */
bool weir_measure_has_estimate(const weir_rule *rule);

/* Thousandths of the limit, rounded down, that 99 of 100 errors do not exceed. */
int weir_measure_error_p99(const weir_measure *measure);

#endif
