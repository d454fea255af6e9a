#include "memo/table.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
  SHARDS_MOST = 64,
  CACHE_LINE_BYTES = 64,
  OWN_BUCKETS = 4 /* fill what a shard's second cache line has left */
};

struct weir_shard {
  _Alignas(CACHE_LINE_BYTES) pthread_mutex_t mutex;
  weir_entry **buckets; /* `own`, until they double */
  size_t bucket_mask;
  size_t count;
  size_t most;
  weir_entry *hand; /* on the ring of all entries: those behind it are looked at next */
  weir_entry *own[OWN_BUCKETS];
};

struct weir_table {
  size_t memo_bytes;
  size_t shard_keys;  /* bound of each */
  size_t shard_count; /* a power of two */
  unsigned char hash_key[crypto_shorthash_siphashx24_KEYBYTES];
  weir_shard *_Atomic shards[SHARDS_MOST]; /* NULL: no key of it has come yet */
};

weir_table *weir_table_create(size_t keys, size_t memo_bytes) {
  if (sodium_init() < 0) return NULL;
  weir_table *table = calloc(1, sizeof *table);
  if (table == NULL) return NULL;
  table->memo_bytes = memo_bytes;
  randombytes_buf(table->hash_key, sizeof table->hash_key);
  table->shard_count = 1;
  while (table->shard_count < SHARDS_MOST && table->shard_count * 2 <= keys)
    table->shard_count *= 2;
  table->shard_keys = keys / table->shard_count;
  return table;
}

static weir_shard *create_shard(size_t most) {
  weir_shard *shard = aligned_alloc(CACHE_LINE_BYTES, sizeof *shard);
  if (shard == NULL) return NULL;
  memset(shard, 0, sizeof *shard);
  shard->most = most;
  shard->buckets = shard->own;
  shard->bucket_mask = OWN_BUCKETS - 1;
  if (pthread_mutex_init(&shard->mutex, NULL) == 0) return shard;
  free(shard);
  return NULL;
}

static void free_buckets(weir_shard *shard) {
  if (shard->buckets != shard->own) free(shard->buckets);
}

/* In a child of the process that made it, a shard that a thread of the parent held at the fork is
 * never unlocked, and may be half changed: it stays. */
static void destroy_shard(weir_shard *shard) {
  if (shard == NULL || pthread_mutex_trylock(&shard->mutex) != 0) return;
  for (weir_entry *entry = shard->hand; shard->count > 0; shard->count--) {
    weir_entry *next = entry->ring;
    free(entry);
    entry = next;
  }
  free_buckets(shard);
  pthread_mutex_unlock(&shard->mutex);
  pthread_mutex_destroy(&shard->mutex);
  free(shard);
}

void weir_table_destroy(weir_table *table) {
  if (table == NULL) return;
  for (size_t i = 0; i < table->shard_count; i++)
    destroy_shard(table->shards[i]);
  free(table);
}

/* Without a lock, which a child could find taken: of threads that come first at once one has its
 * shard kept. */
static weir_shard *begin_shard(weir_shard *_Atomic *place, size_t most) {
  weir_shard *kept = NULL;
  weir_shard *made = create_shard(most);
  if (made == NULL || atomic_compare_exchange_strong(place, &kept, made)) return made;
  destroy_shard(made);
  return kept;
}

/* NULL: no memory for the first of its keys. */
static weir_shard *shard_of(weir_table *table, const uint64_t fingerprint[2]) {
  weir_shard *_Atomic *place = &table->shards[fingerprint[0] & (table->shard_count - 1)];
  weir_shard *shard = atomic_load_explicit(place, memory_order_acquire);
  return shard != NULL ? shard : begin_shard(place, table->shard_keys);
}

static weir_entry **bucket_of(weir_shard *shard, const uint64_t fingerprint[2]) {
  return &shard->buckets[fingerprint[1] & shard->bucket_mask];
}

static void join_chain(weir_shard *shard, weir_entry *entry) {
  weir_entry **bucket = bucket_of(shard, entry->fingerprint);
  entry->chain = *bucket;
  *bucket = entry;
}

/* Keeps half of the buckets free, until there are as many as entries may be. Without memory for
 * more, chains only grow longer. A shard keeps its lock meanwhile, some 100 ns for each key in it:
 * with the default of 16384 keys, 10 us at the most. */
static void double_buckets(weir_shard *shard) {
  size_t buckets = shard->bucket_mask + 1;
  if (shard->count < buckets / 2 || buckets >= shard->most) return;
  weir_entry **more = calloc(2 * buckets, sizeof(weir_entry *));
  if (more == NULL) return;
  free_buckets(shard);
  shard->buckets = more;
  shard->bucket_mask = 2 * buckets - 1;
  weir_entry *entry = shard->hand;
  for (size_t i = 0; i < shard->count; i++, entry = entry->ring)
    join_chain(shard, entry);
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
  double_buckets(shard);
  weir_entry *entry = calloc(1, sizeof *entry + table->memo_bytes);
  if (entry == NULL) return NULL;
  memcpy(entry->fingerprint, fingerprint, sizeof entry->fingerprint);
  entry->shard = shard;
  entry->memo = (weir_memo *)(entry + 1);
  join_chain(shard, entry);
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
  weir_shard *shard = shard_of(table, fingerprint);
  if (shard == NULL) return NULL;
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
