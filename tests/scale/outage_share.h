/* Which part of the traffic is this process's? Estimated from what the store answers anyway: how
 * much was charged, by everybody, before an own charge.
 *
 * The last own charge does not count, neither as its own nor among all. Own charges over all of
 * them would add up to more than 1 over the processes: one that came first and left would take
 * itself for alone. */
#ifndef TESTS_SCALE_OUTAGE_SHARE_H
#define TESTS_SCALE_OUTAGE_SHARE_H

#include <stdbool.h>

/* The charges of all keys of a process. Zeroed at first. */
struct share_process {
  double own, all;
  double half_at_ms; /* when both are halved */
};

/* The charges of one key. Zeroed at first. */
struct share_key {
  double own, all; /* charges that were seen in this period, and half of those seen before it */
  double before;   /* what stood there before the last own charge of this period */
  bool has_charged;
};

/* The estimate for a key; of one that was seldom seen, that for the process; of that, `first`. */
double share_of_key(const struct share_key *key, const struct share_process *process, double first);

/* A charge of 1 was admitted where `before` stood. A process that holds its share after an outage
 * learns nothing, as others are not back yet. */
void share_learn(struct share_key *key, struct share_process *process, double before,
                 bool is_holding, double now_ms);

/* So many periods have passed since the last. */
void share_begin_period(struct share_key *key, int periods);

#endif
