/* The table of what the server holds for its clients under rules that are held: by name, by key, by
 * limiter, by client and by when its time ends. It asks no store; the keeper guards it by its lock.
 *
 *     add: it has a name ──> enter: it is held ──> take out: it has left ──┬──> drop: it is forgotten
 *            └──────────────────── it was denied ──────────────────────────┘
 *
 * A key stays as long as it has places in any of these states, and a limiter as long as it has keys: a
 * reload that changes or removes a limiter leaves its places as they are. */
#ifndef WEIR_KEEP_PLACES_H
#define WEIR_KEEP_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/order.h"
#include "registry/registry.h"
#include "table.h"

/* Places by when their time ends: a heap, the first of which ends first. Each knows where it stands, so
 * that any of them may go. */

typedef struct weir_end {
  int64_t until_us; /* weir_monotonic_us() */
  size_t at;        /* the heap's own */
} weir_end;

typedef struct weir_ends {
  weir_end **heap;
  size_t count, room;
} weir_ends;

/* Room for so many in all. False: no memory. */
bool weir_ends_fit(weir_ends *ends, size_t count);
void weir_ends_add(weir_ends *ends, weir_end *end); /* room has been made */
void weir_ends_remove(weir_ends *ends, weir_end *end);

/* The first; INT64_MAX: there is none. */
static inline int64_t weir_ends_next_us(const weir_ends *ends) {
  return ends->count > 0 ? ends->heap[0]->until_us : INT64_MAX;
}

typedef struct weir_kept weir_kept;

enum { WEIR_KEPT_CLIENT_BYTES = 112 }; /* of who holds it, as text */

/* A client whose end releases what it holds. The keeper's lock guards it. */
typedef struct weir_holder {
  weir_kept *first;
  size_t count;
} weir_holder;

/* A counted key of a limiter, and what is held there. */
typedef struct weir_kept_key {
  const weir_limiter *limiter;
  size_t limiter_at;       /* in table->limiters */
  weir_kept *first, *last; /* the last is the oldest */
  size_t count;            /* of places that are held */
  int64_t cost;            /* of all of them */
  size_t others;           /* places that are asked for, or have left */
  size_t length, prefix_length;
  char counted[]; /* the key, led by its limiter's name */
} weir_kept_key;

/* A place. */
struct weir_kept {
  weir_end end; /* until when it may be held; before it is: for how long */
  weir_kept_key *key;
  weir_kept *next, *previous; /* of its key; of those that have left: the next one */
  weir_holder *holder;        /* NULL: it outlives the connection that it came over */
  weir_kept *holder_next, *holder_previous;
  weir_place_name name;
  weir_reservation *reservation; /* NULL: it is asked for, or was denied */
  const weir_store *store;       /* where it is: only compared */
  int64_t cost;
  char client[WEIR_KEPT_CLIENT_BYTES]; /* as an operator is told */
  int64_t since_us;                    /* weir_monotonic_us() */
};

typedef struct weir_kept_limiter {
  const weir_limiter *limiter; /* NULL: this one is free */
  weir_shared_limiter *shared;
  size_t count; /* of its keys */
} weir_kept_limiter;

typedef struct weir_kept_table {
  uint32_t server; /* of all names that it gives */
  uint64_t number; /* the last */
  uint64_t chance;
  weir_hash_table by_name, by_key; /* of pointers */
  weir_ends ends;                  /* of those that are held */
  weir_kept_limiter *limiters;
  size_t limiter_count, limiter_room;
  size_t asked; /* places that are neither held nor denied yet */
} weir_kept_table;

void weir_kept_table_init(weir_kept_table *table);
void weir_kept_table_clean_up(weir_kept_table *table); /* it has no places */

/* A request for a place. `counted`: the key, led by its limiter's name. */
typedef struct weir_kept_wish {
  const weir_registry *registry;
  const weir_limiter *limiter;
  const weir_store *store;
  const char *counted;
  size_t length, prefix_length;
  int64_t cost, for_us;
  const char *client;
  weir_holder *holder; /* may be NULL */
} weir_kept_wish;

/* False: no memory. */
bool weir_kept_table_add(weir_kept_table *table, weir_kept *kept, const weir_kept_wish *wish);
/* Its reservation and its end have been set. */
void weir_kept_table_enter(weir_kept_table *table, weir_kept *kept);
void weir_kept_table_take_out(weir_kept_table *table, weir_kept *kept);
/* The place itself is the caller's to free. */
void weir_kept_table_drop(weir_kept_table *table, weir_kept *kept);

/* It is no client's any more. */
void weir_kept_leave_holder(weir_kept *kept);

/* One that is held under this key. NULL: *why says why there is none; no text: it is held no more. */
weir_kept *weir_kept_table_find(const weir_kept_table *table, const weir_place_name *name,
                                const weir_hash_text *counted, weir_message *why);
/* The key of one that is held, whatever it is called. NULL: there is none. */
const weir_kept_key *weir_kept_table_key_of(const weir_kept_table *table,
                                            const weir_place_name *name);
/* NULL: it has none. */
weir_kept_key *weir_kept_table_find_key(const weir_kept_table *table, const weir_limiter *limiter,
                                        const weir_hash_text *counted);

/* A limiter that has no keys any more: the caller lets it go. NULL: there is none. */
weir_shared_limiter *weir_kept_table_take_limiter(weir_kept_table *table);

#endif
