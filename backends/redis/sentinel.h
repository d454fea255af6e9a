/* Sentinels: who says which of several Redis servers is the primary at present. */
#ifndef WEIR_REDIS_SENTINEL_H
#define WEIR_REDIS_SENTINEL_H

#include "wire/exchange.h"

/* The URL's options of sentinels, which the backend lists as its own. */
#define WEIR_SENTINEL_OPTIONS "sentinel-user", "sentinel-password", "sentinel-tls"

bool weir_redis_url_has_sentinels(const weir_url *url);

/* Of a URL with such a scheme, whose hosts they are; else *resolver is NULL, and their options an
 * error. *name is the primary's, for people; it lives as long as the resolver. */
weir_status weir_redis_sentinels_open(const weir_url *url, weir_resolver **resolver,
                                      const char **name, weir_message *message);

/* Asks every one of them, and reports. */
void weir_redis_sentinels_inspect(weir_resolver *resolver, const weir_inspection *inspection);

#endif
