/* Threads of a simulation: each has a stack of its own and runs until it parks. One at a time, in
 * the order in which they are resumed, so that a run with one seed is always the same run. */
#ifndef TESTS_SCALE_FIBER_H
#define TESTS_SCALE_FIBER_H

#include <stdbool.h>

typedef struct fiber fiber;

/* Runs the function on a stack of its own, until it parks or returns. */
void fiber_start(void (*run)(void *), void *argument);

/* The one that runs; NULL: none does. */
fiber *fiber_running(void);

/* Leaves the running one as it stands, until it is resumed. */
void fiber_park(void);

/* Not from within a fiber. */
void fiber_resume(fiber *parked);

/* Frees the stacks; none may be parked. */
void fiber_clean_up(void);

#endif
