/* Trees of descriptors: of each domain all nodes in one array, found by parent and match. */
#include "registry/descriptors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry/keymap.h"

enum { ROOT = 0, NONE = 0, PATH_MOST = 256 };
enum { OVERRIDES_MOST = 256 }; /* of each domain */

struct weir_domain {
  const weir_config_domain *config;
  size_t index;
  weir_descriptor *nodes; /* the root is the first */
  uint32_t node_count;
  uint32_t *slots; /* a node by its parent and match; 0: empty */
  size_t slot_count;
  weir_throttle *throttle, *dated; /* of limits that requests bring */
  weir_details *details;           /* NULL: no file asks for them */
};

struct weir_descriptors {
  size_t count;
  uint32_t limits;
  weir_domain domains[];
};

typedef struct builder {
  weir_descriptors *made;
  weir_domain *domain;
  const weir_descriptors_source *source;
  weir_config_faults *faults;
  char path[PATH_MOST];
} builder;

/* --- building -----------------------------------------------------------------------------------
 */

/* The slot of a node, or the empty one where it would stand: one in two is empty. */
static uint32_t *find_slot(const weir_domain *domain, uint32_t parent, const char *match,
                           size_t length) {
  uint64_t hash = weir_registry_hash(match, length) ^ parent * UINT64_C(0x9e3779b97f4a7c15);
  for (size_t at = (hash ^ hash >> 32) & (domain->slot_count - 1);;
       at = (at + 1) & (domain->slot_count - 1)) {
    uint32_t *slot = &domain->slots[at];
    const weir_descriptor *node = &domain->nodes[*slot];
    if (*slot == NONE) return slot;
    if (node->parent == parent && node->config->match_length == length &&
        memcmp(node->config->match, match, length) == 0)
      return slot;
  }
}

static void add_children(builder *self, uint32_t parent, const weir_config_descriptor *children,
                         size_t count);

/* Nothing is counted of what is unlimited. */
static bool is_detailed(const weir_descriptor *node) {
  const weir_config_rate *rate = node->config->rate;
  return rate != NULL && !rate->is_unlimited && (node->config->detailed || node->shows_value);
}

static uint32_t add_node(builder *self, uint32_t parent, const weir_config_descriptor *config) {
  weir_domain *domain = self->domain;
  uint32_t *slot = find_slot(domain, parent, config->match, config->match_length);
  if (*slot != NONE) {
    const weir_config_place *first = &domain->nodes[*slot].config->place;
    weir_config_fault(self->faults, config->place, self->path,
                      "the same key and value as in line %u", first->line);
    return NONE;
  }
  uint32_t index = *slot = domain->node_count++;
  weir_descriptor *node = &domain->nodes[index];
  *node = (weir_descriptor){.config = config, .parent = parent};
  node->shows_value = config->shows_value || domain->nodes[parent].shows_value;
  const weir_config_rate *rate = config->rate;
  if (rate != NULL) node->limit = self->made->limits++;
  if (rate != NULL && rate->rule != NULL)
    node->limiter = self->source->find(self->source->self, domain->config->store, rate->rule,
                                       rate->place, self->path);
  add_children(self, index, config->children, config->child_count);
  return index;
}

static void add_children(builder *self, uint32_t parent, const weir_config_descriptor *children,
                         size_t count) {
  size_t length = strlen(self->path);
  uint32_t *link = &self->domain->nodes[parent].first_wildcard;
  for (size_t i = 0; i < count; i++) {
    if (children[i].match == NULL) continue; /* which is a fault already */
    snprintf(self->path + length, sizeof self->path - length, "%sdescriptors[%zu]",
             parent == ROOT ? "" : ".", i);
    uint32_t index = add_node(self, parent, &children[i]);
    self->path[length] = '\0';
    if (index == NONE || !children[i].is_wildcard) continue;
    *link = index;
    link = &self->domain->nodes[index].next_wildcard;
  }
}

static bool add_throttle(builder *self, const weir_config_domain *config) {
  if (config->store == NULL) return true; /* which is a fault already */
  weir_store *store = self->source->store(self->source->self, config->store);
  const weir_limiter_options *options = &config->store->options;
  const char *suffix = weir_config_rule_suffix(config);
  weir_domain *domain = self->domain;
  domain->throttle = weir_throttle_create_for(
      store, options, weir_config_algorithms[config->algorithm], suffix, OVERRIDES_MOST);
  if (config->calendar)
    domain->dated = weir_throttle_create_for(store, options,
                                             weir_config_algorithm_of(config, WEIR_CONFIG_MONTH),
                                             suffix, OVERRIDES_MOST);
  return domain->throttle != NULL && (domain->dated != NULL || !config->calendar);
}

static bool build_domain(builder *self, const weir_config_domain *config) {
  weir_domain *domain = self->domain;
  domain->config = config;
  domain->slot_count = 4;
  while (domain->slot_count < 2 * (config->node_count + 1))
    domain->slot_count *= 2;
  domain->nodes = calloc(config->node_count + 1, sizeof *domain->nodes);
  domain->slots = calloc(domain->slot_count, sizeof *domain->slots);
  if (domain->nodes == NULL || domain->slots == NULL) return false;
  domain->node_count = 1;
  if (!add_throttle(self, config)) return false;
  snprintf(self->path, sizeof self->path, "domain %s: ", config->name);
  add_children(self, ROOT, config->descriptors, config->count);
  bool has_details = false;
  for (size_t i = 1; i < domain->node_count; i++)
    has_details |= is_detailed(&domain->nodes[i]);
  if (has_details) domain->details = weir_details_create();
  return domain->details != NULL || !has_details;
}

weir_descriptors *weir_descriptors_create(const weir_config_envoy *config,
                                          const weir_descriptors_source *source,
                                          weir_config_faults *faults) {
  weir_descriptors *made = calloc(1, sizeof *made + config->domain_count * sizeof made->domains[0]);
  if (made == NULL) return NULL;
  made->count = config->domain_count;
  bool has_memory = true;
  for (size_t i = 0; i < made->count && has_memory; i++) {
    builder self = {made, &made->domains[i], source, faults, ""};
    made->domains[i].index = i;
    has_memory = build_domain(&self, &config->domains[i]);
  }
  if (has_memory) return made;
  weir_descriptors_destroy(made);
  return NULL;
}

void weir_descriptors_destroy(weir_descriptors *descriptors) {
  for (size_t i = 0; descriptors != NULL && i < descriptors->count; i++) {
    free(descriptors->domains[i].nodes);
    free(descriptors->domains[i].slots);
    weir_throttle_destroy(descriptors->domains[i].throttle);
    weir_throttle_destroy(descriptors->domains[i].dated);
    weir_details_destroy(descriptors->domains[i].details);
  }
  free(descriptors);
}

/* --- keys ---------------------------------------------------------------------------------------
 */

/* Counts also what finds no room. */
typedef struct key_writer {
  char *bytes;
  size_t room, length;
} key_writer;

static void put(key_writer *key, char byte) {
  if (key->length < key->room) key->bytes[key->length] = byte;
  key->length++;
}

static void put_byte(key_writer *key, char byte, bool is_special) {
  static const char digits[] = "0123456789ABCDEF";
  put(key, is_special ? '%' : byte);
  if (is_special) put(key, digits[(unsigned char)byte >> 4]);
  if (is_special) put(key, digits[byte & 15]);
}

static void put_escaped(key_writer *key, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    put_byte(key, text[i], text[i] == '%' || text[i] == '/' || text[i] == '=');
}

static void put_pair(key_writer *key, const char *name, size_t name_length, const char *value,
                     size_t value_length) {
  put(key, '/');
  put_escaped(key, name, name_length);
  if (value == NULL) return;
  put(key, '=');
  put_escaped(key, value, value_length);
}

static void put_level(key_writer *key, const weir_descriptor *node, const weir_entry *entry) {
  const weir_config_descriptor *config = node->config;
  if (config->shares)
    put_pair(key, config->key, strlen(config->key), config->value,
             config->value != NULL ? strlen(config->value) : 0);
  else
    put_pair(key, entry->key, entry->key_length, entry->value, entry->value_length);
}

/* --- finding ------------------------------------------------------------------------------------
 */

static uint32_t find_wildcard(const weir_domain *domain, uint32_t parent, const char *text,
                              size_t length) {
  uint32_t index = domain->nodes[parent].first_wildcard;
  while (index != NONE) {
    const weir_config_descriptor *config = domain->nodes[index].config;
    if (weir_pattern_fits(config->match, config->match_length, text, length)) break;
    index = domain->nodes[index].next_wildcard;
  }
  return index;
}

static uint32_t find_child(const weir_domain *domain, uint32_t parent, const weir_entry *entry) {
  char text[WEIR_CONFIG_KEY_MOST + 1];
  size_t length = entry->key_length + 1 + entry->value_length;
  memcpy(text, entry->key, entry->key_length);
  text[entry->key_length] = '_';
  memcpy(text + entry->key_length + 1, entry->value, entry->value_length);
  uint32_t found = *find_slot(domain, parent, text, length);
  if (found == NONE) found = find_wildcard(domain, parent, text, length);
  return found != NONE ? found : *find_slot(domain, parent, entry->key, entry->key_length);
}

const weir_descriptor *weir_domain_find(const weir_domain *domain, const weir_entry *entries,
                                        size_t count, char *key, size_t room, size_t *key_length) {
  key_writer writer = {key, room, 0};
  uint32_t at = ROOT;
  put_pair(&writer, domain->config->name, strlen(domain->config->name), NULL, 0);
  for (size_t i = 0; i < count; i++) {
    at = find_child(domain, at, &entries[i]);
    if (at == NONE) return NULL;
    put_level(&writer, &domain->nodes[at], &entries[i]);
  }
  *key_length = writer.length;
  return at != ROOT && domain->nodes[at].config->rate != NULL ? &domain->nodes[at] : NULL;
}

size_t weir_domain_write_key(const weir_domain *domain, const weir_entry *entries, size_t count,
                             char *key, size_t room) {
  key_writer writer = {key, room, 0};
  put_pair(&writer, domain->config->name, strlen(domain->config->name), NULL, 0);
  for (size_t i = 0; i < count; i++)
    put_pair(&writer, entries[i].key, entries[i].key_length, entries[i].value,
             entries[i].value_length);
  return writer.length;
}

/* --- details ------------------------------------------------------------------------------------
 */

/* For a label of metrics: what might end one, or is no text, is spelled out. */
static void put_shown(key_writer *path, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    put_byte(path, text[i], text[i] < ' ' || text[i] > '~' || strchr("%/=\"\\", text[i]) != NULL);
}

/* `entry` is the request's for this node, behind those for what stands above it. */
static void put_shown_levels(key_writer *path, const weir_domain *domain,
                             const weir_descriptor *node, bool all, const weir_entry *entry) {
  const weir_config_descriptor *config = node->config;
  bool shows_value = (all || config->shows_value) && !config->shares;
  if (node->parent != ROOT) {
    put_shown_levels(path, domain, &domain->nodes[node->parent], all, entry - 1);
    put(path, '/');
  }
  if (shows_value)
    put_shown(path, entry->key, entry->key_length);
  else
    put_shown(path, config->key, strlen(config->key));
  if (!shows_value && config->value == NULL) return;
  put(path, '=');
  if (shows_value)
    put_shown(path, entry->value, entry->value_length);
  else
    put_shown(path, config->value, strlen(config->value));
}

weir_detail *weir_domain_detail(const weir_domain *domain, const weir_descriptor *node,
                                const weir_entry *entries, size_t count) {
  char path[WEIR_DETAIL_BYTES];
  key_writer writer = {path, sizeof path, 0};
  if (domain->details == NULL || !is_detailed(node)) return NULL;
  put_shown_levels(&writer, domain, node, node->config->detailed, &entries[count - 1]);
  return weir_details_find(domain->details, path, writer.length);
}

const weir_details *weir_domain_details(const weir_domain *domain) {
  return domain->details;
}

/* --- the rest -----------------------------------------------------------------------------------
 */

size_t weir_descriptors_count(const weir_descriptors *descriptors) {
  return descriptors->count;
}

const weir_domain *weir_descriptors_at(const weir_descriptors *descriptors, size_t index) {
  return &descriptors->domains[index];
}

const weir_domain *weir_descriptors_find(const weir_descriptors *descriptors, const char *name,
                                         size_t length) {
  for (size_t i = 0; i < descriptors->count; i++) {
    const char *known = descriptors->domains[i].config->name;
    if (strlen(known) == length && memcmp(known, name, length) == 0)
      return &descriptors->domains[i];
  }
  return NULL;
}

size_t weir_descriptors_limits(const weir_descriptors *descriptors) {
  return descriptors->limits;
}

size_t weir_domain_nodes(const weir_domain *domain) {
  return domain->node_count;
}

const weir_descriptor *weir_domain_node(const weir_domain *domain, size_t index) {
  return &domain->nodes[index];
}

const weir_config_domain *weir_domain_config(const weir_domain *domain) {
  return domain->config;
}

size_t weir_domain_index(const weir_domain *domain) {
  return domain->index;
}

weir_throttle *weir_domain_throttle(const weir_domain *domain, weir_config_unit unit) {
  return weir_config_is_dated(domain->config, unit) ? domain->dated : domain->throttle;
}

void weir_descriptors_end_tick(const weir_descriptors *descriptors, unsigned loop) {
  for (size_t i = 0; i < descriptors->count; i++) {
    weir_throttle_end_tick(descriptors->domains[i].throttle, loop);
    if (descriptors->domains[i].dated != NULL)
      weir_throttle_end_tick(descriptors->domains[i].dated, loop);
  }
}
