/* What a rule denies on a record: one run of it over the requests of every key that it may deny. */
#ifndef WEIR_SIMULATE_TRIAL_H
#define WEIR_SIMULATE_TRIAL_H

#include <weir/limiter.h>

#include "simulate/driver.h"
#include "simulate/record.h"

/* What a limit denies; of one key alone, where only that matters. */
typedef struct weir_denials {
  uint64_t requests;
  uint64_t keys;
} weir_denials;

typedef struct weir_trial {
  weir_record *record;
  const weir_record_key *only; /* the one key that matters; NULL: all do */
  weir_denials most;           /* from above one of them on, no more is counted */
  weir_denials denied;         /* out, as are: */
  uint64_t top_requests;       /* of `denied`, those of ... */
  uint32_t top;                /* ... the key that was denied most */
  uint64_t decided;            /* requests, of all runs */
} weir_trial;

/* The highest peak, in any weir_trial_reach_us(), of which the rule denies nothing. */
int64_t weir_trial_harmless(const weir_rule *rule);

/* How far back a request can count. */
int64_t weir_trial_reach_us(const weir_rule *rule);

/* Runs a text of one rule over the record, key by key: no key's decisions depend on another's. Errors
 * are those of the rule and of its costs, and WEIR_NO_MEMORY. */
weir_status weir_trial_run(weir_trial *trial, const char *rule, const weir_limiter_options *options,
                           weir_message *message);

#endif
