/* Random numbers: a secret from the system, and a generator for what needs none. */
#ifndef WEIR_COMMON_RANDOM_H
#define WEIR_COMMON_RANDOM_H

#include <stdint.h>
#include <sys/random.h>
#include <time.h>

#define WEIR_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The next number of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", 2014): a counter whose every step passes through a bijection, so that all 64-bit
 * numbers come equally often. The same on every machine; who has seen one number knows all that
 * follow. */
static inline uint64_t weir_random_next(uint64_t *state) {
  uint64_t number = *state += WEIR_RANDOM_STEP;
  number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
  return number ^ number >> 31;
}

/* At least 0, below 1: multiples of 2^-53, each as likely. */
static inline double weir_random_fraction(uint64_t *state) {
  return (double)(weir_random_next(state) >> 11) * 0x1p-53;
}

/* 0 to below - 1; near enough to evenly. */
static inline int64_t weir_random_below(uint64_t *state, int64_t below) {
  return (int64_t)(weir_random_next(state) % (uint64_t)below);
}

/* Sixteen bytes that no client can guess. Where the system has none to give, the time
 * and an address must do: they are for tables, which guessed bytes can make slow and not wrong. */
static inline void weir_random_secret(unsigned char secret[16]) {
  if (getrandom(secret, 16, GRND_NONBLOCK) == 16) return;
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  uint64_t state = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
  state ^= (uint64_t)(uintptr_t)secret;
  for (int i = 0; i < 16; i++)
    secret[i] = (unsigned char)weir_random_next(&state);
}

#endif
