/* What this process knows must be in the store, and noticing that it is gone. */
#ifndef WEIR_ALGORITHM_EXPECTED_H
#define WEIR_ALGORITHM_EXPECTED_H

#include "algorithm/algorithm.h"

/* So much more (below 0: less) of a charge stays in the store under rule i. */
void weir_expected_change(weir_machine *machine, size_t i, int64_t cost);

/* Believes nothing any more that the notes say, but for what is expected and that others swap the
 * key. What was last known stays readable for weir_memo_known(); after a reset, nothing does. */
void weir_expected_survive(weir_machine *machine);

/* The same, and what it teaches of the share, of a rule that counts what is charged: `after` is what
 * stands under `index` with it; `per_period` indices are one period. */
void weir_expected_count(weir_machine *machine, size_t i, int64_t index, int64_t per_period,
                         int64_t after, int64_t cost);

/* So much more (below 0: less) is expected of rule i under `index`. A new index takes the place of
 * the one before. */
void weir_expected_add(weir_machine *machine, size_t i, int64_t index, int64_t amount);

/* Rule i has so much under `index`: where that is less than what is expected, a key was lost. */
void weir_expected_compare(weir_machine *machine, size_t i, int64_t index, int64_t found);

#endif
