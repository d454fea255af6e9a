#include "protocol/place.h"

#include <string.h>

#include "number.h"
#include "protocol/bytes.h"

/* Hexadecimal ones in front and behind, each with its dash, and decimal ones between. */
#define HEX_DIGITS ((size_t)8)
#define DIGITS_MOST ((size_t)18)

static char *write_hex(char *at, uint32_t number) {
  static const char hex[] = "0123456789abcdef";
  for (int shift = 4 * ((int)HEX_DIGITS - 1); shift >= 0; shift -= 4)
    *at++ = hex[number >> shift & 0xf];
  return at;
}

static bool read_hex(const char *text, uint32_t *number) {
  *number = 0;
  for (size_t i = 0; i < HEX_DIGITS; i++) {
    bool is_letter = text[i] >= 'a' && text[i] <= 'f';
    if (!is_letter && (text[i] < '0' || text[i] > '9')) return false;
    *number = *number << 4 | (uint32_t)(is_letter ? text[i] - 'a' + 10 : text[i] - '0');
  }
  return true;
}

size_t weir_place_name_write(const weir_place_name *name, char text[WEIR_PLACE_NAME_BYTES]) {
  char *end = text;
  *end++ = '-';
  if (!name->is_none) {
    end = write_hex(text, name->server);
    *end++ = '-';
    end = weir_digits(end, (int64_t)name->number);
    *end++ = '-';
    end = write_hex(end, name->secret);
  }
  *end = '\0';
  return (size_t)(end - text);
}

bool weir_place_name_read(const char *text, size_t length, weir_place_name *name) {
  *name = (weir_place_name){.is_none = length == 1 && text[0] == '-'};
  if (name->is_none) return true;
  if (length < 2 * (HEX_DIGITS + 1) + 1 || length > 2 * (HEX_DIGITS + 1) + DIGITS_MOST ||
      text[HEX_DIGITS] != '-' || text[length - HEX_DIGITS - 1] != '-')
    return false;
  const char *digits = text + HEX_DIGITS + 1;
  size_t count = length - 2 * (HEX_DIGITS + 1);
  int64_t number;
  if ((count > 1 && digits[0] == '0') || !weir_number_read(digits, count, INT64_MAX, &number) ||
      !read_hex(text, &name->server) || !read_hex(text + length - HEX_DIGITS, &name->secret))
    return false;
  name->number = (uint64_t)number;
  return true;
}
