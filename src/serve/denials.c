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

static void escape(const char *key, size_t length, char text[WEIR_DENIALS_TEXT_BYTES]) {
  enum { LONGEST = 4, MORE = 3 }; /* "\xff", "..." */
  char *end = text;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)key[i];
    if (end + LONGEST + MORE >= text + WEIR_DENIALS_TEXT_BYTES) {
      end += sprintf(end, "...");
      break;
    }
    if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\')
      end += sprintf(end, "\\x%02x", byte);
    else
      *end++ = (char)byte;
  }
  *end = '\0';
}

void weir_denials_show(const weir_denial *denial, char text[WEIR_DENIALS_TEXT_BYTES]) {
  text[0] = '\0';
  if (denial->manner == WEIR_CONFIG_LOG_KEYS_HASHED)
    snprintf(text, WEIR_DENIALS_TEXT_BYTES, "%016" PRIx64, denial->hash);
  if (denial->manner == WEIR_CONFIG_LOG_KEYS_PLAIN)
    escape(denial->reply->key, denial->reply->key_length, text);
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
  const weir_reply *reply = denial->reply;
  const weir_decision *decision = reply->decision;
  if (most == 0) return;
  if (!may_log(denials, now_us, (uint64_t)most)) {
    atomic_fetch_add_explicit(&denials->left_out, 1, memory_order_relaxed);
    return;
  }
  weir_denials_show(denial, key);
  weir_serve_log("%s limiter=%s%s%s%s protocol=%s cost=%lld retry_after_us=%lld source=%s",
                 reply->is_shadowed ? "would deny" : "denied", reply->name,
                 key[0] != '\0' ? " key=\"" : "", key, key[0] != '\0' ? "\"" : "", denial->protocol,
                 (long long)decision->cost, (long long)reply->retry_after_us,
                 weir_source_name(decision->source));
}

void weir_denials_look(weir_denials *denials) {
  uint64_t count = atomic_exchange_explicit(&denials->left_out, 0, memory_order_relaxed);
  if (count > 0) weir_serve_log("%" PRIu64 " more denials are not in this log", count);
}
