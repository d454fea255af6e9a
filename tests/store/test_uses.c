/* The users of each tag are held against a plain list of all, in any order of coming and going. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "store/store.h"

enum { USES = 300, STEPS = 30000 };

typedef struct place {
  weir_store_use use;
  bool entered;
  char tag[16], meaning[16];
} place;

static place places[USES];

static uint32_t next_random(void) {
  static uint32_t state = 1;
  state = state * 1664525U + 1013904223U;
  return state >> 8;
}

static bool has_other(const place *one, const char *meaning) {
  for (const place *other = places; other < places + USES; other++)
    if (other != one && other->entered && strcmp(other->tag, one->tag) == 0 &&
        strcmp(other->meaning, one->meaning) != 0 &&
        (meaning == NULL || strcmp(other->meaning, meaning) == 0))
      return true;
  return false;
}

static void note(void *found, const weir_store_use *other) {
  snprintf(found, sizeof places->meaning, "%s", other->text);
}

static void enter(weir_store *store, place *one, unsigned tags) {
  char found[sizeof one->meaning] = "";
  snprintf(one->tag, sizeof one->tag, "t%u", next_random() % tags);
  snprintf(one->meaning, sizeof one->meaning, "m%u", next_random() % 3);
  one->use = (weir_store_use){.tag = one->tag, .meaning = one->meaning, .text = one->meaning};
  bool differs = weir_store_enter(store, &one->use, note, found);
  assert_int_equal(differs, has_other(one, NULL));
  if (differs) assert_true(has_other(one, found));
  one->entered = true;
}

static void leave(weir_store *store, place *one) {
  weir_store_leave(store, &one->use);
  one->entered = false;
}

/* Few tags have long rings and many meanings, many of them share buckets. */
static void test_any_order(void **state) {
  static const unsigned tags[] = {1, 4, 2000};
  (void)state;
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
    weir_store *store;
    assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
    for (int step = 0; step < STEPS; step++) {
      place *one = &places[next_random() % USES];
      if (one->entered)
        leave(store, one);
      else
        enter(store, one, tags[i]);
    }
    weir_store_close(store);
    memset(places, 0, sizeof places);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
