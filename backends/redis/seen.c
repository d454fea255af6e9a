#include "redis/seen.h"

#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Half a megabyte, of which the system gives what is touched. Keys that meet in a place displace
 * one another, and then ask more often. */
enum { PLACES = 65536 };

/* A place holds the hash of a key, whose lowest bits count the uses since the last that asked. The
 * count turns when a use is told to ask, not when it has its answer: of two answers the late one
 * would give the key another full round. 0: none. */
#define USES_MASK (UINT64_C(63))
_Static_assert(WEIR_SEEN_USES == 64, "the count has six bits");

/* Sixteen bytes of a key at a time, and its length before them. */
enum { BLOCK = 16, SECRET_WORDS = 2 * (2 + (WEIR_STORE_KEY_MOST + BLOCK - 1) / BLOCK) };

struct weir_redis_seen {
  uint64_t secret[SECRET_WORDS];
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

__extension__ typedef unsigned __int128 wide;

static wide product(const uint64_t *secret, uint64_t one, uint64_t other) {
  return (wide)(one + secret[0]) * (other + secret[1]);
}

/* NH, the universal hash of UMAC (Black, Halevi, Krawczyk, Krovetz and Rogaway, 1999): a sum of
 * products of the key's words and of secret ones. Of two keys that are chosen without the secret, which
 * nothing ever tells, the sums of 128 bits are alike with a chance of 2^-63. So a client cannot make
 * two keys look alike. A quarter of what SipHash costs, once for each ADD. */
static uint64_t hash_of(const weir_redis_seen *seen, const weir_operation *operation) {
  char few[BLOCK] = {0};
  const char *key = operation->key;
  size_t length = operation->key_length;
  const uint64_t *secret = seen->secret + 2;
  wide sum = product(seen->secret, length, 0);
  if (length < BLOCK) key = memcpy(few, key, length);
  for (size_t at = 0;; at += BLOCK, secret += 2) {
    bool last = at + BLOCK >= length; /* the last block ends with the key */
    const char *block = last && length > BLOCK ? key + length - BLOCK : key + at;
    uint64_t words[2];
    memcpy(words, block, sizeof words);
    sum += product(secret, words[0], words[1]);
    if (last) break;
  }
  secret += 2;
  sum = product(secret, (uint64_t)sum, (uint64_t)(sum >> 64));
  return (uint64_t)sum ^ (uint64_t)(sum >> 64);
}

/* The hash without its lowest bits, and the place that those help to pick. */
static _Atomic uint64_t *find(weir_redis_seen *seen, const weir_operation *operation,
                              uint64_t *name) {
  uint64_t hash = hash_of(seen, operation);
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
