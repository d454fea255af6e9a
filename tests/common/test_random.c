/* Random numbers: those of the paper, in range, and secrets that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

/* The first that the authors' program says for the seed 1234567. */
static void is_splitmix64(void **state) {
  (void)state;
  static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                      UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                      UINT64_C(16408922859458223821)};
  uint64_t generator = 1234567;
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    assert_true(weir_random_next(&generator) == expected[i]);
}

static void fractions_are_spread_from_0_to_1(void **state) {
  (void)state;
  enum { DRAWN = 100000, PARTS = 10 };
  int parts[PARTS] = {0};
  uint64_t generator = 1;
  for (int i = 0; i < DRAWN; i++) {
    double fraction = weir_random_fraction(&generator);
    assert_true(fraction >= 0 && fraction < 1);
    parts[(int)(fraction * PARTS)]++;
  }
  for (int i = 0; i < PARTS; i++)
    assert_in_range(parts[i], DRAWN / PARTS * 9 / 10, DRAWN / PARTS * 11 / 10);
}

static void secrets_differ(void **state) {
  (void)state;
  unsigned char one[16] = {0}, other[16] = {0};
  const unsigned char none[16] = {0};
  weir_random_secret(one);
  weir_random_secret(other);
  assert_memory_not_equal(one, other, sizeof one);
  assert_memory_not_equal(one, none, sizeof one);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_splitmix64),
      cmocka_unit_test(fractions_are_spread_from_0_to_1),
      cmocka_unit_test(secrets_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
