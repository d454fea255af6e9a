/* Scenes: what happens to which traffic in a simulated outage. */
#ifndef TESTS_SCALE_OUTAGE_SCENE_H
#define TESTS_SCALE_OUTAGE_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum outage_fault {
  OUTAGE_STOPPED, /* and continued: what was sent is executed then */
  OUTAGE_KILLED,  /* comes back empty */
  OUTAGE_CUT_OFF  /* nothing arrives; counts stay */
};

struct outage_scene {
  const char *name;
  uint64_t seed;
  int processes;
  int keys;
  double zipf; /* of the keys' popularity */
  double limit;
  double demand; /* of the mean key, in limits a window of a second */
  double away_ms;
  enum outage_fault fault;
  bool is_uneven;         /* traffic 50/20/10 over the processes, and the rest */
  bool is_sticky;         /* each key has a process of its own */
  int begun_meanwhile;    /* so many of the processes start when the outage begins */
  int begun_lately;       /* so many start two windows before it */
  double storm;           /* so many times the demand while away; 0: once */
  int blinks;             /* so many outages; 0: one */
  double blinks_apart_ms; /* from begin to begin */
  bool is_starved;        /* no outage: each process is kept from the processor again and again */

  /* Goals of the policy that continues, of 80 runs: of a window's total, in limits; of what was
   * wrongly denied, 0: none. */
  double mean, worst, denied_percent;
};

extern const struct outage_scene outage_scenes[];
extern const size_t outage_scenes_count;
enum { OUTAGE_SCENE_OF_PICTURE = 1 };

#endif
