/* The keys in use, by name and by last use; who is of no more use to anybody goes. */
#include "simulate/keys.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_LEAST = 64 };

_Static_assert(sizeof((weir_keys){0}.hash_key) == crypto_shorthash_KEYBYTES, "one hash key");

static size_t mask(const weir_keys *keys) {
  return keys->capacity - 1;
}

bool weir_keys_init(weir_keys *keys, const weir_driver *drivers, size_t driver_count) {
  *keys = (weir_keys){.drivers = drivers, .driver_count = driver_count, .capacity = CAPACITY_LEAST};
  if (sodium_init() < 0) return false;
  randombytes_buf(keys->hash_key, sizeof keys->hash_key);
  keys->places = calloc(keys->capacity, sizeof *keys->places);
  return keys->places != NULL;
}

/* --- one key -----------------------------------------------------------------------------------
 */

static void destroy_key(weir_key *key, size_t subjects) {
  for (size_t i = 0; i < subjects; i++) {
    weir_driver_remove_key(&key->subjects[i].driven);
    weir_exact_clean_up(&key->subjects[i].exact);
  }
  free(key->text);
  free(key);
}

static weir_key *create_key(const weir_keys *keys, const char *text, size_t length, uint64_t hash) {
  weir_key *key = calloc(1, sizeof *key + keys->driver_count * sizeof key->subjects[0]);
  if (key == NULL) return NULL;
  key->hash = hash;
  key->length = length;
  key->text = malloc(length);
  if (key->text == NULL) goto no_memory;
  memcpy(key->text, text, length);
  for (size_t i = 0; i < keys->driver_count; i++)
    if (!weir_driver_add_key(&keys->drivers[i], &key->subjects[i].driven)) goto no_memory;
  return key;

no_memory:
  destroy_key(key, keys->driver_count);
  return NULL;
}

/* --- the order of use --------------------------------------------------------------------------
 */

static void unlink_key(weir_keys *keys, weir_key *key) {
  *(key->older != NULL ? &key->older->newer : &keys->oldest) = key->newer;
  *(key->newer != NULL ? &key->newer->older : &keys->newest) = key->older;
}

static void append_key(weir_keys *keys, weir_key *key) {
  key->older = keys->newest;
  key->newer = NULL;
  *(keys->newest != NULL ? &keys->newest->newer : &keys->oldest) = key;
  keys->newest = key;
}

/* --- the table ---------------------------------------------------------------------------------
 */

static uint64_t hash_of(const weir_keys *keys, const char *text, size_t length) {
  uint64_t hash;
  unsigned char bytes[crypto_shorthash_BYTES];
  crypto_shorthash(bytes, (const unsigned char *)text, length, keys->hash_key);
  memcpy(&hash, bytes, sizeof hash);
  return hash;
}

/* The place of the key, or the free one where it belongs; a quarter of the places is always free.
 */
static size_t locate(const weir_keys *keys, const char *text, size_t length, uint64_t hash) {
  size_t at = hash & mask(keys);
  for (; keys->places[at] != NULL; at = (at + 1) & mask(keys)) {
    const weir_key *key = keys->places[at];
    if (key->hash == hash && key->length == length && memcmp(key->text, text, length) == 0) break;
  }
  return at;
}

static bool resize(weir_keys *keys, size_t capacity) {
  weir_keys other = *keys;
  other.capacity = capacity;
  other.places = calloc(capacity, sizeof(weir_key *));
  if (other.places == NULL) return false;
  for (weir_key *key = keys->oldest; key != NULL; key = key->newer)
    other.places[locate(&other, key->text, key->length, key->hash)] = key;
  free(keys->places);
  *keys = other;
  return true;
}

/* Closes the gap: keys after it move back unless that puts them before the place where their walk
 * begins. */
static void vacate(weir_keys *keys, size_t gap) {
  for (size_t at = (gap + 1) & mask(keys); keys->places[at] != NULL; at = (at + 1) & mask(keys)) {
    size_t from_home = (at - keys->places[at]->hash) & mask(keys);
    size_t from_gap = (at - gap) & mask(keys);
    if (from_home < from_gap) continue;
    keys->places[gap] = keys->places[at];
    gap = at;
  }
  keys->places[gap] = NULL;
  keys->used--;
}

static weir_key *add_key(weir_keys *keys, const char *text, size_t length, uint64_t hash) {
  if (keys->used >= keys->capacity / 4 * 3 && !resize(keys, keys->capacity * 2)) return NULL;
  weir_key *key = create_key(keys, text, length, hash);
  if (key == NULL) return NULL;
  keys->places[locate(keys, text, length, hash)] = key;
  if (++keys->used > keys->most) keys->most = keys->used;
  return key;
}

weir_key *weir_keys_use(weir_keys *keys, const char *text, size_t length, int64_t now_us) {
  uint64_t hash = hash_of(keys, text, length);
  weir_key *key = keys->places[locate(keys, text, length, hash)];
  if (key != NULL)
    unlink_key(keys, key);
  else
    key = add_key(keys, text, length, hash);
  if (key == NULL) return NULL;
  key->used_us = now_us;
  append_key(keys, key);
  return key;
}

static void forget(weir_keys *keys, weir_key *key) {
  vacate(keys, locate(keys, key->text, key->length, key->hash));
  unlink_key(keys, key);
  destroy_key(key, keys->driver_count);
}

void weir_keys_expire(weir_keys *keys, int64_t until_us) {
  while (keys->oldest != NULL && keys->oldest->used_us <= until_us)
    forget(keys, keys->oldest);
  if (keys->capacity > CAPACITY_LEAST && keys->used < keys->capacity / 8)
    resize(keys, keys->capacity / 2); /* where memory is short it stays as large as it is */
}

void weir_keys_clean_up(weir_keys *keys) {
  while (keys->oldest != NULL)
    forget(keys, keys->oldest);
  free(keys->places);
  *keys = (weir_keys){0};
}
