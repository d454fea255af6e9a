/* Snapshots: built from a configuration, read by whoever holds one. */
#include "registry/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry/keymap.h"
#include "registry/pool.h"

struct weir_named {
  const weir_config_limiter *config;
  size_t index;
  char prefix[WEIR_NAMED_PREFIX_MOST + 1];
  size_t prefix_length;
  weir_limiter *own;
  weir_limiter **tiers; /* in the order of the configuration; NULL: unlimited or blocked */
  weir_keymap overrides, allow, block;
};

struct weir_registry {
  atomic_size_t holders;
  weir_config *config;
  weir_pool pool;
  weir_descriptors *descriptors;
  weir_named *named; /* in the order of the configuration */
  size_t named_count;
  uint32_t *slots; /* index + 1 by the hash of its name; 0: empty */
  size_t slot_count;
};

/* While it is built. */
typedef struct builder {
  weir_registry *registry;
  const weir_pool *old;
  weir_config_faults *faults;
  bool has_memory;
} builder;

/* --- building -----------------------------------------------------------------------------------
 */

static void report(builder *self, weir_status status, weir_config_place place, const char *path,
                   const weir_message *message) {
  if (status == WEIR_NO_MEMORY)
    self->has_memory = false;
  else
    weir_config_fault(self->faults, place, path, "%s", message->text);
}

/* Rules on a store that cannot be opened are still looked at, on one that can. */
static void add_store(builder *self, const weir_config_store *store) {
  char path[WEIR_CONFIG_NAME_MOST + 32];
  weir_message message = {""};
  weir_pool *pool = &self->registry->pool;
  weir_status status = WEIR_BAD_URL;
  snprintf(path, sizeof path, "stores.%s.url", store->name);
  if (store->url != NULL) {
    status = weir_pool_add_store(pool, self->old, store->url, &message);
    if (status != WEIR_OK) report(self, status, store->url_place, path, &message);
  }
  if (status != WEIR_OK && weir_pool_add_store(pool, NULL, "memory:", &message) != WEIR_OK)
    self->has_memory = false;
}

static weir_limiter *find_limiter(builder *self, const weir_config_store *store, const char *rule,
                                  weir_config_place place, const char *path) {
  weir_registry *registry = self->registry;
  weir_message message = {""};
  weir_shared_limiter *found;
  if (rule == NULL || registry->config->store_count == 0 || !self->has_memory) return NULL;
  if (store == NULL)
    store = registry->config->stores; /* a fault already; the rule may be one too */
  weir_shared_store *shared = registry->pool.stores[store - registry->config->stores];
  weir_status status = weir_pool_find_limiter(&registry->pool, self->old, shared, rule,
                                              &store->options, &found, &message);
  if (status == WEIR_OK) return found->limiter;
  report(self, status, place, path, &message);
  return NULL;
}

static void add_tiers(builder *self, weir_named *named) {
  const weir_config_limiter *config = named->config;
  char path[2 * WEIR_CONFIG_NAME_MOST + 32];
  named->tiers = calloc(config->tier_count + 1, sizeof(weir_limiter *));
  if (named->tiers == NULL) {
    self->has_memory = false;
    return;
  }
  for (size_t i = 0; i < config->tier_count; i++) {
    const weir_config_tier *tier = &config->tiers[i];
    if (tier->kind != WEIR_CONFIG_TIER_RULE) continue;
    snprintf(path, sizeof path, "limiters.%s.tiers.%s", config->name, tier->name);
    named->tiers[i] = find_limiter(self, config->store, tier->rule, tier->place, path);
  }
}

static void enter_name(weir_registry *registry, const weir_named *named) {
  size_t at = weir_registry_hash(named->config->name, strlen(named->config->name));
  for (at &= registry->slot_count - 1; registry->slots[at] != 0;)
    at = (at + 1) & (registry->slot_count - 1);
  registry->slots[at] = (uint32_t)named->index + 1;
}

static void add_named(builder *self, const weir_config_limiter *config) {
  weir_registry *registry = self->registry;
  char path[WEIR_CONFIG_NAME_MOST + 32];
  weir_named *named = &registry->named[registry->named_count];
  named->config = config;
  named->index = registry->named_count++;
  named->prefix_length = (size_t)snprintf(named->prefix, sizeof named->prefix, "%s:", config->name);
  snprintf(path, sizeof path, "limiters.%s.rule", config->name);
  named->own = find_limiter(self, config->store, config->rule, config->rule_place, path);
  add_tiers(self, named);
  if (!weir_keymap_create(&named->overrides, &config->overrides, config, self->faults) ||
      !weir_keymap_create(&named->allow, &config->allow, NULL, self->faults) ||
      !weir_keymap_create(&named->block, &config->block, NULL, self->faults))
    self->has_memory = false;
  enter_name(registry, named);
}

static void add_throttle(builder *self) {
  const weir_config *config = self->registry->config;
  const weir_config_store *store = config->throttle.store;
  if (!config->throttle.enabled || store == NULL) return;
  weir_limiter_options options = store->options;
  options.memo_keys = config->throttle.memo_keys;
  weir_pool *pool = &self->registry->pool;
  weir_shared_store *shared = pool->stores[store - config->stores];
  if (weir_pool_set_throttle(pool, self->old, shared, &options, config->throttle.limiters) !=
      WEIR_OK)
    self->has_memory = false;
}

static weir_limiter *find_rule(void *self, const weir_config_store *store, const char *rule,
                               weir_config_place place, const char *path) {
  return find_limiter(self, store, rule, place, path);
}

static weir_store *find_store(void *self, const weir_config_store *store) {
  const weir_registry *registry = ((const builder *)self)->registry;
  return registry->pool.stores[store - registry->config->stores]->store;
}

static bool make_room(weir_registry *registry) {
  const weir_config *config = registry->config;
  registry->slot_count = 4;
  while (registry->slot_count < 2 * config->limiter_count)
    registry->slot_count *= 2;
  registry->slots = calloc(registry->slot_count, sizeof *registry->slots);
  registry->named = calloc(config->limiter_count + 1, sizeof *registry->named);
  return registry->slots != NULL && registry->named != NULL &&
         weir_pool_start(&registry->pool, config->store_count);
}

static void build(builder *self) {
  weir_registry *registry = self->registry;
  const weir_config *config = registry->config;
  self->has_memory = make_room(registry);
  for (size_t i = 0; i < config->store_count && self->has_memory; i++)
    add_store(self, &config->stores[i]);
  for (size_t i = 0; i < config->limiter_count && self->has_memory; i++)
    add_named(self, &config->limiters[i]);
  if (self->has_memory) add_throttle(self);
  if (!self->has_memory) return;
  const weir_descriptors_source source = {self, find_rule, find_store};
  registry->descriptors = weir_descriptors_create(&config->envoy, &source, self->faults);
  if (registry->descriptors == NULL) self->has_memory = false;
}

weir_registry *weir_registry_create(weir_config *config, const weir_registry *old,
                                    weir_config_faults *faults) {
  weir_registry *registry = calloc(1, sizeof *registry);
  builder self = {registry, old != NULL ? &old->pool : NULL, faults, false};
  weir_config_place whole = {.file = config->file};
  if (registry != NULL) {
    atomic_init(&registry->holders, 1);
    registry->config = config;
    build(&self);
  }
  if (!self.has_memory) weir_config_fault(faults, whole, "", "there is not enough memory");
  if (faults->count == 0) return registry;
  if (registry == NULL) weir_config_destroy(config);
  weir_registry_release(registry);
  return NULL;
}

weir_registry *weir_registry_load(const char *file, const weir_registry *old,
                                  weir_registry_look *look, weir_config_watch **watch,
                                  weir_config_faults *faults) {
  weir_config *config = weir_config_read(file, faults);
  if (config == NULL) return NULL;
  if (look != NULL) look(config, faults);
  weir_config_watch *newer = watch != NULL ? weir_config_watch_create(config) : NULL;
  if (newer != NULL) {
    weir_config_watch_destroy(*watch);
    *watch = newer;
  }
  return weir_registry_create(config, old, faults);
}

/* --- holding ------------------------------------------------------------------------------------
 */

weir_registry *weir_registry_retain(weir_registry *registry) {
  atomic_fetch_add_explicit(&registry->holders, 1, memory_order_relaxed);
  return registry;
}

void weir_registry_release(weir_registry *registry) {
  if (registry == NULL) return;
  if (atomic_fetch_sub_explicit(&registry->holders, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < registry->named_count; i++) {
    weir_named *named = &registry->named[i];
    weir_keymap_clean_up(&named->overrides);
    weir_keymap_clean_up(&named->allow);
    weir_keymap_clean_up(&named->block);
    free(named->tiers);
  }
  weir_descriptors_destroy(registry->descriptors);
  weir_pool_clean_up(&registry->pool);
  weir_config_destroy(registry->config);
  free(registry->named);
  free(registry->slots);
  free(registry);
}

bool weir_registry_is_last(const weir_registry *registry) {
  return atomic_load_explicit(&registry->holders, memory_order_acquire) == 1;
}

void weir_registry_post(weir_registry_mailbox *mailbox, weir_registry *registry) {
  weir_registry_retain(registry);
  weir_registry_release(atomic_exchange_explicit(&mailbox->next, registry, memory_order_acq_rel));
}

weir_registry *weir_registry_fetch(weir_registry_mailbox *mailbox, weir_registry *current) {
  if (atomic_load_explicit(&mailbox->next, memory_order_relaxed) == NULL) return current;
  weir_registry *newer = atomic_exchange_explicit(&mailbox->next, NULL, memory_order_acq_rel);
  if (newer == NULL) return current;
  weir_registry_release(current);
  return newer;
}

void weir_registry_mailbox_empty(weir_registry_mailbox *mailbox) {
  weir_registry_release(atomic_exchange_explicit(&mailbox->next, NULL, memory_order_acq_rel));
}

/* --- reading ------------------------------------------------------------------------------------
 */

const weir_config *weir_registry_config(const weir_registry *registry) {
  return registry->config;
}

const weir_named *weir_registry_find(const weir_registry *registry, const char *name,
                                     size_t length) {
  size_t at = weir_registry_hash(name, length) & (registry->slot_count - 1);
  for (; registry->slots[at] != 0; at = (at + 1) & (registry->slot_count - 1)) {
    const weir_named *named = &registry->named[registry->slots[at] - 1];
    if (named->prefix_length == length + 1 && memcmp(named->prefix, name, length) == 0)
      return named;
  }
  return NULL;
}

weir_target weir_named_target(const weir_named *named, const void *key, size_t length) {
  const weir_target blocked = {.kind = WEIR_TARGET_BLOCKED, .tier = ""};
  const weir_target allowed = {.kind = WEIR_TARGET_UNLIMITED, .tier = ""};
  if (weir_keymap_find(&named->block, key, length) >= 0) return blocked;
  if (weir_keymap_find(&named->allow, key, length) >= 0) return allowed;
  int32_t index = weir_keymap_find(&named->overrides, key, length);
  if (index < 0) return (weir_target){WEIR_TARGET_LIMITER, named->own, ""};
  const weir_config_tier *tier = &named->config->tiers[index];
  weir_target target = {WEIR_TARGET_LIMITER, named->tiers[index], tier->name};
  if (tier->kind == WEIR_CONFIG_TIER_UNLIMITED) target.kind = WEIR_TARGET_UNLIMITED;
  if (tier->kind == WEIR_CONFIG_TIER_BLOCKED) target.kind = WEIR_TARGET_BLOCKED;
  return target;
}

const char *weir_named_prefix(const weir_named *named, size_t *length) {
  *length = named->prefix_length;
  return named->prefix;
}

const weir_config_limiter *weir_named_config(const weir_named *named) {
  return named->config;
}

weir_limiter *weir_named_limiter(const weir_named *named) {
  return named->own;
}

weir_limiter *weir_named_tier_limiter(const weir_named *named, size_t tier) {
  return named->tiers[tier];
}

size_t weir_named_index(const weir_named *named) {
  return named->index;
}

size_t weir_registry_count(const weir_registry *registry) {
  return registry->named_count;
}

const weir_named *weir_registry_at(const weir_registry *registry, size_t index) {
  return &registry->named[index];
}

weir_throttle *weir_registry_throttle(const weir_registry *registry) {
  return registry->pool.throttle != NULL ? registry->pool.throttle->throttle : NULL;
}

const weir_descriptors *weir_registry_descriptors(const weir_registry *registry) {
  return registry->descriptors;
}

size_t weir_registry_limiters(const weir_registry *registry) {
  return registry->pool.limiter_count;
}

weir_limiter *weir_registry_limiter_at(const weir_registry *registry, size_t index,
                                       const char **store) {
  const weir_shared_limiter *shared = registry->pool.limiters[index];
  size_t at = 0;
  while (registry->pool.stores[at] != shared->store)
    at++;
  *store = registry->config->stores[at].name;
  return shared->limiter;
}

weir_store *weir_registry_store_at(const weir_registry *registry, size_t index) {
  return registry->pool.stores[index]->store;
}
