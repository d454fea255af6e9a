#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redis/nodes_internal.h"

enum { STAND_IN_US = 100000 };

static weir_redis_node *node_at(const weir_redis_nodes *nodes, unsigned number) {
  return atomic_load_explicit(&nodes->list[number], memory_order_acquire);
}

weir_redis_nodes *weir_redis_nodes_create(const weir_redis_nodes_plan *plan) {
  weir_redis_nodes *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  if (pthread_mutex_init(&made->lock, NULL) != 0) {
    free(made);
    return NULL;
  }
  if (pthread_cond_init(&made->read, NULL) != 0) {
    pthread_mutex_destroy(&made->lock);
    free(made);
    return NULL;
  }
  made->plan = *plan;
  made->process = getpid();
  return made;
}

void weir_redis_nodes_destroy(weir_redis_nodes *nodes) {
  if (nodes == NULL) return;
  bool own = nodes->process == getpid();
  if (own) pthread_mutex_lock(&nodes->lock);
  while (own && nodes->readers > 0)
    pthread_cond_wait(&nodes->read, &nodes->lock);
  if (own) pthread_mutex_unlock(&nodes->lock);
  for (unsigned i = 0; i < weir_redis_nodes_count(nodes); i++) {
    weir_redis_node *node = node_at(nodes, i);
    weir_wire_close(atomic_load(&node->wire));
    free(node);
  }
  if (own) pthread_cond_destroy(&nodes->read);
  if (own) pthread_mutex_destroy(&nodes->lock);
  free(nodes);
}

/* Under the lock. NULL: no room, no memory. */
static weir_redis_node *add(weir_redis_nodes *nodes, const char *host, size_t length,
                            uint16_t port) {
  size_t count = weir_redis_nodes_count(nodes);
  weir_redis_node *made = count < WEIR_REDIS_NODES_MOST ? calloc(1, sizeof *made) : NULL;
  if (made == NULL) return NULL;
  memcpy(made->host, host, length);
  made->port = port;
  made->login = *nodes->plan.login;
  made->login.nodes = nodes->plan.follows ? nodes : NULL;
  made->login.node = (unsigned)count;
  atomic_store_explicit(&nodes->list[count], made, memory_order_release);
  atomic_store_explicit(&nodes->count, count + 1, memory_order_release);
  return made;
}

weir_status weir_redis_nodes_seed(weir_redis_nodes *nodes, const weir_wire_place *place,
                                  weir_message *message) {
  const char *host = place->host != NULL ? place->host : "";
  size_t length = strlen(host);
  if (length > WEIR_REDIS_HOST_MOST) length = WEIR_REDIS_HOST_MOST;
  weir_redis_node *node = add(nodes, host, length, place->port);
  if (node == NULL) return WEIR_NO_MEMORY;
  weir_wire *wire;
  weir_status status =
      weir_wire_open(place, &weir_redis_protocol, &node->login, &nodes->plan.wire, &wire, message);
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

weir_wire *weir_redis_nodes_wire(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = node_at(nodes, number);
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_acquire);
  if (wire != NULL) return wire;
  weir_wire_options options = nodes->plan.wire;
  options.lookup_end_us = 0;
  const weir_wire_place place = {.host = node->host, .port = node->port, .tls = nodes->plan.tls};
  pthread_mutex_lock(&nodes->lock);
  wire = atomic_load_explicit(&node->wire, memory_order_relaxed);
  if (wire == NULL) {
    weir_wire_open(&place, &weir_redis_protocol, &node->login, &options, &wire, NULL);
    atomic_store_explicit(&node->wire, wire, memory_order_release);
  }
  pthread_mutex_unlock(&nodes->lock);
  return wire;
}

bool weir_redis_nodes_follows(const weir_redis_nodes *nodes) {
  return nodes->plan.follows;
}

bool weir_redis_nodes_is_cluster(const weir_redis_nodes *nodes) {
  return atomic_load_explicit(&nodes->cluster, memory_order_relaxed);
}

unsigned weir_redis_nodes_route(weir_redis_nodes *nodes, uint16_t slot) {
  int owner = weir_redis_slots_owner(&nodes->slots, slot);
  return owner >= 0 ? (unsigned)owner : atomic_load_explicit(&nodes->entry, memory_order_relaxed);
}

size_t weir_redis_nodes_slots(weir_redis_nodes *nodes, unsigned node) {
  return weir_redis_slots_count(&nodes->slots, node);
}

static bool is_at(const weir_redis_node *node, const char *host, size_t length, uint16_t port) {
  return node->port == port && length > 0 && strlen(node->host) == length &&
         memcmp(node->host, host, length) == 0;
}

int weir_redis_nodes_find(weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port) {
  int number = -1;
  pthread_mutex_lock(&nodes->lock);
  size_t count = weir_redis_nodes_count(nodes);
  for (unsigned i = 0; i < count && number < 0; i++)
    if (is_at(node_at(nodes, i), host, length, port)) number = (int)i;
  if (number < 0 && add(nodes, host, length, port) != NULL)
    number = (int)weir_redis_nodes_count(nodes) - 1;
  pthread_mutex_unlock(&nodes->lock);
  return number;
}

bool weir_redis_nodes_resolve(weir_redis_nodes *nodes, unsigned asked, const char **host,
                              size_t *length) {
  if (*length > 0) return true;
  *host = node_at(nodes, asked)->host;
  *length = strlen(*host);
  return *length > 0;
}

/* Who takes the place of a node that is away takes all its slots; where that is wrong, the next
 * MOVED says so. */
static void learn(weir_redis_nodes *nodes, const weir_redirect *moved, int node, bool elsewhere) {
  int before = weir_redis_slots_learn(&nodes->slots, moved->slot, (unsigned)node);
  if (elsewhere && before >= 0 && before != node)
    weir_redis_slots_inherit(&nodes->slots, (unsigned)before, (unsigned)node);
  atomic_store_explicit(&nodes->outdated, true, memory_order_relaxed);
}

int weir_redis_nodes_follow(weir_redis_nodes *nodes, unsigned asked, const weir_redirect *redirect,
                            bool elsewhere) {
  const char *host = redirect->host;
  size_t length = redirect->length;
  bool names = redirect->kind == WEIR_REDIRECT_MOVED || redirect->kind == WEIR_REDIRECT_ASK;
  atomic_store_explicit(&nodes->cluster, true, memory_order_relaxed);
  if (!names) return (int)asked;
  if (redirect->unknown || !weir_redis_nodes_resolve(nodes, asked, &host, &length)) return -1;
  int node = weir_redis_nodes_find(nodes, host, length, redirect->port);
  if (node >= 0 && redirect->kind == WEIR_REDIRECT_MOVED) learn(nodes, redirect, node, elsewhere);
  return node;
}

/* The next node that is not known to be away. */
static int next_present(weir_redis_nodes *nodes, unsigned away, size_t count) {
  for (unsigned i = 1; i < count; i++) {
    unsigned number = (unsigned)((away + i) % count);
    weir_wire *wire = atomic_load(&node_at(nodes, number)->wire);
    if (wire == NULL || !weir_wire_is_away(wire)) return (int)number;
  }
  return -1;
}

int weir_redis_nodes_stand_in(weir_redis_nodes *nodes, unsigned away, uint16_t slot,
                              int64_t now_us) {
  _Atomic int64_t *at_us = &node_at(nodes, away)->stand_in_at_us;
  int64_t due_us = atomic_load_explicit(at_us, memory_order_relaxed);
  if (weir_redis_slots_owner(&nodes->slots, slot) < 0) {
    int next = next_present(nodes, away, nodes->seeds);
    if (next >= 0) atomic_store_explicit(&nodes->entry, (unsigned)next, memory_order_relaxed);
    return next;
  }
  if (now_us < due_us || !atomic_compare_exchange_strong(at_us, &due_us, now_us + STAND_IN_US))
    return -1;
  return next_present(nodes, away, weir_redis_nodes_count(nodes));
}
