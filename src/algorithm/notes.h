/* What a machine knows of a window's cells: the memo's, and those of the rounds under way. */
#ifndef WEIR_ALGORITHM_NOTES_H
#define WEIR_ALGORITHM_NOTES_H

#include "algorithm/algorithm.h"

/* How many cells of a memo come before those of rule i; for `stack->count`: how many it has. They
 * stand rule after rule, weir_cells_room() each. */
size_t weir_notes_offset(const weir_stack *stack, size_t i);

/* Moves rule i's span to machine->now_us, keeping the cells that stay in it. */
void weir_notes_frame(weir_machine *machine, size_t i);

/* Whether every cell of rule i's counter `index` within the span is finished, read after it was,
 * and fresh. */
bool weir_notes_cover(const weir_machine *machine, size_t i, int64_t index);

/* When the cell of rule i's span was read that was read first. What has changed since it was read
 * was changed, and read, in this decision. */
int64_t weir_notes_oldest_us(const weir_machine *machine, size_t i);

/* Writes down what rule i's counter `index` held at machine->now_us or later. */
void weir_notes_read(weir_machine *machine, size_t i, int64_t index, int64_t counter);

/* Rule i's counter `index` has changed since it was read: it has to be read again. */
void weir_notes_doubt(weir_machine *machine, size_t i, int64_t index);

/* Adds an admitted cost to the current cell of rule i. */
void weir_notes_charge(weir_machine *machine, size_t i, int64_t cost);

#endif
