/* The keys that are still in use: those whose last request matters to anybody. */
#ifndef WEIR_SIMULATE_KEYS_H
#define WEIR_SIMULATE_KEYS_H

#include "simulate/driver.h"
#include "simulate/measure.h"

/* What there is of one key under one rule. */
typedef struct weir_subject {
  weir_driven_key driven;
  weir_exact exact;
} weir_subject;

typedef struct weir_key {
  struct weir_key *older, *newer; /* by last use */
  uint64_t hash;
  int64_t used_us; /* last */
  size_t length;
  char *text;
  weir_subject subjects[]; /* one per rule */
} weir_key;

typedef struct weir_keys {
  const weir_driver *drivers;
  size_t driver_count;
  unsigned char hash_key[16];
  weir_key **places; /* open addressing, linear probing */
  size_t capacity;   /* a power of two */
  size_t used;
  size_t most; /* that were in use at once */
  weir_key *oldest, *newest;
} weir_keys;

/* False: not enough memory. The drivers must stay. */
bool weir_keys_init(weir_keys *keys, const weir_driver *drivers, size_t driver_count);
void weir_keys_clean_up(weir_keys *keys);

/* The key, used now; made when it is new. NULL: not enough memory. Good until keys expire. */
weir_key *weir_keys_use(weir_keys *keys, const char *text, size_t length, int64_t now_us);

/* Forgets keys that were last used at `until_us` or before. */
void weir_keys_expire(weir_keys *keys, int64_t until_us);

#endif
