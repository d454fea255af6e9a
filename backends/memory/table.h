/* A bounded hash table of counters: open addressing, linear probing, entries of one size.
 *
 * A key is known by its 128-bit fingerprint alone. An entry takes 48 bytes; the table grows by a
 * quarter when four fifths of it are used, so a key costs 60 to 75 bytes, and while the table grows
 * 1.8 times that. It never shrinks. Not for several threads at once.
 *
 * A full table gives something up for every new key. A client that floods it with keys would like
 * one of its own forgotten that has used up its limit, so
 *
 *   - what was used while the last quarter of a table of keys came in is not given up: a key that
 *     is asked for often stays, whatever the others are worth;
 *   - of the rest goes what has the least stake (weir_operation.stake), so what admits least when
 *     it is forgotten; among equals, in 1024ths of a limit, what was used longest ago.
 *
 * To have a key forgotten that has used a part of its limit, one must use up as large a part for
 * each of a good part of a table of other keys. Both are looked up among a few neighbours, which
 * are a random sample: keeping a list in order would touch other entries at every use.
 */
#ifndef WEIR_MEMORY_TABLE_H
#define WEIR_MEMORY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_memory_fingerprint {
  uint64_t low; /* its upper half picks the place in the table */
  uint64_t high;
} weir_memory_fingerprint;

typedef struct weir_memory_entry {
  weir_memory_fingerprint fingerprint;
  int64_t value;
  uint64_t version;
  int64_t expiry_us; /* of weir_monotonic_us(); 0: nothing is here */
  uint32_t stake;    /* by the operations on it; far more than a whole is cut */
  uint32_t used;     /* weir_memory_table.inserted when it was found or made last */
} weir_memory_entry;

typedef struct weir_memory_table {
  weir_memory_entry *entries;
  size_t capacity; /* at most 2^31 */
  size_t used;
  size_t limit;      /* used never exceeds it */
  uint32_t hand;     /* where the look for entries to give up goes on */
  uint32_t inserted; /* how many came in; wraps: what was not used for 2^32 of them looks new */
} weir_memory_table;

/* False: not enough memory. `limit` is at least 1. */
bool weir_memory_table_init(weir_memory_table *table, size_t limit);
void weir_memory_table_clean_up(weir_memory_table *table);

/* Where an entry with this fingerprint is looked for first: a part of the range of 32 bits for each
 * place. No overflow, as both factors are below 2^32. */
static inline size_t weir_memory_table_place(const weir_memory_table *table,
                                             weir_memory_fingerprint fingerprint) {
  return (size_t)(((fingerprint.low >> 32) * table->capacity) >> 32);
}

/* Has the processor fetch that place, for a find() that comes soon. */
static inline void weir_memory_table_prefetch(const weir_memory_table *table,
                                              weir_memory_fingerprint fingerprint) {
  __builtin_prefetch(&table->entries[weir_memory_table_place(table, fingerprint)], 1);
}

/* NULL when absent. An expired entry is erased, and absent. The results of find and insert are good
 * until the next call. */
weir_memory_entry *weir_memory_table_find(weir_memory_table *table,
                                          weir_memory_fingerprint fingerprint, int64_t now_us);

/* Makes an entry for a fingerprint that is absent; the caller sets the rest, expiry_us not to 0.
 * Collects a few expired entries first; in a full table something makes room. NULL: not enough
 * memory, and nothing is lost. */
weir_memory_entry *weir_memory_table_insert(weir_memory_table *table,
                                            weir_memory_fingerprint fingerprint, int64_t now_us);

void weir_memory_table_erase(weir_memory_table *table, weir_memory_entry *entry);

#endif
