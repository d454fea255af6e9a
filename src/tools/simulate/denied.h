/* How often each key was denied: exact counts, one entry for each key that ever was. */
#ifndef WEIR_SIMULATE_DENIED_H
#define WEIR_SIMULATE_DENIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

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

#endif
