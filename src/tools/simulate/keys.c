/* The keys in use, by name and by last use; a key goes when its last request matters no more. */
#include "simulate/keys.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS_LEAST = 64 }; /* that the table keeps room for */

static bool has_name(const void *context, const void *item, const void *wanted) {
  const weir_key *key = *(weir_key *const *)item;
  (void)context;
  return weir_hash_text_is(wanted, key->text, key->length);
}

bool weir_keys_init(weir_keys *keys, const weir_driver *drivers, size_t driver_count) {
  *keys = (weir_keys){.drivers = drivers,
                      .driver_count = driver_count,
                      .ready_most = WEIR_KEYS_READY_MOST,
                      .weight_most = WEIR_KEYS_WEIGHT_MOST};
  weir_hash_table_init(&keys->table, sizeof(weir_key *), has_name, NULL);
  return weir_hash_table_fit(&keys->table, KEYS_LEAST);
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

static bool pack(weir_keys *keys, weir_key *key) {
  weir_packer *packer = &keys->packer;
  packer->length = 0;
  for (size_t i = 0; i < keys->driver_count; i++) /* first, for destroy_key() */
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

/* --- use ---------------------------------------------------------------------------------------
 */

/* A new one. NULL: not enough memory. */
static weir_key *add_key(weir_keys *keys, const char *text, size_t length, uint32_t mark) {
  weir_subject *subjects = create_subjects(keys);
  if (subjects == NULL) return NULL;
  weir_key *key = malloc(sizeof *key + length);
  weir_key **place = key != NULL ? weir_hash_table_add(&keys->table, mark) : NULL;
  if (place == NULL) {
    drop_subjects(keys, subjects);
    free(key);
    return NULL;
  }
  *key = (weir_key){.mark = mark, .length = length, .subjects = subjects};
  memcpy(key->text, text, length);
  *place = key;
  if (keys->table.count > keys->most) keys->most = keys->table.count;
  return key;
}

weir_key *weir_keys_use(weir_keys *keys, const char *text, size_t length, int64_t now_us) {
  uint32_t mark = weir_hash_table_mark(&keys->table, text, length);
  weir_key *const *found =
      weir_hash_table_find(&keys->table, mark, &(weir_hash_text){text, length});
  weir_key *key = found != NULL ? *found : NULL;
  bool was_ready = key != NULL && key->subjects != NULL;

  /* The one before may have grown by its request, which is done now. */
  for (size_t i = 0; i < keys->driver_count && keys->newest != NULL; i++) {
    if (keys->newest->subjects == NULL) break;
    weir_subject *subject = &keys->newest->subjects[i];
    size_t weight = weir_subject_weight(subject, &keys->drivers[i]);
    keys->weight += weight - subject->weight;
    subject->weight = weight;
  }

  if (key != NULL && !was_ready && !unpack(keys, key)) return NULL;
  if (key != NULL)
    unlink_key(keys, key);
  else
    key = add_key(keys, text, length, mark);
  if (key == NULL) return NULL;

  /* It is the newest. */
  key->used_us = now_us;
  key->older = keys->newest;
  key->newer = NULL;
  *(keys->newest != NULL ? &keys->newest->newer : &keys->oldest) = key;
  keys->newest = key;
  if (keys->oldest_ready == NULL) keys->oldest_ready = key;
  keys->ready += !was_ready;

  /* Those used longest ago are packed where too many stand ready, or are too large together. */
  while (keys->ready > keys->ready_most || (keys->ready > 1 && keys->weight > keys->weight_most)) {
    weir_key *oldest = keys->oldest_ready;
    if (!pack(keys, oldest)) return NULL;
    keys->oldest_ready = oldest->newer;
    keys->ready--;
  }
  return key;
}

/* Tells the listener, and frees what the key is made of; it stays in the table and in the order of
 * use. */
static void destroy_key(weir_keys *keys, weir_key *key) {
  const unsigned char *at = key->packed;
  for (size_t i = 0; i < keys->driver_count && keys->forgotten != NULL; i++) {
    int64_t difference =
        key->subjects != NULL ? key->subjects[i].difference : weir_unpack_number(&at, 0);
    keys->forgotten(keys->context, key, i, difference);
  }
  if (key->subjects != NULL) {
    drop_subjects(keys, key->subjects);
    keys->ready--;
  }
  free(key->packed);
  free(key);
}

void weir_keys_expire(weir_keys *keys, int64_t now_us) {
  int64_t longest_life_us = 0;
  for (size_t i = 0; i < keys->driver_count; i++) {
    const weir_driver *driver = &keys->drivers[i];
    if (driver->longest_ttl_us > longest_life_us) longest_life_us = driver->longest_ttl_us;
    for (size_t j = 0; j < driver->stack.count; j++)
      if (driver->stack.rules[j].period_us > longest_life_us)
        longest_life_us = driver->stack.rules[j].period_us;
  }
  while (keys->oldest != NULL && keys->oldest->used_us <= now_us - longest_life_us) {
    weir_key *key = keys->oldest;
    weir_hash_table_remove(
        &keys->table,
        weir_hash_table_find(&keys->table, key->mark, &(weir_hash_text){key->text, key->length}));
    unlink_key(keys, key);
    destroy_key(keys, key);
  }
  size_t kept = keys->table.count > KEYS_LEAST / 4 ? 4 * keys->table.count : KEYS_LEAST;
  if (keys->table.room / 2 > kept)
    weir_hash_table_fit(&keys->table, kept); /* where memory is short it stays as large as it is */
}

void weir_keys_empty(weir_keys *keys) {
  while (keys->oldest != NULL) {
    weir_key *key = keys->oldest;
    keys->oldest = key->newer;
    destroy_key(keys, key);
  }
  keys->newest = keys->oldest_ready = NULL;
  weir_hash_table_clean_up(&keys->table);
}

void weir_keys_clean_up(weir_keys *keys) {
  weir_keys_empty(keys);
  if (keys->spare != NULL) destroy_subjects(keys, keys->spare, keys->driver_count);
  weir_packer_clean_up(&keys->packer);
  *keys = (weir_keys){0};
}
