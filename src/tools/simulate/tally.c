/* A hash table of counts by key, and its largest entries. */
#include "simulate/tally.h"

#include <stdlib.h>
#include <string.h>

static bool has_key(const void *context, const void *item, const void *wanted) {
  const weir_tally_entry *entry = item;
  const weir_tally_entry *other = wanted;
  (void)context;
  return entry->key_length == other->key_length &&
         memcmp(entry->key, other->key, other->key_length) == 0;
}

void weir_tally_clean_up(weir_tally *tally) {
  for (weir_tally_entry *each = NULL; (each = weir_hash_table_next(&tally->table, each)) != NULL;)
    free(each->key);
  weir_hash_table_clean_up(&tally->table);
}

const weir_tally_entry *weir_tally_find(const weir_tally *tally, const char *key, size_t key_length,
                                        uint32_t mark) {
  const weir_tally_entry wanted = {.key = (char *)(uintptr_t)key, .key_length = key_length};
  return weir_hash_table_find(&tally->table, mark, &wanted);
}

weir_tally_entry *weir_tally_use(weir_tally *tally, const char *key, size_t key_length,
                                 uint32_t mark) {
  const weir_tally_entry wanted = {.key = (char *)(uintptr_t)key, .key_length = key_length};
  if (tally->table.same == NULL)
    weir_hash_table_init(&tally->table, sizeof(weir_tally_entry), has_key, NULL);
  weir_tally_entry *entry = weir_hash_table_find(&tally->table, mark, &wanted);
  if (entry != NULL) return entry;
  char *copy = malloc(key_length);
  entry = copy != NULL ? weir_hash_table_add(&tally->table, mark) : NULL;
  if (entry == NULL) {
    free(copy);
    return NULL;
  }
  memcpy(copy, key, key_length);
  *entry = (weir_tally_entry){.key = copy, .key_length = key_length};
  return entry;
}

bool weir_tally_add(weir_tally *tally, const char *key, size_t key_length, uint32_t mark,
                    int64_t now_us) {
  weir_tally_entry *entry = weir_tally_use(tally, key, key_length, mark);
  if (entry == NULL) return false;
  if (entry->denied++ == 0) entry->first_us = now_us;
  return true;
}

bool weir_tally_amount(weir_tally *tally, const char *key, size_t key_length, uint32_t mark,
                       int64_t amount) {
  weir_tally_entry *entry = weir_tally_use(tally, key, key_length, mark);
  if (entry != NULL) entry->amount += amount;
  return entry != NULL;
}

int64_t weir_tally_spread(const weir_tally *tally) {
  int64_t sum = 0;
  for (const weir_tally_entry *each = NULL;
       (each = weir_hash_table_next(&tally->table, each)) != NULL;)
    sum += each->amount < 0 ? -each->amount : each->amount;
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
  for (const weir_tally_entry *entry = NULL;
       (entry = weir_hash_table_next(&tally->table, entry)) != NULL;) {
    size_t at = count < most ? count++ : most;
    for (; at > 0 && ranks_before(entry, top[at - 1]); at--)
      if (at < most) top[at] = top[at - 1];
    if (at < most) top[at] = entry;
  }
  return count;
}
