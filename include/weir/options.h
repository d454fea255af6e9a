/* The options of a limiter besides its rules: its clock, its times, its memory, its policy. */
#ifndef WEIR_OPTIONS_H
#define WEIR_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where "now" comes from: microseconds since the Unix epoch, 0 to 253402300799999999 (year 9999).
 * Called from any thread that uses the limiter, several times per decision; must not block. Small
 * backward steps (up to the larger of clock_error_us and 1 s) are held back by the limiter, to
 * within a hundredth of clock_error_us, 100 us at the most. */
typedef struct weir_clock {
  int64_t (*now_us)(void *context);
  void *context;
} weir_clock;

/* Switches for weir_limiter_options.flags. */
enum weir_limiter_flag {
  WEIR_NO_CACHED_CELLS = 1 << 0, /* read finished cells from the store every time */
  WEIR_NO_LOCAL_DENIAL = 1 << 1, /* ask the store even for requests known to be denied */
  WEIR_NO_COMBINING = 1 << 2,    /* decide requests that meet at a key one after another */
  WEIR_ABSENT_DENIES = 1 << 4,   /* with limits_us: a key that no limit was set for is denied */
  WEIR_NO_LEASES = 1 << 3        /* charge nothing ahead, whatever lease= says; a bucket still
                                    leaves room for the leases of others */
};

/* The policy of a limiter answers a request to take that the store did not decide: one whose status
 * would be of WEIR_CLASS_STORE, WEIR_TIMEOUT or WEIR_CONTENDED. Then the status is WEIR_OK, the
 * decision's store_status says why, and its source is one of two:
 *
 *   WEIR_SOURCE_FALLBACK   the store is away: not connected to, refusing, or without an answer in
 *                          time to anybody. The policy below answers
 *   WEIR_SOURCE_LATE       this request ran out of its own time (a busy process, a long queue,
 *                          others who wrote the key, a server that paused), or its connection was
 *                          lost; the store does not count as away. The policy below answers
 *
 * The store never admits more than its bound; WEIR_FALLBACK_LOCAL continues: on average not more
 * than was left, however many processes there are. Peeks, refunds and resets have no other answer
 * than the status. docs/failure.md states what each policy admits. */
typedef enum weir_fallback {
  WEIR_FALLBACK_LOCAL, /* this process's measured share of what was left, and in later periods of
                          the limit; owed, and paid to the store when that is back. Denied: again
                          after the rule's own time, 500 ms at the most (late: 50 ms). Where others
                          kept writing the key, and late under a sliding-log, denied */
  WEIR_FALLBACK_DENY,  /* denied, again after 500 ms; late: 50 ms */
  WEIR_FALLBACK_ALLOW, /* allowed; remaining and reset_after_us are WEIR_NOT_KNOWN */
  WEIR_FALLBACK_NONE   /* the status itself */
} weir_fallback;

/* Somebody pays again for what is held, and refills what lease= charges ahead. It is a thread of
 * the limiter's own, with all signals blocked, that is there only while something is held (and a
 * quarter of PERIOD longer), or busy keys are asked for (and two leases longer). Or it is the
 * caller, by weir_limiter_renew(). */
typedef enum weir_renew_by { WEIR_RENEW_BY_THREAD, WEIR_RENEW_BY_CALLER } weir_renew_by;

/* Zero means default, for every member. Begin with WEIR_LIMITER_OPTIONS_INIT, which sets `size`.
 * Members are only ever appended. A shorter, older structure is accepted; so is a longer, newer
 * one, up to 4096 bytes, while all that this version does not know is zero. Set clock_error_us,
 * processes, memo_age_us and longest_wait_us alike wherever the same keys are used, and deadline_us
 * where it is above 100 ms: the guarantees count on it.
 */
typedef struct weir_limiter_options {
  size_t size;
  /* Default: CLOCK_REALTIME. */
  weir_clock clock;
  /* Longest a decision may take, from reading the clock to the answer; its last quarter is kept for
   * giving back what was charged in vain. 1000 to 60000000; default: the store's timeout. */
  int64_t deadline_us;
  /* Furthest a process's clock may be from true time, so that two differ by up to twice that. 1 to
   * 60000000; default 10000. */
  int64_t clock_error_us;
  /* How many limiters may use the same keys at once, one in each process as a rule. Part of the
   * storage layout, and of how far ahead a bucket may stand on Redis before a clock must have been
   * wrong. 1 to 100000; default 64. */
  uint32_t processes;
  /* Keys this limiter remembers something about. 1 to 16777216; default 16384, and on a store that
   * says how many keys it keeps (memory:keys=) as many as their counters fit there, if that is
   * more. A bound: memory follows the keys that come. A limiter takes 6.4 KB until it is used, with
   * a rule of sliding window 48 KB after 100 keys; one that answers for its store by
   * WEIR_FALLBACK_LOCAL twice that.
   */
  uint32_t memo_keys;
  /* Oldest local knowledge a decision may use, repeated denials included; but a charge may be admitted
   * by older cells of a window, which can only have become smaller. 1 to 60000000; default 1000000. */
  int64_t memo_age_us;
  /* Longest a denial is repeated without the store, counted from the store's answer; memo_age_us at the
   * most. 1 to 60000000; default 50000. */
  int64_t local_denial_us;
  /* Keys live at least this long in the store, for clocks that do not run at the pace of real time.
   * Up to 400 days; default 0. Buckets above about 10^6 a second, on stores with compare-and-swap,
   * 47 days at most, and by a clock that runs faster they must not be idle for longer. With it,
   * every charge of a bucket renews its key's TTL. */
  int64_t least_ttl_us;
  /* Longest delay that a request may accept (weir_request.longest_wait_us, weir_limiter_wait).
   * Buckets in the store live longer by it, on Redis by 8/3 of it. 1 to 1800000000; default
   * 60000000. */
  int64_t longest_wait_us;
  unsigned flags;    /* enum weir_limiter_flag */
  unsigned fallback; /* enum weir_fallback; default WEIR_FALLBACK_LOCAL */
  /* How many limiters share a rule, for one that has not met its store since it was created: with
   * WEIR_FALLBACK_LOCAL it takes its share to be 1 / peers. Later its share is measured; told here, peers
   * then bounds its share of a key that it has not measured. 1 to 100000; default: processes where
   * that is set, else 8. */
  uint32_t peers;
  uint32_t reserved; /* 0 */

  /* enum weir_renew_by: who pays again for what in-flight rules hold, and refills leases. */
  unsigned renew;
  uint32_t reserved_too; /* 0 */
  /* Keys have limits of their own in the store (weir_limiter_set_limits()), and what was read of one is
   * believed for so long: one that is set is seen by all limiters within this and a deadline. Needs most=
   * in one of the rules, and no lease= of an in-flight one; not of a shared-window. 1000 to 60000000; 0:
   * keys have none. */
  int64_t limits_us;
} weir_limiter_options;

#define WEIR_LIMITER_OPTIONS_INIT WEIR_SIZED(weir_limiter_options)

#ifdef __cplusplus
}
#endif

#endif
