/* Windows: increment first, then decide.
 *
 *   start ─┬─> PEEK ──────┬──> done            nothing fits, or nobody wants to charge
 *          │   read       │
 *          └─> CHARGE <───┘
 *              add, then read what else can change, in one round
 *                 ├─────────> done             all fit
 *                 └─> TAKE_BACK ──> done       some did not, or the round failed
 *
 * A request is admitted only on the value that its own group's addition returned, and every other
 * cell that can still change is read after that addition, in the same write. Reading before it
 * violates every serial order. What was charged and not used goes back to the very counter that was
 * charged.
 */
#ifndef WEIR_ALGORITHM_WINDOW_H
#define WEIR_ALGORITHM_WINDOW_H

#include "algorithm/algorithm.h"

weir_turn weir_window_start(weir_machine *machine, int64_t now_us);
weir_turn weir_window_resume(weir_machine *machine, int64_t now_us, bool late);

#endif
