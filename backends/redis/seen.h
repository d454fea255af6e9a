/* Keys of which something is remembered: a table of fixed size; any number of threads. A store has
 * two, of keys that were lately seen with a TTL, which spares most additions the question whether
 * they have one, and of keys with which something went wrong, which are read with care. */
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

/* Whether the key is known here; counts nothing. Costs next to nothing while no key is. */
bool weir_redis_seen_knows(weir_redis_seen *seen, const weir_operation *operation);

/* The key is known from now on, for 64 uses or until it is forgotten. */
void weir_redis_seen_note(weir_redis_seen *seen, const weir_operation *operation);

/* The next use must ask. Costs next to nothing while no key is known. */
void weir_redis_seen_forget(weir_redis_seen *seen, const weir_operation *operation);

#endif
