#include "limiter/stores.h"

#include <stdio.h>
#include <string.h>

#include "fixture/servers.h"

const store_kind stores[STORES] = {
    {"memory", true}, {"memcached, meta", true}, {"memcached, classic", true}, {"redis", false}};

static char urls[STORES][SERVER_URL_BYTES] = {"memory:"};

void stores_start(void) {
  if (urls[1][0] != '\0') return;
  struct server *memcached = server_start_memcached(SERVER_IPV4, NULL);
  struct server *redis = server_start_redis(SERVER_IPV4, NULL);
  /* A server that answers is not given up, however busy the machine. */
  server_url(&memcached, 1, "timeout=30s&protocol=meta", urls[1]);
  server_url(&memcached, 1, "timeout=30s&protocol=classic", urls[2]);
  server_url(&redis, 1, "timeout=30s", urls[3]);
}

const char *stores_url(int store, char url[STORE_URL_BYTES]) {
  static int namespaces;
  snprintf(url, STORE_URL_BYTES, "%s%cnamespace=n%d", urls[store],
           strchr(urls[store], '?') != NULL ? '&' : '?', ++namespaces);
  return url;
}
