/* The two dialects of memcached, and how a server is found to speak one. All pure functions. */
#ifndef WEIR_MEMCACHED_CODEC_H
#define WEIR_MEMCACHED_CODEC_H

#include "memcached/text.h"
#include "wire/wire.h"

typedef enum weir_memcached_dialect {
  WEIR_DIALECT_META,
  WEIR_DIALECT_CLASSIC,
  WEIR_DIALECT_AUTO /* a setting only: find out */
} weir_memcached_dialect;

extern const weir_wire_codec weir_meta_codec;
extern const weir_wire_codec weir_classic_codec;

/* What a connection is to begin with. */
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

/* The CAS id of a GET, as a version: REFUSED when the server gives none. */
void weir_version_read(weir_wire_command *command, uint64_t cas, weir_message *message);

/* Longest text of an item that may still be an integer; a longer one is skipped. */
enum { WEIR_VALUE_TEXT_MOST = 64 };

#endif
