/* One limiter over one store, with a clock that the test moves by hand. */
#ifndef TESTS_LIMITER_WORLD_H
#define TESTS_LIMITER_WORLD_H

#include <weir/weir.h>

#include "fixture/clock.h"

#define SECOND_US INT64_C(1000000)

/* A moment at which windows of 1 s to 4 m, their cells and their counters all begin. */
#define START_US (INT64_C(1700000160) * SECOND_US)

/* The deadline of a decision, unless the test says otherwise: real time, which a busy machine must
 * be able to keep. The margin e is this and twice the clock error. */
#define WORLD_DEADLINE_US SECOND_US

typedef struct world {
  hand_clock clock; /* START_US at first */
  weir_store *store;
  weir_limiter *limiter;
} world;

/* Opens `url` and a limiter with `rules`; `options` may be NULL, its clock is replaced, and unless
 * it names another policy than the default there is none: what a test sees is what the store said.
 * Anything that goes wrong fails the test. */
void world_open(world *w, const char *url, const char *rules, const weir_limiter_options *options);

/* The same on a backend that the test brings. */
void world_open_backend(world *w, const weir_backend *backend, const char *url, const char *rules,
                        const weir_limiter_options *options);
void world_close(world *w);

/* A second limiter on the same store and clock. */
weir_limiter *world_limiter(world *w, const char *rules, const weir_limiter_options *options);

void world_set(world *w, int64_t after_start_us);

/* Decisions; any status but WEIR_OK fails the test. Keys are C strings. */
weir_decision limiter_take(weir_limiter *limiter, const char *key, int64_t cost);
weir_decision limiter_peek(weir_limiter *limiter, const char *key, int64_t cost);
weir_decision world_take(world *w, const char *key, int64_t cost);
weir_decision world_peek(world *w, const char *key, int64_t cost);
void world_reset(world *w, const char *key);

/* Fails the test unless the figures are these. */
void assert_allowed(weir_decision decision, int64_t remaining, int64_t reset_after_us);
void assert_denied(weir_decision decision, int64_t remaining, int64_t retry_after_us,
                   int64_t reset_after_us);

#endif
