/* The part of a tenant's floor that this process admits where the store of a shared window does not answer. */
#ifndef WEIR_LIMITER_FLOOR_H
#define WEIR_LIMITER_FLOOR_H

#include "limiter/call.h"

/* What a tenant of a pool was admitted of its floor without the store: behind the memo of its entry. */
typedef struct weir_floor_used {
  int64_t cell; /* in which ... */
  int64_t cost; /* ... it was so much */
} weir_floor_used;

/* Decides in the place of the policy, whose decision this begins as; that stays where there is no memory for
 * the tenant. No entry is locked. */
void weir_floor_answer(weir_limiter *limiter, const weir_ask *ask, weir_decision *decision);

#endif
