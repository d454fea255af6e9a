/* Interning: what means the same is the same. */
#include "registry/pool.h"

#include <stdlib.h>
#include <string.h>

#include "registry/keymap.h"

static weir_status no_memory(weir_message *message) {
  *message = (weir_message){"there is not enough memory"};
  return WEIR_NO_MEMORY;
}

/* The one who lets go last must see all that the others did. */
static bool let_go(atomic_size_t *holders) {
  return atomic_fetch_sub_explicit(holders, 1, memory_order_acq_rel) == 1;
}

static void hold(atomic_size_t *holders) {
  atomic_fetch_add_explicit(holders, 1, memory_order_relaxed);
}

/* --- stores -------------------------------------------------------------------------------------
 */

static void release_store(weir_shared_store *shared) {
  if (shared == NULL || !let_go(&shared->holders)) return;
  weir_store_close(shared->store);
  free(shared);
}

static weir_shared_store *find_store(const weir_pool *pool, const char *url) {
  for (size_t i = 0; pool != NULL && i < pool->store_count; i++)
    if (strcmp(pool->stores[i]->url, url) == 0) return pool->stores[i];
  return NULL;
}

static weir_status open_store(const char *url, weir_shared_store **made, weir_message *message) {
  size_t length = strlen(url);
  weir_shared_store *shared = malloc(sizeof *shared + length + 1);
  if (shared == NULL) return no_memory(message);
  atomic_init(&shared->holders, 1);
  memcpy(shared->url, url, length + 1);
  weir_status status = weir_store_open(url, &shared->store, message);
  if (status == WEIR_OK)
    *made = shared;
  else
    free(shared);
  return status;
}

weir_status weir_pool_add_store(weir_pool *pool, const weir_pool *old, const char *url,
                                weir_message *message) {
  weir_shared_store *shared = find_store(pool, url);
  if (shared == NULL) shared = find_store(old, url);
  if (shared != NULL) {
    hold(&shared->holders);
  } else {
    weir_status status = open_store(url, &shared, message);
    if (status != WEIR_OK) return status;
  }
  pool->stores[pool->store_count++] = shared;
  return WEIR_OK;
}

/* --- limiters -----------------------------------------------------------------------------------
 */

static void release_limiter(weir_shared_limiter *shared) {
  if (!let_go(&shared->holders)) return;
  weir_limiter_return_leases(shared->limiter, NULL); /* what cannot go back stays charged */
  weir_limiter_destroy(shared->limiter);
  release_store(shared->store);
  free(shared);
}

typedef struct meaning {
  const weir_shared_store *store;
  const char *rule;
  const weir_limiter_options *options;
  uint64_t hash; /* of the rule, mixed with the store */
} meaning;

static bool means(const weir_shared_limiter *shared, const meaning *wanted) {
  return shared->hash == wanted->hash && shared->store == wanted->store &&
         strcmp(shared->rule, wanted->rule) == 0 &&
         memcmp(&shared->options, wanted->options, sizeof shared->options) == 0;
}

/* Where it stands or would stand: one slot in two is empty. */
static weir_shared_limiter **find_slot(const weir_pool *pool, const meaning *wanted) {
  size_t at = wanted->hash & (pool->slot_count - 1);
  while (pool->slots[at] != NULL && !means(pool->slots[at], wanted))
    at = (at + 1) & (pool->slot_count - 1);
  return &pool->slots[at];
}

static bool grow(weir_pool *pool) {
  if (pool->limiter_count < pool->limiter_room) return true;
  size_t room = pool->limiter_room == 0 ? 16 : 2 * pool->limiter_room;
  weir_shared_limiter **limiters = realloc(pool->limiters, room * sizeof *limiters);
  if (limiters == NULL) return false;
  pool->limiters = limiters;
  weir_shared_limiter **slots = calloc(2 * room, sizeof *slots);
  if (slots == NULL) return false;
  free(pool->slots);
  pool->slots = slots;
  pool->slot_count = 2 * room;
  pool->limiter_room = room;
  for (size_t i = 0; i < pool->limiter_count; i++) {
    size_t at = limiters[i]->hash & (pool->slot_count - 1);
    while (slots[at] != NULL)
      at = (at + 1) & (pool->slot_count - 1);
    slots[at] = limiters[i];
  }
  return true;
}

static weir_status make_limiter(weir_shared_store *store, const meaning *wanted,
                                weir_shared_limiter **made, weir_message *message) {
  size_t length = strlen(wanted->rule);
  weir_shared_limiter *shared = malloc(sizeof *shared + length + 1);
  if (shared == NULL) return no_memory(message);
  atomic_init(&shared->holders, 1);
  shared->store = store;
  shared->options = *wanted->options;
  shared->hash = wanted->hash;
  memcpy(shared->rule, wanted->rule, length + 1);
  weir_status status =
      weir_limiter_create(store->store, wanted->rule, wanted->options, &shared->limiter, message);
  if (status != WEIR_OK) {
    free(shared);
    return status;
  }
  hold(&store->holders);
  *made = shared;
  return WEIR_OK;
}

weir_status weir_pool_find_limiter(weir_pool *pool, const weir_pool *old, weir_shared_store *store,
                                   const char *rule, const weir_limiter_options *options,
                                   weir_shared_limiter **found, weir_message *message) {
  const meaning wanted = {
      store, rule, options,
      weir_registry_hash(rule, strlen(rule)) ^ weir_registry_hash(&store, sizeof store)};
  if (!grow(pool)) return no_memory(message);
  weir_shared_limiter **slot = find_slot(pool, &wanted);
  *found = *slot;
  if (*slot != NULL) return WEIR_OK;
  if (old != NULL && old->slot_count > 0) *found = *find_slot(old, &wanted);
  if (*found != NULL) {
    hold(&(*found)->holders);
  } else {
    weir_status status = make_limiter(store, &wanted, found, message);
    if (status != WEIR_OK) return status;
  }
  *slot = *found;
  pool->limiters[pool->limiter_count++] = *found;
  return WEIR_OK;
}

/* --- on demand ----------------------------------------------------------------------------------
 */

static void release_throttle(weir_shared_throttle *shared) {
  if (shared == NULL || !let_go(&shared->holders)) return;
  weir_throttle_destroy(shared->throttle);
  release_store(shared->store);
  free(shared);
}

weir_status weir_pool_set_throttle(weir_pool *pool, const weir_pool *old, weir_shared_store *store,
                                   const weir_limiter_options *options, uint32_t most) {
  weir_shared_throttle *before = old != NULL ? old->throttle : NULL;
  if (before != NULL && before->store == store && before->most == most &&
      memcmp(&before->options, options, sizeof *options) == 0) {
    hold(&before->holders);
    pool->throttle = before;
    return WEIR_OK;
  }
  weir_shared_throttle *shared = malloc(sizeof *shared);
  if (shared == NULL) return WEIR_NO_MEMORY;
  atomic_init(&shared->holders, 1);
  shared->store = store;
  shared->options = *options;
  shared->most = most;
  shared->throttle = weir_throttle_create(store->store, options, most);
  if (shared->throttle == NULL) {
    free(shared);
    return WEIR_NO_MEMORY;
  }
  hold(&store->holders);
  pool->throttle = shared;
  return WEIR_OK;
}

/* --- the whole ----------------------------------------------------------------------------------
 */

bool weir_pool_start(weir_pool *pool, size_t stores) {
  pool->stores = calloc(stores + 1, sizeof(weir_shared_store *));
  return pool->stores != NULL;
}

void weir_pool_clean_up(weir_pool *pool) {
  release_throttle(pool->throttle);
  for (size_t i = 0; i < pool->limiter_count; i++)
    release_limiter(pool->limiters[i]);
  for (size_t i = 0; i < pool->store_count; i++)
    release_store(pool->stores[i]);
  free(pool->limiters);
  free(pool->slots);
  free(pool->stores);
  *pool = (weir_pool){0};
}
