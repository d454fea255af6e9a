/* Judging: which requests of a group fit, first come, first served, and what each is told.
 *
 * A request that does not fit does not stop a later, smaller one (greedy): the outcome is that of
 * some serial order in which each denied request came and went before the next one. After a look,
 * those before count as admitted: a denial holds if all that is in flight is charged.
 */
#ifndef WEIR_ALGORITHM_JUDGE_H
#define WEIR_ALGORITHM_JUDGE_H

#include "algorithm/algorithm.h"

/* After reading: settles peeks, and takes that do not fit. True when some take is left to be
 * charged. */
bool weir_judge_peek(weir_machine *machine);

/* After charging: settles all that are left, and sets how much of each part's charge is unused. */
void weir_judge_charge(weir_machine *machine);

#endif
