/* A hash table over bytes that stay where they are. */
#include "registry/keymap.h"

#include <stdlib.h>
#include <string.h>

uint64_t weir_registry_hash(const void *bytes, size_t length) {
  const unsigned char *byte = bytes;
  uint64_t hash = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
  hash = (hash ^ (hash >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ (hash >> 29);
}

/* Where the key is, or the empty slot where it would be; there always is one. */
static weir_keymap_slot *find_slot(const weir_keymap *map, const char *key, size_t length) {
  size_t at = weir_registry_hash(key, length) & (map->slot_count - 1);
  for (;; at = (at + 1) & (map->slot_count - 1)) {
    weir_keymap_slot *slot = &map->slots[at];
    if (slot->length == 0) return slot;
    if (slot->length == length && memcmp(map->bytes + slot->offset, key, length) == 0) return slot;
  }
}

weir_keymap_slot *weir_keymap_add(weir_keymap *map, weir_keymap_slot key) {
  weir_keymap_slot *slot = find_slot(map, map->bytes + key.offset, key.length);
  if (slot->length != 0) return slot;
  *slot = key;
  map->key_count++;
  return NULL;
}

/* Every '*' takes as little as it can, and more when what follows does not fit. */
bool weir_pattern_fits(const char *pattern, size_t pattern_length, const char *key, size_t length) {
  size_t at = 0, in = 0;
  size_t star = pattern_length, taken = 0; /* the last star, and up to where it has taken */
  while (in < length) {
    if (at < pattern_length && pattern[at] == '*') {
      star = at++;
      taken = in;
    } else if (at < pattern_length && pattern[at] == key[in]) {
      at++;
      in++;
    } else if (star < pattern_length) {
      at = star + 1;
      in = ++taken;
    } else {
      return false;
    }
  }
  while (at < pattern_length && pattern[at] == '*')
    at++;
  return at == pattern_length;
}

int32_t weir_keymap_find(const weir_keymap *map, const char *key, size_t length) {
  if (map->key_count > 0) {
    const weir_keymap_slot *slot = find_slot(map, key, length);
    if (slot->length != 0) return slot->tier;
  }
  for (size_t i = 0; i < map->pattern_count; i++) {
    const weir_keymap_slot *pattern = &map->patterns[i];
    if (weir_pattern_fits(map->bytes + pattern->offset, pattern->length, key, length))
      return pattern->tier;
  }
  return -1;
}

/* --- made ---------------------------------------------------------------------------------------
 */

static int compare_patterns(const void *a, const void *b) {
  const weir_keymap_slot *first = a;
  const weir_keymap_slot *second = b;
  if (first->length != second->length) return first->length > second->length ? -1 : 1;
  return first->offset < second->offset ? -1 : 1;
}

/* Keys of a list stand once in it: the reader has seen to that in mappings, and in a list of keys
 * the second says nothing new. */
static void add_list(weir_keymap *map, const weir_config_overrides *list) {
  size_t offset = map->file_bytes;
  for (size_t i = 0; i < list->count; i++) {
    const weir_config_override *item = &list->items[i];
    weir_keymap_slot key = {(uint32_t)offset, item->key_length, item->tier};
    memcpy(map->bytes + offset, item->key, item->key_length);
    offset += item->key_length;
    if (item->is_pattern)
      map->patterns[map->pattern_count++] = key;
    else
      weir_keymap_add(map, key);
  }
  if (map->pattern_count > 1)
    qsort(map->patterns, map->pattern_count, sizeof *map->patterns, compare_patterns);
}

/* A third of the slots stay empty at least. */
static bool make_slots(weir_keymap *map, size_t keys) {
  size_t count = 4;
  while (count < keys + keys / 2)
    count *= 2;
  map->slots = calloc(count, sizeof *map->slots);
  map->slot_count = count;
  return map->slots != NULL;
}

static void measure(const weir_config_overrides *list, size_t *bytes, size_t *patterns) {
  *bytes = 0;
  *patterns = 0;
  for (size_t i = 0; i < list->count; i++) {
    *bytes += list->items[i].key_length;
    *patterns += list->items[i].is_pattern;
  }
}

bool weir_keymap_create(weir_keymap *map, const weir_config_overrides *list,
                        const weir_config_limiter *limiter, weir_config_faults *faults) {
  size_t bytes, patterns;
  *map = (weir_keymap){0};
  bool has_file = limiter != NULL && limiter->overrides_file != NULL;
  if (list->count == 0 && !has_file) return true;
  measure(list, &bytes, &patterns);
  if (has_file && !weir_overrides_read(map, limiter, bytes, faults)) return false;
  if (map->bytes == NULL) map->bytes = malloc(bytes + 1);
  if (map->bytes == NULL) return false;
  size_t keys = list->count + weir_overrides_count_lines(map->bytes, map->file_bytes);
  map->patterns = malloc((patterns + 1) * sizeof *map->patterns);
  if (map->patterns == NULL || !make_slots(map, keys)) return false;
  add_list(map, list);
  if (map->file_bytes > 0) weir_overrides_add(map, limiter, faults);
  return true;
}

void weir_keymap_clean_up(weir_keymap *map) {
  free(map->bytes);
  free(map->slots);
  free(map->patterns);
  *map = (weir_keymap){0};
}
