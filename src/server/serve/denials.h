/* Denials, as they may be told: in a log that is itself limited, and without a key in clear text
 * unless the configuration says so. All loops share it. */
#ifndef WEIR_SERVE_DENIALS_H
#define WEIR_SERVE_DENIALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "protocol/ask.h"

enum { WEIR_DENIALS_SECRET_BYTES = 16, WEIR_DENIALS_TEXT_BYTES = 96 };

typedef struct weir_denials {
  unsigned char
      secret[WEIR_DENIALS_SECRET_BYTES]; /* of this process: its hashes mean nothing else */
  _Atomic uint64_t logged;               /* the second, and behind it how many of it */
  _Atomic uint64_t left_out;             /* not logged, and not yet said */
} weir_denials;

typedef struct weir_denial {
  const char *protocol;
  const weir_reply *reply;
  weir_config_log_keys manner;
  uint64_t hash;
} weir_denial;

/* False: this system gives no random bytes. */
bool weir_denials_init(weir_denials *denials);

/* Of a limiter and a key. Who does not know the secret cannot tell a key by it, nor find two keys
 * that share one. */
uint64_t weir_denials_hash(const weir_denials *denials, const weir_reply *reply);

typedef enum weir_denials_form {
  WEIR_DENIALS_LINE, /* printable ASCII without quotes */
  WEIR_DENIALS_PAGE  /* UTF-8; whoever shows it escapes it as its own form wants it */
} weir_denials_form;

/* The key as it may be shown: nothing, 16 hexadecimal digits, or the key's first bytes. What is not
 * of the form, or not to be seen, is spelled out, as "\xc3"; and so is the backslash. */
void weir_denials_show(const weir_denial *denial, weir_denials_form form,
                       char text[WEIR_DENIALS_TEXT_BYTES]);

/* Logs it, unless `most` of this second are in the log. */
void weir_denials_log(weir_denials *denials, const weir_denial *denial, int64_t now_us,
                      int64_t most);

/* Once a second: says how many were left out. */
void weir_denials_look(weir_denials *denials);

#endif
