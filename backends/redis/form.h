/* Which form of commands a server takes: INCREX adds, bounds and gives a TTL in one, where it is to
 * be had. Redis 8.8 and Valkey 9.2 have it; others, proxies, and users without the right to it have
 * the plain forms. Any number of threads. */
#ifndef WEIR_REDIS_FORM_H
#define WEIR_REDIS_FORM_H

#include <stdatomic.h>

#include "redis/reply.h"

struct redisReply;

/* Zero bytes are a server that was not asked yet. */
typedef struct weir_redis_form {
  atomic_bool bounded; /* INCREX is to be had, as far as is known */
  atomic_uint due;     /* 0: there is nothing to ask; else in so many uses, or as soon as may be */
  _Atomic int64_t asked_us; /* when it was asked last; 0: never */
} weir_redis_form;

/* There is a new connection, perhaps to another version, or to who has taken over: it is to be
 * asked. Until it has answered, all stays as it was, since what was wrong shows by a refusal. */
void weir_redis_form_greet(weir_redis_form *form);

/* It has refused INCREX as one that it does not have. */
void weir_redis_form_withdraw(weir_redis_form *form);

/* --- the question --------------------------------------------------------------------------------
 */

typedef enum weir_redis_form_answer {
  WEIR_FORM_BOUNDED,
  WEIR_FORM_PLAIN,
  WEIR_FORM_UNKNOWN /* at present it cannot be told */
} weir_redis_form_answer;

/* An INCREX with all options that operations use, which is refused by its own bound and changes
 * nothing. `key` ends with NUL. Returns the length. */
size_t weir_redis_form_question(const char *key, char say[WEIR_WIRE_GREETING_MOST]);

weir_redis_form_answer weir_redis_form_read(const struct redisReply *reply);

#endif
