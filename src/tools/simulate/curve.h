/* What one rule takes for used and what really is, over a stretch of time, for one key. */
#ifndef WEIR_SIMULATE_CURVE_H
#define WEIR_SIMULATE_CURVE_H

#include <weir/limiter.h>

typedef enum weir_curve_mark {
  WEIR_MARK_NONE, /* nothing was asked: a look between requests */
  WEIR_MARK_RIGHT,
  WEIR_MARK_WRONGLY_ALLOWED,
  WEIR_MARK_WRONGLY_DENIED
} weir_curve_mark;

typedef struct weir_curve_point {
  int64_t at_us;
  int64_t truth;    /* counted in the last period: weir_measure_truth() */
  int64_t estimate; /* limit - remaining */
  weir_curve_mark mark;
} weir_curve_point;

typedef struct weir_curve_request {
  int64_t at_us;
  int64_t cost;
} weir_curve_request;

/* Goes through the requests, which are in order of time, and looks `looks` times at even distances
 * between from_us and until_us. Calls `draw` for every point in that stretch, in order of time.
 * Errors are those of the rule and of its costs, and WEIR_NO_MEMORY. */
typedef struct weir_curve {
  const char *rule;
  const weir_limiter_options *options;
  const weir_curve_request *requests;
  size_t request_count;
  int64_t from_us;
  int64_t until_us;
  int looks;
  void (*draw)(void *context, const weir_curve_point *point);
  void *context;
} weir_curve;

weir_status weir_curve_draw(const weir_curve *curve, weir_message *message);

#endif
