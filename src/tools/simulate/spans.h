/* Requests with their durations, sorted by when they began: a log has them by when they ended. What
 * is being sorted has a bound; more of it goes to a temporary file, 24 bytes for each request. */
#ifndef WEIR_SIMULATE_SPANS_H
#define WEIR_SIMULATE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/status.h>

enum { WEIR_SPANS_MOST = 1 << 19 }; /* in memory: 12 MiB, and as much while they are sorted */

typedef struct weir_span {
  int64_t begin_us, duration_us;
  uint32_t key; /* the caller's */
  uint32_t cost;
} weir_span;

typedef struct weir_spans {
  uint64_t count;
  size_t
      most; /* in memory at once: WEIR_SPANS_MOST, or what was set before the first; 16 at least */
  weir_span *memory; /* the latest; once there is a file: what was read of it */
  size_t used, room;
  FILE *file; /* `most` at a time, each time sorted, and in the end all; NULL: memory is enough */
  uint64_t written; /* to the file */
  uint64_t read;    /* of all, in this pass */
  size_t at;        /* in memory, of this pass */
  int error;        /* an errno: of the file, or ENOMEM; 0: none */
} weir_spans;

/* Begins zeroed. */
void weir_spans_clean_up(weir_spans *spans);

/* False, for good: weir_spans_check() says why. */
bool weir_spans_add(weir_spans *spans, const weir_span *span);

/* After the last. */
bool weir_spans_sort(weir_spans *spans);

/* Goes through all of them, once more with each begin(): in order of their begins, of those that
 * begin at the same time the shorter first. False: there is no more, or weir_spans_check() says why. */
void weir_spans_begin(weir_spans *spans);
bool weir_spans_next(weir_spans *spans, weir_span *span);

/* WEIR_OK, WEIR_NO_MEMORY, or WEIR_BAD_ARGUMENT where the temporary file is not what it should be. */
weir_status weir_spans_check(const weir_spans *spans, weir_message *message);

#endif
