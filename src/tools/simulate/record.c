/* Keeps requests: each is written down in few bytes behind the one before it.
 *
 * The distance in time, times 4: + 1 where a cost above 1 follows, + 2 where it counts milliseconds;
 * then the number of the key; then the cost. Numbers have seven bits in a byte, the lowest first,
 * and all bytes but the last have the highest bit set. */
#include "simulate/record.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum {
  ROOM_LEAST = 1024,
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
  free(record->places);
  free(record->kept.ends);
  free(record->kept.requests);
  *record = (weir_record){0};
}

/* Room for so many of `size` bytes; NULL: not enough memory. Large arrays move without a copy. */
static void *grow(void *array, size_t needed, size_t *room, size_t size) {
  if (needed <= *room) return array;
  size_t more = *room == 0 ? ROOM_LEAST : *room * 2;
  while (more < needed)
    more *= 2;
  void *larger = realloc(array, more * size);
  if (larger != NULL) *room = more;
  return larger;
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

/* Where the key stands, or the free place for it. Half of the places are always free: each that is
 * looked at in vain costs two more looks into memory. */
static size_t locate(const weir_record *record, const char *text, size_t length) {
  unsigned char bytes[crypto_shorthash_BYTES];
  uint64_t hash;
  crypto_shorthash(bytes, (const unsigned char *)text, length, record->hash_key);
  memcpy(&hash, bytes, sizeof hash);
  size_t at = hash & (record->place_count - 1);
  for (; record->places[at] != 0; at = (at + 1) & (record->place_count - 1)) {
    size_t held;
    const char *name = weir_record_name(record, &record->keys[record->places[at] - 1], &held);
    if (held == length && memcmp(name, text, length) == 0) break;
  }
  return at;
}

static bool make_places(weir_record *record) {
  if (record->key_count < record->place_count / 2) return true;
  weir_record larger = *record;
  larger.place_count = record->place_count == 0 ? ROOM_LEAST : record->place_count * 2;
  larger.places = calloc(larger.place_count, sizeof *larger.places);
  if (larger.places == NULL) return false;
  for (size_t i = 0; i < record->key_count; i++) {
    size_t length;
    const char *name = weir_record_name(record, &record->keys[i], &length);
    larger.places[locate(&larger, name, length)] = (uint32_t)i + 1;
  }
  free(record->places);
  *record = larger;
  return true;
}

static bool add_name(weir_record *record, const char *text, size_t length) {
  size_t needed = record->names_length + NUMBER_MOST + length;
  if (needed > UINT32_MAX || record->key_count + 1 >= UINT32_MAX) return false;
  char *names = grow(record->names, needed, &record->names_room, 1);
  if (names == NULL) return false;
  record->names = names;
  void *keys = grow(record->keys, record->key_count + 1, &record->key_room, sizeof *record->keys);
  if (keys == NULL) return false;
  record->keys = keys;
  record->keys[record->key_count++] = (weir_record_key){.name = (uint32_t)record->names_length};
  unsigned char *at = (unsigned char *)names + record->names_length;
  size_t written = write_number(at, length);
  memcpy(at + written, text, length);
  record->names_length += written + length;
  return true;
}

/* NULL: not enough memory. */
static weir_record_key *use_key(weir_record *record, const char *text, size_t length) {
  if (record->place_count == 0) randombytes_buf(record->hash_key, sizeof record->hash_key);
  if (!make_places(record)) return NULL;
  size_t at = locate(record, text, length);
  if (record->places[at] == 0) {
    if (!add_name(record, text, length)) return NULL;
    record->places[at] = (uint32_t)record->key_count;
  }
  return &record->keys[record->places[at] - 1];
}

const weir_record_key *weir_record_find(const weir_record *record, const char *key,
                                        size_t key_length) {
  if (record->place_count == 0) return NULL;
  uint32_t number = record->places[locate(record, key, key_length)];
  return number != 0 ? &record->keys[number - 1] : NULL;
}

/* --- requests --------------------------------------------------------------------------------- */

static bool make_block(weir_record *record) {
  if (record->block_count > 0 && record->written + REQUEST_MOST <= BLOCK_BYTES) return true;
  void *blocks =
      grow(record->blocks, record->block_count + 1, &record->block_room, sizeof *record->blocks);
  if (blocks == NULL) return false;
  record->blocks = blocks;
  unsigned char *block = malloc(BLOCK_BYTES);
  if (block == NULL) return false;
  record->blocks[record->block_count++] = block;
  record->written = 0;
  return true;
}

/* Logs are written when requests end, so their times step back now and then. The first request's
 * distance is that from 0. */
static uint64_t move_on(weir_record *record, int64_t time_us) {
  int64_t distance_us = time_us - record->now_us;
  if (record->count > 0 && distance_us < 0) {
    record->out_of_order++;
    if (-distance_us > record->furthest_us) record->furthest_us = -distance_us;
    return 0;
  }
  record->now_us = time_us;
  return (uint64_t)distance_us;
}

bool weir_record_add(weir_record *record, int64_t time_us, const char *key, size_t key_length,
                     int64_t cost) {
  weir_record_key *used = use_key(record, key, key_length);
  if (used == NULL || used->requests == UINT32_MAX || !make_block(record)) return false;
  uint64_t distance = move_on(record, time_us);
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
