/* How a key may be shown, and the log of denials. */
#include "tell/denials.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "tell/log.h"

/* --- how a key may be shown ---------------------------------------------------------------------
 */

_Static_assert(WEIR_DENIAL_SECRET_BYTES == crypto_shorthash_KEYBYTES, "of SipHash");

bool weir_denial_log_init(weir_denial_log *log) {
  if (sodium_init() < 0) return false;
  randombytes_buf(log->secret, sizeof log->secret);
  return true;
}

static uint64_t hash_bytes(const weir_denial_log *log, const void *bytes, size_t length) {
  uint64_t hash;
  crypto_shorthash((unsigned char *)&hash, bytes, length, log->secret);
  return hash;
}

uint64_t weir_denial_log_hash(const weir_denial_log *log, const weir_reply *reply) {
  const uint64_t both[2] = {hash_bytes(log, reply->of.name, strlen(reply->of.name)),
                            hash_bytes(log, reply->of.key, reply->of.key_length)};
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
  const unsigned char *key = (const unsigned char *)denial->reply->of.key;
  size_t length = denial->reply->of.key_length;
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

void weir_denial_line_of_tenant(const weir_denial_log *log, const weir_denial_line *denial,
                                weir_reply *copy, weir_denial_line *of_tenant) {
  *copy = *denial->reply;
  copy->of.key = copy->of.tenant;
  copy->of.key_length = copy->of.tenant_length;
  *of_tenant = *denial;
  of_tenant->reply = copy;
  of_tenant->hash = weir_denial_log_hash(log, copy);
}

/* --- the log of denials -------------------------------------------------------------------------
 */

/* Loops' clocks differ by a turn: one that is behind counts in the second that has begun. */
static bool may_log(_Atomic uint64_t *logged, int64_t now_us, uint64_t most) {
  uint64_t before = atomic_load_explicit(logged, memory_order_relaxed);
  uint64_t after;
  do {
    uint64_t second = (uint64_t)now_us / 1000000;
    if (second < before >> 32) second = before >> 32;
    uint64_t used = second == before >> 32 ? before & UINT32_MAX : 0;
    if (used >= most) return false;
    after = second << 32 | (used + 1);
  } while (!atomic_compare_exchange_weak_explicit(logged, &before, after, memory_order_relaxed,
                                                  memory_order_relaxed));
  return true;
}

void weir_denial_log_add(weir_denial_log *log, const weir_denial_line *denial, int64_t now_us,
                         int64_t most) {
  char key[WEIR_DENIAL_KEY_BYTES], tenant[WEIR_DENIAL_KEY_BYTES] = "";
  char id[WEIR_ORDER_ID_MOST + 1];
  const weir_reply *reply = denial->reply;
  const weir_decision *decision = reply->decision;
  if (most == 0) return;
  if (!may_log(&log->logged, now_us, (uint64_t)most)) {
    atomic_fetch_add_explicit(&log->left_out, 1, memory_order_relaxed);
    return;
  }
  weir_denial_line_show(denial, WEIR_DENIAL_LOGGED, key);
  if (reply->of.tenant != NULL) {
    weir_denial_line of_tenant;
    weir_reply copy;
    weir_denial_line_of_tenant(log, denial, &copy, &of_tenant);
    weir_denial_line_show(&of_tenant, WEIR_DENIAL_LOGGED, tenant);
  }
  weir_log_field fields[9] = {{.name = "limiter", .text = reply->of.name}};
  size_t count = 1;
  if (reply->of.group != NULL)
    fields[count++] = (weir_log_field){.name = "group", .text = reply->of.group};
  if (key[0] != '\0')
    fields[count++] = (weir_log_field){.name = "key", .text = key, .is_quoted = true};
  if (tenant[0] != '\0')
    fields[count++] = (weir_log_field){.name = "tenant", .text = tenant, .is_quoted = true};
  fields[count++] = (weir_log_field){.name = "protocol", .text = denial->protocol};
  fields[count++] = (weir_log_field){.name = "cost", .number = decision->cost};
  fields[count++] = (weir_log_field){.name = "retry_after_us", .number = reply->retry_after_us};
  fields[count++] = (weir_log_field){.name = "source", .text = weir_source_name(decision->source)};
  if (reply->of.id_length > 0) {
    snprintf(id, sizeof id, "%.*s", (int)reply->of.id_length, reply->of.id);
    fields[count++] = (weir_log_field){.name = "request_id", .text = id, .is_quoted = true};
  }
  weir_serve_log_event(reply->is_shadowed ? "would deny" : "denied", fields, count);
}

void weir_denial_log_add_limit(weir_denial_log *log, const weir_denial_line *line, int64_t now_us) {
  enum { MOST = 100, CLIENT_BYTES = 128 };
  char key[WEIR_DENIAL_KEY_BYTES];
  const weir_reply *reply = line->reply;
  const weir_reply_limit *is = &reply->is.limit;
  if (!may_log(&log->limits_logged, now_us, MOST)) {
    atomic_fetch_add_explicit(&log->limits_left_out, 1, memory_order_relaxed);
    return;
  }
  char client[CLIENT_BYTES];
  snprintf(client, sizeof client, "%s", is->client);
  for (char *c = client; *c != '\0'; c++)
    if (*c == '"' || *c == '\\') *c = '?'; /* it may name itself so */
  weir_denial_line told = *line;
  told.hash = weir_denial_log_hash(log, reply);
  weir_denial_line_show(&told, WEIR_DENIAL_LOGGED, key);
  weir_log_field fields[6] = {{.name = "limiter", .text = reply->of.name}};
  size_t count = 1;
  if (key[0] != '\0')
    fields[count++] = (weir_log_field){.name = "key", .text = key, .is_quoted = true};
  fields[count++] = (weir_log_field){.name = "limit", .text = is->text};
  if (is->limit.for_us != 0)
    fields[count++] = (weir_log_field){.name = "for_us", .number = is->limit.for_us};
  fields[count++] = (weir_log_field){.name = "client", .text = client, .is_quoted = true};
  fields[count++] = (weir_log_field){.name = "result", .text = weir_status_name(reply->status)};
  weir_serve_log_event("limit of a key", fields, count);
}

void weir_denial_log_look(weir_denial_log *log) {
  uint64_t count = atomic_exchange_explicit(&log->left_out, 0, memory_order_relaxed);
  uint64_t limits = atomic_exchange_explicit(&log->limits_left_out, 0, memory_order_relaxed);
  if (count > 0) weir_serve_log("%" PRIu64 " more denials are not in this log", count);
  if (limits > 0) weir_serve_log("%" PRIu64 " more limits of keys are not in this log", limits);
}
