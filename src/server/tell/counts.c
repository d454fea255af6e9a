/* Counts by limiter, and the keys that are denied most or cost most.
 *
 * A loop's table has a row for each name of its snapshot. A newer snapshot gets a table of its own, into
 * which the counts of the same names are added. The pages sum the tables of all loops in the same way,
 * into one for the main thread's snapshot: while loops differ in theirs, rows are found by name. */
#include "tell/counts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tell/log.h"

/* --- tables ------------------------------------------------------------------------------------
 */

void weir_served_name_domain(const weir_domain *domain, char name[WEIR_CONFIG_NAME_MOST + 1]) {
  snprintf(name, WEIR_CONFIG_NAME_MOST + 1, "/%s", domain->config->name);
}
_Static_assert((int)WEIR_CONFIG_DOMAIN_MOST < (int)WEIR_CONFIG_NAME_MOST, "room for the '/'");

static weir_served_table *make_table(const weir_registry *registry) {
  const weir_descriptors *descriptors = registry->descriptors;
  size_t named = registry->named_count;
  size_t groups = registry->group_count;
  size_t domains = descriptors->count;
  size_t count = named + groups + domains + 1;
  weir_served_table *table = calloc(1, sizeof *table + count * sizeof table->rows[0]);
  if (table == NULL) return NULL;
  table->count = count;
  for (size_t i = 0; i < named; i++)
    snprintf(table->rows[i].name, sizeof table->rows[i].name, "%s",
             registry->named[i].config->name);
  for (size_t i = 0; i < groups; i++)
    snprintf(table->rows[named + i].name, sizeof table->rows[named + i].name, "%s",
             registry->groups[i].name);
  for (size_t i = 0; i < domains; i++)
    weir_served_name_domain(&descriptors->domains[i], table->rows[named + groups + i].name);
  strcpy(table->rows[count - 1].name, WEIR_SERVED_THROTTLE);
  return table;
}

static size_t first_domain(const weir_registry *registry) {
  return registry->named_count + registry->group_count;
}

/* The row of the same name; of another snapshot it may stand in another place. */
static weir_served_row *find_row(const weir_registry *registry, weir_served_table *table,
                                 const char *name, size_t hint) {
  if (hint < table->count && strcmp(table->rows[hint].name, name) == 0) return &table->rows[hint];
  if (strcmp(name, WEIR_SERVED_THROTTLE) == 0) return &table->rows[table->count - 1];
  if (name[0] == '/') {
    const weir_domain *domain =
        weir_descriptors_find(registry->descriptors, name + 1, strlen(name + 1));
    if (domain == NULL) return NULL;
    return &table->rows[first_domain(registry) + domain->index];
  }
  const weir_named_group *group = weir_registry_find_group(registry, name, strlen(name));
  if (group != NULL) return &table->rows[registry->named_count + group->index];
  const weir_named *named = weir_registry_find(registry, name, strlen(name));
  return named != NULL ? &table->rows[named->index] : NULL;
}

/* All behind a row's name are counts. */
static void add_table(const weir_registry *registry, weir_served_table *to,
                      const weir_served_table *from) {
  enum { FIRST = offsetof(weir_served_row, by) };
  for (size_t i = 0; from != NULL && i < from->count; i++) {
    weir_served_row *row = find_row(registry, to, from->rows[i].name, i);
    if (row == NULL) continue;
    _Atomic uint64_t *counts = (_Atomic uint64_t *)(void *)((char *)row + FIRST);
    const _Atomic uint64_t *more =
        (const _Atomic uint64_t *)(const void *)((const char *)&from->rows[i] + FIRST);
    for (size_t j = 0; j < (sizeof *row - FIRST) / sizeof *counts; j++)
      weir_serve_count(&counts[j], atomic_load_explicit(&more[j], memory_order_relaxed));
  }
}
_Static_assert((sizeof(weir_served_row) - offsetof(weir_served_row, by)) % sizeof(uint64_t) == 0,
               "counts alone behind the name");

/* --- life ------------------------------------------------------------------------------------- */

void weir_served_init(weir_served *served, const weir_registry *registry, weir_denial_log *log) {
  served->log = log;
  pthread_mutex_init(&served->lock, NULL);
  weir_served_follow(served, registry);
}

void weir_served_free(weir_served *served) {
  free(served->table);
  free(served->limits);
  free(served->classes);
  pthread_mutex_destroy(&served->lock);
}

/* Whether the configuration still lets every key be shown as it stands there. */
static bool may_keep(const weir_registry *registry, const weir_sketch *sketch) {
  for (size_t i = 0; i < sketch->count; i++) {
    const weir_sketch_key *key = &sketch->entries[i].key;
    const weir_named *named = weir_registry_find(registry, key->limiter, strlen(key->limiter));
    if (named == NULL || named->config->log_keys != key->log_keys) return false;
  }
  return true;
}

void weir_served_follow(weir_served *served, const weir_registry *registry) {
  weir_served_table *old = served->table;
  weir_served_limits *old_limits = served->limits;
  weir_served_classes *old_classes = served->classes;
  weir_served_table *table = make_table(registry);
  size_t count = registry->descriptors->limits;
  weir_served_limits *limits = calloc(1, sizeof *limits + count * sizeof limits->rows[0]);
  weir_served_classes *classes =
      calloc(1, sizeof *classes + registry->class_count * sizeof classes->rows[0]);
  if (limits != NULL) limits->registry = registry;
  if (classes != NULL) classes->registry = registry;
  if (table != NULL) add_table(registry, table, old);
  if (table == NULL || limits == NULL || classes == NULL)
    weir_serve_log("there is not enough memory to count by limiter");
  pthread_mutex_lock(&served->lock);
  served->registry = registry;
  served->table = table;
  served->limits = limits;
  served->classes = classes;
  for (size_t i = 0; i < WEIR_SERVED_KEYS; i++)
    for (size_t j = 0; j < 2; j++)
      if (!may_keep(registry, &served->keys[i][j])) served->keys[i][j] = (weir_sketch){0};
  pthread_mutex_unlock(&served->lock);
  free(old);
  free(old_limits);
  free(old_classes);
}

/* --- adding ------------------------------------------------------------------------------------
 */

/* Where the key of what is told may be shown, it goes into the sketch of this window; or its tenant, which is
 * another one in each pool. */
static void note_key(weir_served *served, weir_served_keys kind, weir_denial_line *told,
                     uint64_t amount, int64_t now_us) {
  bool is_tenant = kind == WEIR_SERVED_TENANTS || kind == WEIR_SERVED_STOPPED;
  weir_denial_line of_tenant;
  weir_reply copy;
  int64_t window = now_us / (WEIR_SERVED_WINDOW_S * INT64_C(1000000));
  if (told->log_keys == WEIR_CONFIG_LOG_KEYS_OFF) return;
  told->hash = weir_denial_log_hash(served->log, told->reply);
  uint64_t hash = told->hash;
  if (is_tenant) {
    weir_denial_line_of_tenant(served->log, told, &copy, &of_tenant);
    hash = 31 * hash + of_tenant.hash;
  }
  pthread_mutex_lock(&served->lock);
  for (size_t i = 0; window != served->window && i < WEIR_SERVED_KEYS; i++) {
    weir_sketch *sketches = served->keys[i];
    sketches[0] = window == served->window + 1 ? sketches[1] : (weir_sketch){0};
    sketches[1] = (weir_sketch){0};
  }
  served->window = window;
  weir_sketch_key *key = weir_sketch_add(&served->keys[kind][1], hash, amount);
  if (key != NULL) {
    key->log_keys = told->log_keys;
    snprintf(key->limiter, sizeof key->limiter, "%s", told->reply->of.name);
    weir_denial_line_show(is_tenant ? &of_tenant : told, WEIR_DENIAL_ON_PAGE, key->text);
    key->pool[0] = '\0';
    if (is_tenant) weir_denial_line_show(told, WEIR_DENIAL_ON_PAGE, key->pool);
  }
  pthread_mutex_unlock(&served->lock);
}

/* Logs a denial, and notes its key. */
static void note_denial(weir_served *served, const weir_reply *reply, weir_config_log_keys log_keys,
                        weir_served_protocol protocol, int64_t now_us) {
  static const char *const names[] = {"resp", "http", "grpc"};
  weir_reply told = *reply;
  weir_denial_line denial = {.protocol = names[protocol], .reply = &told, .log_keys = log_keys};
  if (told.of.name == NULL) told.of.name = WEIR_SERVED_THROTTLE;
  note_key(served, WEIR_SERVED_DENIED, &denial, 1, now_us);
  weir_denial_log_add(served->log, &denial, now_us,
                      served->registry->config->limits.logged_denials);
}

/* By its name, as an answer that has waited for a store may be of an older snapshot. NULL: no such limiter is
 * there any more, or no memory. */
static weir_served_row *row_of(const weir_served *served, const char *name, size_t hint) {
  if (served->table == NULL) return NULL;
  return find_row(served->registry, served->table, name, hint);
}

/* Whether it is a denial, which is noted further. */
static inline bool note_row(weir_served_row *row, const weir_reply *reply,
                            weir_served_protocol protocol) {
  const weir_decision *decision = reply->decision;
  if (row != NULL) {
    weir_serve_count(decision == NULL    ? &row->by[protocol].none
                     : decision->allowed ? &row->by[protocol].allowed[decision->source]
                                         : &row->by[protocol].denied[decision->source],
                     1);
    if (reply->is_shadowed) weir_serve_count(&row->shadow_denied, 1);
  }
  return decision != NULL && (!decision->allowed || reply->is_shadowed);
}

/* A settlement, which is no decision. */
static void note_settlement(weir_served *served, const weir_named *named, const weir_reply *reply,
                            int64_t now_us) {
  const weir_reply_settled *came = &reply->is.settled; /* of what is not settled it is zero */
  int64_t overrun = came->up + came->cut;
  weir_denial_line told = {.reply = reply, .log_keys = named->config->log_keys};
  weir_served_row *row = row_of(served, named->config->name, named->index);
  if (row != NULL) {
    weir_serve_count(&row->settled_up, (uint64_t)came->up);
    weir_serve_count(&row->settled_down, (uint64_t)came->down);
    weir_serve_count(&row->settled_cut, (uint64_t)came->cut);
  }
  if (overrun > 0) note_key(served, WEIR_SERVED_OVERRUN, &told, (uint64_t)overrun, now_us);
}

/* An answer that has waited for a store may be of an older snapshot: its class is not counted. */
static void note_class(weir_served *served, const weir_named *named, const weir_reply *reply) {
  const weir_registry *registry = served->registry;
  const weir_decision *decision = reply->decision;
  bool is_current = named->index < registry->named_count && named == &registry->named[named->index];
  if (!is_current || named->class_count == 0 || served->classes == NULL || decision == NULL) return;
  size_t at = weir_named_find_class(registry, named, reply->of.class_name);
  if (at == SIZE_MAX) return;
  weir_class_counts *counts = &served->classes->rows[at];
  weir_serve_count(decision->allowed ? &counts->allowed : &counts->denied, 1);
}

/* Shown as keys are. */
static void note_tenant(weir_served *served, const weir_named *named, const weir_reply *reply,
                        int64_t now_us) {
  const weir_decision *decision = reply->decision;
  if (reply->of.tenant == NULL || decision == NULL) return;
  weir_denial_line told = {.reply = reply, .log_keys = named->config->log_keys};
  bool is_denied = !decision->allowed || reply->is_shadowed;
  note_key(served, is_denied ? WEIR_SERVED_STOPPED : WEIR_SERVED_TENANTS, &told,
           is_denied ? 1 : (uint64_t)decision->cost, now_us);
}

void weir_served_note(weir_served *served, const weir_named *named, const weir_verb_row *verb,
                      const weir_reply *reply, weir_served_protocol protocol, int64_t now_us) {
  if (verb->flags & WEIR_VERB_SETTLES) note_settlement(served, named, reply, now_us);
  if (verb->flags & WEIR_VERB_SETS_LIMIT) {
    const weir_denial_line line = {.reply = reply, .log_keys = named->config->log_keys};
    weir_denial_log_add_limit(served->log, &line, now_us);
  }
  if (!(verb->flags & WEIR_VERB_DECIDES)) return;
  const weir_served_table *table = served->table;
  weir_served_row *row = named != NULL   ? row_of(served, named->config->name, named->index)
                         : table != NULL ? &served->table->rows[table->count - 1]
                                         : NULL;
  weir_config_log_keys log_keys =
      named != NULL ? named->config->log_keys : WEIR_CONFIG_LOG_KEYS_OFF;
  bool looks = (verb->flags & WEIR_VERB_LOOKS) != 0;
  if (named != NULL) note_class(served, named, reply);
  if (named != NULL && !looks) note_tenant(served, named, reply, now_us);
  if (note_row(row, reply, protocol) && !looks)
    note_denial(served, reply, log_keys, protocol, now_us);
}

void weir_served_note_group(weir_served *served, const weir_named_group *group,
                            const weir_verb_row *verb, const weir_group_reply *told,
                            weir_served_protocol protocol, int64_t now_us) {
  size_t hint = served->registry->named_count + group->index;
  note_row(row_of(served, group->name, hint), &told->whole, protocol);
  for (size_t i = 0; i < group->member_count; i++)
    if (told->counts[i])
      weir_served_note(served, group->members[i], verb, &told->members[i], protocol, now_us);
}

void weir_served_note_part(weir_served *served, const weir_served_part *part,
                           const weir_reply *reply, weir_served_protocol protocol, int64_t now_us) {
  const weir_decision *decision = reply->decision;
  size_t hint = first_domain(served->registry) + part->domain->index;
  bool is_denied = note_row(row_of(served, reply->of.name, hint), reply, protocol);
  bool is_near = part->is_near && !reply->is_shadowed;
  const weir_descriptors *descriptors = served->registry->descriptors;
  bool is_current = part->domain->index < descriptors->count &&
                    part->domain == &descriptors->domains[part->domain->index];
  weir_limit_outcome outcome = decision == NULL     ? WEIR_LIMIT_NONE
                               : reply->is_shadowed ? WEIR_LIMIT_SHADOW
                               : decision->allowed  ? WEIR_LIMIT_WITHIN
                                                    : WEIR_LIMIT_OVER;
  if (served->limits != NULL && is_current && part->limit != WEIR_SERVED_NO_LIMIT) {
    weir_limit_counts *row = &served->limits->rows[part->limit];
    weir_serve_count(&row->requests[outcome], 1);
    weir_serve_count(&row->hits[outcome], (uint64_t)part->hits);
    weir_serve_count(&row->near, is_near);
  }
  if (is_denied && part->hits > 0)
    note_denial(served, reply, WEIR_CONFIG_LOG_KEYS_OFF, protocol, now_us);
  if (part->detail == NULL) return;
  /* Other loops count there as well. */
  weir_limit_counts *counts = &part->detail->counts;
  atomic_fetch_add_explicit(&counts->requests[outcome], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&counts->hits[outcome], (uint64_t)part->hits, memory_order_relaxed);
  if (is_near) atomic_fetch_add_explicit(&counts->near, 1, memory_order_relaxed);
}

void weir_served_turn(weir_served *served, size_t requests, int64_t us) {
  size_t batch = 0;
  size_t wait = 0;
  while (batch + 1 < WEIR_SERVED_BATCHES && requests > (size_t)1 << batch)
    batch++;
  while (us > weir_wait_bound_us(wait))
    wait++;
  weir_serve_count(&served->counts.ticks, 1);
  weir_serve_count(&served->counts.tick_us, (uint64_t)us);
  weir_serve_count(&served->batches[batch], 1);
  weir_serve_count(&served->batched, requests);
  weir_serve_count(&served->waits[wait], 1);
}

/* --- of all loops -------------------------------------------------------------------------------
 */

uint64_t weir_served_total(const weir_served_all *all, size_t offset) {
  uint64_t sum = 0;
  for (unsigned i = 0; i <= all->count; i++) {
    const weir_served *one = i < all->count ? all->loops[i] : all->front;
    const _Atomic uint64_t *count = (const void *)((const char *)one + offset);
    sum += atomic_load_explicit(count, memory_order_relaxed);
  }
  return sum;
}

weir_served_table *weir_served_sum(const weir_served_all *all) {
  const weir_registry *registry = all->front->registry;
  weir_served_table *sum = make_table(registry);
  for (unsigned i = 0; sum != NULL && i < all->count; i++) {
    weir_served *served = all->loops[i];
    pthread_mutex_lock(&served->lock);
    add_table(registry, sum, served->table);
    pthread_mutex_unlock(&served->lock);
  }
  return sum;
}

weir_limit_counts *weir_served_sum_limits(const weir_served_all *all) {
  const weir_registry *registry = all->front->registry;
  size_t count = registry->descriptors->limits;
  weir_limit_counts *sum = calloc(count + 1, sizeof *sum);
  for (unsigned i = 0; sum != NULL && i < all->count; i++) {
    weir_served *served = all->loops[i];
    pthread_mutex_lock(&served->lock);
    bool is_same = served->limits != NULL && served->limits->registry == registry;
    for (size_t j = 0; is_same && j < count; j++) {
      const weir_limit_counts *from = &served->limits->rows[j];
      for (size_t k = 0; k < WEIR_LIMIT_OUTCOMES; k++) {
        weir_serve_count(&sum[j].requests[k], from->requests[k]);
        weir_serve_count(&sum[j].hits[k], from->hits[k]);
      }
      weir_serve_count(&sum[j].near, from->near);
    }
    pthread_mutex_unlock(&served->lock);
  }
  return sum;
}

weir_class_counts *weir_served_sum_classes(const weir_served_all *all) {
  const weir_registry *registry = all->front->registry;
  weir_class_counts *sum = calloc(registry->class_count + 1, sizeof *sum);
  for (unsigned i = 0; sum != NULL && i < all->count; i++) {
    weir_served *served = all->loops[i];
    pthread_mutex_lock(&served->lock);
    bool is_same = served->classes != NULL && served->classes->registry == registry;
    for (size_t j = 0; is_same && j < registry->class_count; j++) {
      weir_serve_count(&sum[j].allowed, served->classes->rows[j].allowed);
      weir_serve_count(&sum[j].denied, served->classes->rows[j].denied);
    }
    pthread_mutex_unlock(&served->lock);
  }
  return sum;
}

void weir_served_merge(const weir_served_all *all, weir_served_keys kind, int64_t now_us,
                       weir_sketch *merged) {
  int64_t window = now_us / (WEIR_SERVED_WINDOW_S * INT64_C(1000000));
  *merged = (weir_sketch){0};
  for (unsigned i = 0; i < all->count; i++) {
    weir_served *served = all->loops[i];
    pthread_mutex_lock(&served->lock);
    if (window <= served->window + 1) weir_sketch_merge(merged, &served->keys[kind][1]);
    if (window <= served->window) weir_sketch_merge(merged, &served->keys[kind][0]);
    pthread_mutex_unlock(&served->lock);
  }
  weir_sketch_sort(merged);
}
