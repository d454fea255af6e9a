#include "memcached/memcached.h"

#include <libmemcached/memcached.h>
#include <stdlib.h>

/* The whole of what is used of libmemcached: a ring, never a connection. */
struct weir_ring {
  memcached_st pool;
};

weir_status weir_ring_create(const weir_url_host *hosts, size_t count, uint16_t default_port,
                             weir_distribution distribution, weir_ring **ring,
                             weir_message *message) {
  weir_ring *made = calloc(1, sizeof *made);
  *ring = NULL;
  if (made == NULL || memcached_create(&made->pool) == NULL) {
    free(made);
    return WEIR_NO_MEMORY;
  }
  memcached_behavior_t behavior = MEMCACHED_BEHAVIOR_DISTRIBUTION;
  uint64_t value = MEMCACHED_DISTRIBUTION_MODULA;
  if (distribution != WEIR_MODULA) {
    bool weighted = distribution == WEIR_KETAMA_WEIGHTED;
    behavior = weighted ? MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED : MEMCACHED_BEHAVIOR_KETAMA;
    value = 1;
  }
  memcached_return_t result = memcached_behavior_set(&made->pool, behavior, value);
  size_t added = 0;
  while (memcached_success(result) && added < count) {
    const weir_url_host *host = &hosts[added++];
    uint16_t port = host->port == 0 ? default_port : host->port;
    result = memcached_server_add_with_weight(&made->pool, host->name, port, host->weight);
  }
  if (memcached_success(result)) {
    *ring = made;
    return WEIR_OK;
  }
  weir_message_set(message, "host \"%s\": %s", hosts[added == 0 ? 0 : added - 1].name,
                   memcached_strerror(&made->pool, result));
  weir_ring_destroy(made);
  return result == MEMCACHED_MEMORY_ALLOCATION_FAILURE ? WEIR_NO_MEMORY : WEIR_BAD_URL;
}

void weir_ring_destroy(weir_ring *ring) {
  if (ring == NULL) return;
  memcached_free(&ring->pool);
  free(ring);
}

size_t weir_ring_pick(const weir_ring *ring, const char *home, size_t length) {
  return memcached_generate_hash(&ring->pool, home, length);
}
