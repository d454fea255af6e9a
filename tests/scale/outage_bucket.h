/* The same for token buckets of one token a millisecond, on four keys: what all processes admit
 * while the store is cut off. */
#ifndef TESTS_SCALE_OUTAGE_BUCKET_H
#define TESTS_SCALE_OUTAGE_BUCKET_H

#include <stddef.h>

#include "scale/outage_account.h"

struct bucket_scene {
  const char *name;
  uint64_t seed;
  int processes;
  double burst;
  double demand; /* in parts of the rate */
  double storm;  /* so many times that while away */
  double away_ms;
  double mean, worst; /* goals of what is admitted, of what was free */
};

extern const struct bucket_scene bucket_scenes[];
extern const size_t bucket_scenes_count;

struct bucket_figures {
  double mean, worst; /* admitted, of the rate for that time and what was left of the burst */
  double fullest_mean, fullest_worst; /* one bucket of all admissions, of the burst */
  double denied_percent;
};

void bucket_measure(const struct bucket_scene *scene, enum outage_policy policy, int runs,
                    struct bucket_figures *figures);

#endif
