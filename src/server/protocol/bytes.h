/* A growing run of bytes: what is to be sent, and what must outlive the buffer it was read into. */
#ifndef WEIR_PROTOCOL_BYTES_H
#define WEIR_PROTOCOL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "number.h"

/* Zero it before use. Memory that cannot be had is said once, at the end: `failed` stays true, and
 * what is added from then on is lost. */
typedef struct weir_bytes {
  char *data;
  size_t length, capacity;
  bool failed;
} weir_bytes;

/* Room for `length` more behind what is there; NULL: no memory. Nothing is added yet. */
char *weir_bytes_grow(weir_bytes *bytes, size_t length); /* where there is too little */
static inline char *weir_bytes_room(weir_bytes *bytes, size_t length) {
  bool has_room = bytes->data != NULL && bytes->capacity - bytes->length >= length;
  return has_room && !bytes->failed ? bytes->data + bytes->length : weir_bytes_grow(bytes, length);
}

void weir_bytes_add(weir_bytes *bytes, const void *data, size_t length);
void weir_bytes_text(weir_bytes *bytes, const char *text);
void weir_bytes_number(weir_bytes *bytes, int64_t number);
void weir_bytes_format(weir_bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a number's digits in place, at most WEIR_NUMBER_BYTES; gives where they end. */
enum { WEIR_NUMBER_BYTES = 20 };
static inline char *weir_digits(char *at, int64_t number) {
  uint64_t digits = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  if (number < 0) *at++ = '-';
  if (digits > 9) return weir_number_write(at, digits);
  *at = (char)('0' + digits); /* most have one */
  return at + 1;
}

/* Takes `length` bytes off the front. */
void weir_bytes_drop(weir_bytes *bytes, size_t length);

/* Frees the memory; it may be used again. */
void weir_bytes_free(weir_bytes *bytes);

#endif
