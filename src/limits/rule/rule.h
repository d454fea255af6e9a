/* Rules: what a text like "sliding-window:100/1m,cells=4" means, and how its counts are laid out in
 * a store.
 *
 * Files: kind.c has what each kind of rule is like; rule.c reads and writes the text of rules and
 * stacks; layout.c finds what the text leaves open: units of time, reserves, counters, tags; shares.c the
 * tenants of a shared window, and their floors.
 *
 * A rule says what is limited; its layout says which counters hold it. Decisions depend on the rule
 * alone. Both are fixed once a limiter exists.
 */
#ifndef WEIR_RULE_RULE_H
#define WEIR_RULE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

enum {
  WEIR_RULES_MOST = 8,
  WEIR_CELLS_MOST = 64,
  WEIR_NAME_MOST = 32,
  WEIR_TAG_MOST = 64,
  WEIR_CLASSES_MOST = 8,
  WEIR_TIERS_MOST = 16
};

#define WEIR_LIMIT_MOST INT64_C(1000000000)
#define WEIR_COUNT_LIMIT_MOST (INT64_C(1) << 53) /* of windows and quotas: exact in a double */
#define WEIR_PERIOD_LEAST_US INT64_C(1000)
#define WEIR_PERIOD_MOST_US (INT64_C(400) * 24 * 3600 * 1000000)

#define WEIR_LOG_LIMIT_MOST INT64_C(100000)
#define WEIR_HOLD_LEAST_US INT64_C(1000)
#define WEIR_HOLD_MOST_US (INT64_C(60) * 1000000)
#define WEIR_HELD_LEAST_US INT64_C(1000000)
#define WEIR_HELD_MOST_US (INT64_C(3600) * 1000000)
#define WEIR_SHARED_CELL_LEAST_US INT64_C(500000)
enum { WEIR_SHARED_CELLS_LEAST = 8, WEIR_SHARED_CELLS_MOST = 60 };
enum { WEIR_TENANT_MOST = 64, WEIR_WEIGHT_MOST = 1000000, WEIR_WEIGHTS_MOST = 2048 };
#define WEIR_LEASE_LEAST_US INT64_C(1000)
#define WEIR_LEASE_MOST_US INT64_C(1000000)

typedef enum weir_rule_kind {
  WEIR_FIXED_WINDOW,
  WEIR_SLIDING_WINDOW,
  WEIR_SLIDING_LOG,
  WEIR_QUOTA,
  WEIR_TOKEN_BUCKET,
  WEIR_LEAKY_BUCKET,
  WEIR_IN_FLIGHT,
  WEIR_SHARED_WINDOW
} weir_rule_kind;

enum { WEIR_RULE_KINDS = WEIR_SHARED_WINDOW + 1 };

/* As the text has it: "fixed-window". */
const char *weir_rule_kind_name(weir_rule_kind kind);

typedef struct weir_rule weir_rule;

/* What a rule is like, for code that must not know its kind; kind.c has the answers.
 *
 * It keeps counts of what its windows have admitted, not the times of requests. */
bool weir_rule_keeps_counts(const weir_rule *rule);
/* Its limit holds in any period, wherever that begins. */
bool weir_rule_slides(const weir_rule *rule);
/* Its window moves cell by cell. */
bool weir_rule_has_cells(const weir_rule *rule);
/* A window of its begins with a request, not by the clock. */
bool weir_rule_opens_windows(const weir_rule *rule);
/* It takes requests one by one, of cost 1. */
bool weir_rule_takes_one(const weir_rule *rule);
/* A bucket: it admits `burst` at once, and `limit` in each period as time goes by. */
bool weir_rule_moves_in_time(const weir_rule *rule);
/* It gives every request its own place in time. A place goes back only by who knows which. */
bool weir_rule_gives_places(const weir_rule *rule);
/* What a request really cost may be charged, or given back, when it is known (WEIR_SETTLE). */
bool weir_rule_settles(const weir_rule *rule);
/* What it admits is held until it is released, and is paid for anew in every period. */
bool weir_rule_is_held(const weir_rule *rule);
/* Its limit is divided among tenants, each with a floor that no other can take. Every request names one. */
bool weir_rule_is_shared(const weir_rule *rule);

/* Which of a key's places in a store is meant. An algorithm names it by place, index and entry; its
 * driver makes the text. */
typedef enum weir_place {
  WEIR_PLACE_COUNT,  /* "<index>": a counter, a bucket's time, a quota's or an epoch's count */
  WEIR_PLACE_OPEN,   /* "o<index>": which window of a quota is open */
  WEIR_PLACE_ENTRY,  /* "<index>.<entry>": one entry of a log, or a count of a pool's cell; entries
                        begin with 1 */
  WEIR_PLACE_TENANT, /* "t<index>.<entry>": of one tenant in a pool's cell */
  WEIR_PLACE_LIMIT   /* "l0": the limit that was set for the key; no algorithm knows of it */
} weir_place;

/* How far requests of one class may fill a rule: as its capacity and upper say it for those of none. Where
 * there are no cells both are the same. */
typedef struct weir_threshold {
  int64_t capacity, upper;
} weir_threshold;

/* Counters hold `lanes` cells of `lane_bits` each; only sliding windows have more than one cell.
 * Buckets: times are counted in units of 2^-unit_bits microseconds, a token takes token_units of
 * them. */
struct weir_rule {
  weir_rule_kind kind;
  int64_t limit; /* L, 1 to WEIR_LIMIT_MOST; a window or quota: to WEIR_COUNT_LIMIT_MOST; a log: to
                        WEIR_LOG_LIMIT_MOST */
  int64_t most;  /* M, L or more: the largest limit that this name will ever have, for which its
                        counts are laid out; 0: they are for L */
  int64_t period_us; /* W */
  int cells;         /* N, 1 to WEIR_CELLS_MOST; a fixed window has one */
  bool strict;
  bool count_all;
  int64_t burst;                 /* B of a token bucket, Q + 1 of a leaky bucket; else 0 */
  int64_t hold_us;               /* 0: denied at once */
  int64_t lease_us;              /* how long a process may hold what it charged ahead; 0: never */
  int64_t reserve;               /* of a bucket with a lease: what of B is never charged, B - B' */
  int64_t debt;                  /* D: how far beyond the limit a settlement may charge, 0 to
                                    weir_rule_capacity() */
  char name[WEIR_NAME_MOST + 1]; /* empty: none */
  int floors;                    /* of a shared window: the part of L in floors, in percent */
  const char *weights;           /* of its tenants, "north:5|south:3", ... */
  size_t weights_length;
  int64_t others;        /* the weight of all that weights= does not name, together; 0: none */
  const char *classes;   /* "batch:60%|free:80%": in the text that was read, which must stay */
  size_t classes_length; /* as long as the rule; 0: it has none */
  uint8_t percents[WEIR_CLASSES_MOST]; /* what each class has there; 0: a whole number */
  const char *tiers;                   /* "gold:5000|silver:500", likewise; 0: none */
  size_t tiers_length;

  int64_t capacity; /* weir_rule_capacity(), ... */
  int64_t upper; /* ... and weir_rule_upper(), of a bucket the first: every decision reads them */
  int64_t class_capacities[WEIR_CLASSES_MOST]; /* the same as the first, by class of the stack */
  int64_t cell_us;                             /* S, the width of a cell */
  int64_t log_us; /* of a log: the longest period of all that share it, the width of its epochs;
                       else 0 */

  /* Of a quota: a count that is as high is that of a lost key (algorithm/plan.h). */
  int64_t lost_from;
  int64_t floor_of_cell; /* of a shared window: what the floors of a cell come to, together, ... */
  int64_t room_of_cell;  /* ... and the same before it is rounded, in WEIR_ROOM_PARTS; ... */
  int64_t weight_of_all; /* ... the weights of all its tenants, named or not, ... */
  int64_t division;    /* ... and how they divide floors, as stores have it (algorithm/shared.h) */
  int lanes;           /* 4, 2 or 1 */
  int lane_bits;       /* 15, 31 or 63 */
  int unit_bits;       /* k: 0, 10 or 20 */
  int parts;           /* that a cost of 1 counts as: weir_stack_continue(); else 0 */
  int64_t fullest_us;  /* of a bucket with most=: the longest that its burst takes to drain
                            under any limit up to that; else 0 */
  int64_t token_units; /* T, at least 1024: the rate falls short by less than 0.1 % */
  char tag[WEIR_TAG_MOST + 1];
  char kin[WEIR_TAG_MOST + 1]; /* what names its limit whatever the layout: kind, period, name */
};

/* Rules that are one decision. */
typedef struct weir_stack {
  size_t count;
  bool count_all; /* some rule charges denied requests */

  /* Rules that have classes have the same ones, in the same order: how many they are, and the first rule
   * that has them. */
  size_t class_count, classed;
  weir_rule rules[WEIR_RULES_MOST];
} weir_stack;

/* Reads the text of one rule or several, and gives every rule its layout. The text must stay as long as
 * the rules. Errors: WEIR_BAD_RULE, with a message that names the offending part and what is accepted. */
weir_status weir_stack_parse(const char *text, uint32_t processes, weir_stack *stack,
                             weir_message *message);

/* Chooses lanes and tags: the second half of weir_stack_parse(). The logs of a stack are one log:
 * they have one tag, and fails when they have different names or equal periods. Fails when two
 * other tags are equal. */
weir_status weir_stack_lay_out(weir_stack *stack, uint32_t processes, weir_message *message);

/* The most= that would have rule `i` of one stack and rule `j` of another share their counts, which so many
 * processes use; 0: none would. They are rules of one algorithm, period and name. */
int64_t weir_rule_most_for_both(const weir_stack *one, size_t i, uint32_t processes,
                                const weir_stack *other, size_t j, uint32_t other_processes);

/* Which of its classes has this name: 1 is the first; 0: none. */
unsigned weir_stack_find_class(const weir_stack *stack, const char *name);

/* The name of one of the stack's classes, from 0 on. False: there are not so many. */
bool weir_stack_read_class(const weir_stack *stack, size_t index, char name[WEIR_NAME_MOST + 1]);

/* "batch and free": the classes of the stack. */
enum { WEIR_CLASS_LIST_BYTES = WEIR_CLASSES_MOST * (WEIR_NAME_MOST + 5) };
void weir_stack_list_classes(const weir_stack *stack, char list[WEIR_CLASS_LIST_BYTES]);

/* The number that is stored for a key of this tier; false: the rule has none of this name. */
bool weir_rule_find_tier(const weir_rule *rule, const char *name, size_t length, int64_t *number);

/* The limit of the tier with this number, and its name, where that is not NULL. 0: the rule has none. */
int64_t weir_rule_read_tier(const weir_rule *rule, int64_t number, char name[WEIR_NAME_MOST + 1]);

/* "gold and silver": the tiers of the rule. */
enum { WEIR_TIER_LIST_BYTES = WEIR_TIERS_MOST * (WEIR_NAME_MOST + 5) };
void weir_rule_list_tiers(const weir_rule *rule, char list[WEIR_TIER_LIST_BYTES]);

/* Which of two classes goes before: the higher rank may do all that the lower may. Of none it is the
 * highest. */
enum { WEIR_RANK_MOST = WEIR_CLASSES_MOST + 1 };
static inline unsigned weir_class_rank(unsigned number) {
  return number == 0 ? WEIR_RANK_MOST : number;
}

/* Whether a class ranks no higher than another. */
static inline bool weir_class_is_within(unsigned number, unsigned other) {
  return other == 0 || number - 1 < other; /* of none it is only within none */
}

/* The rules by which a process goes on while the store is away (memo/account.h): the same windows
 * and buckets, but counted in parts of a cost. A rule's limit and capacity are so many times as
 * large: weir_rule_parts(), fewer for a bucket whose unit of time is too coarse for that. A log
 * becomes a strict window. */
enum { WEIR_CONTINUED_PARTS = 1024 };
void weir_stack_continue(const weir_stack *rules, weir_stack *continued);

/* Most that the whole cells of a window may hold when a request is admitted: L + ceil(2L/N), or L
 * for strict and for what is not a sliding window. And the same of another limit. */
int64_t weir_rule_upper(const weir_rule *rule);
int64_t weir_rule_upper_of(const weir_rule *rule, int64_t limit);

/* By class of the stack; 0 is none. */
static inline int64_t weir_rule_capacity_of(const weir_rule *rule, unsigned class) {
  return class == 0 ? rule->capacity : rule->class_capacities[class - 1];
}

static inline weir_threshold weir_rule_threshold(const weir_rule *rule, unsigned class) {
  if (class == 0) return (weir_threshold){rule->capacity, rule->upper};
  int64_t capacity = rule->class_capacities[class - 1];
  return (weir_threshold){capacity, weir_rule_upper_of(rule, capacity)};
}

/* Most that a rule which is no bucket promises to admit: a sliding one in any period, the others in
 * one of their windows. docs/guarantees.md proves it. */
int64_t weir_rule_bound(const weir_rule *rule);

/* The same of a class alone. */
int64_t weir_rule_bound_of(const weir_rule *rule, weir_threshold most);

/* Into how many parts a cost comes there: WEIR_CONTINUED_PARTS, fewer where a limit in parts would be above
 * WEIR_COUNT_LIMIT_MOST. */
int weir_rule_parts(const weir_rule *rule);

/* Writes the shortest text that means this rule; two rules decide alike, but for most= and tiers=,
 * exactly when these texts are equal. A shared window needs as much room more as its weights are long. */
enum { WEIR_RULE_TEXT_BYTES = 192 + (WEIR_CLASSES_MOST + WEIR_TIERS_MOST) * (WEIR_NAME_MOST + 20) };
void weir_rule_write(const weir_rule *rule, char text[WEIR_RULE_TEXT_BYTES]);

/* The one rule of a stack that has most=: a request may bring a limit of its own for it. `count` where no
 * rule has, or several have. */
size_t weir_stack_steered(const weir_stack *stack);

/* Makes the limit of a rule another, up to its most=: what is stored stays as it is laid out. A bucket's
 * burst and any debt are in proportion, so that a full bucket lasts as long. A limit below
 * weir_rule_limit_least() would leave a bucket nothing to give. */
void weir_rule_set_limit(weir_rule *rule, int64_t limit);
int64_t weir_rule_limit_least(const weir_rule *rule);

/* Makes `limited` the same stack with this limit for its steered rule. */
void weir_stack_set_limit(const weir_stack *stack, int64_t limit, weir_stack *limited);

/* The largest cost that any limit of a rule admits: its own, or up to its most=. */
int64_t weir_rule_capacity_most(const weir_rule *rule);

/* The largest cost that is ever admitted, and what a full bucket gives at once: L, B' or Q + 1. B'
 * is B without the reserve of its lease. Of a shared window: what may be lent where nothing is used. */
int64_t weir_rule_capacity(const weir_rule *rule);

/* Of a shared window whose floors are so many percent of its limit: what they come to in a cell, rounded down; and
 * what a loan leaves for them there, in parts, rounded up. So of several limits the largest is the bound. */
enum { WEIR_ROOM_PARTS = 1024 };
static inline int64_t weir_rule_room_whole(int64_t parts) {
  return (parts + WEIR_ROOM_PARTS - 1) / WEIR_ROOM_PARTS;
}
int64_t weir_rule_floors(const weir_rule *rule, int64_t percent);
int64_t weir_rule_room(const weir_rule *rule, int64_t percent);

/* The weight of a tenant of a shared window, 0 where weights= does not name it; and its floor in a cell, of the
 * rule's own floors and of others. */
int64_t weir_rule_weight(const weir_rule *rule, const void *tenant, size_t length);
int64_t weir_rule_floor(const weir_rule *rule, int64_t weight);
int64_t weir_rule_floor_of(const weir_rule *rule, int64_t floors, int64_t weight);

/* How the floors of a cell are divided, as one number that a store keeps: a hash of the weights; the part of others=
 * of WEIR_DIVISION_ALL, rounded up; and, in percent, what floors come to, and what loans leave for floors that may
 * come later. */
enum {
  WEIR_DIVISION_HASH_BITS = 26,
  WEIR_DIVISION_OTHERS_BITS = 14,
  WEIR_DIVISION_PERCENT_BITS = 7,
  WEIR_DIVISION_PERCENT = (1 << WEIR_DIVISION_PERCENT_BITS) - 1,
  WEIR_DIVISION_ALL = (1 << WEIR_DIVISION_OTHERS_BITS) - 1
};

static inline int64_t weir_division_pack(int64_t weights, int64_t floors, int64_t room) {
  return (weights << WEIR_DIVISION_PERCENT_BITS | floors) << WEIR_DIVISION_PERCENT_BITS | room;
}

/* The smallest capacity of the stack, 1 where it holds a log: no group charges more at once. And the smallest for
 * requests of a class. */
int64_t weir_stack_least_capacity(const weir_stack *stack);
int64_t weir_stack_least_of_class(const weir_stack *stack, unsigned number);

#endif
