/* Keeps requests, and finds what keys ask for at most. */
#include "simulate/record.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 1024 };

void weir_record_clean_up(weir_record *record) {
  free(record->requests);
  free(record->keys);
  weir_tally_clean_up(&record->ids);
  *record = (weir_record){0};
}

/* Room for one more of `size` bytes; NULL: not enough memory. */
static void *grow(void *array, size_t count, size_t *room, size_t size) {
  if (count < *room) return array;
  size_t more = *room == 0 ? ROOM_LEAST : *room * 2;
  void *larger = realloc(array, more * size);
  if (larger != NULL) *room = more;
  return larger;
}

static uint64_t hash_of(const weir_record *record, const char *key, size_t length) {
  unsigned char bytes[crypto_shorthash_BYTES];
  uint64_t hash;
  crypto_shorthash(bytes, (const unsigned char *)key, length, record->hash_key);
  memcpy(&hash, bytes, sizeof hash);
  return hash;
}

/* The number of the key, from 1; 0: not enough memory. */
static uint32_t number_of(weir_record *record, const char *key, size_t length) {
  uint64_t hash = hash_of(record, key, length);
  weir_tally_entry *entry = weir_tally_use(&record->ids, key, length, hash);
  if (entry == NULL) return 0;
  if (entry->amount != 0) return (uint32_t)entry->amount;
  if (record->key_count == UINT32_MAX) return 0;
  void *keys = grow(record->keys, record->key_count, &record->key_room, sizeof *record->keys);
  if (keys == NULL) return 0;
  record->keys = keys;
  record->keys[record->key_count++] =
      (weir_record_key){.text = entry->key, .length = length, .hash = hash};
  entry->amount = (int64_t)record->key_count;
  return (uint32_t)record->key_count;
}

bool weir_record_add(weir_record *record, int64_t time_us, const char *key, size_t key_length,
                     int64_t cost) {
  if (record->count == 0) randombytes_buf(record->hash_key, sizeof record->hash_key);
  uint32_t number = number_of(record, key, key_length);
  void *requests = grow(record->requests, record->count, &record->room, sizeof *record->requests);
  if (requests != NULL) record->requests = requests;
  if (requests == NULL || number == 0) return false;
  int64_t last_us = record->count > 0 ? record->requests[record->count - 1].time_us : time_us;
  record->requests[record->count++] =
      (weir_recorded){time_us > last_us ? time_us : last_us, (uint32_t)cost, number - 1};
  record->keys[number - 1].requests++;
  return true;
}

const weir_record_key *weir_record_find(const weir_record *record, const char *key,
                                        size_t key_length) {
  if (record->count == 0) return NULL;
  const weir_tally_entry *entry =
      weir_tally_find(&record->ids, key, key_length, hash_of(record, key, key_length));
  return entry != NULL ? &record->keys[entry->amount - 1] : NULL;
}

/* --- peaks ------------------------------------------------------------------------------------ */

/* The requests by key, in order of time: of key i they end at ends[i]. */
static void sort_by_key(const weir_record *record, uint64_t *ends, const weir_recorded **sorted) {
  uint64_t before = 0;
  for (size_t i = 0; i < record->key_count; i++) {
    ends[i] = before;
    before += record->keys[i].requests;
  }
  for (size_t i = 0; i < record->count; i++)
    sorted[ends[record->requests[i].key]++] = &record->requests[i];
}

static int64_t peak_of(const weir_recorded *const *requests, uint64_t count, int64_t period_us) {
  int64_t sum = 0, most = 0;
  uint64_t first = 0;
  for (uint64_t i = 0; i < count; i++) {
    sum += requests[i]->cost;
    while (requests[first]->time_us <= requests[i]->time_us - period_us)
      sum -= requests[first++]->cost;
    if (sum > most) most = sum;
  }
  return most;
}

bool weir_record_find_peaks(weir_record *record, int64_t period_us) {
  uint64_t *ends = malloc((record->key_count + 1) * sizeof *ends);
  const weir_recorded **sorted = malloc((record->count + 1) * sizeof *sorted);
  bool enough = ends != NULL && sorted != NULL;
  if (enough) sort_by_key(record, ends, sorted);
  for (size_t i = 0; enough && i < record->key_count; i++) {
    uint64_t count = record->keys[i].requests;
    record->keys[i].peak = peak_of(sorted + ends[i] - count, count, period_us);
  }
  free(ends);
  free(sorted);
  return enough;
}

static int by_size(const void *a, const void *b) {
  const int64_t *left = a, *right = b;
  return (*left > *right) - (*left < *right);
}

bool weir_record_percentiles(const weir_record *record, const int *thousandths, size_t count,
                             int64_t *peaks) {
  int64_t *all = malloc((record->key_count + 1) * sizeof *all);
  if (all == NULL) return false;
  for (size_t i = 0; i < record->key_count; i++)
    all[i] = record->keys[i].peak;
  qsort(all, record->key_count, sizeof *all, by_size);
  for (size_t i = 0; i < count; i++) {
    size_t rank = (record->key_count * (size_t)thousandths[i] + 999) / 1000;
    peaks[i] = record->key_count == 0 ? 0 : all[rank > 0 ? rank - 1 : 0];
  }
  free(all);
  return true;
}

void weir_record_histogram(const weir_record *record, uint64_t bins[WEIR_RECORD_BINS]) {
  memset(bins, 0, WEIR_RECORD_BINS * sizeof *bins);
  for (size_t i = 0; i < record->key_count; i++)
    bins[63 - __builtin_clzll((uint64_t)record->keys[i].peak)]++; /* a cost is 1 at least */
}
