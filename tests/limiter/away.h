/* A limiter with the policy LOCAL on a store in this process that can be taken away, and clocks that the
 * test moves: the account to the last digit. */
#ifndef TESTS_LIMITER_AWAY_H
#define TESTS_LIMITER_AWAY_H

#include "fixture/fake.h"
#include "limiter/world.h"

/* Two of them are the end of a hold that began with the outage. */
#define AWAY_DEADLINE_US INT64_C(20000)

/* `peers` share the rules. Ends with world_close(). */
void away_open(world *w, const char *rules, uint32_t peers);
void away_open_with(world *w, const char *rules, const weir_limiter_options *options);
void away_open_on(world *w, const weir_backend *backend, const char *rules,
                  const weir_limiter_options *options);

/* A decision of the store, of the account while the store is away (owed), or although it answered:
 * the hold. Any other fails the test. */
weir_decision away_take(world *w, const char *key, int64_t cost);
weir_decision away_take_without(world *w, const char *key, int64_t cost);
weir_decision away_withheld(world *w, const char *key, int64_t cost);

/* How many of `tries` single costs the account admits. */
int away_admits(world *w, const char *key, int tries);

/* Another limiter on the store, which knows nothing, sees what the store holds. */
int64_t away_remaining(world *w, const char *rules, const char *key);

/* Fails the test unless so much was owed, paid and dropped so far. */
void away_expect(const world *w, uint64_t owed, uint64_t paid, uint64_t unpaid);

#endif
