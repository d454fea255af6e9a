/* How often each key was denied: exact counts, one entry for each key that ever was. */
#ifndef WEIR_SIMULATE_TALLY_H
#define WEIR_SIMULATE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

typedef struct weir_tally_entry {
  char *key;
  size_t key_length;
  uint64_t denied;
  int64_t amount;
  int64_t first_us; /* when it was denied for the first time */
} weir_tally_entry;

typedef struct weir_tally {
  weir_hash_table table; /* of weir_tally_entry; begins zeroed */
} weir_tally;

void weir_tally_clean_up(weir_tally *tally);

/* The key's entry, made when it is new; good until the next new one. NULL: not enough memory. */
weir_tally_entry *weir_tally_use(weir_tally *tally, const char *key, size_t key_length,
                                 uint32_t mark);

/* NULL: it has none. */
const weir_tally_entry *weir_tally_find(const weir_tally *tally, const char *key, size_t key_length,
                                        uint32_t mark);

/* `mark`: of the key, always the same. False: not enough memory. */
bool weir_tally_add(weir_tally *tally, const char *key, size_t key_length, uint32_t mark,
                    int64_t now_us);

/* Adds to what the key has as `amount`; false: not enough memory. */
bool weir_tally_amount(weir_tally *tally, const char *key, size_t key_length, uint32_t mark,
                       int64_t amount);

/* The absolute values of all amounts, summed. */
int64_t weir_tally_spread(const weir_tally *tally);

/* The `most` entries denied most often, in falling order, ties by key; how many there are. */
size_t weir_tally_top(const weir_tally *tally, const weir_tally_entry **top, size_t most);

#endif
