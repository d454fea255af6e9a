/* Denials and limits of keys, as they may be told: in a log that is itself limited, and by the keys that are denied most;
 * without a key in clear text unless the configuration says so. */
#ifndef WEIR_TELL_DENIALS_H
#define WEIR_TELL_DENIALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "protocol/order.h"

enum { WEIR_DENIAL_SECRET_BYTES = 16, WEIR_DENIAL_KEY_BYTES = 96 };

/* The log of all loops. */
typedef struct weir_denial_log {
  /* Of this process: hashes mean nothing elsewhere. */
  unsigned char secret[WEIR_DENIAL_SECRET_BYTES];
  _Atomic uint64_t logged;                         /* the second, and behind it how many of it */
  _Atomic uint64_t left_out;                       /* not logged, and not yet said */
  _Atomic uint64_t limits_logged, limits_left_out; /* the same of limits of keys */
} weir_denial_log;

/* A denial to be told. */
typedef struct weir_denial_line {
  const char *protocol;
  const weir_reply *reply;
  weir_config_log_keys log_keys;
  uint64_t hash;
} weir_denial_line;

/* False: this system gives no random bytes. */
bool weir_denial_log_init(weir_denial_log *log);

/* The hash of a limiter and a key. Without the secret a key cannot be told by it, nor can two keys
 * be found that share one. */
uint64_t weir_denial_log_hash(const weir_denial_log *log, const weir_reply *reply);

typedef enum weir_denial_form {
  WEIR_DENIAL_LOGGED, /* printable ASCII without quotes */
  WEIR_DENIAL_ON_PAGE /* UTF-8, to be escaped as the form that shows it wants it */
} weir_denial_form;

/* A line that tells the tenant of a reply in place of its key: it stands as the key of the copy. */
void weir_denial_line_of_tenant(const weir_denial_log *log, const weir_denial_line *denial,
                                weir_reply *copy, weir_denial_line *of_tenant);

/* The key as it may be shown: nothing, 16 hexadecimal digits, or the key's first bytes. Bytes that
 * are not of the form, or not to be seen, are spelled out, as "\xc3"; and so is the backslash. */
void weir_denial_line_show(const weir_denial_line *denial, weir_denial_form form,
                           char text[WEIR_DENIAL_KEY_BYTES]);

/* Logs it, unless `most` of this second are in the log. */
void weir_denial_log_add(weir_denial_log *log, const weir_denial_line *denial, int64_t now_us,
                         int64_t most);

/* Logs who has set which limit of a key, and what came of it, unless 100 of this second are in the log. */
void weir_denial_log_add_limit(weir_denial_log *log, const weir_denial_line *line, int64_t now_us);

/* Once a second: says how many were left out. */
void weir_denial_log_look(weir_denial_log *log);

#endif
