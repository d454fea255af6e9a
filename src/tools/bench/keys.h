/* Which key comes next: drawn before the clock runs, so that drawing costs nothing then. */
#ifndef WEIR_BENCH_KEYS_H
#define WEIR_BENCH_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weir_bench_pattern {
  WEIR_BENCH_UNIFORM, /* every key as often */
  WEIR_BENCH_HOT,     /* one key */
  WEIR_BENCH_ZIPF     /* the i-th key in proportion to 1/i */
} weir_bench_pattern;

enum { WEIR_BENCH_KEY_BYTES = 64, WEIR_BENCH_DRAWN = 1 << 18 };

typedef struct weir_bench_key {
  uint8_t length;
  char text[WEIR_BENCH_KEY_BYTES - 1];
} weir_bench_key;

/* `count` keys that begin with `prefix` (at most 48 bytes); NULL: no memory. */
weir_bench_key *weir_bench_keys_make(const char *prefix, uint32_t count);

/* WEIR_BENCH_DRAWN numbers below `count`, in the order of use; NULL: no memory. */
uint32_t *weir_bench_keys_draw(weir_bench_pattern pattern, uint32_t count, uint64_t seed);

#endif
