/* Rules: what a text like "sliding-window:100/1m,cells=4" means, and how its counts are laid out in
 * a store.
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

enum { WEIR_RULES_MOST = 8, WEIR_CELLS_MOST = 64, WEIR_NAME_MOST = 32, WEIR_TAG_MOST = 64 };

#define WEIR_LIMIT_MOST INT64_C(1000000000)
#define WEIR_PERIOD_LEAST_US INT64_C(1000)
#define WEIR_PERIOD_MOST_US (INT64_C(400) * 24 * 3600 * 1000000)

typedef enum weir_rule_kind { WEIR_FIXED_WINDOW, WEIR_SLIDING_WINDOW } weir_rule_kind;

/* Counters hold `lanes` cells of `lane_bits` each; see weir_stack_lay_out(). */
typedef struct weir_rule {
  weir_rule_kind kind;
  int64_t limit;     /* L, 1 to WEIR_LIMIT_MOST */
  int64_t period_us; /* W */
  int cells;         /* N, 1 to WEIR_CELLS_MOST; a fixed window has one */
  bool strict;
  bool count_all;
  char name[WEIR_NAME_MOST + 1]; /* empty: none */

  int64_t cell_us; /* S, the width of a cell */
  int lanes;       /* 4, 2 or 1 */
  int lane_bits;   /* 15, 31 or 63 */
  char tag[WEIR_TAG_MOST + 1];
} weir_rule;

/* Rules that are one decision. */
typedef struct weir_stack {
  size_t count;
  bool count_all; /* some rule charges denied requests */
  weir_rule rules[WEIR_RULES_MOST];
} weir_stack;

/* Reads the text of one rule or several, and gives every rule its layout. Errors: WEIR_BAD_RULE,
 * with a message that names the offending part and what is accepted. */
weir_status weir_stack_parse(const char *text, uint32_t processes, weir_stack *stack,
                             weir_message *message);

/* Chooses lanes and tags: the second half of weir_stack_parse(). Fails when two tags are equal. */
weir_status weir_stack_lay_out(weir_stack *stack, uint32_t processes, weir_message *message);

/* Most that a window may hold by its promise: L + ceil(2L/N), or L for strict and fixed. */
int64_t weir_rule_upper(const weir_rule *rule);

/* The smallest limit of the stack: no group charges more than this at once. */
int64_t weir_stack_least_limit(const weir_stack *stack);

#endif
