/* The places that the server holds for its clients under rules that are held.
 *
 *     make ──> enter ──┬──> take: a client releases it               ──> released in its turn
 *       │              └──> its connection ends, its time is over,   ──> released by the thread
 *       └──> drop: denied   an operator puts it out
 *
 * A place is a reservation of the library, which pays for it until it is released; the table of all says
 * whose it is. One lock guards them, which is never held while a store is asked; what is taken out of the
 * table is the caller's alone. */
#ifndef WEIR_KEEP_KEEPER_H
#define WEIR_KEEP_KEEPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "keep/places.h"
#include "protocol/bytes.h"

/* Why places have ended, and what metrics call it. */
typedef enum weir_kept_end {
  WEIR_KEPT_RELEASED,     /* by a client */
  WEIR_KEPT_DISCONNECTED, /* its connection has ended */
  WEIR_KEPT_OVER,         /* its time was over */
  WEIR_KEPT_PUT_OUT,      /* by an operator */
  WEIR_KEPT_ENDS
} weir_kept_end;
extern const char *const weir_kept_end_names[WEIR_KEPT_ENDS];

typedef struct weir_keeper {
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t wake;
  pthread_t thread;
  bool is_made, is_running, must_end;
  int64_t sleeps_until_us;
  weir_kept_table table;
  weir_kept *leaving; /* to be released by the thread */
  uint64_t ended[WEIR_KEPT_ENDS], refused;
} weir_keeper;

/* False: no memory, or no thread. */
bool weir_keeper_start(weir_keeper *keeper);
/* No loop runs any more. Places that are held stay paid for until their time is over. */
void weir_keeper_end(weir_keeper *keeper);

/* --- for requests -------------------------------------------------------------------------------
 */

/* Memory for a place, before it is asked for. NULL: *status and *why say why not. */
weir_kept *weir_keeper_make(weir_keeper *keeper, const weir_kept_wish *wish, weir_status *status,
                            weir_message *why);

/* How a place stands. */
typedef struct weir_kept_state {
  bool is_held;
  uint64_t token;
  int64_t held_until_us; /* by the clock of the day */
} weir_kept_state;

/* It is held from now on, or is not: then it is gone. */
void weir_keeper_enter(weir_keeper *keeper, weir_kept *kept, weir_reservation *reservation,
                       weir_kept_state *state);
void weir_keeper_drop(weir_keeper *keeper, weir_kept *kept);

/* Writes the key of a place that is held, without its limiter's name, behind what `out` holds; of any other
 * nothing. */
void weir_keeper_write_key(weir_keeper *keeper, const weir_place_name *name, weir_bytes *out);

/* The state of a place that is held under this key; one that is held no more is a place that is not
 * held. False: it is none of this server, limiter or key. */
bool weir_keeper_look(weir_keeper *keeper, const weir_place_name *name,
                      const weir_hash_text *counted, weir_kept_state *state, weir_message *why);

/* Takes it out of the table: the caller releases its reservation and drops it, or leaves that to the
 * thread. NULL: *why says why there is none. */
weir_kept *weir_keeper_take(weir_keeper *keeper, const weir_place_name *name,
                            const weir_hash_text *counted, weir_kept_end end,
                            weir_kept_state *state, weir_message *why);
void weir_keeper_release_soon(weir_keeper *keeper, weir_kept *kept);

/* Takes out places of this key that cost no more than *cost together, the oldest of those first that fit;
 * how many, WEIR_KEPT_SOME at most. They are the caller's as above, and *cost is what they leave of it. */
enum { WEIR_KEPT_SOME = 64 };
size_t weir_keeper_take_some(weir_keeper *keeper, const weir_limiter *limiter,
                             const weir_hash_text *counted, int64_t *cost,
                             weir_kept *some[WEIR_KEPT_SOME]);

/* The connection ends: what it holds is released soon, or (`stays`) is no connection's any more. */
void weir_keeper_leave(weir_keeper *keeper, weir_holder *holder, bool stays);
bool weir_keeper_holds(weir_keeper *keeper, const weir_holder *holder);

/* --- for operators ------------------------------------------------------------------------------
 */

typedef struct weir_kept_figures {
  size_t held;
  uint64_t ended[WEIR_KEPT_ENDS], refused;
} weir_kept_figures;

void weir_keeper_read(weir_keeper *keeper, weir_kept_figures *figures);

/* A key with places. */
typedef struct weir_kept_busy {
  size_t count;
  int64_t cost; /* of all of them */
  char *counted;
  size_t length, prefix_length;
} weir_kept_busy;

enum { WEIR_KEPT_BUSIEST_MOST = 64 };

/* Those with most places first; how many they are. Free each `counted`. */
size_t weir_keeper_find_busiest(weir_keeper *keeper, weir_kept_busy *busiest, size_t most);

/* A place of one key. */
typedef struct weir_kept_holder {
  weir_place_name name;
  weir_kept_state state;
  char client[WEIR_KEPT_CLIENT_BYTES];
  int64_t cost, since_us, until_us; /* weir_monotonic_us() */
} weir_kept_holder;

/* Up to `most` of them; how many there are in all. */
size_t weir_keeper_find_holders(weir_keeper *keeper, const weir_hash_text *counted,
                                weir_kept_holder *holders, size_t most);

#endif
