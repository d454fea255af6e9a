/* SipHash in place, held against libsodium's and Python's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sodium.h>

#include "hash.h"

enum { LONGEST = 300 };

static unsigned char secret[WEIR_HASH_SECRET_BYTES];
static unsigned char bytes[LONGEST + 8];

static void is_libsodiums_with_128_bits(void **state) {
  (void)state;
  _Static_assert((int)crypto_shorthash_siphashx24_KEYBYTES == (int)WEIR_HASH_SECRET_BYTES, "a key");
  for (int round = 0; round < 20; round++) {
    randombytes_buf(secret, sizeof secret);
    randombytes_buf(bytes, sizeof bytes);
    for (size_t length = 0; length <= LONGEST; length++) {
      const unsigned char *from = bytes + length % 8; /* at every alignment */
      uint64_t expected[2], hash[2];
      crypto_shorthash_siphashx24((unsigned char *)expected, from, length, secret);
      weir_hash_128(secret, from, length, hash);
      assert_memory_equal(hash, expected, sizeof hash);
    }
  }
}

/* libsodium has 64 bits with twice the rounds alone: what differs are two numbers. */
static void is_libsodiums_with_64_bits_but_for_its_rounds(void **state) {
  (void)state;
  for (size_t length = 0; length <= LONGEST; length++) {
    uint64_t expected;
    randombytes_buf(secret, sizeof secret);
    randombytes_buf(bytes, sizeof bytes);
    crypto_shorthash((unsigned char *)&expected, bytes, length, secret);
    weir_hash_state s = weir_hash_absorb(secret, bytes, length, 0, 2);
    s.c ^= 0xff;
    s = weir_hash_rounds(s, 4);
    assert_true((s.a ^ s.b ^ s.c ^ s.d) == expected);
  }
}

/* The hashes of 00, of 00 01, of 00 01 02 and so on under a secret of zeroes, as Python has them,
 * whose hash of bytes is SipHash-1-3: PYTHONHASHSEED=0 python3 -c 'print(hex(hash(bytes(range(3)))
 * % 2**64))' */
static void is_pythons_with_64_bits(void **state) {
  static const uint64_t expected[] = {
      0x68a914128e01e473, 0x010bac45c41e3669, 0x4d4c9a4a8ef6e0ad, 0x7cc43f98813e4dbd,
      0x5abe2169dff36275, 0xe3c25f87624f1cdb, 0x2f098ab0c751325a, 0xead411e67ebe2eea,
      0x75927f9d95124362, 0xaf9f77a65ab51a1d, 0xfe64ce8b6617fcff, 0xa6baf4fb0f9fe1c2,
      0xa0cf3211850f8e0d, 0x7f86049379fbfe67, 0xf30eb725bb91c9ea, 0x8972188433a5c5b7,
      0x4883c49a2c009c1d, 0xadc2c0b63044067d, 0x091f4a3329f87d19, 0x639e355ae68c0100,
      0xb17bef2cb5213239, 0xf8aeb1066236ccfe, 0x37332b1389daa4ff, 0x31185a47af932f3a,
  };
  (void)state;
  memset(secret, 0, sizeof secret);
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (unsigned char)i;
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
    assert_true(weir_hash_64(secret, bytes, i + 1) == expected[i]);
}

static int start(void **state) {
  (void)state;
  return sodium_init() < 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_libsodiums_with_128_bits),
      cmocka_unit_test(is_libsodiums_with_64_bits_but_for_its_rounds),
      cmocka_unit_test(is_pythons_with_64_bits),
  };
  return cmocka_run_group_tests(tests, start, NULL);
}
