/* The keys of which there is most.
 *
 * In memory that does not grow: the space-saving sketch. A key that is not there takes the place of the
 * one with the lowest count, and begins where that stood. So a count is never too low, too high by
 * `error` at most, and a key with more than 1 of WEIR_SKETCH_ENTRIES of all that was added is there. */
#ifndef WEIR_TELL_TOP_H
#define WEIR_TELL_TOP_H

#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "tell/denials.h"

enum { WEIR_SKETCH_ENTRIES = 64 };

/* A key, as it may be shown. */
typedef struct weir_sketch_key {
  uint64_t hash; /* of limiter and key, of a tenant's pool as well: what tells one from another */
  weir_config_log_keys log_keys;
  char limiter[WEIR_CONFIG_NAME_MOST + 1];
  char text[WEIR_DENIAL_KEY_BYTES]; /* printable ASCII */
  char pool[WEIR_DENIAL_KEY_BYTES]; /* the same: the key at which a tenant asks; of a key empty */
} weir_sketch_key;

typedef struct weir_sketch_entry {
  uint64_t count, error;
  weir_sketch_key key;
} weir_sketch_entry;

/* Zeroed it holds nothing. */
typedef struct weir_sketch {
  uint64_t total; /* of all that was added */
  size_t count;
  uint64_t hashes[WEIR_SKETCH_ENTRIES]; /* of the entries, beside each other to be searched */
  weir_sketch_entry entries[WEIR_SKETCH_ENTRIES];
} weir_sketch;

/* Adds so much of a key; whether its text is wanted, as it is new: fill it in, in what is returned.
 * NULL: the key was there. */
weir_sketch_key *weir_sketch_add(weir_sketch *sketch, uint64_t hash, uint64_t amount);

/* Adds what another has seen. */
void weir_sketch_merge(weir_sketch *sketch, const weir_sketch *other);

/* The highest counts first. The sketch is only read from then on. */
void weir_sketch_sort(weir_sketch *sketch);

#endif
