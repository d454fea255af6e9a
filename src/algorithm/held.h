/* What this process knows must be in the store, and noticing that it is gone. */
#ifndef WEIR_ALGORITHM_HELD_H
#define WEIR_ALGORITHM_HELD_H

#include "algorithm/algorithm.h"

/* A charge is over, and every part's `unused` says what goes back of it: the rest is held. */
void weir_held_keep(weir_machine *machine);

/* Before a refund of every part's `unused`. Whether it arrives or not, that is held no more. */
void weir_held_release(weir_machine *machine);

/* Forgets all that the notes say, but not what is held (after a reset, that too), nor that others
 * swap the key. */
void weir_held_survive(weir_machine *machine);

/* So much more (below 0: less) is held of rule i under `index`. A new index takes the place of the
 * one before. */
void weir_held_add(weir_machine *machine, size_t i, int64_t index, int64_t amount);

/* Rule i has so much under `index`: where that is less than what is held, a key was lost. */
void weir_held_compare(weir_machine *machine, size_t i, int64_t index, int64_t found);

#endif
