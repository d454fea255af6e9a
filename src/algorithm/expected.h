/* What this process knows must be in the store, and noticing that it is gone. */
#ifndef WEIR_ALGORITHM_EXPECTED_H
#define WEIR_ALGORITHM_EXPECTED_H

#include "algorithm/algorithm.h"

/* So much more (below 0: less) of a charge stays in the store under rule i. */
void weir_expected_change(weir_machine *machine, size_t i, int64_t cost);

/* Forgets all that the notes say, but not what is expected (after a reset, that too), nor that
 * others swap the key. */
void weir_expected_survive(weir_machine *machine);

/* So much more (below 0: less) is expected of rule i under `index`. A new index takes the place of
 * the one before. */
void weir_expected_add(weir_machine *machine, size_t i, int64_t index, int64_t amount);

/* Rule i has so much under `index`: where that is less than what is expected, a key was lost. */
void weir_expected_compare(weir_machine *machine, size_t i, int64_t index, int64_t found);

#endif
