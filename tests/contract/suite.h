/* The chapters of the suite. A test is run once for each subject, which is its *state. */
#ifndef TESTS_CONTRACT_SUITE_H
#define TESTS_CONTRACT_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "contract/subject.h"

typedef struct contract_test {
  const char *name; /* NULL ends a chapter */
  void (*run)(void **state);
} contract_test;

#define CONTRACT_TEST(function) \
  { #function, function }
#define CONTRACT_END \
  { NULL, NULL }

extern const contract_test counting_tests[];
extern const contract_test storing_tests[];
extern const contract_test order_tests[];
extern const contract_test key_tests[];
extern const contract_test foreign_tests[];
extern const contract_test life_tests[];

/* For stores with a trait, and for those without. */
extern const contract_test swapping_tests[];
extern const contract_test no_swapping_tests[];
extern const contract_test raising_tests[];
extern const contract_test no_raising_tests[];
extern const contract_test immediate_tests[];
extern const contract_test identity_tests[];
extern const contract_test no_identity_tests[];

/* Over all subjects at once, because it waits for keys to go. */
void keeps_every_key_for_its_ttl_and_not_for_ever(void **state);

#endif
