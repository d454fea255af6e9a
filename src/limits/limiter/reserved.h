/* Reservations, and which of them are open (reserved.c). */
#ifndef WEIR_LIMITER_RESERVED_H
#define WEIR_LIMITER_RESERVED_H

#include "limiter/end.h"
#include "limiter/limiter.h"
#include "limiter/place.h"

typedef enum weir_reservation_state {
  WEIR_RESERVED,
  WEIR_COMMITTED,
  WEIR_CANCELLED,
  WEIR_RESERVATION_SETTLED
} weir_reservation_state;

struct weir_reservation {
  weir_limiter *limiter;
  weir_charged charged;
  weir_status store_status; /* of its decision */
  weir_reservation_state state;
  unsigned spares;            /* weir_spared_by() of its decision */
  unsigned class;             /* of its request */
  const weir_decision *taken; /* of its request; NULL: it is not in the table of open ones */
  weir_reservation *next;     /* there, in the same bucket */
  int64_t limit;              /* of its request: 0: that of the key, or of the rule */
  int64_t charged_limit;      /* that it was charged under, where keys have limits; else 0 */
  int64_t at_us;
  int64_t costs[WEIR_RULES_MOST]; /* that are charged, under each rule */
  int64_t ends[WEIR_RULES_MOST];  /* of the slots that buckets gave */
  weir_held_place *place;         /* what it holds; NULL: nothing, or no more */
  bool was_lost;                  /* its place, before it was left */
  size_t key_length;
  unsigned char key[];
};

/* It was made by a request that holds this decision. One that was made in the same place before is
 * not open any more: its request is gone. */
void weir_reserved_open(weir_reservation *reservation, const weir_decision *taken);
void weir_reserved_close(weir_reservation *reservation);

/* So much went back by this decision of an open reservation, if it is one; it was settled by that. */
void weir_reserved_take_off(weir_limiter *limiter, const weir_decision *taken, const void *key,
                            size_t key_length, int64_t cost);
void weir_reserved_end(weir_limiter *limiter, const weir_decision *taken, const void *key,
                       size_t key_length);

#endif
