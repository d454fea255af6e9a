#include "redis/seen.h"

#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "hash.h"

/* Half a megabyte, of which the system gives what is touched. Keys that meet in a place displace
 * one another, and then ask more often. */
enum { PLACES = 65536 };

/* A place holds the hash of a key, whose lowest bits count the uses since the last that asked. The
 * count turns when a use is told to ask, not when it has its answer: of two answers the late one
 * would give the key another full round. 0: none. */
#define USES_MASK (UINT64_C(63))
_Static_assert(WEIR_SEEN_USES == 64, "the count has six bits");

struct weir_redis_seen {
  unsigned char secret[WEIR_HASH_SECRET_BYTES];
  atomic_bool any; /* a key was noted, ever */
  _Atomic uint64_t places[PLACES];
};

weir_redis_seen *weir_redis_seen_create(void) {
  weir_redis_seen *seen = sodium_init() < 0 ? NULL : calloc(1, sizeof *seen);
  if (seen != NULL) randombytes_buf(seen->secret, sizeof seen->secret);
  return seen;
}

void weir_redis_seen_destroy(weir_redis_seen *seen) {
  free(seen);
}

/* The hash without its lowest bits, and the place that those help to pick. Its secret is random, so
 * a client that chooses keys cannot make two look alike. */
static _Atomic uint64_t *find(weir_redis_seen *seen, const weir_operation *operation,
                              uint64_t *name) {
  uint64_t hash = weir_hash_64(seen->secret, operation->key, operation->key_length);
  *name = hash | (USES_MASK + 1); /* never 0 */
  *name &= ~USES_MASK;
  return &seen->places[hash % PLACES];
}

static bool is_name(uint64_t place, uint64_t name) {
  return (place & ~USES_MASK) == name;
}

bool weir_redis_seen_use(weir_redis_seen *seen, const weir_operation *operation) {
  uint64_t name;
  _Atomic uint64_t *place = find(seen, operation, &name);
  uint64_t found = atomic_load_explicit(place, memory_order_relaxed);
  while (is_name(found, name)) {
    bool turn = (found & USES_MASK) == USES_MASK;
    if (atomic_compare_exchange_weak_explicit(place, &found, turn ? name : found + 1,
                                              memory_order_relaxed, memory_order_relaxed)) {
      return !turn;
    }
  }
  return false;
}

/* Has the key be known, or not. */
static void set(weir_redis_seen *seen, const weir_operation *operation, bool known) {
  uint64_t name;
  _Atomic uint64_t *place = find(seen, operation, &name);
  uint64_t found = atomic_load_explicit(place, memory_order_relaxed);
  while (is_name(found, name) != known &&
         !atomic_compare_exchange_weak_explicit(place, &found, known ? name : 0,
                                                memory_order_relaxed, memory_order_relaxed)) {
  }
}

static bool is_any(weir_redis_seen *seen) {
  return atomic_load_explicit(&seen->any, memory_order_relaxed);
}

bool weir_redis_seen_knows(weir_redis_seen *seen, const weir_operation *operation) {
  uint64_t name;
  if (!is_any(seen)) return false;
  _Atomic uint64_t *place = find(seen, operation, &name);
  return is_name(atomic_load_explicit(place, memory_order_relaxed), name);
}

void weir_redis_seen_note(weir_redis_seen *seen, const weir_operation *operation) {
  if (!is_any(seen)) atomic_store_explicit(&seen->any, true, memory_order_relaxed);
  set(seen, operation, true);
}

void weir_redis_seen_forget(weir_redis_seen *seen, const weir_operation *operation) {
  if (is_any(seen)) set(seen, operation, false);
}
