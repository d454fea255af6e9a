/* The breaker of one server: after the server has failed to answer, most callers are turned away at
 * once and one at a time finds out whether it is back.
 *
 *              no answer                       probe_at, the next slot
 *     CLOSED ------------> OPEN -------------------------------------> HALF_OPEN
 *        ^                  ^  ^     silence: the pause doubles         |  |  |
 *        |                  |  +----------------------------------------+  |  |
 *        |                  |        lost without proof: the same pause    |  |
 *        |                  +----------------------------------------------+  |
 *        +--- a reply, in either state ---------------------------------------+
 *
 * No answer: the server was proved to be silent, or too slow: for a second nobody had an answer in
 * time, though bytes came. Of a slow one only a reply in time proves that it is back.
 *
 * Arithmetic on a struct that the wire's lock guards: no clock, no system call. */
#ifndef WEIR_WIRE_BREAKER_H
#define WEIR_WIRE_BREAKER_H

#include <weir/backend.h>

/* Between the failure and the first probe: this long at most, half of it at least. */
enum { WEIR_BREAKER_FIRST_US = 40000 };

/* What lasts this long proves itself, however busy this process was. */
enum { WEIR_BREAKER_PROOF_US = 1000000 };

typedef struct weir_breaker {
  weir_breaker_state state;
  const void *probe;   /* whom it let through; NULL unless half-open */
  int64_t probe_at_us; /* open: when it lets the next one through */
  int64_t pause_us;    /* the longest the present pause may be, before jitter */
  int64_t most_us;     /* and the longest any may become */
  uint64_t random;
  uint64_t opened;   /* times it opened */
  bool slow;         /* it opened because answers did not come in time */
  int64_t missed_us; /* the first answer that did not, since one did; 0: none */
  weir_message why;  /* the last failure; stays when the server is back */
} weir_breaker;

/* Closed. `seed` must differ from process to process, so that their probes do not come together. */
void weir_breaker_init(weir_breaker *breaker, int64_t most_us, uint64_t seed);

/* Whether `who` may go ahead, which makes it the probe. Not for a closed one. */
bool weir_breaker_admits(weir_breaker *breaker, const void *who, int64_t now_us);

/* The server gave no answer to somebody: opens a closed breaker. What others met is no news to one
 * that is open or waits for its probe. */
void weir_breaker_trip(weir_breaker *breaker, const char *why, int64_t now_us);

/* The server cannot be reached by anybody: opens; the probe has failed, if there is one. */
void weir_breaker_fail(weir_breaker *breaker, const char *why, int64_t now_us);

/* `who` was on time and has no answer, of a server that is not silent: opens a closed breaker once
 * that has gone on for a second. */
void weir_breaker_miss(weir_breaker *breaker, const void *who, const char *why, int64_t now_us);

/* `who` ends without an answer, and without proof that there is none. Open again if it was the
 * probe. */
void weir_breaker_excuse(weir_breaker *breaker, const void *who, int64_t now_us);

/* There is reason to believe that the server can be reached: the pause is over, whatever is left of
 * it. Changes nothing unless open. */
void weir_breaker_hasten(weir_breaker *breaker);

/* The server answered, in time for whoever asked or not: closes, unless it is known to be too slow.
 */
void weir_breaker_answered(weir_breaker *breaker, bool in_time);

#endif
