/* Limiters: a rule applied to keys, with the counts in a store. */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/status.h>
#include <weir/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_limiter weir_limiter;

/* Where "now" comes from: microseconds since the Unix epoch, 0 to 253402300799999999 (year 9999).
 * Called from any thread that uses the limiter, several times per decision; must not block. Small
 * backward steps (up to the larger of clock_error_us and 1 s) are held back by the limiter. */
typedef struct weir_clock {
  int64_t (*now_us)(void *context);
  void *context;
} weir_clock;

/* Switches for weir_limiter_options.flags. */
enum weir_limiter_flag {
  WEIR_NO_CACHED_CELLS = 1 << 0, /* read finished cells from the store every time */
  WEIR_NO_LOCAL_DENIAL = 1 << 1  /* ask the store even for requests known to be denied */
};

/* Zero means default, for every member. Set `size` to sizeof(weir_limiter_options); members are
 * only ever appended, and a shorter, older structure is accepted. Set deadline_us, clock_error_us
 * and processes alike wherever the same keys are used: the guarantees count on it. */
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
   * storage layout. 1 to 100000; default 64. */
  uint32_t processes;
  /* Keys this limiter remembers something about. 1 to 16777216; default 16384. */
  uint32_t memo_keys;
  /* Oldest local knowledge a decision may use. 1 to 60000000; default 1000000. */
  int64_t memo_age_us;
  /* Longest a denial is repeated without the store, memo_age_us at the most. 1 to 60000000; default
   * 50000. */
  int64_t local_denial_us;
  /* Keys live at least this long in the store, for clocks that do not run at the pace of real time.
   * Up to 400 days; default 0. */
  int64_t least_ttl_us;
  unsigned flags;    /* enum weir_limiter_flag */
  unsigned reserved; /* 0 */
} weir_limiter_options;

/* Makes a limiter that applies `rules` with counts in `store`. Rule text:
 *
 *   fixed-window:LIMIT/PERIOD[,option...]
 *   sliding-window:LIMIT/PERIOD[,cells=N][,strict][,option...]
 *
 * LIMIT 1 to 1000000000. PERIOD a whole number and ms, s, m, h or d (or the unit alone: 5/s), 1ms
 * to 400d. cells: a power of two, 1 to 64, default 4; 1 is the weighted estimate over two windows.
 * strict: never more than LIMIT in any PERIOD. Options of every rule: count=admitted (default) or
 * count=all, which charges denied requests as well; name=TEXT, 1 to 32 of A-Z a-z 0-9 _ . -, which
 * keeps apart the counts of rules that are otherwise alike. docs/guarantees.md states what each
 * rule promises.
 *
 * Several rules separated by ';' are one decision: all admit or nothing is charged.
 *
 * `options` may be NULL. Errors: WEIR_BAD_RULE, WEIR_BAD_ARGUMENT (an option; the message names it
 * and what is accepted), WEIR_NO_MEMORY. On error *limiter is NULL. */
WEIR_EXPORT weir_status weir_limiter_create(weir_store *store, const char *rules,
                                            const weir_limiter_options *options,
                                            weir_limiter **limiter, weir_message *message);

/* One sentence where these rules with these options promise less than docs/guarantees.md states
 * (cells shorter than 2 * clock_error_us + deadline_us), else NULL. Lives as long as the limiter.
 */
WEIR_EXPORT const char *weir_limiter_warning(const weir_limiter *limiter);

/* No call may be under way. NULL is fine. */
WEIR_EXPORT void weir_limiter_destroy(weir_limiter *limiter);

/* Who decided. */
typedef enum weir_source {
  WEIR_SOURCE_STORE,   /* the store was asked for this decision */
  WEIR_SOURCE_LOCAL,   /* the arguments, or what this process knew, were enough */
  WEIR_SOURCE_FALLBACK /* the store could not answer, a policy did (none in this version) */
} weir_source;

enum { WEIR_NEVER = -1, WEIR_NOT_KNOWN = -1 };

/* Times are microseconds from the moment of decision. With several rules, the figures are those of
 * the rule that denies longest, else of the one with least remaining; ties go to the first in the
 * text; reset_after_us is the longest of all. This structure never changes. */
typedef struct weir_decision {
  bool allowed;
  weir_source source;
  uint32_t rule;          /* whose figures these are: 0 is the first rule of the text */
  int64_t limit;          /* LIMIT */
  int64_t remaining;      /* the largest cost that would be admitted right now, after this decision;
                             WEIR_NOT_KNOWN where the store was not asked because the cost never fits */
  int64_t retry_after_us; /* 0 when allowed; else the shortest wait after which the same request,
                             alone, is admitted; WEIR_NEVER when its cost is above the limit */
  int64_t reset_after_us; /* the wait until nothing charged so far counts any more; 0 for an unused
                             key; WEIR_NOT_KNOWN as for remaining */
  int64_t delay_us; /* how long an admitted caller must wait before acting; 0 for window rules */
} weir_decision;

/* Decides one request of `cost` for `key` and, if it is admitted, charges it.
 *
 * key: 1 byte or more, any bytes (WEIR_BAD_KEY when empty). cost: 1 to 2147483648 (WEIR_BAD_COST);
 * a cost above the limit is a decision: denied, never. *decision is written when the answer is
 * WEIR_OK. Any other answer means that there is no decision; statuses of WEIR_CLASS_STORE and
 * WEIR_CLASS_TRANSIENT are final for this call: nothing that may have been charged is sent twice.
 *
 * Blocks up to the deadline. Any number of threads may call at once. */
WEIR_EXPORT weir_status weir_limiter_take(weir_limiter *limiter, const void *key, size_t key_length,
                                          int64_t cost, weir_decision *decision,
                                          weir_message *message);

/* What weir_limiter_take would decide now; changes nothing. */
WEIR_EXPORT weir_status weir_limiter_peek(weir_limiter *limiter, const void *key, size_t key_length,
                                          int64_t cost, weir_decision *decision,
                                          weir_message *message);

/* Forgets what was charged to `key` under these rules. A charge in flight in another process may
 * survive; other processes may use what they remember for up to their memo_age_us. */
WEIR_EXPORT weir_status weir_limiter_reset(weir_limiter *limiter, const void *key,
                                           size_t key_length, weir_message *message);

/* One request of a batch. This structure never changes. */
typedef struct weir_request {
  const void *key;        /* in */
  size_t key_length;      /* in, bytes */
  int64_t cost;           /* in */
  weir_status status;     /* out: as weir_limiter_take would answer for this request alone */
  weir_decision decision; /* out: written when status is WEIR_OK */
} weir_request;

/* Takes up to WEIR_BATCH_MOST requests in one round trip per server (two where one is denied by its
 * own charge). Requests for one key are decided in their order. Answers WEIR_OK when every request
 * has a decision, else the first status that is not WEIR_OK; WEIR_BAD_ARGUMENT for a count of 0 or
 * above WEIR_BATCH_MOST, nothing touched. A request with bad arguments fails alone. */
enum { WEIR_BATCH_MOST = 1024 };

WEIR_EXPORT weir_status weir_limiter_take_batch(weir_limiter *limiter, weir_request *requests,
                                                size_t count, weir_message *message);

#ifdef __cplusplus
}
#endif

#endif
