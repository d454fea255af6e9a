/* A stock with a limiter's settings, and a memo that a machine has filled. */
#ifndef WEIR_TESTS_MEMO_LEASE_WORLD_H
#define WEIR_TESTS_MEMO_LEASE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "memo/lease.h"

/* Every cell and every quota of the rules in these tests begins at START. */
#define START INT64_C(1000000000000)
#define MS 1000

typedef struct world {
  weir_stack stack;
  weir_settings settings;
  weir_lease lease;
  weir_stock *stock;
  weir_memo *memo;
  int64_t places[WEIR_RULES_MOST]; /* where a charge at START went */
} world;

/* Four processes, who deny locally for 100 ms at the most. */
void world_open(world *w, const char *rules);
void world_close(world *w);

/* A process then knows of a key to which `cost` was just charged, and nothing else. */
void world_remember_charge(world *w, int64_t now_us, int64_t cost);

void world_grant(world *w, int64_t stamp_us, int64_t cost);

#endif
