/* A limiter with a policy on a real server that can be taken away. */
#ifndef TESTS_LIMITER_OUTAGE_H
#define TESTS_LIMITER_OUTAGE_H

#include <weir/weir.h>

#include "fixture/clock.h"
#include "fixture/servers.h"

enum { OUTAGE_PEERS = 4, OUTAGE_SERVERS = 3 };

typedef struct outage {
  const char *name; /* of the kind of server */
  struct server *servers[OUTAGE_SERVERS];
  size_t count;
  char url[SERVER_URL_BYTES];
  hand_clock clock;
  weir_store *store;
  weir_limiter *limiter;
} outage;

/* Each test has servers of its own: one that was stopped or killed is of no use to the next. */
enum outage_kind { OUTAGE_META, OUTAGE_CLASSIC, OUTAGE_REDIS, OUTAGE_KINDS };
void outage_start(outage *o, enum outage_kind kind, size_t servers);

/* With the clock at a moment where windows of all widths begin; `deadline_us` of 0: long enough for
 * any machine. OUTAGE_PEERS share the rules. */
void outage_open(outage *o, const char *rules, weir_fallback fallback, int64_t deadline_us);

/* The same with the real clock. */
void outage_open_real(outage *o, const char *rules, weir_fallback fallback, int64_t deadline_us);
void outage_close(outage *o);

/* Kills a server, and lets the store find out: what is under way when a connection is lost is late,
 * and only the next connection shows that nobody is there. */
void outage_kill(outage *o, size_t server);

/* Any status but WEIR_OK fails the test. */
weir_decision outage_take(outage *o, const char *key, int64_t cost);

/* The server forgets everything: flush_all, FLUSHALL. */
void outage_flush(outage *o);

weir_limiter_counts outage_counts(const weir_limiter *limiter);

#endif
