/* Times that are collected and then sorted: how long requests waited, when each was admitted. */
#ifndef TESTS_SCALE_COLUMN_H
#define TESTS_SCALE_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed, it is empty; its owner frees `numbers`. */
struct column {
  int64_t *numbers;
  size_t count;
  size_t room;
};

/* False: no memory. */
bool column_add(struct column *column, int64_t number);

void column_sort(struct column *column);

/* The number below which that many of 100 are; 0 if there are none. For a sorted column, as all that
 * follow. */
int64_t column_at_percent(const struct column *sorted, size_t percent);

/* The most that a bucket holds which each time adds one to, and which drains by `limit` a period:
 * rounded up. */
int64_t column_most_of_bucket(const struct column *sorted, int64_t limit, int64_t period_us);

/* The most in any period, of which one end belongs to it. */
int64_t column_most_of_window(const struct column *sorted, int64_t period_us);

#endif
