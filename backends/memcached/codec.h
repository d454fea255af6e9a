/* The two dialects of memcached, and how a server is found to speak one. All pure functions. */
#ifndef WEIR_MEMCACHED_CODEC_H
#define WEIR_MEMCACHED_CODEC_H

#include <string.h>

#include "number.h"
#include "wire/wire.h"

typedef enum weir_memcached_dialect {
  WEIR_DIALECT_META,
  WEIR_DIALECT_CLASSIC,
  WEIR_DIALECT_AUTO /* a setting only: find out */
} weir_memcached_dialect;

extern const weir_wire_codec weir_meta_codec;
extern const weir_wire_codec weir_classic_codec;

/* A connection begins by this. */
typedef struct weir_memcached_login {
  weir_memcached_dialect wanted;
  size_t length; /* of `text`; 0: no user */
  char text[WEIR_WIRE_GREETING_MOST];
} weir_memcached_login;

/* False: user and password are too long. Both may be NULL. */
bool weir_memcached_login_write(weir_memcached_login *login, weir_memcached_dialect wanted,
                                const char *user, const char *password);

/* Codecs in the order of the dialects; `settings` points to a weir_memcached_login. */
extern const weir_wire_protocol weir_memcached_protocol;

/* --- numbers and lines ---------------------------------------------------------------------------
 */

enum { WEIR_NUMBER_MOST = 20 }; /* digits of 2^64 - 1 */

/* Writes a text without its NUL; returns where it ends. */
static inline char *weir_text_put(char *out, const char *text) {
  size_t length = strlen(text);
  memcpy(out, text, length);
  return out + length;
}

/* Writes `before` and the number's digits; returns where they end. */
static inline char *weir_number_put(char *out, const char *before, uint64_t number) {
  return weir_number_write(weir_text_put(out, before), number);
}

/* Decimal digits, then nothing but spaces: a server pads what it shortens. False for all else and
 * above 2^64 - 1. */
bool weir_number_parse(const char *text, size_t length, uint64_t *number);

/* Digits at the front of `text`; how many, 0 when there is none or the number does not fit. */
size_t weir_number_scan(const char *text, size_t length, uint64_t *number);

/* The server's form of a TTL: whole seconds, or above 30 days a date. An item with N seconds goes
 * somewhere in the last of them, and its clock may be late, so two seconds more than the ceiling
 * keep it alive for ttl_us; a date has a day to spare for a server whose clock is ahead. */
uint64_t weir_ttl_seconds(int64_t ttl_us, int64_t unix_s);

/* Whether that is a date. */
static inline bool weir_ttl_is_date(int64_t ttl_us) {
  const int64_t longest_relative_us = (INT64_C(30) * 24 * 3600 - 2) * 1000000;
  return ttl_us > longest_relative_us;
}

/* Whether a date stands in the command that stores for this operation. */
static inline bool weir_operation_writes_date(const weir_operation *operation) {
  weir_operation_kind kind = operation->kind;
  return weir_ttl_is_date(operation->ttl_us) &&
         (kind == WEIR_ADD || kind == WEIR_CREATE || kind == WEIR_SWAP || kind == WEIR_PUT);
}

/* The line at the front of `bytes`, without CR LF. */
typedef struct weir_line {
  const char *text;
  size_t length;
  size_t taken; /* with CR LF; 0: the line is not whole yet */
  bool bad;     /* LF without CR */
} weir_line;

weir_line weir_line_find(const char *bytes, size_t length);
bool weir_line_is(const weir_line *line, const char *text);
bool weir_line_starts(const weir_line *line, const char *text);

/* --- versions ------------------------------------------------------------------------------------
 */

/* A version is a CAS id. A memcached that starts again counts its CAS ids from the beginning, so an
 * old id soon fits a new item. But no connection outlives its server: a version is the id under a
 * random mask, which the first connection to a process of the server draws and the further ones to the
 * same process have from it. By the connections of another process the masks differ, and the SWAP ends
 * in a conflict. This cannot be told behind a proxy, whose connections stay when a server goes, and
 * behind an address that leads to several servers. */

/* A connection keeps this as its parser. NULL: no memory. */
void *weir_version_mask_create(const void *settings, const void *first);
void weir_version_mask_destroy(void *mask);

/* By a command's own connection; without one there is no mask. 0 for 0: the server gave no id. */
uint64_t weir_version_of_cas(const weir_wire_command *command, uint64_t cas);

/* Never 0, which the server would take for "whatever is there". */
uint64_t weir_version_to_cas(const weir_wire_command *command, uint64_t version);

/* --- replies -------------------------------------------------------------------------------------
 */

/* ERROR, CLIENT_ERROR and SERVER_ERROR lines. False: the line is none of them. Else sets outcome
 * and message, and *stray if more may follow than this line. `stores`: the command carried data. */
bool weir_reply_is_error(weir_operation *operation, const weir_line *line, bool stores, bool *stray,
                         weir_message *message);

/* The text of a stored value, or what a server answered with: DONE, or REFUSED when it is no
 * integer. Values travel as the two's complement of their int64. */
void weir_value_read(weir_operation *operation, const char *text, size_t length,
                     weir_message *message);

/* The reply to what renews the TTL behind an addition. When the sum was changed and its life not
 * prolonged, all that can be said is that the outcome is not what was asked for. */
weir_reading weir_touch_read(weir_operation *operation, const weir_line *line, const char *touched,
                             const char *absent, weir_message *message);

/* A question stands behind such a command and looks whether the item is there: one whose date has
 * passed by the server's clock is gone as soon as it is stored, and the command's own answer does
 * not say so. Reads the reply to that question. The reply to that. */
weir_reading weir_look_read(weir_operation *operation, const weir_line *line, const char *found,
                            const char *absent, weir_message *message);

/* The CAS id of a GET, as a version: REFUSED when the server gives none. */
void weir_version_read(weir_wire_command *command, uint64_t cas, weir_message *message);

/* Longest text of an item that may still be an integer; a longer one is skipped. */
enum { WEIR_VALUE_TEXT_MOST = 64 };

#endif
