/* The callers of one process: its threads send the requests of the lanes, at times made by chance. */
#ifndef TESTS_OUTAGE_CALLERS_H
#define TESTS_OUTAGE_CALLERS_H

#include "outage/tally.h"

struct traffic {
  const char *url;
  const struct lane *const *lanes;
  size_t count;
  uint64_t seed; /* also names the keys */
  struct tally *tally;
};

struct callers;

/* A limiter for each lane. `clock` of zeros: the system's. */
struct callers *callers_make(const struct traffic *traffic, size_t process, weir_store *store,
                             weir_clock clock);
void callers_begin(struct callers *callers);
weir_limiter *callers_limiter(const struct callers *callers, size_t lane);

/* Waits until all have ended, as the tally is over, and frees them. */
void callers_end(struct callers *callers);

#endif
