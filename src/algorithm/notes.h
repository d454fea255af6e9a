/* A machine's notes: the cells it knows, from the memo and from the rounds under way. */
#ifndef WEIR_ALGORITHM_NOTES_H
#define WEIR_ALGORITHM_NOTES_H

#include "algorithm/algorithm.h"

/* Begins a round: moves every rule's span to `now_us`, keeping the cells that stay in it. */
void weir_notes_frame(weir_machine *machine, int64_t now_us);

/* Whether every cell of rule i's counter `index` within the span is finished, read after it was,
 * and fresh. */
bool weir_notes_cover(const weir_machine *machine, size_t i, int64_t index);

/* Writes down what rule i's counter `index` held in this round. */
void weir_notes_read(weir_machine *machine, size_t i, int64_t index, int64_t counter);

/* Adds an admitted cost to the current cell of rule i. */
void weir_notes_charge(weir_machine *machine, size_t i, int64_t cost);

void weir_notes_forget(weir_machine *machine);

#endif
