/* The keys that are still in use: those whose last request matters. The keys that were used last
 * stand ready; all others are packed. */
#ifndef WEIR_SIMULATE_KEYS_H
#define WEIR_SIMULATE_KEYS_H

#include "simulate/driver.h"
#include "simulate/measure.h"
#include "table.h"

/* --- subjects -----------------------------------------------------------------------------------
 *
 * The state of one key under one rule, and the same in few bytes.
 *
 * A subject in use is made of arrays with room to grow. Most keys of a large log are asked for
 * seldom: theirs are written down as numbers of variable length, times as distances, until they are
 * used again. Nothing is lost by it.
 */

/* One key under one stack of rules. */
typedef struct weir_subject {
  weir_driven_key driven;
  weir_exact *exact;  /* one for each rule of the stack */
  int64_t difference; /* cost that the stack has admitted above what exact windows have */
  size_t weight;      /* weir_subject_weight() when it was last looked at; its user's */
} weir_subject;

/* False: not enough memory. */
bool weir_subject_init(weir_subject *subject, const weir_driver *driver);
void weir_subject_clean_up(weir_subject *subject, const weir_driver *driver);

/* As if it were new; what it has for few entries stays with it. */
void weir_subject_clear(weir_subject *subject, const weir_driver *driver);

/* Bytes of what grows with the requests that count. */
size_t weir_subject_weight(const weir_subject *subject, const weir_driver *driver);

/* Bytes that are written, and where to; begins zeroed. */
typedef struct weir_packer {
  unsigned char *bytes;
  size_t length;
  size_t room;
  bool failed; /* for want of memory */
} weir_packer;

void weir_packer_clean_up(weir_packer *packer);

/* A number, short where it is small or near `base`. Behind the bytes that are kept, so many more must
 * stand: they are read, and do not matter. */
enum { WEIR_PACK_NUMBER_MOST = 9 };
void weir_pack_number(weir_packer *packer, int64_t value, int64_t base);
int64_t weir_unpack_number(const unsigned char **at, int64_t base);

/* All but `difference`. `base_us`: a time near those of the subject. */
void weir_subject_pack(const weir_subject *subject, const weir_driver *driver, int64_t base_us,
                       weir_packer *packer);

/* Into a clear subject, from where pack() has written with the same base; moves *at behind it.
 * False: not enough memory. */
bool weir_subject_unpack(weir_subject *subject, const weir_driver *driver, int64_t base_us,
                         const unsigned char **at);

/* --- keys ---------------------------------------------------------------------------------------
 */

enum { WEIR_KEYS_READY_MOST = 256, WEIR_KEYS_WEIGHT_MOST = 32 << 20 };

typedef struct weir_seen_key {
  struct weir_seen_key *older, *newer; /* by last use */
  uint32_t mark;                       /* in the table of keys, and in those of counts by key */
  int64_t used_us;                     /* last */
  weir_subject *subjects;              /* one for each driver; NULL: they are in ... */
  unsigned char *packed;               /* ... here, with used_us as base */
  size_t length;
  char text[];
} weir_seen_key;

/* Told of a key that is forgotten, and of what its decisions differ by, one for each driver. */
typedef void weir_keys_listener(void *context, const weir_seen_key *key, size_t driver,
                                int64_t difference);

typedef struct weir_keys {
  const weir_driver *drivers;
  size_t driver_count;
  weir_hash_table table; /* of pointers to keys in use */
  size_t most;           /* that were in use at once */
  weir_seen_key *oldest, *newest;
  weir_seen_key *oldest_ready; /* from here on they have subjects */
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
weir_seen_key *weir_keys_use(weir_keys *keys, const char *text, size_t length, int64_t now_us);

/* Forgets keys of which nothing is left by now, neither in the store nor in a window. */
void weir_keys_expire(weir_keys *keys, int64_t now_us);

/* Forgets all. */
void weir_keys_empty(weir_keys *keys);

#endif
