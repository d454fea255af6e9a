/* Counts by limiter, and the keys that are denied most. */
#include "serve/tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/denials.h"
#include "serve/log.h"
#include "serve/server.h"

/* --- tables ------------------------------------------------------------------------------------
 */

static void set_name(char name[WEIR_CONFIG_NAME_MOST + 1], const char *text) {
  snprintf(name, WEIR_CONFIG_NAME_MOST + 1, "%s", text);
}

void weir_tally_name_domain(const weir_domain *domain, char name[WEIR_CONFIG_NAME_MOST + 1]) {
  snprintf(name, WEIR_CONFIG_NAME_MOST + 1, "/%s", weir_domain_config(domain)->name);
}
_Static_assert((int)WEIR_CONFIG_DOMAIN_MOST < (int)WEIR_CONFIG_NAME_MOST, "room for the '/'");

static weir_tally_table *make_table(const weir_registry *registry) {
  const weir_descriptors *descriptors = weir_registry_descriptors(registry);
  size_t named = weir_registry_count(registry);
  size_t domains = weir_descriptors_count(descriptors);
  weir_tally_table *table =
      calloc(1, sizeof *table + (named + domains + 1) * sizeof table->rows[0]);
  if (table == NULL) return NULL;
  table->count = named + domains + 1;
  for (size_t i = 0; i < named; i++)
    set_name(table->rows[i].name, weir_named_config(weir_registry_at(registry, i))->name);
  for (size_t i = 0; i < domains; i++)
    weir_tally_name_domain(weir_descriptors_at(descriptors, i), table->rows[named + i].name);
  set_name(table->rows[named + domains].name, WEIR_TALLY_THROTTLE);
  return table;
}

/* All behind the name are counts. */
static void add_row(weir_tally_row *to, const weir_tally_row *from) {
  enum { FIRST = offsetof(weir_tally_row, by) };
  _Atomic uint64_t *counts = (_Atomic uint64_t *)(void *)((char *)to + FIRST);
  const _Atomic uint64_t *more =
      (const _Atomic uint64_t *)(const void *)((const char *)from + FIRST);
  for (size_t i = 0; i < (sizeof *to - FIRST) / sizeof *counts; i++)
    weir_serve_count(&counts[i], atomic_load_explicit(&more[i], memory_order_relaxed));
}
_Static_assert((sizeof(weir_tally_row) - offsetof(weir_tally_row, by)) % sizeof(uint64_t) == 0,
               "counts alone behind the name");

/* The row of the same name; of another snapshot it may stand in another place. */
static weir_tally_row *find_row(const weir_registry *registry, weir_tally_table *table,
                                const char *name, size_t hint) {
  if (strcmp(name, WEIR_TALLY_THROTTLE) == 0) return &table->rows[table->count - 1];
  if (hint < table->count && strcmp(table->rows[hint].name, name) == 0) return &table->rows[hint];
  if (name[0] == '/') {
    const weir_domain *domain =
        weir_descriptors_find(weir_registry_descriptors(registry), name + 1, strlen(name + 1));
    if (domain == NULL) return NULL;
    return &table->rows[weir_registry_count(registry) + weir_domain_index(domain)];
  }
  const weir_named *named = weir_registry_find(registry, name, strlen(name));
  return named != NULL ? &table->rows[weir_named_index(named)] : NULL;
}

static void add_table(const weir_registry *registry, weir_tally_table *to,
                      const weir_tally_table *from) {
  for (size_t i = 0; from != NULL && i < from->count; i++) {
    weir_tally_row *row = find_row(registry, to, from->rows[i].name, i);
    if (row != NULL) add_row(row, &from->rows[i]);
  }
}

static weir_tally_limits *make_limits(const weir_registry *registry) {
  size_t count = weir_descriptors_limits(weir_registry_descriptors(registry));
  weir_tally_limits *limits = calloc(1, sizeof *limits + count * sizeof limits->rows[0]);
  if (limits != NULL) limits->registry = registry;
  return limits;
}

/* --- life ------------------------------------------------------------------------------------- */

void weir_tally_init(weir_tally *tally, const weir_registry *registry) {
  pthread_mutex_init(&tally->lock, NULL);
  weir_tally_follow(tally, registry);
}

void weir_tally_free(weir_tally *tally) {
  free(tally->table);
  free(tally->limits);
  pthread_mutex_destroy(&tally->lock);
}

/* Whether the configuration still lets every key be shown as it stands there. */
static bool may_keep(const weir_registry *registry, const weir_sketch *sketch) {
  for (size_t i = 0; i < sketch->count; i++) {
    const weir_sketch_key *key = &sketch->entries[i].key;
    const weir_named *named = weir_registry_find(registry, key->limiter, strlen(key->limiter));
    if (named == NULL || weir_named_config(named)->log_keys != key->manner) return false;
  }
  return true;
}

void weir_tally_follow(weir_tally *tally, const weir_registry *registry) {
  weir_tally_table *old = tally->table;
  weir_tally_table *table = make_table(registry);
  weir_tally_limits *old_limits = tally->limits;
  weir_tally_limits *limits = make_limits(registry);
  if (table != NULL) add_table(registry, table, old);
  if (table == NULL || limits == NULL)
    weir_serve_log("there is not enough memory to count by limiter");
  pthread_mutex_lock(&tally->lock);
  tally->table = table;
  tally->limits = limits;
  for (size_t i = 0; i < 2; i++)
    if (!may_keep(registry, &tally->denied[i])) tally->denied[i] = (weir_sketch){0};
  pthread_mutex_unlock(&tally->lock);
  free(old);
  free(old_limits);
}

/* --- adding ------------------------------------------------------------------------------------
 */

static void note_denied_key(weir_tally *tally, const weir_denial_line *denial, int64_t now_us) {
  int64_t window = now_us / (WEIR_TALLY_WINDOW_S * INT64_C(1000000));
  pthread_mutex_lock(&tally->lock);
  if (window != tally->window) {
    tally->denied[0] = window == tally->window + 1 ? tally->denied[1] : (weir_sketch){0};
    tally->denied[1] = (weir_sketch){0};
    tally->window = window;
  }
  weir_sketch_key *key = weir_sketch_add(&tally->denied[1], denial->hash);
  if (key != NULL) {
    key->manner = denial->manner;
    set_name(key->limiter, denial->reply->name);
    weir_denial_line_show(denial, WEIR_DENIAL_ON_PAGE, key->text);
  }
  pthread_mutex_unlock(&tally->lock);
}

static void note_denial(weir_loop *loop, const weir_reply *reply, weir_config_log_keys manner,
                        weir_tally_protocol protocol) {
  static const char *const names[] = {"resp", "http", "grpc"};
  weir_denial_log *denials = &loop->server->denials;
  weir_reply named = *reply;
  weir_denial_line denial = {.protocol = names[protocol], .reply = &named, .manner = manner};
  if (named.name == NULL) named.name = WEIR_TALLY_THROTTLE;
  if (denial.manner != WEIR_CONFIG_LOG_KEYS_OFF) {
    denial.hash = weir_denial_log_hash(denials, &named);
    note_denied_key(&loop->tally, &denial, loop->tick.now_us);
  }
  weir_denial_log_add(denials, &denial, loop->tick.now_us, weir_loop_limits(loop)->logged_denials);
}

static void note(weir_loop *loop, size_t index, const weir_reply *reply,
                 weir_tally_protocol protocol) {
  weir_tally_table *table = loop->tally.table;
  const weir_decision *decision = reply->decision;
  if (table == NULL) return;
  weir_tally_row *row = &table->rows[index];
  weir_serve_count(decision == NULL    ? &row->by[protocol].none
                   : decision->allowed ? &row->by[protocol].allowed[decision->source]
                                       : &row->by[protocol].denied[decision->source],
                   1);
  if (reply->is_shadowed) weir_serve_count(&row->shadow_denied, 1);
}

static bool is_denied(const weir_reply *reply) {
  return reply->decision != NULL && (!reply->decision->allowed || reply->is_shadowed);
}

void weir_tally_note(weir_loop *loop, const weir_slot *slot, const weir_reply *reply,
                     weir_tally_protocol protocol) {
  const weir_registry *registry = loop->tick.registry;
  if (slot->ask.verb == WEIR_ASK_RESET) return;
  size_t throttle =
      weir_registry_count(registry) + weir_descriptors_count(weir_registry_descriptors(registry));
  note(loop, slot->named != NULL ? weir_named_index(slot->named) : throttle, reply, protocol);
  weir_config_log_keys manner =
      slot->named != NULL ? weir_named_config(slot->named)->log_keys : WEIR_CONFIG_LOG_KEYS_OFF;
  if (is_denied(reply) && slot->ask.verb == WEIR_ASK_TAKE)
    note_denial(loop, reply, manner, protocol);
}

static void note_limit(weir_tally_limit *row, const weir_reply *reply, bool is_near) {
  if (is_near && !reply->is_shadowed) weir_serve_count(&row->near, 1);
  weir_serve_count(reply->decision == NULL    ? &row->none
                   : reply->is_shadowed       ? &row->shadow
                   : reply->decision->allowed ? &row->within
                                              : &row->over,
                   1);
}

void weir_tally_note_domain(weir_loop *loop, const weir_domain *domain, uint32_t limit,
                            const weir_reply *reply, bool is_peek, bool is_near,
                            weir_tally_protocol protocol) {
  size_t index = weir_registry_count(loop->tick.registry) + weir_domain_index(domain);
  note(loop, index, reply, protocol);
  if (loop->tally.limits != NULL && limit != WEIR_TALLY_NO_LIMIT)
    note_limit(&loop->tally.limits->rows[limit], reply, is_near);
  if (is_denied(reply) && !is_peek) note_denial(loop, reply, WEIR_CONFIG_LOG_KEYS_OFF, protocol);
}

/* Other loops count there as well. */
void weir_tally_note_detail(weir_detail *detail, const weir_reply *reply, bool is_near) {
  _Atomic uint64_t *column = reply->decision == NULL    ? &detail->none
                             : reply->is_shadowed       ? &detail->shadow
                             : reply->decision->allowed ? &detail->within
                                                        : &detail->over;
  atomic_fetch_add_explicit(column, 1, memory_order_relaxed);
  if (is_near && !reply->is_shadowed)
    atomic_fetch_add_explicit(&detail->near, 1, memory_order_relaxed);
}

void weir_tally_tick(weir_tally *tally, size_t requests, int64_t us) {
  size_t batch = 0;
  size_t wait = 0;
  while (batch + 1 < WEIR_TALLY_BATCHES && requests > (size_t)1 << batch)
    batch++;
  while (us > weir_wait_bound_us(wait))
    wait++;
  weir_serve_count(&tally->batches[batch], 1);
  weir_serve_count(&tally->batched, requests);
  weir_serve_count(&tally->waits[wait], 1);
}

/* --- reading ----------------------------------------------------------------------------------
 */

weir_tally_table *weir_tally_sum(const weir_server *server) {
  const weir_registry *registry = server->front.tick.registry;
  weir_tally_table *sum = make_table(registry);
  for (unsigned i = 0; sum != NULL && i < server->loop_count; i++) {
    weir_tally *tally = &server->loops[i].tally;
    pthread_mutex_lock(&tally->lock);
    add_table(registry, sum, tally->table);
    pthread_mutex_unlock(&tally->lock);
  }
  return sum;
}

static void add_limit(weir_tally_limit *to, const weir_tally_limit *from) {
  weir_serve_count(&to->within, from->within);
  weir_serve_count(&to->over, from->over);
  weir_serve_count(&to->shadow, from->shadow);
  weir_serve_count(&to->none, from->none);
  weir_serve_count(&to->near, from->near);
}

weir_tally_limit *weir_tally_sum_limits(const weir_server *server) {
  const weir_registry *registry = server->front.tick.registry;
  size_t count = weir_descriptors_limits(weir_registry_descriptors(registry));
  weir_tally_limit *sum = calloc(count + 1, sizeof *sum);
  for (unsigned i = 0; sum != NULL && i < server->loop_count; i++) {
    weir_tally *tally = &server->loops[i].tally;
    pthread_mutex_lock(&tally->lock);
    if (tally->limits != NULL && tally->limits->registry == registry)
      for (size_t j = 0; j < count; j++)
        add_limit(&sum[j], &tally->limits->rows[j]);
    pthread_mutex_unlock(&tally->lock);
  }
  return sum;
}

void weir_tally_denied(const weir_server *server, weir_sketch *merged) {
  int64_t window = weir_serve_now_us() / (WEIR_TALLY_WINDOW_S * INT64_C(1000000));
  *merged = (weir_sketch){0};
  for (unsigned i = 0; i < server->loop_count; i++) {
    weir_tally *tally = &server->loops[i].tally;
    pthread_mutex_lock(&tally->lock);
    if (window <= tally->window + 1) weir_sketch_merge(merged, &tally->denied[1]);
    if (window <= tally->window) weir_sketch_merge(merged, &tally->denied[0]);
    pthread_mutex_unlock(&tally->lock);
  }
  weir_sketch_sort(merged);
}
