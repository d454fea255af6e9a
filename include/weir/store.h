/* Stores: open places where counts live, named by URL. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include <weir/export.h>
#include <weir/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_store weir_store;

/* Opens the store that `url` names:
 *
 *   memory:[?option=value&...]                              inside this process
 *   memcached://host[:port[:weight]][,...][?option=...]     port 11211, weight 1; [::1] for IPv6
 *   memcached+unix:///path[?option=...]
 *   redis://[[user]:password@]host[:port][/db][?option=...]      port 6379, db 0
 *   redis+unix://[[user]:password@]/path[?option=...]            db=N is an option here
 *
 * Options of every store:
 *   namespace=TEXT   1 to 32 of A-Z a-z 0-9 _ . -, put before every key
 *   timeout=20ms     1ms to 60s; the deadline of a decision unless the limiter sets its own, and
 *                    how long past it an unanswered request may stay on a shared connection
 *
 * docs/stores.md has the options of each store.
 *
 * Names are looked up here; connections are made by the first decision that needs them, so that a
 * program starts while its store is away. Errors: WEIR_BAD_URL (the message names the part and what
 * is accepted; an unknown host is one of them), WEIR_NO_MEMORY. On error *store is NULL.
 *
 * A store does not cross fork(): a process that forks opens its stores afterwards, in the child, as
 * parent and child would read each other's replies.
 *
 * One store serves any number of limiters and threads, and must be closed after all of them. */
WEIR_EXPORT weir_status weir_store_open(const char *url, weir_store **store, weir_message *message);

/* Closes the store and every connection. NULL is fine. */
WEIR_EXPORT void weir_store_close(weir_store *store);

#ifdef __cplusplus
}
#endif

#endif
