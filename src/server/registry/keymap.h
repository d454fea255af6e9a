/* Which tier is a key put into? Exact keys in a hash table, then patterns. A million keys take 16
 * MiB beside their own bytes. */
#ifndef WEIR_REGISTRY_KEYMAP_H
#define WEIR_REGISTRY_KEYMAP_H

#include "config/config.h"
#include "table.h"

enum {
  WEIR_KEYMAP_FILE_MOST = 64 * 1024 * 1024, /* bytes of a file of overrides */
  WEIR_KEYMAP_KEYS_MOST = 4 * 1024 * 1024
};

/* A key or a pattern, and the tier that it is put into. */
typedef struct weir_keymap_key {
  uint32_t offset; /* of its bytes in the map's */
  uint16_t length;
  uint16_t tier;
} weir_keymap_key;

/* Zeroed it holds nothing. It must stay where it was created. */
typedef struct weir_keymap {
  char *bytes;               /* of all keys; those of a file as they stand in it */
  size_t file_bytes;         /* of them */
  weir_hash_table keys;      /* of weir_keymap_key */
  weir_keymap_key *patterns; /* the longest first */
  size_t pattern_count;
} weir_keymap;

/* From a list, and from the limiter's file where `limiter` is given; a key of the list stands
 * before the same in the file. What is wrong in the file becomes faults. False: no memory. */
bool weir_keymap_create(weir_keymap *map, const weir_config_overrides *list,
                        const weir_config_limiter *limiter, weir_config_faults *faults);
void weir_keymap_clean_up(weir_keymap *map);

/* The tier of a key, or -1. */
int32_t weir_keymap_find(const weir_keymap *map, const char *key, size_t length);

/* Whether the key is what the pattern says, whose '*' stand for any bytes. */
bool weir_pattern_fits(const char *pattern, size_t pattern_length, const char *key, size_t length);

#endif
