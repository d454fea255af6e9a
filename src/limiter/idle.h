/* Calls that are ready for reuse, so that nothing is allocated per decision. A thread takes from a
 * place of its own and gives back there: threads do not wait for each other, and a call stays in
 * one processor's caches. */
#ifndef WEIR_LIMITER_IDLE_H
#define WEIR_LIMITER_IDLE_H

#include "limiter/call.h"

typedef struct weir_idle weir_idle;

/* NULL: no memory. */
weir_idle *weir_idle_create(void);

/* Destroys the calls in it. Waits for no lock; NULL is fine. */
void weir_idle_destroy(weir_idle *idle);

/* NULL: there is none. */
weir_call *weir_idle_take(weir_idle *idle);
void weir_idle_give(weir_idle *idle, weir_call *call);

#endif
