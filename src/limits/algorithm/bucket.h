/* Token and leaky buckets: one time per key says when all that was charged has drained. Their
 * arithmetic, in whole units of 2^-k microseconds: exact, and linear.
 *
 *     v      theoretical arrival time: when all that was charged has drained
 *     n      now
 *     ahead  max(0, v - n): what is charged and not yet drained. All else follows from it
 *     T      what a cost of 1 takes; B*T a full bucket
 *
 *     token bucket   c fits iff ahead + cT <= BT + w          delay: ahead + cT - BT, if above 0
 *     leaky bucket   c fits iff ahead + cT <= BT, ahead <= w  delay: ahead
 *     charge         ahead := ahead + cT                      w: the wait that is accepted
 *     settlement     as much of c as keeps ahead within (B + D)T      D: debt=
 *     a class        has its part of B in the place of B; what a clock that was wrong has left is measured by
 *                    B for all
 *
 * B*T is below 2^50 where k > 0 and below 2^46 where k = 0, waits are below 2^51, and ahead is
 * below 2^58 by how it is read: no sum here comes near 2^63.
 *
 * How a store keeps and changes v makes two methods: bucket_swap.c compares and swaps it,
 * bucket_raise.c raises it and adds to it. What v means is the same for both: bucket.c.
 */
#ifndef WEIR_ALGORITHM_BUCKET_H
#define WEIR_ALGORITHM_BUCKET_H

#include "algorithm/method.h"

/* --- arithmetic --------------------------------------------------------------------------------
 */

/* Units of a time of 0 or more; what would be 2^61 or more is 2^61. */
int64_t weir_bucket_units(const weir_rule *rule, int64_t us);

/* Microseconds of units, rounded up. */
int64_t weir_bucket_us(const weir_rule *rule, int64_t units);

/* B'*T: a bucket without a lease holds all of B. */
int64_t weir_bucket_full(const weir_rule *rule);

/* The most that it is under any limit up to most=: other requests of the key may have another. */
int64_t weir_bucket_fullest(const weir_rule *rule);

/* The same of a request's class. */
int64_t weir_bucket_full_of(const weir_rule *rule, const weir_ask *ask);

/* The furthest that a settlement may leave ahead: (B' + D)*T. */
int64_t weir_bucket_deepest(const weir_rule *rule);

/* How far beyond a full bucket it may be left by those who wait, or in debt. */
int64_t weir_bucket_beyond(const weir_rule *rule, const weir_settings *settings);

/* The largest cost that fits now; 0: none. `ask` says which wait it accepts, and of which class it is; NULL:
 * none but a leaky bucket's own, and of none. */
int64_t weir_bucket_room(const weir_rule *rule, int64_t ahead, const weir_ask *ask);

/* The shortest wait after which the same request fits if nothing else is charged; 0: now. */
int64_t weir_bucket_retry_after_us(const weir_rule *rule, int64_t ahead, const weir_ask *ask,
                                   int64_t cost);

/* How long a request that is charged this cost now must wait before it acts. */
int64_t weir_bucket_delay_us(const weir_rule *rule, int64_t ahead, const weir_ask *ask,
                             int64_t cost);

/* What of a cost is surely still in the bucket, in units, so that giving it back admits nothing too
 * much: without the charge the bucket may have been empty from the charge on, or, where `before`
 * was ahead of it and stays, from that time on. */
int64_t weir_bucket_undrained(const weir_rule *rule, int64_t cost, int64_t before,
                              int64_t elapsed_us);

/* How stores with SWAP keep v: modulo 2^62, under one key. What is less than 2^58 units after n (at
 * k = 20, 3.2 days) is ahead of it, all else behind: the longer side, because a key that is kept
 * longer than it must be may be that old. */
int64_t weir_bucket_wrap(const weir_rule *rule, int64_t now_us, int64_t ahead);
int64_t weir_bucket_unwrap(const weir_rule *rule, int64_t now_us, int64_t stored);

/* How long such a value can be told from one that is ahead. */
int64_t weir_bucket_told_apart_us(const weir_rule *rule);

/* The same with `units` less. */
int64_t weir_bucket_wrapped_less(int64_t stored, int64_t units);

/* How stores with RAISE keep v: as the difference to the start of an epoch of 2^52 units, under a
 * key per epoch, because they count in doubles. */
#define WEIR_BUCKET_EPOCH (INT64_C(1) << 52)
int64_t weir_bucket_epoch(const weir_rule *rule, int64_t now_us);
int64_t weir_bucket_offset(const weir_rule *rule, int64_t now_us); /* of n in its epoch */

/* Furthest that honest clocks leave anything ahead which was not charged in vain, in units. */
int64_t weir_bucket_furthest(const weir_rule *rule, const weir_settings *settings);

/* How long a key must live that holds all it can: until no request waits by the slowest clock, or
 * reads by it; 2 s for whole seconds. */
int64_t weir_bucket_ttl_us(const weir_rule *rule, const weir_settings *settings);

/* --- what both methods share -------------------------------------------------------------------
 */

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
  int64_t locked_us;    /* when this process locked it for that (bucket_raise.c); 0: never */
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
  bool far;           /* what is stored comes from a clock that was wrong; it counts as full */
  int64_t furthest;   /* more ahead than that comes from one, too, but for overshoot; and ... */
  int64_t step_us;    /* ... is put back in steps so far apart; 0: at once, or never */
} weir_bucket_state;
_Static_assert(sizeof(weir_bucket_state) <= WEIR_STATE_BYTES_MOST, "WEIR_STATE_BYTES_MOST");

/* Members of weir_method that need no more than `ahead`. */
int64_t weir_bucket_allows(const weir_rule_state *r, const weir_ask *ask);
int64_t weir_bucket_count(weir_rule_state *r, int64_t cost);
void weir_bucket_figures(const weir_rule_state *r, const weir_ask *ask, int64_t cost, bool denied,
                         weir_decision *decision);
extern const weir_delaying_table weir_bucket_delaying;
int64_t weir_bucket_settles(const weir_rule_state *r, int64_t cost);
void weir_bucket_expect(weir_rule_state *r, int64_t cost);
void weir_bucket_forget(void *memory);

/* Sets what is ahead, or a full bucket where that is far. */
void weir_bucket_set_ahead(weir_rule_state *r, int64_t ahead, bool far);

/* Whether it was read lately enough to be relied on. */
bool weir_bucket_is_fresh(const weir_rule_state *r);

/* Whether all open takes fit, one after another, each on top of those before it. */
bool weir_bucket_all_fit(const weir_rule_state *r);

/* Whether more is ahead than a full bucket because some requests wait: not where it may be a debt. */
bool weir_bucket_has_waiters(const weir_rule *rule, int64_t ahead);

/* Whether what is stored is to be brought back from too far ahead: only by who wants to charge. */
bool weir_bucket_mends(const weir_rule_state *r);

/* After every GET and CREATE: notices a key that must be there and is not. */
void weir_bucket_watch(weir_rule_state *r, const weir_operation *operation);

/* What `refund` chooses, but for the cancelling of a slot: that ends at state->slot, unless it is
 * WEIR_NO_SLOT. */
bool weir_bucket_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost);

/* What `known` answers where so much is ahead. */
void weir_bucket_known(const weir_rule_state *r, int64_t ahead, weir_known *known);

#endif
