/* The store inside this process: counters in hash tables, one per shard, each behind its own lock.
 *
 * A counter is found by the 128 bits of its identity, or of a SipHash of its key's text under a
 * random key of the store's own. So clients cannot choose keys that collide, and no byte of a key
 * is kept; that two of a million keys are taken for one another has a chance of 10^-27. All
 * counters of a home are in one shard where they come with an identity, so a request locks once.
 *
 * `keys` bounds the whole store and is shared out among the shards. When a shard is full a key
 * makes room that admits little when it is forgotten (see table.h). Keys do not fall into shards
 * quite evenly, so this begins a little before the bound: at 95 % or more of it, because a store of
 * few keys uses fewer shards. Memory: 60 to 75 bytes per key (see table.h). A shard that grows
 * keeps its lock meanwhile, some 100 ns per key in it; so stores of more than four million keys
 * have more shards unless the URL says otherwise.
 */
#include <sodium.h>
#include <stdlib.h>
#include <weir/backend.h>

#include "hash.h"
#include "lock.h"
#include "memory/table.h"

enum {
  KEYS_MOST = 100000000,
  KEYS_DEFAULT = 1000000,
  SHARDS_MOST = 256,
  SHARDS_DEFAULT = 64,
  SHARD_KEYS_LEAST = 8192, /* as long as there is more than one shard */
  SHARD_KEYS_MOST = 65536, /* where the URL leaves the shards open, up to SHARDS_MOST of them */
  PORTION = 256,           /* operations per reading of the clock */
  CACHE_LINE_BYTES = 64
};

struct shard {
  _Alignas(CACHE_LINE_BYTES) weir_lock lock;
  uint64_t version;  /* the last one given out here */
  int64_t latest_us; /* at which something was executed */
  weir_memory_table table;
};

struct memory {
  size_t keys_most;
  unsigned char hash_key[WEIR_HASH_SECRET_BYTES];
  size_t shard_count; /* a power of two */
  struct shard *shards;
};

/* --- one operation -----------------------------------------------------------------------------
 */

static weir_outcome refuse(weir_message *message, const char *why) {
  weir_message_set(message, "%s", why);
  return WEIR_REFUSED;
}

/* At now_us, under the shard's lock. An entry that it writes gets a version which no entry had before:
 * shards start apart and step alike. */
static inline weir_outcome execute_one(const struct memory *memory, struct shard *shard,
                                       weir_memory_fingerprint fingerprint, int64_t now_us,
                                       weir_operation *operation, weir_message *message) {
  weir_memory_entry *entry = weir_memory_table_find(&shard->table, fingerprint, now_us);
  int64_t value = operation->value;
  uint32_t stake = operation->stake;
  bool renews = true;
  /* Either it ends here, or what it writes is known. */
  switch (operation->kind) {
    case WEIR_ADD:
      value = entry != NULL ? entry->value : operation->seed;
      if (value > INT64_MAX - operation->delta)
        return refuse(message, "the value would pass 2^63 - 1");
      value += operation->delta;
      if (entry == NULL) break;
      /* The sum of many charges may pass a whole limit, where denied requests count: it is cut. */
      stake = stake < UINT32_MAX - entry->stake ? entry->stake + stake : UINT32_MAX;
      renews = operation->refresh;
      break;
    case WEIR_SUB:
      if (entry == NULL) return WEIR_ABSENT;
      if (entry->value < INT64_MIN + operation->delta)
        return refuse(message, "the value would pass -2^63");
      value = entry->value - operation->delta;
      stake = stake < entry->stake ? entry->stake - stake : 0;
      renews = false;
      break;
    case WEIR_GET:
      if (entry == NULL) return WEIR_ABSENT;
      if (entry->stake < stake) entry->stake = stake;
      operation->value = entry->value;
      operation->version_out = entry->version;
      return WEIR_DONE;
    case WEIR_CREATE:
      if (entry != NULL) return WEIR_CONFLICT;
      break;
    case WEIR_SWAP:
      if (entry == NULL) return WEIR_ABSENT;
      if (entry->version != operation->version) return WEIR_CONFLICT;
      break;
    case WEIR_PUT:
      break;
    case WEIR_DROP:
      if (entry == NULL) return WEIR_ABSENT;
      weir_memory_table_erase(&shard->table, entry);
      return WEIR_DONE;
    case WEIR_RAISE:
      return refuse(message, "memory has no such operation");
  }

  if (entry == NULL) entry = weir_memory_table_insert(&shard->table, fingerprint, now_us);
  if (entry == NULL) return refuse(message, "there is not enough memory for another key");
  /* The clock is far below 2^62, and a TTL is, too: no overflow. */
  if (renews) entry->expiry_us = now_us + operation->ttl_us;
  entry->value = operation->value = value;
  entry->stake = stake;
  shard->version += memory->shard_count;
  entry->version = operation->version_out = shard->version;
  return WEIR_DONE;
}

/* --- an exec -----------------------------------------------------------------------------------
 */

static weir_memory_fingerprint identity_of(const weir_operation *operation) {
  return (weir_memory_fingerprint){operation->identity[0], operation->identity[1]};
}

static weir_memory_fingerprint take_fingerprint(const struct memory *memory,
                                                const weir_operation *operation) {
  weir_memory_fingerprint fingerprint = identity_of(operation);
  if ((fingerprint.low | fingerprint.high) != 0) return fingerprint;
  uint64_t hash[2];
  weir_hash_128(memory->hash_key, operation->key, operation->key_length, hash);
  return (weir_memory_fingerprint){hash[0], hash[1]};
}

static struct shard *shard_of(const struct memory *memory, weir_memory_fingerprint fingerprint) {
  return &memory->shards[fingerprint.high & (memory->shard_count - 1)];
}

/* A reading of the clock may be older than the last, where its thread waited for the lock. */
static void note_time(struct shard *shard, int64_t now_us) {
  if (shard->latest_us < now_us) shard->latest_us = now_us;
}

/* At most PORTION operations, in their order. A lock is kept for those that follow each other in
 * one shard. */
static void execute_several(const struct memory *memory, weir_operation *operations, size_t count,
                            int64_t now_us, weir_message *message) {
  weir_memory_fingerprint fingerprints[PORTION];
  for (size_t i = 0; i < count; i++)
    fingerprints[i] = take_fingerprint(memory, &operations[i]);
  for (size_t from = 0, end; from < count; from = end) {
    struct shard *shard = shard_of(memory, fingerprints[from]);
    for (end = from + 1; end < count && shard_of(memory, fingerprints[end]) == shard;)
      end++;
    weir_lock_take(&shard->lock);
    note_time(shard, now_us);
    /* Places are fetched together, as each may be far from the processor. */
    for (size_t i = from; i < end; i++)
      weir_memory_table_prefetch(&shard->table, fingerprints[i]);
    for (size_t i = from; i < end; i++)
      operations[i].outcome =
          execute_one(memory, shard, fingerprints[i], now_us, &operations[i], message);
    weir_lock_leave(&shard->lock);
  }
}

/* A TTL counts from the last reading of the clock, which is no earlier than the call. */
static void memory_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                        weir_message *message) {
  const struct memory *memory = handle;
  int64_t now_us = weir_monotonic_us();
  if (count == 1 && now_us < deadline_us) {
    weir_memory_fingerprint fingerprint = take_fingerprint(memory, operations);
    struct shard *shard = shard_of(memory, fingerprint);
    weir_lock_take(&shard->lock);
    note_time(shard, now_us);
    operations->outcome = execute_one(memory, shard, fingerprint, now_us, operations, message);
    weir_lock_leave(&shard->lock);
    return;
  }
  size_t at = 0;
  for (; at < count && now_us < deadline_us; at += PORTION, now_us = weir_monotonic_us())
    execute_several(memory, operations + at, count - at < PORTION ? count - at : PORTION, now_us,
                    message);
  if (at < count) weir_message_set(message, "the deadline passed before the operation began");
  for (; at < count; at++) {
    operations[at].outcome = WEIR_NOT_SENT;
    operations[at].late = operations[at].slow = true;
  }
}

/* Where nothing was executed in the shard since the caller's reading, that is when this is. Most
 * execs are so, and need no reading of their own. */
static void memory_exec_at(void *handle, weir_operation *operations, size_t count, int64_t *now_us,
                           weir_message *message) {
  const struct memory *memory = handle;
  struct shard *shard = shard_of(memory, identity_of(operations));
  weir_lock_take(&shard->lock);
  if (*now_us < shard->latest_us) *now_us = weir_monotonic_us();
  note_time(shard, *now_us);
  for (weir_operation *o = operations; o < operations + count; o++)
    o->outcome = execute_one(memory, shard, identity_of(o), *now_us, o, message);
  weir_lock_leave(&shard->lock);
}

/* --- its shards --------------------------------------------------------------------------------
 */

/* In a child of the process that opened the store, a shard that a thread of its parent held at the
 * fork may be half changed, and stays. */
static void close_shards(struct shard *shards, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (weir_lock_try(&shards[i].lock)) weir_memory_table_clean_up(&shards[i].table);
  }
  free(shards);
}

/* NULL: not enough memory. The limits of the shards add up to `keys`. */
static struct shard *open_shards(size_t count, size_t keys) {
  struct shard *shards = aligned_alloc(CACHE_LINE_BYTES, count * sizeof *shards);
  if (shards == NULL) return NULL;
  for (size_t i = 0; i < count; i++) {
    struct shard *shard = &shards[i];
    *shard = (struct shard){.version = i};
    if (weir_memory_table_init(&shard->table, keys / count + (i < keys % count))) continue;
    close_shards(shards, i);
    return NULL;
  }
  return shards;
}

/* --- the store ---------------------------------------------------------------------------------
 */

static weir_status memory_open(const weir_url *url, int64_t timeout_us, void **handle,
                               weir_message *message) {
  int64_t keys, shards = SHARDS_DEFAULT;
  (void)timeout_us; /* nothing here waits but for other threads */
  weir_status status = weir_url_integer(url, "keys", 1, KEYS_MOST, KEYS_DEFAULT, &keys, message);
  if (status != WEIR_OK) return status;
  while (shards < SHARDS_MOST && keys / shards > SHARD_KEYS_MOST)
    shards *= 2;
  status = weir_url_integer(url, "shards", 1, SHARDS_MOST, shards, &shards, message);
  if (status != WEIR_OK) return status;
  if ((shards & (shards - 1)) != 0) {
    weir_message_set(message, "shards=%s: accepted is a power of two from 1 to %d",
                     weir_url_find(url, "shards"), SHARDS_MOST);
    return WEIR_BAD_URL;
  }
  while (shards > 1 && keys / shards < SHARD_KEYS_LEAST)
    shards /= 2;

  struct memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL || sodium_init() < 0) {
    free(memory);
    return WEIR_NO_MEMORY;
  }
  memory->keys_most = (size_t)keys;
  memory->shard_count = (size_t)shards;
  memory->shards = open_shards(memory->shard_count, (size_t)keys);
  if (memory->shards == NULL) {
    free(memory);
    return WEIR_NO_MEMORY;
  }
  randombytes_buf(memory->hash_key, sizeof memory->hash_key);
  *handle = memory;
  return WEIR_OK;
}

static void memory_close(void *handle) {
  struct memory *memory = handle;
  close_shards(memory->shards, memory->shard_count);
  sodium_memzero(memory->hash_key, sizeof memory->hash_key);
  free(memory);
}

static size_t memory_keys_most(void *handle) {
  return ((const struct memory *)handle)->keys_most;
}

static const weir_scheme schemes[] = {{"memory", 0}, {NULL, 0}};
static const char *const options[] = {"keys", "shards", NULL};

const weir_backend weir_memory_backend = {
    .size = sizeof(weir_backend),
    .name = "memory",
    .schemes = schemes,
    .options = options,
    .traits = WEIR_TRAIT_SWAP | WEIR_TRAIT_STAKE | WEIR_TRAIT_IMMEDIATE | WEIR_TRAIT_IDENTITY,
    .open = memory_open,
    .exec = memory_exec,
    .close = memory_close,
    .keys_most = memory_keys_most,
    .exec_at = memory_exec_at,
};
