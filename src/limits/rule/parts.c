/* Names, and lists of named parts: "north:5|south:3". */
#include <string.h>

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

bool weir_part_is_before(const weir_part *one, const weir_part *other) {
  size_t shorter = one->name_length < other->name_length ? one->name_length : other->name_length;
  int order = memcmp(one->name, other->name, shorter);
  return order < 0 || (order == 0 && one->name_length < other->name_length);
}
