/* Descriptor files in the format of envoyproxy/ratelimit: which of them are read and what holds for
 * their domains ("envoy" in the configuration), and what stands in each. The settings of a domain
 * are known before its file is read. */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "config/reader.h"

enum {
  FILES_MOST = 1000,
  PATTERNS_MOST = 100,
  DOMAINS_MOST = 1000,
  DESCRIPTORS_MOST = 100000,
  WILDCARDS_MOST = 1000,
  CLASSES_MOST = 400,         /* bytes */
  PERIOD_S_MOST = 400 * 86400 /* of any rule */
};

/* --- what a domain's limits are like ------------------------------------------------------------
 */

const char *const weir_config_units[WEIR_CONFIG_UNITS] = {[WEIR_CONFIG_UNIT_UNKNOWN] = "UNKNOWN",
                                                          [WEIR_CONFIG_SECOND] = "SECOND",
                                                          [WEIR_CONFIG_MINUTE] = "MINUTE",
                                                          [WEIR_CONFIG_HOUR] = "HOUR",
                                                          [WEIR_CONFIG_DAY] = "DAY",
                                                          [WEIR_CONFIG_MONTH] = "MONTH",
                                                          [WEIR_CONFIG_YEAR] = "YEAR",
                                                          [WEIR_CONFIG_WEEK] = "WEEK"};

const char *const weir_config_algorithms[] = {
    [WEIR_CONFIG_FIXED] = "fixed-window", [WEIR_CONFIG_SLIDING] = "sliding-window",
    [WEIR_CONFIG_QUOTA] = "quota",        [WEIR_CONFIG_BUCKET] = "token-bucket",
    [WEIR_CONFIG_PLACES] = "in-flight",   NULL};

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
  return domain->suffix != NULL ? domain->suffix : "";
}

/* --- rate_limit ---------------------------------------------------------------------------------
 */

static void read_unit(weir_reader *reader, const weir_node *node, void *target) {
  static const char *const accepted[] = {"second", "minute", "hour", "day",
                                         "week",   "month",  "year", NULL};
  weir_config_unit *read = target;
  if (!weir_expect(reader, node, WEIR_NODE_SCALAR)) return;
  for (int unit = WEIR_CONFIG_SECOND; unit < WEIR_CONFIG_UNITS; unit++)
    if (strlen(node->text) == node->length && strcasecmp(node->text, weir_config_units[unit]) == 0)
      *read = (weir_config_unit)unit;
  if (*read == WEIR_CONFIG_UNIT_UNKNOWN)
    weir_fault_unknown(reader, node, "found", (weir_names){accepted, sizeof *accepted, SIZE_MAX});
}

/* The names of other limits, one of which may not be the limit's own: target is all of it. */
static void read_replaces(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {{.name = "name", .type = WEIR_FIELD_TEXT}, {.name = NULL}};
  weir_config_rate *rate = target;
  if (!weir_expect_most(reader, node, WEIR_NODE_SEQUENCE, WEIR_CONFIG_REPLACES_MOST, "names"))
    return;
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

/* A limit's own name is read first: what it replaces must be others'. */
static const weir_field rate_table[] = {
    {.name = "name",
     .type = WEIR_FIELD_TEXT,
     .may_be_empty = true,
     .offset = offsetof(weir_config_rate, name)},
    WEIR_ROW_READ("unit", read_unit, weir_config_rate, unit),
    WEIR_ROW_RANGE("unit_multiplier", NUMBER, weir_config_rate, units, 1, PERIOD_S_MOST),
    WEIR_ROW_RANGE("requests_per_unit", NUMBER, weir_config_rate, requests, 0, UINT32_MAX),
    WEIR_ROW("unlimited", BOOL, weir_config_rate, is_unlimited),
    {.name = "replaces", .read = read_replaces, .may_be_empty = true},
    {.name = NULL},
};

/* --- descriptors --------------------------------------------------------------------------------
 */

/* A descriptor's fields are read into this. */
typedef struct descriptor_fields {
  weir_config_descriptor made; /* first: what it holds is of ... */
  weir_config_domain *domain;
} descriptor_fields;

static void read_list(weir_reader *reader, const weir_node *node, weir_config_domain *domain,
                      weir_config_descriptor **made, size_t *count);

/* "ALGORITHM:REQUESTS/SECONDSs", where a period has several units, too. */
static void set_rule(weir_reader *reader, const weir_node *node, const weir_config_domain *domain,
                     weir_config_rate *rate) {
  char rule[128 + CLASSES_MOST], most[32] = "";
  int64_t unit_s = weir_config_unit_s(domain, rate->unit);
  if (rate->units > PERIOD_S_MOST / unit_s)
    weir_fault(reader, node, "unit_multiplier makes a period of more than %d days",
               PERIOD_S_MOST / 86400);
  else if (rate->units > 1 && weir_config_is_dated(domain, rate->unit))
    weir_fault(reader, node, "unit_multiplier is not of the months and years of calendar: true");
  if (rate->requests > WEIR_CONFIG_REQUESTS_MOST) {
    weir_config_warn(reader->faults, weir_place(reader, node), reader->path,
                     "requests_per_unit of %lld is taken as %d, which is the most",
                     (long long)rate->requests, WEIR_CONFIG_REQUESTS_MOST);
    rate->requests = WEIR_CONFIG_REQUESTS_MOST;
  }
  if (rate->requests == 0) return;
  if (domain->most > 0) snprintf(most, sizeof most, ",most=%lld", (long long)domain->most);
  long long seconds = unit_s * rate->units;
  int length =
      snprintf(rule, sizeof rule, "%s:%lld/%llds%s%s", weir_config_algorithm_of(domain, rate->unit),
               (long long)rate->requests, seconds, weir_config_rule_suffix(domain), most);
  rate->rule = weir_arena_copy(reader->arena, rule, (size_t)length);
}

static void read_rate(weir_reader *reader, const weir_node *node, void *target) {
  const descriptor_fields *read = target;
  weir_config_rate *rate = weir_arena_take(reader->arena, 1, sizeof *rate);
  ((descriptor_fields *)target)->made.rate = rate;
  if (rate == NULL) return;
  rate->place = weir_place(reader, node);
  rate->units = 1;
  weir_read_fields(reader, node, rate_table, rate);
  if (node->kind != WEIR_NODE_MAPPING) return;
  const weir_node *unit = weir_node_find(node, "unit");
  if (rate->is_unlimited) {
    if (!weir_node_is_empty(unit)) weir_fault(reader, unit, "an unlimited one has no unit");
    return;
  }
  if (unit == NULL) weir_fault(reader, node, "unit is missing, such as \"unit: minute\"");
  if (weir_node_find(node, "requests_per_unit") == NULL)
    weir_fault(reader, node, "requests_per_unit is missing; 0 denies all");
  if (rate->unit != WEIR_CONFIG_UNIT_UNKNOWN) set_rule(reader, node, read->domain, rate);
}

static void read_children(weir_reader *reader, const weir_node *node, void *target) {
  descriptor_fields *read = target;
  read_list(reader, node, read->domain, &read->made.children, &read->made.child_count);
}

/* For other users of these files: not even looked into. */
static void read_metadata(weir_reader *reader, const weir_node *node, void *target) {
  (void)target;
  weir_expect(reader, node, WEIR_NODE_MAPPING);
}

static const weir_field descriptor_table[] = {
    WEIR_ROW("key", TEXT, descriptor_fields, made.key),
    {.name = "value",
     .type = WEIR_FIELD_TEXT,
     .may_be_empty = true,
     .offset = offsetof(descriptor_fields, made.value)},
    {.name = "rate_limit", .read = read_rate, .may_be_empty = true},
    WEIR_ROW("shadow_mode", BOOL, descriptor_fields, made.shadow),
    WEIR_ROW("quota_mode", BOOL, descriptor_fields, made.quota),
    WEIR_ROW("share_threshold", BOOL, descriptor_fields, made.shares),
    WEIR_ROW("detailed_metric", BOOL, descriptor_fields, made.detailed),
    WEIR_ROW("value_to_metric", BOOL, descriptor_fields, made.shows_value),
    {.name = "metadata", .read = read_metadata, .may_be_empty = true},
    {.name = "descriptors", .read = read_children, .may_be_empty = true},
    {.name = NULL},
};

static void read_descriptor(weir_reader *reader, const weir_node *node, weir_config_domain *domain,
                            weir_config_descriptor *place) {
  descriptor_fields read = {.made = {.place = weir_place(reader, node)}, .domain = domain};
  weir_config_descriptor *made = &read.made;
  weir_read_fields(reader, node, descriptor_table, &read);
  *place = *made;
  if (node->kind != WEIR_NODE_MAPPING) return;
  if (weir_node_find(node, "key") == NULL) weir_fault(reader, node, "key is missing");
  if (made->key == NULL) return;

  /* Requests are held against KEY, or KEY_VALUE. */
  size_t key = strlen(made->key);
  size_t value = made->value != NULL ? strlen(made->value) + 1 : 0;
  char *match = weir_arena_take(reader->arena, key + value + 1, 1);
  if (match != NULL) {
    memcpy(match, made->key, key);
    if (value > 0) match[key] = '_';
    if (value > 0) memcpy(match + key + 1, made->value, value - 1);
    place->match = match;
    place->match_length = key + value;
    place->is_wildcard = strchr(match, '*') != NULL;
  }
  if (place->match_length > WEIR_CONFIG_MATCH_MOST)
    weir_fault(reader, node, "key and value of %zu bytes, accepted are %d", place->match_length,
               WEIR_CONFIG_MATCH_MOST);
  if (place->shares && !place->is_wildcard)
    weir_fault(reader, node, "share_threshold is of a value with '*' alone");
}

/* Each is tried in turn, so there may not be many. */
static void bound_wildcards(weir_reader *reader, const weir_node *node,
                            const weir_config_descriptor *made, size_t count) {
  size_t wildcards = 0;
  for (size_t i = 0; i < count; i++)
    wildcards += made[i].is_wildcard;
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
  bound_wildcards(reader, node, *made, *count);
}

static weir_config_domain default_domain(const char *name) {
  return (weir_config_domain){.name = name,
                              .headers = WEIR_CONFIG_HEADERS_OFF,
                              .near_percent = 80,
                              .said_keys = {"weir_class", "weir_limit", "weir_tenant"}};
}

/* --- one file -----------------------------------------------------------------------------------
 */

/* One that envoy.domains does not have takes the only store, and fixed windows. Its name is a label
 * of metrics and a part of keys. Target: where the domain goes. */
static void read_domain_name(weir_reader *reader, const weir_node *node, void *target) {
  const weir_config *config = reader->config;
  weir_config_envoy *envoy = &reader->config->envoy;
  const char *name = weir_read_text(reader, node);
  if (name == NULL) return;
  bool good = strlen(name) <= WEIR_CONFIG_DOMAIN_MOST;
  for (const char *at = name; *at != '\0'; at++)
    good = good && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\';
  if (!good) {
    weir_fault(reader, node, "found %s, accepted are 1 to %d printable ASCII without \" and \\",
               weir_quote(node).text, WEIR_CONFIG_DOMAIN_MOST);
    return;
  }

  weir_config_domain *domain = NULL;
  for (size_t i = 0; i < envoy->domain_count && domain == NULL; i++)
    if (strcmp(envoy->domains[i].name, name) == 0) domain = &envoy->domains[i];
  bool is_there = domain != NULL && domain->place.file != NULL;
  if (is_there && !envoy->merges)
    weir_fault(reader, node,
               "domain %s stands in line %u of %s already; \"envoy: {merge: true}\" accepts that",
               weir_quote(node).text, domain->place.line, domain->place.file);
  else if (is_there)
    *(weir_config_domain **)target = domain;
  if (is_there) return;
  if (domain == NULL) {
    domain = &envoy->domains[envoy->domain_count++];
    *domain = default_domain(name);
    if (config->store_count > 1)
      weir_fault(reader, node,
                 "which of the %zu stores? say \"envoy: {domains: {%s: {store: NAME}}}\" in %s",
                 config->store_count, name, config->file);
    else if (config->store_count == 1)
      domain->store = config->stores;
  }
  domain->place = weir_place(reader, node);
  *(weir_config_domain **)target = domain;
}

/* Behind those of other files. */
static void append(weir_reader *reader, weir_config_domain *domain,
                   const weir_config_descriptor *more, size_t count) {
  if (count > domain->room - domain->count) {
    size_t room = 2 * (domain->count + count);
    weir_config_descriptor *all = weir_arena_take(reader->arena, room, sizeof *all);
    if (all == NULL) return;
    memcpy(all, domain->descriptors, domain->count * sizeof *all);
    domain->descriptors = all;
    domain->room = room;
  }
  memcpy(domain->descriptors + domain->count, more, count * sizeof *more);
  domain->count += count;
}

static void read_descriptors(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_domain *domain = *(weir_config_domain **)target;
  snprintf(reader->path, sizeof reader->path, "domain %s: descriptors", domain->name);
  weir_config_descriptor *read = NULL;
  size_t count = 0;
  read_list(reader, node, domain, &read, &count);
  if (domain->count == 0) {
    domain->descriptors = read;
    domain->count = domain->room = count;
  } else if (count > 0) {
    append(reader, domain, read, count);
    bound_wildcards(reader, node, domain->descriptors, domain->count);
  }
}

void weir_read_descriptor_file(weir_reader *reader, const char *text, size_t length) {
  static const weir_field fields[] = {
      {.name = "domain", .read = read_domain_name},
      {.name = "descriptors", .read = read_descriptors, .may_be_empty = true},
      {.name = NULL},
  };
  weir_arena tree = {0};
  weir_config_domain nameless = {.name = "?"}; /* takes what is wrong in a file without a name */
  weir_config_domain *domain = &nameless;
  const weir_node *root = weir_tree_read(reader->file, text, length, &tree, reader->faults);
  if (root != NULL) {
    weir_read_fields(reader, root, fields, &domain);
    if (root->kind == WEIR_NODE_MAPPING && weir_node_find(root, "domain") == NULL)
      weir_fault(reader, root, "domain is missing");
  }
  reader->arena->failed |= tree.failed;
  weir_arena_free(&tree);
}

/* --- domains ------------------------------------------------------------------------------------
 */

static const char *const counts[] = {"admitted", "all", NULL};

/* A domain's fields are read into this; choices are numbers there. */
typedef struct domain_fields {
  weir_config_domain domain;
  int algorithm, counts, headers;
} domain_fields;

static void read_field_name(weir_reader *reader, const weir_node *node, void *target) {
  const char *text = weir_read_text(reader, node);
  if (text != NULL && (strlen(text) > WEIR_CONFIG_NAME_MOST || !weir_is_field_name(text)))
    weir_fault(reader, node, "found %s, accepted are 1 to %d of A-Z a-z 0-9 _ . -",
               weir_quote(node).text, WEIR_CONFIG_NAME_MOST);
  else
    *(const char **)target = text;
}

/* Target: the domain. */
static void read_header_names(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {
      WEIR_ROW_READ("limit", read_field_name, weir_config_domain, limit_field),
      WEIR_ROW_READ("remaining", read_field_name, weir_config_domain, remaining_field),
      WEIR_ROW_READ("reset", read_field_name, weir_config_domain, reset_field),
      {.name = NULL},
  };
  weir_read_fields(reader, node, fields, target);
}

/* As in a rule, of which nothing else may stand here. */
static void read_classes(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_domain *domain = target;
  const char *text = weir_read_text(reader, node);
  char suffix[sizeof ",classes=" + CLASSES_MOST];
  if (text == NULL) return;
  if (strlen(text) > CLASSES_MOST || strpbrk(text, ",;") != NULL) {
    weir_fault(reader, node, "found %s, accepted are names and parts, such as batch:60%%|free:80%%",
               weir_quote(node).text);
    return;
  }
  int length = snprintf(suffix, sizeof suffix, ",classes=%s", text);
  domain->classes = text;
  domain->suffix = weir_arena_copy(reader->arena, suffix, (size_t)length);
}

static void read_entry_key(weir_reader *reader, const weir_node *node, void *target) {
  *(const char **)target = weir_read_text(reader, node);
}

/* Target: the domain. */
static void read_said_keys(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {
      WEIR_ROW_READ("class", read_entry_key, weir_config_domain, said_keys[0]),
      WEIR_ROW_READ("limit", read_entry_key, weir_config_domain, said_keys[1]),
      WEIR_ROW_READ("tenant", read_entry_key, weir_config_domain, said_keys[2]),
      {.name = NULL},
  };
  weir_read_fields(reader, node, fields, target);
}

static const weir_field domain_table[] = {
    WEIR_ROW_READ("store", weir_read_store, domain_fields, domain.store),
    WEIR_ROW_CHOICE("algorithm", domain_fields, algorithm, weir_config_algorithms),
    WEIR_ROW_CHOICE("count", domain_fields, counts, counts),
    WEIR_ROW("calendar", BOOL, domain_fields, domain.calendar),
    WEIR_ROW_CHOICE("headers", domain_fields, headers, weir_config_header_styles),
    WEIR_ROW_READ("header_names", read_header_names, domain_fields, domain),
    WEIR_ROW_RANGE("near_limit", NUMBER, domain_fields, domain.near_percent, 0, 100),
    WEIR_ROW("together", BOOL, domain_fields, domain.together),
    WEIR_ROW_READ("classes", read_classes, domain_fields, domain),
    WEIR_ROW_RANGE("most", NUMBER, domain_fields, domain.most, 1, INT64_C(9007199254740992)),
    WEIR_ROW_READ("entries", read_said_keys, domain_fields, domain),
    {.name = NULL},
};

static void read_domains(weir_reader *reader, const weir_node *node, void *target) {
  weir_config_envoy *envoy = target;
  if (!weir_expect_most(reader, node, WEIR_NODE_MAPPING, DOMAINS_MOST, "domains")) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next) {
    size_t length = weir_path_enter(reader, item->key->text);
    const char *name = weir_read_text(reader, item->key);
    domain_fields read = {.domain = default_domain(name), .headers = WEIR_CONFIG_HEADERS_OFF};
    weir_config_domain *domain = &read.domain;
    if (name != NULL) weir_read_fields(reader, item->value, domain_table, &read);
    domain->algorithm = (weir_config_algorithm)read.algorithm;
    domain->counts_all = read.counts == 1;
    if (domain->counts_all && domain->classes != NULL)
      weir_fault(reader, item->key,
                 "count: all keeps what denied classes ask for, so not with classes");
    if (domain->counts_all) domain->suffix = ",count=all";
    domain->headers = (weir_config_headers)read.headers;
    if (name != NULL && item->value->kind == WEIR_NODE_MAPPING) {
      if (weir_node_find(item->value, "store") == NULL)
        domain->store = weir_only_store(reader, item->key);
      if (domain->counts_all &&
          (domain->algorithm == WEIR_CONFIG_BUCKET || domain->algorithm == WEIR_CONFIG_PLACES))
        weir_fault(reader, item->key, "count: all is of windows and quotas, and not of %s",
                   weir_config_algorithms[domain->algorithm]);
      if (domain->calendar && domain->algorithm != WEIR_CONFIG_FIXED)
        weir_fault(reader, item->key, "calendar: true is of fixed-window alone");
      if (weir_node_find(item->value, "header_names") != NULL &&
          domain->headers != WEIR_CONFIG_HEADERS_DRAFT_03)
        weir_fault(reader, item->key, "header_names are of headers: draft-03");
      if (domain->counts_all && domain->together)
        weir_fault(reader, item->key, "count: all keeps what together: true would give back");
    }
    if (name != NULL) envoy->domains[envoy->domain_count++] = *domain;
    weir_path_leave(reader, length);
  }
}

/* --- files --------------------------------------------------------------------------------------
 */

/* A file that comes or goes is a change of its folder. */
static void watch_folder(weir_reader *reader, const char *file) {
  const char *slash = strrchr(file, '/');
  size_t length = slash != NULL ? (size_t)(slash - file) + 1 : 0;
  const char *folder = length > 0 ? weir_arena_copy(reader->arena, file, length) : ".";
  if (folder != NULL) weir_watch_file(reader, folder);
}

static void read_file(weir_reader *reader, const weir_node *node, const char *name) {
  struct stat found;
  size_t length;
  weir_reader *inner = calloc(1, sizeof *inner);
  const char *file = weir_arena_copy(reader->arena, name, strlen(name));
  if (inner == NULL || file == NULL) {
    reader->arena->failed = true;
    free(inner);
    return;
  }
  *inner = (weir_reader){file, reader->arena, reader->faults, reader->config, ""};
  weir_watch_file(reader, file);
  if (stat(file, &found) == 0 && !S_ISREG(found.st_mode)) {
    weir_fault(reader, node, "file \"%.200s\" is no regular file", file);
  } else {
    char *text = weir_config_read_bytes(file, &length, reader->faults);
    if (text != NULL) weir_read_descriptor_file(inner, text, length);
    free(text);
  }
  free(inner);
}

/* A folder that cannot be read matches nothing, unless memory was lacking to read it. */
static int stop_without_memory(const char *folder, int error) {
  (void)folder;
  return error == ENOMEM;
}

/* A name, or a pattern of names. */
static void read_pattern(weir_reader *reader, const weir_node *node, size_t *count) {
  glob_t found = {0};
  const char *text = weir_read_text(reader, node);
  const char *pattern = text != NULL ? weir_resolve_file(reader, text) : NULL;
  if (pattern == NULL) return;
  watch_folder(reader, pattern);
  int failed = glob(pattern, GLOB_NOCHECK, stop_without_memory, &found);
  bool matches = failed == 0 && (found.gl_pathc > 1 || strcmp(found.gl_pathv[0], pattern) != 0 ||
                                 strpbrk(pattern, "*?[") == NULL);
  if (failed != 0)
    reader->arena->failed = true;
  else if (!matches)
    weir_fault(reader, node, "no file is named like this");
  for (size_t i = 0; matches && i < found.gl_pathc; i++) {
    if ((*count)++ == FILES_MOST) weir_fault(reader, node, "more than %d files", FILES_MOST);
    if (*count > FILES_MOST) break;
    watch_folder(reader, found.gl_pathv[i]);
    read_file(reader, node, found.gl_pathv[i]);
  }
  if (failed == 0) globfree(&found);
}

static void read_files(weir_reader *reader, const weir_node *node, void *target) {
  size_t count = 0;
  (void)target;
  if (node->kind == WEIR_NODE_SCALAR) {
    read_pattern(reader, node, &count);
    return;
  }
  if (!weir_expect_most(reader, node, WEIR_NODE_SEQUENCE, PATTERNS_MOST, "patterns")) return;
  for (const weir_node_item *item = node->items; item != NULL; item = item->next)
    read_pattern(reader, item->value, &count);
}

/* --- the section --------------------------------------------------------------------------------
 */

bool weir_envoy_make_room(weir_reader *reader) {
  weir_config_envoy *envoy = &reader->config->envoy;
  envoy->domains =
      weir_arena_take(reader->arena, DOMAINS_MOST + FILES_MOST, sizeof *envoy->domains);
  return envoy->domains != NULL;
}

void weir_read_envoy(weir_reader *reader, const weir_node *node, void *target) {
  static const weir_field fields[] = {
      WEIR_ROW("merge", BOOL, weir_config_envoy, merges),
      {.name = "domains", .read = read_domains},
      {.name = "files", .read = read_files},
      {.name = NULL},
  };
  weir_config_envoy *envoy = &((weir_config *)target)->envoy;
  if (!weir_expect(reader, node, WEIR_NODE_MAPPING) || !weir_envoy_make_room(reader)) return;
  weir_read_fields(reader, node, fields, envoy);
  if (weir_node_find(node, "files") == NULL) {
    weir_fault(reader, node, "files is missing, such as \"files: ratelimit/*.yaml\"");
    return;
  }
  const weir_node *domains = weir_node_find(node, "domains");
  if (domains == NULL || domains->kind != WEIR_NODE_MAPPING) return;
  for (const weir_node_item *item = domains->items; item != NULL; item = item->next)
    for (size_t i = 0; i < envoy->domain_count; i++)
      if (strcmp(envoy->domains[i].name, item->key->text) == 0 &&
          envoy->domains[i].place.file == NULL)
        weir_fault(reader, item->key, "no file of envoy.files has the domain %s",
                   weir_quote(item->key).text);
}
