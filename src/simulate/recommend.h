/* Which limit is enough: the smallest that denies no more than that. */
#ifndef WEIR_SIMULATE_RECOMMEND_H
#define WEIR_SIMULATE_RECOMMEND_H

#include <weir/limiter.h>

#include "simulate/record.h"

enum {
  WEIR_RULE_SHARE_WHOLE = 1000000,
  WEIR_RECOMMENDED_TEXT_BYTES = 256,
  WEIR_RECOMMEND_REQUESTS_MOST = 500000 /* decided to try them: about a second */
};

/* What may be denied. */
typedef struct weir_goal {
  bool of_keys;    /* keys that are ever denied, not requests */
  int64_t share;   /* of WEIR_RULE_SHARE_WHOLE */
  const char *key; /* this one is never denied, and the others do not matter; NULL: all matter */
} weir_goal;

/* What a limit denies on the record; with a goal's key, to it alone. */
typedef struct weir_denials {
  uint64_t requests;
  uint64_t keys;
} weir_denials;

typedef struct weir_recommendation {
  int64_t limit;
  weir_denials denied;
  weir_denials denied_below; /* by one less, which is more than the goal; with limit 1: by 0 */
  bool
      smallest; /* no smaller limit is enough. With costs above 1 a larger limit may deny more, as it
                    lets in what leaves no room for others; to try all smaller ones can be too much
                    work: */
  unsigned runs; /* of the rule over the record, to find it */
} weir_recommendation;

/* Writes the rule with another limit: "quota:5/1d" and 7 make "quota:7/1d". */
void weir_recommend_write(const char *rule, int64_t limit, char text[WEIR_RECOMMENDED_TEXT_BYTES]);

/* Runs the rule with one limit after the other, until one is enough and one less is not; then with
 * smaller ones, where they may be enough too. WEIR_BAD_RULE for a stack, and where no limit is enough;
 * WEIR_BAD_COST; WEIR_NO_MEMORY. */
weir_status weir_recommend(const char *rule, const weir_limiter_options *options,
                           const weir_record *record, const weir_goal *goal,
                           weir_recommendation *found, weir_message *message);

#endif
