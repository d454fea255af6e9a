/* The table: what a process keeps of its keys. One entry holds a key's memo and the requests that
 * wait while a group of the same key is under way, so that caching, local denial and combining are
 * one structure.
 *
 * Bounded: an entry that nobody uses is given up when its shard is full, one that was not used
 * lately first. Entries in use stay, however many calls are under way. Keys are kept as 128-bit
 * SipHash-2-4 fingerprints under a random key of the table's own, so nobody can aim at a bucket.
 * Memory follows the keys: a shard is made with the first of its keys, and its buckets double.
 *
 * Threads: an entry and its memo may be touched only while its shard is locked; who works on a memo
 * for longer copies it.
 */
#ifndef WEIR_MEMO_TABLE_H
#define WEIR_MEMO_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algorithm/algorithm.h"

typedef struct weir_table weir_table;
typedef struct weir_shard weir_shard;

typedef struct weir_entry {
  uint64_t fingerprint[2];
  weir_shard *shard;
  struct weir_entry *chain; /* next in its bucket */
  struct weir_entry *ring;  /* next of all in its shard */
  bool used;                /* since the hand of the clock came by */
  bool busy;                /* some call leads a group of this key */
  weir_ask *first_waiting;  /* in the order they came */
  weir_ask *last_waiting;
  unsigned clock_steps; /* of its limiter, when the memo was begun */
  weir_memo *memo;
} weir_entry;

/* NULL when there is no memory. `keys` is the bound, 1 or more. */
weir_table *weir_table_create(size_t keys, size_t memo_bytes);

/* Waits for no lock. */
void weir_table_destroy(weir_table *table);

/* The entry of a key, new if need be, its shard locked. NULL, and nothing locked, when there is no
 * memory. */
weir_entry *weir_table_lock(weir_table *table, const void *key, size_t key_length);

/* Shards live as long as the table. An entry that is neither busy nor waited for may be gone as
 * soon as its shard is unlocked. */
void weir_shard_lock(weir_shard *shard);
void weir_shard_unlock(weir_shard *shard);

void weir_entry_append(weir_entry *entry, weir_ask *ask);

/* Takes `ask` out of those waiting; it must be among them. */
void weir_entry_withdraw(weir_entry *entry, weir_ask *ask);

/* Takes the first waiting asks that together cost at most `most`, always at least one. What is
 * marked `alone` comes alone, and so do resets and refunds. */
weir_ask *weir_entry_take_group(weir_entry *entry, int64_t most);

#endif
