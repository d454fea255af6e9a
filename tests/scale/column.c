#include "scale/column.h"

#include <stdlib.h>

bool column_add(struct column *column, int64_t number) {
  if (column->count == column->room) {
    size_t room = column->room == 0 ? 1024 : 2 * column->room;
    int64_t *larger = realloc(column->numbers, room * sizeof *larger);
    if (larger == NULL) return false;
    column->numbers = larger;
    column->room = room;
  }
  column->numbers[column->count++] = number;
  return true;
}

static int by_size(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

void column_sort(struct column *column) {
  if (column->count > 0) qsort(column->numbers, column->count, sizeof *column->numbers, by_size);
}

int64_t column_at_percent(const struct column *sorted, size_t percent) {
  return sorted->count == 0 ? 0 : sorted->numbers[(sorted->count - 1) * percent / 100];
}

/* In units of a token: the period. */
int64_t column_most_of_bucket(const struct column *sorted, int64_t limit, int64_t period_us) {
  int64_t level = 0, most = 0;
  for (size_t i = 0; i < sorted->count; i++) {
    int64_t since_us = i == 0 ? 0 : sorted->numbers[i] - sorted->numbers[i - 1];
    level = since_us * limit < level ? level - since_us * limit : 0;
    level += period_us;
    if (level > most) most = level;
  }
  return (most + period_us - 1) / period_us;
}

int64_t column_most_of_window(const struct column *sorted, int64_t period_us) {
  size_t first = 0, most = 0;
  for (size_t i = 0; i < sorted->count; i++) {
    while (sorted->numbers[i] - sorted->numbers[first] >= period_us)
      first++;
    if (i + 1 - first > most) most = i + 1 - first;
  }
  return (int64_t)most;
}
