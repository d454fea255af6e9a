#include "key/key.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include <weir/backend.h>

#include "hash.h"
#include "number.h"

_Static_assert((int)WEIR_COUNTER_KEY_MOST <= (int)WEIR_STORE_KEY_MOST,
               "every store must take the longest key");

static const char digits[] = "0123456789abcdef";

/* Printable ASCII stands for itself, but for what means something in a counter's key. Those that do,
 * each at its own place. */
static const char themselves[] =
    "................................"
    ".!\".$.&'()*+,-./0123456789:;<=>?"
    "@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_"
    "`abcdefghijklmnopqrstuvwxyz.|.~.";
_Static_assert(sizeof themselves == 128 + 1, "one for each code");

static size_t encode_hash(const void *key, size_t length, char *encoded) {
  unsigned char hash[16];
  crypto_generichash(hash, sizeof hash, key, length, NULL, 0);
  encoded[0] = '#';
  for (size_t i = 0; i < sizeof hash; i++) {
    encoded[1 + 2 * i] = digits[hash[i] >> 4];
    encoded[2 + 2 * i] = digits[hash[i] & 15];
  }
  return 1 + 2 * sizeof hash;
}

/* The same of eight bytes at once: a byte's highest bit is set if it is below '!', above '~' or one of
 * the four. A borrow or carry from one byte to the next begins in a byte of which that is true. */
static uint64_t judge(uint64_t word) {
  const uint64_t each = UINT64_MAX / 255;
  return (word - '!' * each) | (word + each) | word | ((word ^ '#' * each) - each) |
         ((word ^ '%' * each) - each) | ((word ^ '{' * each) - each) | ((word ^ '}' * each) - each);
}

size_t weir_key_encode(const void *key, size_t length, char encoded[WEIR_ENCODED_MOST]) {
  const unsigned char *bytes = key;
  uint64_t word, judged = 0;
  size_t used = 0;
  if (length >= sizeof word && length <= WEIR_ENCODED_MOST) { /* most keys stand for themselves */
    size_t last = length - sizeof word;
    for (size_t i = 0; i < last; i += sizeof word) {
      memcpy(&word, bytes + i, sizeof word);
      memcpy(encoded + i, &word, sizeof word);
      judged |= judge(word);
    }
    memcpy(&word, bytes + last, sizeof word);
    memcpy(encoded + last, &word, sizeof word);
    if (((judged | judge(word)) & 0x80 * (UINT64_MAX / 255)) == 0) return length;
  }
  for (size_t i = 0; i < length; i++) {
    bool plain = bytes[i] < sizeof themselves - 1 && themselves[bytes[i]] == (char)bytes[i];
    if (used + (plain ? 1 : 3) > WEIR_ENCODED_MOST) return encode_hash(key, length, encoded);
    if (plain) {
      encoded[used++] = (char)bytes[i];
    } else {
      encoded[used++] = '%';
      encoded[used++] = digits[bytes[i] >> 4];
      encoded[used++] = digits[bytes[i] & 15];
    }
  }
  return used;
}

static char *append(char *end, const char *text, size_t length) {
  memcpy(end, text, length);
  return end + length;
}

size_t weir_key_prefix(const char *namespace_text, const char *tag,
                       char prefix[WEIR_KEY_PREFIX_MOST]) {
  char *end = append(prefix, "weir:", 5);
  if (namespace_text[0] != '\0') {
    end = append(end, namespace_text, strlen(namespace_text));
    *end++ = ':';
  }
  end = append(end, tag, strlen(tag));
  end = append(end, ":{", 2);
  return (size_t)(end - prefix);
}

size_t weir_key_counter(const char *prefix, size_t prefix_length, const char *encoded,
                        size_t encoded_length, char mark, int64_t index, int64_t entry,
                        char text[WEIR_COUNTER_KEY_MOST]) {
  char *end = text + prefix_length + encoded_length;
  memcpy(text, prefix, prefix_length);
  memcpy(text + prefix_length, encoded, encoded_length);
  *end++ = '}';
  *end++ = ':';
  if (mark != '\0') *end++ = mark;
  end = weir_number_write(end, (uint64_t)index);
  if (entry != 0) {
    *end++ = '.';
    end = weir_number_write(end, (uint64_t)entry);
  }
  return (size_t)(end - text);
}

void weir_key_hash(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const void *bytes,
                   size_t length, uint64_t hash[2]) {
  _Static_assert((int)WEIR_KEY_SECRET_BYTES == (int)WEIR_HASH_SECRET_BYTES, "the hash's secret");
  weir_hash_128(secret, bytes, length, hash);
}

void weir_key_read(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const void *bytes,
                   size_t length, weir_key *key) {
  const unsigned char *next = bytes;
  size_t whole = length / sizeof(uint64_t);
  memset(key->words, 0, sizeof key->words);
  if (whole >= WEIR_KEY_WORDS) {
    weir_key_hash(secret, bytes, length, key->words);
    key->words[WEIR_KEY_WORDS - 1] = UINT64_MAX;
    key->hash = key->words[0];
    return;
  }
  weir_hash_state s = weir_hash_begin(secret, 0);
  for (size_t i = 0; i < whole; i++) {
    key->words[i] = weir_hash_word(next + i * sizeof(uint64_t));
    s = weir_hash_take(s, key->words[i], 1);
  }
  key->words[whole] = weir_hash_last(next, length);
  key->hash = weir_hash_end_64(weir_hash_take(s, key->words[whole], 1));
}

/* No number is 0, as that word of a long key is. */
void weir_key_read_tenant(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const void *pool,
                          size_t length, int64_t tenant_number, weir_key *key) {
  weir_key_hash(secret, pool, length, key->words);
  key->words[2] = (uint64_t)tenant_number;
  key->words[WEIR_KEY_WORDS - 1] = UINT64_MAX;
  key->hash = weir_hash_64(secret, key->words, sizeof key->words);
}

int64_t weir_key_tenant(const void *tenant, size_t length) {
  const uint64_t most = UINT64_C(1) << 58;
  unsigned char hash[16];
  uint64_t number;
  crypto_generichash(hash, sizeof hash, tenant, length, NULL, 0);
  memcpy(&number, hash, sizeof number);
  return (int64_t)(number % most) + 1;
}

void weir_key_fingerprint(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const weir_key *key,
                          uint64_t hash[2]) {
  size_t last = WEIR_KEY_WORDS - 1;
  if (key->words[last] == UINT64_MAX) {
    memcpy(hash, key->words, 2 * sizeof *hash);
    return;
  }
  while (last > 0 && key->words[last] == 0)
    last--;
  weir_hash_state s = weir_hash_begin(secret, WEIR_HASH_128_MARK);
  for (size_t i = 0; i <= last; i++)
    s = weir_hash_take(s, key->words[i], 2);
  weir_hash_end_128(s, hash);
}

/* Four rounds of SipHash, as many as it ends with, over a state that holds both hashes and the
 * numbers. A round is a permutation, so different counters of one key and rule never have the same
 * state; and without the hashes, which are secret, a client cannot tell what the halves that are
 * added up will be, whatever keys it chooses and however index and entry are alike. So two of n
 * counters have the same identity by chance alone: n^2 in 2^129, and of one home, which shares its
 * low bits, n^2 in 2^113. An entry is far below 2^62. */
void weir_key_identify(const uint64_t key[2], const uint64_t prefix[2], uint64_t mark,
                       int64_t index, int64_t entry, uint64_t identity[2]) {
  const uint64_t home = 0xffff;
  weir_hash_state s = {key[0], key[1], prefix[0] ^ (uint64_t)index,
                       prefix[1] ^ ((uint64_t)entry << 2 | mark)};
  s = weir_hash_rounds(s, 4);
  identity[0] = s.a ^ s.c;
  identity[1] = ((s.b ^ s.d) & ~home) | (key[1] & home);
  if ((identity[0] | identity[1]) == 0) identity[0] = 1; /* {0, 0} is none */
}
