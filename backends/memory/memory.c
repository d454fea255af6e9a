/* The store inside this process: counters in hash tables, one per shard, each behind its own mutex.
 *
 * A counter is found by the 128 bits of its identity, or of a SipHash of its key's text under a
 * random key of the store's own. Nobody outside can choose keys that collide, and no byte of a key
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
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "memory/operations.h"
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
  _Alignas(CACHE_LINE_BYTES) pthread_mutex_t lock;
  uint64_t version; /* the last one given out here */
  weir_memory_table table;
};

struct memory {
  size_t keys_most;
  unsigned char hash_key[crypto_shorthash_siphashx24_KEYBYTES];
  size_t shard_count; /* a power of two */
  struct shard *shards;
};

static weir_memory_fingerprint take_fingerprint(const struct memory *memory,
                                                const weir_operation *operation) {
  weir_memory_fingerprint fingerprint = {operation->identity[0], operation->identity[1]};
  if ((fingerprint.low | fingerprint.high) != 0) return fingerprint;
  unsigned char hash[crypto_shorthash_siphashx24_BYTES];
  _Static_assert(sizeof hash == sizeof fingerprint, "a fingerprint is one hash");
  crypto_shorthash_siphashx24(hash, (const unsigned char *)operation->key, operation->key_length,
                              memory->hash_key);
  memcpy(&fingerprint, hash, sizeof fingerprint);
  return fingerprint;
}

static struct shard *shard_of(const struct memory *memory, weir_memory_fingerprint fingerprint) {
  return &memory->shards[fingerprint.high & (memory->shard_count - 1)];
}

/* Executes `count` operations whose counters are in one shard. Their places are fetched together,
 * as each may be far from the processor. */
static void execute_in_shard(const struct memory *memory, struct shard *shard,
                             const weir_memory_fingerprint *fingerprints,
                             weir_operation *operations, size_t count, int64_t now_us,
                             weir_message *message) {
  pthread_mutex_lock(&shard->lock);
  for (size_t i = 0; i < count; i++)
    weir_memory_table_prefetch(&shard->table, fingerprints[i]);
  for (size_t i = 0; i < count; i++) {
    /* Shards start apart and step alike, so no version comes twice. */
    shard->version += memory->shard_count;
    weir_memory_execute(&shard->table, fingerprints[i], now_us, shard->version, &operations[i],
                        message);
  }
  pthread_mutex_unlock(&shard->lock);
}

/* At most PORTION operations, in their order. A lock is kept for those that follow each other in
 * one shard. */
static void execute(const struct memory *memory, weir_operation *operations, size_t count,
                    int64_t now_us, weir_message *message) {
  weir_memory_fingerprint fingerprints[PORTION];
  for (size_t i = 0; i < count; i++)
    fingerprints[i] = take_fingerprint(memory, &operations[i]);
  for (size_t from = 0, end; from < count; from = end) {
    struct shard *shard = shard_of(memory, fingerprints[from]);
    for (end = from + 1; end < count && shard_of(memory, fingerprints[end]) == shard;)
      end++;
    execute_in_shard(memory, shard, fingerprints + from, operations + from, end - from, now_us,
                     message);
  }
}

static void refuse_late(weir_operation *operations, size_t count, weir_message *message) {
  weir_message_set(message, "the deadline passed before the operation began");
  for (size_t i = 0; i < count; i++) {
    operations[i].outcome = WEIR_NOT_SENT;
    operations[i].late = true;
  }
}

/* A TTL counts from the last reading of the clock, which is no earlier than the call. */
static void memory_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                        weir_message *message) {
  for (size_t from = 0; from < count; from += PORTION) {
    size_t portion = count - from < PORTION ? count - from : PORTION;
    int64_t now_us = weir_monotonic_us();
    if (now_us >= deadline_us) {
      refuse_late(operations + from, count - from, message);
      return;
    }
    execute(handle, operations + from, portion, now_us, message);
  }
}

/* In a child of the process that opened the store, a shard that a thread of its parent held at the
 * fork may be half changed, and stays. */
static void close_shards(struct shard *shards, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (pthread_mutex_trylock(&shards[i].lock) != 0) continue;
    pthread_mutex_unlock(&shards[i].lock);
    weir_memory_table_clean_up(&shards[i].table);
    pthread_mutex_destroy(&shards[i].lock);
  }
  free(shards);
}

static bool open_shard(struct shard *shard, size_t index, size_t limit) {
  *shard = (struct shard){.version = index};
  if (!weir_memory_table_init(&shard->table, limit)) return false;
  if (pthread_mutex_init(&shard->lock, NULL) == 0) return true;
  weir_memory_table_clean_up(&shard->table);
  return false;
}

/* NULL: not enough memory. The limits of the shards add up to `keys`. */
static struct shard *open_shards(size_t count, size_t keys) {
  struct shard *shards = aligned_alloc(CACHE_LINE_BYTES, count * sizeof *shards);
  if (shards == NULL) return NULL;
  for (size_t i = 0; i < count; i++) {
    if (!open_shard(&shards[i], i, keys / count + (i < keys % count))) {
      close_shards(shards, i);
      return NULL;
    }
  }
  return shards;
}

static weir_status read_shards(const weir_url *url, int64_t keys, size_t *shards,
                               weir_message *message) {
  int64_t number;
  int64_t otherwise = SHARDS_DEFAULT;
  while (otherwise < SHARDS_MOST && keys / otherwise > SHARD_KEYS_MOST)
    otherwise *= 2;
  weir_status status = weir_url_integer(url, "shards", 1, SHARDS_MOST, otherwise, &number, message);
  if (status != WEIR_OK) return status;
  if ((number & (number - 1)) != 0) {
    weir_message_set(message, "shards=%s: accepted is a power of two from 1 to %d",
                     weir_url_find(url, "shards"), SHARDS_MOST);
    return WEIR_BAD_URL;
  }
  while (number > 1 && keys / number < SHARD_KEYS_LEAST)
    number /= 2;
  *shards = (size_t)number;
  return WEIR_OK;
}

static weir_status memory_open(const weir_url *url, int64_t timeout_us, void **handle,
                               weir_message *message) {
  int64_t keys;
  size_t shard_count;
  (void)timeout_us; /* nothing here waits for anybody but other threads */
  weir_status status = weir_url_integer(url, "keys", 1, KEYS_MOST, KEYS_DEFAULT, &keys, message);
  if (status == WEIR_OK) status = read_shards(url, keys, &shard_count, message);
  if (status != WEIR_OK) return status;
  struct memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL || sodium_init() < 0) {
    free(memory);
    return WEIR_NO_MEMORY;
  }
  memory->keys_most = (size_t)keys;
  memory->shard_count = shard_count;
  memory->shards = open_shards(shard_count, (size_t)keys);
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
};
