#include "key/key.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

static bool stands_for_itself(unsigned char byte) {
  return byte > ' ' && byte < 0x7f && byte != '%' && byte != '{' && byte != '}' && byte != '#';
}

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
  for (size_t i = 0; i < length; i++) {
    bool plain = stands_for_itself(bytes[i]);
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

size_t weir_key_counter(const char *prefix, size_t prefix_length, const char *encoded,
                        size_t encoded_length, int64_t index, char text[WEIR_COUNTER_KEY_MOST]) {
  char number[20];
  size_t at = sizeof number;
  do {
    number[--at] = (char)('0' + index % 10);
    index /= 10;
  } while (index > 0);
  char *end = append(text, prefix, prefix_length);
  end = append(end, encoded, encoded_length);
  end = append(end, "}:", 2);
  end = append(end, number + at, sizeof number - at);
  return (size_t)(end - text);
}
