/* Any key: its text holds nothing a server could misread, fits, and, unless hashed, gives the key
 * back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key/key.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static unsigned char decode_byte(const char *text, size_t *at) {
  unsigned byte = (unsigned char)text[(*at)++];
  if (byte != '%') return (unsigned char)byte;
  char digits[3] = {text[*at], text[*at + 1], '\0'};
  *at += 2;
  return (unsigned char)strtoul(digits, NULL, 16);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  char text[WEIR_ENCODED_MOST];
  if (size == 0) return 0;
  size_t length = weir_key_encode(data, size, text);
  if (length == 0 || length > WEIR_ENCODED_MOST) abort();
  for (size_t i = 0; i < length; i++)
    if (text[i] <= ' ' || text[i] >= 0x7f || text[i] == '{' || text[i] == '}') abort();
  if (text[0] == '#') return 0;
  size_t at = 0;
  for (size_t i = 0; i < size; i++)
    if (at >= length || decode_byte(text, &at) != data[i]) abort();
  if (at != length) abort();
  return 0;
}
