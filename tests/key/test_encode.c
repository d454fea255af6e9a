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
#include "rule/rule.h"
#include "store/url.h"

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

/* Every byte in every place of keys of every length, as eight bytes are judged together. */
static void tells_a_byte_wherever_it_stands(void **state) {
  (void)state;
  for (size_t length = 1; length <= 26; length++) {
    for (size_t place = 0; place < length; place++) {
      for (unsigned byte = 0; byte < 256; byte++) {
        char key[26], expected[32];
        memset(key, '~', length);
        key[place] = (char)byte;
        bool itself = byte > ' ' && byte < 0x7f && strchr("#%{}", (int)byte) == NULL;
        int written = itself ? snprintf(expected, sizeof expected, "%.*s", (int)length, key)
                             : snprintf(expected, sizeof expected, "%.*s%%%02x%.*s", (int)place,
                                        key, byte, (int)(length - place - 1), key + place + 1);
        assert_in_range(written, length, sizeof expected - 1);
        assert_string_equal(encoded(key, length), expected);
      }
    }
  }
}

static void hashes_what_would_be_too_long(void **state) {
  (void)state;
  char key[10240];
  memset(key, 'a', sizeof key);
  assert_int_equal((int)strlen(encoded(key, WEIR_ENCODED_MOST)), WEIR_ENCODED_MOST);
  /* BLAKE2b-128 of 105 times 'a', from another implementation */
  assert_string_equal(encoded(key, WEIR_ENCODED_MOST + 1), "#d7e15ab7b4d86d96da92076eff10d101");
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
    unsigned char key[WEIR_ENCODED_MOST / 3], back[WEIR_ENCODED_MOST];
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

static void assert_key(const char *namespace_text, const char *tag, char mark, int64_t index,
                       int64_t entry, const char *expected) {
  char prefix[WEIR_KEY_PREFIX_MOST], text[WEIR_COUNTER_KEY_MOST + 1];
  size_t prefix_length = weir_key_prefix(namespace_text, tag, prefix);
  size_t length = weir_key_counter(prefix, prefix_length, "bob", 3, mark, index, entry, text);
  text[length] = '\0';
  assert_string_equal(text, expected);
}

static void writes_the_whole_key(void **state) {
  (void)state;
  assert_key("", "sw4-60000-4x15", '\0', 7085102, 0, "weir:sw4-60000-4x15:{bob}:7085102");
  assert_key("eu", "fw-1000", '\0', 0, 0, "weir:eu:fw-1000:{bob}:0");
}

static void keeps_the_places_of_a_rule_apart(void **state) {
  (void)state;
  assert_key("", "quota-1000", 'o', 0, 0, "weir:quota-1000:{bob}:o0");
  assert_key("", "quota-1000", 'o', 120, 0, "weir:quota-1000:{bob}:o120");
  assert_key("", "log-1000", '\0', 12, 1, "weir:log-1000:{bob}:12.1");
  assert_key("", "log-1000", '\0', 1, 21, "weir:log-1000:{bob}:1.21");
  assert_key("", "log-1000", '\0', 0, 100000, "weir:log-1000:{bob}:0.100000");
}

static void keeps_the_longest_key_within_what_stores_take(void **state) {
  (void)state;
  char prefix[WEIR_KEY_PREFIX_MOST], text[WEIR_COUNTER_KEY_MOST + 8], key[WEIR_ENCODED_MOST];
  char tag[WEIR_TAG_MOST + 1], name[WEIR_NAMESPACE_MOST + 1];
  memset(tag, 't', sizeof tag);
  memset(name, 'n', sizeof name);
  tag[WEIR_TAG_MOST] = name[WEIR_NAMESPACE_MOST] = '\0';
  memset(key, 'k', sizeof key);
  memset(text, '!', sizeof text);
  size_t prefix_length = weir_key_prefix(name, tag, prefix);
  assert_int_equal(prefix_length, WEIR_KEY_PREFIX_MOST);
  size_t length =
      weir_key_counter(prefix, prefix_length, key, sizeof key, 'o', INT64_MAX, INT64_MAX, text);
  assert_int_equal(length, WEIR_COUNTER_KEY_MOST);
  assert_in_range(length, 1, WEIR_STORE_KEY_MOST);
  assert_memory_equal(text + length, "!!!!!!!!", 8);
  static const char suffix[] = "}:o9223372036854775807.9223372036854775807";
  assert_memory_equal(text + length - (sizeof suffix - 1), suffix, sizeof suffix - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaves_plain_text_as_it_is),
      cmocka_unit_test(escapes_what_a_server_could_misread),
      cmocka_unit_test(tells_a_byte_wherever_it_stands),
      cmocka_unit_test(hashes_what_would_be_too_long),
      cmocka_unit_test(can_be_undone_so_no_two_keys_meet),
      cmocka_unit_test(writes_the_whole_key),
      cmocka_unit_test(keeps_the_places_of_a_rule_apart),
      cmocka_unit_test(keeps_the_longest_key_within_what_stores_take),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
