/* Arrays that grow by doubling, so that what is added one by one is copied twice at most on the
 * average. */
#ifndef WEIR_COMMON_ARRAY_H
#define WEIR_COMMON_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { WEIR_ARRAY_FIRST = 16 }; /* items that an empty array gets room for */

/* Makes room for `needed` items of `size` bytes (above 0) in the array that the caller's pointer
 * at `array` points to; the caller keeps the room in `*room`, 0 with a NULL pointer at first.
 * False: not enough memory, and all is as it was. */
static inline bool weir_array_grow(void *array, size_t *room, size_t needed, size_t size) {
  if (needed <= *room) return true;
  size_t larger = *room > 0 ? *room : WEIR_ARRAY_FIRST;
  while (larger < needed && larger <= SIZE_MAX / 2)
    larger *= 2;
  if (larger < needed || larger > SIZE_MAX / size) return false;
  void *items;
  memcpy(&items, array, sizeof items); /* the pointer's own type is the caller's */
  items = realloc(items, larger * size);
  if (items == NULL) return false;
  memcpy(array, &items, sizeof items);
  *room = larger;
  return true;
}

/* The same for one more item behind a queue's, which are `*first` to `*end` - 1 of the array: they move
 * to the front, or where they are more than half of it into one twice as large, of `least` at first. */
static inline bool weir_array_make_room(void *array, size_t *first, size_t *end, size_t *room,
                                        size_t size, size_t least) {
  size_t count = *end - *first;
  char *items;
  if (*end < *room) return true;
  memcpy(&items, array, sizeof items);
  if (count * 2 > *room || *room == 0) {
    size_t larger = *room == 0 ? least : *room * 2;
    if (larger > SIZE_MAX / size || (items = realloc(items, larger * size)) == NULL) return false;
    memcpy(array, &items, sizeof items);
    *room = larger;
  }
  if (count > 0) memmove(items, items + *first * size, count * size);
  *first = 0;
  *end = count;
  return true;
}

#endif
