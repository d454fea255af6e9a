/* The 16,384 slots of a cluster: which one a home is in, and which node owns it as far as this
 * process has learnt. Any number of threads. */
#ifndef WEIR_REDIS_SLOTS_H
#define WEIR_REDIS_SLOTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/redirect.h"

/* CRC16 (XMODEM) of the home, modulo 16384. A home is what stands between the braces of a key,
 * which is what a node hashes; or the whole key where there are no braces. */
uint16_t weir_redis_slot(const char *home, size_t length);

/* Zero bytes are a table of which nothing is learnt. */
typedef struct weir_redis_slots {
  _Atomic uint16_t owners[WEIR_REDIS_SLOTS]; /* a node's number + 1; 0: nobody was named yet */
} weir_redis_slots;

/* The node's number, or -1. */
int weir_redis_slots_owner(weir_redis_slots *slots, uint16_t slot);

/* Returns the number of the node that owned it before, or -1. */
int weir_redis_slots_learn(weir_redis_slots *slots, uint16_t slot, unsigned node);

/* All that one owned is another's. */
void weir_redis_slots_inherit(weir_redis_slots *slots, unsigned dead, unsigned heir);

/* What one owned is nobody's. */
void weir_redis_slots_release(weir_redis_slots *slots, unsigned node);

/* Adds to owned[node] for each node that owns slots. */
void weir_redis_slots_count_all(weir_redis_slots *slots, size_t *owned);

/* How many slots a node owns. */
size_t weir_redis_slots_count(weir_redis_slots *slots, unsigned node);

#endif
