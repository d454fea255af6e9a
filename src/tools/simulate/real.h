/* What requests cost in truth, beside what they said before: how much a rule would have let them spend
 * where it is settled, and where it is only looked at first and charged afterwards.
 *
 * What a request cost is known when time goes on: requests of the same time are under way at once. A
 * settled rule runs on its own machine. To look first is to admit while an exact window of the same
 * limit has anything left, and to charge it what was spent: no store can do better so. */
#ifndef WEIR_SIMULATE_REAL_H
#define WEIR_SIMULATE_REAL_H

#include "simulate/keys.h"
#include "simulate/simulation.h"

/* In cost, of one stack. What was spent in a period is that of one key, under the rule it filled most,
 * which has this limit. */
typedef struct weir_real_spent {
  int64_t cost;
  int64_t most, most_limit;
} weir_real_spent;

typedef struct weir_real_sums {
  weir_real_spent settled, looked;
  int64_t cut; /* settled: what was spent and is charged nowhere */
} weir_real_sums;

typedef struct weir_reals {
  size_t rule_count;
  weir_driver drivers[WEIR_SIMULATION_RULES_MOST];
  weir_real_sums sums[WEIR_SIMULATION_RULES_MOST];
  int64_t asked; /* what all requests cost in truth */
  weir_keys keys;
  int64_t now_us;                     /* of the latest requests, */
  struct weir_real_request *underway; /* which are under way */
  size_t count, room;
} weir_reals;

/* `options`: as for a limiter. WEIR_BAD_RULE for a rule that cannot be settled. */
weir_status weir_reals_init(weir_reals *reals, const char *const *rules, size_t rule_count,
                            const weir_limiter_options *options, weir_message *message);
void weir_reals_clean_up(weir_reals *reals);

/* One request, of which `cost` was known before, and `real` (0 or more) behind it. */
weir_status weir_reals_request(weir_reals *reals, int64_t time_us, const char *key,
                               size_t key_length, int64_t cost, int64_t real,
                               weir_message *message);

/* All have ended. */
weir_status weir_reals_finish(weir_reals *reals, weir_message *message);

#endif
