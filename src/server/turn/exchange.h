/* Has the requests of turns decided by the library: what is known at once, and the rest by a store, as many
 * requests together as it takes. A thread that asks a store waits for it: a loop, or one beside it. */
#ifndef WEIR_TURN_EXCHANGE_H
#define WEIR_TURN_EXCHANGE_H

#include "turn/turn.h"

/* Memory for what is asked at once: of one thread. */
typedef struct weir_exchange {
  size_t count;
  bool failed; /* some request had no answer of the store */
  weir_request requests[WEIR_BATCH_MOST];
  weir_limiter *limiters[WEIR_BATCH_MOST];
  bool has_extras; /* some requests say something of themselves */
  const weir_extra *extras[WEIR_BATCH_MOST];
  weir_asked *asked[WEIR_BATCH_MOST];
  weir_turn *turns[WEIR_BATCH_MOST]; /* whose */
  weir_asked_place *places[WEIR_BATCH_MOST];
  weir_reservation *reservations[WEIR_BATCH_MOST];
  weir_status statuses[WEIR_BATCH_MOST];
} weir_exchange;

/* The store that these answers, from `first` on, wait for; NULL: they have all that they need. */
const weir_store *weir_exchange_waits_for(const weir_turn *turn, uint32_t first);

/* Whether this store is one. */
typedef bool weir_exchange_filter(void *context, const weir_store *store);

/* Decides what needs no store, of those of whose stores the filter is true. How many requests are
 * left of these. */
size_t weir_exchange_know(weir_turn *turn, weir_exchange_filter *filter, void *context);

/* Has all decided that these turns ask of the store: places are released and acquired first, then the
 * rest is asked, and then what has to go back goes. Waits for the store. False: it had no answer to some
 * of it. */
bool weir_exchange_ask(weir_exchange *exchange, weir_turn *const *turns, size_t count,
                       const weir_store *store);

#endif
