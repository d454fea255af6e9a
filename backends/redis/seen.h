/* Keys that were lately seen with a TTL: what spares most additions the question whether they have
 * one. A table of fixed size for one store; any number of threads. */
#ifndef WEIR_REDIS_SEEN_H
#define WEIR_REDIS_SEEN_H

#include <weir/backend.h>

/* Of this many uses of a key in a row, at least one asks. */
enum { WEIR_SEEN_USES = 64 };

typedef struct weir_redis_seen weir_redis_seen;

/* NULL: no memory. */
weir_redis_seen *weir_redis_seen_create(void);
void weir_redis_seen_destroy(weir_redis_seen *seen);

/* Counts a use of the operation's key. False: the user must ask for the key's TTL, because the key
 * is not known here, or because it is its turn. */
bool weir_redis_seen_use(weir_redis_seen *seen, const weir_operation *operation);

/* The key was seen with a TTL. */
void weir_redis_seen_note(weir_redis_seen *seen, const weir_operation *operation);

/* The next use must ask. */
void weir_redis_seen_forget(weir_redis_seen *seen, const weir_operation *operation);

#endif
