/* Connecting ahead, so that no client waits for a greeting: before the server serves, and before a
 * newer configuration is in use. Of the main thread, which does not wait for it. */
#ifndef WEIR_SERVE_AHEAD_H
#define WEIR_SERVE_AHEAD_H

#include "serve/loop.h"

typedef struct weir_ahead weir_ahead;

/* Begins to connect to every store of `fresh` that `old` (NULL: none) does not have: all at once,
 * each for its connect-timeout= at most. `fresh` must outlive it. `front` is woken when all is over.
 * NULL: there is nobody to connect to. */
weir_ahead *weir_ahead_begin(const weir_registry *fresh, const weir_registry *old,
                             weir_loop *front);

/* Whether every store is ready, or has had its time. */
bool weir_ahead_is_over(const weir_ahead *ahead);

/* Says which stores were not reached, and why. One that is not over is given up, which takes a
 * second at most, and nothing is said. NULL is fine. */
void weir_ahead_end(weir_ahead *ahead);

#endif
