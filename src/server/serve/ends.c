#include "serve/ends.h"

#include "array.h"

bool weir_ends_fit(weir_ends *ends, size_t count) {
  return weir_array_grow(&ends->heap, &ends->room, count, sizeof(weir_end *));
}

static void put(weir_ends *ends, size_t at, weir_end *end) {
  ends->heap[at] = end;
  end->at = at;
}

static void sift_up(weir_ends *ends, size_t at, weir_end *end) {
  for (; at > 0 && ends->heap[(at - 1) / 2]->until_us > end->until_us; at = (at - 1) / 2)
    put(ends, at, ends->heap[(at - 1) / 2]);
  put(ends, at, end);
}

void weir_ends_add(weir_ends *ends, weir_end *end) {
  sift_up(ends, ends->count++, end);
}

/* The last one fills the gap: from there it goes down, and then up as far as it must. */
void weir_ends_remove(weir_ends *ends, weir_end *end) {
  weir_end *last = ends->heap[--ends->count];
  size_t at = end->at;
  if (last == end) return;
  for (size_t child; (child = 2 * at + 1) < ends->count; at = child) {
    if (child + 1 < ends->count && ends->heap[child + 1]->until_us < ends->heap[child]->until_us)
      child++;
    if (ends->heap[child]->until_us >= last->until_us) break;
    put(ends, at, ends->heap[child]);
  }
  sift_up(ends, at, last);
}
