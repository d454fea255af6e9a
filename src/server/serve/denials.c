/* The log of denials. */
#include "serve/denials.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "serve/log.h"

_Static_assert(WEIR_DENIALS_SECRET_BYTES == crypto_shorthash_KEYBYTES, "of SipHash");

bool weir_denials_init(weir_denials *denials) {
  if (sodium_init() < 0) return false;
  randombytes_buf(denials->secret, sizeof denials->secret);
  return true;
}

/* --- keys ------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const weir_denials *denials, const void *bytes, size_t length) {
  uint64_t hash;
  crypto_shorthash((unsigned char *)&hash, bytes, length, denials->secret);
  return hash;
}

uint64_t weir_denials_hash(const weir_denials *denials, const weir_reply *reply) {
  const uint64_t both[2] = {hash_bytes(denials, reply->name, strlen(reply->name)),
                            hash_bytes(denials, reply->key, reply->key_length)};
  return hash_bytes(denials, both, sizeof both);
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

/* Characters that nobody sees, or that change how those beside them stand: with them one key could
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

/* How many bytes may stand there as they are; 0: the first one is spelled out. */
static size_t plain_bytes(const unsigned char *at, size_t length, weir_denials_form form) {
  uint32_t character;
  if (at[0] == '\\') return 0;
  if (form == WEIR_DENIALS_LINE) return at[0] >= ' ' && at[0] <= '~' && at[0] != '"';
  size_t bytes = read_character(at, length, &character);
  return bytes > 0 && !is_hidden(character) ? bytes : 0;
}

static void escape(const char *key, size_t length, weir_denials_form form,
                   char text[WEIR_DENIALS_TEXT_BYTES]) {
  enum { LONGEST = 4, MORE = 3 }; /* "\xff", "..." */
  char *end = text;
  for (size_t i = 0; i < length;) {
    const unsigned char *at = (const unsigned char *)key + i;
    if (end + LONGEST + MORE >= text + WEIR_DENIALS_TEXT_BYTES) {
      end += sprintf(end, "...");
      break;
    }
    size_t plain = plain_bytes(at, length - i, form);
    memcpy(end, at, plain);
    end += plain > 0 ? (int)plain : sprintf(end, "\\x%02x", *at);
    i += plain > 0 ? plain : 1;
  }
  *end = '\0';
}

void weir_denials_show(const weir_denial *denial, weir_denials_form form,
                       char text[WEIR_DENIALS_TEXT_BYTES]) {
  text[0] = '\0';
  if (denial->manner == WEIR_CONFIG_LOG_KEYS_HASHED)
    snprintf(text, WEIR_DENIALS_TEXT_BYTES, "%016" PRIx64, denial->hash);
  if (denial->manner == WEIR_CONFIG_LOG_KEYS_PLAIN)
    escape(denial->reply->key, denial->reply->key_length, form, text);
}

/* --- the log ------------------------------------------------------------------------------------
 */

/* Loops' clocks differ by a tick: one that is behind counts in the second that has begun. */
static bool may_log(weir_denials *denials, int64_t now_us, uint64_t most) {
  uint64_t before = atomic_load_explicit(&denials->logged, memory_order_relaxed);
  uint64_t after;
  do {
    uint64_t second = (uint64_t)now_us / 1000000;
    if (second < before >> 32) second = before >> 32;
    uint64_t used = second == before >> 32 ? before & UINT32_MAX : 0;
    if (used >= most) return false;
    after = second << 32 | (used + 1);
  } while (!atomic_compare_exchange_weak_explicit(&denials->logged, &before, after,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

void weir_denials_log(weir_denials *denials, const weir_denial *denial, int64_t now_us,
                      int64_t most) {
  char key[WEIR_DENIALS_TEXT_BYTES];
  char id[WEIR_ASK_ID_MOST + 1];
  const weir_reply *reply = denial->reply;
  const weir_decision *decision = reply->decision;
  if (most == 0) return;
  if (!may_log(denials, now_us, (uint64_t)most)) {
    atomic_fetch_add_explicit(&denials->left_out, 1, memory_order_relaxed);
    return;
  }
  weir_denials_show(denial, WEIR_DENIALS_LINE, key);
  weir_log_field fields[7] = {{.name = "limiter", .text = reply->name}};
  size_t count = 1;
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

void weir_denials_look(weir_denials *denials) {
  uint64_t count = atomic_exchange_explicit(&denials->left_out, 0, memory_order_relaxed);
  if (count > 0) weir_serve_log("%" PRIu64 " more denials are not in this log", count);
}
