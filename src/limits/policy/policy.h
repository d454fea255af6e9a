/* What a limiter answers when its store does not decide. Pure: no store, no clock, no allocation.
 *
 * The store is away, or a decision is late: it ran out of its own time. Which of the two it was
 * cannot be told in time, so both have one answer.
 *
 * DENY and ALLOW are answered here. LOCAL goes on as the store began: src/limits/limiter/outage.c; here is
 * what it denies where it has no memory, or where others kept writing the key.
 */
#ifndef WEIR_POLICY_POLICY_H
#define WEIR_POLICY_POLICY_H

#include <weir/limiter.h>

#include "rule/rule.h"

/* When a caller may ask again that was denied for no reason of its own: because the store is away,
 * or because its own decision was late. */
#define WEIR_POLICY_RETRY_US INT64_C(500000)
#define WEIR_POLICY_LATE_RETRY_US INT64_C(50000)

/* Whether a request to take that ended in this status gets an answer all the same: the store is
 * away, or time was over. What the caller brought about is no business of a policy. */
bool weir_policy_answers(weir_fallback fallback, weir_status status);

/* The answer to a request of these costs (one per rule, or NULL and `cost`), with the figures of
 * the first rule that it concerns: everything by ALLOW, nothing by any other policy. `source` is
 * WEIR_SOURCE_FALLBACK where the store is away, else WEIR_SOURCE_LATE. */
weir_decision weir_policy_decide(weir_fallback fallback, weir_source source,
                                 const weir_stack *rules, int64_t cost, const int64_t *costs,
                                 int64_t now_us);

#endif
