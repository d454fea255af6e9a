/* The arithmetic of buckets, in whole units of 2^-k microseconds: exact, and linear.
 *
 *     v      theoretical arrival time: when all that was charged has drained
 *     n      now
 *     ahead  max(0, v - n): what is charged and not yet drained. All else follows from it
 *     T      what a cost of 1 takes; B*T a full bucket
 *
 *     token bucket   c fits iff ahead + cT <= BT + w          delay: ahead + cT - BT, if above 0
 *     leaky bucket   c fits iff ahead + cT <= BT, ahead <= w  delay: ahead
 *     charge         ahead := ahead + cT                      w: the wait that is accepted
 *
 * B*T is below 2^50 where k > 0 and below 2^46 where k = 0, waits are below 2^51, and ahead is
 * below 2^58 by how it is read: no sum here comes near 2^63.
 */
#ifndef WEIR_ALGORITHM_BUCKET_MATH_H
#define WEIR_ALGORITHM_BUCKET_MATH_H

#include "algorithm/algorithm.h"

/* Units of a time of 0 or more; what would be 2^61 or more is 2^61. */
int64_t weir_bucket_units(const weir_rule *rule, int64_t us);

/* Microseconds of units, rounded up. */
int64_t weir_bucket_us(const weir_rule *rule, int64_t units);

/* B'*T: a bucket without a lease holds all of B. */
int64_t weir_bucket_full(const weir_rule *rule);

/* The largest cost that fits now; 0: none. `request` says which wait it accepts; NULL: none but a
 * leaky bucket's own. */
int64_t weir_bucket_room(const weir_rule *rule, int64_t ahead, const weir_request_state *request);

/* The shortest wait after which the same request fits if nothing else is charged; 0: now. */
int64_t weir_bucket_retry_after_us(const weir_rule *rule, int64_t ahead,
                                   const weir_request_state *request, int64_t cost);

/* How long whoever is charged this cost now must wait before acting. */
int64_t weir_bucket_delay_us(const weir_rule *rule, int64_t ahead, int64_t cost);

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

#endif
