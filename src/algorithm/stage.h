/* What the asks of a group that are still open want, and which rules are charged together for it.
 */
#ifndef WEIR_ALGORITHM_STAGE_H
#define WEIR_ALGORITHM_STAGE_H

#include "algorithm/algorithm.h"

/* Whether some take is open. */
bool weir_stage_has_takes(const weir_machine *machine);

/* Whether some open ask is about rule i. */
bool weir_stage_concerns(const weir_machine *machine, size_t i);

/* What the open takes cost together under rule i. */
int64_t weir_stage_cost(const weir_machine *machine, size_t i);

/* Finds the first stage from `stage` on under which the open takes want to charge something, and
 * answers its rules, one bit each; 0: no stage is left. */
unsigned weir_stage_find(const weir_machine *machine, unsigned *stage);

#endif
