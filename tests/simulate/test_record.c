/* A record against plain arrays: what was added comes back, in order of time and key by key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "simulate/record.h"

/* More than are sorted at once, and one key that has more alone. */
enum { REQUESTS = 1400000, KEYS = 5000 };

struct plain {
  int64_t time_us, cost;
  uint32_t key;
};

static struct plain *requests;
static weir_record record;
static uint64_t late;
static int64_t latest_by;

static size_t name_key(uint32_t key, char *name) {
  memset(name, 'k', 300);
  size_t length = key % 7 == 0 ? 300 : 4; /* also longer than one byte says */
  memcpy(name, &key, sizeof key);
  return length;
}

static int set_up(void **state) {
  uint64_t random = 7;
  int64_t now_us = INT64_C(1700000000000000);
  (void)state;
  requests = malloc(REQUESTS * sizeof *requests);
  assert_non_null(requests);
  for (size_t i = 0; i < REQUESTS; i++) {
    char name[300];
    int64_t back_us = weir_random_below(&random, 50) == 0 ? 1500 : 0;
    now_us += weir_random_below(&random, 3) * (i % 2 == 0 ? 1000 : 777);
    int64_t cost = weir_random_below(&random, 9) == 0 ? INT64_C(1) << (i % 32) : 1;
    uint32_t key = i % 2 == 0 ? 0 : (uint32_t)weir_random_below(&random, KEYS);
    if (back_us > 0 && i > 0 && now_us - back_us < requests[i - 1].time_us) {
      int64_t by = requests[i - 1].time_us - (now_us - back_us);
      late++;
      if (by > latest_by) latest_by = by;
    } else {
      back_us = 0;
    }
    requests[i] = (struct plain){back_us > 0 ? requests[i - 1].time_us : now_us, cost, key};
    size_t length = name_key(key, name);
    assert_true(weir_record_add(&record, now_us - back_us, name, length, cost));
    now_us = requests[i].time_us;
  }
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  free(requests);
  weir_record_clean_up(&record);
  return 0;
}

static void requests_come_back_in_order_of_time(void **state) {
  weir_record_cursor cursor;
  weir_recorded request;
  (void)state;
  assert_int_equal(record.count, REQUESTS);
  assert_int_equal(record.out_of_order, late);
  assert_int_equal(record.furthest_us, latest_by);
  assert_true(late > 0);
  weir_record_begin(&record, &cursor);
  for (size_t i = 0; i < REQUESTS; i++) {
    char name[300];
    size_t length;
    assert_true(weir_record_next(&cursor, &request));
    assert_int_equal(request.time_us, requests[i].time_us);
    assert_int_equal(request.cost, requests[i].cost);
    const char *held = weir_record_name(&record, &record.keys[request.key], &length);
    assert_int_equal(length, name_key(requests[i].key, name));
    assert_memory_equal(held, name, length);
  }
  assert_false(weir_record_next(&cursor, &request));
}

/* One after the other, in the order in which they first asked. */
struct visited {
  size_t keys;
  uint64_t requests;
  size_t stop_after;
};

static bool visit(void *context, uint32_t key, const weir_record_reader *reader) {
  struct visited *visited = context;
  weir_record_reader copy = *reader;
  weir_record_request request;
  int64_t before_us = 0;
  uint64_t count = 0;
  while (weir_record_read(&copy, &request)) {
    assert_true(request.time_us >= before_us);
    before_us = request.time_us;
    count++;
  }
  assert_int_equal(count, record.keys[key].requests);
  visited->requests += count;
  return ++visited->keys != visited->stop_after;
}

static void keys_are_visited_with_all_that_they_asked(void **state) {
  struct visited all = {0}, some = {.stop_after = 3};
  (void)state;
  assert_true(weir_record_visit(&record, -1, visit, &all));
  assert_int_equal(all.keys, record.key_count);
  assert_int_equal(all.requests, REQUESTS);
  assert_true(weir_record_visit(&record, -1, visit, &some));
  assert_int_equal(some.keys, 3);
}

static int64_t peak_of(uint32_t key, int64_t period_us) {
  int64_t most = 0, sum = 0;
  size_t first = 0;
  for (size_t i = 0; i < REQUESTS; i++) {
    if (requests[i].key != key) continue;
    sum += requests[i].cost;
    for (; requests[first].time_us <= requests[i].time_us - period_us; first++)
      sum -= requests[first].key == key ? requests[first].cost : 0;
    if (sum > most) most = sum;
  }
  return most;
}

static void peaks_are_those_of_any_period(void **state) {
  (void)state;
  for (int64_t period_us = 1000; period_us < INT64_C(100000000); period_us *= 300) {
    assert_true(weir_record_find_peaks(&record, period_us));
    for (uint32_t key = 0; key < KEYS; key += 613) {
      char name[300];
      size_t length = name_key(key, name);
      const weir_record_key *found = weir_record_find(&record, name, length);
      assert_non_null(found);
      assert_int_equal(found->peak, peak_of(key, period_us));
    }
  }
}

/* Upwards the requests of a visit before serve, downwards they do not. */
static void only_keys_with_a_higher_peak_are_visited(void **state) {
  (void)state;
  assert_true(weir_record_find_peaks(&record, 5000000));
  int64_t most = weir_record_percentile(&record, 1000);
  for (int64_t step = 0; step < 60; step += 3) {
    int64_t above = step < 30 ? most >> step : most >> (60 - step);
    struct visited visited = {0};
    size_t keys = 0;
    uint64_t count = 0;
    for (size_t i = 0; i < record.key_count; i++) {
      if (record.keys[i].peak <= above) continue;
      keys++;
      count += record.keys[i].requests;
    }
    assert_true(weir_record_visit(&record, above, visit, &visited));
    assert_int_equal(visited.keys, keys);
    assert_int_equal(visited.requests, count);
  }
}

static int by_size(const void *a, const void *b) {
  int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

static void percentiles_are_those_of_sorted_peaks(void **state) {
  static const int asked[] = {1, 10, 500, 900, 990, 999, 1000};
  int64_t *sorted = malloc(record.key_count * sizeof *sorted);
  (void)state;
  assert_non_null(sorted);
  assert_true(weir_record_find_peaks(&record, 5000000));
  for (size_t i = 0; i < record.key_count; i++)
    sorted[i] = record.keys[i].peak;
  qsort(sorted, record.key_count, sizeof *sorted, by_size);
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    size_t rank = (record.key_count * (size_t)asked[i] + 999) / 1000;
    assert_int_equal(weir_record_percentile(&record, asked[i]), sorted[rank - 1]);
  }
  free(sorted);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(requests_come_back_in_order_of_time),
      cmocka_unit_test(keys_are_visited_with_all_that_they_asked),
      cmocka_unit_test(peaks_are_those_of_any_period),
      cmocka_unit_test(only_keys_with_a_higher_peak_are_visited),
      cmocka_unit_test(percentiles_are_those_of_sorted_peaks),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
