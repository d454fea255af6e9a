/* Tenants of shared windows: how each rule would have divided its limit, and beside that max-min fairness, a
 * fixed split, and first come first served.
 *
 * A rule runs on its own machine (driver.h), as one process that is asked for all tenants. The others are
 * counted here, by cells of the rule:
 *
 *     max-min      in each cell what was asked fills LIMIT / N, level by level, by weight. It knows of a cell all
 *                  that is asked there, and lends nothing from one cell to another
 *     fixed split  each tenant alone has its part of LIMIT by weight, in a window of N cells
 *     first come   all of a pool have LIMIT together, in the same window
 *
 * Those of others= share their weight: by max-min among all that ask in the cell, of a fixed split together. A
 * tenant that is neither named nor one of them weighs 1, and has no part in a fixed split. */
#ifndef WEIR_SIMULATE_TENANTS_H
#define WEIR_SIMULATE_TENANTS_H

#include "simulate/simulation.h"

enum { WEIR_TENANTS_MOST = 10000 }; /* of all pools */

/* How a limit is divided. */
typedef enum weir_way { WEIR_BY_RULE, WEIR_BY_SPLIT, WEIR_BY_ORDER, WEIR_WAYS } weir_way;

/* A tenant of one pool, whatever the rule. */
typedef struct weir_tenant {
  char *texts; /* pool and name */
  size_t pool_length, name_length;
  uint32_t pool; /* its number */
  uint64_t requests;
  int64_t asked; /* cost */
} weir_tenant;

static inline const char *weir_tenant_name(const weir_tenant *tenant) {
  return tenant->texts + tenant->pool_length;
}

typedef struct weir_way_sum {
  int64_t admitted;
  int64_t floor_denied; /* of what was asked within floors */
  int64_t admitted_in_cell,
      denied_in_cell; /* of the cell that is not over; denied: though what was left of the floor
                                              was enough */
} weir_way_sum;

/* What a tenant got under one rule. */
typedef struct weir_tenant_share {
  int64_t weight; /* 0: it is not named */
  int64_t floor;  /* of the cell that is not over */
  double fair;    /* by max-min */
  weir_way_sum ways[WEIR_WAYS];
  int64_t asked_in_cell;
  int64_t epoch;         /* the last one in which it asked, ... */
  bool was_seen;         /* ... and whether it did in the one before */
  int64_t cells, floors; /* in which it asked, and its floors of all those */
  weir_memo *memo;
  struct weir_cell_window *split;
} weir_tenant_share;

/* Its floor, the mean of the cells in which it asked. */
static inline int64_t weir_tenant_floor(const weir_tenant_share *share) {
  return share->cells > 0 ? share->floors / share->cells : 0;
}

/* One rule. */
typedef struct weir_division {
  const char *text;
  weir_driver driver;
  weir_tenant_share *shares; /* one for each tenant */
  size_t share_room;
  struct weir_pool_state *pools;
  size_t pool_room;
  int64_t most, most_us; /* admitted of one pool in any period, and when */
  double fair;
  int64_t floor_asked; /* within floors */
  int64_t admitted[WEIR_WAYS], floor_denied[WEIR_WAYS];
  double worst
      [WEIR_WAYS]; /* what the least lucky tenant got of its max-min, of those with more than a few; 1 where
                             there is none */
} weir_division;

typedef struct weir_tenants {
  size_t rule_count;
  weir_division divisions[WEIR_SIMULATION_RULES_MOST];
  weir_tenant *tenants;
  size_t count, room, pool_count;
  weir_hash_table by_name, pools;
  char *scratch;
  size_t scratch_room;
  uint64_t requests;
  int64_t first_us, now_us, cost, cost_most;
  uint64_t out_of_order; /* as of a simulation */
  int64_t furthest_us;
} weir_tenants;

/* Rules are texts of one shared-window each, and must stay. On error nothing is left behind. */
weir_status weir_tenants_init(weir_tenants *tenants, const char *const *rules, size_t rule_count,
                              const weir_limiter_options *options, weir_message *message);
void weir_tenants_clean_up(weir_tenants *tenants);

typedef struct weir_tenant_request {
  int64_t time_us;
  const char *pool, *name; /* both are not empty */
  size_t pool_length, name_length;
  int64_t cost;
} weir_tenant_request;

/* WEIR_NO_MEMORY; WEIR_BAD_ARGUMENT for one tenant too many. */
weir_status weir_tenants_request(weir_tenants *tenants, const weir_tenant_request *request,
                                 weir_message *message);

/* After the last. */
void weir_tenants_finish(weir_tenants *tenants);

/* Writes the numbers of the `most` tenants that asked for most, ties by pool and name; how many there are. */
size_t weir_tenants_top(const weir_tenants *tenants, size_t *top, size_t most);

#endif
