/* The times of what is held (docs/guarantees.md, "In flight"), for the method and for the driver that
 * renews: d is the clock error, D the deadline, T the rule's period.
 *
 *     X - T                          X - R              X - G       X
 *     |------- an entry pays E ------|-- E, then E+1 ---------------|
 *                                    |---- renewals ----|
 *                                                       `- here it is held no more unless E+1 is paid
 */
#ifndef WEIR_ALGORITHM_IN_FLIGHT_H
#define WEIR_ALGORITHM_IN_FLIGHT_H

#include "algorithm/algorithm.h"

/* T is at least so many times as long as 2d + D: then R fits into it, and a renewal into R. */
enum { WEIR_HELD_MARGINS = 8 };

/* G, the guard: so long before the end of what is paid a place is held no more. Clocks that differ
 * by 2d agree that each process that still believes has paid. */
static inline int64_t weir_held_guard_us(const weir_rule *rule, const weir_settings *settings) {
  int64_t clocks_us = 2 * settings->clock_error_us;
  int64_t share_us = rule->period_us / 16;
  return clocks_us > share_us ? clocks_us : share_us;
}

/* R, the run-up: so long before the end of its epoch an entry pays for the next one as well, and
 * renewals may begin. */
static inline int64_t weir_held_run_up_us(const weir_rule *rule, const weir_settings *settings) {
  int64_t deadline_us = settings->ahead_us - 2 * settings->clock_error_us;
  return 2 * weir_held_guard_us(rule, settings) + deadline_us;
}

/* When the last epoch ends that an entry at this time pays. */
static inline int64_t weir_held_end_us(const weir_rule *rule, const weir_settings *settings,
                                       int64_t at_us) {
  int64_t end_us = (at_us / rule->period_us + 1) * rule->period_us;
  bool ahead = at_us >= end_us - weir_held_run_up_us(rule, settings);
  return end_us + (ahead ? rule->period_us : 0);
}

#endif
