/* An open store: redis.c opens and closes it, exec.c executes, inspect.c asks what a server says of
 * itself, sentinel.c asks which of several servers is the primary. */
#ifndef WEIR_REDIS_STORE_H
#define WEIR_REDIS_STORE_H

#include <stdatomic.h>

#include "redis/cluster.h"
#include "redis/seen.h"

enum { WEIR_REDIS_USER_BYTES = 128 };

typedef struct weir_redis_store {
  weir_redis_login login;
  char user[WEIR_REDIS_USER_BYTES]; /* for people; empty: none named */
  weir_tls *tls;                    /* NULL: plain */
  weir_redis_seen *seen;            /* keys lately seen with a TTL */
  weir_redis_seen *suspects;        /* keys that may hold what is no counter */
  atomic_bool barred;               /* they cannot be read with care */
  atomic_bool unjoined;             /* MGET is not to be had: GETs go one by one */
  atomic_int wary;                  /* so many GETs, of any key, are still to be read with care */
  weir_resolver *resolver;          /* sentinels; NULL: the URL names the servers themselves */
  weir_redis_nodes *nodes;
} weir_redis_store;

/* weir_backend.exec */
void weir_redis_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                     weir_message *message);

/* Asks the server that `wire` leads to, and reports. */
void weir_redis_inspect(weir_wire *wire, const weir_redis_store *store,
                        const weir_inspection *inspection);

/* --- sentinels -----------------------------------------------------------------------------------
 */

/* The URL's options of sentinels, which the backend lists as its own. */
#define WEIR_SENTINEL_OPTIONS "sentinel-user", "sentinel-password", "sentinel-tls"

bool weir_redis_url_has_sentinels(const weir_url *url);

/* Of a URL with such a scheme, whose hosts they are; else *resolver is NULL, and their options an
 * error. *name is the primary's, for people; it lives as long as the resolver. */
weir_status weir_redis_sentinels_open(const weir_url *url, weir_resolver **resolver,
                                      const char **name, weir_message *message);

/* As weir_tls_prepare(), weir_tls_renew() and weir_tls_certificate_end_s(), of their own TLS. */
weir_status weir_redis_sentinels_prepare(weir_resolver *resolver, weir_message *message);
weir_status weir_redis_sentinels_renew(weir_resolver *resolver, weir_message *message);
int64_t weir_redis_sentinels_certificate_end_s(weir_resolver *resolver);

/* Asks every one of them, and reports. */
void weir_redis_sentinels_inspect(weir_resolver *resolver, const weir_inspection *inspection);

#endif
