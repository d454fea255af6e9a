/* Places by when their time ends: a heap, the first of which ends first. Each knows where it stands, so
 * that any of them may go. */
#ifndef WEIR_SERVE_ENDS_H
#define WEIR_SERVE_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_end {
  int64_t until_us; /* weir_monotonic_us() */
  size_t at;        /* the heap's own */
} weir_end;

typedef struct weir_ends {
  weir_end **heap;
  size_t count, room;
} weir_ends;

/* Room for so many in all. False: no memory. */
bool weir_ends_fit(weir_ends *ends, size_t count);
void weir_ends_add(weir_ends *ends, weir_end *end); /* room has been made */
void weir_ends_remove(weir_ends *ends, weir_end *end);

/* The first; INT64_MAX: there is none. */
static inline int64_t weir_ends_next_us(const weir_ends *ends) {
  return ends->count > 0 ? ends->heap[0]->until_us : INT64_MAX;
}

#endif
