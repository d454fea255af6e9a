/* Stores: open places where counts live, named by URL. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_store weir_store;

/* Opens the store that `url` names:
 *
 *   memory:[?option=value&...]                              inside this process
 *   memcached://[user:password@]host[:port[:weight]][,...][?option=...]
 *                                                           port 11211, weight 1; [::1] for IPv6
 *   memcached+unix://[user:password@]/path[?option=...]
 *   redis://[[user]:password@]host[:port][/db][?option=...]      port 6379, db 0
 *   redis+unix://[[user]:password@]/path[?option=...]            db=N is an option here
 *   redis://[[user]:password@]host[:port],host[:port][,...]      nodes of a Redis Cluster
 *   redis+sentinel://[[user]:password@]host[:port][,...]/NAME[?option=...]
 *                                                           sentinels, port 26379, and what they
 *                                                           call the primary; db=N is an option
 *   memcacheds://..., rediss://... and rediss+sentinel://...     the same over TLS
 *
 * Options of every store:
 *   namespace=TEXT   1 to 32 of A-Z a-z 0-9 _ . -, put before every key
 *   timeout=20ms     1ms to 60s; the deadline of a decision unless the limiter sets its own, and
 *                    how long past it an unanswered request may stay on a shared connection
 *
 * Options of every store with servers:
 *   connect-timeout=1s  1ms to 60s; how long one attempt to connect may take, greeting included. It
 *                       outlives the decision that began it: the next one goes on with it. Where
 *                       timeout= is longer, that is the default
 *   addresses=first     which addresses of a name are used: the first that accepts, in an order
 *                       that is the same for every process; any: for a tier of proxies in front of
 *                       one set of servers
 *
 * Options of memcacheds://, rediss:// and rediss+sentinel://, all of them optional:
 *   tls-ca=FILE                  authorities to trust, in PEM form; else those of the system
 *   tls-cert=FILE, tls-key=FILE  a certificate to show, and its key
 *   tls-name=HOST                what the server's certificate must name in place of the host
 *   tls-verify=full              none: anybody may be the server, and read and change all that is
 *                                said
 *
 * docs/stores.md has the options of each store.
 *
 * Names are looked up here, which may take five seconds where the resolver does not answer, and
 * again while the store is used; connections are made by the first decision that needs them. So a
 * program starts while its store or its resolver is away, or the name is not there yet. Files are
 * read here, and not again.
 * Errors: WEIR_BAD_URL (the message names the part and what is accepted), WEIR_NO_MEMORY; with
 * discovery=on WEIR_UNAVAILABLE: the endpoint did not answer. On error *store is NULL.
 *
 * A store does not cross fork(), as parent and child would read each other's replies: a child opens
 * stores of its own. Those of its parent, and the limiters on them, answer WEIR_BAD_ARGUMENT to
 * every call at once, whatever the parent's threads were at; closing them is fine.
 *
 * One store serves any number of limiters and threads, and must be closed after all of them. */
WEIR_EXPORT weir_status weir_store_open(const char *url, weir_store **store, weir_message *message);

/* Connects ahead, so that the first decision need not: tries until every server is ready for the
 * next one (connected, TLS and password and all), or the time is over. Changes no count. A store
 * without connections (memory:) is ready at once; of one with a backend of the caller's own that
 * does not connect ahead, one key is read that has no other use.
 *
 * timeout_us: 1 ms to 60 s. WEIR_UNAVAILABLE: not all are ready; the message names the first that
 * is not, and says why. The store goes on as ever, and connects when it can. WEIR_BAD_ARGUMENT.
 * Blocks no other call. Any thread. */
WEIR_EXPORT weir_status weir_store_connect(weir_store *store, int64_t timeout_us,
                                           weir_message *message);

/* Reads the files anew that the URL names for TLS, as when certificates were renewed in place.
 * Connections from then on use them; those that stand go on as they are. WEIR_OK also where there is
 * none. WEIR_BAD_URL: one cannot be used, and the message says which; WEIR_NO_MEMORY. All stays as
 * it was then. WEIR_BAD_ARGUMENT. Any thread. */
WEIR_EXPORT weir_status weir_store_renew_files(weir_store *store, weir_message *message);

/* Reads them, and keeps what they say for the next weir_store_renew_files() of this store, which then
 * reads none and cannot fail: so several stores are renewed, or none. What is prepared again takes the
 * place of what was before; after an error that is first to do. Answers as weir_store_renew_files(), and
 * WEIR_OK where a backend of the caller's own cannot tell. Any thread. */
WEIR_EXPORT weir_status weir_store_prepare_files(weir_store *store, weir_message *message);

/* When the certificate ends that the store shows its servers (tls-cert), in seconds since 1970. 0: it
 * shows none, or does not tell. Any thread. */
WEIR_EXPORT int64_t weir_store_certificate_end_s(const weir_store *store);

/* How long a store lets things take, as its URL says. Begin with WEIR_STORE_TIMES_INIT; members are
 * only ever appended. */
typedef struct weir_store_times {
  size_t size;
  int64_t timeout_us;         /* timeout=: the deadline of a decision */
  int64_t connect_timeout_us; /* connect-timeout=: a patience for weir_store_connect() */
} weir_store_times;

#define WEIR_STORE_TIMES_INIT WEIR_SIZED(weir_store_times)

/* Reads them. A store whose URL has no connect-timeout= is answered for by its default.
 *
 * WEIR_BAD_ARGUMENT: `size` is too small for `size`; *times is untouched. Writes what fits into
 * times->size, and 0 where that is more than this version knows. Any thread. */
WEIR_EXPORT weir_status weir_store_read_times(const weir_store *store, weir_store_times *times);

/* Closes the store and every connection. NULL is fine. */
WEIR_EXPORT void weir_store_close(weir_store *store);

/* Each server has a breaker: docs/failure.md has its picture. */
typedef enum weir_breaker_state {
  WEIR_BREAKER_CLOSED,   /* the server answers, or was not asked yet */
  WEIR_BREAKER_OPEN,     /* it is away: calls end at once */
  WEIR_BREAKER_HALF_OPEN /* one call is finding out whether it is back */
} weir_breaker_state;

/* This process's knowledge of one server. Begin with WEIR_SERVER_STATE_INIT; members are only ever
 * appended. */
typedef struct weir_server_state {
  size_t size;
  const char *name; /* "host:port", or the path of a socket; NULL: it has none, or the backend does
                       not tell. Lives as long as the store */
  weir_breaker_state breaker;
  uint64_t outages;        /* how often the breaker opened */
  int64_t next_try_us;     /* while it is open: how long until somebody may try; else 0 */
  weir_message last_error; /* why the server counted as away the last time, or its name is not found
                              yet; empty: neither */
  bool answered; /* it has greeted this process at least once. True as well of a store inside this
                    process, of a node of a cluster that has no slots, and of a backend that does
                    not tell */
  uint64_t refusals;         /* how often it answered that it did not execute something */
  weir_message last_refusal; /* what it said the last time; empty: it never did. Shows no key */
  uint64_t addresses; /* of one family that its name has now, of which one is used: above 1 another
                         process may use another, and count apart. 0: the name is not found yet, or
                         the backend does not tell; 1 as well with addresses=any */
  uint64_t address;   /* which of its name's addresses is in use: 0 the first, as always unless that
                         refused a connection */
  uint64_t clock_ahead_us; /* how far its clock is ahead of this machine's, where that matters: to a
                              memcached that keeps counters for more than 30 days; else 0 */
} weir_server_state;

#define WEIR_SERVER_STATE_INIT WEIR_SIZED(weir_server_state)

/* Reads what is known of the server with this index: 0 to one less than the store has, in the order
 * of the URL's hosts. Asks no server and never waits. Where a backend does not tell, every server
 * counts as closed.
 *
 * WEIR_BAD_ARGUMENT: there is no such server, `size` is too small for `size`, or the store was
 * opened in another process; *state is untouched. Writes what fits into state->size, and 0 where
 * that is more than this version knows. Any thread. */
WEIR_EXPORT weir_status weir_store_read_server(const weir_store *store, size_t index,
                                               weir_server_state *state);

#ifdef __cplusplus
}
#endif

#endif
