/* Chance that is the same on every machine. */
#ifndef WEIR_SIMULATE_CHANCE_H
#define WEIR_SIMULATE_CHANCE_H

#include <stdint.h>

/* splitmix64 (Steele, Lea, Flood 2014) */
static inline uint64_t weir_chance_draw(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* 0 to below - 1; near enough to evenly. */
static inline int64_t weir_chance_below(uint64_t *state, int64_t below) {
  return (int64_t)(weir_chance_draw(state) % (uint64_t)below);
}

/* Above 0, at most 1. */
static inline double weir_chance_fraction(uint64_t *state) {
  return (double)((weir_chance_draw(state) >> 11) + 1) * 0x1p-53;
}

#endif
