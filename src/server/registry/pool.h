/* Stores and limiters that snapshots share: each is made once for all that mean the same, and goes
 * with the last that holds it. */
#ifndef WEIR_REGISTRY_POOL_H
#define WEIR_REGISTRY_POOL_H

#include <stdatomic.h>

#include "registry/registry.h"

typedef struct weir_shared_store {
  atomic_size_t holders;
  weir_store *store;
  char url[]; /* never print it */
} weir_shared_store;

typedef struct weir_shared_limiter {
  atomic_size_t holders;
  weir_shared_store *store;
  weir_limiter_options options;
  weir_limiter *limiter;
  uint64_t hash;
  char rule[];
} weir_shared_limiter;

typedef struct weir_shared_throttle {
  atomic_size_t holders;
  weir_shared_store *store;
  weir_limiter_options options;
  uint32_t most;
  weir_throttle *throttle;
} weir_shared_throttle;

/* Of one snapshot. Zero it before use. */
typedef struct weir_pool {
  weir_shared_store **stores; /* in the order of the configuration, some of them the same */
  size_t store_count;
  weir_shared_limiter **limiters; /* each once */
  size_t limiter_count, limiter_room;
  weir_shared_limiter **slots; /* the same by their hashes */
  size_t slot_count;
  weir_shared_throttle *throttle;
} weir_pool;

/* The store of `old` or of this pool with this URL, or a new one; it stands at the end of
 * pool->stores. */
weir_status weir_pool_add_store(weir_pool *pool, const weir_pool *old, const char *url,
                                weir_message *message);

/* The limiter that means the same, or a new one. The pool holds it. */
weir_status weir_pool_find_limiter(weir_pool *pool, const weir_pool *old, weir_shared_store *store,
                                   const char *rule, const weir_limiter_options *options,
                                   weir_shared_limiter **found, weir_message *message);

weir_status weir_pool_set_throttle(weir_pool *pool, const weir_pool *old, weir_shared_store *store,
                                   const weir_limiter_options *options, uint32_t most);

/* Room for so many stores. False: no memory. */
bool weir_pool_start(weir_pool *pool, size_t stores);
void weir_pool_clean_up(weir_pool *pool);

#endif
