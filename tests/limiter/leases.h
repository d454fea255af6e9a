/* The lots of a limiter with lease=, and how a test has it hold some. */
#ifndef TESTS_LIMITER_LEASES_H
#define TESTS_LIMITER_LEASES_H

#include "limiter/world.h"

/* Rules of 1000 in 1 s; they hold what they lease for 20 ms. */
enum { LEASE_WINDOWS = 4 };
extern const char *const lease_windows[LEASE_WINDOWS];
extern const char lease_bucket[]; /* B' is 20000, of which 78 may be held at first */

/* A limiter on the fake store that is alone with its keys, and holds at least `held` of "k". Until
 * the end its counters must lose nothing. */
void lease_open(world *w, const char *rules, int64_t held);
void lease_close(world *w);

weir_limiter_counts lease_counts(const weir_limiter *limiter);

/* Charged ahead, and neither used, nor returned, nor lost. */
int64_t lease_held(const weir_limiter *limiter);

/* Asks for 1 again and again at the world's time, every one admitted, until at least that much is
 * held; what then is held. Fails the test where that needs more than 2000 requests. */
int64_t lease_fill(world *w, const char *key, int64_t least);

/* Uses what is held until that much is left. */
void lease_use_down_to(world *w, const char *key, int64_t left);

/* The store's room for a key, whoever leased it: what a limiter without leases is told. */
int64_t lease_store_room(world *w, const char *rules, const char *key);

#endif
