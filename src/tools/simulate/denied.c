/* A hash table of counts by key, and its largest entries. */
#include "simulate/denied.h"

#include <stdlib.h>
#include <string.h>

static bool has_key(const void *context, const void *item, const void *wanted) {
  const weir_denied_key *entry = item;
  const weir_denied_key *other = wanted;
  (void)context;
  return entry->key_length == other->key_length &&
         memcmp(entry->key, other->key, other->key_length) == 0;
}

void weir_denied_keys_clean_up(weir_denied_keys *keys) {
  for (weir_denied_key *each = NULL; (each = weir_hash_table_next(&keys->table, each)) != NULL;)
    free(each->key);
  weir_hash_table_clean_up(&keys->table);
}

const weir_denied_key *weir_denied_keys_find(const weir_denied_keys *keys, const char *key,
                                             size_t key_length, uint32_t mark) {
  const weir_denied_key wanted = {.key = (char *)(uintptr_t)key, .key_length = key_length};
  return weir_hash_table_find(&keys->table, mark, &wanted);
}

/* The key's entry, made when it is new; good until the next new one. NULL: not enough memory. */
static weir_denied_key *use(weir_denied_keys *keys, const char *key, size_t key_length,
                            uint32_t mark) {
  const weir_denied_key wanted = {.key = (char *)(uintptr_t)key, .key_length = key_length};
  if (keys->table.same == NULL)
    weir_hash_table_init(&keys->table, sizeof(weir_denied_key), has_key, NULL);
  weir_denied_key *entry = weir_hash_table_find(&keys->table, mark, &wanted);
  if (entry != NULL) return entry;
  char *copy = malloc(key_length);
  entry = copy != NULL ? weir_hash_table_add(&keys->table, mark) : NULL;
  if (entry == NULL) {
    free(copy);
    return NULL;
  }
  memcpy(copy, key, key_length);
  *entry = (weir_denied_key){.key = copy, .key_length = key_length};
  return entry;
}

bool weir_denied_keys_add(weir_denied_keys *keys, const char *key, size_t key_length, uint32_t mark,
                          int64_t now_us) {
  weir_denied_key *entry = use(keys, key, key_length, mark);
  if (entry == NULL) return false;
  if (entry->denied++ == 0) entry->first_us = now_us;
  return true;
}

bool weir_denied_keys_amount(weir_denied_keys *keys, const char *key, size_t key_length,
                             uint32_t mark, int64_t amount) {
  weir_denied_key *entry = use(keys, key, key_length, mark);
  if (entry != NULL) entry->amount += amount;
  return entry != NULL;
}

int64_t weir_denied_keys_spread(const weir_denied_keys *keys) {
  int64_t sum = 0;
  for (const weir_denied_key *each = NULL;
       (each = weir_hash_table_next(&keys->table, each)) != NULL;)
    sum += each->amount < 0 ? -each->amount : each->amount;
  return sum;
}

static bool ranks_before(const weir_denied_key *a, const weir_denied_key *b) {
  if (a->denied != b->denied) return a->denied > b->denied;
  size_t shorter = a->key_length < b->key_length ? a->key_length : b->key_length;
  int order = memcmp(a->key, b->key, shorter);
  return order != 0 ? order < 0 : a->key_length < b->key_length;
}

size_t weir_denied_keys_top(const weir_denied_keys *keys, const weir_denied_key **top,
                            size_t most) {
  size_t count = 0;
  for (const weir_denied_key *entry = NULL;
       (entry = weir_hash_table_next(&keys->table, entry)) != NULL;) {
    size_t at = count < most ? count++ : most;
    for (; at > 0 && ranks_before(entry, top[at - 1]); at--)
      if (at < most) top[at] = top[at - 1];
    if (at < most) top[at] = entry;
  }
  return count;
}
