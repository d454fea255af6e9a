/* Chance of the outage's simulation: the same with every compiler. */
#ifndef TESTS_SCALE_OUTAGE_CHANCE_H
#define TESTS_SCALE_OUTAGE_CHANCE_H

#include <math.h>
#include <stdint.h>

static inline uint64_t chance_number(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* 0 to below 1. */
static inline double chance_part(uint64_t *state) {
  return (double)(chance_number(state) >> 11) / 9007199254740992.0;
}

/* The time between two that come independently, `rate` in a unit of time. */
static inline double chance_gap(uint64_t *state, double rate) {
  return -log(1 - chance_part(state)) / rate;
}

/* The same part, 0 to below 1, for the same three. */
static inline double chance_hashed(uint64_t secret, uint64_t key, uint64_t period) {
  uint64_t state = secret * 1000003 + key * 7919 + period * UINT64_C(0x9e3779b97f4a7c15);
  chance_number(&state);
  return chance_part(&state);
}

#endif
