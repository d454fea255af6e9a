#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "redis/nodes_internal.h"

/* Names that were told stay told; whose name is one more has none. */
enum { STAND_IN_US = 100000, NAMES_MOST = 4096 };

/* What reads the map is waited for by the clock of deadlines. */
static bool make_condition(pthread_cond_t *made) {
  pthread_condattr_t monotonic;
  if (pthread_condattr_init(&monotonic) != 0) return false;
  bool done = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(made, &monotonic) == 0;
  pthread_condattr_destroy(&monotonic);
  return done;
}

weir_redis_nodes *weir_redis_nodes_create(const weir_redis_nodes_plan *plan) {
  weir_redis_nodes *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  if (pthread_mutex_init(&made->lock, NULL) != 0) {
    free(made);
    return NULL;
  }
  if (!make_condition(&made->read)) {
    pthread_mutex_destroy(&made->lock);
    free(made);
    return NULL;
  }
  made->plan = *plan;
  made->process = getpid();
  return made;
}

static void free_names(weir_redis_shown *name) {
  while (name != NULL) {
    weir_redis_shown *next = name->next;
    free(name);
    name = next;
  }
}

void weir_redis_nodes_destroy(weir_redis_nodes *nodes) {
  if (nodes == NULL) return;
  bool own = nodes->process == getpid();
  if (own) pthread_mutex_lock(&nodes->lock);
  while (own && nodes->reading)
    pthread_cond_wait(&nodes->read, &nodes->lock);
  if (own) pthread_mutex_unlock(&nodes->lock);
  for (unsigned i = 0; i < WEIR_REDIS_NODES_MOST; i++) {
    weir_redis_node *node = weir_redis_node_at(nodes, i);
    if (node != NULL) weir_wire_close(atomic_load(&node->wire));
    free(node);
  }
  free_names(nodes->names);
  if (own) pthread_cond_destroy(&nodes->read);
  if (own) pthread_mutex_destroy(&nodes->lock);
  free(nodes);
}

weir_status weir_redis_nodes_seed(weir_redis_nodes *nodes, const weir_wire_place *place,
                                  weir_message *message) {
  const char *host = place->host != NULL ? place->host : "";
  size_t length = strlen(host);
  if (length > WEIR_REDIS_HOST_MOST) length = WEIR_REDIS_HOST_MOST;
  int number = weir_redis_nodes_add(nodes, host, length, place->port);
  if (number < 0) return WEIR_NO_MEMORY;
  weir_redis_node *node = weir_redis_node_at(nodes, (unsigned)number);
  weir_wire *wire;
  weir_status status =
      weir_wire_open(place, &weir_redis_protocol, &node->login, &nodes->plan.wire, &wire, message);
  atomic_store(&node->vouched, true);
  atomic_store(&node->wire, wire);
  if (status == WEIR_OK) nodes->seeds++;
  return status;
}

size_t weir_redis_nodes_seeds(const weir_redis_nodes *nodes) {
  return nodes->seeds;
}

size_t weir_redis_nodes_count(const weir_redis_nodes *nodes) {
  return atomic_load_explicit(&nodes->count, memory_order_acquire);
}

/* --- their wires -------------------------------------------------------------------------------
 */

/* A host of the URL stays; any other may be forgotten, unless it is held. */
static weir_redis_node *hold(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = weir_redis_node_at(nodes, number);
  if (number < nodes->seeds || node == NULL) return node;
  atomic_fetch_add(&node->holders, 1);
  if (atomic_load(&node->present) && atomic_load(&node->vouched)) return node;
  atomic_fetch_sub(&node->holders, 1);
  return NULL;
}

void weir_redis_nodes_release(weir_redis_nodes *nodes, unsigned number) {
  if (number >= nodes->seeds) atomic_fetch_sub(&weir_redis_node_at(nodes, number)->holders, 1);
}

static weir_wire *open_wire(weir_redis_nodes *nodes, weir_redis_node *node) {
  weir_wire_options options = nodes->plan.wire;
  options.lookup_end_us = 0;
  options.named_by_others = true;
  const weir_wire_place place = {.host = node->host, .port = node->port, .tls = nodes->plan.tls};
  pthread_mutex_lock(&nodes->lock);
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_relaxed);
  if (wire == NULL) {
    weir_wire_open(&place, &weir_redis_protocol, &node->login, &options, &wire, NULL);
    atomic_store_explicit(&node->wire, wire, memory_order_release);
  }
  pthread_mutex_unlock(&nodes->lock);
  return wire;
}

weir_wire *weir_redis_nodes_hold(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = hold(nodes, number);
  if (node == NULL) return NULL;
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_acquire);
  if (wire == NULL) wire = open_wire(nodes, node);
  if (wire == NULL) weir_redis_nodes_release(nodes, number);
  return wire;
}

weir_wire *weir_redis_nodes_hold_open(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = hold(nodes, number);
  if (node == NULL) return NULL;
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_acquire);
  if (wire == NULL) weir_redis_nodes_release(nodes, number);
  return wire;
}

bool weir_redis_nodes_is_stranger(const weir_redis_nodes *nodes, unsigned number) {
  const weir_redis_node *node = weir_redis_node_at(nodes, number);
  return atomic_load(&node->present) && !atomic_load(&node->vouched);
}

bool weir_redis_nodes_is_usable(weir_redis_nodes *nodes, unsigned number) {
  const weir_redis_node *node = hold(nodes, number);
  if (node == NULL) return false;
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_acquire);
  bool usable = wire == NULL || !weir_wire_is_away(wire);
  weir_redis_nodes_release(nodes, number);
  return usable;
}

/* --- their names -------------------------------------------------------------------------------
 */

/* Under the lock. */
static void write_name(const weir_redis_node *node, char name[WEIR_REDIS_NAME_BYTES]) {
  bool v6 = strchr(node->host, ':') != NULL;
  snprintf(name, WEIR_REDIS_NAME_BYTES, v6 ? "[%s]:%u" : "%s:%u", node->host, (unsigned)node->port);
}

void weir_redis_nodes_show(weir_redis_nodes *nodes, unsigned number,
                           char name[WEIR_REDIS_NAME_BYTES]) {
  pthread_mutex_lock(&nodes->lock);
  write_name(weir_redis_node_at(nodes, number), name);
  pthread_mutex_unlock(&nodes->lock);
}

/* Under the lock. */
static const char *keep_name(weir_redis_nodes *nodes, const char *name) {
  size_t size = strlen(name) + 1;
  for (const weir_redis_shown *each = nodes->names; each != NULL; each = each->next)
    if (strcmp(each->text, name) == 0) return each->text;
  weir_redis_shown *made = nodes->name_count < NAMES_MOST ? malloc(sizeof *made + size) : NULL;
  if (made == NULL) return NULL;
  memcpy(made->text, name, size);
  made->next = nodes->names;
  nodes->names = made;
  nodes->name_count++;
  return made->text;
}

const char *weir_redis_nodes_name(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = weir_redis_node_at(nodes, number);
  char name[WEIR_REDIS_NAME_BYTES];
  if (number < nodes->seeds) return weir_wire_name(atomic_load(&node->wire));
  pthread_mutex_lock(&nodes->lock);
  const char *shown = NULL;
  if (node != NULL && atomic_load(&node->present)) {
    write_name(node, name);
    if (node->shown == NULL) node->shown = keep_name(nodes, name);
    shown = node->shown;
  }
  pthread_mutex_unlock(&nodes->lock);
  return shown;
}

uint64_t weir_redis_nodes_outages(weir_redis_nodes *nodes, unsigned number) {
  const weir_redis_node *node = weir_redis_node_at(nodes, number);
  if (node == NULL) return 0;
  pthread_mutex_lock(&nodes->lock);
  uint64_t outages = node->outages;
  pthread_mutex_unlock(&nodes->lock);
  return outages;
}

/* --- who owns what -----------------------------------------------------------------------------
 */

bool weir_redis_nodes_follows(const weir_redis_nodes *nodes) {
  return nodes->plan.follows;
}

bool weir_redis_nodes_is_guarded(const weir_redis_nodes *nodes) {
  return nodes->plan.guarded;
}

bool weir_redis_nodes_is_cluster(const weir_redis_nodes *nodes) {
  return atomic_load_explicit(&nodes->cluster, memory_order_relaxed);
}

/* The table of slots may lag behind who has a number. */
static bool may_be_asked(const weir_redis_nodes *nodes, unsigned number) {
  if (number < nodes->seeds) return true;
  const weir_redis_node *node = weir_redis_node_at(nodes, number);
  return atomic_load_explicit(&node->present, memory_order_relaxed) &&
         atomic_load_explicit(&node->vouched, memory_order_relaxed);
}

unsigned weir_redis_nodes_route(weir_redis_nodes *nodes, uint16_t slot) {
  int owner = weir_redis_slots_owner(&nodes->slots, slot);
  if (owner >= 0 && may_be_asked(nodes, (unsigned)owner)) return (unsigned)owner;
  unsigned entry = atomic_load_explicit(&nodes->entry, memory_order_relaxed);
  return may_be_asked(nodes, entry) ? entry : 0;
}

size_t weir_redis_nodes_slots(weir_redis_nodes *nodes, unsigned node) {
  return weir_redis_slots_count(&nodes->slots, node);
}

/* Under the lock. */
static int look_up(const weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port) {
  size_t count = weir_redis_nodes_count(nodes);
  for (unsigned i = 0; i < count; i++) {
    const weir_redis_node *node = weir_redis_node_at(nodes, i);
    if (atomic_load(&node->present) && node->port == port && length > 0 &&
        strlen(node->host) == length && memcmp(node->host, host, length) == 0)
      return (int)i;
  }
  return WEIR_REDIS_NOBODY;
}

int weir_redis_nodes_find(weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port,
                          weir_redis_source source) {
  pthread_mutex_lock(&nodes->lock);
  int number = look_up(nodes, host, length, port);
  if (number < 0 && source != WEIR_REDIS_MAP_OTHER)
    number = weir_redis_nodes_add(nodes, host, length, port);
  if (number >= 0) {
    weir_redis_node *node = weir_redis_node_at(nodes, (unsigned)number);
    node->named_us = weir_monotonic_us();
    if (source != WEIR_REDIS_REDIRECTION) atomic_store(&node->vouched, true);
  }
  pthread_mutex_unlock(&nodes->lock);
  return number;
}

bool weir_redis_nodes_resolve(weir_redis_nodes *nodes, unsigned asked, const char **host,
                              size_t *length) {
  if (*length > 0) return true;
  *host = weir_redis_node_at(nodes, asked)->host;
  *length = strlen(*host);
  return *length > 0;
}

/* Who takes the place of a node that is away takes all its slots; where that is wrong, the next
 * MOVED says so. */
static void learn(weir_redis_nodes *nodes, const weir_redirect *moved, int node, bool elsewhere) {
  int before = weir_redis_slots_learn(&nodes->slots, moved->slot, (unsigned)node);
  if (elsewhere && before >= 0 && before != node)
    weir_redis_slots_inherit(&nodes->slots, (unsigned)before, (unsigned)node);
}

int weir_redis_nodes_follow(weir_redis_nodes *nodes, unsigned asked, const weir_redirect *redirect,
                            bool elsewhere) {
  const char *host = redirect->host;
  size_t length = redirect->length;
  bool names = redirect->kind == WEIR_REDIRECT_MOVED || redirect->kind == WEIR_REDIRECT_ASK;
  bool moved = redirect->kind == WEIR_REDIRECT_MOVED;
  atomic_store_explicit(&nodes->cluster, true, memory_order_relaxed);
  if (!names) return (int)asked;
  if (redirect->unknown || !weir_redis_nodes_resolve(nodes, asked, &host, &length))
    return WEIR_REDIS_NOBODY;
  int node = weir_redis_nodes_find(nodes, host, length, redirect->port, WEIR_REDIS_REDIRECTION);
  atomic_store_explicit(&nodes->told_by, asked, memory_order_relaxed);
  if (moved) atomic_store_explicit(&nodes->outdated, true, memory_order_relaxed);
  if (node >= 0 && moved && !weir_redis_nodes_is_stranger(nodes, (unsigned)node))
    learn(nodes, redirect, node, elsewhere);
  return node;
}

/* The next of `count` that is not known to be away, after so many of these. */
static int next_usable(weir_redis_nodes *nodes, unsigned away, size_t count, unsigned passed) {
  for (unsigned i = 0; i + 1 < count; i++) {
    unsigned number = (unsigned)((away + 1 + (i + passed) % (count - 1)) % count);
    if (weir_redis_nodes_is_usable(nodes, number)) return (int)number;
  }
  return WEIR_REDIS_NOBODY;
}

static int next_entry(weir_redis_nodes *nodes, unsigned away) {
  int next = WEIR_REDIS_NOBODY;
  if (away < nodes->seeds) next = next_usable(nodes, away, nodes->seeds, 0);
  if (next < 0) next = next_usable(nodes, away, weir_redis_nodes_count(nodes), 0);
  if (next >= 0) atomic_store_explicit(&nodes->entry, (unsigned)next, memory_order_relaxed);
  return next;
}

int weir_redis_nodes_stand_in(weir_redis_nodes *nodes, unsigned away, uint16_t slot,
                              int64_t now_us) {
  weir_redis_node *node = weir_redis_node_at(nodes, away);
  int64_t due_us = atomic_load_explicit(&node->stand_in_at_us, memory_order_relaxed);
  if (weir_redis_slots_owner(&nodes->slots, slot) < 0) return next_entry(nodes, away);
  if (now_us < due_us ||
      !atomic_compare_exchange_strong(&node->stand_in_at_us, &due_us, now_us + STAND_IN_US))
    return WEIR_REDIS_NOBODY;
  size_t count = weir_redis_nodes_count(nodes);
  unsigned passed = atomic_fetch_add(&node->turn, 1);
  return away < count ? next_usable(nodes, away, count, passed) : WEIR_REDIS_NOBODY;
}

void weir_redis_nodes_list(weir_redis_nodes *nodes, const weir_redis_listing *listing) {
  pthread_mutex_lock(&nodes->lock);
  for (unsigned i = 0; i < weir_redis_nodes_count(nodes); i++) {
    weir_redis_node *node = weir_redis_node_at(nodes, i);
    node->listed = listing->owners[i] || listing->others[i];
    if (!listing->owners[i] && node->named_us < listing->asked_us)
      weir_redis_slots_release(&nodes->slots, i);
  }
  weir_redis_nodes_sweep(nodes);
  pthread_mutex_unlock(&nodes->lock);
}
