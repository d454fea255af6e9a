/* Limiters on demand, for commands that bring their rule with them (CL.THROTTLE). All loops share
 * them, so that a process knows each key once. Any thread.
 *
 * The keys of these are led by ":" alone, as no limiter of the configuration has an empty name. */
#ifndef WEIR_REGISTRY_THROTTLE_H
#define WEIR_REGISTRY_THROTTLE_H

#include <stdint.h>

#include <weir/weir.h>

#define WEIR_THROTTLE_PREFIX ":"
enum {
  WEIR_THROTTLE_NEW_MOST = 1000, /* in any second */
  WEIR_THROTTLE_LOOPS_MOST = 64
};

typedef struct weir_throttle weir_throttle;

/* `store` and `options` as for weir_limiter_create; the store must outlive it. `most`: how many
 * limiters stay when no loop uses them. NULL: no memory. */
weir_throttle *weir_throttle_create(weir_store *store, const weir_limiter_options *options,
                                    uint32_t most);
/* The same for rules of another algorithm, which say no burst, with `suffix` behind them. Both
 * texts must outlive it. */
weir_throttle *weir_throttle_create_for(weir_store *store, const weir_limiter_options *options,
                                        const char *algorithm, const char *suffix, uint32_t most);
void weir_throttle_destroy(weir_throttle *throttle);

/* The limiter for token-bucket:count/{period_s}s,burst=burst. It is good until this loop (0 to
 * WEIR_THROTTLE_LOOPS_MOST - 1) ends its tick; the last that it found, until it finds another in one
 * that it ends. `now_us`: a clock that does not go back.
 *
 * WEIR_BAD_RULE: the figures are no rule, the message says what is accepted; WEIR_CONTENDED: "too
 * many different limits", more than WEIR_THROTTLE_NEW_MOST new ones; WEIR_NO_MEMORY. */
weir_status weir_throttle_find(weir_throttle *throttle, unsigned loop, int64_t burst, int64_t count,
                               int64_t period_s, int64_t now_us, weir_limiter **limiter,
                               weir_message *message);

/* This loop uses none of those it found before, but for the last. What is above `most`, and used by no
 * loop nor held, goes, the least recently found first. */
void weir_throttle_end_tick(weir_throttle *throttle, unsigned loop);

/* The limiter of these figures, which a loop has found in the tick that it is in, stays until it is let go
 * as often as it was held. */
void weir_throttle_hold(weir_throttle *throttle, int64_t burst, int64_t count, int64_t period_s);
void weir_throttle_let_go(weir_throttle *throttle, int64_t burst, int64_t count, int64_t period_s);

/* How many there are. */
size_t weir_throttle_count(weir_throttle *throttle);

/* Adds up the counts of all there are and were, so far as counts->size has room. */
void weir_throttle_read_counts(weir_throttle *throttle, weir_limiter_counts *counts);

#endif
