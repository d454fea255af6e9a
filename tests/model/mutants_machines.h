/* Machines of other designs, each known to be wrong: they stand in for weir_machine_start() and
 * weir_machine_resume() in a scope of one rule, one request at a time. */
#ifndef MODEL_MUTANTS_MACHINES_H
#define MODEL_MUTANTS_MACHINES_H

#include "model.h"

/* A bucket that adds first, and where it finds it idle, adds what brings it to now. */
weir_turn idle_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                     weir_claim *requests, weir_operation *operations);
weir_turn idle_resume(weir_machine *machine, int64_t now_us, bool late, weir_operation *operations);

/* A bucket that adds first, and where it finds it idle, swaps in the time from now. Who finds
 * afterwards that it is at least now believes that his addition was swapped away, and adds again.
 */
weir_turn discarded_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                          weir_claim *requests, weir_operation *operations);
weir_turn discarded_resume(weir_machine *machine, int64_t now_us, bool late,
                           weir_operation *operations);

/* A log without epochs, in which what is absent does not deny. */
weir_turn naive_log_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                          weir_claim *requests, weir_operation *operations);
weir_turn naive_log_resume(weir_machine *machine, int64_t now_us, bool late,
                           weir_operation *operations);

#endif
