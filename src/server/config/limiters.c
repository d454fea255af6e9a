/* stores, where counts live and what limiters on them are like; limiters: named rules, their tiers, and
 * which keys are put into which; and groups: limiters whose requests are one decision. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/reader.h"

enum {
  STORES_MOST = 256,
  LIMITERS_MOST = 100000,
  TIERS_MOST = 65000,
  PATTERNS_MOST = 1000,
  GROUPS_MOST = 1000,
  MEMBERS_LEAST = 2
};

/* --- stores -------------------------------------------------------------------------------------
 */

static const char *const fallbacks[] = {[WEIR_FALLBACK_LOCAL] = "local",
                                        [WEIR_FALLBACK_DENY] = "deny",
                                        [WEIR_FALLBACK_ALLOW] = "allow",
                                        [WEIR_FALLBACK_NONE] = "none",
                                        NULL};

/* A store's fields are read into this, in the types that fields have. */
typedef struct store_fields {
  weir_config_store store;
  int64_t processes, peers, memo_keys, deadline_us, clock_error_us;
  int fallback;
} store_fields;

static void read_url(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_store *store = target;
  store->url_place = weir_place(reader, node);
  store->url = weir_read_secret(reader, node, true, NULL);
}

static const weir_field store_table[] = {
    WEIR_ROW_READ("url", read_url, store_fields, store),
    WEIR_ROW_RANGE("processes", NUMBER, store_fields, processes, 1, 100000),
    WEIR_ROW_RANGE("peers", NUMBER, store_fields, peers, 1, 100000),
    WEIR_ROW_CHOICE("fallback", store_fields, fallback, fallbacks),
    WEIR_ROW_RANGE("deadline", DURATION, store_fields, deadline_us, 1000, 60000000),
    WEIR_ROW_RANGE("clock_error", DURATION, store_fields, clock_error_us, 1000, 60000000),
    WEIR_ROW_RANGE("memo_keys", NUMBER, store_fields, memo_keys, 1, 16777216),
    {.name = NULL},
};

void weir_read_stores(weir_reader *reader, const weir_node *node, void *target) {
  weir_config *config = target;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  if (node->length < 1 || node->length > STORES_MOST) {
    weir_fault(reader, node, "found %u stores, accepted are 1 to %d", node->length, STORES_MOST);
    return;
  }
  config->stores = weir_arena_take(reader->arena, node->length, sizeof *config->stores);
  if (config->stores == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    if (!weir_read_name(reader, item->key)) continue;
    const char *name = weir_arena_copy(reader->arena, item->key->text, item->key->length);
    if (name == NULL) return;
    store_fields read = {.store = {.name = name, .place = weir_place(reader, item->key)}};
    size_t length = weir_path_enter(reader, name);
    weir_read_fields(reader, item->value, store_table, &read);
    if (item->value->kind == WEIR_NODE_MAPPING && weir_node_find(item->value, "url") == NULL)
      weir_fault(reader, item->key, "url is missing, such as \"memcached://localhost\"");
    weir_path_leave(reader, length);
    read.store.options = (weir_limiter_options){
        .size = sizeof read.store.options,
        .deadline_us = read.deadline_us, /* 0: the store's timeout, as with every other process */
        .clock_error_us = read.clock_error_us,
        .processes = (uint32_t)read.processes,
        .memo_keys = (uint32_t)read.memo_keys,
        .peers = (uint32_t)read.peers,
        .fallback = (unsigned)read.fallback,
    };
    config->stores[config->store_count++] = read.store;
  }
}

/* That there is no store at all is reported once, at its own place. */
void weir_read_store(weir_reader *reader, const weir_node *node, void *target) {
  const weir_config *config = reader->config;
  if (config->store_count == 0 || !weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  for (size_t i = 0; i < config->store_count; i++) {
    if (!weir_node_is(node, config->stores[i].name)) continue;
    *(const weir_config_store **)target = &config->stores[i];
    return;
  }
  weir_fault_unknown(reader, node, "no store",
                     (weir_names){config->stores, sizeof *config->stores, config->store_count});
}

const weir_config_store *weir_only_store(weir_reader *reader, const weir_node *whole) {
  const weir_config *config = reader->config;
  if (config->store_count > 1)
    weir_fault(reader, whole, "store is missing, as there are %zu of them", config->store_count);
  return config->store_count == 1 ? &config->stores[0] : NULL;
}

const char *const weir_config_header_styles[] = {[WEIR_CONFIG_HEADERS_DRAFT_10] = "draft-10",
                                                 [WEIR_CONFIG_HEADERS_DRAFT_03] = "draft-03",
                                                 [WEIR_CONFIG_HEADERS_OFF] = "off",
                                                 NULL};
static const char *const log_keys[] = {[WEIR_CONFIG_LOG_KEYS_OFF] = "off",
                                       [WEIR_CONFIG_LOG_KEYS_HASHED] = "hashed",
                                       [WEIR_CONFIG_LOG_KEYS_PLAIN] = "plain",
                                       NULL};

static const char *const limit_places[] = {"off", "store", NULL};
static const char *const absents[] = {"rule", "deny", NULL};

/* A limiter's fields are read into this; choices are numbers there. */
typedef struct limiter_fields {
  weir_config_limiter limiter; /* first: keys are put into tiers, which are read before */
  int headers, log_keys, limits, absent;
  bool shadow;
} limiter_fields;

/* --- tiers --------------------------------------------------------------------------------------
 */

static void read_tiers(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = target;
  if (!weir_expect_most(reader, node, WEIR_NODE_MAPPING, TIERS_MOST, "tiers")) return;
  limiter->tiers = weir_arena_take(reader->arena, node->length, sizeof *limiter->tiers);
  limiter->tiers_by_name =
      weir_arena_take(reader->arena, node->length, sizeof *limiter->tiers_by_name);
  if (limiter->tiers == NULL || limiter->tiers_by_name == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_tier *tier = &limiter->tiers[limiter->tier_count];
    size_t length = weir_path_enter(reader, item->key->text);
    if (weir_read_name(reader, item->key)) {
      const char *text = weir_read_text(reader, item->value);
      tier->name = weir_arena_copy(reader->arena, item->key->text, item->key->length);
      tier->place = weir_place(reader, item->value);
      tier->rule = text;
      tier->kind = WEIR_CONFIG_TIER_RULE;
      if (text != NULL && strcmp(text, "unlimited") == 0) tier->kind = WEIR_CONFIG_TIER_UNLIMITED;
      if (text != NULL && strcmp(text, "blocked") == 0) tier->kind = WEIR_CONFIG_TIER_BLOCKED;
      if (tier->name == NULL) return;
      limiter->tiers_by_name[limiter->tier_count++] = &tier->name;
    }
    weir_path_leave(reader, length);
  }
  weir_sort_names(limiter->tiers_by_name, limiter->tier_count);
}

const weir_config_tier *weir_config_find_tier(const weir_config_limiter *limiter, const char *name,
                                              size_t length) {
  const void *found = weir_find_name(limiter->tiers_by_name, limiter->tier_count, name, length);
  return found;
}

/* --- keys ---------------------------------------------------------------------------------------
 */

/* A key, which is a pattern when it holds a '*'. False after a fault. */
static bool read_override_key(weir_reader *reader, const weir_node *node,
                              weir_config_override *override) {
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return false;
  if (node->length < 1 || node->length > WEIR_CONFIG_KEY_MOST) {
    weir_fault(reader, node, "a key of %u bytes, accepted are 1 to %d", node->length,
               WEIR_CONFIG_KEY_MOST);
    return false;
  }
  *override = (weir_config_override){
      .key = weir_arena_copy(reader->arena, node->text, node->length),
      .key_length = (uint16_t)node->length,
      .is_pattern = memchr(node->text, '*', node->length) != NULL,
      .place = weir_place(reader, node),
  };
  return override->key != NULL;
}

/* Each pattern is tried in turn, so there may not be many. */
static void check_patterns(weir_reader *reader, const weir_node *node,
                           const weir_config_overrides *overrides) {
  size_t patterns = 0;
  for (size_t i = 0; i < overrides->count; i++)
    patterns += overrides->items[i].is_pattern;
  if (patterns > PATTERNS_MOST)
    weir_fault(reader, node, "found %zu patterns with '*', accepted are %d", patterns,
               PATTERNS_MOST);
}

static void read_overrides(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = target;
  weir_config_overrides *overrides = &limiter->overrides;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  overrides->items = weir_arena_take(reader->arena, node->length, sizeof *overrides->items);
  if (overrides->items == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_override *override = &overrides->items[overrides->count];
    const weir_node *value = item->value;
    if (!read_override_key(reader, item->key, override)) continue;
    if (!weir_expect(reader, value, WEIR_NODE_SCALAR)) continue;
    const weir_config_tier *tier = weir_config_find_tier(limiter, value->text, value->length);
    if (tier == NULL) {
      weir_fault_unknown(reader, value, "no tier",
                         (weir_names){limiter->tiers, sizeof *limiter->tiers, limiter->tier_count});
      continue;
    }
    override->tier = (uint16_t)(tier - limiter->tiers);
    overrides->count++;
  }
  check_patterns(reader, node, overrides);
}

/* allow, or block. */
static void read_list(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_overrides *list = target;
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  list->items = weir_arena_take(reader->arena, node->length, sizeof *list->items);
  if (list->items == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next)
    list->count += read_override_key(reader, item->value, &list->items[list->count]);
  check_patterns(reader, node, list);
}

static void read_overrides_file(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = target;
  const char *name = weir_read_text(reader, node);
  limiter->overrides_file = name != NULL ? weir_resolve_file(reader, name) : NULL;
  limiter->overrides_file_place = weir_place(reader, node);
  if (limiter->overrides_file != NULL) weir_watch_file(reader, limiter->overrides_file);
}

/* --- limiters -----------------------------------------------------------------------------------
 */

/* 10%, 0.5% or 12.25%, in steps of .01 %. */
static bool parse_part(const weir_node *node, uint32_t *steps) {
  static const char accepted[] = "0123456789";
  size_t digits = strspn(node->text, accepted);
  const char *point = node->text + digits;
  size_t decimals = *point == '.' ? strspn(point + 1, accepted) : 0;
  const char *end = point + (decimals > 0 ? decimals + 1 : 0);
  if (digits < 1 || digits > 3 || decimals > 2 || strcmp(end, "%") != 0) return false;
  *steps = 100 * (uint32_t)strtoul(node->text, NULL, 10);
  if (decimals > 0) *steps += (decimals == 1 ? 10 : 1) * (uint32_t)strtoul(point + 1, NULL, 10);
  return *steps <= WEIR_CONFIG_ALL_KEYS && strlen(node->text) == node->length;
}

static void read_enforce(weir_reader *reader, const weir_node *node, void *target) {
  limiter_fields *read = target;
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  if (!parse_part(node, &read->limiter.enforced))
    weir_fault(reader, node,
               "found %s, accepted is a part of the keys from 0%% to 100%%, such as 10%% or 0.25%%",
               weir_quote(node).text);
  else if (read->shadow)
    weir_fault(reader, node, "shadow is true, which is enforce: 0%%: accepted is one of them");
}

/* Who is of a class is not told by an address. */
static void read_class(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = target;
  weir_read_key(reader, node, &limiter->class_of);
  limiter->class_place = weir_place(reader, node);
  limiter->has_class = limiter->class_of.name != NULL;
  if (limiter->class_of.kind == WEIR_CONFIG_KEY_CLIENT)
    weir_fault(reader, node, "found \"client\", accepted are header:NAME and query:NAME");
}

static void read_class_else(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = target;
  limiter->class_else = weir_read_text(reader, node);
  limiter->class_else_place = weir_place(reader, node);
}

static void read_tenant(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = target;
  weir_read_key(reader, node, &limiter->tenant_of);
  limiter->tenant_place = weir_place(reader, node);
  limiter->has_tenant =
      limiter->tenant_of.kind == WEIR_CONFIG_KEY_CLIENT || limiter->tenant_of.name != NULL;
}

static void read_rule(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = target;
  limiter->rule = weir_read_text(reader, node);
  limiter->rule_place = weir_place(reader, node);
}

/* The same rules, each with most= where it has none. NULL stays it. */
static const char *give_most(weir_reader *reader, const char *rules, int64_t most) {
  char option[32];
  size_t length = (size_t)snprintf(option, sizeof option, ",most=%lld", (long long)most), count = 1;
  if (rules == NULL) return NULL;
  for (const char *at = rules; (at = strchr(at, ';')) != NULL; at++)
    count++;
  char *given = weir_arena_take(reader->arena, strlen(rules) + count * length + 1, 1);
  if (given == NULL) return NULL;
  char *end = given;
  for (const char *at = rules;; at++) {
    size_t rule = strcspn(at, ";");
    const char *own = strstr(at, ",most=");
    memcpy(end, at, rule);
    end += rule;
    if (own == NULL || own >= at + rule) {
      memcpy(end, option, length);
      end += length;
    }
    at += rule;
    if (*at == '\0') break;
    *end++ = *at;
  }
  *end = '\0';
  return given;
}

/* Plans are tiers: where one number is the ceiling of all of them, a customer that changes from one to
 * another takes the counts along. */
static void give_all_most(weir_reader *reader, weir_config_limiter *limiter) {
  if (limiter->most == 0) return;
  limiter->rule = give_most(reader, limiter->rule, limiter->most);
  for (size_t i = 0; i < limiter->tier_count; i++)
    if (limiter->tiers[i].kind == WEIR_CONFIG_TIER_RULE)
      limiter->tiers[i].rule = give_most(reader, limiter->tiers[i].rule, limiter->most);
}

/* Overrides name tiers, which are therefore read before them. */
static const weir_field limiter_table[] = {
    WEIR_ROW_READ("store", weir_read_store, limiter_fields, limiter.store),
    {.name = "rule", .read = read_rule},
    WEIR_ROW_READ("key", weir_read_key, limiter_fields, limiter.key),
    {.name = "class", .read = read_class},
    {.name = "class_else", .read = read_class_else},
    {.name = "tenant", .read = read_tenant},
    WEIR_ROW_RANGE("cost", NUMBER, limiter_fields, limiter.cost, 1, INT64_C(2147483648)),
    WEIR_ROW_RANGE("most", NUMBER, limiter_fields, limiter.most, 1, INT64_C(9007199254740992)),
    WEIR_ROW_CHOICE("limits", limiter_fields, limits, limit_places),
    WEIR_ROW_CHOICE("absent", limiter_fields, absent, absents),
    {.name = "tiers", .read = read_tiers},
    {.name = "overrides", .read = read_overrides},
    {.name = "overrides_file", .read = read_overrides_file},
    WEIR_ROW_READ("allow", read_list, limiter_fields, limiter.allow),
    WEIR_ROW_READ("block", read_list, limiter_fields, limiter.block),
    WEIR_ROW("shadow", BOOL, limiter_fields, shadow),
    {.name = "enforce", .read = read_enforce},
    WEIR_ROW_CHOICE("headers", limiter_fields, headers, weir_config_header_styles),
    WEIR_ROW_CHOICE("log_keys", limiter_fields, log_keys, log_keys),
    {.name = NULL},
};

void weir_read_limiters(weir_reader *reader, const weir_node *node, void *target) {
  weir_config *config = target;
  if (!weir_expect_most(reader, node, WEIR_NODE_MAPPING, LIMITERS_MOST, "limiters")) return;
  config->limiters = weir_arena_take(reader->arena, node->length, sizeof *config->limiters);
  if (config->limiters == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    if (!weir_read_name(reader, item->key)) continue;
    const char *name = weir_arena_copy(reader->arena, item->key->text, item->key->length);
    if (name == NULL) return;
    limiter_fields read = {.limiter = {.name = name,
                                       .place = weir_place(reader, item->key),
                                       .cost = 1,
                                       .enforced = WEIR_CONFIG_ALL_KEYS}};
    weir_config_limiter *limiter = &read.limiter;
    size_t length = weir_path_enter(reader, name);
    weir_read_fields(reader, item->value, limiter_table, &read);
    give_all_most(reader, limiter);
    limiter->has_key = limiter->key.kind == WEIR_CONFIG_KEY_CLIENT || limiter->key.name != NULL;
    if (read.shadow || config->shadow) limiter->enforced = 0;
    limiter->has_limits = read.limits != 0;
    limiter->absent_denies = read.absent != 0;
    if (limiter->absent_denies && !limiter->has_limits)
      weir_fault(reader, item->key, "absent: deny: accepted with limits: store");
    limiter->headers = (weir_config_headers)read.headers;
    limiter->log_keys = (weir_config_log_keys)read.log_keys;
    if (item->value->kind == WEIR_NODE_MAPPING) {
      if (weir_node_find(item->value, "store") == NULL)
        limiter->store = weir_only_store(reader, item->key);
      if (weir_node_find(item->value, "rule") == NULL)
        weir_fault(reader, item->key, "rule is missing, such as \"sliding-window:100/1m\"");
    }
    weir_path_leave(reader, length);
    config->limiters[config->limiter_count++] = *limiter;
  }
}

/* --- groups -------------------------------------------------------------------------------------
 *
 * Whether their rules can be charged as one is not known here: that is src/server/registry. */

/* `sorted`: the names of all limiters. */
static void read_members(weir_reader *reader, const weir_node *node,
                         const char *const *const *sorted, weir_config_group *group) {
  const weir_config *config = reader->config;
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  if (node->length < MEMBERS_LEAST || node->length > WEIR_CONFIG_MEMBERS_MOST) {
    weir_fault(reader, node, "a group of %u, accepted are %d to %d limiters", node->length,
               MEMBERS_LEAST, WEIR_CONFIG_MEMBERS_MOST);
    return;
  }
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    if (!weir_expect(reader, item->value, WEIR_NODE_SCALAR)) continue;
    const void *found =
        weir_find_name(sorted, config->limiter_count, item->value->text, item->value->length);
    if (found == NULL) {
      weir_fault_unknown(
          reader, item->value, "no limiter",
          (weir_names){config->limiters, sizeof *config->limiters, config->limiter_count});
      continue;
    }
    size_t index = (size_t)((const weir_config_limiter *)found - config->limiters), before = 0;
    while (before < group->member_count && group->members[before].limiter != index)
      before++;
    if (before < group->member_count)
      weir_fault(reader, item->value, "limiter \"%s\" stands there twice, accepted is each once",
                 config->limiters[index].name);
    else
      group->members[group->member_count++] =
          (weir_config_member){index, weir_place(reader, item->value)};
  }
}

void weir_read_groups(weir_reader *reader, const weir_node *node, void *target) {
  weir_config *config = target;
  if (!weir_expect_most(reader, node, WEIR_NODE_MAPPING, GROUPS_MOST, "groups")) return;
  config->groups = weir_arena_take(reader->arena, node->length, sizeof *config->groups);
  const char *const **sorted = calloc(config->limiter_count + 1, sizeof *sorted);
  if (sorted == NULL) reader->arena->failed = true;
  if (sorted == NULL || config->groups == NULL) {
    free(sorted);
    return;
  }
  for (size_t i = 0; i < config->limiter_count; i++)
    sorted[i] = &config->limiters[i].name;
  weir_sort_names(sorted, config->limiter_count);
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_group *group = &config->groups[config->group_count];
    if (!weir_read_name(reader, item->key)) continue;
    size_t length = weir_path_enter(reader, item->key->text);
    *group = (weir_config_group){
        .name = weir_arena_copy(reader->arena, item->key->text, item->key->length)};
    if (weir_find_name(sorted, config->limiter_count, item->key->text, item->key->length) != NULL)
      weir_fault(reader, item->key, "a limiter has this name, accepted is one that none has");
    read_members(reader, item->value, sorted, group);
    weir_path_leave(reader, length);
    if (group->name == NULL) break;
    config->group_count++;
  }
  free(sorted);
}
