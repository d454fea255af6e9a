/* Denials: how a key may be shown, the log of them, and the sketch of the keys of which there is most.
 *
 * The sketch holds heavy hitters as in Metwally, Agrawal, El Abbadi, "Efficient computation of frequent
 * and top-k elements in data streams" (2005); merging as in Agarwal et al., "Mergeable summaries"
 * (2012). */
#include "serve/denials.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/log.h"

_Static_assert(WEIR_DENIAL_SECRET_BYTES == crypto_shorthash_KEYBYTES, "of SipHash");

bool weir_denial_log_init(weir_denial_log *log) {
  if (sodium_init() < 0) return false;
  randombytes_buf(log->secret, sizeof log->secret);
  return true;
}

/* --- keys ------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const weir_denial_log *log, const void *bytes, size_t length) {
  uint64_t hash;
  crypto_shorthash((unsigned char *)&hash, bytes, length, log->secret);
  return hash;
}

uint64_t weir_denial_log_hash(const weir_denial_log *log, const weir_reply *reply) {
  const uint64_t both[2] = {hash_bytes(log, reply->name, strlen(reply->name)),
                            hash_bytes(log, reply->key, reply->key_length)};
  return hash_bytes(log, both, sizeof both);
}

/* Bytes of the character of UTF-8 that stands there, and which it is. 0: none does. */
static size_t read_character(const unsigned char *at, size_t length, uint32_t *character) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
  if (bytes == 0 || bytes > length || at[0] > 0xf4) return 0;
  *character = bytes == 1 ? at[0] : at[0] & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
    *character = *character << 6 | (at[i] & 0x3f);
  }
  bool is_surrogate = *character >= 0xd800 && *character < 0xe000;
  return *character < least[bytes] || *character > 0x10ffff || is_surrogate ? 0 : bytes;
}

/* Characters that are not seen, or that change how those beside them stand: with them one key could
 * look like another. */
static bool is_hidden(uint32_t character) {
  static const uint32_t ranges[][2] = {
      {0, 0x1f},        {0x7f, 0xa0},     {0xad, 0xad},     {0x34f, 0x34f},     {0x61c, 0x61c},
      {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x2000, 0x200f},   {0x2028, 0x202f},
      {0x205f, 0x206f}, {0x3000, 0x3000}, {0x3164, 0x3164}, {0xe000, 0xf8ff},   {0xfe00, 0xfe0f},
      {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff0, 0xffff}, {0xe0000, 0x10ffff}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (character >= ranges[i][0] && character <= ranges[i][1]) return true;
  return false;
}

void weir_denial_line_show(const weir_denial_line *denial, weir_denial_form form,
                           char text[WEIR_DENIAL_KEY_BYTES]) {
  enum { LONGEST = 4, MORE = 3 }; /* "\xff", "..." */
  const unsigned char *key = (const unsigned char *)denial->reply->key;
  size_t length = denial->reply->key_length;
  char *end = text;
  *end = '\0';
  if (denial->log_keys == WEIR_CONFIG_LOG_KEYS_HASHED)
    snprintf(text, WEIR_DENIAL_KEY_BYTES, "%016" PRIx64, denial->hash);
  if (denial->log_keys != WEIR_CONFIG_LOG_KEYS_PLAIN) return;
  for (size_t i = 0; i < length;) {
    uint32_t character;
    size_t plain = 0; /* bytes that may stand as they are; 0: the first one is spelled out */
    if (end + LONGEST + MORE >= text + WEIR_DENIAL_KEY_BYTES) {
      end += sprintf(end, "...");
      break;
    }
    if (key[i] == '\\')
      plain = 0;
    else if (form == WEIR_DENIAL_LOGGED)
      plain = key[i] >= ' ' && key[i] <= '~' && key[i] != '"';
    else
      plain = read_character(key + i, length - i, &character);
    if (plain > 0 && form == WEIR_DENIAL_ON_PAGE && is_hidden(character)) plain = 0;
    memcpy(end, key + i, plain);
    end += plain > 0 ? (int)plain : sprintf(end, "\\x%02x", key[i]);
    i += plain > 0 ? plain : 1;
  }
  *end = '\0';
}

/* --- the log ------------------------------------------------------------------------------------
 */

/* Loops' clocks differ by a tick: one that is behind counts in the second that has begun. */
static bool may_log(weir_denial_log *log, int64_t now_us, uint64_t most) {
  uint64_t before = atomic_load_explicit(&log->logged, memory_order_relaxed);
  uint64_t after;
  do {
    uint64_t second = (uint64_t)now_us / 1000000;
    if (second < before >> 32) second = before >> 32;
    uint64_t used = second == before >> 32 ? before & UINT32_MAX : 0;
    if (used >= most) return false;
    after = second << 32 | (used + 1);
  } while (!atomic_compare_exchange_weak_explicit(&log->logged, &before, after,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

void weir_denial_log_add(weir_denial_log *log, const weir_denial_line *denial, int64_t now_us,
                         int64_t most) {
  char key[WEIR_DENIAL_KEY_BYTES];
  char id[WEIR_ASK_ID_MOST + 1];
  const weir_reply *reply = denial->reply;
  const weir_decision *decision = reply->decision;
  if (most == 0) return;
  if (!may_log(log, now_us, (uint64_t)most)) {
    atomic_fetch_add_explicit(&log->left_out, 1, memory_order_relaxed);
    return;
  }
  weir_denial_line_show(denial, WEIR_DENIAL_LOGGED, key);
  weir_log_field fields[8] = {{.name = "limiter", .text = reply->name}};
  size_t count = 1;
  if (reply->group != NULL)
    fields[count++] = (weir_log_field){.name = "group", .text = reply->group};
  if (key[0] != '\0')
    fields[count++] = (weir_log_field){.name = "key", .text = key, .is_quoted = true};
  fields[count++] = (weir_log_field){.name = "protocol", .text = denial->protocol};
  fields[count++] = (weir_log_field){.name = "cost", .number = decision->cost};
  fields[count++] = (weir_log_field){.name = "retry_after_us", .number = reply->retry_after_us};
  fields[count++] = (weir_log_field){.name = "source", .text = weir_source_name(decision->source)};
  if (reply->id_length > 0) {
    snprintf(id, sizeof id, "%.*s", (int)reply->id_length, reply->id);
    fields[count++] = (weir_log_field){.name = "request_id", .text = id, .is_quoted = true};
  }
  weir_serve_log_event(reply->is_shadowed ? "would deny" : "denied", fields, count);
}

void weir_denial_log_look(weir_denial_log *log) {
  uint64_t count = atomic_exchange_explicit(&log->left_out, 0, memory_order_relaxed);
  if (count > 0) weir_serve_log("%" PRIu64 " more denials are not in this log", count);
}

/* --- the keys of which there is most ------------------------------------------------------------ */

static size_t find(const weir_sketch *sketch, uint64_t hash) {
  size_t i = 0;
  while (i < sketch->count && sketch->hashes[i] != hash)
    i++;
  return i;
}

static size_t find_lowest(const weir_sketch *sketch) {
  size_t lowest = 0;
  for (size_t i = 1; i < sketch->count; i++)
    if (sketch->entries[i].count < sketch->entries[lowest].count) lowest = i;
  return lowest;
}

weir_sketch_key *weir_sketch_add(weir_sketch *sketch, uint64_t hash, uint64_t amount) {
  size_t at = find(sketch, hash);
  sketch->total += amount;
  if (at < sketch->count) {
    sketch->entries[at].count += amount;
    return NULL;
  }
  uint64_t floor = 0;
  if (sketch->count < WEIR_SKETCH_ENTRIES) {
    sketch->count++;
  } else {
    at = find_lowest(sketch);
    floor = sketch->entries[at].count;
  }
  sketch->hashes[at] = hash;
  sketch->entries[at] = (weir_sketch_entry){floor + amount, floor, {.hash = hash}};
  return &sketch->entries[at].key;
}

/* What a key that is not in a sketch may have been added at most. */
static uint64_t floor_of(const weir_sketch *sketch) {
  if (sketch->count < WEIR_SKETCH_ENTRIES) return 0;
  return sketch->entries[find_lowest(sketch)].count;
}

/* The highest count first; of equals always in the same order. */
static int compare(const void *left, const void *right) {
  const weir_sketch_entry *a = left;
  const weir_sketch_entry *b = right;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  return a->key.hash < b->key.hash ? -1 : a->key.hash > b->key.hash;
}

/* Replaces the entries by the highest of these. */
static void keep_highest(weir_sketch *sketch, weir_sketch_entry *entries, size_t count) {
  qsort(entries, count, sizeof *entries, compare);
  sketch->count = count < WEIR_SKETCH_ENTRIES ? count : WEIR_SKETCH_ENTRIES;
  for (size_t i = 0; i < sketch->count; i++) {
    sketch->entries[i] = entries[i];
    sketch->hashes[i] = entries[i].key.hash;
  }
}

void weir_sketch_merge(weir_sketch *sketch, const weir_sketch *other) {
  weir_sketch_entry all[2 * WEIR_SKETCH_ENTRIES];
  size_t count = 0;
  uint64_t floor = floor_of(sketch);
  uint64_t other_floor = floor_of(other);
  for (size_t i = 0; i < sketch->count; i++) {
    size_t at = find(other, sketch->hashes[i]);
    bool both = at < other->count;
    all[count] = sketch->entries[i];
    all[count].count += both ? other->entries[at].count : other_floor;
    all[count++].error += both ? other->entries[at].error : other_floor;
  }
  for (size_t i = 0; i < other->count; i++) {
    if (find(sketch, other->hashes[i]) < sketch->count) continue;
    all[count] = other->entries[i];
    all[count].count += floor;
    all[count++].error += floor;
  }
  sketch->total += other->total;
  keep_highest(sketch, all, count);
}

void weir_sketch_sort(weir_sketch *sketch) {
  weir_sketch_entry all[WEIR_SKETCH_ENTRIES];
  memcpy(all, sketch->entries, sketch->count * sizeof *all);
  keep_highest(sketch, all, sketch->count);
}
