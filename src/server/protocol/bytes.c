/* Bytes that grow by doubling. */
#include "protocol/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 256 };

char *weir_bytes_grow(weir_bytes *bytes, size_t length) {
  if (bytes->failed) return NULL;
  size_t capacity = bytes->capacity > 0 ? bytes->capacity : FIRST_BYTES;
  while (capacity - bytes->length < length && capacity <= SIZE_MAX / 2)
    capacity *= 2;
  char *data = capacity - bytes->length >= length ? realloc(bytes->data, capacity) : NULL;
  if (data == NULL) {
    bytes->failed = true;
    return NULL;
  }
  bytes->data = data;
  bytes->capacity = capacity;
  return data + bytes->length;
}

void weir_bytes_add(weir_bytes *bytes, const void *data, size_t length) {
  char *room = weir_bytes_room(bytes, length);
  if (room == NULL || length == 0) return;
  memcpy(room, data, length);
  bytes->length += length;
}

void weir_bytes_text(weir_bytes *bytes, const char *text) {
  weir_bytes_add(bytes, text, strlen(text));
}

void weir_bytes_number(weir_bytes *bytes, int64_t number) {
  char *room = weir_bytes_room(bytes, WEIR_NUMBER_BYTES);
  if (room != NULL) bytes->length += (size_t)(weir_digits(room, number) - room);
}

void weir_bytes_format(weir_bytes *bytes, const char *format, ...) {
  va_list arguments;
  va_list again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *room = length >= 0 ? weir_bytes_room(bytes, (size_t)length + 1) : NULL;
  if (room != NULL) {
    vsnprintf(room, (size_t)length + 1, format, again);
    bytes->length += (size_t)length;
  }
  va_end(again);
}

void weir_bytes_drop(weir_bytes *bytes, size_t length) {
  bytes->length -= length;
  if (bytes->length > 0) memmove(bytes->data, bytes->data + length, bytes->length);
}

void weir_bytes_free(weir_bytes *bytes) {
  free(bytes->data);
  *bytes = (weir_bytes){0};
}
