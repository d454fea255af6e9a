/* Limiters on demand, for commands that bring their rule with them (CL.THROTTLE).
 *
 * The keys of these are led by ":" alone, as no limiter of the configuration has an empty name. */
#ifndef WEIR_REGISTRY_THROTTLE_H
#define WEIR_REGISTRY_THROTTLE_H

#include <stdint.h>

#include "registry/registry.h"

#define WEIR_THROTTLE_PREFIX ":"
enum { WEIR_THROTTLE_NEW_MOST = 1000 }; /* a second */

typedef struct weir_throttle weir_throttle;

/* One for each loop, or one behind a lock: no two threads at once. NULL: no memory. It holds the
 * store of `registry` by a reference of its own. NULL as well where throttle.enabled is false. */
weir_throttle *weir_throttle_create(weir_registry *registry);
void weir_throttle_destroy(weir_throttle *throttle);

/* The limiter for token-bucket:count/{period_s}s,burst=burst. It is good until the next
 * weir_throttle_trim(). `now_us`: any clock that does not go back.
 *
 * WEIR_BAD_ARGUMENT: the figures are no rule, the message says what is accepted; WEIR_CONTENDED:
 * "too many different limits", more than WEIR_THROTTLE_NEW_MOST new ones within a second;
 * WEIR_NO_MEMORY. */
weir_status weir_throttle_find(weir_throttle *throttle, int64_t burst, int64_t count,
                               int64_t period_s, int64_t now_us, weir_limiter **limiter,
                               weir_message *message);

/* At the end of a tick, when no answer is awaited any more: the least used go until there are no
 * more than throttle.limiters. */
void weir_throttle_trim(weir_throttle *throttle);

#endif
