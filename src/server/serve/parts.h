/* Envoy's parts, once they are decided: what the answer comes to, and what goes back because of it.
 *
 * Hits go back where a part has said so, and what others' denial made useless where the domain does. That asks
 * the store, a round trip for each, so it is done where its requests were. */
#ifndef WEIR_SERVE_PARTS_H
#define WEIR_SERVE_PARTS_H

#include "serve/tick.h"

/* As the store says it; where requests_per_unit is 0, as if it said so. One of a set that has not been
 * charged, as others deny, is not over. */
weir_status weir_part_read(const weir_tick *tick, const weir_part *part, weir_decision *decision);

/* Whether it is over its limit, and the answer with it: not in shadow mode. */
bool weir_part_is_over(const weir_tick *tick, const weir_part *part, weir_status status,
                       const weir_decision *decision);

/* Whether any part of the answer had its end before it was decided: all have one. */
bool weir_parts_are_expired(const weir_tick *tick, const weir_answer *answer);

/* Whether something may have to go back of parts that are all decided. */
bool weir_parts_may_return(const weir_tick *tick, const weir_answer *answer);

/* Has it go back, and notes what became of it. May wait for the store. */
void weir_parts_return(weir_tick *tick, weir_answer *answer);

#endif
