/* Names, and lists of named parts: "north:5|south:3". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "number.h"
#include "rule/kind.h"

bool weir_name_is_accepted(const char *name, size_t length, size_t most) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  if (length < 1 || length > most) return false;
  for (size_t i = 0; i < length; i++)
    if (name[i] == '\0' || strchr(letters, name[i]) == NULL) return false;
  return true;
}

bool weir_parts_next(const char **at, const char *end, weir_part *next) {
  if (*at >= end) return false;
  const char *stop = memchr(*at, '|', (size_t)(end - *at));
  if (stop == NULL) stop = end;
  const char *colon = memchr(*at, ':', (size_t)(stop - *at));
  if (colon == NULL) return false;
  *next = (weir_part){.name = *at,
                      .name_length = (size_t)(colon - *at),
                      .value = colon + 1,
                      .value_length = (size_t)(stop - colon - 1)};
  *at = stop + 1;
  return true;
}

bool weir_part_is_named(const weir_part *part, const void *name, size_t length) {
  return part->name_length == length && memcmp(part->name, name, length) == 0;
}

/* Whether one name comes before another. */
static bool is_before(const weir_part *one, const weir_part *other) {
  size_t shorter = one->name_length < other->name_length ? one->name_length : other->name_length;
  int order = memcmp(one->name, other->name, shorter);
  return order < 0 || (order == 0 && one->name_length < other->name_length);
}

int weir_parts_write(const char *list, const char *list_end, char *text, size_t size) {
  weir_part next, first, last = {.name = NULL};
  char *at = text, *end = text + size;
  for (;; last = first) {
    int64_t number = 0;
    first.name = NULL;
    for (const char *from = list; weir_parts_next(&from, list_end, &next);)
      if ((last.name == NULL || is_before(&last, &next)) &&
          (first.name == NULL || is_before(&next, &first)))
        first = next;
    if (first.name == NULL) return (int)(at - text);
    (void)weir_number_read(first.value, first.value_length, INT64_MAX, &number);
    at += snprintf(at, (size_t)(end - at), "%s%.*s:%" PRId64, at == text ? "" : "|",
                   (int)first.name_length, first.name, number);
  }
}
