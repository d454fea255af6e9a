#include "memo/table.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS_MOST = 16, CACHE_LINE_BYTES = 64 };

struct weir_shard {
  _Alignas(CACHE_LINE_BYTES) pthread_mutex_t mutex;
  weir_entry **buckets;
  size_t bucket_mask;
  size_t count;
  size_t most;
  weir_entry *newest, *oldest;
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

static void destroy_shard(weir_shard *shard) {
  for (weir_entry *entry = shard->newest; entry != NULL;) {
    weir_entry *older = entry->older;
    free(entry);
    entry = older;
  }
  free(shard->buckets);
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

static void unlink_use(weir_shard *shard, weir_entry *entry) {
  *(entry->newer != NULL ? &entry->newer->older : &shard->newest) = entry->older;
  *(entry->older != NULL ? &entry->older->newer : &shard->oldest) = entry->newer;
}

static void link_newest(weir_shard *shard, weir_entry *entry) {
  entry->newer = NULL;
  entry->older = shard->newest;
  *(entry->older != NULL ? &entry->older->newer : &shard->oldest) = entry;
  shard->newest = entry;
}

/* Gives up the least recently used entries that nobody needs, until there is room for one more. */
static void make_room(weir_shard *shard) {
  for (weir_entry *entry = shard->oldest; entry != NULL && shard->count >= shard->most;) {
    weir_entry *newer = entry->newer;
    if (!entry->busy && entry->first_waiting == NULL) {
      weir_entry **at = bucket_of(shard, entry->fingerprint);
      while (*at != entry)
        at = &(*at)->chain;
      *at = entry->chain;
      unlink_use(shard, entry);
      free(entry);
      shard->count--;
    }
    entry = newer;
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
  link_newest(shard, entry);
  shard->count++;
  return entry;
}

static weir_entry *find_entry(weir_shard *shard, const uint64_t fingerprint[2]) {
  weir_entry *entry = *bucket_of(shard, fingerprint);
  while (entry != NULL && memcmp(entry->fingerprint, fingerprint, sizeof entry->fingerprint) != 0)
    entry = entry->chain;
  if (entry == NULL || entry == shard->newest) return entry;
  unlink_use(shard, entry);
  link_newest(shard, entry);
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
