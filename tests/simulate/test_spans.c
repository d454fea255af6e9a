/* Sorting by begins, with so little memory that all of it goes through the file, and when the file
 * cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "simulate/held.h"

enum { MOST = 16 };

static int compare(const void *left, const void *right) {
  const weir_span *a = left, *b = right;
  if (a->begin_us != b->begin_us) return a->begin_us < b->begin_us ? -1 : 1;
  if (a->duration_us != b->duration_us) return a->duration_us < b->duration_us ? -1 : 1;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->cost > b->cost) - (a->cost < b->cost);
}

/* `most`: 0: as much memory as usual. */
static void check_sorted(size_t count, size_t most) {
  weir_spans spans = {.most = most};
  weir_span *all = calloc(count + 1, sizeof *all), span;
  weir_message message = {""};
  assert_non_null(all);
  for (size_t i = 0; i < count; i++) {
    all[i] = (weir_span){.begin_us = (int64_t)(rand() % 1000) - 500,
                         .duration_us = rand() % 4,
                         .key = (uint32_t)rand() % 3,
                         .cost = 1 + (uint32_t)rand() % 2};
    assert_true(weir_spans_add(&spans, &all[i]));
  }
  assert_true(weir_spans_sort(&spans));
  qsort(all, count, sizeof *all, compare);
  for (int pass = 0; pass < 3; pass++) {
    weir_spans_begin(&spans);
    for (size_t i = 0; i < (pass == 1 ? count / 2 : count); i++) { /* one pass is broken off */
      assert_true(weir_spans_next(&spans, &span));
      assert_memory_equal(&span, &all[i], sizeof span);
    }
    assert_int_equal(weir_spans_next(&spans, &span), pass == 1 && count > 0);
  }
  assert_int_equal(spans.count, count);
  assert_int_equal(spans.file != NULL, most != 0 && count > most);
  if (most != 0) assert_true(spans.room <= most);
  assert_int_equal(weir_spans_check(&spans, &message), WEIR_OK);
  weir_spans_clean_up(&spans);
  free(all);
}

static void they_come_by_their_begins_however_many_there_are(void **state) {
  static const size_t counts[] = {0, 1, 2, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097, 70000};
  (void)state;
  srand(26);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    check_sorted(counts[i], MOST);
  check_sorted(1000, 0);
  check_sorted(1000, 64);
}

static void a_file_that_cannot_grow_is_told(void **state) {
  weir_spans spans = {.most = MOST};
  weir_message message = {""};
  struct rlimit before, little;
  (void)state;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  little = (struct rlimit){.rlim_cur = 8192, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
  const weir_span span = {.cost = 1};
  size_t added = 0;
  while (added < 10000 && weir_spans_add(&spans, &span))
    added++;
  bool sorted = weir_spans_sort(&spans);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_true(added < 10000);
  assert_false(sorted);
  assert_int_equal(weir_spans_check(&spans, &message), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(message.text, "temporary file"));
  assert_non_null(strstr(message.text, strerror(EFBIG)));
  weir_spans_clean_up(&spans);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(they_come_by_their_begins_however_many_there_are),
      cmocka_unit_test(a_file_that_cannot_grow_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
