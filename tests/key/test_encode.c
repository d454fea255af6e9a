#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weir/backend.h>

#include "key/key.h"

static const char *encoded(const void *key, size_t length) {
  static char text[WEIR_ENCODED_MOST + 1];
  size_t used = weir_key_encode(key, length, text);
  assert_in_range(used, 1, WEIR_ENCODED_MOST);
  text[used] = '\0';
  return text;
}

static void leaves_plain_text_as_it_is(void **state) {
  (void)state;
  assert_string_equal(encoded("alice@example.org/a:b", 21), "alice@example.org/a:b");
}

static void escapes_what_a_server_could_misread(void **state) {
  (void)state;
  assert_string_equal(encoded("a b\r\nc", 6), "a%20b%0d%0ac");
  assert_string_equal(encoded("\0\x7f\xff", 3), "%00%7f%ff");
  assert_string_equal(encoded("{x}%#", 5), "%7bx%7d%25%23");
  assert_string_equal(encoded("\xc3\xa9", 2), "%c3%a9");
}

static void hashes_what_would_be_too_long(void **state) {
  (void)state;
  char key[10240];
  memset(key, 'a', sizeof key);
  assert_int_equal((int)strlen(encoded(key, WEIR_ENCODED_MOST)), WEIR_ENCODED_MOST);
  /* BLAKE2b-128 of 121 times 'a', from another implementation */
  assert_string_equal(encoded(key, WEIR_ENCODED_MOST + 1), "#690229632243d077b71e473793f526b7");
  assert_int_equal((int)strlen(encoded(key, sizeof key)), 33);
}

/* Undoes the encoding; possible for everything that is not hashed, so no two keys share a text. */
static size_t decode(const char *text, unsigned char *key) {
  size_t length = 0;
  for (; *text != '\0'; length++) {
    unsigned byte = (unsigned char)*text++;
    if (byte == '%') {
      assert_int_equal(sscanf(text, "%2x", &byte), 1);
      text += 2;
    }
    key[length] = (unsigned char)byte;
  }
  return length;
}

static void can_be_undone_so_no_two_keys_meet(void **state) {
  (void)state;
  unsigned seed = 1;
  for (int round = 0; round < 100000; round++) {
    unsigned char key[40], back[WEIR_ENCODED_MOST];
    size_t length = 1 + (size_t)rand_r(&seed) % sizeof key;
    for (size_t i = 0; i < length; i++)
      key[i] = (unsigned char)rand_r(&seed);
    const char *text = encoded(key, length);
    assert_int_not_equal(text[0], '#');
    for (const char *c = text; *c != '\0'; c++)
      assert_true(*c > ' ' && *c < 0x7f && !strchr("{}", *c));
    assert_int_equal(decode(text, back), length);
    assert_memory_equal(key, back, length);
  }
}

static void writes_the_whole_key(void **state) {
  (void)state;
  char front[WEIR_KEY_PREFIX_MOST], text[WEIR_COUNTER_KEY_MOST];
  size_t front_length = weir_key_prefix("", "sw4-60000-4x15", front);
  size_t length = weir_key_counter(front, front_length, "bob", 3, 7085102, text);
  assert_memory_equal(text, "weir:sw4-60000-4x15:{bob}:7085102", length);
  front_length = weir_key_prefix("eu", "fw-1000", front);
  length = weir_key_counter(front, front_length, "bob", 3, 0, text);
  assert_memory_equal(text, "weir:eu:fw-1000:{bob}:0", length);
}

static void keeps_the_longest_key_within_what_stores_take(void **state) {
  (void)state;
  char front[WEIR_KEY_PREFIX_MOST], text[WEIR_COUNTER_KEY_MOST], key[WEIR_ENCODED_MOST];
  char tag[65], name[33];
  memset(tag, 't', 64);
  memset(name, 'n', 32);
  tag[64] = name[32] = '\0';
  memset(key, 'k', sizeof key);
  size_t front_length = weir_key_prefix(name, tag, front);
  size_t length = weir_key_counter(front, front_length, key, sizeof key,
                                   INT64_C(253402300799999999) / 16 + 1, text);
  assert_in_range(length, 1, WEIR_STORE_KEY_MOST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaves_plain_text_as_it_is),
      cmocka_unit_test(escapes_what_a_server_could_misread),
      cmocka_unit_test(hashes_what_would_be_too_long),
      cmocka_unit_test(can_be_undone_so_no_two_keys_meet),
      cmocka_unit_test(writes_the_whole_key),
      cmocka_unit_test(keeps_the_longest_key_within_what_stores_take),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
