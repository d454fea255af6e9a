/* limiters: named rules, their tiers, and which keys are put into which. */
#include <stdlib.h>
#include <string.h>

#include "config/reader.h"

enum { LIMITERS_MOST = 100000, TIERS_MOST = 65000, PATTERNS_MOST = 1000 };

const char *const weir_config_header_styles[] = {[WEIR_CONFIG_HEADERS_DRAFT_10] = "draft-10",
                                                 [WEIR_CONFIG_HEADERS_DRAFT_03] = "draft-03",
                                                 [WEIR_CONFIG_HEADERS_OFF] = "off",
                                                 NULL};
static const char *const log_keys[] = {[WEIR_CONFIG_LOG_KEYS_OFF] = "off",
                                       [WEIR_CONFIG_LOG_KEYS_HASHED] = "hashed",
                                       [WEIR_CONFIG_LOG_KEYS_PLAIN] = "plain",
                                       NULL};

/* A limiter as it is read. */
typedef struct limiter_fields {
  weir_config_limiter *limiter;
  int headers, log_keys;
  int64_t cost;
  bool shadow;
} limiter_fields;

/* --- tiers --------------------------------------------------------------------------------------
 */

static void read_tier(weir_reader *reader, const weir_node_item *item, weir_config_tier *tier) {
  const char *text = weir_read_text(reader, item->value);
  tier->name = weir_arena_copy(reader->arena, item->key->text, item->key->length);
  tier->place = weir_place(reader, item->value);
  tier->rule = text;
  tier->kind = WEIR_CONFIG_TIER_RULE;
  if (text == NULL) return;
  if (strcmp(text, "unlimited") == 0) tier->kind = WEIR_CONFIG_TIER_UNLIMITED;
  if (strcmp(text, "blocked") == 0) tier->kind = WEIR_CONFIG_TIER_BLOCKED;
}

static int compare_tiers(const void *a, const void *b) {
  const weir_config_tier *const *first = a;
  const weir_config_tier *const *second = b;
  return strcmp((*first)->name, (*second)->name);
}

static void read_tiers(weir_reader *reader, const weir_node *node, void *target) {
  limiter_fields *read = target;
  weir_config_limiter *limiter = read->limiter;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  if (node->length > TIERS_MOST) {
    weir_fault(reader, node, "found %u tiers, accepted are %d", node->length, TIERS_MOST);
    return;
  }
  limiter->tiers = weir_arena_take(reader->arena, node->length, sizeof *limiter->tiers);
  limiter->tiers_by_name =
      weir_arena_take(reader->arena, node->length, sizeof *limiter->tiers_by_name);
  if (limiter->tiers == NULL || limiter->tiers_by_name == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_tier *tier = &limiter->tiers[limiter->tier_count];
    size_t length = weir_path_enter(reader, item->key->text);
    if (weir_read_name(reader, item->key)) {
      read_tier(reader, item, tier);
      if (tier->name == NULL) return;
      limiter->tiers_by_name[limiter->tier_count++] = tier;
    }
    weir_path_leave(reader, length);
  }
  if (limiter->tier_count > 0)
    qsort(limiter->tiers_by_name, limiter->tier_count, sizeof *limiter->tiers_by_name,
          compare_tiers);
}

/* Names in a file of overrides have no NUL behind them. */
typedef struct wanted {
  const char *name;
  size_t length;
} wanted;

static int compare_wanted(const void *a, const void *b) {
  const wanted *name = a;
  const weir_config_tier *const *tier = b;
  int order = strncmp(name->name, (*tier)->name, name->length);
  return order != 0 ? order : -((*tier)->name[name->length] != '\0');
}

const weir_config_tier *weir_config_find_tier(const weir_config_limiter *limiter, const char *name,
                                              size_t length) {
  const wanted key = {name, length};
  if (limiter->tier_count == 0 || memchr(name, '\0', length) != NULL) return NULL;
  const weir_config_tier *const *found = bsearch(&key, limiter->tiers_by_name, limiter->tier_count,
                                                 sizeof *limiter->tiers_by_name, compare_wanted);
  return found == NULL ? NULL : *found;
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

static bool make_overrides(weir_reader *reader, const weir_node *node,
                           weir_config_overrides *overrides) {
  overrides->items = weir_arena_take(reader->arena, node->length, sizeof *overrides->items);
  return overrides->items != NULL;
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

static const char *tier_at(const void *list, size_t index) {
  const weir_config_limiter *limiter = list;
  return index < limiter->tier_count ? limiter->tiers[index].name : NULL;
}

static void read_override(weir_reader *reader, const weir_node_item *item,
                          const limiter_fields *read) {
  weir_config_limiter *limiter = read->limiter;
  weir_config_override *override = &limiter->overrides.items[limiter->overrides.count];
  if (!read_override_key(reader, item->key, override)) return;
  if (!weir_expect(reader, item->value, WEIR_NODE_SCALAR)) return;
  const weir_config_tier *tier =
      weir_config_find_tier(limiter, item->value->text, item->value->length);
  if (tier == NULL) {
    weir_fault_unknown(reader, item->value, "no tier", limiter, tier_at);
    return;
  }
  override->tier = (uint16_t)(tier - limiter->tiers);
  limiter->overrides.count++;
}

static void read_overrides(weir_reader *reader, const weir_node *node, void *target) {
  limiter_fields *read = target;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  if (!make_overrides(reader, node, &read->limiter->overrides)) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next)
    read_override(reader, item, read);
  check_patterns(reader, node, &read->limiter->overrides);
}

static void read_list(weir_reader *reader, const weir_node *node, weir_config_overrides *list) {
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE) || !make_overrides(reader, node, list)) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next)
    list->count += read_override_key(reader, item->value, &list->items[list->count]);
  check_patterns(reader, node, list);
}

static void read_allow(weir_reader *reader, const weir_node *node, void *target) {
  read_list(reader, node, &((limiter_fields *)target)->limiter->allow);
}

static void read_block(weir_reader *reader, const weir_node *node, void *target) {
  read_list(reader, node, &((limiter_fields *)target)->limiter->block);
}

static void read_overrides_file(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = ((limiter_fields *)target)->limiter;
  const char *name = weir_read_text(reader, node);
  limiter->overrides_file = name != NULL ? weir_resolve_file(reader, name) : NULL;
  limiter->overrides_file_place = weir_place(reader, node);
  if (limiter->overrides_file != NULL) weir_watch_file(reader, limiter->overrides_file);
}

/* --- the rest -----------------------------------------------------------------------------------
 */

static void read_store(weir_reader *reader, const weir_node *node, void *target) {
  ((limiter_fields *)target)->limiter->store = weir_find_store(reader, node, node);
}

static void read_rule(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = ((limiter_fields *)target)->limiter;
  limiter->rule = weir_read_text(reader, node);
  limiter->rule_place = weir_place(reader, node);
}

static void read_limiter_key(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_limiter *limiter = ((limiter_fields *)target)->limiter;
  limiter->has_key = weir_read_key(reader, node, &limiter->key);
}

/* Overrides name tiers, which are therefore read before them. */
static const weir_field fields[] = {
    {.name = "store", .read = read_store},
    {.name = "rule", .read = read_rule},
    {.name = "key", .read = read_limiter_key},
    {.name = "cost",
     .type = WEIR_FIELD_NUMBER,
     .offset = offsetof(limiter_fields, cost),
     .least = 1,
     .most = INT64_C(2147483648)},
    {.name = "tiers", .read = read_tiers},
    {.name = "overrides", .read = read_overrides},
    {.name = "overrides_file", .read = read_overrides_file},
    {.name = "allow", .read = read_allow},
    {.name = "block", .read = read_block},
    {.name = "shadow", .type = WEIR_FIELD_BOOL, .offset = offsetof(limiter_fields, shadow)},
    {.name = "headers",
     .type = WEIR_FIELD_CHOICE,
     .offset = offsetof(limiter_fields, headers),
     .choices = weir_config_header_styles},
    {.name = "log_keys",
     .type = WEIR_FIELD_CHOICE,
     .offset = offsetof(limiter_fields, log_keys),
     .choices = log_keys},
    {.name = NULL},
};

static void read_limiter(weir_reader *reader, const weir_node_item *item,
                         weir_config_limiter *limiter) {
  limiter_fields read = {.limiter = limiter, .cost = 1, .shadow = reader->config->shadow};
  limiter->place = weir_place(reader, item->key);
  weir_read_fields(reader, item->value, fields, &read);
  limiter->shadow = read.shadow || reader->config->shadow;
  limiter->headers = (weir_config_headers)read.headers;
  limiter->log_keys = (weir_config_log_keys)read.log_keys;
  limiter->cost = read.cost;
  if (item->value->kind != WEIR_NODE_MAPPING) return;
  if (weir_node_find(item->value, "store") == NULL)
    limiter->store = weir_find_store(reader, NULL, item->key);
  if (weir_node_find(item->value, "rule") == NULL)
    weir_fault(reader, item->key, "rule is missing, such as \"sliding-window:100/1m\"");
}

void weir_read_limiters(weir_reader *reader, const weir_node *node, void *target) {
  weir_config *config = target;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING)) return;
  if (node->length > LIMITERS_MOST) {
    weir_fault(reader, node, "found %u limiters, accepted are %d", node->length, LIMITERS_MOST);
    return;
  }
  config->limiters = weir_arena_take(reader->arena, node->length, sizeof *config->limiters);
  if (config->limiters == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    weir_config_limiter *limiter = &config->limiters[config->limiter_count];
    if (!weir_read_name(reader, item->key)) continue;
    limiter->name = weir_arena_copy(reader->arena, item->key->text, item->key->length);
    if (limiter->name == NULL) return;
    config->limiter_count++;
    size_t length = weir_path_enter(reader, limiter->name);
    read_limiter(reader, item, limiter);
    weir_path_leave(reader, length);
  }
}
