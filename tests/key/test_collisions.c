/* Keys, rules and namespaces made to look like one another: no two of them share a name in a
 * store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "key/key.h"

/* Everything that has a meaning in a name or a protocol, and some that looks like it. */
static const char alphabet[] = {'a',  'o',  '0',  '1',  '2', '5', '.', ':',
                                '{',  '}',  '%',  '#',  ' ', '/', ',', '\0',
                                '\r', '\n', '\t', '\\', '"', '*', '$', (char)0xff};
enum { LETTERS = sizeof alphabet, NAME_BYTES = WEIR_COUNTER_KEY_MOST + 1 };

/* Names as they are made, all of one size. */
typedef struct name_list {
  char (*names)[NAME_BYTES];
  size_t count;
  size_t room;
} name_list;

static void add_name(name_list *list, const char *text, size_t length) {
  assert_true(length < NAME_BYTES);
  if (list->count == list->room) {
    list->room = list->room == 0 ? 4096 : 2 * list->room;
    list->names = realloc(list->names, list->room * sizeof *list->names);
    assert_non_null(list->names);
  }
  memset(list->names[list->count], 0, NAME_BYTES);
  memcpy(list->names[list->count++], text, length);
}

static int compare(const void *one, const void *other) {
  return memcmp(one, other, NAME_BYTES);
}

static void expect_all_to_differ(name_list *list) {
  qsort(list->names, list->count, sizeof *list->names, compare);
  for (size_t i = 1; i < list->count; i++)
    if (compare(list->names[i - 1], list->names[i]) == 0)
      fail_msg("\"%s\" is the name of two", list->names[i]);
  print_message("%zu names\n", list->count);
  free(list->names);
}

/* The key of that number: every text of up to 3 letters has one. */
static size_t key_of(size_t number, char key[3]) {
  size_t length = 0;
  for (; number > 0; number = (number - 1) / LETTERS)
    key[length++] = alphabet[(number - 1) % LETTERS];
  return length;
}

static void every_short_key_has_a_name_of_its_own(void **state) {
  name_list list = {0};
  char key[3], encoded[WEIR_ENCODED_MOST];
  (void)state;
  for (size_t i = 1; i <= LETTERS + LETTERS * LETTERS + LETTERS * LETTERS * LETTERS; i++) {
    size_t length = key_of(i, key);
    add_name(&list, encoded, weir_key_encode(key, length, encoded));
  }
  expect_all_to_differ(&list);
}

static void name_counters(name_list *list, const char *prefix, size_t prefix_length) {
  static const struct {
    char mark;
    int64_t index, entry;
  } places[] = {{'\0', 0, 0},  {'\0', 1, 0}, {'\0', 10, 0}, {'\0', 0, 1}, {'\0', 1, 1},
                {'\0', 1, 10}, {'o', 0, 0},  {'o', 1, 0},   {'o', 10, 0}};
  char key[3], encoded[WEIR_ENCODED_MOST], text[WEIR_COUNTER_KEY_MOST];
  for (size_t i = 1; i <= LETTERS + LETTERS * LETTERS; i++) {
    size_t length = weir_key_encode(key, key_of(i, key), encoded);
    for (size_t j = 0; j < sizeof places / sizeof places[0]; j++) {
      size_t used = weir_key_counter(prefix, prefix_length, encoded, length, places[j].mark,
                                     places[j].index, places[j].entry, text);
      /* The text between the first braces picks the server: all of the key and no more. */
      const char *home = memchr(text, '{', used);
      assert_ptr_equal(memchr(home, '}', used - (size_t)(home - text)), home + 1 + length);
      assert_memory_equal(home + 1, encoded, length);
      add_name(list, text, used);
    }
  }
}

static void no_two_places_of_any_rule_share_a_name(void **state) {
  static const char *const namespaces[] = {"", "a", "fw-1000", "weir", "0", "a.1"};
  static const char *const tags[] = {"fw-1000", "fw-1000+a", "a", "log-1000", "quota-1000"};
  name_list list = {0};
  char prefix[WEIR_KEY_PREFIX_MOST];
  (void)state;
  for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0]; i++)
    for (size_t j = 0; j < sizeof tags / sizeof tags[0]; j++)
      name_counters(&list, prefix, weir_key_prefix(namespaces[i], tags[j], prefix));
  expect_all_to_differ(&list);
}

/* The text of a hashed key, as a key: it is escaped. */
static void a_key_cannot_pass_for_a_hashed_one(void **state) {
  char encoded[WEIR_ENCODED_MOST], again[WEIR_ENCODED_MOST], key[WEIR_ENCODED_MOST + 1];
  (void)state;
  memset(key, 'a', sizeof key);
  size_t length = weir_key_encode(key, sizeof key, encoded);
  assert_int_equal(encoded[0], '#');
  size_t used = weir_key_encode(encoded, length, again);
  assert_int_equal(used, length + 2);
  assert_memory_equal(again, "%23", 3);
}

/* Likewise any key's own encoding, over and over until it is too long. */
static void a_key_cannot_pass_for_the_encoding_of_another(void **state) {
  char key[WEIR_ENCODED_MOST] = " ", encoded[WEIR_ENCODED_MOST];
  size_t length = 1;
  name_list list = {0};
  (void)state;
  while (key[0] != '#') {
    size_t used = weir_key_encode(key, length, encoded);
    add_name(&list, encoded, used);
    memcpy(key, encoded, used);
    length = used;
  }
  assert_true(list.count > 30);
  expect_all_to_differ(&list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_short_key_has_a_name_of_its_own),
      cmocka_unit_test(no_two_places_of_any_rule_share_a_name),
      cmocka_unit_test(a_key_cannot_pass_for_a_hashed_one),
      cmocka_unit_test(a_key_cannot_pass_for_the_encoding_of_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
