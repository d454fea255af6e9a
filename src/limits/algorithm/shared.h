/* The arithmetic of a shared window, at the head of shared.c: what may be lent at a moment, and up to where
 * a tenant above its floor is let go.
 *
 * Time is cut into N + 1 cells that count, k - N to k, of the width S = ceil(W/N), and the one ahead. In each
 * the floors of all tenants come to Cf at the most, F is what was charged within them and B what was lent.
 * A cell is final once it was read after its end + x: then no floor of it can be on its way any more.
 *
 *     v(c) = B(c) + (final ? F(c) : Cf)       of a cell before k
 *     for all j = 0..N:  v(k-N+j) + ... + v(k-1)  +  B(k) + Cf  +  (j > 0 ? B(k+1) + j Cf : 0)  <=  L
 *
 * Cf stands for what floors have taken in a cell and may still take. j says how many cells later the window
 * ends that is looked at: the floors of those cells must fit in it as well.
 */
#ifndef WEIR_ALGORITHM_SHARED_H
#define WEIR_ALGORITHM_SHARED_H

#include "algorithm/algorithm.h"

/* A cell of a pool as it was read. */
typedef struct weir_pool_cell {
  int64_t floors;  /* F, of tenants that are named, ... */
  int64_t others;  /* ... and of those that are not */
  int64_t lent;    /* B */
  int64_t read_us; /* `now` of the round that read them; below 0: not all of them were read */
} weir_pool_cell;

/* What a process keeps of one tenant of a pool. */
typedef struct weir_shared_memory {
  int64_t first;      /* which cell cells[0] is */
  int64_t own_cell;   /* the cell in which ... */
  int64_t own;        /* ... so much was charged for this tenant */
  int64_t level_cell; /* the cell of which ... */
  int64_t level;      /* ... this is the level */
  int64_t told_cell;  /* the last cell of which it was told that the level stops this tenant */

  /* Of a tenant that is not named. An epoch is WEIR_EPOCH_CELLS cells long. */
  int64_t epoch;      /* in which ... */
  bool marked;        /* ... it is known to be seen, ... */
  bool asked;         /* ... and of which it is known whether ... */
  bool was_seen;      /* ... it was in the one before; */
  int64_t seen_epoch; /* and the epoch of which is known ... */
  int64_t seen;       /* ... how many were seen in the one before */

  /* A period is N cells long. */
  int64_t period;   /* in which ... */
  int64_t division; /* ... floors are divided so; 0: that is not known */
  int64_t disputed; /* the last one that is known to have processes which divide otherwise */
  weir_pool_cell cells[];
} weir_shared_memory;

/* Levels are per weight of 1, in parts of a cost; and weights are in parts as well, as many who are not named
 * have one weight together. */
enum { WEIR_LEVEL_PARTS = 1024, WEIR_WEIGHT_PARTS = 1024 };

enum { WEIR_EPOCH_CELLS = 4 };

/* Of a cell that is over, what its level's successor is found by. */
typedef struct weir_level_before {
  int64_t level;   /* 0: it has none */
  int64_t used;    /* floors and B */
  int64_t missed;  /* what was asked below the level in vain */
  int64_t stopped; /* the weights of the tenants that the level stopped, in parts */
} weir_level_before;

/* What may still be lent at a moment in cells[N], the current one, where `room` is left for the floors of each cell,
 * in parts. Below 0: so much too much is there. */
int64_t weir_pool_lendable(const weir_rule *rule, const weir_pool_cell *cells, int64_t first,
                           int64_t final_us, int64_t room);

/* How the next period is divided, by a process that would divide it so by itself. 0: nothing was said of the one
 * before. */
int64_t weir_division_next(int64_t before, int64_t own);

/* The level of the next cell. */
int64_t weir_level_next(const weir_rule *rule, const weir_level_before *before);

/* The largest own count in a cell, for a tenant of this weight in parts, that is above no level. */
int64_t weir_level_most(int64_t level, int64_t weight);

/* The floor of one of so many tenants that are not named and were seen before; of none: of one who comes. */
int64_t weir_other_floor(const weir_rule *rule, int64_t seen);

/* Of what was charged within a tenant's floor something goes back. operations[0] says how much of which cell, and
 * becomes two of them: for the tenant's own count, and the pool's. */
enum { WEIR_SHARED_RETURN = 2 };
void weir_shared_return(int64_t tenant_number, bool is_named,
                        weir_operation operations[WEIR_SHARED_RETURN]);

/* Which part of a tenant's floor is this process's own, `share` of `whole`; `phase`, below that, is its own too. */
typedef struct weir_floor_part {
  int64_t share, phase, whole;
} weir_floor_part;

/* What of the floor a process may admit in the cell of this moment without its store: by what its memory has of the
 * tenant, which need not be much. */
int64_t weir_floor_away(const weir_rule *rule, const weir_ask *ask, const void *memory,
                        int64_t now_us, const weir_floor_part *part);

#endif
