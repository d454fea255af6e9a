/* A request while it is decided, in three parts: what is asked, which its maker writes; what comes of it,
 * which the machine writes, or whatever answers in its stead; and both as the link of a group, which is
 * all that a machine sees. What a driver knows of it besides is limiter/call.h. */
#ifndef WEIR_ALGORITHM_ASK_H
#define WEIR_ALGORITHM_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/limiter.h>

#include "rule/rule.h"

typedef enum weir_request_kind {
  WEIR_TAKE,
  WEIR_PEEK,
  WEIR_REFILL, /* its driver's alone: has its group charge ahead, and no machine sees it */
  WEIR_RESET,  /* this and those below are always alone in their groups */
  WEIR_REFUND,
  WEIR_SETTLE,       /* what it really cost, see `costs` and `settlement` */
  WEIR_BEGIN,        /* stores what `known` says, so that it goes on from there */
  WEIR_BEGIN_AFRESH, /* the same in the place of what is stored, if anything */
  WEIR_RENEW         /* pays `costs` of what is held for one period more */
} weir_request_kind;

/* Why it is asked in another way than a caller's. */
typedef enum weir_terms {
  WEIR_PLAIN,
  WEIR_MEMBER, /* others elsewhere are admitted with it or none: its own denial is looked at once more
                  and not charged again; weir_machine_give_up() */
  WEIR_MEMBER_SEEN, /* the same of one that was looked at just now: it needs no look before its charge */
  WEIR_AHEAD,       /* charged for requests that may come: its denial denies no other */
  WEIR_AHEAD_NEXT, /* the same for a window that has not begun, and follows the one that is open */
  WEIR_DEBT,       /* first of a group, for what was admitted before: `payment` says what */
  WEIR_AGAIN       /* a refund that was not sent before: what is known was changed by that try */
} weir_terms;

/* What is charged to each rule for what was admitted before, and for no request. It is never denied:
 * what there is no room for is cut off, and so is all of a rule whose time is over. */
typedef struct weir_payment {
  int64_t costs[WEIR_RULES_MOST];
  int64_t until_us[WEIR_RULES_MOST];
} weir_payment;

/* What is asked. Its maker writes it, until a machine has it. */
typedef struct weir_ask {
  weir_request_kind kind;
  weir_terms terms;
  bool alone;     /* must not share its group */
  bool up_to;     /* a smaller cost is welcome: `charge` becomes what was admitted */
  bool waits;     /* a delay up to wait_us is accepted; else what the rule itself gives */
  uint8_t spares; /* rules that have no say, as its key is unlimited there: one bit each */
  unsigned class; /* which of the stack's classes: 1 is the first; 0: none */
  const void *key;
  size_t key_length;
  int64_t cost; /* for every rule, 1 to what its class may have of each */
  /* Or one per rule, 0 to its capacity, some above 0. SETTLE: what it really cost without what is
   * charged, -WEIR_VALUE_MOST to WEIR_VALUE_MOST, not all 0: above 0 charged as well, as much as fits
   * under the rule's limit and debt (with count=all: all of it); below 0 goes back. */
  const int64_t *costs;
  int64_t most;    /* with up_to: its account has room for no more; 0: as much as fits */
  int64_t wait_us; /* 0 or more */

  /* What it says of itself, as its class does: its caller's weir_extra as it was checked. */
  int64_t limit;         /* in the place of LIMIT; 0: none */
  int64_t tenant_number; /* weir_key_tenant() of its tenant; 0: it names none */
  int64_t weight; /* what the rule says of that; 0: nothing. All of a group have one tenant */

  union {
    int64_t at_us; /* for REFUND and SETTLE: the stamp of the charge */
    /* Of a DEBT: these are its `costs`, and are cut to what was paid. */
    struct weir_payment *payment;
    const struct weir_known *known; /* for BEGIN: of each rule */
  };

  /* Where more is told, WEIR_RULES_MOST of each; or NULL.
   *
   * ends: TAKE writes where each bucket's slot ends, REFUND and SETTLE read it: with ends, a slot that
   *   had a delay goes back only if it still is the last. Of a rule whose places are held TAKE writes the
   *   end of the last period that is paid. REFUND reads that, and RENEW too, and makes it one period
   *   later where it is certain in time that this was paid.
   * places: its driver writes weir_machine_places().
   * settlement: of SETTLE, how much of each of `costs` was charged (above 0) or went back (below 0), as
   *   far as that is certain. With it or without, WEIR_OK says `allowed`, and the figures of an admitted
   *   request behind it. WEIR_BAD_COST: less was charged than should go back, and nothing was done.
   *   WEIR_UNKNOWN_OUTCOME: not to be sent again; others: nothing was done. */
  int64_t *ends, *places, *settlement;
} weir_ask;

/* Whether it is charged where it fits: a peek is not. */
static inline bool weir_ask_charges(const weir_ask *ask) {
  return ask->kind == WEIR_TAKE;
}

/* Whether it has one cost under all rules, and accepts no delay. */
static inline bool weir_ask_is_simple(const weir_ask *ask) {
  return ask->costs == NULL && !ask->waits && ask->spares == 0;
}

/* A denial that can be repeated speaks for every request that asks no less. */
static inline bool weir_is_repeatable(const weir_ask *ask) {
  return weir_ask_charges(ask) && weir_ask_is_simple(ask) && !ask->up_to;
}

/* What comes of it. The machine writes it, or whatever answers in its stead. */
typedef struct weir_verdict {
  bool answered;
  bool away;          /* with a status other than WEIR_OK: the store is away */
  bool gone;          /* likewise: it refused, was lost, or is away: not only slow */
  bool has_room;      /* of a member that is denied: all of it fits behind its take-back */
  bool in_account;    /* the account counts it already, and `decision` says how */
  unsigned denying;   /* rules that its own charge was denied by, one bit each */
  weir_status status; /* when answered */
  int64_t limit;      /* where keys have limits of their own: that it was decided under; else 0 */
  int64_t held;       /* of its cost, what a grant covers: the group charges the rest */
  int64_t charge;     /* what its group adds under every rule; weir_claim_offer() begins it */
  weir_decision decision; /* when answered with WEIR_OK */
} weir_verdict;

/* One request of a group; groups are lists, first come, first decided. */
typedef struct weir_claim {
  struct weir_claim *next;
  weir_ask ask;
  weir_verdict verdict;
} weir_claim;

enum { WEIR_NO_SLOT = -1 };

/* Whether it is still to be charged, or denied. */
static inline bool weir_claim_is_open(const weir_claim *claim) {
  return !claim->verdict.answered && weir_ask_charges(&claim->ask);
}

/* Whether it is answered by a decision. */
static inline bool weir_ask_is_decided(const weir_ask *ask) {
  return ask->kind == WEIR_TAKE || ask->kind == WEIR_PEEK;
}

/* Most are takes of one cost that say nothing else of themselves. */
static inline bool weir_ask_is_bare(const weir_ask *ask) {
  unsigned says = (unsigned)ask->kind | (unsigned)ask->terms; /* 0: WEIR_TAKE, WEIR_PLAIN */
  says |= (unsigned)ask->up_to | ask->waits | ask->spares;
  return says == 0 && ask->costs == NULL && ask->ends == NULL;
}

static inline bool weir_ask_is_ahead(const weir_ask *ask) {
  return ask->terms == WEIR_AHEAD || ask->terms == WEIR_AHEAD_NEXT;
}

static inline bool weir_ask_is_member(const weir_ask *ask) {
  return ask->terms == WEIR_MEMBER || ask->terms == WEIR_MEMBER_SEEN;
}

/* How far it may fill a rule. */
static inline weir_threshold weir_ask_threshold(const weir_rule *rule, const weir_ask *ask) {
  return weir_rule_threshold(rule, ask->class);
}

static inline int64_t weir_ask_capacity(const weir_rule *rule, const weir_ask *ask) {
  return weir_rule_capacity_of(rule, ask->class);
}

static inline unsigned weir_ask_rank(const weir_ask *ask) {
  return weir_class_rank(ask->class);
}

/* What a group adds for a request under rule i; 0: the rule does not take part. */
static inline int64_t weir_claim_cost(const weir_claim *claim, size_t i) {
  if (claim->ask.spares >> i & 1U) return 0;
  return claim->ask.costs != NULL ? claim->ask.costs[i] : claim->verdict.charge;
}

/* A request is to be charged all that it asks for and no grant covers; one that is content with less,
 * what can fit at all. */
static inline void weir_claim_offer(const weir_stack *stack, weir_claim *claim) {
  int64_t offer = claim->ask.cost;
  if (claim->ask.up_to) {
    int64_t capacity = weir_stack_least_of_class(stack, claim->ask.class);
    if (offer > capacity) offer = capacity;
    if (claim->ask.most > 0 && offer > claim->ask.most) offer = claim->ask.most;
  }
  claim->verdict.charge = offer - claim->verdict.held;
}

#endif
