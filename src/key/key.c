#include "key/key.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include <weir/backend.h>

_Static_assert((int)WEIR_COUNTER_KEY_MOST <= (int)WEIR_STORE_KEY_MOST,
               "every store must take the longest key");

static const char digits[] = "0123456789abcdef";

/* Printable ASCII stands for itself, but for what means something in a counter's key. A table, as
 * every byte of every key comes by here: those that do, each at its own place. */
static const char themselves[128] =
    "................................"
    ".!\".$.&'()*+,-./0123456789:;<=>?"
    "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_"
    "`abcdefghijklmnopqrstuvwxyz.|.~.";

static size_t encode_hash(const void *key, size_t length, char *encoded) {
  unsigned char hash[16];
  crypto_generichash(hash, sizeof hash, key, length, NULL, 0);
  encoded[0] = '#';
  for (size_t i = 0; i < sizeof hash; i++) {
    encoded[1 + 2 * i] = digits[hash[i] >> 4];
    encoded[2 + 2 * i] = digits[hash[i] & 15];
  }
  return 1 + 2 * sizeof hash;
}

size_t weir_key_encode(const void *key, size_t length, char encoded[WEIR_ENCODED_MOST]) {
  const unsigned char *bytes = key;
  size_t used = 0;
  for (; used < length && used < WEIR_ENCODED_MOST; used++) { /* most keys are that and no more */
    encoded[used] = (char)bytes[used];
    if (bytes[used] >= sizeof themselves || themselves[bytes[used]] != encoded[used]) break;
  }
  for (size_t i = used; i < length; i++) {
    bool plain = bytes[i] < sizeof themselves && themselves[bytes[i]] == (char)bytes[i];
    if (used + (plain ? 1 : 3) > WEIR_ENCODED_MOST) return encode_hash(key, length, encoded);
    if (plain) {
      encoded[used++] = (char)bytes[i];
    } else {
      encoded[used++] = '%';
      encoded[used++] = digits[bytes[i] >> 4];
      encoded[used++] = digits[bytes[i] & 15];
    }
  }
  return used;
}

static char *append(char *end, const char *text, size_t length) {
  memcpy(end, text, length);
  return end + length;
}

size_t weir_key_prefix(const char *namespace_text, const char *tag,
                       char prefix[WEIR_KEY_PREFIX_MOST]) {
  char *end = append(prefix, "weir:", 5);
  if (namespace_text[0] != '\0') {
    end = append(end, namespace_text, strlen(namespace_text));
    *end++ = ':';
  }
  end = append(end, tag, strlen(tag));
  end = append(end, ":{", 2);
  return (size_t)(end - prefix);
}

/* Digits come last first, so they are counted before they are written. */
static char *append_number(char *end, int64_t number) {
  uint64_t above = 10; /* up to 10^19, below 2^64 */
  int count = 1;
  for (; count < WEIR_KEY_DIGITS_MOST && (uint64_t)number >= above; above *= 10)
    count++;
  for (int i = count - 1; i >= 0; i--, number /= 10)
    end[i] = (char)('0' + number % 10);
  return end + count;
}

size_t weir_key_counter(const char *prefix, size_t prefix_length, const char *encoded,
                        size_t encoded_length, char mark, int64_t index, int64_t entry,
                        char text[WEIR_COUNTER_KEY_MOST]) {
  char *end = text + prefix_length + encoded_length;
  memcpy(text, prefix, prefix_length);
  memcpy(text + prefix_length, encoded, encoded_length);
  *end++ = '}';
  *end++ = ':';
  if (mark != '\0') *end++ = mark;
  end = append_number(end, index);
  if (entry != 0) {
    *end++ = '.';
    end = append_number(end, entry);
  }
  return (size_t)(end - text);
}
