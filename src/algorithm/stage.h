/* Stages of a charge: which rules are charged together, and what there is to charge. */
#ifndef WEIR_ALGORITHM_STAGE_H
#define WEIR_ALGORITHM_STAGE_H

#include "algorithm/algorithm.h"

bool weir_stage_only_windows(const weir_stack *stack);

/* Whether some ask that is still open is about rule i. */
bool weir_stage_concerns(const weir_machine *machine, size_t i);

bool weir_stage_has_takes(const weir_machine *machine);

/* What the open takes cost together under rule i. */
int64_t weir_stage_wants(const weir_machine *machine, size_t i);

/* Windows and quotas, which can take back, come first, then buckets, then the log, which cannot; in
 * order every rule is a stage of its own, the smallest limit first. */
unsigned weir_stage_of(const weir_machine *machine, size_t i);
unsigned weir_stage_count(const weir_machine *machine);

/* Whether no later stage has anything to charge. */
bool weir_stage_is_last(const weir_machine *machine);

#endif
