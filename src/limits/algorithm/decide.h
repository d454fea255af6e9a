/* Deciding: which requests of a group fit, first come, first served, and what each is told.
 *
 * A request that does not fit does not stop a later, smaller one (greedy): the outcome is that of
 * some serial order in which each denied request came and went before the next one. After a look,
 * those before count as admitted: a denial holds if all that is in flight is charged.
 */
#ifndef WEIR_ALGORITHM_DECIDE_H
#define WEIR_ALGORITHM_DECIDE_H

#include "algorithm/algorithm.h"

/* After a look: settles peeks, and takes that do not fit. True when some take is left to be
 * charged. */
bool weir_decide_look(weir_machine *machine);

/* After `rules` (one bit each) were charged for every open take: settles takes that do not fit, and
 * where this stage is the last all that are left; what goes back is in each rule state's `unused`.
 * True when something was denied. Unless `final`, denied takes stay open. */
bool weir_decide_stage(weir_machine *machine, unsigned rules, bool last, bool final);

/* Settles peeks that waited for takes before them. */
void weir_decide_rest(weir_machine *machine);

/* Settles as denied what is still open. */
void weir_decide_denied(weir_machine *machine);

/* --- with recall.c -----------------------------------------------------------------------------
 */

/* One answer out of those of all rules that take part: those with a cost. `denying`: one bit each.
 */
weir_decision weir_decide_speak(const weir_stack *stack, const weir_decision figures[],
                                const weir_request_state *request, unsigned denying);

/* A denial that can be repeated speaks for every request that asks no less. */
bool weir_decide_is_plain(const weir_request_state *request);

#endif
