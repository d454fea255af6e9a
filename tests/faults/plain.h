/* Other people's programs use a server by these, behind weir's back. */
#ifndef TESTS_FAULTS_PLAIN_H
#define TESTS_FAULTS_PLAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "faults/bound.h"
#include "fixture/servers.h"

enum { PLAIN_KEY_BYTES = 256 };
typedef char plain_key[PLAIN_KEY_BYTES];

bool plain_is_redis(const struct server *server);

/* flush_all, FLUSHALL. */
void plain_flush(const struct server *server);

/* The keys there that weir made, `most` of them or fewer; returns how many. */
size_t plain_list(const struct server *server, plain_key *keys, size_t most);

/* Puts something else under those keys, for good: a text, or a list. */
void plain_spoil(const struct server *server, plain_key *keys, size_t count);
void plain_drop(const struct server *server, plain_key *keys, size_t count);

/* A process that keeps setting keys of its own, so that a server without memory to spare evicts
 * others. `stopped` ends it. */
typedef struct pressure {
  const struct server *server;
  atomic_bool stopped;
} pressure;
pid_t plain_press(pressure *on);

/* A process that notes which counters are evicted, and when. */
enum { EVICTIONS_MOST = 1 << 17 };

typedef struct eviction {
  plain_key key;
  loss when; /* by the server's clock, which is the machine's */
} eviction;

typedef struct eviction_watch {
  const struct server *server;
  atomic_bool ready;
  _Atomic int64_t reported_us; /* all evictions until then are noted */
  atomic_bool missed;          /* the server did not tell all */
  _Atomic size_t count;
  eviction seen[EVICTIONS_MOST];
} eviction_watch;

/* The server needs the arguments that site.c gives to those that evict. */
pid_t plain_watch(eviction_watch *watch);

#endif
