/* The exact sliding window: every request of the last W, one by one. */
#ifndef WEIR_SIMULATE_STAMPS_H
#define WEIR_SIMULATE_STAMPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_stamp {
  int64_t at_us;
  int64_t counted;
  int64_t admitted;
} weir_stamp;

typedef struct weir_stamps {
  weir_stamp *stamps; /* stamps[first] to stamps[end - 1], oldest first */
  size_t first;
  size_t end;
  size_t room;
  int64_t counted; /* their sums */
  int64_t admitted;
} weir_stamps;

void weir_stamps_clean_up(weir_stamps *stamps);

/* Empties them; memory for few stays. */
void weir_stamps_clear(weir_stamps *stamps);

/* Drops what is `period_us` old or older: what is left lies in an interval of the period's length
 * that ends now. */
void weir_stamps_slide(weir_stamps *stamps, int64_t now_us, int64_t period_us);

/* False: not enough memory. */
bool weir_stamps_add(weir_stamps *stamps, int64_t now_us, int64_t counted, int64_t admitted);

#endif
