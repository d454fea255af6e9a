/* Runs the algorithms' own machines, one request at a time, on time and a store that are made up:
 * no server, no clock, no thread. */
#ifndef WEIR_SIMULATE_DRIVER_H
#define WEIR_SIMULATE_DRIVER_H

#include "algorithm/algorithm.h"

/* --- what a simulated store holds ---------------------------------------------------------------
 *
 * The places of a simulated store for one key under one rule.
 *
 * Time only goes forward here, so the entries of a place are made in the order of their index and
 * expire in that order: sorted arrays, with what has expired cut off in front.
 */

enum { WEIR_PLACES = WEIR_PLACE_TENANT + 1 };

typedef struct weir_stored_counter {
  int64_t index;
  int64_t entry;
  int64_t value;
  uint64_t version;
  int64_t expiry_us;
} weir_stored_counter;

typedef struct weir_slots {
  weir_stored_counter *slots; /* slots[first] to slots[end - 1] */
  size_t first;
  size_t end;
  size_t room;
} weir_slots;

void weir_slots_clean_up(weir_slots places[WEIR_PLACES]);

/* Empties one place; memory for few entries stays. */
void weir_slots_clear(weir_slots *place);

/* One more entry, behind all others. False: not enough memory. */
bool weir_slots_append(weir_slots *place, const weir_stored_counter *slot);

/* Cuts off what has expired. */
void weir_slots_expire(weir_slots places[WEIR_PLACES], int64_t now_us);

/* How many entries there are. */
size_t weir_slots_count(const weir_slots places[WEIR_PLACES]);

/* Carries out one operation; `version` is one that no entry had before. False: not enough memory.
 */
bool weir_slots_execute(weir_slots places[WEIR_PLACES], int64_t now_us, uint64_t version,
                        weir_operation *operation);

/* --- deciding on it -----------------------------------------------------------------------------
 */

/* A key under one stack: what the store holds and what the process remembers. */
typedef struct weir_driven_key {
  weir_slots *places; /* WEIR_PLACES for each rule of the stack */
  weir_memo *memo;
  weir_memo *pool; /* of all tenants of its pool together; NULL: the key is no tenant's */
} weir_driven_key;

/* One stack of rules, and what its decisions have cost so far. */
typedef struct weir_driver {
  weir_stack stack;
  size_t memo_bytes; /* of the stack's memos */
  weir_settings settings;
  weir_machine *machine;
  weir_operation *round;  /* its operations */
  uint64_t version;       /* the last one given out */
  int64_t longest_ttl_us; /* that was written */
  uint64_t operations;
  uint64_t rounds; /* trips to the store */
} weir_driver;

/* `options`: as for a limiter; its clock and its store options play no part. */
weir_status weir_driver_init(weir_driver *driver, const char *rule,
                             const weir_limiter_options *options, weir_message *message);
/* The same of one shared-window, for requests that name their tenants. */
weir_status weir_driver_init_shared(weir_driver *driver, const char *rule,
                                    const weir_limiter_options *options, weir_message *message);
void weir_driver_clean_up(weir_driver *driver);

/* False: not enough memory. */
bool weir_driver_add_key(const weir_driver *driver, weir_driven_key *key);
/* As if it were new; memory for few entries stays. */
void weir_driver_clear_key(const weir_driver *driver, weir_driven_key *key);
void weir_driver_remove_key(const weir_driver *driver, weir_driven_key *key);

/* Settles a request. Times never go back. WEIR_NO_MEMORY, WEIR_BAD_COST where a sliding-log is
 * asked for more than 1, or what the request itself was answered. */
weir_status weir_driver_decide(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                               weir_claim *request, weir_message *message);

/* The same of a settlement (WEIR_SETTLE), which nothing but the store answers. */
weir_status weir_driver_settle(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                               weir_claim *request, weir_message *message);

#endif
