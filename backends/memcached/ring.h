/* Which server a key lives on, as libmemcached and every other client of the pool decide it. */
#ifndef WEIR_MEMCACHED_RING_H
#define WEIR_MEMCACHED_RING_H

#include <weir/backend.h>

typedef enum weir_distribution { WEIR_KETAMA_WEIGHTED, WEIR_KETAMA, WEIR_MODULA } weir_distribution;

typedef struct weir_ring weir_ring;

/* Host names count as spelled: another spelling is another ring. */
weir_status weir_ring_create(const weir_url_host *hosts, size_t count, uint16_t default_port,
                             weir_distribution distribution, weir_ring **ring,
                             weir_message *message);
void weir_ring_destroy(weir_ring *ring);

/* Index of the host. Any thread: nothing is written. */
size_t weir_ring_pick(const weir_ring *ring, const char *home, size_t length);

#endif
