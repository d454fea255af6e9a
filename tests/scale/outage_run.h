/* Many runs of a scene under a policy. All policies see the same traffic until the outage begins.
 */
#ifndef TESTS_SCALE_OUTAGE_RUN_H
#define TESTS_SCALE_OUTAGE_RUN_H

#include "scale/outage_account.h"
#include "scale/outage_scene.h"

enum { OUTAGE_COURSE_BEFORE = 3, OUTAGE_COURSE = OUTAGE_COURSE_BEFORE + 5 };

struct outage_figures {
  double mean;           /* a window's total, in limits, of keys that are asked for that much */
  double p99, worst;     /* the same, of all keys */
  double denied_percent; /* of what one limiter for all would have admitted */
  double first_ms;       /* from the begin to the first answer by the policy */

  /* Key 0, window by window; OUTAGE_COURSE_BEFORE of them are before that of the begin. */
  double course_mean[OUTAGE_COURSE], course_worst[OUTAGE_COURSE];
};

/* False: no memory. */
bool outage_measure(const struct outage_scene *scene, enum outage_policy policy, int runs,
                    struct outage_figures *figures);

#endif
