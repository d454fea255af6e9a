/* Looks for the requests that make a rule admit most in any interval of its period.
 *
 * Traffic is a few trains: requests at equal distances, each admitted as far as it fits. Beginning
 * with trains at random, the search climbs: it moves one, by periods or by a microsecond, changes
 * its cost, length or pace, adds or drops one, and keeps what admits no less. It knows nothing of
 * how a rule counts, and asks the rule's own machine.
 */
#ifndef WEIR_SIMULATE_ATTACK_H
#define WEIR_SIMULATE_ATTACK_H

#include <weir/limiter.h>

enum { WEIR_ATTACK_TRAINS_MOST = 6 };

typedef struct weir_attack_train {
  int64_t at_us; /* of the first request, from an edge of the rule's windows on */
  int64_t gap_us;
  int64_t requests;
  int64_t cost; /* that each asks for, or as much of it as fits */
  int64_t admitted;
} weir_attack_train;

typedef struct weir_attack_result {
  int64_t limit;
  int64_t period_us;
  int64_t bound;     /* proved: docs/guarantees.md, docs/accuracy.md */
  int64_t most;      /* found in any interval of the period */
  uint64_t traffics; /* that were tried, and ... */
  uint64_t requests; /* ... how many requests they were together */
  size_t train_count;
  weir_attack_train trains[WEIR_ATTACK_TRAINS_MOST]; /* the best traffic, in order of time */
} weir_attack_result;

/* Searches until `requests` requests were decided; the same on every machine. Errors are those of
 * the rule, and WEIR_NO_MEMORY. */
weir_status weir_attack_search(const char *rule, const weir_limiter_options *options,
                               uint64_t requests, weir_attack_result *result,
                               weir_message *message);

#endif
