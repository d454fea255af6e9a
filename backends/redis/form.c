#include "redis/form.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

/* A process that asks for little is not worth a connection more. */
enum { USES_BEFORE = 16 };

void weir_redis_form_greet(weir_redis_form *form) {
  atomic_store_explicit(&form->due, USES_BEFORE, memory_order_relaxed);
}

void weir_redis_form_withdraw(weir_redis_form *form) {
  atomic_store_explicit(&form->bounded, false, memory_order_relaxed);
}

/* --- the question --------------------------------------------------------------------------------
 */

/* Absent, the key counts as 0, and 1 is out of bounds. The TTL is for a server that should know the
 * words and not what they mean. */
size_t weir_redis_form_question(const char *key, char say[WEIR_WIRE_GREETING_MOST]) {
  return (size_t)snprintf(say, WEIR_WIRE_GREETING_MOST,
                          "*11\r\n$6\r\nINCREX\r\n$%zu\r\n%s\r\n$5\r\nBYINT\r\n$1\r\n1\r\n"
                          "$6\r\nLBOUND\r\n$1\r\n0\r\n$6\r\nUBOUND\r\n$1\r\n0\r\n"
                          "$2\r\nPX\r\n$4\r\n1000\r\n$3\r\nENX\r\n",
                          strlen(key), key);
}

weir_redis_form_answer weir_redis_form_read(const struct redisReply *reply) {
  /* What a server says at present, to all alike, or of this key. */
  static const char *const passing[] = {"READONLY", "LOADING",  "OOM",        "MISCONF",
                                        "BUSY",     "MOVED",    "MASTERDOWN", "CLUSTERDOWN",
                                        "ASK",      "TRYAGAIN", "NOREPLICAS"};
  if (reply->type == REDIS_REPLY_ERROR) {
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
      if (strncmp(reply->str, passing[i], strlen(passing[i])) == 0) return WEIR_FORM_UNKNOWN;
    return WEIR_FORM_PLAIN;
  }
  bool kept = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
              reply->element[0]->type == REDIS_REPLY_INTEGER &&
              reply->element[1]->type == REDIS_REPLY_INTEGER && reply->element[0]->integer == 0 &&
              reply->element[1]->integer == 0;
  return kept ? WEIR_FORM_BOUNDED : WEIR_FORM_PLAIN;
}
