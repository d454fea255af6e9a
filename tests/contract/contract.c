/* One suite for every store, written against include/weir/backend.h alone. */
#include <stdio.h>
#include <string.h>

#include "contract/suite.h"

enum { TESTS_MOST = 2048, NAME_BYTES = 160 };

static struct CMUnitTest tests[TESTS_MOST];
static char names[TESTS_MOST][NAME_BYTES];
static size_t test_count;

static void add(const char *store, const char *test, void (*run)(void **state), void *state) {
  if (test_count == TESTS_MOST) return; /* main() notices */
  snprintf(names[test_count], NAME_BYTES, "%s %s", store, test);
  tests[test_count] =
      (struct CMUnitTest){.name = names[test_count], .test_func = run, .initial_state = state};
  test_count++;
}

static void add_chapter(const contract_test *chapter, subject *on) {
  for (const contract_test *test = chapter; test->name != NULL; test++)
    add(on->name + strlen("WEIR_TEST_"), test->name, test->run, on);
}

int main(void) {
  static const contract_test *const chapters[] = {counting_tests, storing_tests, order_tests,
                                                  key_tests,      life_tests,    foreign_tests};
  if (!subjects_open()) return 1;
  for (size_t i = 0; i < subject_count; i++) {
    for (size_t j = 0; j < sizeof chapters / sizeof chapters[0]; j++)
      add_chapter(chapters[j], &subjects[i]);
    bool swaps = subject_has(&subjects[i], WEIR_TRAIT_SWAP);
    bool raises = subject_has(&subjects[i], WEIR_TRAIT_RAISE);
    add_chapter(swaps ? swapping_tests : no_swapping_tests, &subjects[i]);
    add_chapter(raises ? raising_tests : no_raising_tests, &subjects[i]);
    if (subject_has(&subjects[i], WEIR_TRAIT_IMMEDIATE)) add_chapter(immediate_tests, &subjects[i]);
    bool identifies = subject_has(&subjects[i], WEIR_TRAIT_IDENTITY);
    add_chapter(identifies ? identity_tests : no_identity_tests, &subjects[i]);
  }
  add("every store", "keeps_every_key_for_its_ttl_and_not_for_ever",
      keeps_every_key_for_its_ttl_and_not_for_ever, NULL);
  if (test_count == TESTS_MOST) {
    fputs("more tests than TESTS_MOST\n", stderr);
    return 1;
  }
  int failed = _cmocka_run_group_tests("contract", tests, test_count, NULL, NULL);
  subjects_close();
  return failed;
}
