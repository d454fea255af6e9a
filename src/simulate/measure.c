/* Holds each decision against an exact sliding window. */
#include "simulate/measure.h"

#include <string.h>

void weir_exact_clean_up(weir_exact *exact) {
  weir_stamps_clean_up(&exact->ruled);
  weir_stamps_clean_up(&exact->own);
}

bool weir_measure_has_estimate(const weir_rule *rule) {
  return weir_rule_keeps_counts(rule);
}

static void compare(weir_measure *measure, const weir_rule *rule, int64_t before, int64_t cost,
                    bool allowed) {
  bool fits = before + cost <= rule->limit;
  if (allowed && !fits) {
    measure->wrongly_allowed++;
    measure->cost_wrongly_allowed += cost;
  } else if (!allowed && fits) {
    measure->wrongly_denied++;
    measure->cost_wrongly_denied += cost;
  }
}

/* With count=all a denied request counts as well, unless it never fits. */
static bool counts_denied(const weir_rule *rule, int64_t cost) {
  return rule->count_all && cost <= rule->limit;
}

static bool ask_exact(weir_measure *measure, const weir_rule *rule, weir_stamps *own,
                      int64_t now_us, int64_t cost, bool allowed) {
  weir_stamps_slide(own, now_us, rule->period_us);
  bool fits = own->counted + cost <= rule->limit;
  measure->differing += fits != allowed;
  if (fits) measure->cost_exactly_allowed += cost;
  if (!fits && !counts_denied(rule, cost)) return true;
  return weir_stamps_add(own, now_us, cost, fits ? cost : 0);
}

static void note_most(weir_measure *measure, int64_t admitted, int64_t now_us, const char *key,
                      size_t key_length) {
  if (admitted <= measure->most_admitted) return;
  size_t shown = key_length < WEIR_SHOWN_KEY_BYTES - 1 ? key_length : WEIR_SHOWN_KEY_BYTES - 1;
  measure->most_admitted = admitted;
  measure->most_admitted_us = now_us;
  memcpy(measure->most_admitted_key, key, shown);
  measure->most_admitted_key[shown] = '\0';
}

static void note_error(weir_measure *measure, const weir_rule *rule, int64_t truth,
                       const weir_decision *decision) {
  if (!weir_measure_has_estimate(rule) || decision->remaining == WEIR_NOT_KNOWN) return;
  int64_t error = rule->limit - decision->remaining - truth;
  if (error < 0) error = -error;
  int64_t bin =
      error > 2 * rule->limit ? WEIR_ERROR_BINS - 1 : error * WEIR_ERROR_STEPS / rule->limit;
  measure->errors++;
  measure->error_sum += error;
  measure->error_bins[bin]++;
}

bool weir_measure_decision(weir_measure *measure, const weir_rule *rule, weir_exact *exact,
                           int64_t now_us, const char *key, size_t key_length, int64_t cost,
                           const weir_decision *decision) {
  measure->requests++;
  measure->cost += cost;
  measure->local += decision->source == WEIR_SOURCE_LOCAL;
  weir_stamps_slide(&exact->ruled, now_us, rule->period_us);
  compare(measure, rule, exact->ruled.counted, cost, decision->allowed);
  if (decision->allowed) {
    measure->allowed++;
    measure->cost_allowed += cost;
  }
  if ((decision->allowed || counts_denied(rule, cost)) &&
      !weir_stamps_add(&exact->ruled, now_us, cost, decision->allowed ? cost : 0))
    return false;
  note_most(measure, exact->ruled.admitted, now_us, key, key_length);
  note_error(measure, rule, exact->ruled.counted, decision);
  return ask_exact(measure, rule, &exact->own, now_us, cost, decision->allowed);
}

int weir_measure_error_p99(const weir_measure *measure) {
  uint64_t above = 0;
  int bin = WEIR_ERROR_BINS - 1;
  while (bin > 0 && above + measure->error_bins[bin] <= measure->errors / 100)
    above += measure->error_bins[bin--];
  return bin;
}
