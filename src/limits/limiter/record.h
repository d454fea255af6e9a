/* Records: the limit that a program has set for one key. It stands in the store, beside the key's counts:
 * one integer, a kind and a number. A machine knows nothing of it: its driver gives it the limit that the
 * record says. */
#ifndef WEIR_LIMITER_RECORD_H
#define WEIR_LIMITER_RECORD_H

#include "limiter/limiter.h"

/* What a process knows of a key's record; in the table, behind the key's memo: 16 bytes, as millions of keys may
 * have one. */
enum { WEIR_RECORD_TIME_BITS = 58 };
#define WEIR_RECORD_TIME_MASK ((UINT64_C(1) << WEIR_RECORD_TIME_BITS) - 1)
typedef struct weir_record {
  int64_t stored; /* weir_record_resolve() of what the store has; 0: nothing */
  /* The stamp of the round that read it; 0: it is not known. */
  uint64_t read_us : WEIR_RECORD_TIME_BITS;
  /* Since when the store has had nothing, where it had this before; else 0. */
  uint64_t lost_step : 6;
} weir_record;
_Static_assert(sizeof(weir_record) == 16, "docs/changing-rules.md says so");
_Static_assert(WEIR_TIME_MOST_US <= WEIR_RECORD_TIME_MASK, "every stamp has its room");

/* What is stored: a kind (enum weir_limit_kind), and behind it a number up to 2^53. */
enum { WEIR_RECORD_NUMBER_BITS = 56 };

static inline unsigned weir_record_kind(int64_t stored) {
  return (unsigned)(stored >> WEIR_RECORD_NUMBER_BITS);
}

static inline int64_t weir_record_number(int64_t stored) {
  return stored & ((INT64_C(1) << WEIR_RECORD_NUMBER_BITS) - 1);
}

static inline int64_t weir_record_of_kind(unsigned kind, int64_t number) {
  return ((int64_t)kind << WEIR_RECORD_NUMBER_BITS) | number;
}

static inline weir_record weir_record_read_at(int64_t stored, int64_t read_us) {
  return (weir_record){.stored = stored, .read_us = (uint64_t)read_us & WEIR_RECORD_TIME_MASK};
}

/* As this limiter goes by it: a tier that its rule has is a number. */
int64_t weir_record_resolve(const struct weir_limiter *limiter, int64_t stored);

/* Of a locked entry, in a limiter that reads records. */
static inline weir_record *weir_record_of(const weir_limiter *limiter,
                                          const weir_memo_entry *entry) {
  return (weir_record *)(void *)((char *)entry->memo + weir_memo_bytes(&limiter->stack));
}

/* Whether a group, whose requests have been taken and whose entry is locked, must read its key's record
 * before it is decided: with its charge, which is the same under any limit, or first. KNOWN: its machine gets
 * the limit that is known, and what that answers by itself leaves the group: then it may be empty. */
weir_record_reads weir_record_seek(weir_call *call, weir_group *group);

/* Plans the reading, behind the first operations of the group, which have been planned; or alone. */
void weir_record_plan(weir_call *call, weir_group *group, bool alone);

/* Takes in the answer, which is the last of the group's operations, and takes that off. READ: it is known
 * from now on, also to a machine that charges meanwhile (`rode`), of which nothing may stay where it
 * BLOCKS, or LIFTS all limits. NOT_READ: the operation says why. */
typedef enum weir_record_read {
  WEIR_RECORD_READ,
  WEIR_RECORD_BLOCKS,
  WEIR_RECORD_LIFTS,
  WEIR_RECORD_NOT_READ
} weir_record_read;
weir_record_read weir_record_absorb(weir_call *call, weir_group *group, bool rode,
                                    weir_operation *read);

/* Of a group that waited for it, and whose entry is locked: as weir_record_seek() does of one that is known. */
void weir_record_apply(weir_call *call, weir_group *group);

/* Of a group that is decided: a request is told by which limit, and where it is admitted that a rule was
 * spared. Of what was charged ahead the limit is not known: then the largest is safe, as a token of that
 * takes least of a bucket. */
void weir_record_end(const weir_limiter *limiter, const weir_group *group, weir_claim *request);
int64_t weir_record_safe(const weir_limiter *limiter);

/* Of a locked entry, in any limiter: whether its key is known to be blocked, or unlimited, so that nothing is
 * charged ahead for it; whether what was charged ahead may be used now, as its record is known and says
 * nothing of that; and whether it should be read again, which is before it must be. */
bool weir_record_says_bar(const weir_limiter *limiter, const weir_memo_entry *entry);
static inline bool weir_record_bars(const weir_limiter *limiter, const weir_memo_entry *entry) {
  return limiter->limits_us > 0 && weir_record_says_bar(limiter, entry);
}

bool weir_record_says_let(const weir_limiter *limiter, const weir_memo_entry *entry,
                          int64_t now_us);
static inline bool weir_record_lets(const weir_limiter *limiter, const weir_memo_entry *entry,
                                    int64_t now_us) {
  return limiter->limits_us == 0 || weir_record_says_let(limiter, entry, now_us);
}

/* In half of its time: a refill that began before must come back, and another one after it, while the record is
 * still known. */
static inline bool weir_record_is_due(const weir_limiter *limiter, const weir_memo_entry *entry,
                                      int64_t now_us) {
  return limiter->limits_us > 0 &&
         now_us - (int64_t)weir_record_of(limiter, entry)->read_us >= limiter->limits_us / 2;
}

/* Where it is so, nothing of before answers for the key: no denial that is remembered, and no lot. */
void weir_record_bar(struct weir_limiter *limiter, weir_memo_entry *entry);

/* A group that rode is decided: requests that its record answers by itself are told so. True: it is to be
 * started anew, as its key is unlimited and other rules have a say. */
bool weir_record_tell(const weir_call *call, weir_group *group);

/* In the place of one that is not known: what the limiter knows of it whose place this one has taken. Its
 * entry is locked. In inherit.c. */
void weir_record_inherit(struct weir_limiter *limiter, weir_record *record, const weir_ask *ask);

/* Whether what is known of a key answers all that is asked of it, for a policy; fills in the verdict. */
bool weir_record_answers(struct weir_limiter *limiter, weir_waiting *request);

#endif
