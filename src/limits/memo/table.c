#include "memo/table.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
  SHARDS_MOST = 64,
  POOL_HALVES_US = 5000000,
  DENIALS_DIVISOR = 4 /* the part of all keys that may be denied without a lock at once */
};

struct weir_table {
  size_t rules;
  size_t memo_bytes;
  weir_table_owner owner;
  const unsigned char *secret;             /* of the keys */
  size_t shard_keys;                       /* bound of each */
  size_t shard_count;                      /* a power of two */
  weir_shard *_Atomic shards[SHARDS_MOST]; /* NULL: no key of it has come yet */
  weir_denials_place denials;
};

weir_table *weir_table_create(size_t keys, size_t memo_bytes, size_t rules,
                              const weir_table_owner *owner,
                              const unsigned char secret[WEIR_KEY_SECRET_BYTES]) {
  weir_table *table = calloc(1, sizeof *table);
  if (table == NULL) return NULL;
  table->rules = rules;
  table->memo_bytes = memo_bytes;
  if (owner != NULL) table->owner = *owner;
  table->secret = secret;
  table->shard_count = 1;
  while (table->shard_count < SHARDS_MOST && table->shard_count * 2 <= keys)
    table->shard_count *= 2;
  table->shard_keys = keys / table->shard_count;
  return table;
}

static void free_buckets(weir_shard *shard) {
  if (shard->buckets != shard->own) free(shard->buckets);
}

/* In a child of the process that made it, a shard that a thread of the parent held at the fork is
 * never unlocked, and may be half changed: it stays. */
static void destroy_shard(weir_shard *shard) {
  if (shard == NULL || !weir_lock_try(&shard->lock)) return;
  for (weir_memo_entry *entry = shard->hand; shard->count > 0; shard->count--) {
    weir_memo_entry *next = entry->ring;
    free(entry->account);
    free(entry);
    entry = next;
  }
  free_buckets(shard);
  free(shard);
}

void weir_table_destroy(weir_table *table) {
  if (table == NULL) return;
  for (size_t i = 0; i < table->shard_count; i++)
    destroy_shard(table->shards[i]);
  weir_denials_destroy(&table->denials);
  free(table);
}

static weir_shard *create_shard(const weir_table *table) {
  size_t own = sizeof(weir_shard) + table->rules * sizeof(weir_pool);
  size_t bytes = own + table->owner.shard_bytes;
  bytes = (bytes + WEIR_SHARD_ALIGNMENT - 1) / WEIR_SHARD_ALIGNMENT * WEIR_SHARD_ALIGNMENT;
  weir_shard *shard = aligned_alloc(WEIR_SHARD_ALIGNMENT, bytes);
  if (shard == NULL) return NULL;
  memset(shard, 0, bytes);
  shard->most = table->shard_keys;
  shard->of_owner = (char *)shard + own;
  shard->buckets = shard->own;
  shard->bucket_mask = WEIR_OWN_BUCKETS - 1;
  return shard;
}

/* The shard of a key, made with the first of its keys: without a lock, which a child could find taken,
 * so that of threads that come first at once one has its shard kept. NULL: no memory. */
static weir_shard *shard_of(weir_table *table, const weir_key *key) {
  weir_shard *_Atomic *place = &table->shards[key->hash & (table->shard_count - 1)];
  weir_shard *shard = atomic_load_explicit(place, memory_order_acquire);
  if (shard != NULL) return shard;
  weir_shard *made = create_shard(table);
  if (made == NULL || atomic_compare_exchange_strong(place, &shard, made)) return made;
  destroy_shard(made);
  return shard;
}

/* By other bits than those that pick a shard. */
static weir_memo_entry **bucket_of(weir_shard *shard, const weir_key *key) {
  return &shard->buckets[key->hash / SHARDS_MOST & shard->bucket_mask];
}

static void join_chain(weir_shard *shard, weir_memo_entry *entry) {
  weir_memo_entry **bucket = bucket_of(shard, &entry->key);
  entry->chain = *bucket;
  *bucket = entry;
}

/* Keeps half of the buckets free, until there are as many as entries may be. Without memory for
 * more, chains only grow longer. A shard keeps its lock meanwhile, some 100 ns for each key in it:
 * with the default of 16384 keys, 10 us at the most. */
static void double_buckets(weir_shard *shard) {
  size_t buckets = shard->bucket_mask + 1;
  if (shard->count < buckets / 2 || buckets >= shard->most) return;
  weir_memo_entry **more = calloc(2 * buckets, sizeof(weir_memo_entry *));
  if (more == NULL) return;
  free_buckets(shard);
  shard->buckets = more;
  shard->bucket_mask = 2 * buckets - 1;
  weir_memo_entry *entry = shard->hand;
  for (size_t i = 0; i < shard->count; i++, entry = entry->ring)
    join_chain(shard, entry);
}

static weir_parting part_from(const weir_table *table, weir_memo_entry *entry, bool last) {
  const weir_table_owner *owner = &table->owner;
  return owner->let_go != NULL ? owner->let_go(owner->limiter, entry, last) : WEIR_GOES;
}

/* Gives up entries that no thread needs, and none used since the hand came by, until there is room
 * for one more: the clock algorithm (Corbato, "A paging experiment with the Multics system", 1968).
 * Using an entry so costs no more than a bit in it; keeping a list by use would touch its
 * neighbours. What the owner has a use for goes last. */
static void make_room(const weir_table *table, weir_shard *shard) {
  size_t all = shard->count;
  for (size_t looks = 3 * all; looks > 0 && shard->count >= shard->most; looks--) {
    weir_memo_entry *entry = shard->hand->ring;
    weir_parting parting = WEIR_STAYS;
    if (!entry->used && !entry->busy && entry->first_waiting == NULL &&
        !weir_denials_used(&table->denials, &entry->key))
      parting = part_from(table, entry, looks <= all);
    if (parting == WEIR_STAYS) {
      entry->used = false;
      shard->hand = entry;
      continue;
    }
    weir_memo_entry **at = bucket_of(shard, &entry->key);
    while (*at != entry)
      at = &(*at)->chain;
    *at = entry->chain;
    shard->hand->ring = entry->ring;
    if (shard->hand == entry) shard->hand = NULL;
    if (parting == WEIR_GOES) free(entry);
    shard->count--;
  }
}

static weir_memo_entry *add_entry(weir_table *table, weir_shard *shard, const weir_key *key) {
  make_room(table, shard);
  double_buckets(shard);
  weir_denials_begin(&table->denials, table->memo_bytes);
  weir_memo_entry *entry = calloc(1, sizeof *entry + table->memo_bytes + table->owner.bytes);
  if (entry == NULL) return NULL;
  entry->key = *key;
  weir_key_fingerprint(table->secret, key, entry->fingerprint);
  entry->shown = weir_denials_has(&table->denials, key);
  entry->shard = shard;
  entry->memo = (weir_memo *)(entry + 1);
  if (table->owner.begin != NULL)
    table->owner.begin(entry, (char *)entry->memo + table->memo_bytes);
  join_chain(shard, entry);
  weir_memo_entry *hand = shard->hand; /* behind it is where it comes last */
  entry->ring = hand != NULL ? hand->ring : entry;
  if (hand != NULL) hand->ring = entry;
  shard->hand = entry;
  shard->count++;
  return entry;
}

/* Has the processor fetch a memo along with its entry: both may be far from it, and a decision would come
 * upon one cache line after another, with atomic operations between that let none overtake. So much is that
 * of a window of four cells. Of many cells or rules a decision rarely needs all. */
static void prefetch_memo(const weir_memo_entry *entry) {
  enum { FETCHED_BYTES = 256 };
  for (size_t at = 0; at < FETCHED_BYTES; at += WEIR_SHARD_ALIGNMENT)
    __builtin_prefetch((const char *)(entry + 1) + at, 1);
}

weir_memo_entry *weir_table_lock(weir_table *table, const weir_key *key) {
  weir_shard *shard = shard_of(table, key);
  if (shard == NULL) return NULL;
  if (!table->owner.awake)
    weir_lock_take(&shard->lock);
  else
    weir_lock_take_awake(&shard->lock);
  weir_memo_entry *entry = *bucket_of(shard, key);
  if (entry != NULL) prefetch_memo(entry);
  while (entry != NULL && memcmp(&entry->key, key, sizeof *key) != 0)
    entry = entry->chain;
  if (entry == NULL)
    entry = add_entry(table, shard, key);
  else if (!entry->used)
    entry->used = true;
  if (entry == NULL) weir_lock_leave(&shard->lock);
  return entry;
}

void weir_table_show_denial(weir_table *table, weir_memo_entry *entry, const weir_decision *told) {
  entry->shown = entry->memo->denied_cost != 0;
  weir_denials_write(&table->denials, &entry->key, entry->clock_steps, entry->memo, told,
                     table->shard_keys * table->shard_count / DENIALS_DIVISOR);
}

void weir_table_hide_denial(weir_table *table, weir_memo_entry *entry) {
  if (entry->shown) weir_denials_forget(&table->denials, &entry->key);
  entry->shown = false;
}

const weir_denials_place *weir_table_denials(const weir_table *table) {
  return &table->denials;
}

/* Sums are halved in a while, so that what was long ago counts less: by all processes at the same moments,
 * as shares of one time add up to 1. They are signed, and halved towards 0. */
void weir_shard_learn(weir_shard *shard, weir_lesson *lessons, size_t rules, int64_t now_us) {
  bool halves = now_us >= shard->halves_us;
  if (halves) shard->halves_us = (now_us / POOL_HALVES_US + 1) * POOL_HALVES_US;
  for (size_t i = 0; i < rules; i++) {
    weir_pool *pool = &shard->pools[i];
    if (halves)
      *pool =
          (weir_pool){pool->mine / 2, pool->all / 2, (pool->cost + 1) / 2, (pool->charges + 1) / 2};
    pool->mine += lessons[i].mine;
    pool->all += lessons[i].all;
    pool->cost += lessons[i].cost;
    pool->charges += lessons[i].charges;
    lessons[i] = (weir_lesson){0};
  }
}

void weir_table_read_pools(weir_table *table, weir_pool pools[WEIR_RULES_MOST]) {
  memset(pools, 0, WEIR_RULES_MOST * sizeof pools[0]);
  for (size_t n = 0; n < table->shard_count; n++) {
    weir_shard *shard = atomic_load_explicit(&table->shards[n], memory_order_acquire);
    if (shard == NULL) continue;
    weir_lock_take(&shard->lock);
    for (size_t i = 0; i < table->rules; i++) {
      pools[i].mine += shard->pools[i].mine;
      pools[i].all += shard->pools[i].all;
      pools[i].cost += shard->pools[i].cost;
      pools[i].charges += shard->pools[i].charges;
    }
    weir_lock_leave(&shard->lock);
  }
}

weir_decided weir_table_decided(weir_table *table) {
  weir_decided decided = {0};
  for (size_t n = 0; n < table->shard_count; n++) {
    weir_shard *shard = atomic_load_explicit(&table->shards[n], memory_order_acquire);
    if (shard == NULL) continue;
    weir_lock_take(&shard->lock);
    decided.denied += shard->decided.denied;
    decided.allowed += shard->decided.allowed;
    decided.lease_used += shard->decided.lease_used;
    weir_lock_leave(&shard->lock);
  }
  return decided;
}

void weir_memo_entry_append(weir_memo_entry *entry, weir_claim *request) {
  request->next = NULL;
  *(entry->first_waiting != NULL ? &entry->last_waiting->next : &entry->first_waiting) = request;
  entry->last_waiting = request;
}

void weir_memo_entry_put_first(weir_memo_entry *entry, weir_claim *first) {
  weir_claim *last = first;
  while (last->next != NULL)
    last = last->next;
  last->next = entry->first_waiting;
  if (entry->first_waiting == NULL) entry->last_waiting = last;
  entry->first_waiting = first;
}

void weir_memo_entry_withdraw(weir_memo_entry *entry, weir_claim *request) {
  weir_claim *before = NULL;
  weir_claim **at = &entry->first_waiting;
  while (*at != request) {
    before = *at;
    at = &before->next;
  }
  *at = request->next;
  if (entry->last_waiting == request) entry->last_waiting = before;
}

weir_claim *weir_memo_entry_take_group(weir_memo_entry *entry, int64_t most) {
  weir_claim *first = entry->first_waiting;
  weir_claim *last = first;
  int64_t sum = first->ask.kind == WEIR_TAKE ? first->verdict.charge : 0;
  bool alone = first->ask.alone || first->ask.kind >= WEIR_RESET;
  for (weir_claim *next = last->next; next != NULL && !alone; next = last->next) {
    if (next->ask.kind == WEIR_TAKE) sum += next->verdict.charge;
    if (next->ask.alone || next->ask.kind >= WEIR_RESET || sum > most ||
        next->ask.limit != first->ask.limit)
      break;
    last = next;
  }
  entry->first_waiting = last->next;
  last->next = NULL;
  return first;
}
