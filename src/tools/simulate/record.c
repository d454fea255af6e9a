/* Keeps requests in order of time, and tells what keys ask for at most.
 *
 * Each request is written down in few bytes behind the one before it.
 *
 * The distance in time, times 4: + 1 where a cost above 1 follows, + 2 where it counts milliseconds;
 * then the number of the key; then the cost. Numbers have seven bits in a byte, the lowest first,
 * and all bytes but the last have the highest bit set. */
#include "simulate/record.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

enum {
  BLOCK_BYTES = 1 << 18,
  NUMBER_MOST = 10,
  REQUEST_MOST = 3 * NUMBER_MOST,
  HAS_COST = 1,
  IN_MS = 2,
  FLAG_BITS = 2
};

void weir_record_clean_up(weir_record *record) {
  for (size_t i = 0; i < record->block_count; i++)
    free(record->blocks[i]);
  free(record->blocks);
  free(record->keys);
  free(record->names);
  weir_hash_table_clean_up(&record->by_name);
  free(record->kept.ends);
  free(record->kept.requests);
  *record = (weir_record){0};
}

static size_t write_number(unsigned char *at, uint64_t number) {
  size_t length = 0;
  for (; number >= 0x80; number >>= 7)
    at[length++] = (unsigned char)(number | 0x80);
  at[length++] = (unsigned char)number;
  return length;
}

static inline uint64_t read_number(const unsigned char **at) {
  uint64_t number = *(*at)++;
  if (number < 0x80) return number;
  number &= 0x7f;
  for (unsigned shift = 7;; shift += 7) {
    uint64_t byte = *(*at)++;
    number |= (byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

/* --- keys ------------------------------------------------------------------------------------- */

const char *weir_record_name(const weir_record *record, const weir_record_key *key,
                             size_t *length) {
  const unsigned char *at = (const unsigned char *)record->names + key->name;
  *length = (size_t)read_number(&at);
  return (const char *)at;
}

static bool has_name(const void *context, const void *item, const void *wanted) {
  const weir_record *record = context;
  size_t length;
  const char *text = weir_record_name(record, &record->keys[*(const uint32_t *)item], &length);
  return weir_hash_text_is(wanted, text, length);
}

weir_record_key *weir_record_use_key(weir_record *record, const char *text, size_t length) {
  if (record->key_count == 0)
    weir_hash_table_init(&record->by_name, sizeof(uint32_t), has_name, record);
  uint32_t mark = weir_hash_table_mark(&record->by_name, text, length);
  const uint32_t *found =
      weir_hash_table_find(&record->by_name, mark, &(weir_hash_text){text, length});
  if (found != NULL) return &record->keys[*found];

  size_t needed = record->names_length + NUMBER_MOST + length;
  if (needed > UINT32_MAX || record->key_count + 1 >= UINT32_MAX) return NULL;
  if (!weir_array_grow(&record->names, &record->names_room, needed, 1) ||
      !weir_array_grow(&record->keys, &record->key_room, record->key_count + 1,
                       sizeof *record->keys))
    return NULL;
  uint32_t *added = weir_hash_table_add(&record->by_name, mark);
  if (added == NULL) return NULL;
  *added = (uint32_t)record->key_count;
  record->keys[record->key_count++] = (weir_record_key){.name = (uint32_t)record->names_length};
  unsigned char *at = (unsigned char *)record->names + record->names_length;
  size_t written = write_number(at, length);
  memcpy(at + written, text, length);
  record->names_length += written + length;
  return &record->keys[*added];
}

const weir_record_key *weir_record_find(const weir_record *record, const char *key,
                                        size_t key_length) {
  uint32_t mark = weir_hash_table_mark(&record->by_name, key, key_length);
  const uint32_t *found =
      weir_hash_table_find(&record->by_name, mark, &(weir_hash_text){key, key_length});
  return found != NULL ? &record->keys[*found] : NULL;
}

/* --- requests --------------------------------------------------------------------------------- */

bool weir_record_add(weir_record *record, int64_t time_us, const char *key, size_t key_length,
                     int64_t cost) {
  weir_record_key *used = weir_record_use_key(record, key, key_length);
  if (used == NULL || used->requests == UINT32_MAX) return false;
  if (record->block_count == 0 || record->written + REQUEST_MOST > BLOCK_BYTES) {
    if (!weir_array_grow(&record->blocks, &record->block_room, record->block_count + 1,
                         sizeof *record->blocks))
      return false;
    unsigned char *block = malloc(BLOCK_BYTES);
    if (block == NULL) return false;
    record->blocks[record->block_count++] = block;
    record->written = 0;
  }

  /* Logs are written when requests end, so their times step back now and then. The first request's
   * distance is that from 0. */
  int64_t distance_us = time_us - record->now_us;
  if (record->count > 0 && distance_us < 0) {
    record->out_of_order++;
    if (-distance_us > record->furthest_us) record->furthest_us = -distance_us;
    distance_us = 0;
  } else {
    record->now_us = time_us;
  }

  uint64_t distance = (uint64_t)distance_us;
  unsigned flags = (cost > 1 ? HAS_COST : 0) | (distance % 1000 == 0 ? IN_MS : 0);
  if (flags & IN_MS) distance /= 1000;
  unsigned char *begin = record->blocks[record->block_count - 1] + record->written, *at = begin;
  at += write_number(at, distance << FLAG_BITS | flags);
  at += write_number(at, (uint64_t)(used - record->keys));
  if (flags & HAS_COST) at += write_number(at, (uint64_t)cost);
  record->written += (size_t)(at - begin);
  record->count++;
  record->peaks_us = 0;
  used->requests++;
  if (cost > record->cost_most) record->cost_most = cost;
  return true;
}

void weir_record_begin(const weir_record *record, weir_record_cursor *cursor) {
  *cursor = (weir_record_cursor){.record = record, .left = record->count};
}

bool weir_record_next(weir_record_cursor *cursor, weir_recorded *request) {
  if (cursor->left == 0) return false;
  cursor->left--;
  if (cursor->at + REQUEST_MOST > BLOCK_BYTES) {
    cursor->block++;
    cursor->at = 0;
  }
  const unsigned char *block = cursor->record->blocks[cursor->block], *at = block + cursor->at;
  uint64_t first = read_number(&at);
  uint64_t distance = first >> FLAG_BITS;
  cursor->time_us += (int64_t)(first & IN_MS ? distance * 1000 : distance);
  request->time_us = cursor->time_us;
  request->key = (uint32_t)read_number(&at);
  request->cost = first & HAS_COST ? (int64_t)read_number(&at) : 1;
  cursor->at = (size_t)(at - block);
  return true;
}

/* --- requests by key ----------------------------------------------------------------------------
 *
 * They are sorted for some keys at once, as many as have REQUESTS_MOST together: each such group
 * costs a look at all. A key that alone has more is not sorted but looked for. Where one group is
 * all that is wanted it is kept, as those that a higher limit may deny are some of those that a
 * lower one may. */

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
  if (record->peaks_us == period_us || record->keeps_peaks) return true;
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
