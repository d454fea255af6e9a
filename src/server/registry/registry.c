/* Snapshots: built from a configuration, read by any thread that holds a reference.
 *
 *     weir_registry --- weir_named: a limiter of the configuration, its tiers, lists and overrides
 *          |            weir_named_group: some of these that are one decision
 *          |                 |
 *          |                 v
 *          +------> weir_shared_limiter ------> weir_shared_store
 *
 * Equal meanings share one object: a store, limiter or throttle is made once for all that ask for
 * it, is taken over from the snapshot before, with what it remembers, and goes with the last that
 * holds it. */
#include "registry/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "table.h"

/* Each counts its holders: snapshots, and of a store its limiters, too. */
typedef struct weir_shared_store {
  atomic_size_t holders;
  weir_store *store;
  char url[]; /* never print it */
} weir_shared_store;

struct weir_shared_limiter {
  atomic_size_t holders;              /* who ask it */
  atomic_size_t ties;                 /* they all together, and the one that takes its place */
  struct weir_shared_limiter *before; /* whose place this one takes; NULL: none's */
  weir_shared_store *store;
  weir_limiter_options options;
  weir_limiter *limiter;
  char rule[];
};

typedef struct weir_shared_throttle {
  atomic_size_t holders;
  weir_shared_store *store;
  weir_limiter_options options;
  uint32_t most;
  weir_throttle *throttle;
} weir_shared_throttle;

/* While it is built. */
typedef struct builder {
  weir_registry *registry;
  const weir_registry *old; /* NULL: none */
  weir_config_faults *faults;
  bool has_memory;
} builder;

/* --- what snapshots share -----------------------------------------------------------------------
 */

static weir_status no_memory(weir_message *message) {
  *message = (weir_message){"there is not enough memory"};
  return WEIR_NO_MEMORY;
}

static void hold(atomic_size_t *holders) {
  atomic_fetch_add_explicit(holders, 1, memory_order_relaxed);
}

/* The last holder must see all that the others have written. */
static bool let_go(atomic_size_t *holders) {
  return atomic_fetch_sub_explicit(holders, 1, memory_order_acq_rel) == 1;
}

static void release_store(weir_shared_store *shared) {
  if (shared == NULL || !let_go(&shared->holders)) return;
  weir_store_close(shared->store);
  free(shared);
}

static weir_shared_store *find_store(const weir_registry *registry, const char *url) {
  for (size_t i = 0; registry != NULL && i < registry->store_count; i++)
    if (strcmp(registry->stores[i]->url, url) == 0) return registry->stores[i];
  return NULL;
}

/* The store of this snapshot or of the one before with this URL, or a new one: it is the next of
 * this snapshot's stores. */
static weir_status share_store(builder *self, const char *url, weir_message *message) {
  weir_registry *registry = self->registry;
  weir_shared_store *shared = find_store(registry, url);
  if (shared == NULL) shared = find_store(self->old, url);
  if (shared != NULL) {
    hold(&shared->holders);
  } else {
    size_t length = strlen(url);
    shared = malloc(sizeof *shared + length + 1);
    if (shared == NULL) return no_memory(message);
    atomic_init(&shared->holders, 1);
    memcpy(shared->url, url, length + 1);
    weir_status status = weir_store_open(url, &shared->store, message);
    if (status != WEIR_OK) {
      free(shared);
      return status;
    }
  }
  registry->stores[registry->store_count++] = shared;
  return WEIR_OK;
}

static void untie(weir_shared_limiter *shared) {
  while (shared != NULL && let_go(&shared->ties)) {
    weir_shared_limiter *before = shared->before;
    weir_limiter_destroy(shared->limiter);
    release_store(shared->store);
    free(shared);
    shared = before;
  }
}

void weir_registry_let_go(weir_shared_limiter *shared) {
  if (!let_go(&shared->holders)) return;
  weir_limiter_return_leases(shared->limiter, NULL); /* what cannot go back stays charged */
  untie(shared);
}

/* A limiter decides by these. */
typedef struct meaning {
  weir_shared_store *store;
  const char *rule;
  const weir_limiter_options *options;
} meaning;

static bool means(const void *context, const void *item, const void *wanted) {
  const weir_shared_limiter *shared = *(weir_shared_limiter *const *)item;
  const meaning *other = wanted;
  (void)context;
  return shared->store == other->store && strcmp(shared->rule, other->rule) == 0 &&
         memcmp(&shared->options, other->options, sizeof shared->options) == 0;
}

/* By the rule alone: few stores have the same one. */
static weir_shared_limiter *find_shared(const weir_registry *registry, const meaning *wanted) {
  uint32_t mark = weir_hash_table_mark(&registry->by_meaning, wanted->rule, strlen(wanted->rule));
  weir_shared_limiter **found = weir_hash_table_find(&registry->by_meaning, mark, wanted);
  return found != NULL ? *found : NULL;
}

static weir_status make_limiter(const meaning *wanted, weir_shared_limiter **made,
                                weir_message *message) {
  size_t length = strlen(wanted->rule);
  weir_shared_limiter *shared = malloc(sizeof *shared + length + 1);
  if (shared == NULL) return no_memory(message);
  atomic_init(&shared->holders, 1);
  atomic_init(&shared->ties, 1);
  shared->before = NULL;
  shared->store = wanted->store;
  shared->options = *wanted->options;
  memcpy(shared->rule, wanted->rule, length + 1);
  weir_status status = weir_limiter_create(wanted->store->store, wanted->rule, wanted->options,
                                           &shared->limiter, message);
  if (status != WEIR_OK) {
    free(shared);
    return status;
  }
  hold(&wanted->store->holders);
  *made = shared;
  return WEIR_OK;
}

/* The limiter of this snapshot or of the one before that means this, or a new one. */
static weir_status share_limiter(builder *self, const meaning *wanted, weir_limiter **limiter,
                                 weir_message *message) {
  weir_registry *registry = self->registry;
  weir_shared_limiter *shared = find_shared(registry, wanted);
  if (shared == NULL) {
    if (!weir_array_grow(&registry->limiters, &registry->limiter_room, registry->limiter_count + 1,
                         sizeof *registry->limiters))
      return no_memory(message);
    if (self->old != NULL) shared = find_shared(self->old, wanted);
    if (shared != NULL) {
      hold(&shared->holders);
    } else {
      weir_status status = make_limiter(wanted, &shared, message);
      if (status != WEIR_OK) return status;
    }
    uint32_t mark = weir_hash_table_mark(&registry->by_meaning, wanted->rule, strlen(wanted->rule));
    weir_shared_limiter **entered = weir_hash_table_add(&registry->by_meaning, mark);
    if (entered == NULL) {
      weir_registry_let_go(shared);
      return no_memory(message);
    }
    *entered = registry->limiters[registry->limiter_count++] = shared;
  }
  *limiter = shared->limiter;
  return WEIR_OK;
}

static void release_throttle(weir_shared_throttle *shared) {
  if (shared == NULL || !let_go(&shared->holders)) return;
  weir_throttle_destroy(shared->throttle);
  release_store(shared->store);
  free(shared);
}

/* --- building -----------------------------------------------------------------------------------
 */

static void report(builder *self, weir_status status, weir_config_place place, const char *path,
                   const weir_message *message) {
  if (status == WEIR_NO_MEMORY)
    self->has_memory = false;
  else
    weir_config_fault(self->faults, place, path, "%s", message->text);
}

/* Where a store cannot be opened, memory: takes its place, so that its rules are checked, too. */
static void add_store(builder *self, const weir_config_store *store) {
  char path[WEIR_CONFIG_NAME_MOST + 32];
  weir_message message = {""};
  weir_status status = WEIR_BAD_URL;
  snprintf(path, sizeof path, "stores.%s.url", store->name);
  if (store->url != NULL) {
    status = share_store(self, store->url, &message);
    if (status != WEIR_OK) report(self, status, store->url_place, path, &message);
  }
  if (status != WEIR_OK && share_store(self, "memory:", &message) != WEIR_OK)
    self->has_memory = false;
}

static weir_shared_store *store_of(const weir_registry *registry, const weir_config_store *store) {
  return registry->stores[store - registry->config->stores];
}

enum { LIMITS_US = 1000000 };
weir_limiter_options weir_registry_options(const weir_config_store *store,
                                           const weir_config_limiter *config) {
  weir_limiter_options options = store->options;
  if (config != NULL && config->has_limits) options.limits_us = LIMITS_US;
  if (config != NULL && config->absent_denies) options.flags |= WEIR_ABSENT_DENIES;
  return options;
}

/* The file has no option limits_us: what is wrong with it, in the file's own words. */
static void say_as_in_file(weir_message *message) {
  static const char option[] = "option limits_us";
  if (strncmp(message->text, option, sizeof option - 1) != 0) return;
  snprintf(message->text, sizeof message->text,
           "limits: store is accepted where one rule of the text has most=, and no in-flight one "
           "lease=; "
           "most: gives it to each rule of a text, so with several write it behind one of them");
}

/* The limiter for a rule, or NULL and a fault. `config`: of whose limiter; NULL: of none. */
static weir_limiter *find_limiter_of(builder *self, const weir_config_limiter *config,
                                     const weir_config_store *store, const char *rule,
                                     weir_config_place place, const char *path) {
  const weir_registry *registry = self->registry;
  weir_message message = {""};
  weir_limiter *limiter = NULL;
  if (rule == NULL || registry->config->store_count == 0 || !self->has_memory) return NULL;
  if (store == NULL)
    store = registry->config->stores; /* a fault already; the rule may be one too */
  const weir_limiter_options options = weir_registry_options(store, config);
  const meaning wanted = {store_of(registry, store), rule, &options};
  weir_status status = share_limiter(self, &wanted, &limiter, &message);
  if (status != WEIR_OK) {
    say_as_in_file(&message);
    report(self, status, place, path, &message);
  }
  return limiter;
}

/* As weir_descriptors_source has it. */
static weir_limiter *find_limiter(void *context, const weir_config_store *store, const char *rule,
                                  weir_config_place place, const char *path) {
  return find_limiter_of(context, NULL, store, rule, place, path);
}

static weir_store *find_opened(void *context, const weir_config_store *store) {
  return store_of(((const builder *)context)->registry, store)->store;
}

/* --- changed limits -----------------------------------------------------------------------------
 *
 * A new limiter of the same name goes on where the one before is. That stays for it until another
 * takes its own place, and takes nobody's any more: so they are two at the most. */

static weir_shared_limiter *find_meant(const weir_registry *registry, const weir_registry *of,
                                       const weir_config_limiter *config, const char *rule) {
  if (rule == NULL || config->store == NULL) return NULL;
  const weir_limiter_options options = weir_registry_options(config->store, config);
  const meaning wanted = {store_of(of, config->store), rule, &options};
  return find_shared(registry, &wanted);
}

static void take_place(const builder *self, const weir_config_limiter *config, const char *rule,
                       const weir_config_limiter *was, const char *old_rule) {
  weir_shared_limiter *shared = find_meant(self->registry, self->registry, config, rule);
  weir_shared_limiter *before = find_meant(self->old, self->old, was, old_rule);
  bool is_new = find_meant(self->old, self->registry, config, rule) == NULL;
  if (shared == NULL || before == NULL || !is_new || shared->before != NULL ||
      weir_limiter_follow(shared->limiter, before->limiter, NULL) != WEIR_OK)
    return;
  untie(before->before);
  before->before = NULL;
  hold(&before->ties);
  shared->before = before;
}

static void take_places(const builder *self, const weir_config_limiter *config) {
  const weir_named *old = weir_registry_find(self->old, config->name, strlen(config->name));
  if (old == NULL) return;
  const weir_config_limiter *was = old->config;
  take_place(self, config, config->rule, was, was->rule);
  for (size_t i = 0; i < config->tier_count; i++) {
    const weir_config_tier *tier = &config->tiers[i];
    const weir_config_tier *before = weir_config_find_tier(was, tier->name, strlen(tier->name));
    if (before != NULL) take_place(self, config, tier->rule, was, before->rule);
  }
}

static bool has_name(const void *context, const void *item, const void *wanted) {
  const weir_named *named = *(const weir_named *const *)item;
  (void)context;
  return weir_hash_text_is(wanted, named->prefix, named->prefix_length - 1);
}

bool weir_registry_holds(const weir_limiter *limiter) {
  for (size_t i = 0; limiter != NULL && i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    if (weir_limiter_read_rule(limiter, i, &rule) == WEIR_OK &&
        strcmp(rule.algorithm, "in-flight") == 0)
      return true;
  }
  return false;
}

/* --- who is of which class, and whose tenant ---------------------------------------------------- */

static bool has_class(const weir_limiter *limiter, const char *class_name) {
  char name[WEIR_CLASS_NAME_BYTES];
  for (size_t i = 0; weir_limiter_read_class(limiter, i, name) == WEIR_OK; i++)
    if (class_name == NULL || strcmp(name, class_name) == 0) return true;
  return false;
}

/* Whether some client can name a tenant: of whichever protocol, as limiters are asked in each. */
static bool may_name_tenants(const weir_config *config, const weir_config_limiter *limiter) {
  bool may = limiter->has_tenant;
  for (size_t i = 0; i < config->listener_count; i++)
    may |= (config->listeners[i].says & WEIR_CONFIG_TENANT) != 0;
  return may;
}

static void add_class(builder *self, weir_named *named, const char *name) {
  weir_registry *registry = self->registry;
  if (weir_named_find_class(registry, named, name) != SIZE_MAX) return;
  if (!weir_array_grow(&registry->classes, &registry->class_room, registry->class_count + 1,
                       sizeof *registry->classes)) {
    self->has_memory = false;
    return;
  }
  snprintf(registry->classes[registry->class_count++].name, WEIR_CLASS_NAME_BYTES, "%s", name);
  named->class_count++;
}

/* Tiers may have classes of their own: as many as one rule may have are counted. */
static void add_classes(builder *self, weir_named *named) {
  enum { MOST = 8 };
  char name[WEIR_CLASS_NAME_BYTES];
  named->first_class = self->registry->class_count;
  for (size_t i = 0; named->tiers != NULL && i <= named->config->tier_count; i++) {
    const weir_limiter *limiter = i == 0 ? named->own : named->tiers[i - 1];
    for (size_t j = 0; limiter != NULL && named->class_count < MOST; j++) {
      if (weir_limiter_read_class(limiter, j, name) != WEIR_OK) break;
      add_class(self, named, name);
    }
  }
  if (named->class_count > 0) add_class(self, named, "");
}

/* What the file says of classes and tenants must mean something to a rule of the limiter or of a tier; and
 * each rule with classes must have the one that is given to all others. */
static void check_given(builder *self, weir_named *named) {
  const weir_config_limiter *config = named->config;
  char path[WEIR_CONFIG_NAME_MOST + 32];
  bool is_whole = true, has_classes = false;
  for (size_t i = 0; named->tiers != NULL && i <= config->tier_count; i++) {
    weir_limiter *limiter = i == 0 ? named->own : named->tiers[i - 1];
    bool is_rule = i == 0 || config->tiers[i - 1].kind == WEIR_CONFIG_TIER_RULE;
    is_whole &= limiter != NULL || !is_rule;
    if (limiter == NULL) continue;
    named->needs_tenant |= weir_limiter_check_extra(limiter, NULL, NULL) != WEIR_OK;
    if (!has_class(limiter, NULL)) continue;
    has_classes = true;
    if (config->class_else == NULL || has_class(limiter, config->class_else)) continue;
    snprintf(path, sizeof path, "limiters.%s.class_else", config->name);
    weir_config_fault(self->faults, config->class_else_place, path,
                      "the rule%s%s has no class \"%.64s\"", i > 0 ? " of tier " : "",
                      i > 0 ? config->tiers[i - 1].name : "", config->class_else);
  }
  const struct {
    const char *name;
    bool is_idle;
    weir_config_place place;
    const char *needs;
  } all[] = {{"class", config->has_class && !has_classes, config->class_place, "classes="},
             {"class_else", config->class_else != NULL && !has_classes, config->class_else_place,
              "classes="},
             {"tenant", config->has_tenant && !named->needs_tenant, config->tenant_place,
              "a shared-window"}};
  for (size_t i = 0; is_whole && i < sizeof all / sizeof *all; i++) {
    snprintf(path, sizeof path, "limiters.%s.%s", config->name, all[i].name);
    if (all[i].is_idle)
      weir_config_fault(self->faults, all[i].place, path, "accepted is a limiter with %s",
                        all[i].needs);
  }
  if (!named->needs_tenant || may_name_tenants(self->registry->config, config)) return;
  snprintf(path, sizeof path, "limiters.%s.rule", config->name);
  weir_config_fault(self->faults, config->rule_place, path,
                    "a shared-window is asked with tenants, which no request can name: accepted "
                    "with tenant: of the limiter, or says: [tenant] of a listener");
}

static void add_named(builder *self, const weir_config_limiter *config) {
  weir_registry *registry = self->registry;
  char path[2 * WEIR_CONFIG_NAME_MOST + 32];
  weir_named *named = &registry->named[registry->named_count];
  named->config = config;
  named->index = registry->named_count++;
  named->prefix_length = (size_t)snprintf(named->prefix, sizeof named->prefix, "%s:", config->name);
  snprintf(path, sizeof path, "limiters.%s.rule", config->name);
  named->own = find_limiter_of(self, config, config->store, config->rule, config->rule_place, path);

  named->tiers = calloc(config->tier_count + 1, sizeof(weir_limiter *));
  for (size_t i = 0; named->tiers != NULL && i < config->tier_count; i++) {
    const weir_config_tier *tier = &config->tiers[i];
    if (tier->kind != WEIR_CONFIG_TIER_RULE) continue;
    snprintf(path, sizeof path, "limiters.%s.tiers.%s", config->name, tier->name);
    named->tiers[i] = find_limiter_of(self, config, config->store, tier->rule, tier->place, path);
  }

  if (self->old != NULL) take_places(self, config);

  named->holds = weir_registry_holds(named->own);
  for (size_t i = 0; named->tiers != NULL && i < config->tier_count; i++)
    named->holds |= weir_registry_holds(named->tiers[i]);
  check_given(self, named);
  add_classes(self, named);

  uint32_t mark = weir_hash_table_mark(&registry->by_name, config->name, strlen(config->name));
  const weir_named **entered = weir_hash_table_add(&registry->by_name, mark);
  if (entered != NULL) *entered = named;
  if (entered == NULL || named->tiers == NULL ||
      !weir_keymap_create(&named->overrides, &config->overrides, config, self->faults) ||
      !weir_keymap_create(&named->allow, &config->allow, NULL, self->faults) ||
      !weir_keymap_create(&named->block, &config->block, NULL, self->faults))
    self->has_memory = false;
}

static bool has_group_name(const void *context, const void *item, const void *wanted) {
  const weir_named_group *group = *(const weir_named_group *const *)item;
  (void)context;
  return weir_hash_text_is(wanted, group->name, strlen(group->name));
}

/* The first of a limiter's rules, its own or a tier's, that cannot be charged with others as one, or,
 * with `beside`, beside another that keeps what it is charged. NULL: there is none. */
static weir_limiter *find_unfit(const weir_named *named, bool beside, weir_message *why) {
  for (size_t i = 0; named->tiers != NULL && i <= named->config->tier_count; i++) {
    weir_limiter *limiter = i == 0 ? named->own : named->tiers[i - 1];
    weir_limiter *const twice[] = {limiter, limiter};
    if (limiter != NULL && weir_check_all(twice, beside ? 2 : 1, why) != WEIR_OK) return limiter;
  }
  return NULL;
}

/* Any of a member's rules may meet any of the others'. */
static void check_group(builder *self, const weir_config_group *config,
                        const weir_named_group *group) {
  char path[WEIR_CONFIG_NAME_MOST + 32];
  weir_limiter *keeps = NULL;
  snprintf(path, sizeof path, "groups.%s", config->name);
  for (size_t i = 0; i < group->member_count; i++) {
    weir_message why = {""};
    weir_limiter *unfit = find_unfit(group->members[i], false, &why);
    if (unfit == NULL) {
      weir_limiter *const both[] = {keeps, find_unfit(group->members[i], true, &why)};
      if (both[1] != NULL && keeps != NULL && weir_check_all(both, 2, &why) != WEIR_OK)
        unfit = both[1];
      else if (both[1] != NULL)
        keeps = both[1];
    }
    if (unfit != NULL)
      weir_config_fault(self->faults, config->members[i].place, path, "limiter \"%s\": %s",
                        group->members[i]->config->name, why.text);
  }
}

static void add_group(builder *self, const weir_config_group *config) {
  weir_registry *registry = self->registry;
  weir_named_group *group = &registry->groups[registry->group_count];
  group->name = config->name;
  group->index = registry->group_count++;
  group->member_count = config->member_count;
  for (size_t i = 0; i < config->member_count; i++)
    group->members[i] = &registry->named[config->members[i].limiter];
  check_group(self, config, group);
  uint32_t mark =
      weir_hash_table_mark(&registry->by_group_name, config->name, strlen(config->name));
  const weir_named_group **entered = weir_hash_table_add(&registry->by_group_name, mark);
  self->has_memory = entered != NULL;
  if (entered != NULL) *entered = group;
}

/* The limiters on demand of the snapshot before where they mean the same, or new ones. */
static void add_throttle(builder *self) {
  weir_registry *registry = self->registry;
  const weir_config *config = registry->config;
  if (!config->throttle.enabled || config->throttle.store == NULL) return;
  weir_shared_store *store = store_of(registry, config->throttle.store);
  weir_limiter_options options = config->throttle.store->options;
  options.memo_keys = config->throttle.memo_keys;

  weir_shared_throttle *before = self->old != NULL ? self->old->shared_throttle : NULL;
  if (before != NULL && before->store == store && before->most == config->throttle.limiters &&
      memcmp(&before->options, &options, sizeof options) == 0) {
    hold(&before->holders);
    registry->shared_throttle = before;
    registry->throttle = before->throttle;
    return;
  }
  weir_shared_throttle *shared = malloc(sizeof *shared);
  self->has_memory = shared != NULL;
  if (shared == NULL) return;
  shared->store = store;
  shared->options = options;
  shared->most = config->throttle.limiters;
  shared->throttle = weir_throttle_create(store->store, &options, shared->most);
  self->has_memory = shared->throttle != NULL;
  if (!self->has_memory) {
    free(shared);
    return;
  }
  atomic_init(&shared->holders, 1);
  hold(&store->holders);
  registry->shared_throttle = shared;
  registry->throttle = shared->throttle;
}

static void build(builder *self) {
  weir_registry *registry = self->registry;
  const weir_config *config = registry->config;
  weir_hash_table_init(&registry->by_meaning, sizeof(weir_shared_limiter *), means, NULL);
  weir_hash_table_init(&registry->by_name, sizeof(weir_named *), has_name, NULL);
  weir_hash_table_init(&registry->by_group_name, sizeof(weir_named_group *), has_group_name, NULL);
  registry->stores = calloc(config->store_count + 1, sizeof(weir_shared_store *));
  registry->named = calloc(config->limiter_count + 1, sizeof *registry->named);
  registry->groups = calloc(config->group_count + 1, sizeof *registry->groups);
  self->has_memory =
      registry->stores != NULL && registry->named != NULL && registry->groups != NULL;
  for (size_t i = 0; i < config->store_count && self->has_memory; i++)
    add_store(self, &config->stores[i]);
  for (size_t i = 0; i < config->limiter_count && self->has_memory; i++)
    add_named(self, &config->limiters[i]);
  for (size_t i = 0; i < config->group_count && self->has_memory; i++)
    add_group(self, &config->groups[i]);
  if (self->has_memory) add_throttle(self);
  if (!self->has_memory) return;
  const weir_descriptors_source source = {self, find_limiter, find_opened};
  registry->descriptors = weir_descriptors_create(&config->envoy, &source, self->faults);
  if (registry->descriptors == NULL) self->has_memory = false;
}

weir_registry *weir_registry_create(weir_config *config, const weir_registry *old,
                                    weir_config_faults *faults) {
  weir_registry *registry = calloc(1, sizeof *registry);
  builder self = {registry, old, faults, false};
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

/* --- holding ------------------------------------------------------------------------------------
 */

weir_registry *weir_registry_retain(weir_registry *registry) {
  hold(&registry->holders);
  return registry;
}

void weir_registry_release(weir_registry *registry) {
  if (registry == NULL || !let_go(&registry->holders)) return;
  for (size_t i = 0; i < registry->named_count; i++) {
    weir_named *named = &registry->named[i];
    weir_keymap_clean_up(&named->overrides);
    weir_keymap_clean_up(&named->allow);
    weir_keymap_clean_up(&named->block);
    free(named->tiers);
  }
  weir_descriptors_destroy(registry->descriptors);
  release_throttle(registry->shared_throttle);
  for (size_t i = 0; i < registry->limiter_count; i++)
    weir_registry_let_go(registry->limiters[i]);
  for (size_t i = 0; i < registry->store_count; i++)
    release_store(registry->stores[i]);
  weir_hash_table_clean_up(&registry->by_meaning);
  weir_hash_table_clean_up(&registry->by_name);
  weir_hash_table_clean_up(&registry->by_group_name);
  weir_config_destroy(registry->config);
  free(registry->warnings);
  free(registry->classes);
  free(registry->limiters);
  free(registry->stores);
  free(registry->named);
  free(registry->groups);
  free(registry);
}

weir_shared_limiter *weir_registry_hold(const weir_registry *registry,
                                        const weir_limiter *limiter) {
  for (size_t i = 0; i < registry->limiter_count; i++) {
    if (registry->limiters[i]->limiter != limiter) continue;
    hold(&registry->limiters[i]->holders);
    return registry->limiters[i];
  }
  return NULL;
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

const weir_named *weir_registry_find(const weir_registry *registry, const char *name,
                                     size_t length) {
  const weir_hash_text wanted = {name, length};
  uint32_t mark = weir_hash_table_mark(&registry->by_name, name, length);
  const weir_named **found = weir_hash_table_find(&registry->by_name, mark, &wanted);
  return found != NULL ? *found : NULL;
}

const weir_named_group *weir_registry_find_group(const weir_registry *registry, const char *name,
                                                 size_t length) {
  if (registry->group_count == 0) return NULL;
  const weir_hash_text wanted = {name, length};
  uint32_t mark = weir_hash_table_mark(&registry->by_group_name, name, length);
  const weir_named_group **found = weir_hash_table_find(&registry->by_group_name, mark, &wanted);
  return found != NULL ? *found : NULL;
}

/* In the first of the three lists that it stands in. */
static const weir_keymap_key *find_entry(const weir_named *named, const char *key, size_t length,
                                         const weir_keymap **list) {
  const weir_keymap *const lists[] = {&named->block, &named->allow, &named->overrides};
  const weir_keymap_key *entry = NULL;
  for (size_t i = 0; entry == NULL && i < sizeof lists / sizeof *lists; i++) {
    *list = lists[i];
    entry = weir_keymap_find(lists[i], key, length);
  }
  return entry;
}

weir_target weir_named_target(const weir_named *named, const void *key, size_t length) {
  const weir_keymap *list;
  const weir_keymap_key *entry = find_entry(named, key, length, &list);
  if (entry == NULL) return (weir_target){WEIR_TARGET_LIMITER, named->own, ""};
  if (list == &named->block) return (weir_target){.kind = WEIR_TARGET_BLOCKED, .tier = ""};
  if (list == &named->allow) return (weir_target){.kind = WEIR_TARGET_UNLIMITED, .tier = ""};
  const weir_config_tier *tier = &named->config->tiers[entry->tier];
  weir_target target = {WEIR_TARGET_LIMITER, named->tiers[entry->tier], tier->name};
  if (tier->kind == WEIR_CONFIG_TIER_UNLIMITED) target.kind = WEIR_TARGET_UNLIMITED;
  if (tier->kind == WEIR_CONFIG_TIER_BLOCKED) target.kind = WEIR_TARGET_BLOCKED;
  return target;
}

size_t weir_named_find_class(const weir_registry *registry, const weir_named *named,
                             const char *class_name) {
  const char *wanted = class_name != NULL ? class_name : "";
  for (size_t i = 0; i < named->class_count; i++)
    if (strcmp(registry->classes[named->first_class + i].name, wanted) == 0)
      return named->first_class + i;
  return SIZE_MAX;
}

weir_named_entry weir_named_find_entry(const weir_named *named, const void *key, size_t length) {
  const weir_keymap *list;
  const weir_keymap_key *entry = find_entry(named, key, length, &list);
  if (entry == NULL) return (weir_named_entry){.list = NULL};
  return (weir_named_entry){.list = list == &named->block   ? "block"
                                    : list == &named->allow ? "allow"
                                                            : "overrides",
                            .text = list->bytes + entry->offset,
                            .length = entry->length};
}

bool weir_named_enforces(const weir_named *named, const void *key, size_t length) {
  static const unsigned char no_secret[WEIR_HASH_SECRET_BYTES];
  uint32_t enforced = named->config->enforced;
  if (enforced == 0 || enforced == WEIR_CONFIG_ALL_KEYS) return enforced > 0;
  uint64_t hash = weir_hash_64(no_secret, key, length) ^
                  weir_hash_64(no_secret, named->prefix, named->prefix_length);
  return hash % WEIR_CONFIG_ALL_KEYS < enforced;
}

weir_limiter *weir_registry_limiter_at(const weir_registry *registry, size_t index,
                                       const char **store) {
  const weir_shared_limiter *shared = registry->limiters[index];
  size_t at = 0;
  while (registry->stores[at] != shared->store)
    at++;
  *store = registry->config->stores[at].name;
  return shared->limiter;
}

weir_store *weir_registry_store_at(const weir_registry *registry, size_t index) {
  return registry->stores[index]->store;
}
