/* Paying again for what is held: called by a thread of the limiter's own, or by the caller's loop. */
#ifndef WEIR_LIMITER_RENEW_H
#define WEIR_LIMITER_RENEW_H

#include <stdbool.h>

#include <weir/limiter.h>

/* Sees to it that what is held is paid for: starts the thread, unless it runs or the caller renews.
 * False: no thread could be started. */
bool weir_renew_start(weir_limiter *limiter);

/* Gives back the empty places that are kept for a next caller. */
weir_status weir_renew_return_spares(weir_limiter *limiter, weir_message *message);

#endif
