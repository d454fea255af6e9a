/* Holds each decision against an exact sliding window. */
#include "simulate/measure.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "wide.h"

enum { ROOM_LEAST = 4, ROOM_KEPT = 64 };

void weir_stamps_clean_up(weir_stamps *stamps) {
  free(stamps->stamps);
  *stamps = (weir_stamps){0};
}

void weir_stamps_clear(weir_stamps *stamps) {
  stamps->first = stamps->end = 0;
  stamps->counted = stamps->admitted = 0;
  if (stamps->room > ROOM_KEPT) weir_stamps_clean_up(stamps);
}

void weir_stamps_slide(weir_stamps *stamps, int64_t now_us, int64_t period_us) {
  while (stamps->first < stamps->end) {
    const weir_stamp *oldest = &stamps->stamps[stamps->first];
    if (oldest->at_us > now_us - period_us) return;
    stamps->counted -= oldest->counted;
    stamps->admitted -= oldest->admitted;
    stamps->first++;
  }
}

bool weir_stamps_add(weir_stamps *stamps, int64_t now_us, int64_t counted, int64_t admitted) {
  weir_stamp *last = stamps->first < stamps->end ? &stamps->stamps[stamps->end - 1] : NULL;
  stamps->counted += counted;
  stamps->admitted += admitted;
  if (last != NULL && last->at_us == now_us) {
    last->counted += counted;
    last->admitted += admitted;
    return true;
  }
  if (!weir_array_make_room(&stamps->stamps, &stamps->first, &stamps->end, &stamps->room,
                            sizeof *stamps->stamps, ROOM_LEAST))
    return false;
  stamps->stamps[stamps->end++] =
      (weir_stamp){.at_us = now_us, .counted = counted, .admitted = admitted};
  return true;
}

/* --- one decision -------------------------------------------------------------------------------
 */

void weir_exact_clean_up(weir_exact *exact) {
  weir_stamps_clean_up(&exact->ruled);
  weir_stamps_clean_up(&exact->own);
  for (int i = 0; i <= WEIR_CLASSES_MOST; i++)
    weir_stamps_clean_up(&exact->classes[i]);
}

void weir_exact_clear(weir_exact *exact) {
  weir_stamps_clear(&exact->ruled);
  weir_stamps_clear(&exact->own);
  for (int i = 0; i <= WEIR_CLASSES_MOST; i++)
    weir_stamps_clear(&exact->classes[i]);
}

bool weir_measure_has_estimate(const weir_rule *rule) {
  return weir_rule_keeps_counts(rule);
}

/* A class has the same part of the limit as of what is admitted at once, which of a bucket is not the limit. */
int64_t weir_measure_limit(const weir_rule *rule, unsigned class) {
  if (class == 0) return rule->limit;
  int64_t limit =
      (int64_t)((weir_wide)rule->limit * weir_rule_capacity_of(rule, class) / rule->capacity);
  return limit > 0 ? limit : 1;
}

/* Whether every rule of the stack has room for the cost, after what its window holds. */
static bool fits_all(const weir_stack *stack, const weir_exact *exact, bool own,
                     const weir_measured *request) {
  for (size_t i = 0; i < stack->count; i++) {
    int64_t counted = own ? exact[i].own.counted : exact[i].ruled.counted;
    if (counted + request->cost > weir_measure_limit(&stack->rules[i], request->class))
      return false;
  }
  return true;
}

bool weir_measure_counts(const weir_rule *rule, int64_t cost, bool allowed) {
  return allowed || (rule->count_all && cost <= rule->limit);
}

/* Writes the request into one of the two histories, in every rule's window. */
static bool write_down(const weir_stack *stack, weir_exact *exact, bool own, int64_t now_us,
                       int64_t cost, bool admitted) {
  for (size_t i = 0; i < stack->count; i++) {
    weir_stamps *stamps = own ? &exact[i].own : &exact[i].ruled;
    if (!weir_measure_counts(&stack->rules[i], cost, admitted)) continue;
    if (!weir_stamps_add(stamps, now_us, cost, admitted ? cost : 0)) return false;
  }
  return true;
}

int64_t weir_measure_truth(const weir_rule *rule, unsigned class, const weir_stamps *ruled) {
  int64_t visible = weir_measure_limit(rule, class);
  if (class == 0 && ruled->admitted > visible) visible = ruled->admitted;
  return ruled->counted < visible ? ruled->counted : visible;
}

/* --- classes ------------------------------------------------------------------------------------
 */

/* How long ago a charge may be that a request meets now: cells that have not left, or what has not drained
 * of a full bucket. A fixed window begins with the clock, one of a quota a period ago at the earliest. */
static int64_t charged_for_us(const weir_rule *rule, int64_t now_us) {
  if (weir_rule_moves_in_time(rule))
    return (int64_t)((weir_wide)rule->burst * rule->period_us / rule->limit) +
           rule->period_us / rule->limit + 1;
  if (weir_rule_has_cells(rule)) return rule->period_us + rule->cell_us;
  bool by_clock = !weir_rule_slides(rule) && !weir_rule_opens_windows(rule);
  return by_clock ? now_us % rule->period_us + 1 : rule->period_us;
}

/* Let the classes above k have charged u. Then u + cost <= L_h - L_k is admitted of class h, whatever classes up
 * to k ask. Whether one k shows that the request must be admitted by this rule. */
static bool is_kept(const weir_rule *rule, const weir_exact *exact, size_t class_count,
                    const weir_measured *request) {
  int64_t used = 0, all = weir_rule_capacity_of(rule, request->class);
  for (unsigned k = (unsigned)class_count; k >= 1; k--) {
    used += exact->classes[k == class_count ? 0 : k + 1].admitted;
    bool below = request->class == 0 || k < request->class;
    if (below && used + request->cost <= all - weir_rule_capacity_of(rule, k)) return true;
  }
  return false;
}

static bool measure_class(weir_measure *measure, const weir_stack *stack, weir_exact *exact,
                          const weir_measured *request, bool allowed) {
  weir_class_measure *own = &measure->classes[request->class];
  bool kept = true;
  own->requests++;
  own->allowed += allowed;
  own->cost += request->cost;
  own->cost_allowed += allowed ? request->cost : 0;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    int64_t for_us = charged_for_us(rule, request->now_us);
    for (size_t j = 0; j <= stack->class_count; j++)
      weir_stamps_slide(&exact[i].classes[j], request->now_us, for_us);
    kept = kept && is_kept(rule, &exact[i], stack->class_count, request);
    if (allowed && !weir_stamps_add(&exact[i].classes[request->class], request->now_us,
                                    request->cost, request->cost))
      return false;
  }
  if (!allowed && kept) own->cost_kept_denied += request->cost;
  return true;
}

/* The most that was ever admitted: of several rules, under the one that was filled most. */
static void note_most(weir_measure *measure, const weir_stack *stack, const weir_exact *exact,
                      const weir_measured *request) {
  size_t length = request->key_length;
  if (length > WEIR_SHOWN_KEY_BYTES - 1) length = WEIR_SHOWN_KEY_BYTES - 1;
  for (size_t i = 0; i < stack->count; i++) {
    int64_t limit = stack->rules[i].limit, admitted = exact[i].ruled.admitted;
    if ((weir_wide)measure->most_admitted * limit >=
        (weir_wide)admitted * (measure->most_limit + !measure->most_limit))
      continue;
    measure->most_admitted = admitted;
    measure->most_limit = limit;
    measure->most_admitted_us = request->now_us;
    memcpy(measure->most_admitted_key, request->key, length);
    measure->most_admitted_key[length] = '\0';
  }
}

/* The amount that the rule that decides takes for used, against what is. */
static void note_error(weir_measure *measure, const weir_stack *stack, const weir_exact *exact,
                       const weir_measured *request, const weir_decision *decision) {
  const weir_rule *rule = &stack->rules[decision->rule];
  if (!weir_measure_has_estimate(rule) || decision->remaining == WEIR_NOT_KNOWN) return;
  int64_t truth = weir_measure_truth(rule, request->class, &exact[decision->rule].ruled);
  int64_t error = weir_measure_limit(rule, request->class) - decision->remaining - truth;
  if (error < 0) error = -error;
  measure->errors++;
  measure->error_sum += (double)error / (double)rule->limit;
  measure->error_bins[error > 2 * rule->limit
                          ? WEIR_ERROR_BINS - 1
                          : (int64_t)((weir_wide)error * WEIR_ERROR_STEPS / rule->limit)]++;
}

bool weir_measure_decision(weir_measure *measure, const weir_stack *stack, weir_exact *exact,
                           const weir_measured *request, const weir_decision *decision) {
  bool allowed = decision->allowed;
  int64_t now_us = request->now_us, cost = request->cost;
  for (size_t i = 0; i < stack->count; i++) {
    weir_stamps_slide(&exact[i].ruled, now_us, stack->rules[i].period_us);
    weir_stamps_slide(&exact[i].own, now_us, stack->rules[i].period_us);
  }
  measure->requests++;
  measure->cost += cost;
  measure->local += decision->source == WEIR_SOURCE_LOCAL;
  measure->allowed += allowed;
  measure->cost_allowed += allowed ? cost : 0;
  if (stack->class_count > 0 && !measure_class(measure, stack, exact, request, allowed))
    return false;

  /* Against the exact window on the rule's own history. */
  bool fits = fits_all(stack, exact, false, request);
  if (allowed && !fits) {
    measure->wrongly_allowed++;
    measure->cost_wrongly_allowed += cost;
  } else if (!allowed && fits) {
    measure->wrongly_denied++;
    measure->cost_wrongly_denied += cost;
  }
  if (!write_down(stack, exact, false, now_us, cost, allowed)) return false;
  note_most(measure, stack, exact, request);
  note_error(measure, stack, exact, request, decision);

  /* Against the exact window on its own history. */
  fits = fits_all(stack, exact, true, request);
  measure->differing += fits != allowed;
  measure->cost_exactly_allowed += fits ? cost : 0;
  return write_down(stack, exact, true, now_us, cost, fits);
}

int weir_measure_error_p99(const weir_measure *measure) {
  uint64_t above = 0;
  int bin = WEIR_ERROR_BINS - 1;
  while (bin > 0 && above + measure->error_bins[bin] <= measure->errors / 100)
    above += measure->error_bins[bin--];
  return bin;
}
