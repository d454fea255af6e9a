#include "faults/site.h"

#include <stdio.h>
#include <unistd.h>

#include "faults/ground.h"
#include "fixture/server.h"

static const char *const names[SITE_KINDS] = {
    "memory",    "memcached, meta", "memcached, classic",    "three memcached, one fails",
    "twemproxy", "redis",           "redis behind twemproxy"};

const char *site_name(site_kind kind) {
  return names[kind];
}

static bool is_redis(site_kind kind) {
  return kind == SITE_REDIS || kind == SITE_REDIS_TWEMPROXY;
}

static bool is_behind_proxy(site_kind kind) {
  return kind == SITE_TWEMPROXY || kind == SITE_REDIS_TWEMPROXY;
}

/* Chunks of one size, so that a key of any owner can take another's place, and no protection for
 * what is used a lot: that is evicted as well. */
static const char *const evicting_memcached[] = {
    "-m", "1",   "-I", "512k",
    "-n", "200", "-o", "no_lru_maintainer,watcher_logbuf_size=16384,worker_logbuf_size=16384",
    NULL};
static const char *const evicting_redis[] = {"--maxmemory",
                                             "4mb",
                                             "--maxmemory-policy",
                                             "allkeys-lru",
                                             "--maxmemory-samples",
                                             "1",
                                             "--notify-keyspace-events",
                                             "Ee",
                                             NULL};

static void run_way(void *context) {
  proxy_run(context);
}

static void start_way(site *made) {
  const struct server *behind = made->servers[0];
  made->way = share_memory(sizeof *made->way);
  made->way_server = fixture_make(SERVER_IPV4, behind->scheme, behind->probe);
  proxy_listen(made->way, behind, &made->way_server->address, PROXY_OPEN);
  start_process(run_way, made->way);
  close(made->way->listener);
}

void site_start(site *made, site_kind kind, bool evicts) {
  *made = (site){.kind = kind, .name = names[kind]};
  if (kind == SITE_MEMORY) return;
  made->count = kind == SITE_THREE ? SITE_SERVERS_MOST : 1;
  for (size_t i = 0; i < made->count; i++)
    made->servers[i] =
        is_redis(kind) ? server_start_redis(SERVER_IPV4, evicts ? evicting_redis : NULL)
                       : server_start_memcached(SERVER_IPV4, evicts ? evicting_memcached : NULL);
  if (!evicts) start_way(made);
  if (!is_behind_proxy(kind)) return;
  made->proxy = server_start_nutcracker(made->servers, 1);
  if (evicts) return;
  made->proxy_by_way = server_start_nutcracker(&made->way_server, 1);
}

static const char *query_of(site_kind kind) {
  if (kind == SITE_META || kind == SITE_THREE) return "protocol=meta&";
  return kind == SITE_CLASSIC ? "protocol=classic&" : "";
}

void site_url(const site *of, bool by_way, int deadline_ms, char url[SERVER_URL_BYTES]) {
  struct server *servers[SITE_SERVERS_MOST];
  char query[64];
  if (of->kind == SITE_MEMORY) {
    snprintf(url, SERVER_URL_BYTES, "memory:?timeout=%dms", deadline_ms);
    return;
  }
  for (size_t i = 0; i < of->count; i++)
    servers[i] = of->servers[i];
  if (by_way) servers[0] = of->way_server;
  if (of->proxy != NULL) servers[0] = by_way ? of->proxy_by_way : of->proxy;
  snprintf(query, sizeof query, "%stimeout=%dms", query_of(of->kind), deadline_ms);
  server_url(servers, of->count, query, url);
}
