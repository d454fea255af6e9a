/* The check of the fault matrix, held against one that tries every interval. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "faults/bound.h"
#include "faults/ground.h"

enum { MOST = 40, CASES = 4000 };

static int64_t excess_of(const promise *given, const admission *a, size_t first, size_t last,
                         const loss *losses, size_t loss_count) {
  int64_t sum = 0;
  int64_t touched = 0;
  for (size_t i = first; i <= last; i++)
    sum += a[i].cost;
  for (size_t i = 0; i < loss_count; i++)
    touched += losses[i].from_us <= a[last].at_us && losses[i].to_us >= a[first].at_us;
  int64_t most = given->most * (touched + 1) + given->per_loss * touched;
  if (!given->is_bucket) return sum - most;
  return (sum - most) * given->period_us - (a[last].at_us - a[first].at_us) * given->limit;
}

static bool counts_as_one(const promise *given, const admission *from, const admission *to) {
  if (given->is_bucket) return true;
  if (given->is_aligned) return from->at_us / given->period_us == to->at_us / given->period_us;
  return to->at_us - from->at_us < given->period_us;
}

static int64_t worst_by_trying(const promise *given, const admission *a, size_t count,
                               const loss *losses, size_t loss_count) {
  int64_t found = INT64_MIN;
  for (size_t first = 0; first < count; first++)
    for (size_t last = first; last < count; last++) {
      if (!counts_as_one(given, &a[first], &a[last])) continue;
      int64_t excess = excess_of(given, a, first, last, losses, loss_count);
      if (excess > found) found = excess;
    }
  return found;
}

static void every_interval_is_checked(void **state) {
  (void)state;
  uint64_t chance = 1;
  for (int i = 0; i < CASES; i++) {
    admission a[MOST];
    loss losses[MOST];
    size_t count = 1 + next_number(&chance) % MOST;
    size_t loss_count = next_number(&chance) % 6;
    for (size_t j = 0; j < count; j++)
      a[j] = (admission){.at_us = (int64_t)(next_number(&chance) % 200),
                         .cost = 1 + (int64_t)(next_number(&chance) % 3)};
    for (size_t j = 0; j < loss_count; j++) {
      losses[j].from_us = (int64_t)(next_number(&chance) % 200);
      losses[j].to_us = losses[j].from_us + (int64_t)(next_number(&chance) % 40);
    }
    const promise given = {.is_bucket = i % 3 == 0,
                           .is_aligned = i % 3 == 1,
                           .most = 1 + (int64_t)(next_number(&chance) % 20),
                           .per_loss = (int64_t)(next_number(&chance) % 3),
                           .limit = 1 + (int64_t)(next_number(&chance) % 9),
                           .period_us = 1 + (int64_t)(next_number(&chance) % 90)};
    worst found = find_worst(&given, a, count, losses, loss_count);
    assert_int_equal(found.excess, worst_by_trying(&given, a, count, losses, loss_count));
    assert_int_equal(found.admitted > found.bound, found.excess > 0);
  }
}

static void nothing_admitted_is_nothing_over(void **state) {
  (void)state;
  const promise given = {.most = 1, .limit = 1, .period_us = 1};
  assert_int_equal(find_worst(&given, NULL, 0, NULL, 0).admitted, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_interval_is_checked),
      cmocka_unit_test(nothing_admitted_is_nothing_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
