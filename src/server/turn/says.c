/* What requests say of themselves: class, limit and tenant, beside what is asked. */
#include <stdio.h>

#include "array.h"
#include "turn/turn.h"

/* The texts are those of `extra`, wherever it stands by now. */
static const weir_extra *write_extra(weir_asked_extra *extra) {
  const weir_order_says *says = &extra->says;
  extra->extra = (weir_extra){.size = sizeof extra->extra,
                              .class_name = says->class_length > 0 ? says->class_name : NULL,
                              .limit = says->limit,
                              .tenant = says->tenant_length > 0 ? says->tenant : NULL,
                              .tenant_length = says->tenant_length};
  return &extra->extra;
}

/* Where a list answers, or a tier without a rule, nobody asks what is said. */
weir_status weir_turn_say(weir_turn *turn, const weir_order_says *says, weir_limiter *limiter,
                          size_t *extra, weir_message *why) {
  *extra = WEIR_NO_EXTRA;
  if (limiter == NULL || says == NULL) return WEIR_OK;
  if (!weir_array_grow(&turn->extras, &turn->extra_room, turn->extra_count + 1,
                       sizeof *turn->extras))
    return weir_turn_no_memory(why);
  *extra = turn->extra_count++;
  turn->extras[*extra].says = *says;
  return weir_limiter_check_extra(limiter, write_extra(&turn->extras[*extra]), why);
}

const weir_extra *weir_turn_write_extra(const weir_turn *turn, size_t extra) {
  return write_extra(&turn->extras[extra]);
}
