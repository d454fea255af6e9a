/* An open store. Files: redis.c opens and closes it, exec.c executes. */
#ifndef WEIR_REDIS_STORE_H
#define WEIR_REDIS_STORE_H

#include <stdatomic.h>

#include "redis/nodes.h"
#include "redis/seen.h"
#include "redis/sentinel.h"

enum { WEIR_REDIS_USER_BYTES = 128 };

typedef struct weir_redis_store {
  weir_redis_login login;
  char user[WEIR_REDIS_USER_BYTES]; /* for people; empty: none named */
  weir_tls *tls;                    /* NULL: plain */
  weir_redis_seen *seen;            /* keys lately seen with a TTL */
  weir_redis_seen *suspects;        /* keys that may hold what is no counter */
  atomic_bool barred;               /* they cannot be read with care */
  atomic_int wary;                  /* so many GETs, of any key, are still to be read with care */
  weir_resolver *resolver;          /* sentinels; NULL: the URL names the servers themselves */
  weir_redis_nodes *nodes;
} weir_redis_store;

/* weir_backend.exec */
void weir_redis_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                     weir_message *message);

#endif
