/* The servers that are measured, as URLs name them. */
#ifndef WEIR_BENCH_TARGET_H
#define WEIR_BENCH_TARGET_H

#include <stdbool.h>

#include <weir/weir.h>

enum { WEIR_BENCH_HOSTS_MOST = 64, WEIR_BENCH_HOST_BYTES = 256, WEIR_BENCH_LIMITER_BYTES = 65 };

/* How a decision is asked for: of a store by this process, or of a server of weir. */
typedef enum weir_bench_protocol {
  WEIR_BENCH_STORE,
  WEIR_BENCH_RESP,
  WEIR_BENCH_HTTP,
  WEIR_BENCH_GRPC
} weir_bench_protocol;

/* The servers behind a URL. */
typedef struct weir_bench_target {
  weir_bench_protocol via;
  char
      limiter[WEIR_BENCH_LIMITER_BYTES]; /* of a server of weir: who decides there, or DOMAIN/KEY */
  bool redis;
  bool raw; /* a raw loop can talk to it: no TLS, and not within this process */
  size_t host_count;
  struct weir_bench_host {
    char name[WEIR_BENCH_HOST_BYTES]; /* or the path of a socket */
    uint16_t port;                    /* 0: a path */
  } hosts[WEIR_BENCH_HOSTS_MOST];
  char user[WEIR_BENCH_HOST_BYTES];
  char password[WEIR_BENCH_HOST_BYTES];
} weir_bench_target;

/* What the URL names. URLs that weir_store_open() refuses are WEIR_BAD_URL here as well. */
weir_status weir_bench_target_read(const char *url, weir_bench_target *target,
                                   weir_message *message);

/* The same of redis://HOST[:PORT]/LIMITER, http://HOST[:PORT]/LIMITER and
 * grpc://HOST[:PORT]/DOMAIN/KEY, which a server of weir answers. The raw loop of RESP is PING; the
 * others have none. */
weir_status weir_bench_target_read_via(const char *url, weir_bench_target *target,
                                       weir_message *message);

#endif
