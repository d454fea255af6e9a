/* Prints JSON: one object a line, numbers with as many digits as they mean. */
#include "json.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

static char *encode_base64(const unsigned char *bytes, size_t length, size_t *text_length) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  *text_length = (length + 2) / 3 * 4; /* bytes in memory are far below SIZE_MAX / 2 */
  char *text = malloc(*text_length + 1);
  if (text == NULL) return NULL;
  char *out = text;
  for (size_t i = 0; i < length; i += 3) {
    size_t present = length - i < 3 ? length - i : 3;
    unsigned group = (unsigned)bytes[i] << 16;
    if (present > 1) group |= (unsigned)bytes[i + 1] << 8;
    if (present > 2) group |= bytes[i + 2];
    *out++ = digits[group >> 18];
    *out++ = digits[group >> 12 & 63];
    *out++ = present > 1 ? digits[group >> 6 & 63] : '=';
    *out++ = present > 2 ? digits[group & 63] : '=';
  }
  *out = '\0';
  return text;
}

bool weir_cli_json_set_bytes(json_t *object, const char *name, const char *bytes, size_t length) {
  json_t *value = json_stringn(bytes, length);
  if (value != NULL) return json_object_set_new(object, name, value) == 0;
  char base64_name[NAME_BYTES];
  size_t text_length;
  char *text = encode_base64((const unsigned char *)bytes, length, &text_length);
  if (text == NULL) return false;
  snprintf(base64_name, sizeof base64_name, "%s_base64", name);
  bool set = json_object_set_new(object, base64_name, json_stringn(text, text_length)) == 0;
  free(text);
  return set;
}

bool weir_cli_json_print(FILE *out, const json_t *object, unsigned digits) {
  if (object == NULL) return false;
  char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(digits));
  if (text == NULL) return false;
  for (const char *at = text; *at != '\0';) {
    size_t plain = strcspn(at, "\x7f"); /* the one control byte that JSON lets stand */
    fwrite(at, 1, plain, out);
    at += plain;
    if (*at != '\0') fputs("\\u007f", out);
    at += *at != '\0';
  }
  fputc('\n', out); /* a lost write stays visible in ferror(out) */
  free(text);
  return true;
}
