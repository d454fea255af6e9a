/* Trees of descriptors: of each domain all nodes in one array, found by parent and match. A request
 * goes down one level with each of its entries, and writes its key on the way. */
#include "registry/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "table.h"

enum { ROOT = 0, NONE = 0, PATH_MOST = 256 };
enum { OVERRIDES_MOST = 256 }; /* of each domain */

/* A hash table that only grows: it is read without a lock, and one thread at a time adds to it. */
enum { DETAIL_PLACES = 2048 };
_Static_assert(DETAIL_PLACES > 2 * WEIR_DETAILS_MOST, "one in two is empty");

typedef struct weir_detail_table {
  unsigned char secret[WEIR_HASH_SECRET_BYTES];
  pthread_mutex_t lock;
  _Atomic size_t count;                       /* of those listed, */
  weir_detail *listed[WEIR_DETAILS_MOST + 1]; /* of which the first is "other" */
  _Atomic(weir_detail *) places[DETAIL_PLACES];
} detail_table;

/* --- finding ------------------------------------------------------------------------------------
 */

/* A node is found by this. */
typedef struct step {
  uint32_t parent;
  const char *match;
  size_t length;
} step;

static bool is_step(const void *context, const void *item, const void *wanted) {
  const weir_domain *domain = context;
  const weir_descriptor *node = &domain->nodes[*(const uint32_t *)item];
  const step *other = wanted;
  return node->parent == other->parent && node->config->match_length == other->length &&
         memcmp(node->config->match, other->match, other->length) == 0;
}

static uint32_t mark_step(const weir_domain *domain, const step *wanted) {
  const uint32_t both[] = {wanted->parent,
                           weir_hash_table_mark(&domain->by_match, wanted->match, wanted->length)};
  return weir_hash_table_mark(&domain->by_match, both, sizeof both);
}

static uint32_t find_node(const weir_domain *domain, const step *wanted) {
  const uint32_t *found =
      weir_hash_table_find(&domain->by_match, mark_step(domain, wanted), wanted);
  return found != NULL ? *found : NONE;
}

/* KEY_VALUE first, then wildcards in the order of the file, then KEY. */
static uint32_t find_child(const weir_domain *domain, uint32_t parent, const weir_entry *entry) {
  char text[WEIR_CONFIG_KEY_MOST + 1];
  size_t length = entry->key_length + 1 + entry->value_length;
  memcpy(text, entry->key, entry->key_length);
  text[entry->key_length] = '_';
  memcpy(text + entry->key_length + 1, entry->value, entry->value_length);
  uint32_t found = find_node(domain, &(step){parent, text, length});
  if (found != NONE) return found;
  for (found = domain->nodes[parent].first_wildcard; found != NONE;
       found = domain->nodes[found].next_wildcard) {
    const weir_config_descriptor *config = domain->nodes[found].config;
    if (weir_pattern_fits(config->match, config->match_length, text, length)) return found;
  }
  return find_node(domain, &(step){parent, entry->key, entry->key_length});
}

/* --- details ------------------------------------------------------------------------------------
 */

/* Nothing is counted of what is unlimited. */
static bool is_detailed(const weir_descriptor *node) {
  const weir_config_rate *rate = node->config->rate;
  return rate != NULL && !rate->is_unlimited && (node->config->detailed || node->shows_value);
}

static weir_detail *make_detail(const char *path, size_t length) {
  weir_detail *made = calloc(1, sizeof *made + length + 1);
  if (made == NULL) return NULL;
  made->length = length;
  memcpy(made->path, path, length);
  return made;
}

/* NULL: no memory. */
static detail_table *create_details(void) {
  static const char other[] = "other"; /* no path, as these have a '=' */
  detail_table *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  weir_random_secret(made->secret);
  made->listed[0] = make_detail(other, sizeof other - 1);
  atomic_init(&made->count, 1);
  if (made->listed[0] != NULL && pthread_mutex_init(&made->lock, NULL) == 0) return made;
  free(made->listed[0]);
  free(made);
  return NULL;
}

static void destroy_details(detail_table *details) {
  if (details == NULL) return;
  for (size_t i = 0; i < atomic_load(&details->count); i++)
    free(details->listed[i]);
  pthread_mutex_destroy(&details->lock);
  free(details);
}

/* Where it stands, or would. */
static _Atomic(weir_detail *) *find_place(detail_table *details, const char *path, size_t length) {
  for (size_t at = weir_hash_64(details->secret, path, length) % DETAIL_PLACES;;
       at = (at + 1) % DETAIL_PLACES) {
    const weir_detail *there = atomic_load_explicit(&details->places[at], memory_order_acquire);
    if (there == NULL || (there->length == length && memcmp(there->path, path, length) == 0))
      return &details->places[at];
  }
}

/* Never NULL: for what finds no room it is "other". */
static weir_detail *find_detail(detail_table *details, const char *path, size_t length) {
  if (length > WEIR_DETAIL_BYTES) return details->listed[0];
  weir_detail *found =
      atomic_load_explicit(find_place(details, path, length), memory_order_acquire);
  if (found != NULL) return found;
  if (atomic_load_explicit(&details->count, memory_order_relaxed) > WEIR_DETAILS_MOST)
    return details->listed[0];

  pthread_mutex_lock(&details->lock);
  size_t count = atomic_load_explicit(&details->count, memory_order_relaxed);
  _Atomic(weir_detail *) *place = find_place(details, path, length);
  found =
      atomic_load_explicit(place, memory_order_relaxed); /* another thread may have been first */
  if (found == NULL && count <= WEIR_DETAILS_MOST) found = make_detail(path, length);
  if (found != NULL && atomic_load_explicit(place, memory_order_relaxed) == NULL) {
    details->listed[count] = found;
    atomic_store_explicit(&details->count, count + 1, memory_order_release);
    atomic_store_explicit(place, found, memory_order_release);
  }
  pthread_mutex_unlock(&details->lock);
  return found != NULL ? found : details->listed[0];
}

/* --- building -----------------------------------------------------------------------------------
 */

typedef struct builder {
  weir_descriptors *made;
  weir_domain *domain;
  const weir_descriptors_source *source;
  weir_config_faults *faults;
  char path[PATH_MOST];
} builder;

static void add_children(builder *self, uint32_t parent, const weir_config_descriptor *children,
                         size_t count);

static uint32_t add_node(builder *self, uint32_t parent, const weir_config_descriptor *config) {
  weir_domain *domain = self->domain;
  const step own = {parent, config->match, config->match_length};
  uint32_t there = find_node(domain, &own);
  if (there != NONE) {
    const weir_config_place *first = &domain->nodes[there].config->place;
    weir_config_fault(self->faults, config->place, self->path,
                      "the same key and value as in line %u of %s", first->line, first->file);
    return NONE;
  }
  uint32_t index = domain->node_count++; /* there is room for all, in the table too */
  *(uint32_t *)weir_hash_table_add(&domain->by_match, mark_step(domain, &own)) = index;
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
  domain->nodes = calloc(config->node_count + 1, sizeof *domain->nodes);
  weir_hash_table_init(&domain->by_match, sizeof(uint32_t), is_step, domain);
  if (domain->nodes == NULL || !weir_hash_table_fit(&domain->by_match, config->node_count))
    return false;
  domain->node_count = 1;
  if (!add_throttle(self, config)) return false;
  snprintf(self->path, sizeof self->path, "domain %s: ", config->name);
  add_children(self, ROOT, config->descriptors, config->count);
  bool has_details = false;
  for (size_t i = 1; i < domain->node_count; i++)
    has_details |= is_detailed(&domain->nodes[i]);
  if (has_details) domain->details = create_details();
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
    weir_hash_table_clean_up(&descriptors->domains[i].by_match);
    weir_throttle_destroy(descriptors->domains[i].throttle);
    weir_throttle_destroy(descriptors->domains[i].dated);
    destroy_details(descriptors->domains[i].details);
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

const weir_descriptor *weir_domain_find(const weir_domain *domain, const weir_entry *entries,
                                        size_t count, char *key, size_t room, size_t *key_length) {
  key_writer writer = {key, room, 0};
  uint32_t at = ROOT;
  put_pair(&writer, domain->config->name, strlen(domain->config->name), NULL, 0);
  for (size_t i = 0; i < count; i++) {
    at = find_child(domain, at, &entries[i]);
    if (at == NONE) return NULL;
    const weir_config_descriptor *config = domain->nodes[at].config;
    if (config->shares)
      put_pair(&writer, config->key, strlen(config->key), config->value,
               config->value != NULL ? strlen(config->value) : 0);
    else
      put_pair(&writer, entries[i].key, entries[i].key_length, entries[i].value,
               entries[i].value_length);
  }
  *key_length = writer.length;
  return at != ROOT && domain->nodes[at].config->rate != NULL ? &domain->nodes[at] : NULL;
}

static uint32_t find_counterpart(const weir_domain *domain, uint32_t index,
                                 const weir_domain *other) {
  const weir_descriptor *node = &domain->nodes[index];
  uint32_t parent = node->parent != ROOT ? find_counterpart(domain, node->parent, other) : ROOT;
  if (node->parent != ROOT && parent == NONE) return NONE;
  return find_node(other, &(step){parent, node->config->match, node->config->match_length});
}

const weir_descriptor *weir_domain_counterpart(const weir_domain *domain, uint32_t index,
                                               const weir_domain *other) {
  uint32_t found = index != ROOT ? find_counterpart(domain, index, other) : NONE;
  return found != NONE ? &other->nodes[found] : NULL;
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
  return find_detail(domain->details, path, writer.length);
}

const weir_detail *weir_domain_detail_at(const weir_domain *domain, size_t index) {
  detail_table *details = domain->details;
  if (details == NULL) return NULL;
  size_t count = atomic_load_explicit(&details->count, memory_order_acquire);
  return index < count ? details->listed[index] : NULL;
}

/* --- the rest -----------------------------------------------------------------------------------
 */

const weir_domain *weir_descriptors_find(const weir_descriptors *descriptors, const char *name,
                                         size_t length) {
  for (size_t i = 0; i < descriptors->count; i++) {
    const char *known = descriptors->domains[i].config->name;
    if (strlen(known) == length && memcmp(known, name, length) == 0)
      return &descriptors->domains[i];
  }
  return NULL;
}

weir_throttle *weir_domain_throttle(const weir_domain *domain, weir_config_unit unit) {
  return weir_config_is_dated(domain->config, unit) ? domain->dated : domain->throttle;
}

void weir_descriptors_end_turn(const weir_descriptors *descriptors, unsigned loop) {
  for (size_t i = 0; i < descriptors->count; i++) {
    weir_throttle_end_turn(descriptors->domains[i].throttle, loop);
    if (descriptors->domains[i].dated != NULL)
      weir_throttle_end_turn(descriptors->domains[i].dated, loop);
  }
}

/* --- the calendar: Gregorian, reckoned in days since 1970 ---------------------------------------
 */

enum { DAY_S = 86400, ERA_DAYS = 146097, ERA_YEARS = 400 };

/* Days from 1970-01-01 to the first of a month, 1 to 12; months run from March, so that a leap day
 * is the last of its year. 719468 days lie between 0000-03-01 and then. */
static int64_t days_to(int64_t year, int month) {
  if (month <= 2) year--;
  int64_t era = (year >= 0 ? year : year - ERA_YEARS + 1) / ERA_YEARS;
  int64_t of_era = year - era * ERA_YEARS;
  int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5;
  return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

weir_calendar weir_calendar_at(weir_config_unit unit, int64_t now_s) {
  weir_calendar made;
  int64_t day = now_s / DAY_S;
  int64_t year = 1970 + day / 366; /* too early rather than too late */
  int month = 1;
  while (days_to(year + 1, 1) <= day)
    year++;
  while (month < 12 && days_to(year, month + 1) <= day)
    month++;
  bool is_month = unit == WEIR_CONFIG_MONTH;
  int length = is_month
                   ? snprintf(made.text, sizeof made.text, "/%04lld-%02d", (long long)year, month)
                   : snprintf(made.text, sizeof made.text, "/%04lld", (long long)year);
  made.length = (size_t)length;
  bool is_last = !is_month || month == 12;
  made.end_s = DAY_S * (is_last ? days_to(year + 1, 1) : days_to(year, month + 1));
  return made;
}
