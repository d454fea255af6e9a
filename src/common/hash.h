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

enum { WEIR_HASH_SECRET_BYTES = 16, WEIR_HASH_128_MARK = 0xee };

typedef struct weir_hash_state {
  uint64_t a, b, c, d;
} weir_hash_state;

/* Little-endian on every machine. */
static inline uint64_t weir_hash_word(const void *bytes) {
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

/* `mark` tells hashes of different widths apart. */
static inline weir_hash_state weir_hash_begin(const unsigned char secret[WEIR_HASH_SECRET_BYTES],
                                              uint64_t mark) {
  uint64_t low = weir_hash_word(secret), high = weir_hash_word(secret + 8);
  return (weir_hash_state){low ^ UINT64_C(0x736f6d6570736575),
                           high ^ UINT64_C(0x646f72616e646f6d) ^ mark,
                           low ^ UINT64_C(0x6c7967656e657261), high ^ UINT64_C(0x7465646279746573)};
}

static inline weir_hash_state weir_hash_take(weir_hash_state s, uint64_t word, int rounds) {
  s.d ^= word;
  s = weir_hash_rounds(s, rounds);
  s.a ^= word;
  return s;
}

/* The bytes behind the whole words, and the length in the uppermost byte. */
static inline uint64_t weir_hash_last(const unsigned char *bytes, size_t length) {
  const unsigned char *end = bytes + length;
  uint64_t last = (uint64_t)length << 56;
  size_t rest = length % 8;
  if (rest == 0) return last;
  if (length > 8) /* the end of a whole word, whose other bytes went before */
    return last | weir_hash_word(end - 8) >> 8 * (8 - rest);
  for (size_t i = 0; i < rest; i++)
    last |= (uint64_t)bytes[i] << 8 * i;
  return last;
}

/* The state after all bytes. */
static inline weir_hash_state weir_hash_absorb(const unsigned char secret[WEIR_HASH_SECRET_BYTES],
                                               const void *bytes, size_t length, uint64_t mark,
                                               int rounds) {
  const unsigned char *next = bytes;
  weir_hash_state s = weir_hash_begin(secret, mark);
  for (size_t words = length / 8; words > 0; words--, next += 8)
    s = weir_hash_take(s, weir_hash_word(next), rounds);
  return weir_hash_take(s, weir_hash_last(bytes, length), rounds);
}

static inline void weir_hash_end_128(weir_hash_state s, uint64_t hash[2]) {
  s.c ^= WEIR_HASH_128_MARK;
  s = weir_hash_rounds(s, 4);
  hash[0] = s.a ^ s.b ^ s.c ^ s.d;
  s.b ^= 0xdd;
  s = weir_hash_rounds(s, 4);
  hash[1] = s.a ^ s.b ^ s.c ^ s.d;
}

static inline uint64_t weir_hash_end_64(weir_hash_state s) {
  s.c ^= 0xff;
  s = weir_hash_rounds(s, 3);
  return s.a ^ s.b ^ s.c ^ s.d;
}

static inline void weir_hash_128(const unsigned char secret[WEIR_HASH_SECRET_BYTES],
                                 const void *bytes, size_t length, uint64_t hash[2]) {
  weir_hash_end_128(weir_hash_absorb(secret, bytes, length, WEIR_HASH_128_MARK, 2), hash);
}

static inline uint64_t weir_hash_64(const unsigned char secret[WEIR_HASH_SECRET_BYTES],
                                    const void *bytes, size_t length) {
  return weir_hash_end_64(weir_hash_absorb(secret, bytes, length, 0, 1));
}

#endif
