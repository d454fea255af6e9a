/* The end of a charge: it is paid as it really was, or goes back (end.c); that of a reservation ends with what is
 * held (reserve.c). */
#ifndef WEIR_LIMITER_END_H
#define WEIR_LIMITER_END_H

#include "limiter/call.h"

/* Where a decision was charged. */
typedef enum weir_charged {
  WEIR_CHARGED_STORE,
  WEIR_CHARGED_ACCOUNT,
  WEIR_CHARGED_NOWHERE
} weir_charged;

weir_charged weir_charged_where(const weir_limiter *limiter, const weir_decision *taken);

/* The rules that did not charge a decision, as its key was unlimited there: one bit each. */
unsigned weir_spared_by(const weir_limiter *limiter, const weir_decision *taken);

/* What is charged is to be changed. Zero what is not given. */
typedef struct weir_settlement {
  weir_charged charged;             /* in */
  weir_status store_status;         /* in: of the decision that charged it */
  unsigned spares;                  /* in: weir_spared_by(); these count as settled */
  bool gives_back;                  /* in: a refund, as no cost is above 0 */
  int64_t costs[WEIR_RULES_MOST];   /* in: by so much under each rule; below 0: less */
  int64_t settled[WEIR_RULES_MOST]; /* out: of these, what was charged, or went back */
  int64_t asked[WEIR_RULES_MOST];   /* of these, what the store is asked for, ... */
  weir_waiting *request;            /* ... by this; NULL: it is not */
  struct weir_settlement *carrier;  /* that asks for this one as well; NULL: none does */
  bool broken;                      /* out: its part was asked for again, alone */
  bool owed;                        /* out: what is more is the account's, the store had nothing */
  bool carries;                     /* it asks for others ... */
  int64_t left[WEIR_RULES_MOST];    /* ... and so much of what was charged is theirs */
} weir_settlement;

/* Whether the store has to be asked, by this request, which has the charge's key, at_us and ends.
 * Otherwise the request has its status already. */
bool weir_settlement_begin(weir_limiter *limiter, weir_settlement *settlement,
                           weir_waiting *request);

/* Has the settlement of the same key that stands before it among its call's requests ask for this one as well, if
 * that is near by and not asked yet. False: each is asked by itself, as one goes up and one down, or to different
 * places. */
bool weir_settlement_ride(weir_call *call, const weir_waiting *request,
                          weir_settlement *settlement);

/* What became of it, behind the store's answer. Returns its status; the message gets what the store
 * cannot say. */
weir_status weir_settlement_end(weir_limiter *limiter, weir_settlement *settlement,
                                weir_waiting *request, weir_message *message);

/* Both, and the store's answer between them. */
weir_status weir_settlement_make(weir_limiter *limiter, weir_settlement *settlement,
                                 weir_waiting *request, weir_message *message);

/* Whether one that ended so, or a refund, has done nothing, and may be made later. */
static inline bool weir_settlement_may_come_again(weir_status status) {
  return status != WEIR_OK && status != WEIR_UNKNOWN_OUTCOME && status != WEIR_BAD_COST &&
         status != WEIR_BROKEN_BACKEND;
}

/* Whether one that may come again was given to a machine, by which this process counts it as gone. Else it
 * waited in vain for others. */
static inline bool weir_settlement_was_tried(weir_status status) {
  return status != WEIR_OK && status != WEIR_TIMEOUT && status != WEIR_NO_MEMORY;
}

void weir_settlement_count(weir_limiter *limiter, const weir_settlement *settlement);

/* Whether this is a cost, and this a rule, that can be settled, and this a refund that can be made: of
 * a key that is not checked. */
weir_status weir_settlement_check_real(int64_t real, size_t index, weir_message *message);
weir_status weir_settlement_check_rule(const weir_rule *rule, size_t index, weir_message *message);
weir_status weir_refund_check(const weir_limiter *limiter, int64_t cost, const weir_decision *taken,
                              weir_message *message);

/* A request with WEIR_REQUEST_SETTLE, alone. */
weir_status weir_settle_request(weir_limiter *limiter, weir_request *request,
                                const weir_extra *extra, weir_message *message);

#endif
