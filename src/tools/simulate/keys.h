/* The keys that are still in use: those whose last request matters. What there is of
 * those used last stands ready; of all others it is packed. */
#ifndef WEIR_SIMULATE_KEYS_H
#define WEIR_SIMULATE_KEYS_H

#include "simulate/pack.h"
#include "table.h"

enum { WEIR_KEYS_READY_MOST = 256, WEIR_KEYS_WEIGHT_MOST = 32 << 20 };

typedef struct weir_key {
  struct weir_key *older, *newer; /* by last use */
  uint32_t mark;                  /* in the table of keys, and in those of counts by key */
  int64_t used_us;                /* last */
  weir_subject *subjects;         /* one for each driver; NULL: they are in ... */
  unsigned char *packed;          /* ... here, with used_us as base */
  size_t length;
  char text[];
} weir_key;

/* Told of a key that is forgotten, and of what its decisions differ by, one for each driver. */
typedef void weir_keys_listener(void *context, const weir_key *key, size_t driver,
                                int64_t difference);

typedef struct weir_keys {
  const weir_driver *drivers;
  size_t driver_count;
  weir_hash_table table; /* of pointers to keys in use */
  size_t most;           /* that were in use at once */
  weir_key *oldest, *newest;
  weir_key *oldest_ready; /* from here on they have subjects */
  size_t ready;
  size_t weight;       /* of their subjects; the newest may have grown since */
  size_t ready_most;   /* WEIR_KEYS_READY_MOST, unless set after init */
  size_t weight_most;  /* WEIR_KEYS_WEIGHT_MOST bytes, unless set after init; one may have more */
  weir_subject *spare; /* of a key that was packed: clear */
  weir_packer packer;
  weir_keys_listener *forgotten; /* set after init; NULL: none */
  void *context;
} weir_keys;

/* False: not enough memory. The drivers must stay. */
bool weir_keys_init(weir_keys *keys, const weir_driver *drivers, size_t driver_count);
void weir_keys_clean_up(weir_keys *keys); /* forgets all */

/* The key, used now; made when it is new. NULL: not enough memory. Good until keys expire. */
weir_key *weir_keys_use(weir_keys *keys, const char *text, size_t length, int64_t now_us);

/* Forgets keys of which nothing is left by now, neither in the store nor in a window. */
void weir_keys_expire(weir_keys *keys, int64_t now_us);

/* Forgets all. */
void weir_keys_empty(weir_keys *keys);

#endif
