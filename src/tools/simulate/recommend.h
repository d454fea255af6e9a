/* Which limit is enough: the smallest that denies no more than a goal allows. */
#ifndef WEIR_SIMULATE_RECOMMEND_H
#define WEIR_SIMULATE_RECOMMEND_H

#include <weir/limiter.h>

#include "simulate/driver.h"
#include "simulate/record.h"

enum {
  WEIR_RULE_SHARE_WHOLE = 1000000,
  WEIR_RECOMMENDED_TEXT_BYTES = 256,
  WEIR_RECOMMEND_REQUESTS_MOST = 500000 /* decided to try smaller limits: a part of a second */
};

/* The denials of a limit; those of one key alone, where only that matters. */
typedef struct weir_denied_count {
  uint64_t requests;
  uint64_t keys;
} weir_denied_count;

/* The denials that are allowed. */
typedef struct weir_goal {
  bool of_keys;    /* keys that are ever denied, not requests */
  int64_t share;   /* of WEIR_RULE_SHARE_WHOLE */
  const char *key; /* this one is never denied, and the others do not matter; NULL: all matter */
} weir_goal;

/* The one key that matters; NULL: all do. WEIR_BAD_ARGUMENT where it never asks. */
weir_status weir_goal_find_key(const weir_goal *goal, const weir_record *record,
                               const weir_record_key **only, weir_message *message);

/* How many of the record's may be denied. */
weir_denied_count weir_goal_allows(const weir_goal *goal, const weir_record *record);

typedef struct weir_recommendation {
  int64_t limit;
  int64_t least; /* a smaller one is no rule with these options, or is 0 */
  weir_denied_count denied;
  weir_denied_count denied_below; /* by one less, which is more than the goal; with `least`: by 0 */
  /* No smaller limit is enough. With costs above 1 a larger limit may deny more, as it lets in what
   * leaves no room for others; to try all smaller ones can be too much work. */
  bool smallest;
  /* The key that has most of the requests that one less denies, and how many; NULL: none has more
   * than half, or one less is no rule. */
  const weir_record_key *rests_on;
  uint64_t rests_on_requests;
} weir_recommendation;

/* Writes the rule with another limit: "quota:5/1d" and 7 make "quota:7/1d". */
void weir_recommend_write(const char *rule, int64_t limit, char text[WEIR_RECOMMENDED_TEXT_BYTES]);

/* Runs the rule with one limit after the other, until one is enough and one less is not; then with
 * smaller ones, where they may be enough too. Limits that are no rule with these options are not
 * tried. WEIR_BAD_RULE for a stack, and where no limit is enough, with what stands against it;
 * WEIR_BAD_COST; WEIR_NO_MEMORY. */
weir_status weir_recommend(const char *rule, const weir_limiter_options *options,
                           weir_record *record, const weir_goal *goal, weir_recommendation *found,
                           weir_message *message);

#endif
