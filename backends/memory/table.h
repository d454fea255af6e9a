/* A bounded hash table of counters: open addressing, linear probing, entries of one size.
 *
 * A key is known by its 128-bit fingerprint alone. An entry takes 40 bytes; the table doubles when
 * three quarters are used, so a key costs 54 to 107 bytes, and while the table doubles, half as
 * much again. It never shrinks. Not for several threads at once.
 */
#ifndef WEIR_MEMORY_TABLE_H
#define WEIR_MEMORY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_memory_fingerprint {
  uint64_t low; /* picks the place in the table */
  uint64_t high;
} weir_memory_fingerprint;

typedef struct weir_memory_entry {
  weir_memory_fingerprint fingerprint;
  int64_t value;
  uint64_t version;
  int64_t expiry_us; /* of weir_monotonic_us(); 0: nothing is here */
} weir_memory_entry;

typedef struct weir_memory_table {
  weir_memory_entry *entries;
  size_t capacity; /* a power of two */
  size_t used;
  size_t limit; /* used never exceeds it */
  size_t hand;  /* where the collection of expired entries goes on */
} weir_memory_table;

/* False: not enough memory. `limit` is at least 1. */
bool weir_memory_table_init(weir_memory_table *table, size_t limit);
void weir_memory_table_clean_up(weir_memory_table *table);

/* NULL when absent. An expired entry is erased, and absent. What find and insert return is good
 * until the next call. */
weir_memory_entry *weir_memory_table_find(weir_memory_table *table,
                                          weir_memory_fingerprint fingerprint, int64_t now_us);

/* Makes an entry for a fingerprint that is absent; the caller sets the rest, expiry_us not to 0.
 * Collects a few expired entries first; in a full table something makes room: of a few entries, the
 * one nearest to its expiry. NULL: not enough memory, and nothing is lost. */
weir_memory_entry *weir_memory_table_insert(weir_memory_table *table,
                                            weir_memory_fingerprint fingerprint, int64_t now_us);

void weir_memory_table_erase(weir_memory_table *table, weir_memory_entry *entry);

#endif
