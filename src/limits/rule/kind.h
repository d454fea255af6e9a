/* What each kind of rule is like. Inside this folder: all others ask the questions of
 * rule/rule.h. */
#ifndef WEIR_RULE_KIND_H
#define WEIR_RULE_KIND_H

#include "rule/rule.h"

/* Each bit is a question of rule/rule.h. */
enum weir_kind_trait {
  WEIR_KIND_COUNTS = 1 << 0,  /* weir_rule_keeps_counts() */
  WEIR_KIND_SLIDES = 1 << 1,  /* weir_rule_slides() */
  WEIR_KIND_CELLS = 1 << 2,   /* weir_rule_has_cells() */
  WEIR_KIND_OPENED = 1 << 3,  /* weir_rule_opens_windows() */
  WEIR_KIND_ONE = 1 << 4,     /* weir_rule_takes_one() */
  WEIR_KIND_MOVES = 1 << 5,   /* weir_rule_moves_in_time() */
  WEIR_KIND_PLACES = 1 << 6,  /* weir_rule_gives_places() */
  WEIR_KIND_LEASES = 1 << 7,  /* lease= is accepted */
  WEIR_KIND_SETTLES = 1 << 8, /* weir_rule_settles() */
  WEIR_KIND_HELD = 1 << 9,    /* weir_rule_is_held() */
  WEIR_KIND_SHARED = 1 << 10  /* weir_rule_is_shared() */
};

typedef struct weir_kind {
  const char *name;
  const char *tag; /* "fw": what the tag of its counters begins with */
  unsigned traits; /* enum weir_kind_trait */
  int cells; /* of a rule without cells=; of a shared window, which it has then, see layout.c */
  int64_t limit_most;
} weir_kind;

extern const weir_kind weir_kinds[WEIR_RULE_KINDS]; /* by weir_rule_kind */

/* What is probably meant by who names none. */
extern const weir_rule_kind weir_kind_usual;

/* Makes of a log the window that never admits more than it: with weighed costs, which a log cannot
 * have, as it keeps an entry for each request. */
void weir_rule_count_entries(weir_rule *rule);

/* A name has 1 to `most` of these: A-Z a-z 0-9 _ . - */
bool weir_name_is_accepted(const char *name, size_t length, size_t most);

/* One of "north:5|south:3". */
typedef struct weir_part {
  const char *name;
  size_t name_length;
  const char *value;
  size_t value_length;
} weir_part;

/* Moves *at behind the next one, whose name may be any. False: there is none, or it has no colon. */
bool weir_parts_next(const char **at, const char *end, weir_part *next);

bool weir_part_is_named(const weir_part *part, const void *name, size_t length);

/* Writes a list whose values are numbers, in the order of the names, each once. The text's length. */
int weir_parts_write(const char *list, const char *list_end, char *text, size_t size);

/* Takes in what classes= says; false: it is none that is accepted. In classes.c, as is all of them. */
bool weir_classes_read(weir_rule *rule, const char *text, size_t length);

/* Finds what each class may fill of what the rule admits at once, weir_rule_capacity(): at least 1. */
void weir_classes_measure(weir_rule *rule, int64_t capacity);

/* Of a measured rule that has classes. */
weir_status weir_classes_check(weir_rule *rule, int64_t capacity, weir_message *message);

/* "batch:60%|free:80%"; returns its length. */
int weir_classes_write(const weir_rule *rule, char *text, size_t size);

/* The same of tiers=, in tiers.c; false: it is none that is accepted. */
bool weir_tiers_read(weir_rule *rule, const char *text, size_t length);
weir_status weir_tiers_check(const weir_rule *rule, weir_message *message);
int weir_tiers_write(const weir_rule *rule, char *text, size_t size);

/* The rules of one stack say who goes before whom, and so they must say the same. */
weir_status weir_classes_of_stack(weir_stack *stack, weir_message *message);

/* Measures a rule whose options have been read: the unit of time of a bucket, and what a lease
 * keeps back. Fails where a rate is too fast, a burst too long, or where the rule cannot have
 * such a lease or debt. `message` may be NULL. In layout.c. */
weir_status weir_rule_measure(weir_rule *rule, weir_message *message);

/* How many cells a shared window has that says nothing of them. In shares.c, as is the rest. */
int weir_shares_cells(int64_t period_us);

/* "north:5|south:3", in the order of the names; returns its length, which is no more than that of what was
 * read. */
int weir_shares_write(const weir_rule *rule, char *text, size_t size);

/* Checks the tenants, and finds cells, floors and weights; fails where a floor comes to nothing. */
weir_status weir_shares_measure(weir_rule *rule, weir_message *message);

/* Finds what all floors of a cell come to, by the limit; and the least limit that has all of them. */
void weir_shares_set_floors(weir_rule *rule);
int64_t weir_shares_limit_least(const weir_rule *rule);

#endif
