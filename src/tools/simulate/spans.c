/* Sorts in memory what fits, and writes it down as a run. In the end runs are merged, MERGED_MOST at a
 * time, until there is one:
 *
 *     file    | run, sorted | run, sorted | run, sorted | ...
 *     memory  [ of the 1st  | of the 2nd  | of the 3rd  ]      a part of each at a time
 */
#include "simulate/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/backend.h>

#include "array.h"

enum { MERGED_MOST = 16 };

void weir_spans_clean_up(weir_spans *spans) {
  if (spans->file != NULL) fclose(spans->file);
  free(spans->memory);
  *spans = (weir_spans){0};
}

static bool fail(weir_spans *spans, int error) {
  spans->error = error != 0 ? error : EIO;
  return false;
}

weir_status weir_spans_check(const weir_spans *spans, weir_message *message) {
  if (spans->error == 0) return WEIR_OK;
  if (spans->error == ENOMEM) return WEIR_NO_MEMORY;
  weir_message_set(message, "the temporary file in which requests are sorted: %s",
                   strerror(spans->error));
  return WEIR_BAD_ARGUMENT;
}

/* No two that differ are equal, so that the order is the same however many runs there were. */
static int compare(const void *left, const void *right) {
  const weir_span *a = left, *b = right;
  if (a->begin_us != b->begin_us) return a->begin_us < b->begin_us ? -1 : 1;
  if (a->duration_us != b->duration_us) return a->duration_us < b->duration_us ? -1 : 1;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->cost > b->cost) - (a->cost < b->cost);
}

/* What is in memory becomes a run of the file. */
static bool write_run(weir_spans *spans) {
  qsort(spans->memory, spans->used, sizeof *spans->memory, compare);
  errno = 0;
  if (spans->file == NULL && (spans->file = tmpfile()) == NULL) return fail(spans, errno);
  if (fwrite(spans->memory, sizeof *spans->memory, spans->used, spans->file) != spans->used)
    return fail(spans, errno);
  spans->written += spans->used;
  spans->used = 0;
  return true;
}

bool weir_spans_add(weir_spans *spans, const weir_span *span) {
  if (spans->error != 0) return false;
  if (spans->most == 0) spans->most = WEIR_SPANS_MOST;
  if (spans->used == spans->most && !write_run(spans)) return false;
  if (!weir_array_grow(&spans->memory, &spans->room, spans->used + 1, sizeof *spans->memory))
    return fail(spans, ENOMEM);
  spans->memory[spans->used++] = *span;
  spans->count++;
  return true;
}

/* --- merging ---------------------------------------------------------------------------------- */

/* A run, and the part of memory that has the next of it. */
typedef struct run {
  uint64_t next, end; /* in the file */
  weir_span *part, *at, *stop;
} run;

/* `first` and `count` in spans. */
static bool read_spans(weir_spans *spans, uint64_t first, weir_span *to, size_t count) {
  char *at = (char *)to;
  size_t left = count * sizeof *to;
  off_t offset = (off_t)(first * sizeof *to);
  while (left > 0) {
    errno = 0;
    ssize_t got = pread(fileno(spans->file), at, left, offset);
    if (got <= 0) return fail(spans, errno);
    at += got;
    left -= (size_t)got;
    offset += got;
  }
  return true;
}

/* False: an error. At the end of the run nothing is there. */
static bool refill(weir_spans *spans, run *from) {
  size_t count = spans->most / MERGED_MOST;
  if (count > from->end - from->next) count = (size_t)(from->end - from->next);
  from->at = from->part;
  from->stop = from->part + count;
  from->next += count;
  return read_spans(spans, from->next - count, from->part, count);
}

/* The runs of `length` each from `first` on, MERGED_MOST of them at the most, into one. */
static bool merge(weir_spans *spans, uint64_t first, uint64_t length, FILE *to) {
  run runs[MERGED_MOST];
  for (size_t i = 0; i < MERGED_MOST; i++) {
    uint64_t begin = first + i * length, end = begin + length;
    runs[i] = (run){.next = begin < spans->count ? begin : spans->count,
                    .end = end < spans->count ? end : spans->count,
                    .part = spans->memory + i * (spans->most / MERGED_MOST)};
    if (!refill(spans, &runs[i])) return false;
  }
  for (;;) {
    run *earliest = NULL;
    for (size_t i = 0; i < MERGED_MOST; i++)
      if (runs[i].at < runs[i].stop && (earliest == NULL || compare(runs[i].at, earliest->at) < 0))
        earliest = &runs[i];
    if (earliest == NULL) return true;
    errno = 0;
    if (fwrite(earliest->at, sizeof *earliest->at, 1, to) != 1) return fail(spans, errno);
    if (++earliest->at == earliest->stop && !refill(spans, earliest)) return false;
  }
}

bool weir_spans_sort(weir_spans *spans) {
  if (spans->error != 0) return false;
  if (spans->file == NULL) {
    if (spans->used > 0) qsort(spans->memory, spans->used, sizeof *spans->memory, compare);
    return true;
  }
  if (!write_run(spans)) return false;
  if (fflush(spans->file) != 0) return fail(spans, errno);
  for (uint64_t length = spans->most; length < spans->count; length *= MERGED_MOST) {
    FILE *to = tmpfile();
    bool good = to != NULL || fail(spans, errno);
    for (uint64_t first = 0; good && first < spans->count; first += length * MERGED_MOST)
      good = merge(spans, first, length, to);
    if (good && fflush(to) != 0) good = fail(spans, errno);
    if (!good && to != NULL) fclose(to);
    if (!good) return false;
    fclose(spans->file);
    spans->file = to;
  }
  return true;
}

/* --- a pass ----------------------------------------------------------------------------------- */

void weir_spans_begin(weir_spans *spans) {
  spans->read = 0;
  spans->at = 0;
  if (spans->file != NULL) spans->used = 0;
}

bool weir_spans_next(weir_spans *spans, weir_span *span) {
  if (spans->error != 0 || spans->read == spans->count) return false;
  if (spans->at == spans->used) { /* of a file alone: memory has all otherwise */
    uint64_t left = spans->count - spans->read;
    spans->used = left < spans->most ? (size_t)left : spans->most;
    spans->at = 0;
    if (!read_spans(spans, spans->read, spans->memory, spans->used)) return false;
  }
  *span = spans->memory[spans->at++];
  spans->read++;
  return true;
}
