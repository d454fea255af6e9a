/* Where the store raises: bringing back a time that a wrong clock has left too far ahead.
 *
 * Requests that are denied charge in vain, at most a full bucket for each other process at once,
 * and take it back. Were the time put back before they have, it would be short of that. So it is
 * locked first, by whoever wants to charge:
 *
 *     too far ahead ──> still so ──> locked ──> locked until now: put back
 *              one settle time   one settle time
 *
 * The lock raises it so high that nobody is admitted, whatever is taken back, until all that was
 * charged in vain before the lock is back. docs/guarantees.md has the proof.
 */
#ifndef WEIR_ALGORITHM_BUCKET_LOCK_H
#define WEIR_ALGORITHM_BUCKET_LOCK_H

#include "algorithm/bucket.h"

/* How far ahead a lock puts the time, in units. */
int64_t weir_bucket_lock_units(const weir_rule *rule, const weir_settings *settings);

/* How long after one step, of three, the next may follow: until then nobody is admitted, and unless
 * somebody asks then there is no next one. 0: nobody locks such a bucket. */
int64_t weir_bucket_lock_step_us(const weir_rule *rule, const weir_settings *settings);

/* Whether it can be put back now: a lock of this process has held, or nothing but a wrong clock
 * leaves so much ahead. */
bool weir_bucket_lock_is_over(const weir_rule *rule, const weir_settings *settings,
                              const weir_bucket_memory *memory, int64_t now_us, int64_t ahead);

/* After a look that found so much ahead: takes down since when that is too far, and answers whether
 * it is to be locked now. */
bool weir_bucket_lock_is_due(const weir_rule *rule, const weir_settings *settings,
                             weir_bucket_memory *memory, int64_t now_us, int64_t ahead);

#endif
