/* Requests kept in memory, for questions that one pass cannot answer: in order of time some 4 to 8
 * bytes for each, and some 40 for each key. */
#ifndef WEIR_SIMULATE_RECORD_H
#define WEIR_SIMULATE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

/* One key, and what it asked for over all of the time. */
typedef struct weir_record_key {
  int64_t peak;  /* most that it asked for in any period: weir_record_find_peaks() */
  uint32_t name; /* where it begins: weir_record_name() reads it */
  uint32_t requests;
} weir_record_key;

/* Keys `first` to `end` - 1, and the requests of those that are wanted, key by key. */
typedef struct weir_record_group {
  int64_t above; /* wanted are keys with a higher peak */
  uint32_t first, end;
  uint64_t count; /* of requests */
  uint32_t *ends; /* where those of each key end, or that it is not wanted */
  struct weir_record_request *requests;
} weir_record_group;

typedef struct weir_record {
  size_t count;   /* of requests */
  int64_t now_us; /* of the latest */
  int64_t cost_most;
  uint64_t out_of_order; /* requests with an earlier time than one before; they count as now */
  int64_t furthest_us;   /* the most that one of these was late */
  unsigned char **blocks;
  size_t block_count, block_room;
  size_t written; /* of the last block */
  weir_record_key *keys;
  size_t key_count, key_room;
  int64_t peaks_us;       /* the period that the peaks are of; 0: none was asked for since */
  bool keeps_peaks;       /* they were found otherwise, and are of no period */
  weir_record_group kept; /* of the latest visit, where it is all of it; no ends: nothing */
  size_t kept_of;         /* so many requests there were */
  char *names;
  size_t names_length, names_room;
  weir_hash_table by_name; /* of places in `keys` */
} weir_record;

/* Begins zeroed. */
void weir_record_clean_up(weir_record *record);

/* False: not enough memory, or more than 2^32 - 1 keys, bytes of their names, or requests of one. A
 * cost is 1 to 2^31. */
bool weir_record_add(weir_record *record, int64_t time_us, const char *key, size_t key_length,
                     int64_t cost);

/* The key alone, without a request; made where it is new. NULL: as for weir_record_add(). */
weir_record_key *weir_record_use_key(weir_record *record, const char *key, size_t key_length);

/* NULL: it never asked. */
const weir_record_key *weir_record_find(const weir_record *record, const char *key,
                                        size_t key_length);

const char *weir_record_name(const weir_record *record, const weir_record_key *key, size_t *length);

/* --- all requests, in order of time ----------------------------------------------------------- */

typedef struct weir_recorded {
  int64_t time_us; /* never before the one before it */
  int64_t cost;
  uint32_t key; /* of weir_record.keys */
} weir_recorded;

typedef struct weir_record_cursor {
  const weir_record *record;
  size_t block;
  size_t at; /* in the block */
  size_t left;
  int64_t time_us;
} weir_record_cursor;

void weir_record_begin(const weir_record *record, weir_record_cursor *cursor);
bool weir_record_next(weir_record_cursor *cursor, weir_recorded *request);

/* --- requests by key ---------------------------------------------------------------- */

typedef struct weir_record_request {
  int64_t time_us;
  int64_t cost;
} weir_record_request;

/* The requests of one key, in order of time. A copy reads on where the first stood. */
typedef struct weir_record_reader {
  const weir_record_request *at, *end;
  weir_record_cursor cursor; /* of all requests, where `at` is NULL: then it looks for ... */
  uint32_t key;              /* ... this one */
} weir_record_reader;

bool weir_record_read(weir_record_reader *reader, weir_record_request *request);

/* False: enough was seen. */
typedef bool weir_record_visitor(void *context, uint32_t key, const weir_record_reader *reader);

/* Visits the keys with a peak above that. False: not enough memory. */
bool weir_record_visit(weir_record *record, int64_t above, weir_record_visitor *visitor,
                       void *context);

/* Writes every key's peak, unless the record keeps others: what an exact window would have had to
 * admit it all. False: not enough memory. */
bool weir_record_find_peaks(weir_record *record, int64_t period_us);

/* The peak that so many thousandths of the keys do not exceed; 1000: the highest. */
int64_t weir_record_percentile(const weir_record *record, int thousandths);

/* How many keys have a peak from 2^i to 2^(i+1) - 1. */
enum { WEIR_RECORD_BINS = 63 };
void weir_record_histogram(const weir_record *record, uint64_t bins[WEIR_RECORD_BINS]);

#endif
