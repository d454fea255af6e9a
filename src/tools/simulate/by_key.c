/* A record's requests key by key, and what keys ask for at most.
 *
 * Requests are kept in order of time. They are sorted for some keys at once, as many as have
 * REQUESTS_MOST together: each such group costs a look at all. A key that alone has more is not
 * sorted but looked for. Where one group is all that is wanted it is kept, as those that a higher
 * limit may deny are some of those that a lower one may. */
#include <stdlib.h>
#include <string.h>

#include "simulate/record.h"

#define NOT_WANTED UINT32_MAX
enum { REQUESTS_MOST = 1 << 19 };

bool weir_record_read(weir_record_reader *reader, weir_record_request *request) {
  weir_recorded any;
  if (reader->at != NULL) {
    if (reader->at == reader->end) return false;
    *request = *reader->at++;
    return true;
  }
  while (weir_record_next(&reader->cursor, &any)) {
    if (any.key != reader->key) continue;
    *request = (weir_record_request){any.time_us, any.cost};
    return true;
  }
  return false;
}

static bool is_wanted(const weir_record *record, const weir_record_group *group, size_t key) {
  return record->keys[key].peak > group->above;
}

/* From `first` on, up to REQUESTS_MOST requests, or those of one key. */
static void choose(const weir_record *record, weir_record_group *group) {
  size_t key = group->first;
  while (key < record->key_count && !is_wanted(record, group, key))
    key++;
  group->first = (uint32_t)key;
  group->count = 0;
  for (; key < record->key_count; key++) {
    if (!is_wanted(record, group, key)) continue;
    uint64_t requests = record->keys[key].requests;
    if (group->count > 0 && group->count + requests > REQUESTS_MOST) break;
    group->count += requests;
  }
  group->end = (uint32_t)key;
}

static bool sort(const weir_record *record, weir_record_group *group) {
  weir_record_cursor cursor;
  weir_recorded request;
  uint32_t before = 0, width = group->end - group->first;
  group->ends = malloc(width * sizeof *group->ends);
  group->requests = malloc((size_t)group->count * sizeof *group->requests);
  if (group->ends == NULL || group->requests == NULL) return false;
  for (uint32_t i = 0; i < width; i++) {
    bool wanted = is_wanted(record, group, group->first + i);
    group->ends[i] = wanted ? before : NOT_WANTED;
    if (wanted) before += record->keys[group->first + i].requests;
  }
  weir_record_begin(record, &cursor);
  while (weir_record_next(&cursor, &request)) {
    uint32_t i = request.key - group->first; /* of keys before the first, far too large */
    if (i >= width || group->ends[i] == NOT_WANTED) continue;
    group->requests[group->ends[i]++] = (weir_record_request){request.time_us, request.cost};
  }
  return true;
}

static bool visit_sorted(const weir_record *record, const weir_record_group *group, int64_t above,
                         weir_record_visitor *visitor, void *context) {
  for (uint32_t key = group->first; key < group->end; key++) {
    uint32_t end = group->ends[key - group->first];
    if (end == NOT_WANTED || record->keys[key].peak <= above) continue;
    const weir_record_reader reader = {.at = group->requests + (end - record->keys[key].requests),
                                       .end = group->requests + end};
    if (!visitor(context, key, &reader)) return false;
  }
  return true;
}

static void forget(weir_record_group *group) {
  free(group->ends);
  free(group->requests);
  group->ends = NULL;
  group->requests = NULL;
}

bool weir_record_visit(weir_record *record, int64_t above, weir_record_visitor *visitor,
                       void *context) {
  weir_record_group group = {.above = above};
  bool enough = true, goes_on = true;
  if (record->kept.ends != NULL && record->kept_of == record->count &&
      above >= record->kept.above) {
    (void)visit_sorted(record, &record->kept, above, visitor, context);
    return true;
  }
  forget(&record->kept);
  for (bool is_first = true; enough && goes_on; group.first = group.end, is_first = false) {
    choose(record, &group);
    if (group.count == 0) break;
    if (group.count > REQUESTS_MOST) {
      weir_record_reader reader = {.key = group.first};
      weir_record_begin(record, &reader.cursor);
      goes_on = visitor(context, group.first, &reader);
      continue;
    }
    enough = sort(record, &group);
    goes_on = enough && visit_sorted(record, &group, above, visitor, context);
    if (enough && is_first && group.end == record->key_count) {
      record->kept = group;
      record->kept_of = record->count;
      break;
    }
    forget(&group);
  }
  return enough;
}

/* --- peaks ------------------------------------------------------------------------------------ */

static bool find_peak(void *context, uint32_t key, const weir_record_reader *requests) {
  weir_record *record = context;
  weir_record_reader last = *requests, first = *requests;
  weir_record_request newest, oldest = {0};
  int64_t sum = 0, most = 0;
  (void)weir_record_read(&first, &oldest); /* a key has one at least */
  while (weir_record_read(&last, &newest)) {
    sum += newest.cost;
    while (oldest.time_us <= newest.time_us - record->peaks_us) {
      sum -= oldest.cost;
      (void)weir_record_read(&first, &oldest); /* the newest is not too old */
    }
    if (sum > most) most = sum;
  }
  record->keys[key].peak = most;
  return true;
}

bool weir_record_find_peaks(weir_record *record, int64_t period_us) {
  if (record->peaks_us == period_us) return true;
  forget(&record->kept);
  for (size_t i = 0; i < record->key_count; i++)
    record->keys[i].peak = 0;
  record->peaks_us = period_us;
  if (weir_record_visit(record, -1, find_peak, record)) return true;
  record->peaks_us = 0;
  return false;
}

/* By halving: a copy of all peaks to be sorted would be as large as the keys. */
int64_t weir_record_percentile(const weir_record *record, int thousandths) {
  size_t rank = (record->key_count * (size_t)thousandths + 999) / 1000;
  int64_t below = -1, enough = 0;
  for (size_t i = 0; i < record->key_count; i++)
    if (record->keys[i].peak > enough) enough = record->keys[i].peak;
  while (rank < record->key_count && enough - below > 1) {
    int64_t peak = below + (enough - below) / 2;
    size_t within = 0;
    for (size_t i = 0; i < record->key_count; i++)
      within += record->keys[i].peak <= peak;
    *(within >= rank ? &enough : &below) = peak;
  }
  return enough;
}

void weir_record_histogram(const weir_record *record, uint64_t bins[WEIR_RECORD_BINS]) {
  memset(bins, 0, WEIR_RECORD_BINS * sizeof *bins);
  for (size_t i = 0; i < record->key_count; i++)
    bins[63 - __builtin_clzll((uint64_t)record->keys[i].peak)]++; /* a cost is 1 at least */
}
