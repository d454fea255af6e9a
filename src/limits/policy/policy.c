#include "policy/policy.h"

bool weir_policy_answers(weir_fallback fallback, weir_status status) {
  if (fallback == WEIR_FALLBACK_NONE || status == WEIR_OK) return false;
  return status == WEIR_TIMEOUT || status == WEIR_CONTENDED ||
         weir_status_classify(status) == WEIR_CLASS_STORE;
}

/* --- answers -----------------------------------------------------------------------------------
 */

static size_t first_concerned(const weir_stack *rules, const int64_t *costs) {
  size_t i = 0;
  while (costs != NULL && costs[i] == 0 && i + 1 < rules->count)
    i++;
  return i;
}

weir_decision weir_policy_decide(weir_fallback fallback, weir_source source,
                                 const weir_stack *rules, int64_t cost, const int64_t *costs,
                                 int64_t now_us) {
  int64_t retry_us = source == WEIR_SOURCE_LATE ? WEIR_POLICY_LATE_RETRY_US : WEIR_POLICY_RETRY_US;
  bool allowed = fallback == WEIR_FALLBACK_ALLOW;
  size_t i = first_concerned(rules, costs);
  return (weir_decision){
      .allowed = allowed,
      .source = source,
      .rule = (uint32_t)i,
      .limit = weir_rule_capacity(&rules->rules[i]),
      .remaining = allowed ? WEIR_NOT_KNOWN : 0,
      .retry_after_us = allowed ? 0 : retry_us,
      .reset_after_us = allowed ? WEIR_NOT_KNOWN : retry_us,
      .cost = costs != NULL ? WEIR_OWN_COSTS : cost,
      .at_us = now_us,
  };
}
