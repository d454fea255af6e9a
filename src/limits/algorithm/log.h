/* A log in two files: log.c charges and decides; log_entries.c knows which entry decides, and reads
 * it. */
#ifndef WEIR_ALGORITHM_LOG_H
#define WEIR_ALGORITHM_LOG_H

#include "algorithm/method.h"

/* The logs of a stack are one log. The first of them keeps it: it alone counts and writes, and
 * reads what all need to know; each of the others reads the entry that decides for its own limit
 * and period. Who answers tells all of them. */
size_t weir_log_keeper(const weir_machine *machine);

static inline bool weir_log_is_log(const weir_machine *machine, size_t i) {
  return machine->rule_states[i].method == &weir_log_method;
}

/* What a process keeps of one key. */
typedef struct weir_log_memory {
  bool known;
  int64_t decides_us; /* the entry that the next request is measured against */
  int64_t newest_us;
} weir_log_memory;

typedef struct weir_log_state {
  int64_t epoch;              /* g */
  int64_t before, own, after; /* counts of epochs g-1, g and g+1, before the charge */
  int64_t index;              /* of the charge's own entry in g; 0: none */
  int64_t stored_us;          /* what the charge's own entry holds; below 0: not confirmed */
  int64_t decides_us; /* the entry that decides, or why there is none; the one after it, ... */
  int64_t follows_us; /* ... which decides once the charge has used up an index */
  int64_t newest_us;
  int64_t low, high; /* of the search: so many single requests fit, so many do not */
} weir_log_state;

/* Why there is no time in decides_us, follows_us or newest_us. */
enum { WEIR_LOG_NO_ENTRY = -1, WEIR_LOG_NOT_WRITTEN = -2 };

/* Entries that a search reads in one round. */
enum { WEIR_LOG_PROBES = 16 };

/* The entry that the next request, or the one being charged, is measured against; below 1: none. */
int64_t weir_log_deciding_position(const weir_rule *rule, const weir_rule_state *rule_state);

/* Of the newest that was there before; 0: none. */
int64_t weir_log_newest_position(const weir_rule_state *rule_state);

/* Reads the entry at a position, as the log's keeper. */
void weir_log_plan_entry(weir_machine *machine, size_t i, int64_t position);

/* Remembers what the state says of the entry that decides, and of the newest. */
void weir_log_keep(weir_machine *machine, size_t i);

/* Whether an entry of this time denies nobody any more. */
bool weir_log_is_over(const weir_rule *rule, const weir_rule_state *rule_state, int64_t entry_us);

/* The search for how many single requests fit: it begins, and reads on, round after round. */
void weir_log_begin_search(weir_machine *machine, size_t i);
void weir_log_plan_search(weir_machine *machine, size_t i);

/* Takes in the answer about an entry that was read. */
void weir_log_answer_entry(weir_machine *machine, size_t i, const weir_operation *operation);

#endif
