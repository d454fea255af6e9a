/* What is true of each kind of rule, written from its definition and not from src/limits/algorithm: what
 * it may admit, what may be denied, and what must be left in the store. */
#ifndef MODEL_TRUTH_H
#define MODEL_TRUTH_H

#include "model.h"

/* Functions that are NULL have nothing to do. */
struct truth {
  /* A client begins a request. */
  void (*begins)(struct model *model, struct client *client, int rule);

  /* An operation has changed `key`, which held `before` (0: nothing). The client is NULL for an
   * orphan. */
  void (*landed)(struct model *model, struct client *client, const weir_operation *operation,
                 struct key *key, int64_t before);

  /* A request was admitted, or has settled: what it charged is owed from now on. Denied, with what it
   * had charged. */
  void (*admitted)(struct model *model, struct client *client, int rule,
                   const struct record *record);
  void (*denied)(struct model *model, struct client *client, int rule, const struct record *record);

  /* All that a client did for this record is over. */
  void (*over)(struct model *model, struct client *client, int rule, struct record *record);

  /* A refund or a settlement begins: of what `record` charged `cost` is owed no more. */
  void (*refunded)(struct model *model, int rule, const struct record *record, int64_t cost);

  /* So much was charged ahead, and is owed from now on; below 0: it goes back. NULL: buckets, whose
   * leases are records. */
  void (*owes)(struct model *model, int rule, int64_t place, int64_t cost);

  /* Whether a denial of `cost` holds against the most that the client may have seen. */
  bool (*denies)(const struct model *model, const struct client *client, int rule,
                 const weir_claim *request, const struct record *record, int64_t cost);

  /* The least that a key of the rule must live. */
  int64_t (*least_ttl_us)(const struct model *model, int rule);

  /* After every admission. */
  void (*bound)(struct model *model, int rule);

  /* Nobody does anything any more. */
  void (*end)(struct model *model, int rule);

  /* A key has gone. */
  void (*evicted)(struct model *model, const struct key *key, int64_t value);

  /* All keys have gone, this one among them. NULL where no scope does that. */
  void (*flushed)(struct model *model, struct key *key);

  /* What the client has charged may stay for ever; what this operation charges may. */
  void (*excuse)(struct model *model, const struct client *client, int rule);
  void (*excuse_sent)(struct model *model, const struct client *client,
                      const weir_operation *operation);
};

/* classes.c: what a class may have of a rule (`whole`: of what this one has), by the text: rules of scopes
 * without classes have none. And whether a record is of that class or of a lower one. */
int64_t class_limit(const struct model *model, int rule, unsigned class);
int64_t class_limit_of(const struct model *model, int rule, const weir_rule *whole, unsigned class);
bool class_is_within(const struct record *record, unsigned class);

extern const struct truth truth_window;
extern const struct truth truth_quota;
extern const struct truth truth_log;
extern const struct truth truth_bucket;
extern const struct truth truth_in_flight;
extern const struct truth truth_shared;

const struct truth *truth_of(const struct model *model, int rule);

/* What of a record stays charged; 0: its charges are not counted. With `settlements`, they count like
 * admissions. */
static inline int64_t record_charge(const struct record *record, int rule, bool settlements) {
  bool counts = record->state == ADMITTED || (settlements && record->state == SETTLED);
  return counts ? record->cost[rule] - record->less[rule] : 0;
}

/* truth_window.c: the cell of a moment, and the one that an operation is for. */
int64_t window_cell_of(const struct model *model, int rule, int64_t stamp_us);
int64_t window_cell_meant(const struct model *model, const weir_operation *operation,
                          int64_t *amount);

/* truth_quota.c: counters of one number each, of a quota's windows or of epochs, and what is owed to each. */
bool is_count(const struct key *key, int rule);
void counts_check_end(struct model *model, int rule);
void counts_excuse_sent(struct model *model, const struct client *client,
                        const weir_operation *operation);

/* truth_shared.c: whether the next operation is a GET of a cell to which nobody writes any more, so that it finds
 * the same whenever it lands; and the name of a key, in a story. */
bool shared_reads_what_stays(const struct model *model, const struct client *client);
void shared_check_scope(struct model *model);
void shared_print_place(const struct model *model, weir_place place, int64_t index, int64_t entry);

/* truth_order.c: token and leaky buckets on SWAP have a serial order that explains all. */
void order_check(struct model *model);

/* At least half of what a serial limiter admits of the same requests was admitted. */
void order_check_delivery(struct model *model);

/* truth_bucket.c: v as the store has it, in units, over all keys; -1: nothing is stored. */
int64_t bucket_stored(const struct model *model, int rule);

/* Token buckets, units of time. */
static inline int64_t bucket_units(const weir_rule *rule, int64_t us) {
  return us * (INT64_C(1) << rule->unit_bits);
}

/* truth_outage.c: what a client owes, and how much it may admit. Each is told what has happened, and
 * what the account says of it. */
void dues_begin(struct model *model, struct client *client, int64_t now_us, bool gone);
void dues_rolled(struct model *model, struct client *client, const int64_t *before, int64_t dropped,
                 int64_t now_us);
void dues_allowed(struct model *model, struct client *client, struct record *record);
void dues_asked(struct client *client, struct record *record);
void dues_admitted(struct model *model, struct client *client, const struct record *record);
void dues_paid(struct model *model, struct client *client, int64_t paid, int64_t unpaid);
void dues_given_back(struct model *model, struct client *client, const struct record *taken,
                     int64_t unpaid, const int64_t *rest);
void dues_refunded(struct model *model, struct client *client, const int64_t *rest);
void dues_withheld(struct model *model, const struct client *client);
void dues_settled(struct model *model, struct client *client, const weir_claim *first,
                  const weir_machine *machine);

/* A payment was admitted. */
void check_paid(struct model *model, struct client *client, const struct record *record);

/* checks.c: what must hold. */
void check_fails(struct model *model, enum check check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *check_name(enum check check);

/* What the requests before this one in its group may take under a rule. */
int64_t check_taken_before(const struct model *model, const struct client *client,
                           const weir_claim *request, int rule);

/* So much more is charged than is owed: no more than faults explain? */
void check_leak(struct model *model, int rule, int64_t left);
void check_decision(struct model *model, struct client *client, const weir_claim *request);
void check_repeated(struct model *model, struct client *client, const weir_claim *request);
void check_end(struct model *model);

#endif
