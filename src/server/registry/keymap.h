/* Which tier is a key put into? Exact keys in a hash table, then patterns. A million keys take 16
 * MiB beside their own bytes. */
#ifndef WEIR_REGISTRY_KEYMAP_H
#define WEIR_REGISTRY_KEYMAP_H

#include "config/config.h"

enum {
  WEIR_KEYMAP_FILE_MOST = 64 * 1024 * 1024, /* bytes of a file of overrides */
  WEIR_KEYMAP_KEYS_MOST = 4 * 1024 * 1024
};

typedef struct weir_keymap_slot {
  uint32_t offset; /* of the key's bytes */
  uint16_t length; /* 0: nothing is here */
  uint16_t tier;
} weir_keymap_slot;

/* Zeroed it holds nothing. */
typedef struct weir_keymap {
  char *bytes;       /* of all keys; those of a file as they stand in it */
  size_t file_bytes; /* of them */
  weir_keymap_slot *slots;
  size_t slot_count; /* a power of two, or 0 */
  size_t key_count;
  weir_keymap_slot *patterns; /* the longest first */
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

/* FNV-1a, with its bits mixed so that any of them may pick a slot. */
uint64_t weir_registry_hash(const void *bytes, size_t length);

/* Inside: for the file that fills it. A key whose bytes are in map->bytes; the slot that has it
 * already, or NULL. */
weir_keymap_slot *weir_keymap_add(weir_keymap *map, weir_keymap_slot key);

/* Inside: the file's bytes with room for `more`, or a fault. False: no memory. */
bool weir_overrides_read(weir_keymap *map, const weir_config_limiter *limiter, size_t more,
                         weir_config_faults *faults);
size_t weir_overrides_count_lines(const char *bytes, size_t length);
void weir_overrides_add(weir_keymap *map, const weir_config_limiter *limiter,
                        weir_config_faults *faults);

#endif
