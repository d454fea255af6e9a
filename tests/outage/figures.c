#include "outage/figures.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "faults/ground.h"

enum { NO_GOAL = -1, RETURN_US = 500000, FIRST_ANSWER_MS = 30 };

static const double SHARES_MOST = 1.1;

struct report {
  struct figure *figures;
  size_t count;
};

static struct figure *add(struct report *report, const struct lane *lane, const char *what,
                          const char *unit) {
  struct figure *figure = &report->figures[report->count++];
  *figure = (struct figure){.unit = unit, .worst = NO_GOAL, .median = NO_GOAL};
  snprintf(figure->name, sizeof figure->name, "%s%s", lane->name, what);
  return figure;
}

static double goal_of(double goal) {
  return goal > 0 ? goal : NO_GOAL;
}

static int64_t window_at(const struct tally *tally, int64_t at_us) {
  int64_t window = (at_us - tally->origin_us) / WINDOW_US;
  return window < WINDOWS_MOST ? window : WINDOWS_MOST - 1;
}

/* --- totals --------------------------------------------------------------------------------------
 */

struct worst_cell {
  int64_t total, by_store, by_policy, window;
  int key;
};

static struct worst_cell find_worst(struct tally *tally, const struct lane *lane, size_t number,
                                    int64_t first, int64_t last) {
  struct worst_cell worst = {0};
  for (int key = 0; key < lane_keys(lane); key++)
    for (int64_t window = first; window <= last; window++) {
      const struct cell *cell = &tally->cells[number][key][window];
      int64_t total = cell->by_store + cell->by_policy;
      if (total > worst.total)
        worst = (struct worst_cell){total, cell->by_store, cell->by_policy, window, key};
    }
  return worst;
}

static void add_window_total(struct report *report, struct tally *tally,
                             const struct fault_course *course, const struct lane *lane,
                             size_t number) {
  int64_t fault_window = window_at(tally, course->begin_us);
  /* Without the first, in which buckets are full. */
  struct worst_cell before = find_worst(tally, lane, number, 1, fault_window - 1);
  struct worst_cell worst = find_worst(tally, lane, number, fault_window, WINDOWS_MOST - 1);
  struct figure *figure = add(report, lane, "", "L");
  bool is_more = lane->is_beside_before && before.total > lane->limit;
  figure->value = (double)worst.total / (double)(is_more ? before.total : lane->limit);
  figure->worst = goal_of(lane->worst);
  figure->median = goal_of(lane->median);
  snprintf(figure->text, sizeof figure->text,
           "window %+" PRId64 ": %" PRId64 " by the store, %" PRId64
           " by the policy; before at most %" PRId64 ", %" PRId64 " by the policy",
           worst.window - fault_window, worst.by_store, worst.by_policy, before.total,
           before.by_policy);
}

/* Adds the windows that the outage lasted, which only the policy admitted anything in. */
static void add_shortest(struct report *report, struct tally *tally,
                         const struct fault_course *course, const struct lane *lane,
                         size_t number) {
  int64_t least = lane->limit;
  for (int key = 0; key < lane_keys(lane); key++)
    for (int64_t window = window_at(tally, course->begin_us) + 1;
         window < window_at(tally, course->end_us); window++) {
      const struct cell *cell = &tally->cells[number][key][window];
      if (cell->by_store + cell->by_policy < least) least = cell->by_store + cell->by_policy;
    }
  struct figure *figure = add(report, lane, ", unused", "%");
  figure->value = 100 - 100 * (double)least / (double)lane->limit;
  figure->worst = lane->unused_percent;
}

/* A limit that a server forgot when it was killed may be admitted once more. */
static void add_day_total(struct report *report, struct tally *tally, const struct fault *fault,
                          const struct fault_course *course, const struct lane *lane,
                          size_t number) {
  int64_t total = tally_of_day(tally, number, false);
  int64_t by_store = tally_of_day(tally, number, true);
  int64_t counted = total;
  if (fault->kind == FAULT_KILL) {
    counted -= course->forgotten[number];
    if (counted < course->admitted_until_back[number])
      counted = course->admitted_until_back[number];
  }
  struct figure *figure = add(report, lane, "", "L");
  figure->value = (double)counted / (double)lane->limit;
  figure->worst = goal_of(lane->worst);
  figure->median = goal_of(lane->median);
  int length =
      snprintf(figure->text, sizeof figure->text,
               "%" PRId64 " by the store, %" PRId64 " by the policy", by_store, total - by_store);
  if (fault->kind == FAULT_KILL && length > 0)
    snprintf(figure->text + length, sizeof figure->text - (size_t)length,
             "; %" PRId64 " were forgotten, %" PRId64 " admitted until the return",
             course->forgotten[number], course->admitted_until_back[number]);
}

/* From the fault on, places of before it among them; and what the processes take to be their shares. */
static void add_held(struct report *report, struct tally *tally, const struct fault_course *course,
                     const struct lane *lane, size_t number) {
  const struct answers *answers = &tally->answers[number];
  struct figure *most = add(report, lane, ", held at once", "L");
  struct most_held held = tally_most_held(tally, number, course->begin_us);
  most->value = (double)held.all / (double)lane->limit;
  most->worst = goal_of(lane->worst);
  most->median = goal_of(lane->median);
  snprintf(most->text, sizeof most->text,
           "%" PRId64 " of %" PRId64 " by the policy, %" PRId64
           " ms after it began; in all: %" PRId64 " given, %" PRId64 " denied",
           held.by_policy, held.all, (held.at_us - course->begin_us) / 1000,
           answers->by_policy_allowed, answers->by_policy_denied);
  struct figure *shares = add(report, lane, ", sum of shares", "");
  for (size_t i = 0; i < PROCESSES; i++)
    shares->value += (double)tally->shares[number][i] / 1e6;
  *(lane->worst > 0 ? &shares->worst : &shares->median) = SHARES_MOST; /* few places say little */
}

/* --- denials, policies, times --------------------------------------------------------------------
 */

static void add_denied(struct report *report, struct tally *tally,
                       const struct fault_course *course, const struct lane *lane, size_t number) {
  int64_t due = 0;
  int64_t denied = 0;
  int64_t last = window_at(tally, course->end_us + RETURN_US);
  for (int key = 0; key < lane_keys(lane); key++)
    for (int64_t window = window_at(tally, course->begin_us); window <= last; window++) {
      due += tally->cells[number][key][window].due;
      denied += tally->cells[number][key][window].wrongly_denied;
    }
  struct figure *figure = add(report, lane, ", wrongly denied", "%");
  figure->value = due > 0 ? 100.0 * (double)denied / (double)due : 100;
  figure->worst = lane->denied_percent;
  const _Atomic int64_t *by = tally->answers[number].wrongly_denied;
  snprintf(figure->text, sizeof figure->text,
           "%" PRId64 " of %" PRId64 "; all later ones: %" PRId64 " by the store, %" PRId64
           " from local knowledge, %" PRId64 " away, %" PRId64 " late",
           denied, due, by[WEIR_SOURCE_STORE], by[WEIR_SOURCE_LOCAL], by[WEIR_SOURCE_FALLBACK],
           by[WEIR_SOURCE_LATE]);
}

static void add_policy(struct report *report, struct tally *tally, const struct lane *lane,
                       size_t number) {
  const struct answers *answers = &tally->answers[number];
  int64_t wrong = 0;
  if (lane->fallback == WEIR_FALLBACK_ALLOW)
    wrong = answers->by_policy_denied + answers->late_denied;
  else if (lane->fallback == WEIR_FALLBACK_DENY)
    wrong = answers->by_policy_allowed + answers->late_allowed;
  else
    wrong = answers->by_policy_allowed + answers->by_policy_denied + answers->late_allowed +
            answers->late_denied;
  struct figure *figure = add(report, lane, ", not as it says", "");
  figure->value = (double)wrong;
  figure->worst = 0;
  snprintf(figure->text, sizeof figure->text,
           "away: %" PRId64 " allowed, %" PRId64 " denied; late: %" PRId64 " allowed, %" PRId64
           " denied; %" PRId64 " errors",
           answers->by_policy_allowed, answers->by_policy_denied, answers->late_allowed,
           answers->late_denied, answers->errors);
}

static void add_times(struct report *report, struct tally *tally, const struct fault *fault,
                      const struct lane *lane, size_t number) {
  const struct answers *answers = &tally->answers[number];
  struct figure *first = add(report, lane, ", first answer by the policy", "ms");
  int64_t none_us = SECOND_US;
  first->value =
      (double)(tally->first_policy_us > 0 ? tally->first_policy_us - tally->fault_us : none_us) /
      1000;
  first->worst = FIRST_ANSWER_MS;
  struct figure *waits = add(report, lane, ", no waits after", "ms");
  struct waiting waiting = tally_waiting(tally, fault->length_us);
  waits->value = (double)waiting.end_us / 1000;
  waits->worst = (double)WAITS_END_US / 1000;
  snprintf(waits->text, sizeof waits->text, "%zu waited beside another later than that goal",
           waiting.late);
  struct figure *denied = add(report, lane, ", denied", "");
  denied->value = (double)(answers->late_denied + answers->by_policy_denied);
  denied->worst = 0;
  snprintf(denied->text, sizeof denied->text,
           "%" PRId64 " as late, %" PRId64 " as away; allowed: %" PRId64 " late, %" PRId64 " away",
           answers->late_denied, answers->by_policy_denied, answers->late_allowed,
           answers->by_policy_allowed);
}

size_t figures_of(struct tally *tally, const struct fault *fault, const struct fault_course *course,
                  const struct lane *const *lanes, size_t count,
                  struct figure figures[FIGURES_MOST]) {
  struct report report = {figures, 0};
  for (size_t i = 0; i < count; i++) {
    const struct lane *lane = lanes[i];
    if (lane->callers == CALLERS_HOLD)
      add_held(&report, tally, course, lane, i);
    else if (fault->kind == FAULT_STOP)
      add_times(&report, tally, fault, lane, i);
    else if (lane->is_day)
      add_day_total(&report, tally, fault, course, lane, i);
    else
      add_window_total(&report, tally, course, lane, i);
    if (lane->unused_percent > 0) add_shortest(&report, tally, course, lane, i);
    if (lane->denied_percent > 0) add_denied(&report, tally, course, lane, i);
    if (lane->fallback != WEIR_FALLBACK_LOCAL) add_policy(&report, tally, lane, i);
  }
  return report.count;
}

double figure_relaxed(const struct figure *figure, double goal) {
  double within = strcmp(figure->unit, "L") == 0 ? 1 : 0;
  return within + (goal - within) * 1.5;
}
