/* The breaker of one server: after the server has failed to answer, most callers are turned away at
 * once and one at a time finds out whether it is back.
 *
 *              two misses, or it cannot        probe_at, the next slot
 *              be reached
 *     CLOSED ------------> OPEN -------------------------------------> HALF_OPEN
 *        ^                  ^    the probe is missed: the pause doubles |     |
 *        |                  |    it was never sent: the same pause      |     |
 *        |                  +-------------------------------------------+     |
 *        +--- an answer in time to anybody, in either state ------------------+
 *
 * A miss is a request without an answer in time. One proves nothing, as the server may only have
 * paused. Another one a timeout later does, if there was no answer in time to anybody in between.
 * Where what was missed is answered after all, the server is there, and slow: that takes several
 * timeouts, so that a few slow answers in a row are no outage.
 *
 * Arithmetic on a struct that the wire's lock guards: no clock, no system call. */
#ifndef WEIR_WIRE_BREAKER_H
#define WEIR_WIRE_BREAKER_H

#include <weir/backend.h>

/* Between the failure and the first probe: this long at most, half of it at least. And between the two
 * misses that open it, of a server that answers late: so many timeouts at least. */
enum { WEIR_BREAKER_FIRST_US = 40000, WEIR_BREAKER_SLOW_TIMEOUTS = 5 };

typedef struct weir_breaker {
  weir_breaker_state state;
  const void *probe;   /* who was let through; NULL unless half-open */
  int64_t probe_at_us; /* open: when it lets the next one through */
  int64_t pause_us;    /* the longest the present pause may be, before jitter */
  int64_t timeout_us;  /* the least time between the two misses that open it */
  int64_t most_us;     /* the longest that a pause may become */
  uint64_t random;
  uint64_t opened;   /* times it opened */
  bool missed;       /* closed: there was a miss since the last answer in time, */
  int64_t missed_us; /* first at this time, */
  bool slow;         /* and what was missed has had its answer since */
  weir_message why;  /* the last failure; stays when the server is back */
} weir_breaker;

/* Closed. `seed` must differ from process to process, so that their probes do not come together. */
void weir_breaker_init(weir_breaker *breaker, int64_t timeout_us, int64_t most_us, uint64_t seed);

/* Whether `who` may go ahead, which makes it the probe. Not for a closed one. */
bool weir_breaker_admits(weir_breaker *breaker, const void *who, int64_t now_us);

/* `who` had no answer in time. That ends the probe, and may open a closed breaker. */
void weir_breaker_miss(weir_breaker *breaker, const void *who, const char *why, int64_t now_us);

/* `who` ends and was never sent: if it was the probe, the next one goes after a pause as long. */
void weir_breaker_end(weir_breaker *breaker, const void *who, int64_t now_us);

/* The server cannot be reached by anybody: opens; the probe has failed, if there is one. */
void weir_breaker_fail(weir_breaker *breaker, const char *why, int64_t now_us);

/* There is reason to believe that the server can be reached: the pause is over, whatever is left of
 * it. Changes nothing unless open. */
void weir_breaker_hasten(weir_breaker *breaker);

/* The server answered what was a miss: that neither closes it nor takes the miss back. */
void weir_breaker_answered_late(weir_breaker *breaker);

/* The server answered in time: closes, and forgets the miss. */
void weir_breaker_answered(weir_breaker *breaker);

#endif
