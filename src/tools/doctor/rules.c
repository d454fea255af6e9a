/* What the rules of a limiter need of its store, and what they promise there. */
#include <weir/backend.h>
#include <weir/duration.h>
#include <weir/inspect.h>

#include "algorithm/in_flight.h"
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

/* --- in-flight rules ----------------------------------------------------------------------------
 *
 * Which periods of in-flight rules the clocks, the deadline and the round trips of a store allow
 * (docs/guarantees.md, "In flight"). Their counters live for three periods and are needed for little
 * more than one, so that TTLs of whole seconds are enough for the shortest. */

enum { KEYS_EACH = 64 /* in one round trip of a renewal */, TRIPS_LEAST = 2 };

/* Whole seconds, at least what is accepted. */
static int64_t round_up(int64_t us) {
  static const int64_t second_us = 1000000;
  if (us < WEIR_HELD_LEAST_US) us = WEIR_HELD_LEAST_US;
  return (us + second_us - 1) / second_us * second_us;
}

/* The least that is accepted with such a clock error. */
static int64_t least_us(const weir_inspect_plan *plan, int64_t clock_error_us) {
  return round_up(WEIR_HELD_MARGINS * (2 * clock_error_us + plan->deadline_us));
}

/* `what`: whose period it is, "" or ending in a blank. A server's clock stands for those of other
 * processes, where these are right. */
static void warn_of_clocks(const weir_probe *all, const char *what) {
  const weir_inspect_plan *plan = all->plan;
  int64_t off_us = (plan->worst->clock_off_us + 999) / 1000 * 1000;
  int64_t needed_us = least_us(plan, off_us);
  char period[WEIR_DURATION_BYTES];
  weir_message advice;
  weir_duration_format(needed_us, period, sizeof period);
  if (needed_us <= WEIR_HELD_MOST_US)
    weir_message_set(&advice, "with a clock error of %.0f ms periods from %s on hold",
                     (double)off_us / 1000, period);
  else
    weir_message_set(&advice, "no period of up to 1h holds so far apart");
  weir_probe_report(
      all, WEIR_FINDING_WARNING, "in flight",
      "%sclocks are %.0f ms apart or more, which is too far: if this machine's is the "
      "wrong one, more than the limit may be in flight at once; %s",
      what, (double)off_us / 1000, advice.text);
}

/* All rules that there may be. */
static void report_any(const weir_probe *all) {
  const weir_inspect_plan *plan = all->plan;
  char period[WEIR_DURATION_BYTES];
  if (plan->worst->clock_off_us > plan->clock_error_us) {
    warn_of_clocks(all, "");
    return;
  }
  weir_duration_format(least_us(plan, plan->clock_error_us), period, sizeof period);
  weir_probe_report(
      all, WEIR_FINDING_FACT, "in flight",
      "periods from %s to 1h are accepted with a deadline of %.0f ms and a clock error "
      "of %.0f ms",
      period, (double)plan->deadline_us / 1000, (double)plan->clock_error_us / 1000);
}

void weir_inspect_report_held(const weir_probe *all, const weir_rule *rule, size_t number) {
  const weir_inspect_plan *plan = all->plan;
  weir_settings settings = {.clock_error_us = plan->clock_error_us};
  char period[WEIR_DURATION_BYTES];
  weir_message what;
  if (rule == NULL) {
    report_any(all);
    return;
  }
  weir_settings_set_margins(&settings, plan->deadline_us);
  int64_t guard_us = weir_held_guard_us(rule, &settings);
  int64_t payment_us = guard_us + plan->deadline_us; /* from when it is due until it is too late */
  int64_t late_us = plan->worst->late_us > 0 ? plan->worst->late_us : 1;
  weir_message_set(&what, "%zu, ", number);
  if (plan->worst->clock_off_us + plan->clock_error_us > guard_us) {
    warn_of_clocks(all, what.text);
  } else if (payment_us / late_us < TRIPS_LEAST) {
    weir_duration_format(round_up(16 * (TRIPS_LEAST * late_us - plan->deadline_us)), period,
                         sizeof period);
    weir_probe_report(all, WEIR_FINDING_WARNING, "in flight",
                      "%sa payment has %.0f ms and a round trip takes %.0f ms at times, so that "
                      "places are lost now and then; take a period of %s or more",
                      what.text, (double)payment_us / 1000, (double)late_us / 1000, period);
  } else {
    weir_duration_format(least_us(plan, plan->clock_error_us), period, sizeof period);
    weir_probe_report(all, WEIR_FINDING_FACT, "in flight",
                      "%sa payment has %.0f ms, room for %lld round trips of up to %d keys each; a "
                      "period of %s would be enough",
                      what.text, (double)payment_us / 1000, (long long)(payment_us / late_us),
                      KEYS_EACH, period);
  }
}
