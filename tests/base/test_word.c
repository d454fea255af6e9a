#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <weir/word.h>

static size_t distance_of(const char *text, const char *word) {
  size_t distance = WEIR_WORD_FAR;
  bool near = weir_word_nearer(text, strlen(text), word, &distance);
  assert_true(near == (distance != WEIR_WORD_FAR));
  return distance;
}

static void counts_what_was_mistyped(void **state) {
  (void)state;
  assert_int_equal(distance_of("store", "store"), 0);
  assert_int_equal(distance_of("STORE", "store"), 0);
  assert_int_equal(distance_of("stroe", "store"), 1); /* swapped */
  assert_int_equal(distance_of("stor", "store"), 1);
  assert_int_equal(distance_of("sstore", "store"), 1);
  assert_int_equal(distance_of("spore", "store"), 1);
  assert_int_equal(distance_of("tke", "take"), 1);
  assert_int_equal(distance_of("fxed-windw", "fixed-window"), 2);
}

static void nothing_is_near_that_has_little_in_common(void **state) {
  (void)state;
  assert_int_equal(distance_of("", "take"), WEIR_WORD_FAR);
  assert_int_equal(distance_of("x", "take"), WEIR_WORD_FAR);
  assert_int_equal(distance_of("deny", "take"), WEIR_WORD_FAR);
  assert_int_equal(distance_of("take", ""), WEIR_WORD_FAR);
  assert_int_equal(
      distance_of("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
      WEIR_WORD_FAR); /* one byte too long to be looked at */
}

static void only_what_is_nearer_counts(void **state) {
  (void)state;
  size_t distance = WEIR_WORD_FAR;
  assert_true(weir_word_nearer("resett", 6, "refund", &distance) == false);
  assert_true(weir_word_nearer("resett", 6, "reset", &distance));
  assert_false(weir_word_nearer("resett", 6, "resets", &distance)); /* as near, not nearer */
  assert_true(weir_word_nearer("resett", 6, "resett", &distance));
  assert_int_equal(distance, 0);
}

static void text_needs_no_end(void **state) {
  (void)state;
  size_t distance = WEIR_WORD_FAR;
  assert_true(weir_word_nearer("takexxxxxxxx", 4, "take", &distance));
  assert_int_equal(distance, 0);
}

static void lists_words_as_a_sentence_has_them(void **state) {
  (void)state;
  char list[32] = "";
  weir_word_list(list, sizeof list, "take", false);
  assert_string_equal(list, "take");
  weir_word_list(list, sizeof list, "peek", false);
  assert_string_equal(list, "take, peek");
  weir_word_list(list, sizeof list, "reset", true);
  assert_string_equal(list, "take, peek and reset");
  char only[32] = "";
  weir_word_list(only, sizeof only, "take", true);
  assert_string_equal(only, "take");
}

/* Lists of every size, down to one that holds no word: whole words, and dots for the others. */
static void says_that_a_list_is_cut(void **state) {
  (void)state;
  static const char *const words[] = {"fixed-window", "quota", "log", "bucket"};
  static const char whole[] = "fixed-window, quota, log and bucket";
  for (size_t size = 8; size <= sizeof whole + 1; size++) {
    char list[64] = "";
    memset(list + 1, 'x', sizeof list - 1);
    for (size_t i = 0; i < 4; i++)
      weir_word_list(list, size, words[i], i == 3);
    assert_true(strlen(list) < size);
    assert_int_equal(list[size], 'x'); /* nothing is written behind its end */
    if (size < sizeof whole) {
      char *dots = strstr(list, ", ...");
      assert_non_null(dots);
      assert_string_equal(dots, ", ...");
      assert_memory_equal(list, whole, (size_t)(dots - list));
      assert_true(dots == list || strchr(", ", whole[dots - list]) != NULL);
    } else {
      assert_string_equal(list, whole);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_what_was_mistyped),
      cmocka_unit_test(nothing_is_near_that_has_little_in_common),
      cmocka_unit_test(only_what_is_nearer_counts),
      cmocka_unit_test(text_needs_no_end),
      cmocka_unit_test(lists_words_as_a_sentence_has_them),
      cmocka_unit_test(says_that_a_list_is_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
