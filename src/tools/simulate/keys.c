/* The keys in use, by name and by last use; a key goes when its last request matters no more. */
#include "simulate/keys.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

enum { KEYS_LEAST = 64 }; /* that the table keeps room for */

static bool has_name(const void *context, const void *item, const void *wanted) {
  const weir_seen_key *key = *(weir_seen_key *const *)item;
  (void)context;
  return weir_hash_text_is(wanted, key->text, key->length);
}

bool weir_keys_init(weir_keys *keys, const weir_driver *drivers, size_t driver_count) {
  *keys = (weir_keys){.drivers = drivers,
                      .driver_count = driver_count,
                      .ready_most = WEIR_KEYS_READY_MOST,
                      .weight_most = WEIR_KEYS_WEIGHT_MOST};
  weir_hash_table_init(&keys->table, sizeof(weir_seen_key *), has_name, NULL);
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

static bool pack(weir_keys *keys, weir_seen_key *key) {
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

static bool unpack(weir_keys *keys, weir_seen_key *key) {
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

static void unlink_key(weir_keys *keys, weir_seen_key *key) {
  *(key->older != NULL ? &key->older->newer : &keys->oldest) = key->newer;
  *(key->newer != NULL ? &key->newer->older : &keys->newest) = key->older;
  if (keys->oldest_ready == key) keys->oldest_ready = key->newer;
}

/* --- use ---------------------------------------------------------------------------------------
 */

/* A new one. NULL: not enough memory. */
static weir_seen_key *add_key(weir_keys *keys, const char *text, size_t length, uint32_t mark) {
  weir_subject *subjects = create_subjects(keys);
  if (subjects == NULL) return NULL;
  weir_seen_key *key = malloc(sizeof *key + length);
  weir_seen_key **place = key != NULL ? weir_hash_table_add(&keys->table, mark) : NULL;
  if (place == NULL) {
    drop_subjects(keys, subjects);
    free(key);
    return NULL;
  }
  *key = (weir_seen_key){.mark = mark, .length = length, .subjects = subjects};
  memcpy(key->text, text, length);
  *place = key;
  if (keys->table.count > keys->most) keys->most = keys->table.count;
  return key;
}

weir_seen_key *weir_keys_use(weir_keys *keys, const char *text, size_t length, int64_t now_us) {
  uint32_t mark = weir_hash_table_mark(&keys->table, text, length);
  weir_seen_key *const *found =
      weir_hash_table_find(&keys->table, mark, &(weir_hash_text){text, length});
  weir_seen_key *key = found != NULL ? *found : NULL;
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
    weir_seen_key *oldest = keys->oldest_ready;
    if (!pack(keys, oldest)) return NULL;
    keys->oldest_ready = oldest->newer;
    keys->ready--;
  }
  return key;
}

/* Tells the listener, and frees what the key is made of; it stays in the table and in the order of
 * use. */
static void destroy_key(weir_keys *keys, weir_seen_key *key) {
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
    weir_seen_key *key = keys->oldest;
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
    weir_seen_key *key = keys->oldest;
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

/* --- subjects -----------------------------------------------------------------------------------
 *
 * Writes subjects down in few bytes, and reads them again. */

enum { MEMO_PART_BYTES = 32 * sizeof(int64_t) };

bool weir_subject_init(weir_subject *subject, const weir_driver *driver) {
  *subject = (weir_subject){.exact = calloc(driver->stack.count, sizeof *subject->exact)};
  if (subject->exact == NULL) return false;
  if (weir_driver_add_key(driver, &subject->driven)) return true;
  free(subject->exact);
  return false;
}

void weir_subject_clean_up(weir_subject *subject, const weir_driver *driver) {
  for (size_t i = 0; i < driver->stack.count; i++)
    weir_exact_clean_up(&subject->exact[i]);
  free(subject->exact);
  weir_driver_remove_key(driver, &subject->driven);
}

void weir_subject_clear(weir_subject *subject, const weir_driver *driver) {
  for (size_t i = 0; i < driver->stack.count; i++)
    weir_exact_clear(&subject->exact[i]);
  weir_driver_clear_key(driver, &subject->driven);
  subject->difference = 0;
}

size_t weir_subject_weight(const weir_subject *subject, const weir_driver *driver) {
  size_t bytes = 0;
  for (size_t i = 0; i < driver->stack.count; i++) {
    const weir_exact *exact = &subject->exact[i];
    bytes += (exact->ruled.room + exact->own.room) * sizeof(weir_stamp);
    for (size_t j = 0; j <= driver->stack.class_count; j++)
      bytes += exact->classes[j].room * sizeof(weir_stamp);
  }
  for (size_t i = 0; i < driver->stack.count * WEIR_PLACES; i++)
    bytes += subject->driven.places[i].room * sizeof(weir_stored_counter);
  return bytes;
}

/* --- numbers ---------------------------------------------------------------------------------
 *
 * The first byte: whether it is a distance (one bit), how many bytes follow (four), and the lowest
 * three bits. Then the others, the lowest first. The sign is the lowest bit of all, so that small
 * negative numbers are short too. */

void weir_packer_clean_up(weir_packer *packer) {
  free(packer->bytes);
  *packer = (weir_packer){0};
}

/* Room for so many numbers. False: not enough memory. */
static bool reserve(weir_packer *packer, size_t numbers) {
  size_t needed = packer->length + numbers * WEIR_PACK_NUMBER_MOST;
  bool fits = weir_array_grow(&packer->bytes, &packer->room, needed, 1);
  packer->failed = packer->failed || !fits;
  return fits;
}

static uint64_t lowest_first(uint64_t number) {
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(number) : number;
}

static uint64_t fold(uint64_t number) {
  return number << 1 ^ (number >> 63 != 0 ? UINT64_MAX : 0);
}

/* Where there is room for it. */
static inline void write_number(weir_packer *packer, int64_t value, int64_t base) {
  uint64_t plain = fold((uint64_t)value), distance = fold((uint64_t)value - (uint64_t)base);
  bool near = distance < plain;
  uint64_t number = near ? distance : plain, rest = number >> 3;
  unsigned count = rest == 0 ? 0 : (71 - (unsigned)__builtin_clzll(rest)) / 8;
  unsigned char *at = packer->bytes + packer->length;
  *at++ = (unsigned char)((number & 7) << 5 | count << 1 | near);
  rest = lowest_first(rest);
  memcpy(at, &rest, sizeof rest); /* of which `count` stay */
  packer->length += 1 + count;
}

void weir_pack_number(weir_packer *packer, int64_t value, int64_t base) {
  if (reserve(packer, 1)) write_number(packer, value, base);
}

static inline int64_t read_number(const unsigned char **at, int64_t base) {
  const unsigned char first = **at, *byte = *at + 1;
  unsigned count = first >> 1 & 15;
  uint64_t number;
  memcpy(&number, byte, sizeof number); /* of which `count` matter */
  number = lowest_first(number);
  if (count < 8) number &= (UINT64_C(1) << 8 * count) - 1;
  *at = byte + count;
  uint64_t folded = number << 3 | first >> 5;
  number = folded >> 1 ^ ((folded & 1) != 0 ? UINT64_MAX : 0);
  return (int64_t)(number + ((first & 1) != 0 ? (uint64_t)base : 0));
}

int64_t weir_unpack_number(const unsigned char **at, int64_t base) {
  return read_number(at, base);
}

/* How far a time is from the one before it, in seconds where they are whole, as those of most logs
 * are; and a bit that says whether more follows. */
enum { STEP_FOLLOWED = 1, STEP_SECONDS = 2, STEP_UNIT = 4, SECOND_US = 1000000 };

static inline void write_step(weir_packer *packer, int64_t time_us, int64_t before_us, bool more) {
  int64_t step_us = time_us - before_us;
  bool seconds = step_us % SECOND_US == 0;
  write_number(packer,
               (seconds ? step_us / SECOND_US : step_us) * STEP_UNIT +
                   (seconds ? STEP_SECONDS : 0) + (more ? STEP_FOLLOWED : 0),
               0);
}

static inline int64_t read_step(const unsigned char **at, int64_t before_us, bool *more) {
  int64_t number = read_number(at, 0), flags = number & (STEP_UNIT - 1);
  int64_t step = (number - flags) / STEP_UNIT;
  *more = (flags & STEP_FOLLOWED) != 0;
  return before_us + ((flags & STEP_SECONDS) != 0 ? step * SECOND_US : step);
}

/* --- counters of a store --------------------------------------------------------------------- */

enum { SLOT_NUMBERS = 4 };

static void pack_counters(weir_packer *packer, const weir_slots *place, int64_t base_us) {
  weir_stored_counter before = {.value = base_us, .expiry_us = base_us};
  weir_pack_number(packer, (int64_t)(place->end - place->first), 0);
  for (size_t i = place->first; i < place->end && reserve(packer, SLOT_NUMBERS); i++) {
    const weir_stored_counter *slot = &place->slots[i];
    write_number(packer, slot->index, before.index);
    write_number(packer, slot->value, before.value);
    write_number(packer, (int64_t)slot->version, (int64_t)before.version);
    write_number(packer, slot->expiry_us, before.expiry_us);
    before = *slot;
  }
}

static bool unpack_counters(const unsigned char **at, weir_slots *place, int64_t base_us) {
  weir_stored_counter before = {.value = base_us, .expiry_us = base_us};
  for (int64_t left = read_number(at, 0); left > 0; left--) {
    weir_stored_counter slot = {.index = read_number(at, before.index)};
    slot.value = read_number(at, before.value);
    slot.version = (uint64_t)read_number(at, (int64_t)before.version);
    slot.expiry_us = read_number(at, before.expiry_us);
    if (!weir_slots_append(place, &slot)) return false;
    before = slot;
  }
  return true;
}

/* --- entries of a log ------------------------------------------------------------------------
 *
 * Each holds its time, follows the one before it and lives as long as that one: its time is all
 * there is to say, but for the first of an epoch. No operation asks for its version. */

static weir_stored_counter follow(const weir_stored_counter *before, int64_t value) {
  return (weir_stored_counter){.index = before->index,
                               .entry = before->entry + 1,
                               .value = value,
                               .expiry_us = before->expiry_us + (value - before->value)};
}

static void pack_entries(weir_packer *packer, const weir_slots *place, int64_t base_us) {
  weir_stored_counter before = {.value = base_us, .expiry_us = base_us};
  weir_pack_number(packer, (int64_t)(place->end - place->first), 0);
  for (size_t i = place->first; i < place->end && reserve(packer, SLOT_NUMBERS); i++) {
    const weir_stored_counter *slot = &place->slots[i];
    const weir_stored_counter next = follow(&before, slot->value);
    bool more =
        slot->index != next.index || slot->entry != next.entry || slot->expiry_us != next.expiry_us;
    write_step(packer, slot->value, before.value, more);
    if (more) {
      write_number(packer, slot->index, next.index);
      write_number(packer, slot->entry, next.entry);
      write_number(packer, slot->expiry_us, next.expiry_us);
    }
    before = *slot;
  }
}

static bool unpack_entries(const unsigned char **at, weir_slots *place, int64_t base_us) {
  weir_stored_counter before = {.value = base_us, .expiry_us = base_us};
  for (int64_t left = read_number(at, 0); left > 0; left--) {
    bool more;
    weir_stored_counter slot = follow(&before, read_step(at, before.value, &more));
    if (more) {
      slot.index = read_number(at, slot.index);
      slot.entry = read_number(at, slot.entry);
      slot.expiry_us = read_number(at, slot.expiry_us);
    }
    if (!weir_slots_append(place, &slot)) return false;
    before = slot;
  }
  return true;
}

/* --- what exact windows hold -----------------------------------------------------------------
 *
 * A log holds the times that its exact window does, and most keys are never denied, so that both
 * histories are one: neither is written twice. */

enum { OWN_IS_RULED = 1, RULED_IS_LOG = 2, STAMP_NUMBERS = 3 };

static void pack_stamps(weir_packer *packer, const weir_stamps *stamps, int64_t before_us) {
  size_t count = stamps->end - stamps->first;
  weir_pack_number(packer, (int64_t)count, 0);
  for (size_t i = stamps->first; i < stamps->end && reserve(packer, STAMP_NUMBERS); i++) {
    const weir_stamp *stamp = &stamps->stamps[i];
    bool more = stamp->counted != 1 || stamp->admitted != 1;
    write_step(packer, stamp->at_us, before_us, more);
    if (more) {
      write_number(packer, stamp->counted, 0);
      write_number(packer, stamp->admitted, stamp->counted);
    }
    before_us = stamp->at_us;
  }
}

static bool unpack_stamps(const unsigned char **at, weir_stamps *stamps, int64_t before_us) {
  for (int64_t left = read_number(at, 0); left > 0; left--) {
    bool more;
    before_us = read_step(at, before_us, &more);
    int64_t counted = more ? read_number(at, 0) : 1;
    int64_t admitted = more ? read_number(at, counted) : 1;
    if (!weir_stamps_add(stamps, before_us, counted, admitted)) return false;
  }
  return true;
}

/* Whether the stamps are what the log's entries after `since_us` make, each counting 1. */
static bool are_of_log(const weir_stamps *stamps, const weir_slots *log, int64_t since_us) {
  size_t at = stamps->first;
  int64_t left = 0; /* of the stamp before `at` */
  for (size_t i = log->first; i < log->end; i++) {
    int64_t value = log->slots[i].value;
    if (value <= since_us) continue;
    if (left == 0 && at < stamps->end) left = stamps->stamps[at++].counted;
    if (left == 0 || stamps->stamps[at - 1].at_us != value) return false;
    left--;
  }
  return left == 0 && at == stamps->end && stamps->counted == stamps->admitted;
}

/* `log`: the stack's, empty where it has none. */
static void pack_exact(weir_packer *packer, const weir_exact *exact, const weir_slots *log,
                       int64_t since_us, int64_t base_us) {
  const weir_stamps *ruled = &exact->ruled, *own = &exact->own;
  size_t count = ruled->end - ruled->first;
  bool own_is_ruled = count == own->end - own->first &&
                      (count == 0 || memcmp(ruled->stamps + ruled->first, own->stamps + own->first,
                                            count * sizeof *own->stamps) == 0);
  bool ruled_is_log = are_of_log(ruled, log, since_us);
  weir_pack_number(packer, own_is_ruled * OWN_IS_RULED + ruled_is_log * RULED_IS_LOG, 0);
  if (!ruled_is_log) pack_stamps(packer, ruled, base_us);
  if (!own_is_ruled) pack_stamps(packer, own, base_us);
}

static bool unpack_exact(const unsigned char **at, weir_exact *exact, const weir_slots *log,
                         int64_t since_us, int64_t base_us) {
  int64_t what = read_number(at, 0);
  const weir_stamps *ruled = &exact->ruled;
  if ((what & RULED_IS_LOG) == 0 && !unpack_stamps(at, &exact->ruled, base_us)) return false;
  for (size_t i = log->first; i < log->end && (what & RULED_IS_LOG) != 0; i++)
    if (log->slots[i].value > since_us &&
        !weir_stamps_add(&exact->ruled, log->slots[i].value, 1, 1))
      return false;
  if ((what & OWN_IS_RULED) == 0) return unpack_stamps(at, &exact->own, base_us);
  for (size_t i = ruled->first; i < ruled->end; i++) {
    const weir_stamp *stamp = &ruled->stamps[i];
    if (!weir_stamps_add(&exact->own, stamp->at_us, stamp->counted, stamp->admitted)) return false;
  }
  return true;
}

static void pack_classes(weir_packer *packer, const weir_stack *stack, const weir_exact *exact,
                         int64_t base_us) {
  for (size_t i = 0; stack->class_count > 0 && i <= stack->class_count; i++)
    pack_stamps(packer, &exact->classes[i], base_us);
}

static bool unpack_classes(const unsigned char **at, const weir_stack *stack, weir_exact *exact,
                           int64_t base_us) {
  for (size_t i = 0; stack->class_count > 0 && i <= stack->class_count; i++)
    if (!unpack_stamps(at, &exact->classes[i], base_us)) return false;
  return true;
}

/* --- memos ----------------------------------------------------------------------------------- */

/* Times are near the one before. */
static int64_t base_behind(int64_t word, int64_t base) {
  return fold((uint64_t)word - (uint64_t)base) < fold((uint64_t)word) ? word : base;
}

/* A memo is made of words, many of them zero: a mask says which are not. */
static void pack_memo(weir_packer *packer, const weir_memo *memo, size_t bytes, int64_t base_us) {
  enum { WORDS = MEMO_PART_BYTES / sizeof(int64_t) };
  for (size_t begin = 0; begin < bytes; begin += MEMO_PART_BYTES) {
    int64_t words[WORDS] = {0}, mask = 0;
    size_t part = bytes - begin < MEMO_PART_BYTES ? bytes - begin : MEMO_PART_BYTES;
    if (!reserve(packer, 1 + WORDS)) return;
    memcpy(words, (const char *)memo + begin, part);
    for (size_t i = 0; i < part / sizeof *words; i++)
      mask |= (int64_t)(words[i] != 0) << i;
    write_number(packer, mask, 0);
    for (int64_t rest = mask; rest != 0; rest &= rest - 1) {
      int64_t word = words[__builtin_ctzll((uint64_t)rest)];
      write_number(packer, word, base_us);
      base_us = base_behind(word, base_us);
    }
  }
}

static void unpack_memo(const unsigned char **at, weir_memo *memo, size_t bytes, int64_t base_us) {
  for (size_t begin = 0; begin < bytes; begin += MEMO_PART_BYTES) {
    int64_t mask = read_number(at, 0);
    for (; mask != 0; mask &= mask - 1) {
      size_t i = (size_t)__builtin_ctzll((uint64_t)mask);
      int64_t word = read_number(at, base_us);
      base_us = base_behind(word, base_us);
      memcpy((char *)memo + begin + i * sizeof word, &word, sizeof word);
    }
  }
}

/* --- all of it ------------------------------------------------------------------------------- */

/* The entries of the stack's first log, where all of its logs have theirs. */
static const weir_slots *log_of(const weir_subject *subject, const weir_driver *driver) {
  size_t i = 0;
  while (i + 1 < driver->stack.count && !weir_rule_takes_one(&driver->stack.rules[i]))
    i++;
  return &subject->driven.places[i * WEIR_PLACES + WEIR_PLACE_ENTRY];
}

void weir_subject_pack(const weir_subject *subject, const weir_driver *driver, int64_t base_us,
                       weir_packer *packer) {
  const weir_slots *log = log_of(subject, driver);
  pack_memo(packer, subject->driven.memo, driver->memo_bytes, base_us);
  for (size_t i = 0; i < driver->stack.count * WEIR_PLACES; i++) {
    const weir_slots *place = &subject->driven.places[i];
    if (i % WEIR_PLACES == WEIR_PLACE_TENANT) continue; /* of pools, which are no subjects */
    if (i % WEIR_PLACES == WEIR_PLACE_ENTRY)
      pack_entries(packer, place, base_us);
    else
      pack_counters(packer, place, base_us);
  }
  for (size_t i = 0; i < driver->stack.count; i++) {
    pack_exact(packer, &subject->exact[i], log, base_us - driver->stack.rules[i].period_us,
               base_us);
    pack_classes(packer, &driver->stack, &subject->exact[i], base_us);
  }
}

bool weir_subject_unpack(weir_subject *subject, const weir_driver *driver, int64_t base_us,
                         const unsigned char **at) {
  const weir_slots *log = log_of(subject, driver);
  unpack_memo(at, subject->driven.memo, driver->memo_bytes, base_us);
  for (size_t i = 0; i < driver->stack.count * WEIR_PLACES; i++) {
    weir_slots *place = &subject->driven.places[i];
    if (i % WEIR_PLACES == WEIR_PLACE_TENANT) continue;
    bool entries = i % WEIR_PLACES == WEIR_PLACE_ENTRY;
    if (entries ? !unpack_entries(at, place, base_us) : !unpack_counters(at, place, base_us))
      return false;
  }
  for (size_t i = 0; i < driver->stack.count; i++)
    if (!unpack_exact(at, &subject->exact[i], log, base_us - driver->stack.rules[i].period_us,
                      base_us) ||
        !unpack_classes(at, &driver->stack, &subject->exact[i], base_us))
      return false;
  return true;
}
