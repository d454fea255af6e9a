/* What a memo alone says, which it does not change: no store is asked, and no machine is needed. */
#ifndef WEIR_ALGORITHM_VIEW_H
#define WEIR_ALGORITHM_VIEW_H

#include "algorithm/algorithm.h"

/* What is known of a key at a moment. */
typedef struct weir_view {
  const weir_stack *stack;
  const weir_settings *settings;
  const weir_memo *memo;
  int64_t now_us;
} weir_view;

/* What fits under rule i for a request with these wishes, and what a cost would be told, unless `figures`
 * is NULL. False: too little is known. */
bool weir_view_recall(const weir_view *view, size_t i, const weir_ask *ask, int64_t cost,
                      int64_t *room, weir_decision *figures);

/* When the first of the windows that are open now ends, and the next begins. 0: too little is known, or
 * some rule has no such windows. */
int64_t weir_view_next(const weir_view *view);

/* What was last known of rule i, in parts: all but the count where there is nothing. */
void weir_view_known(const weir_view *view, size_t i, weir_known *known);

/* How far this request may fill the first rule, by its class and the limit that it brings. */
int64_t weir_view_capacity(const weir_stack *stack, const weir_ask *ask);

/* Settles a request as one that rule i never admits, and has nothing of. */
void weir_claim_refuse(const weir_rule *rule, size_t i, int64_t now_us, weir_claim *request);

/* Settles a request that needs no store: a cost that never fits, or one that the memo shows to be
 * denied. An up-to request is cut to what can fit at all. */
bool weir_settle_never(const weir_stack *stack, int64_t now_us, weir_claim *request);
bool weir_settle_locally(const weir_view *view, weir_claim *request);

/* Settles as admitted a request whose cost was charged before, of which `room` is left. False: what
 * is known is not enough for its figures, and it is not answered unless it must be: then they are
 * WEIR_NOT_KNOWN. */
bool weir_settle_leased(const weir_view *view, int64_t room, bool must, weir_claim *request);

/* Settles as denied a request that makes way for others until pause_us from now. False: too little
 * is known to tell it when to come again. */
bool weir_settle_paused(const weir_view *view, int64_t pause_us, weir_claim *request);

#endif
