#include "policy/policy.h"

#include "rule/parse.h"

bool weir_policy_answers(weir_fallback fallback, weir_status status) {
  if (fallback == WEIR_FALLBACK_NONE || status == WEIR_OK) return false;
  return status == WEIR_TIMEOUT || status == WEIR_CONTENDED ||
         weir_status_classify(status) == WEIR_CLASS_STORE;
}

/* --- shares ------------------------------------------------------------------------------------
 */

static int64_t share_of(int64_t number, uint32_t peers) {
  int64_t part = number / peers;
  return part > 1 ? part : 1;
}

/* A rate that was rounded down fills a burst more slowly: what then takes longer than any bucket
 * may is cut. A slower rate than one that was accepted needs no finer unit. No bucket is faster
 * than 1025 per microsecond: the product is below 2^55. */
static void measure(weir_rule *rule) {
  int64_t most = WEIR_PERIOD_MOST_US / rule->period_us * rule->limit;
  if (rule->burst > most) rule->burst = most;
  weir_bucket_measure(rule, NULL);
}

/* Names keep apart what differed by its layout alone; rules that share a log go on to share it.
 * They are the share's own business: nobody else reads its store. */
static void name_it(weir_rule *rule, size_t i) {
  rule->name[0] = (char)(weir_rule_takes_one(rule) ? '0' : '1' + i);
  rule->name[1] = '\0';
}

void weir_policy_share(const weir_stack *rules, uint32_t peers, weir_stack *share) {
  *share = *rules;
  for (size_t i = 0; i < share->count; i++) {
    weir_rule *rule = &share->rules[i];
    rule->limit = share_of(rule->limit, peers);
    if (rule->burst > 0) rule->burst = share_of(rule->burst, peers);
    rule->lease_us = rule->reserve = 0; /* nobody else charges the share */
    if (weir_rule_moves_in_time(rule)) measure(rule);
    name_it(rule, i);
  }
  weir_stack_lay_out(share, 1, NULL);
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

void weir_policy_soften(weir_decision *decision) {
  if (decision->retry_after_us != WEIR_NEVER) return;
  decision->remaining = 0;
  decision->retry_after_us = decision->reset_after_us = WEIR_POLICY_RETRY_US;
}
