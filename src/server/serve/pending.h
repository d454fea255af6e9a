/* The answers of one client that wait for a store, while its loop goes on: a turn of their own, which they
 * have been copied into. Its client is read no further until they are sent, so that their order is kept. */
#ifndef WEIR_SERVE_PENDING_H
#define WEIR_SERVE_PENDING_H

#include "turn/turn.h"

typedef struct weir_pending {
  struct weir_pending *next; /* of those of its line */
  void *client;              /* the loop's */
  struct weir_asker *asker;  /* whose threads have it, or had it last */
  weir_turn turn;            /* its first answer is the first of all */
  size_t left;               /* requests that are not decided yet */
} weir_pending;

/* Takes a turn's answers from `first` on, with the snapshot and the limiters that they need. The
 * turn is to do nothing more with them. NULL: no memory, and nothing has changed. */
weir_pending *weir_pending_create(const weir_turn *turn, uint32_t first, void *client);
void weir_pending_destroy(weir_pending *pending);

/* Too many requests wait: those that are left are answered by their policy. Places are not: they are bounded. */
void weir_pending_shed(weir_pending *pending);

#endif
