#include "memo/table.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS_MOST = 64, CACHE_LINE_BYTES = 64 };

struct weir_shard {
  _Alignas(CACHE_LINE_BYTES) pthread_mutex_t mutex;
  weir_entry **buckets;
  size_t bucket_mask;
  size_t count;
  size_t most;
  weir_entry *hand; /* on the ring of all entries: those behind it are looked at next */
};

struct weir_table {
  size_t memo_bytes;
  size_t shard_count; /* a power of two */
  unsigned char hash_key[crypto_shorthash_siphashx24_KEYBYTES];
  weir_shard shards[SHARDS_MOST];
};

static bool init_shard(weir_shard *shard, size_t most) {
  size_t buckets = 1;
  while (buckets < most)
    buckets *= 2;
  shard->most = most;
  shard->bucket_mask = buckets - 1;
  shard->buckets = calloc(buckets, sizeof *shard->buckets);
  if (shard->buckets == NULL) return false;
  return pthread_mutex_init(&shard->mutex, NULL) == 0;
}

weir_table *weir_table_create(size_t keys, size_t memo_bytes) {
  if (sodium_init() < 0) return NULL;
  weir_table *table = aligned_alloc(CACHE_LINE_BYTES, sizeof *table);
  if (table == NULL) return NULL;
  memset(table, 0, sizeof *table);
  table->memo_bytes = memo_bytes;
  randombytes_buf(table->hash_key, sizeof table->hash_key);
  size_t shards = 1;
  while (shards < SHARDS_MOST && shards * 2 <= keys)
    shards *= 2;
  for (; table->shard_count < shards; table->shard_count++) {
    if (init_shard(&table->shards[table->shard_count], keys / shards)) continue;
    free(table->shards[table->shard_count].buckets);
    weir_table_destroy(table);
    return NULL;
  }
  return table;
}

/* In a child of the process that made it, a shard that a thread of the parent held at the fork is
 * never unlocked, and may be half changed: what is in it stays. */
static void destroy_shard(weir_shard *shard) {
  if (pthread_mutex_trylock(&shard->mutex) != 0) return;
  for (weir_entry *entry = shard->hand; shard->count > 0; shard->count--) {
    weir_entry *next = entry->ring;
    free(entry);
    entry = next;
  }
  free(shard->buckets);
  pthread_mutex_unlock(&shard->mutex);
  pthread_mutex_destroy(&shard->mutex);
}

void weir_table_destroy(weir_table *table) {
  if (table == NULL) return;
  for (size_t i = 0; i < table->shard_count; i++)
    destroy_shard(&table->shards[i]);
  free(table);
}

static weir_entry **bucket_of(weir_shard *shard, const uint64_t fingerprint[2]) {
  return &shard->buckets[fingerprint[1] & shard->bucket_mask];
}

static void unchain(weir_shard *shard, const weir_entry *entry) {
  weir_entry **at = bucket_of(shard, entry->fingerprint);
  while (*at != entry)
    at = &(*at)->chain;
  *at = entry->chain;
}

/* Behind the hand is where it comes last. */
static void join_ring(weir_shard *shard, weir_entry *entry) {
  if (shard->hand == NULL) entry->ring = entry;
  if (shard->hand != NULL) {
    entry->ring = shard->hand->ring;
    shard->hand->ring = entry;
  }
  shard->hand = entry;
}

/* Takes out the entry behind the hand. */
static void leave_ring(weir_shard *shard) {
  weir_entry *entry = shard->hand->ring;
  shard->hand->ring = entry->ring;
  if (shard->hand == entry) shard->hand = NULL;
}

/* Gives up entries that nobody needs and nobody used since the hand came by, until there is room
 * for one more: the clock algorithm (Corbato, "A paging experiment with the Multics system", 1968).
 * Using an entry so costs no more than a bit in it; keeping a list by use would touch its
 * neighbours. */
static void make_room(weir_shard *shard) {
  for (size_t looks = 2 * shard->count; looks > 0 && shard->count >= shard->most; looks--) {
    weir_entry *entry = shard->hand->ring;
    if (entry->used || entry->busy || entry->first_waiting != NULL) {
      entry->used = false;
      shard->hand = entry;
      continue;
    }
    leave_ring(shard);
    unchain(shard, entry);
    free(entry);
    shard->count--;
  }
}

static weir_entry *add_entry(const weir_table *table, weir_shard *shard,
                             const uint64_t fingerprint[2]) {
  make_room(shard);
  weir_entry *entry = calloc(1, sizeof *entry + table->memo_bytes);
  if (entry == NULL) return NULL;
  memcpy(entry->fingerprint, fingerprint, sizeof entry->fingerprint);
  entry->shard = shard;
  entry->memo = (weir_memo *)(entry + 1);
  weir_entry **bucket = bucket_of(shard, fingerprint);
  entry->chain = *bucket;
  *bucket = entry;
  join_ring(shard, entry);
  shard->count++;
  return entry;
}

static weir_entry *find_entry(weir_shard *shard, const uint64_t fingerprint[2]) {
  weir_entry *entry = *bucket_of(shard, fingerprint);
  while (entry != NULL && memcmp(entry->fingerprint, fingerprint, sizeof entry->fingerprint) != 0)
    entry = entry->chain;
  if (entry != NULL) entry->used = true;
  return entry;
}

weir_entry *weir_table_lock(weir_table *table, const void *key, size_t key_length) {
  uint64_t fingerprint[2];
  crypto_shorthash_siphashx24((unsigned char *)fingerprint, key, key_length, table->hash_key);
  weir_shard *shard = &table->shards[fingerprint[0] & (table->shard_count - 1)];
  pthread_mutex_lock(&shard->mutex);
  weir_entry *entry = find_entry(shard, fingerprint);
  if (entry == NULL) entry = add_entry(table, shard, fingerprint);
  if (entry == NULL) pthread_mutex_unlock(&shard->mutex);
  return entry;
}

void weir_shard_lock(weir_shard *shard) {
  pthread_mutex_lock(&shard->mutex);
}

void weir_shard_unlock(weir_shard *shard) {
  pthread_mutex_unlock(&shard->mutex);
}

void weir_entry_append(weir_entry *entry, weir_ask *ask) {
  ask->next = NULL;
  *(entry->first_waiting != NULL ? &entry->last_waiting->next : &entry->first_waiting) = ask;
  entry->last_waiting = ask;
}

void weir_entry_withdraw(weir_entry *entry, weir_ask *ask) {
  weir_ask *before = NULL;
  weir_ask **at = &entry->first_waiting;
  while (*at != ask) {
    before = *at;
    at = &before->next;
  }
  *at = ask->next;
  if (entry->last_waiting == ask) entry->last_waiting = before;
}

static bool is_alone(const weir_ask *ask) {
  return ask->alone || ask->kind == WEIR_ASK_RESET || ask->kind == WEIR_ASK_REFUND;
}

static int64_t charge_of(const weir_ask *ask) {
  return ask->kind == WEIR_ASK_TAKE ? ask->cost : 0;
}

weir_ask *weir_entry_take_group(weir_entry *entry, int64_t most) {
  weir_ask *first = entry->first_waiting;
  weir_ask *last = first;
  int64_t sum = charge_of(first);
  while (last->next != NULL && !is_alone(first) && !is_alone(last->next) &&
         sum + charge_of(last->next) <= most) {
    last = last->next;
    sum += charge_of(last);
  }
  entry->first_waiting = last->next;
  last->next = NULL;
  return first;
}
