/* What a memcached says of itself. Files: inspect.c asks and reports, statistics.c reads. */
#ifndef WEIR_MEMCACHED_INSPECT_H
#define WEIR_MEMCACHED_INSPECT_H

#include "memcached/codec.h"
#include "wire/exchange.h"

/* Asks the server that `wire` leads to, and reports. */
void weir_memcached_inspect(weir_wire *wire, const weir_memcached_login *login,
                            const weir_inspection *inspection);

enum { WEIR_MEMCACHED_WORD_BYTES = 32 };

/* From "stats" and "stats settings"; -1, or an empty word: not told. */
typedef struct weir_memcached_statistics {
  char version[WEIR_MEMCACHED_WORD_BYTES];
  int64_t uptime_s, time_s, items, bytes, limit_bytes, evictions;
  int evicts;   /* "evictions on" */
  int has_auth; /* "auth_enabled_ascii": a file, or "no" */
} weir_memcached_statistics;

void weir_memcached_statistics_init(weir_memcached_statistics *statistics);

/* One line "STAT name value". */
void weir_memcached_statistics_read(weir_memcached_statistics *statistics, const weir_line *line);

#endif
