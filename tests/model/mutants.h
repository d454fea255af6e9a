/* Mutants: known mistakes, put between the machines and the model, or in the place of the machines,
 * that the checks must catch. */
#ifndef MODEL_MUTANTS_H
#define MODEL_MUTANTS_H

#include "model.h"

/* Members that are NULL or false change nothing. */
struct mutant {
  const char *name;
  const char *scope;    /* where it is looked for */
  enum check killed_by; /* the check that must notice */

  void (*misconfigure)(weir_stack *stack, weir_settings *settings);
  void (*misremember)(const struct model *model, weir_memo *memo); /* before a request */
  void (*alter)(const struct model *model, struct client *client, weir_claim *request);
  size_t (*reorder)(const weir_machine *machine, size_t landed); /* which operation lands next */
  void (*rewrite)(const struct model *model, const struct client *client,
                  weir_operation *operation);
  bool (*replace)(const struct model *model, const struct client *client,
                  weir_operation *operation);                   /* true: nothing is executed */
  void (*distort)(weir_operation *operation);                   /* the answer */
  void (*remember)(struct model *model, struct client *client); /* after a request */
  bool keeps_memo;                                              /* over a step of the clock */
  bool never_late;      /* answers after the deadline are taken for good */
  bool saturates;       /* SUB stops at 0 */
  bool spends;          /* SUB takes a key of 0 for none */
  bool spares;          /* and does nothing where less is there */
  bool cuts;            /* ADD goes up to its bound */
  bool refuses_seeds;   /* and is refused by its seed where no key is there */
  bool bounded;         /* no mistake: as by INCREX, ADD keeps its bound */
  bool ignores;         /* nor this: no bound is kept for client 1 */
  bool withdraws;       /* nor this: none is kept from some step on */
  bool contrary;        /* nor this: every bound is met, whatever it was */
  bool creates;         /* RAISE without refresh creates what is absent */
  bool resends;         /* what got no answer is sent again */
  bool late_admits;     /* the policy answers who is late as if the store were away */
  bool repeats_for_all; /* a denial, whichever class was told it */
  bool looks_once;      /* no answer by the deadline is taken for silence */
  bool keeps_reads;     /* a GET behind a redirected write is not repeated, ... */
  bool reads_along;     /* ... or is, where that went */
  bool resends_whole;   /* an operation whose sum was executed */
  bool learns_ask;      /* ASK is taken for MOVED */
  bool asks_once;       /* one ASKING for all commands of an operation */
  unsigned unchecked;   /* checks that would notice earlier, one bit each */
  bool without_way;     /* nor for how long a refund may be on its way */
  bool without_p;       /* what denied requests have charged is not allowed for */

  /* Leases. */
  void (*mislease)(const struct model *model, struct client *client); /* a lot was granted */
  weir_operation (*misreturn)(const struct model *model, const struct client *client,
                              const weir_lot *lot); /* what gives it back */
  bool grants_late;         /* a lot is granted by an answer after the deadline */
  bool grants_unknown;      /* and by none */
  bool grants_denied;       /* and by one that denies it */
  bool leases_first;        /* its callers are decided after it */
  bool leases_too_much;     /* more than a group may charge */
  bool returns_twice;       /* what got no answer is given back again */
  bool keeps_owed;          /* nothing is given back */
  bool keeps_lots;          /* over a step of the clock */
  bool trusts_old_readings; /* a lot is used by a reading of the clock from before its charge */
  bool refunds_by_use;      /* of a bucket, with the stamp of the use */
  bool unreserved;          /* who does not lease takes all of a bucket */
  bool uses_any_lot;        /* whatever class it was charged for */
  bool refills_idle;        /* a refill keeps what ended unused */

  /* Settlements. */
  bool settles_twice; /* what got no answer is sent again */
  void (*another)(weir_stack *stack, weir_settings *settings); /* what client 1 believes */

  /* Limits of keys. */
  void (*mislimit)(struct weir_limiter *limiter);
  bool unsets_by_drop;
  bool judges_unread; /* by what was known before, while the record is read */
  bool keeps_blocked; /* what was charged meanwhile */
  bool keeps_barred;  /* what was held by a group whose key turned out to be barred */
  bool uses_unread;   /* a lot, while the record is not known */

  /* Outages. */
  bool owes_what_was_sent;
  bool pays_twice;           /* what got no answer is still owed */
  bool pays_later;           /* into the next period */
  bool no_hold;              /* who is back takes what the store has */
  bool holds_when_late;      /* though the store never left */
  bool holds_by_the_last;    /* only if the last answer was for a store that is gone */
  bool learns_in_hold;       /* a share, while others may be missing */
  bool refunds_paid_too;     /* what came off what is owed goes back to the store as well */
  bool refunds_by_admission; /* a payment goes back with the stamp of what it paid */
  bool redraws;              /* a chance for each request */
  bool one_at_least;         /* of each period, whatever the share is */
  bool takes_new_keys;       /* for its own, as its other keys are */
  bool forgets_held;         /* has its share beside what it holds */
  bool continues_by_most;    /* whatever its own limit is */
  bool drops_ahead;          /* what is held for one epoch more is owed in its first alone */

  /* What is in flight. */
  int64_t lax_us;    /* a place is believed so much longer */
  bool believes_on;  /* until it has left */
  bool renews_left;  /* what has left is paid for, too */
  bool renews_twice; /* and what has paid already */

  const struct weir_method *method; /* of the first rule */

  /* Another machine altogether: as weir_machine_start() and weir_machine_resume(). */
  weir_turn (*start)(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                     weir_claim *requests, weir_operation *operations);
  weir_turn (*resume)(weir_machine *machine, int64_t now_us, bool late, weir_operation *operations);
};

extern const struct mutant no_mutant, no_mutant_bounded, no_mutant_mixed, no_mutant_contrary,
    no_mutant_withdrawn;

/* One table per file mutants_*.c. */
extern const struct mutant window_mutants[];
extern const size_t window_mutant_count;
extern const struct mutant cells_mutants[];
extern const size_t cells_mutant_count;
extern const struct mutant bucket_mutants[];
extern const size_t bucket_mutant_count;
extern const struct mutant other_mutants[];
extern const size_t other_mutant_count;
extern const struct mutant class_mutants[];
extern const size_t class_mutant_count;
extern const struct mutant bound_mutants[];
extern const size_t bound_mutant_count;
extern const struct mutant in_flight_mutants[];
extern const size_t in_flight_mutant_count;
extern const struct mutant deadline_mutants[];
extern const size_t deadline_mutant_count;
extern const struct mutant cluster_mutants[];
extern const size_t cluster_mutant_count;
extern const struct mutant outage_mutants[];
extern const size_t outage_mutant_count;
extern const struct mutant settle_mutants[];
extern const size_t settle_mutant_count;
extern const struct mutant shared_mutants[];
extern const size_t shared_mutant_count;
extern const struct mutant keys_mutants[];
extern const size_t keys_mutant_count;
extern const struct mutant lease_mutants[];
extern const size_t lease_mutant_count;

/* All of them, one after another; NULL behind the last. */
const struct mutant *mutant_at(size_t number);

#endif
