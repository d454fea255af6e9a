/* What requests say of themselves: class, limit and tenant, beside what is asked. */
#include <string.h>

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

/* What the file says is dropped where this limiter, of a tier, has none of it. */
static void add_given(weir_order_says *says, const weir_named *named, const weir_limiter *limiter,
                      bool is_shared) {
  const char *other = named->config->class_else;
  char lowest[WEIR_CLASS_NAME_BYTES];
  if (says->class_length == 0 && other != NULL) {
    says->class_length = strlen(other);
    says->class_is_given = true;
    memcpy(says->class_name, other, says->class_length + 1);
  }
  if (says->class_is_given && weir_limiter_read_class(limiter, 0, lowest) != WEIR_OK)
    says->class_length = 0;
  if (says->tenant_is_given && !is_shared) says->tenant_length = 0;
}

weir_status weir_turn_add_extra(weir_turn *turn, const weir_order_says *says, weir_limiter *limiter,
                                size_t *extra, weir_message *why) {
  if (!weir_array_grow(&turn->extras, &turn->extra_room, turn->extra_count + 1,
                       sizeof *turn->extras))
    return weir_turn_no_memory(why);
  *extra = turn->extra_count++;
  turn->extras[*extra].says = *says;
  return weir_limiter_check_extra(limiter, write_extra(&turn->extras[*extra]), why);
}

/* Where a list answers, or a tier without a rule, nobody asks what is said. */
weir_status weir_turn_say(weir_turn *turn, const weir_order_says *said, const weir_named *named,
                          weir_limiter *limiter, size_t *extra, weir_message *why) {
  *extra = WEIR_NO_EXTRA;
  if (limiter == NULL ||
      (said == NULL && named->config->class_else == NULL && !named->needs_tenant))
    return WEIR_OK;
  bool is_shared = named->needs_tenant && weir_limiter_check_extra(limiter, NULL, NULL) != WEIR_OK;
  weir_order_says says = {.limit = 0};
  if (said != NULL) says = *said;
  add_given(&says, named, limiter, is_shared);
  if (!is_shared || says.tenant_length > 0)
    return weir_turn_add_extra(turn, &says, limiter, extra, why);
  *why = (weir_message){"tenant: this limiter is shared by tenants, and the request names none"};
  return WEIR_BAD_ARGUMENT;
}

const weir_extra *weir_turn_write_extra(const weir_turn *turn, size_t extra) {
  return write_extra(&turn->extras[extra]);
}

void weir_turn_tell_extra(const weir_turn *turn, const weir_asked *one, weir_reply *reply) {
  if (one->extra == WEIR_NO_EXTRA) return;
  const weir_order_says *says = &turn->extras[one->extra].says;
  if (says->class_length > 0) reply->of.class_name = says->class_name;
  if (says->tenant_length > 0) reply->of.tenant = says->tenant;
  reply->of.tenant_length = says->tenant_length;
}
