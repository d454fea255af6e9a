/* Requests kept in memory, for questions that one pass cannot answer: 16 bytes each, and the keys.
 */
#ifndef WEIR_SIMULATE_RECORD_H
#define WEIR_SIMULATE_RECORD_H

#include "simulate/tally.h"

typedef struct weir_recorded {
  int64_t time_us; /* never before the one before it */
  uint32_t cost;
  uint32_t key; /* of weir_record.keys */
} weir_recorded;

/* One key, and what it asked for over all of the time. */
typedef struct weir_record_key {
  const char *text;
  size_t length;
  uint64_t hash;
  uint64_t requests;
  int64_t peak; /* most that it asked for in any period: weir_record_find_peaks() */
} weir_record_key;

typedef struct weir_record {
  weir_recorded *requests;
  size_t count, room;
  weir_record_key *keys;
  size_t key_count, key_room;
  weir_tally ids; /* by key; amount: the number, from 1 */
  unsigned char hash_key[16];
} weir_record;

/* Begins zeroed. */
void weir_record_clean_up(weir_record *record);

/* False: not enough memory, or more than 2^32 - 1 keys. */
bool weir_record_add(weir_record *record, int64_t time_us, const char *key, size_t key_length,
                     int64_t cost);

/* NULL: it never asked. */
const weir_record_key *weir_record_find(const weir_record *record, const char *key,
                                        size_t key_length);

/* Writes every key's peak: what an exact window would have had to admit it all. False: not enough
 * memory. */
bool weir_record_find_peaks(weir_record *record, int64_t period_us);

/* The peaks that so many thousandths of the keys do not exceed; 1000: the highest. False: not enough
 * memory. */
bool weir_record_percentiles(const weir_record *record, const int *thousandths, size_t count,
                             int64_t *peaks);

/* How many keys have a peak from 2^i to 2^(i+1) - 1. */
enum { WEIR_RECORD_BINS = 63 };
void weir_record_histogram(const weir_record *record, uint64_t bins[WEIR_RECORD_BINS]);

#endif
