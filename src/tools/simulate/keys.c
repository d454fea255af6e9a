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
  *keys = (weir_keys){.drivers = drivers,
                      .driver_count = driver_count,
                      .capacity = CAPACITY_LEAST,
                      .ready_most = WEIR_KEYS_READY_MOST,
                      .weight_most = WEIR_KEYS_WEIGHT_MOST};
  if (sodium_init() < 0) return false;
  randombytes_buf(keys->hash_key, sizeof keys->hash_key);
  keys->places = calloc(keys->capacity, sizeof *keys->places);
  return keys->places != NULL;
}

/* --- one key -----------------------------------------------------------------------------------
 */

static void destroy_subjects(const weir_keys *keys, weir_subject *subjects, size_t count) {
  for (size_t i = 0; i < count; i++)
    weir_subject_clean_up(&subjects[i], &keys->drivers[i]);
  free(subjects);
}

/* Clear ones. NULL: not enough memory. */
static weir_subject *create_subjects(weir_keys *keys) {
  weir_subject *subjects = keys->spare;
  keys->spare = NULL;
  if (subjects != NULL) return subjects;
  subjects = malloc(keys->driver_count * sizeof *subjects);
  for (size_t i = 0; subjects != NULL && i < keys->driver_count; i++) {
    if (weir_subject_init(&subjects[i], &keys->drivers[i])) continue;
    destroy_subjects(keys, subjects, i);
    return NULL;
  }
  return subjects;
}

static void drop_subjects(weir_keys *keys, weir_subject *subjects) {
  for (size_t i = 0; i < keys->driver_count; i++) {
    keys->weight -= subjects[i].weight;
    subjects[i].weight = 0;
  }
  if (keys->spare != NULL) {
    destroy_subjects(keys, subjects, keys->driver_count);
    return;
  }
  for (size_t i = 0; i < keys->driver_count; i++)
    weir_subject_clear(&subjects[i], &keys->drivers[i]);
  keys->spare = subjects;
}

static weir_key *create_key(weir_keys *keys, const char *text, size_t length, uint64_t hash) {
  weir_key *key = malloc(sizeof *key + length);
  if (key == NULL) return NULL;
  *key = (weir_key){.hash = hash, .length = length, .subjects = create_subjects(keys)};
  memcpy(key->text, text, length);
  if (key->subjects != NULL) return key;
  free(key);
  return NULL;
}

static bool pack(weir_keys *keys, weir_key *key) {
  weir_packer *packer = &keys->packer;
  packer->length = 0;
  for (size_t i = 0; i < keys->driver_count; i++) /* first, for tell() */
    weir_pack_number(packer, key->subjects[i].difference, 0);
  for (size_t i = 0; i < keys->driver_count; i++)
    weir_subject_pack(&key->subjects[i], &keys->drivers[i], key->used_us, packer);
  key->packed = packer->failed ? NULL : malloc(packer->length + WEIR_PACK_NUMBER_MOST);
  if (key->packed == NULL) return false;
  memcpy(key->packed, packer->bytes, packer->length);
  drop_subjects(keys, key->subjects);
  key->subjects = NULL;
  return true;
}

static bool unpack(weir_keys *keys, weir_key *key) {
  weir_subject *subjects = create_subjects(keys);
  if (subjects == NULL) return false;
  const unsigned char *at = key->packed;
  for (size_t i = 0; i < keys->driver_count; i++)
    subjects[i].difference = weir_unpack_number(&at, 0);
  for (size_t i = 0; i < keys->driver_count; i++) {
    if (weir_subject_unpack(&subjects[i], &keys->drivers[i], key->used_us, &at)) continue;
    destroy_subjects(keys, subjects, keys->driver_count);
    return false;
  }
  free(key->packed);
  key->packed = NULL;
  key->subjects = subjects;
  return true;
}

/* --- the order of use --------------------------------------------------------------------------
 */

static void unlink_key(weir_keys *keys, weir_key *key) {
  *(key->older != NULL ? &key->older->newer : &keys->oldest) = key->newer;
  *(key->newer != NULL ? &key->newer->older : &keys->newest) = key->older;
  if (keys->oldest_ready == key) keys->oldest_ready = key->newer;
}

static void append_key(weir_keys *keys, weir_key *key) {
  key->older = keys->newest;
  key->newer = NULL;
  *(keys->newest != NULL ? &keys->newest->newer : &keys->oldest) = key;
  keys->newest = key;
  if (keys->oldest_ready == NULL) keys->oldest_ready = key;
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
  for (; keys->places[at].key != NULL; at = (at + 1) & mask(keys)) {
    if (keys->places[at].hash != hash) continue;
    const weir_key *key = keys->places[at].key;
    if (key->length == length && memcmp(key->text, text, length) == 0) break;
  }
  return at;
}

static size_t place_of(const weir_keys *keys, const weir_key *key) {
  size_t at = key->hash & mask(keys);
  while (keys->places[at].key != key)
    at = (at + 1) & mask(keys);
  return at;
}

static bool resize(weir_keys *keys, size_t capacity) {
  weir_keys other = *keys;
  other.capacity = capacity;
  other.places = calloc(capacity, sizeof *other.places);
  if (other.places == NULL) return false;
  for (size_t i = 0; i < keys->capacity; i++) {
    if (keys->places[i].key == NULL) continue;
    size_t at = keys->places[i].hash & mask(&other);
    while (other.places[at].key != NULL)
      at = (at + 1) & mask(&other);
    other.places[at] = keys->places[i];
  }
  free(keys->places);
  *keys = other;
  return true;
}

/* Closes the gap: keys after it move back unless that puts them before the place where their walk
 * begins. */
static void vacate(weir_keys *keys, size_t gap) {
  for (size_t at = (gap + 1) & mask(keys); keys->places[at].key != NULL;
       at = (at + 1) & mask(keys)) {
    size_t from_home = (at - keys->places[at].hash) & mask(keys);
    size_t from_gap = (at - gap) & mask(keys);
    if (from_home < from_gap) continue;
    keys->places[gap] = keys->places[at];
    gap = at;
  }
  keys->places[gap] = (weir_key_place){0};
  keys->used--;
}

/* A new one; `at`: the free place where it belongs. */
static weir_key *add_key(weir_keys *keys, size_t at, const char *text, size_t length,
                         uint64_t hash) {
  if (keys->used >= keys->capacity / 4 * 3) {
    if (!resize(keys, keys->capacity * 2)) return NULL;
    at = locate(keys, text, length, hash);
  }
  weir_key *key = create_key(keys, text, length, hash);
  if (key == NULL) return NULL;
  keys->places[at] = (weir_key_place){key, hash};
  if (++keys->used > keys->most) keys->most = keys->used;
  return key;
}

static void weigh(weir_keys *keys, weir_key *key) {
  for (size_t i = 0; i < keys->driver_count; i++) {
    weir_subject *subject = &key->subjects[i];
    size_t weight = weir_subject_weight(subject, &keys->drivers[i]);
    keys->weight += weight - subject->weight;
    subject->weight = weight;
  }
}

/* Packs those used longest ago where too many stand ready, or they are too large together. */
static bool pack_oldest(weir_keys *keys) {
  while (keys->ready > keys->ready_most || (keys->ready > 1 && keys->weight > keys->weight_most)) {
    weir_key *key = keys->oldest_ready;
    if (!pack(keys, key)) return false;
    keys->oldest_ready = key->newer;
    keys->ready--;
  }
  return true;
}

weir_key *weir_keys_use(weir_keys *keys, const char *text, size_t length, int64_t now_us) {
  uint64_t hash = hash_of(keys, text, length);
  size_t at = locate(keys, text, length, hash);
  weir_key *key = keys->places[at].key;
  bool was_ready = key != NULL && key->subjects != NULL;
  if (keys->newest != NULL && keys->newest->subjects != NULL) weigh(keys, keys->newest);
  if (key != NULL && !was_ready && !unpack(keys, key)) return NULL;
  if (key != NULL)
    unlink_key(keys, key);
  else
    key = add_key(keys, at, text, length, hash);
  if (key == NULL) return NULL;
  key->used_us = now_us;
  append_key(keys, key);
  keys->ready += !was_ready;
  return pack_oldest(keys) ? key : NULL;
}

static void tell(const weir_keys *keys, const weir_key *key) {
  const unsigned char *at = key->packed;
  if (keys->forgotten == NULL) return;
  for (size_t i = 0; i < keys->driver_count; i++) {
    if (key->subjects != NULL)
      keys->forgotten(keys->context, key, i, key->subjects[i].difference);
    else
      keys->forgotten(keys->context, key, i, weir_unpack_number(&at, 0));
  }
}

/* What the key is made of; it stays in the table and in the order of use. */
static void destroy_key(weir_keys *keys, weir_key *key) {
  tell(keys, key);
  if (key->subjects != NULL) {
    drop_subjects(keys, key->subjects);
    keys->ready--;
  }
  free(key->packed);
  free(key);
}

void weir_keys_expire(weir_keys *keys, int64_t until_us) {
  while (keys->oldest != NULL && keys->oldest->used_us <= until_us) {
    weir_key *key = keys->oldest;
    vacate(keys, place_of(keys, key));
    unlink_key(keys, key);
    destroy_key(keys, key);
  }
  if (keys->capacity > CAPACITY_LEAST && keys->used < keys->capacity / 8)
    resize(keys, keys->capacity / 2); /* where memory is short it stays as large as it is */
}

void weir_keys_empty(weir_keys *keys) {
  while (keys->oldest != NULL) {
    weir_key *key = keys->oldest;
    keys->oldest = key->newer;
    destroy_key(keys, key);
  }
  keys->newest = keys->oldest_ready = NULL;
  keys->used = 0;
  if (keys->places != NULL) memset(keys->places, 0, keys->capacity * sizeof *keys->places);
}

void weir_keys_clean_up(weir_keys *keys) {
  weir_keys_empty(keys);
  if (keys->spare != NULL) destroy_subjects(keys, keys->spare, keys->driver_count);
  weir_packer_clean_up(&keys->packer);
  free(keys->places);
  *keys = (weir_keys){0};
}
