#include "faults/bound.h"

#include <stdint.h>
#include <stdlib.h>

#include "faults/ground.h"

promise promise_of(const weir_rule *rule, int64_t holders, int64_t in_vain, int64_t per_loss) {
  bool is_bucket = weir_rule_moves_in_time(rule);
  bool is_estimate = rule->kind == WEIR_SLIDING_WINDOW && rule->cells < 4 && !rule->strict;
  int64_t most = is_bucket     ? rule->burst + in_vain
                 : is_estimate ? 2 * rule->limit
                               : weir_rule_upper(rule);
  return (promise){
      .is_bucket = is_bucket,
      .is_aligned = rule->kind == WEIR_FIXED_WINDOW,
      .most = holders * most,
      .per_loss = per_loss,
      .limit = holders * rule->limit,
      .period_us = rule->period_us,
  };
}

promise promise_of_accounts(const weir_rule *rule, int64_t processes, int64_t cost) {
  promise given = promise_of(rule, 1, 0, 0);
  given.most = given.most * 3 / 2 + processes * cost;
  given.limit = given.limit * 3 / 2;
  return given;
}

static int by_stamp(const void *left, const void *right) {
  int64_t a = ((const admission *)left)->at_us;
  int64_t b = ((const admission *)right)->at_us;
  return (a > b) - (a < b);
}

static int by_end(const void *left, const void *right) {
  int64_t a = ((const loss *)left)->to_us;
  int64_t b = ((const loss *)right)->to_us;
  return (a > b) - (a < b);
}

static int by_number(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* Intervals begin with an admission and end with one. Among those that begin after the same losses,
 * a window's worst is the longest; a bucket's is the one with the lowest sum of what was admitted
 * before it, less what was refilled before it. */
typedef struct search {
  const promise *given;
  const admission *admissions;
  const loss *losses;
  int64_t *begins; /* of the losses, sorted */
  int64_t *before; /* sum of all admissions before each */
  size_t *first;   /* per number of losses that are over: the best admission to begin with, or
                      SIZE_MAX */
  size_t loss_count;
  worst found;
} search;

/* The weight of an interval, times the period for a bucket. */
static int64_t weigh(const search *s, size_t first, size_t last) {
  const admission *a = s->admissions;
  int64_t sum = s->before[last] + a[last].cost - s->before[first];
  if (!s->given->is_bucket) return sum;
  return sum * s->given->period_us - (a[last].at_us - a[first].at_us) * s->given->limit;
}

static void look_at(search *s, size_t first, size_t last, size_t touched) {
  const promise *given = s->given;
  const admission *a = s->admissions;
  int64_t k = (int64_t)touched;
  int64_t most = given->most * (k + 1) + given->per_loss * k;
  int64_t unit = given->is_bucket ? given->period_us : 1;
  int64_t excess = weigh(s, first, last) - most * unit;
  if (s->found.admitted > 0 && excess <= s->found.excess) return;
  int64_t refilled =
      given->is_bucket ? (a[last].at_us - a[first].at_us) * given->limit / given->period_us : 0;
  s->found = (worst){.admitted = s->before[last] + a[last].cost - s->before[first],
                     .bound = most + refilled,
                     .excess = excess};
}

static bool too_early(const search *s, size_t first, size_t last) {
  const promise *given = s->given;
  int64_t from_us = s->admissions[first].at_us;
  int64_t to_us = s->admissions[last].at_us;
  if (given->is_bucket) return false;
  if (given->is_aligned) return from_us / given->period_us != to_us / given->period_us;
  return to_us - from_us >= given->period_us;
}

/* For a bucket, at whatever admission the interval ends; a window's beginnings are tried in order.
 */
static bool is_better_start(const search *s, size_t old, size_t fresh) {
  const promise *given = s->given;
  const admission *a = s->admissions;
  return given->is_bucket && (a[fresh].at_us - a[old].at_us) * given->limit >
                                 (s->before[fresh] - s->before[old]) * given->period_us;
}

static void search_all(search *s, size_t count) {
  size_t over = 0;  /* losses that ended before this stamp */
  size_t begun = 0; /* losses that began with it or before */
  for (size_t last = 0; last < count; last++) {
    int64_t at_us = s->admissions[last].at_us;
    while (over < s->loss_count && s->losses[over].to_us < at_us)
      over++;
    while (begun < s->loss_count && s->begins[begun] <= at_us)
      begun++;
    size_t *first = &s->first[over];
    if (*first == SIZE_MAX || is_better_start(s, *first, last)) *first = last;
    for (size_t level = 0; level <= over; level++) {
      size_t *start = &s->first[level];
      while (*start != SIZE_MAX && *start < last && too_early(s, *start, last))
        (*start)++;
      if (*start != SIZE_MAX) look_at(s, *start, last, begun - level);
    }
  }
}

worst find_worst(const promise *given, admission *admissions, size_t count, loss *losses,
                 size_t loss_count) {
  search s = {.given = given,
              .admissions = admissions,
              .losses = losses,
              .loss_count = loss_count,
              .begins = calloc(loss_count + 1, sizeof *s.begins),
              .before = calloc(count + 1, sizeof *s.before),
              .first = calloc(loss_count + 1, sizeof *s.first)};
  if (s.begins == NULL || s.before == NULL || s.first == NULL) give_up("no memory");
  if (count > 0) qsort(admissions, count, sizeof *admissions, by_stamp);
  if (loss_count > 0) qsort(losses, loss_count, sizeof *losses, by_end);
  for (size_t i = 0; i < loss_count; i++)
    s.begins[i] = losses[i].from_us;
  qsort(s.begins, loss_count, sizeof *s.begins, by_number);
  for (size_t i = 0; i < count; i++)
    s.before[i + 1] = s.before[i] + admissions[i].cost;
  for (size_t i = 0; i <= loss_count; i++)
    s.first[i] = SIZE_MAX;
  search_all(&s, count);
  free(s.begins);
  free(s.before);
  free(s.first);
  return s.found;
}
