/* One descriptor file: a domain, and what stands in it. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/reader.h"

enum { DESCRIPTORS_MOST = 100000, WILDCARDS_MOST = 1000 };

const char *const weir_config_units[WEIR_CONFIG_UNITS] = {[WEIR_CONFIG_UNIT_UNKNOWN] = "UNKNOWN",
                                                          [WEIR_CONFIG_SECOND] = "SECOND",
                                                          [WEIR_CONFIG_MINUTE] = "MINUTE",
                                                          [WEIR_CONFIG_HOUR] = "HOUR",
                                                          [WEIR_CONFIG_DAY] = "DAY",
                                                          [WEIR_CONFIG_MONTH] = "MONTH",
                                                          [WEIR_CONFIG_YEAR] = "YEAR",
                                                          [WEIR_CONFIG_WEEK] = "WEEK"};

const char *const weir_config_algorithms[] = {[WEIR_CONFIG_FIXED] = "fixed-window",
                                              [WEIR_CONFIG_SLIDING] = "sliding-window",
                                              [WEIR_CONFIG_QUOTA] = "quota",
                                              [WEIR_CONFIG_BUCKET] = "token-bucket",
                                              NULL};

bool weir_config_is_dated(const weir_config_domain *domain, weir_config_unit unit) {
  return domain->calendar && (unit == WEIR_CONFIG_MONTH || unit == WEIR_CONFIG_YEAR);
}

int64_t weir_config_unit_s(const weir_config_domain *domain, weir_config_unit unit) {
  enum { DAY = 86400 };
  static const int64_t seconds[WEIR_CONFIG_UNITS] = {
      [WEIR_CONFIG_SECOND] = 1,      [WEIR_CONFIG_MINUTE] = 60,    [WEIR_CONFIG_HOUR] = 3600,
      [WEIR_CONFIG_DAY] = DAY,       [WEIR_CONFIG_WEEK] = 7 * DAY, [WEIR_CONFIG_MONTH] = 30 * DAY,
      [WEIR_CONFIG_YEAR] = 365 * DAY};
  if (!weir_config_is_dated(domain, unit)) return seconds[unit];
  return unit == WEIR_CONFIG_MONTH ? 32 * DAY : 367 * DAY;
}

const char *weir_config_algorithm_of(const weir_config_domain *domain, weir_config_unit unit) {
  return weir_config_algorithms[weir_config_is_dated(domain, unit) ? WEIR_CONFIG_QUOTA
                                                                   : domain->algorithm];
}

const char *weir_config_rule_suffix(const weir_config_domain *domain) {
  return domain->counts_all ? ",count=all" : "";
}

static const char *write_rule(weir_reader *reader, const weir_config_domain *domain,
                              const weir_config_rate *rate) {
  char rule[128];
  int length =
      snprintf(rule, sizeof rule, "%s:%lld/%llds%s", weir_config_algorithm_of(domain, rate->unit),
               (long long)rate->requests, (long long)weir_config_unit_s(domain, rate->unit),
               weir_config_rule_suffix(domain));
  return weir_arena_copy(reader->arena, rule, (size_t)length);
}

/* --- rate_limit ---------------------------------------------------------------------------------
 */

/* While a file is read. */
typedef struct rate_fields {
  weir_config_rate *rate;
  bool unlimited;
  int64_t requests;
} rate_fields;

/* What the format lets stand empty. */
static bool is_absent(const weir_node *node) {
  return node == NULL ||
         (node->kind == WEIR_NODE_SCALAR &&
          (node->length == 0 ||
           (!node->is_quoted && (weir_node_is(node, "~") || weir_node_is(node, "null")))));
}

static const char *unit_at(const void *list, size_t index) {
  static const char *const names[] = {"second", "minute", "hour", "day", "week", "month", "year"};
  (void)list;
  return index < sizeof names / sizeof *names ? names[index] : NULL;
}

static void read_unit(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_rate *rate = ((rate_fields *)target)->rate;
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  for (int unit = WEIR_CONFIG_SECOND; unit < WEIR_CONFIG_UNITS; unit++)
    if (strlen(node->text) == node->length && strcasecmp(node->text, weir_config_units[unit]) == 0)
      rate->unit = (weir_config_unit)unit;
  if (rate->unit == WEIR_CONFIG_UNIT_UNKNOWN)
    weir_fault_unknown(reader, node, "found", NULL, unit_at);
}

static void read_rate_name(weir_reader *reader, const weir_node *node, void *target) {
  if (!is_absent(node)) ((rate_fields *)target)->rate->name = weir_read_text(reader, node);
}

static void read_replaced_name(weir_reader *reader, const weir_node *node, void *target) {
  *(const char **)target = weir_read_text(reader, node);
}

static void read_replaces(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {{.name = "name", .read = read_replaced_name}, {.name = NULL}};
  weir_config_rate *rate = ((rate_fields *)target)->rate;
  if (is_absent(node) || !weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  if (node->length > WEIR_CONFIG_REPLACES_MOST) {
    weir_fault(reader, node, "found %u names, accepted are %d", node->length,
               WEIR_CONFIG_REPLACES_MOST);
    return;
  }
  rate->replaces = weir_arena_take(reader->arena, node->length + 1, sizeof(const char *));
  if (rate->replaces == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    const char *name = NULL;
    uint64_t before = reader->faults->count;
    weir_read_fields(reader, item->value, fields, &name);
    if (name != NULL && rate->name != NULL && strcmp(name, rate->name) == 0)
      weir_fault(reader, item->value, "a limit does not replace itself");
    else if (name == NULL && reader->faults->count == before)
      weir_fault(reader, item->value, "name is missing: that of the limit to be replaced");
    else if (name != NULL)
      rate->replaces[rate->replace_count++] = name;
  }
}

/* Names come before those who replace them. */
static const weir_field rate_table[] = {
    {.name = "name", .read = read_rate_name},
    {.name = "unit", .read = read_unit},
    {.name = "requests_per_unit",
     .type = WEIR_FIELD_NUMBER,
     .offset = offsetof(rate_fields, requests),
     .least = 0,
     .most = WEIR_CONFIG_REQUESTS_MOST},
    {.name = "unlimited", .type = WEIR_FIELD_BOOL, .offset = offsetof(rate_fields, unlimited)},
    {.name = "replaces", .read = read_replaces},
    {.name = NULL},
};

static weir_config_rate *read_rate(weir_reader *reader, const weir_node *node,
                                   const weir_config_domain *domain) {
  rate_fields read = {.rate = weir_arena_take(reader->arena, 1, sizeof *read.rate)};
  weir_config_rate *rate = read.rate;
  if (rate == NULL) return NULL;
  rate->place = weir_place(reader, node);
  weir_read_fields(reader, node, rate_table, &read);
  if (node->kind != WEIR_NODE_MAPPING) return rate;
  rate->is_unlimited = read.unlimited;
  rate->requests = read.requests;
  const weir_node *unit = weir_node_find(node, "unit");
  if (rate->is_unlimited && !is_absent(unit))
    weir_fault(reader, unit, "an unlimited one has no unit");
  if (rate->is_unlimited) return rate;
  if (unit == NULL) weir_fault(reader, node, "unit is missing, such as \"unit: minute\"");
  if (weir_node_find(node, "requests_per_unit") == NULL)
    weir_fault(reader, node, "requests_per_unit is missing; 0 denies all");
  if (rate->unit == WEIR_CONFIG_UNIT_UNKNOWN || rate->requests == 0) return rate;
  rate->rule = write_rule(reader, domain, rate);
  return rate;
}

/* --- descriptors --------------------------------------------------------------------------------
 */

typedef struct descriptor_fields {
  weir_config_domain *domain;
  weir_config_descriptor *made;
  bool shadow, quota, shares, detailed, shows_value;
} descriptor_fields;

static void read_list(weir_reader *reader, const weir_node *node, weir_config_domain *domain,
                      weir_config_descriptor **made, size_t *count);

static void read_key(weir_reader *reader, const weir_node *node, void *target) {
  ((descriptor_fields *)target)->made->key = weir_read_text(reader, node);
}

static void read_value(weir_reader *reader, const weir_node *node, void *target) {
  if (!is_absent(node)) ((descriptor_fields *)target)->made->value = weir_read_text(reader, node);
}

static void read_rate_limit(weir_reader *reader, const weir_node *node, void *target) {
  descriptor_fields *read = target;
  if (!is_absent(node)) read->made->rate = read_rate(reader, node, read->domain);
}

static void read_children(weir_reader *reader, const weir_node *node, void *target) {
  descriptor_fields *read = target;
  if (!is_absent(node))
    read_list(reader, node, read->domain, &read->made->children, &read->made->child_count);
}

/* For other users of these files: not even looked into. */
static void read_metadata(weir_reader *reader, const weir_node *node, void *target) {
  (void)target;
  if (!is_absent(node)) weir_expect(reader, node, WEIR_NODE_MAPPING);
}

#define FLAG(text, member) \
  { .name = text, .type = WEIR_FIELD_BOOL, .offset = offsetof(descriptor_fields, member) }

static const weir_field descriptor_table[] = {
    {.name = "key", .read = read_key},
    {.name = "value", .read = read_value},
    {.name = "rate_limit", .read = read_rate_limit},
    FLAG("shadow_mode", shadow),
    FLAG("quota_mode", quota),
    FLAG("share_threshold", shares),
    FLAG("detailed_metric", detailed),
    FLAG("value_to_metric", shows_value),
    {.name = "metadata", .read = read_metadata},
    {.name = "descriptors", .read = read_children},
    {.name = NULL},
};

/* KEY, or KEY_VALUE. */
static void set_match(weir_reader *reader, const weir_node *node, weir_config_descriptor *made) {
  size_t key = strlen(made->key);
  size_t value = made->value != NULL ? strlen(made->value) + 1 : 0;
  char *match = weir_arena_take(reader->arena, key + value + 1, 1);
  if (match == NULL) return;
  memcpy(match, made->key, key);
  if (value > 0) match[key] = '_';
  if (value > 0) memcpy(match + key + 1, made->value, value - 1);
  made->match = match;
  made->match_length = key + value;
  made->is_wildcard = strchr(match, '*') != NULL;
  if (made->match_length > WEIR_CONFIG_MATCH_MOST)
    weir_fault(reader, node, "key and value of %zu bytes, accepted are %d", made->match_length,
               WEIR_CONFIG_MATCH_MOST);
}

static void read_descriptor(weir_reader *reader, const weir_node *node, weir_config_domain *domain,
                            weir_config_descriptor *made) {
  descriptor_fields read = {.domain = domain, .made = made};
  made->place = weir_place(reader, node);
  weir_read_fields(reader, node, descriptor_table, &read);
  made->shadow = read.shadow;
  made->quota = read.quota;
  made->shares = read.shares;
  made->detailed = read.detailed;
  made->shows_value = read.shows_value;
  if (node->kind != WEIR_NODE_MAPPING) return;
  if (weir_node_find(node, "key") == NULL) weir_fault(reader, node, "key is missing");
  if (made->key == NULL) return;
  set_match(reader, node, made);
  if (made->shares && !made->is_wildcard)
    weir_fault(reader, node, "share_threshold is of a value with '*' alone");
}

/* Each is tried in turn, so there may not be many. */
static void check_wildcards(weir_reader *reader, const weir_node *node,
                            const weir_config_descriptor *list, size_t count) {
  size_t wildcards = 0;
  for (size_t i = 0; i < count; i++)
    wildcards += list[i].is_wildcard;
  if (wildcards > WILDCARDS_MOST)
    weir_fault(reader, node, "found %zu descriptors with '*', accepted are %d", wildcards,
               WILDCARDS_MOST);
}

static void read_list(weir_reader *reader, const weir_node *node, weir_config_domain *domain,
                      weir_config_descriptor **made, size_t *count) {
  size_t length = strlen(reader->path);
  if (!weir_expect(reader, node, WEIR_NODE_SEQUENCE)) return;
  domain->node_count += node->length;
  reader->config->envoy.node_count += node->length;
  if (reader->config->envoy.node_count > DESCRIPTORS_MOST) {
    weir_fault(reader, node, "more than %d descriptors in all files", DESCRIPTORS_MOST);
    return;
  }
  *made = weir_arena_take(reader->arena, node->length + 1, sizeof **made);
  if (*made == NULL) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    snprintf(reader->path + length, sizeof reader->path - length, "[%zu]", *count);
    read_descriptor(reader, item->value, domain, &(*made)[(*count)++]);
    weir_path_leave(reader, length);
  }
  check_wildcards(reader, node, *made, *count);
}

/* --- the file -----------------------------------------------------------------------------------
 */

typedef struct file_fields {
  weir_config_domain *domain; /* one that nobody keeps, where the file names none */
} file_fields;

static weir_config_domain *find_domain(weir_config_envoy *envoy, const char *name) {
  for (size_t i = 0; i < envoy->domain_count; i++)
    if (strcmp(envoy->domains[i].name, name) == 0) return &envoy->domains[i];
  return NULL;
}

/* It is a label of metrics and a part of keys. */
static bool is_domain_name(const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i < length; i++)
    if (name[i] < ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\') return false;
  return length <= WEIR_CONFIG_DOMAIN_MOST;
}

/* One that envoy.domains does not have takes the only store, and fixed windows. */
static weir_config_domain *add_domain(weir_reader *reader, const weir_node *node,
                                      const char *name) {
  weir_config_envoy *envoy = &reader->config->envoy;
  weir_config_domain *domain = &envoy->domains[envoy->domain_count++];
  *domain = (weir_config_domain){.name = name, .headers = WEIR_CONFIG_HEADERS_OFF};
  if (reader->config->store_count > 1)
    weir_fault(reader, node,
               "which of the %zu stores? say \"envoy: {domains: {%s: {store: NAME}}}\" in %s",
               reader->config->store_count, name, reader->config->file);
  else if (reader->config->store_count == 1)
    domain->store = reader->config->stores;
  return domain;
}

static void read_domain(weir_reader *reader, const weir_node *node, void *target) {
  const char *name = weir_read_text(reader, node);
  if (name == NULL) return;
  if (!is_domain_name(name)) {
    weir_fault(reader, node, "found %s, accepted are 1 to %d printable ASCII without \" and \\",
               weir_quote(node).text, WEIR_CONFIG_DOMAIN_MOST);
    return;
  }
  weir_config_domain *domain = find_domain(&reader->config->envoy, name);
  if (domain != NULL && domain->place.file != NULL) {
    weir_fault(reader, node, "domain %s stands in line %u of %s already", weir_quote(node).text,
               domain->place.line, domain->place.file);
    return;
  }
  if (domain == NULL) domain = add_domain(reader, node, name);
  domain->place = weir_place(reader, node);
  ((file_fields *)target)->domain = domain;
}

static void read_descriptors(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_domain *domain = ((file_fields *)target)->domain;
  if (is_absent(node)) return;
  snprintf(reader->path, sizeof reader->path, "domain %s: descriptors", domain->name);
  read_list(reader, node, domain, &domain->descriptors, &domain->count);
}

void weir_read_descriptor_file(weir_reader *reader, const char *text, size_t length) {
  static const weir_field fields[] = {
      {.name = "domain", .read = read_domain},
      {.name = "descriptors", .read = read_descriptors},
      {.name = NULL},
  };
  weir_arena tree = {0};
  weir_config_domain nameless = {.name = "?"};
  file_fields read = {.domain = &nameless};
  const weir_node *root = weir_tree_read(reader->file, text, length, &tree, reader->faults);
  if (root != NULL) {
    weir_read_fields(reader, root, fields, &read);
    if (root->kind == WEIR_NODE_MAPPING && weir_node_find(root, "domain") == NULL)
      weir_fault(reader, root, "domain is missing");
  }
  reader->arena->failed |= tree.failed;
  weir_arena_free(&tree);
}
