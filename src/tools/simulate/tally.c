/* A hash table of counts by key, and its largest entries. */
#include "simulate/tally.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY_LEAST = 16 };

void weir_tally_clean_up(weir_tally *tally) {
  for (size_t i = 0; i < tally->capacity; i++)
    free(tally->entries[i].key);
  free(tally->entries);
  *tally = (weir_tally){0};
}

static weir_tally_entry *locate(const weir_tally *tally, const char *key, size_t key_length,
                                uint64_t hash) {
  size_t at = hash & (tally->capacity - 1);
  for (;; at = (at + 1) & (tally->capacity - 1)) {
    weir_tally_entry *entry = &tally->entries[at];
    if (entry->key == NULL) return entry;
    if (entry->hash == hash && entry->key_length == key_length &&
        memcmp(entry->key, key, key_length) == 0)
      return entry;
  }
}

static bool grow(weir_tally *tally) {
  weir_tally larger = *tally;
  larger.capacity = tally->capacity == 0 ? CAPACITY_LEAST : tally->capacity * 2;
  larger.entries = calloc(larger.capacity, sizeof *larger.entries);
  if (larger.entries == NULL) return false;
  for (size_t i = 0; i < tally->capacity; i++) {
    const weir_tally_entry *entry = &tally->entries[i];
    if (entry->key != NULL) *locate(&larger, entry->key, entry->key_length, entry->hash) = *entry;
  }
  free(tally->entries);
  *tally = larger;
  return true;
}

weir_tally_entry *weir_tally_use(weir_tally *tally, const char *key, size_t key_length,
                                 uint64_t hash) {
  if (tally->used >= tally->capacity / 4 * 3 && !grow(tally)) return NULL;
  weir_tally_entry *entry = locate(tally, key, key_length, hash);
  if (entry->key != NULL) return entry;
  char *copy = malloc(key_length);
  if (copy == NULL) return NULL;
  memcpy(copy, key, key_length);
  *entry = (weir_tally_entry){.key = copy, .key_length = key_length, .hash = hash};
  tally->used++;
  return entry;
}

const weir_tally_entry *weir_tally_find(const weir_tally *tally, const char *key, size_t key_length,
                                        uint64_t hash) {
  if (tally->capacity == 0) return NULL;
  const weir_tally_entry *entry = locate(tally, key, key_length, hash);
  return entry->key != NULL ? entry : NULL;
}

bool weir_tally_add(weir_tally *tally, const char *key, size_t key_length, uint64_t hash,
                    int64_t now_us) {
  weir_tally_entry *entry = weir_tally_use(tally, key, key_length, hash);
  if (entry == NULL) return false;
  if (entry->denied++ == 0) entry->first_us = now_us;
  return true;
}

bool weir_tally_amount(weir_tally *tally, const char *key, size_t key_length, uint64_t hash,
                       int64_t amount) {
  weir_tally_entry *entry = weir_tally_use(tally, key, key_length, hash);
  if (entry != NULL) entry->amount += amount;
  return entry != NULL;
}

int64_t weir_tally_spread(const weir_tally *tally) {
  int64_t sum = 0;
  for (size_t i = 0; i < tally->capacity; i++) {
    int64_t amount = tally->entries[i].amount;
    sum += amount < 0 ? -amount : amount;
  }
  return sum;
}

static bool ranks_before(const weir_tally_entry *a, const weir_tally_entry *b) {
  if (a->denied != b->denied) return a->denied > b->denied;
  size_t shorter = a->key_length < b->key_length ? a->key_length : b->key_length;
  int order = memcmp(a->key, b->key, shorter);
  return order != 0 ? order < 0 : a->key_length < b->key_length;
}

size_t weir_tally_top(const weir_tally *tally, const weir_tally_entry **top, size_t most) {
  size_t count = 0;
  for (size_t i = 0; i < tally->capacity; i++) {
    const weir_tally_entry *entry = &tally->entries[i];
    if (entry->key == NULL) continue;
    size_t at = count < most ? count++ : most;
    for (; at > 0 && ranks_before(entry, top[at - 1]); at--)
      if (at < most) top[at] = top[at - 1];
    if (at < most) top[at] = entry;
  }
  return count;
}
