/* Keys: from a caller's bytes to the text that names a counter in every store, or to the identity
 * that names it in this process.
 *
 *     weir:[namespace:]<rule tag>:{<encoded key>}:[mark]<index>[.<entry>]
 *
 * Neither namespace nor tag can hold a ':' or a brace, the encoded key holds no brace, and a mark
 * is a letter, so different inputs never meet in one text. Only the encoded key picks the server.
 */
#ifndef WEIR_KEY_KEY_H
#define WEIR_KEY_KEY_H

#include <stddef.h>
#include <stdint.h>

enum {
  WEIR_ENCODED_MOST = 104,    /* longest encoded key, in bytes */
  WEIR_KEY_PREFIX_MOST = 104, /* "weir:" + namespace 32 + ':' + tag 64 + ":{" */
  WEIR_KEY_DIGITS_MOST = 19,  /* of an int64 */
  /* "}:", the mark, index, '.', entry: together the 250 bytes that every store takes */
  WEIR_COUNTER_KEY_MOST = WEIR_KEY_PREFIX_MOST + WEIR_ENCODED_MOST + 2 + 1 + WEIR_KEY_DIGITS_MOST +
                          1 + WEIR_KEY_DIGITS_MOST
};

/* Encodes 1 byte or more so that different keys differ: printable ASCII stands for itself, except %
 * { } #, which like every other byte become %XX. A text that would be longer than WEIR_ENCODED_MOST
 * becomes '#' and the BLAKE2b-128 hash of the key in hexadecimal. Returns the length written. */
size_t weir_key_encode(const void *key, size_t length, char encoded[WEIR_ENCODED_MOST]);

/* "weir:[namespace:]tag:{" for one rule; `namespace_text` may be empty. Returns the length. */
size_t weir_key_prefix(const char *namespace_text, const char *tag,
                       char prefix[WEIR_KEY_PREFIX_MOST]);

/* prefix + encoded + "}:" + mark (a letter; '\0': none) + index (0 or more, in decimal) + "." and
 * entry (1 or more, in decimal; 0: neither). Returns the length. */
size_t weir_key_counter(const char *prefix, size_t prefix_length, const char *encoded,
                        size_t encoded_length, char mark, int64_t index, int64_t entry,
                        char text[WEIR_COUNTER_KEY_MOST]);

/* A keyed hash of bytes: of a key, or of the prefix of a rule. Nobody without the secret can choose
 * bytes whose hashes are alike. */
enum { WEIR_KEY_SECRET_BYTES = 16 };
void weir_key_hash(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const void *bytes,
                   size_t length, uint64_t hash[2]);

/* A key as this process looks it up. Up to 31 bytes stand for themselves, as the words that SipHash
 * takes in: the length is in the last. A longer key is known by its weir_key_hash(), and by a last
 * word that no length is. So two keys are one where their words are equal. `hash` is a cheaper one,
 * of 64 bits and under the same secret: it says where a key is looked for. */
enum { WEIR_KEY_WORDS = 4 };
typedef struct weir_key {
  uint64_t hash;
  uint64_t words[WEIR_KEY_WORDS];
} weir_key;
void weir_key_read(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const void *bytes,
                   size_t length, weir_key *key);

/* The same of one tenant of a pool, which is a key: its fingerprint is the pool's, so that all counters of a
 * pool are told apart by their entries, and stand at one home. */
void weir_key_read_tenant(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const void *pool,
                          size_t length, int64_t tenant_number, weir_key *key);

/* The number of a tenant, the same in every process: 1 to 2^58. It is of a hash that no two names are known to
 * share. */
int64_t weir_key_tenant(const void *tenant, size_t length);

/* The weir_key_hash() of a key that was read. */
void weir_key_fingerprint(const unsigned char secret[WEIR_KEY_SECRET_BYTES], const weir_key *key,
                          uint64_t hash[2]);

/* weir_operation.identity of the counter `mark`, `index`, `entry` under a key and a rule's prefix,
 * which are given by their hashes. */
void weir_key_identify(const uint64_t key[2], const uint64_t prefix[2], uint64_t mark,
                       int64_t index, int64_t entry, uint64_t identity[2]);

#endif
