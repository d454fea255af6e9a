/* Stores with WEIR_TRAIT_IMMEDIATE: nobody waits in an exec, and nothing ends in doubt. */
#include <sys/resource.h>

#include "contract/suite.h"

enum { ROUNDS = 200, BATCH = 64 };

/* How often this thread gave its processor away because it had to wait for something. */
static long count_waits(void) {
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_nvcsw;
}

static void nobody_sleeps_in_an_exec(void **state) {
  static key keys[BATCH];
  static weir_operation batch[BATCH];
  for (size_t i = 0; i < BATCH; i++)
    keys[i] = subject_lone_key();
  long before = count_waits();
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < BATCH; i++)
      batch[i] = i % 2 == 0 ? op_add(&keys[i], 1) : op_get(&keys[i - 1]);
    subject_exec(*state, batch, BATCH, NULL);
    for (size_t i = 0; i < BATCH; i++) {
      assert_int_equal(batch[i].outcome, WEIR_DONE);
      assert_int_equal(batch[i].value, round + 1);
    }
  }
  assert_in_range(count_waits() - before, 0, ROUNDS / 10); /* a page may have to come from a disk */
}

const contract_test immediate_tests[] = {
    CONTRACT_TEST(nobody_sleeps_in_an_exec),
    CONTRACT_END,
};
