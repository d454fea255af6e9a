/* Who has which place of the table of nodes: adding and forgetting, under the lock. A cluster whose
 * nodes change their addresses names new ones for ever, so who is not needed must go. */
#include <stdlib.h>
#include <string.h>

#include "redis/nodes_internal.h"

/* Who was named so lately stays. */
enum { GRACE_US = 1000000 };

/* A place that was in use stays in the list, and so does its memory: threads may look at it any
 * time. NULL: no memory. */
static weir_redis_node *make_place(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->login = *nodes->plan.login;
  made->login.nodes = nodes->plan.follows ? nodes : NULL;
  made->login.node = number;
  atomic_store_explicit(&nodes->list[number], made, memory_order_release);
  return made;
}

/* The lowest that is free; -1: none. */
static int free_place(const weir_redis_nodes *nodes) {
  for (unsigned i = 0; i < WEIR_REDIS_NODES_MOST; i++) {
    const weir_redis_node *node = weir_redis_node_at(nodes, i);
    if (node == NULL || !atomic_load(&node->present)) return (int)i;
  }
  return -1;
}

/* False: its wire is held. A thread that wants to hold it from here on finds that the node has gone;
 * one that did so before is counted. */
static bool forget(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = weir_redis_node_at(nodes, number);
  weir_server_state state = {.size = sizeof state};
  atomic_store(&node->present, false);
  if (atomic_load(&node->holders) > 0) {
    atomic_store(&node->present, true);
    return false;
  }
  weir_wire *wire = atomic_exchange(&node->wire, NULL);
  if (wire != NULL) weir_wire_read_server(wire, &state);
  weir_wire_close(wire);
  node->outages += state.outages;
  node->shown = NULL;
  node->listed = false;
  weir_redis_slots_release(&nodes->slots, number);
  return true;
}

static void trim(weir_redis_nodes *nodes) {
  size_t count = weir_redis_nodes_count(nodes);
  while (count > nodes->seeds &&
         !atomic_load(&weir_redis_node_at(nodes, (unsigned)count - 1)->present))
    count--;
  atomic_store_explicit(&nodes->count, count, memory_order_release);
}

static bool may_go(const weir_redis_node *node, int64_t now_us) {
  return atomic_load(&node->present) && !node->listed && node->named_us + GRACE_US <= now_us;
}

void weir_redis_nodes_sweep(weir_redis_nodes *nodes) {
  size_t owned[WEIR_REDIS_NODES_MOST] = {0};
  int64_t now_us = weir_monotonic_us();
  weir_redis_slots_count_all(&nodes->slots, owned);
  for (unsigned i = (unsigned)nodes->seeds; i < weir_redis_nodes_count(nodes); i++)
    if (owned[i] == 0 && may_go(weir_redis_node_at(nodes, i), now_us)) forget(nodes, i);
  trim(nodes);
}

/* Of a full table, in which each owns something as redirections have it: who was named longest ago.
 * Its slots are asked of others again. */
static void make_room(weir_redis_nodes *nodes) {
  int64_t now_us = weir_monotonic_us();
  for (;;) {
    int oldest = -1;
    for (unsigned i = (unsigned)nodes->seeds; i < WEIR_REDIS_NODES_MOST; i++) {
      const weir_redis_node *node = weir_redis_node_at(nodes, i);
      bool held = atomic_load(&node->holders) > 0;
      if (held || !may_go(node, now_us)) continue;
      if (oldest < 0 || node->named_us < weir_redis_node_at(nodes, (unsigned)oldest)->named_us)
        oldest = (int)i;
    }
    if (oldest < 0 || forget(nodes, (unsigned)oldest)) return;
  }
}

int weir_redis_nodes_add(weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port) {
  weir_redis_nodes_sweep(nodes);
  int place = free_place(nodes);
  if (place < 0) {
    make_room(nodes);
    place = free_place(nodes);
  }
  if (place < 0) return WEIR_REDIS_FULL;
  weir_redis_node *node = weir_redis_node_at(nodes, (unsigned)place);
  if (node == NULL) node = make_place(nodes, (unsigned)place);
  if (node == NULL) return WEIR_REDIS_NOBODY;
  memcpy(node->host, host, length);
  node->host[length] = '\0';
  node->port = port;
  node->named_us = weir_monotonic_us();
  atomic_store(&node->stand_in_at_us, 0);
  atomic_store(&node->vouched, !nodes->plan.guarded);
  atomic_store(&node->present, true);
  if ((size_t)place >= weir_redis_nodes_count(nodes))
    atomic_store_explicit(&nodes->count, (size_t)place + 1, memory_order_release);
  return place;
}
