/* Buckets: one time per key says when all that was charged has drained (bucket_math.h). How a store
 * keeps and changes that time is a bucket storage: bucket_swap.c compares and swaps it,
 * bucket_raise.c raises it and adds to it. What it means is the same for both: bucket.c.
 */
#ifndef WEIR_ALGORITHM_BUCKET_H
#define WEIR_ALGORITHM_BUCKET_H

#include "algorithm/bucket_math.h"
#include "algorithm/method.h"

/* What a process keeps of one key. */
typedef struct weir_bucket_memory {
  bool known;
  bool absent;   /* nothing is stored */
  int64_t value; /* as stored under `index` */
  int64_t past;  /* the same under index - 1, where that counts too */
  int64_t index; /* of the key: 0, or the epoch */
  union {
    uint64_t version;   /* of stores with SWAP; 0: not known */
    int64_t renewed_us; /* of stores with RAISE: the TTL is from this time or later; 0: unknown */
  };
  int64_t read_us;      /* `now` of the round that read it */
  int64_t far_since_us; /* every look since found too much ahead; 0: the last did not */
  int64_t locked_us;    /* when this process locked it for that (bucket_lock.h); 0: never */
} weir_bucket_memory;

typedef struct weir_bucket_state {
  int64_t ahead;      /* v - n, units, as far as above 0: what is charged and not yet drained */
  int64_t before;     /* the same when it was charged */
  int64_t written;    /* what this round stores, if it succeeds */
  int64_t slot;       /* where what is given back ends, as stored; WEIR_NO_SLOT: not known */
  int64_t stamp_us;   /* of what is given back */
  int64_t stays;      /* cost that is charged and must not go back */
  int64_t missing[2]; /* of the base of a charge, by key */
  bool landed[2];     /* which keys hold it */
  bool only_last;     /* goes back only if nothing was charged after it */
  bool looks_along;   /* a GET stands behind the charge, should that be in vain */
  bool far;           /* what is stored comes from a clock that was wrong */
  int64_t furthest;   /* more ahead than that comes from one, too, but for overshoot; and ... */
  int64_t step_us;    /* ... is put back in steps so far apart; 0: at once, or never */
} weir_bucket_state;

/* Members that say no more are those of weir_method. */
typedef struct weir_bucket_storage {
  /* What is ahead by what is cached, as it stands; false: that is not known. */
  bool (*ahead)(const weir_rule *rule, const weir_settings *settings,
                const weir_bucket_memory *memory, int64_t now_us, int64_t *ahead);

  /* The value that is stored when so much is ahead. */
  int64_t (*stored)(const weir_rule *rule, int64_t now_us, int64_t ahead);

  /* How long a step takes of putting back what may be overshoot; NULL: there is none. */
  int64_t (*step_us)(const weir_rule *rule, const weir_settings *settings);

  /* Whether no honest clock can have left so much ahead: it is put back by whoever takes next. */
  bool (*is_far)(const weir_rule *rule, const weir_settings *settings,
                 const weir_bucket_memory *memory, int64_t now_us, int64_t ahead);

  /* Whether what is cached, or else an empty bucket, is enough for all that is asked: may a charge
   * do without a look before it? */
  bool (*blind)(const weir_machine *machine, size_t i);

  void (*look)(weir_machine *machine, size_t i);
  void (*charge)(weir_machine *machine, size_t i);
  void (*take_back)(weir_machine *machine, size_t i);
  void (*reset)(weir_machine *machine, size_t i);
  void (*answer)(weir_machine *machine, size_t i, const weir_operation *operation);

  /* Chooses a slot to be given back if it is the last, by where it ends. */
  void (*cancel)(weir_machine *machine, size_t i, int64_t slot, int64_t cost);
} weir_bucket_storage;

extern const weir_bucket_storage weir_bucket_swap;
extern const weir_bucket_storage weir_bucket_raise;

/* Furthest that honest clocks leave anything ahead which was not charged in vain, in units. */
int64_t weir_bucket_furthest(const weir_rule *rule, const weir_settings *settings);

/* Whether it was read lately enough to be relied on. */
bool weir_bucket_is_fresh(const weir_machine *machine, const weir_bucket_memory *memory);

/* Brings the rule state's notes to what is cached. Where that is far, some clock was wrong: then
 * the bucket counts as full, and `far` is set. */
void weir_bucket_load(weir_machine *machine, size_t i);

/* After every GET and CREATE: notices a key that must be there and is not. */
void weir_bucket_watch(weir_machine *machine, size_t i, const weir_operation *operation);

/* Whether what is stored is to be brought back from too far ahead: only by who wants to charge. */
bool weir_bucket_mends(const weir_machine *machine, size_t i);

/* Of a bucket that holds all it can, until nobody waits by the slowest clock, or reads by
 * it; 2 s for whole seconds. */
int64_t weir_bucket_ttl_us(const weir_rule *rule, const weir_settings *settings);

/* The TTL that stores with RAISE are given: what a key must live after a charge, until its epoch's
 * handover is over, and a third more, so that not every charge must renew it. */
int64_t weir_bucket_raised_ttl_us(const weir_rule *rule, const weir_settings *settings);

#endif
