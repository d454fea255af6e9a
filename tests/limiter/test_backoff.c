/* weir_backoff_us: bounds, evenness, and that nobody draws what another draws. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <weir/weir.h>

static void assert_within(unsigned attempt, int64_t base_us, int64_t most_us, int64_t bound_us) {
  for (int i = 0; i < 200; i++) {
    int64_t pause_us = weir_backoff_us(attempt, base_us, most_us);
    assert_true(pause_us >= 0 && pause_us <= bound_us);
  }
}

static void stays_within_its_bounds_whatever_it_is_given(void **state) {
  (void)state;
  assert_within(0, 50, 2000, 50);
  assert_within(1, 50, 2000, 100);
  assert_within(5, 50, 2000, 1600);
  assert_within(6, 50, 2000, 2000);
  assert_within(0, 5000, 2000, 2000);
  static const unsigned attempts[] = {61, 62, 63, 64, 65, 127, 128, 0x80000000U, UINT32_MAX};
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
    assert_within(attempts[i], 1, 2000, 2000);
    assert_within(attempts[i], 50, INT64_MAX, INT64_MAX);
    assert_within(attempts[i], INT64_MAX, INT64_MAX, INT64_MAX);
    assert_within(attempts[i], INT64_MAX, 1, 1);
  }
}

static void is_nothing_where_a_bound_is_nothing_or_less(void **state) {
  (void)state;
  assert_within(7, 0, 2000, 0);
  assert_within(7, 50, 0, 0);
  assert_within(UINT32_MAX, -1, 2000, 0);
  assert_within(7, 50, -1, 0);
  assert_within(7, INT64_MIN, INT64_MIN, 0);
}

/* That 1000 draws all lie in the lower half has a chance of 2^-1000. */
static void doubles_with_every_attempt_until_the_most(void **state) {
  (void)state;
  for (unsigned attempt = 0; attempt < 40; attempt++) {
    int64_t bound_us = attempt < 20 ? INT64_C(1000) << attempt : 1048576000;
    int64_t longest_us = 0;
    for (int i = 0; i < 1000; i++) {
      int64_t pause_us = weir_backoff_us(attempt, 1000, 1048576000);
      if (pause_us > longest_us) longest_us = pause_us;
    }
    assert_in_range(longest_us, bound_us / 2, bound_us);
  }
}

/* Ten standard deviations (92) aside. */
static void draws_every_number_as_often(void **state) {
  enum { NUMBERS = 7, DRAWS = 70000 };
  int seen[NUMBERS] = {0};
  (void)state;
  for (int i = 0; i < DRAWS; i++)
    seen[weir_backoff_us(0, NUMBERS - 1, NUMBERS - 1)]++;
  for (int i = 0; i < NUMBERS; i++)
    assert_in_range(seen[i], DRAWS / NUMBERS - 920, DRAWS / NUMBERS + 920);
}

/* A plain remainder of 64 bits would fall into the lower two thirds of 3 * 2^61 numbers in three of
 * four cases: 30 standard deviations too often. */
static void favours_no_part_of_a_range_that_does_not_divide_two_to_the_64(void **state) {
  enum { DRAWS = 30000 };
  const int64_t most_us = (INT64_C(3) << 61) - 1;
  int lower = 0;
  (void)state;
  for (int i = 0; i < DRAWS; i++)
    lower += weir_backoff_us(0, most_us, most_us) < INT64_C(2) << 61;
  assert_in_range(lower, DRAWS * 2 / 3 - 820, DRAWS * 2 / 3 + 820);
}

typedef struct draws {
  int64_t numbers[4];
} draws;

static void *draw_some(void *context) {
  draws *mine = context;
  for (size_t i = 0; i < 4; i++)
    mine->numbers[i] = weir_backoff_us(0, INT64_MAX, INT64_MAX);
  return NULL;
}

static void differs_between_threads(void **state) {
  draws drawn[2];
  pthread_t threads[2];
  (void)state;
  for (size_t i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, draw_some, &drawn[i]), 0);
  for (size_t i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  assert_memory_not_equal(&drawn[0], &drawn[1], sizeof drawn[0]);
}

/* The children of one parent are what meets at one key: they must not inherit its next numbers. */
static void differs_between_the_children_of_one_process(void **state) {
  draws drawn[3];
  (void)state;
  draw_some(&drawn[0]);
  for (size_t i = 0; i < 2; i++) {
    int report[2];
    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    if (child == 0) {
      draw_some(&drawn[i]);
      _exit(write(report[1], &drawn[i], sizeof drawn[i]) != sizeof drawn[i]);
    }
    assert_int_equal(read(report[0], &drawn[i], sizeof drawn[i]), sizeof drawn[i]);
    waitpid(child, NULL, 0);
    close(report[0]);
    close(report[1]);
  }
  draw_some(&drawn[2]);
  assert_memory_not_equal(&drawn[0], &drawn[1], sizeof drawn[0]);
  assert_memory_not_equal(&drawn[0], &drawn[2], sizeof drawn[0]);
  assert_memory_not_equal(&drawn[1], &drawn[2], sizeof drawn[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stays_within_its_bounds_whatever_it_is_given),
      cmocka_unit_test(is_nothing_where_a_bound_is_nothing_or_less),
      cmocka_unit_test(doubles_with_every_attempt_until_the_most),
      cmocka_unit_test(draws_every_number_as_often),
      cmocka_unit_test(favours_no_part_of_a_range_that_does_not_divide_two_to_the_64),
      cmocka_unit_test(differs_between_threads),
      cmocka_unit_test(differs_between_the_children_of_one_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
