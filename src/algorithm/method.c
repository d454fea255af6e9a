#include "algorithm/method.h"

const weir_method *weir_method_of(const weir_rule *rule) {
  static const weir_method *const methods[] = {
      [WEIR_FIXED_WINDOW] = &weir_window_method, [WEIR_SLIDING_WINDOW] = &weir_window_method,
      [WEIR_SLIDING_LOG] = &weir_log_method,     [WEIR_QUOTA] = &weir_quota_method,
      [WEIR_TOKEN_BUCKET] = &weir_bucket_method, [WEIR_LEAKY_BUCKET] = &weir_bucket_method,
  };
  return methods[rule->kind];
}

int64_t weir_plan_ttl(const weir_machine *machine, int64_t ttl_us) {
  int64_t least_us = machine->terms->least_ttl_us;
  if (ttl_us < least_us) ttl_us = least_us;
  return ttl_us < WEIR_TTL_MOST_US ? ttl_us : WEIR_TTL_MOST_US;
}

weir_action *weir_plan(weir_machine *machine, size_t i, weir_operation_kind kind, weir_place place,
                       int64_t index, int64_t ttl_us) {
  weir_action *action = &machine->actions[machine->action_count++];
  *action = (weir_action){
      .kind = kind,
      .rule = (uint32_t)i,
      .place = place,
      .index = index,
      .ttl_us = weir_plan_ttl(machine, ttl_us),
  };
  return action;
}
