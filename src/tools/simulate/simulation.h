/* A simulation: requests through any number of rules, or stacks of rules that are one decision, each
 * beside the exact window; and one rule and one key as a curve.
 *
 * The rules run on their own machines (driver.h), on time that comes with the requests. It takes
 * memory for the keys that were asked for lately, and for those that were ever denied.
 */
#ifndef WEIR_SIMULATE_SIMULATION_H
#define WEIR_SIMULATE_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simulate/keys.h"
#include "table.h"

/* --- what was denied ----------------------------------------------------------------------------
 *
 * How often each key was denied: exact counts, one entry for each key that ever was. */

typedef struct weir_denied_key {
  char *key;
  size_t key_length;
  uint64_t denied;
  int64_t amount;
  int64_t first_us; /* when it was denied for the first time */
} weir_denied_key;

typedef struct weir_denied_keys {
  weir_hash_table table; /* of weir_denied_key; begins zeroed */
} weir_denied_keys;

void weir_denied_keys_clean_up(weir_denied_keys *keys);

/* NULL: it has none. */
const weir_denied_key *weir_denied_keys_find(const weir_denied_keys *keys, const char *key,
                                             size_t key_length, uint32_t mark);

/* `mark`: of the key, always the same. False: not enough memory. */
bool weir_denied_keys_add(weir_denied_keys *keys, const char *key, size_t key_length, uint32_t mark,
                          int64_t now_us);

/* Adds to what the key has as `amount`; false: not enough memory. */
bool weir_denied_keys_amount(weir_denied_keys *keys, const char *key, size_t key_length,
                             uint32_t mark, int64_t amount);

/* The absolute values of all amounts, summed. */
int64_t weir_denied_keys_spread(const weir_denied_keys *keys);

/* The `most` entries denied most often, in falling order, ties by key; how many there are. */
size_t weir_denied_keys_top(const weir_denied_keys *keys, const weir_denied_key **top, size_t most);

/* --- simulations --------------------------------------------------------------------------------
 */

enum { WEIR_SIMULATION_RULES_MOST = 16 };

typedef struct weir_simulation {
  size_t rule_count;
  const char *texts[WEIR_SIMULATION_RULES_MOST]; /* of the rules, as given */
  weir_driver drivers[WEIR_SIMULATION_RULES_MOST];
  weir_measure measures[WEIR_SIMULATION_RULES_MOST];
  weir_denied_keys denied[WEIR_SIMULATION_RULES_MOST];
  weir_denied_keys differences[WEIR_SIMULATION_RULES_MOST]; /* of keys that were forgotten */
  bool lost;                                                /* one of them, for want of memory */
  bool counts_all; /* set after init: count every key's requests too, in: */
  weir_denied_keys asked;
  weir_keys keys;
  uint64_t requests;
  int64_t first_us;
  int64_t now_us;        /* of the latest request */
  uint64_t out_of_order; /* requests with an earlier time than one before; they count as now */
  int64_t furthest_us;   /* the most that one of these was late */
} weir_simulation;

/* Rules are texts of one rule or one stack each, and must stay. On error, which is that of the rule, nothing is
 * left behind. */
weir_status weir_simulation_init(weir_simulation *simulation, const char *const *rules,
                                 size_t rule_count, const weir_limiter_options *options,
                                 weir_message *message);
void weir_simulation_clean_up(weir_simulation *simulation);

/* The first of stack i. */
static inline const weir_rule *weir_simulation_rule(const weir_simulation *simulation, size_t i) {
  return &simulation->drivers[i].stack.rules[0];
}

typedef struct weir_simulated {
  int64_t time_us;
  const char *key;
  size_t key_length;
  int64_t cost;
  const char *class_name;
  size_t class_length; /* 0: it is of none */
} weir_simulated;

/* One request through every rule. WEIR_BAD_COST where one takes no such cost; WEIR_BAD_ARGUMENT where one has
 * classes, and not this one; WEIR_NO_MEMORY. Rules without classes take no notice of it. */
weir_status weir_simulation_request(weir_simulation *simulation, const weir_simulated *request,
                                    weir_message *message);

/* Which class of a stack this is. */
weir_status weir_simulation_find_class(const weir_stack *stack, const char *name, size_t length,
                                       unsigned *number, weir_message *message);

/* After the last request: adds up what is known of keys only when they are done. WEIR_NO_MEMORY. */
weir_status weir_simulation_finish(weir_simulation *simulation);

/* --- what one rule takes for used and what really is, over a stretch of time, for one key -------- */

typedef enum weir_curve_mark {
  WEIR_MARK_NONE, /* nothing was asked: a look between requests */
  WEIR_MARK_RIGHT,
  WEIR_MARK_WRONGLY_ALLOWED,
  WEIR_MARK_WRONGLY_DENIED
} weir_curve_mark;

typedef struct weir_curve_point {
  int64_t at_us;
  int64_t truth;    /* counted in the last period: weir_measure_truth() */
  int64_t estimate; /* limit - remaining */
  weir_curve_mark mark;
} weir_curve_point;

typedef struct weir_curve_request {
  int64_t at_us;
  int64_t cost;
  char class_name[WEIR_NAME_MOST + 1]; /* "": none */
} weir_curve_request;

typedef struct weir_curve {
  const char *rule;
  const weir_limiter_options *options;
  const weir_curve_request *requests;
  size_t request_count;
  int64_t from_us;
  int64_t until_us;
  int looks;
  void (*draw)(void *context, const weir_curve_point *point);
  void *context;
} weir_curve;

/* Goes through the requests, which are in order of time, and looks `looks` times at even distances
 * between from_us and until_us. Calls `draw` for every point in that stretch, in order of time.
 * Errors are those of the rule and of its costs, and WEIR_NO_MEMORY. */
weir_status weir_curve_draw(const weir_curve *curve, weir_message *message);

/* --- what requests cost in truth ----------------------------------------------------------------
 *
 * The real costs of requests, beside what they said before: how much a rule would have let them
 * spend where it is settled, and where it is only looked at first and charged afterwards.
 *
 * The real cost of a request is known when time goes on: requests of the same time are under way at
 * once. A settled rule runs on its own machine. To look first is to admit while an exact window of
 * the same limit has anything left, and to charge it what was spent: no store can do better so. */

/* In cost, of one stack. The cost that was spent in a period is that of one key, under the rule it
 * filled most, which has this limit. */
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
