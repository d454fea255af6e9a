/* Judging: which requests of a group fit, first come, first served, and what each is told.
 *
 * A request that does not fit does not stop a later, smaller one (greedy): the outcome is that of
 * some serial order in which each denied request came and went before the next one. After a look,
 * those before count as admitted: a denial holds if all that is in flight is charged.
 */
#ifndef WEIR_ALGORITHM_JUDGE_H
#define WEIR_ALGORITHM_JUDGE_H

#include "algorithm/algorithm.h"

/* After a look: settles peeks, and takes that do not fit. True when some take is left to be
 * charged. */
bool weir_judge_look(weir_machine *machine);

/* After `rules` (one bit each) were charged for every open take: settles takes that do not fit, and
 * where this stage is the last all that are left; what goes back is in each part's `unused`. True
 * when something was denied. Unless `final`, denied takes stay open. */
bool weir_judge_stage(weir_machine *machine, unsigned rules, bool last, bool final);

/* Settles peeks that waited for takes before them. */
void weir_judge_rest(weir_machine *machine);

/* Settles as denied what is still open. */
void weir_judge_denied(weir_machine *machine);

#endif
