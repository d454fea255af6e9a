/* What the rules of a limiter need of its store, and what they promise there. */
#include <weir/backend.h>
#include <weir/duration.h>
#include <weir/inspect.h>

#include "algorithm/method.h"
#include "doctor/inspect.h"
#include "limiter/limiter.h"

static void tell(const weir_inspect_plan *plan, weir_finding_level level, const char *topic,
                 const char *text) {
  const weir_finding finding = {.level = level, .topic = topic, .text = text};
  plan->tell(plan->context, &finding);
}

/* What a rule promises, in one sentence. A TTL is shown in whole seconds, rounded up. */
static void report_rule(const weir_limiter *limiter, size_t i, const weir_inspect_plan *plan) {
  const weir_rule *rule = &limiter->stack.rules[i];
  char period[WEIR_DURATION_BYTES];
  char ttl[WEIR_DURATION_BYTES];
  weir_message text;
  weir_duration_format(rule->period_us, period, sizeof period);
  weir_duration_format((weir_method_ttl_us(rule, &limiter->settings) + 999999) / 1000000 * 1000000,
                       ttl, sizeof ttl);
  if (weir_rule_moves_in_time(rule)) {
    weir_message_set(&text, "%s: at most %lld at once and %lld in %s; its keys live for up to %s",
                     weir_rule_kind_name(rule->kind), (long long)rule->burst,
                     (long long)rule->limit, period, ttl);
  } else if (weir_rule_is_held(rule)) {
    weir_message_set(&text,
                     "%s: at most %lld at once, what a dead process held free after %s; its "
                     "keys live for up to %s",
                     weir_rule_kind_name(rule->kind), (long long)rule->limit, period, ttl);
  } else {
    weir_message_set(&text, "%s: at most %lld in %s %s; its keys live for up to %s",
                     weir_rule_kind_name(rule->kind), (long long)weir_rule_bound(rule),
                     weir_rule_slides(rule) ? "any" : "a window of", period, ttl);
  }
  weir_message_prefix(&text, "%zu, ", i + 1);
  tell(plan, WEIR_FINDING_FACT, "rule", text.text);
}

weir_status weir_limiter_inspect(weir_limiter *limiter, int64_t timeout_us, weir_tell *report_to,
                                 void *context, weir_message *message) {
  if (limiter == NULL) {
    weir_message_set(message, "the limiter is NULL");
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status != WEIR_OK) return status;
  weir_inspect_worst worst = {0};
  weir_inspect_plan plan = {.timeout_us = timeout_us,
                            .deadline_us = limiter->deadline_us,
                            .clock_error_us = limiter->settings.clock_error_us,
                            .tell = report_to,
                            .context = context,
                            .worst = &worst};
  for (size_t i = 0; i < limiter->stack.count; i++)
    plan.needs |= weir_method_of(&limiter->stack.rules[i], limiter->settings.traits)->needs;
  status = weir_store_inspect_plan(limiter->store, &plan, message);
  if (status != WEIR_OK) return status;
  for (size_t i = 0; i < limiter->stack.count; i++)
    report_rule(limiter, i, &plan);
  const weir_probe all = {.store = limiter->store, .plan = &plan};
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (weir_rule_is_held(&limiter->stack.rules[i]))
      weir_inspect_report_held(&all, &limiter->stack.rules[i], i + 1);
  const char *warning;
  for (size_t i = 0; (warning = weir_limiter_warning_at(limiter, i)) != NULL; i++)
    tell(&plan, WEIR_FINDING_WARNING, "rule", warning);
  return WEIR_OK;
}
