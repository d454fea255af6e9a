/* What a Redis says of itself, and what it lets this user do. Files: inspect.c reports, questions.c
 * asks, access.c knows which commands are needed. */
#ifndef WEIR_REDIS_INSPECT_H
#define WEIR_REDIS_INSPECT_H

#include "redis/codec.h"
#include "redis/reply.h"
#include "redis/store.h"
#include "wire/exchange.h"

/* Asks the server that `wire` leads to, and reports. */
void weir_redis_inspect(weir_wire *wire, const weir_redis_store *store,
                        const weir_inspection *inspection);

/* --- access.c ----------------------------------------------------------------------------------
 */

/* The commands that some needs come to, each once. Returns how many. */
size_t weir_redis_steps(unsigned needs, weir_redis_step steps[WEIR_STEP_COUNT]);

/* A command in a form that every server refuses for its argument "x", if it would execute it
 * otherwise: nothing is changed. Returns the length. */
size_t weir_redis_harmless(weir_redis_step step, const char *key,
                           char say[WEIR_WIRE_GREETING_MOST]);

/* "ACL SETUSER ..." for a user who may do that and nothing else; of a cluster also what its nodes
 * are asked. */
enum { WEIR_ACL_BYTES = 512 };
void weir_redis_acl(unsigned needs, const weir_redis_login *login, const char *user,
                    const char *pattern, bool cluster, char acl[WEIR_ACL_BYTES]);

/* --- questions.c -------------------------------------------------------------------------------
 */

enum { WEIR_REDIS_WORD_BYTES = 32 };

/* From INFO; -1, or an empty word: not told. */
typedef struct weir_redis_info {
  char version[WEIR_REDIS_WORD_BYTES], valkey[WEIR_REDIS_WORD_BYTES];
  char role[WEIR_REDIS_WORD_BYTES], policy[WEIR_REDIS_WORD_BYTES];
  int64_t uptime_s, time_us, used_bytes, maxmemory_bytes, evicted, cluster;
} weir_redis_info;

/* A command that the server would not execute. */
typedef struct weir_redis_denied {
  const char *name;
  weir_message why;
} weir_redis_denied;

typedef struct weir_redis_questions {
  weir_exchange exchange; /* first */
  const char *key;
  weir_redis_step steps[WEIR_STEP_COUNT]; /* commands to try */
  size_t step_count;
  size_t now; /* 0 and on: which question */

  bool is_proxy;
  bool lacks_asking, lacks_map; /* ASKING, CLUSTER SLOTS: refused by a node of a cluster */
  bool is_spread;               /* keys of one home are on several servers */
  bool reported;                /* INFO was answered */
  weir_message info_refused;
  weir_redis_info info;
  int64_t before_us, after_us; /* between which the server's clock was read */
  weir_redis_denied denied[WEIR_STEP_COUNT];
  size_t denied_count;
} weir_redis_questions;

void weir_redis_questions_init(weir_redis_questions *questions, const weir_redis_login *login,
                               unsigned needs, const char *key);

#endif
