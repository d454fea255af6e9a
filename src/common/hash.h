/* SipHash (Aumasson and Bernstein, 2012), a hash under a secret key of 16 bytes: who does not know
 * the key cannot choose bytes whose hashes are alike. In place, as a call into another library
 * costs more than the hash of a short key.
 *
 * Two kinds: weir_hash_128() is SipHash-2-4 with 128 bits, for names of counters, of which two
 * that are alike would share a count. weir_hash_64() is SipHash-1-3, half the rounds, for tables
 * that compare what they find. */
#ifndef WEIR_COMMON_HASH_H
#define WEIR_COMMON_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WEIR_HASH_SECRET_BYTES = 16 };

typedef struct weir_hash_state {
  uint64_t a, b, c, d;
} weir_hash_state;

/* Little-endian on every machine. */
static inline uint64_t weir_hash_word(const unsigned char *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

#define WEIR_HASH_ROTATED(word, bits) ((word) << (bits) | (word) >> (64 - (bits)))

/* A permutation of the state; `rounds` times. */
static inline weir_hash_state weir_hash_rounds(weir_hash_state s, int rounds) {
  for (int i = 0; i < rounds; i++) {
    s.a += s.b;
    s.c += s.d;
    s.b = WEIR_HASH_ROTATED(s.b, 13) ^ s.a;
    s.d = WEIR_HASH_ROTATED(s.d, 16) ^ s.c;
    s.a = WEIR_HASH_ROTATED(s.a, 32) + s.d;
    s.c += s.b;
    s.d = WEIR_HASH_ROTATED(s.d, 21) ^ s.a;
    s.b = WEIR_HASH_ROTATED(s.b, 17) ^ s.c;
    s.c = WEIR_HASH_ROTATED(s.c, 32);
  }
  return s;
}

/* The state after all bytes; `mark` tells hashes of different widths apart. The last word has
 * what is left, and the length in its uppermost byte. */
static inline weir_hash_state weir_hash_absorb(const unsigned char secret[WEIR_HASH_SECRET_BYTES],
                                               const void *bytes, size_t length, uint64_t mark,
                                               int rounds) {
  const unsigned char *next = bytes;
  uint64_t low = weir_hash_word(secret), high = weir_hash_word(secret + 8);
  weir_hash_state s = {low ^ UINT64_C(0x736f6d6570736575),
                       high ^ UINT64_C(0x646f72616e646f6d) ^ mark,
                       low ^ UINT64_C(0x6c7967656e657261), high ^ UINT64_C(0x7465646279746573)};
  for (size_t words = length / 8; words > 0; words--, next += 8) {
    uint64_t word = weir_hash_word(next);
    s.d ^= word;
    s = weir_hash_rounds(s, rounds);
    s.a ^= word;
  }
  uint64_t last = (uint64_t)length << 56;
  size_t rest = length % 8;
  if (rest > 0 && length > 8) { /* they end the last whole word, whose other bytes went before */
    last |= weir_hash_word(next + rest - 8) >> 8 * (8 - rest);
  } else {
    for (size_t i = 0; i < rest; i++)
      last |= (uint64_t)next[i] << 8 * i;
  }
  s.d ^= last;
  s = weir_hash_rounds(s, rounds);
  s.a ^= last;
  return s;
}

static inline void weir_hash_128(const unsigned char secret[WEIR_HASH_SECRET_BYTES],
                                 const void *bytes, size_t length, uint64_t hash[2]) {
  weir_hash_state s = weir_hash_absorb(secret, bytes, length, 0xee, 2);
  s.c ^= 0xee;
  s = weir_hash_rounds(s, 4);
  hash[0] = s.a ^ s.b ^ s.c ^ s.d;
  s.b ^= 0xdd;
  s = weir_hash_rounds(s, 4);
  hash[1] = s.a ^ s.b ^ s.c ^ s.d;
}

static inline uint64_t weir_hash_64(const unsigned char secret[WEIR_HASH_SECRET_BYTES],
                                    const void *bytes, size_t length) {
  weir_hash_state s = weir_hash_absorb(secret, bytes, length, 0, 1);
  s.c ^= 0xff;
  s = weir_hash_rounds(s, 3);
  return s.a ^ s.b ^ s.c ^ s.d;
}

#endif
