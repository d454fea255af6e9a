/* The processes of a run: each opens the store by itself. They know no more of each other than
 * deployed ones do. */
#ifndef TESTS_OUTAGE_TRAFFIC_H
#define TESTS_OUTAGE_TRAFFIC_H

#include <sys/types.h>

#include "outage/callers.h"

/* Starts them, and returns when all are connected and begin. */
void traffic_begin(const struct traffic *traffic, pid_t processes[PROCESSES]);

/* Waits until all have ended; gives up where one did not end well. */
void traffic_end(const struct traffic *traffic, const pid_t processes[PROCESSES]);

#endif
