/* The columns of the matrix: stores, with the servers that they need and the one of them that
 * fails. */
#ifndef TESTS_FAULTS_SITE_H
#define TESTS_FAULTS_SITE_H

#include "fixture/proxy.h"
#include "fixture/servers.h"

typedef enum site_kind {
  SITE_MEMORY,
  SITE_META,
  SITE_CLASSIC,
  SITE_THREE,
  SITE_TWEMPROXY,
  SITE_REDIS,
  SITE_REDIS_TWEMPROXY,
  SITE_KINDS
} site_kind;

enum { SITE_SERVERS_MOST = 3 };

typedef struct site {
  site_kind kind;
  const char *name;
  struct server *servers[SITE_SERVERS_MOST]; /* the first one fails */
  size_t count;
  proxy *way;                /* to that one, in a process of its own; NULL where it evicts */
  struct server *way_server; /* the way, as if it were that server: for URLs, and for a proxy */
  struct server *proxy, *proxy_by_way; /* NULL for none */
} site;

const char *site_name(site_kind kind);

/* Starts its servers. Those that evict have 1 MB, or 4 MB as far as Redis needs more to live. */
void site_start(site *made, site_kind kind, bool evicts);

/* The URL of the store; `by_way` leads through the way. */
void site_url(const site *of, bool by_way, int deadline_ms, char url[SERVER_URL_BYTES]);

#endif
