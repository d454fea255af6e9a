/* The processes of a run: each opens the store by itself, and its threads send the requests of the
 * lanes, at times made by chance. They know no more of each other than deployed ones do. */
#ifndef TESTS_OUTAGE_TRAFFIC_H
#define TESTS_OUTAGE_TRAFFIC_H

#include "outage/tally.h"

struct traffic {
  const char *url;
  const struct lane *const *lanes;
  size_t count;
  uint64_t seed; /* also names the keys */
  struct tally *tally;
};

/* Starts them, and returns when all are connected and begin. */
void traffic_begin(const struct traffic *traffic, pid_t processes[PROCESSES]);

/* Waits until all have ended; gives up where one did not end well. */
void traffic_end(const struct traffic *traffic, const pid_t processes[PROCESSES]);

#endif
