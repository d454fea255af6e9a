/* Chance that is the same on every machine. */
#ifndef WEIR_SIMULATE_CHANCE_H
#define WEIR_SIMULATE_CHANCE_H

#include "random.h"

/* 0 to below - 1; near enough to evenly. */
static inline int64_t weir_chance_below(uint64_t *state, int64_t below) {
  return (int64_t)(weir_random_next(state) % (uint64_t)below);
}

/* Above 0, at most 1. */
static inline double weir_chance_fraction(uint64_t *state) {
  return (double)((weir_random_next(state) >> 11) + 1) * 0x1p-53;
}

#endif
