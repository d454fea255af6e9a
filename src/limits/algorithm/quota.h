/* A quota in two files: quota.c charges windows and says what they allow; quota_open.c finds out,
 * and decides with others, which window is open. */
#ifndef WEIR_ALGORITHM_QUOTA_H
#define WEIR_ALGORITHM_QUOTA_H

#include "algorithm/method.h"

/* What a process keeps of one key. */
typedef struct weir_quota_memory {
  bool known;
  int64_t start_us; /* of the open window */
  int64_t count;
  int64_t reported; /* the count that a store which evicts by stakes was told; 0: none */
  int64_t read_us;  /* the clock of the round that read it */
} weir_quota_memory;

typedef struct weir_quota_state {
  int64_t group;    /* G: g, or a later one where g is closed */
  int64_t at_us;    /* within G: the moment that a window is wanted for */
  int64_t opens[3]; /* what is known of groups G-1, G and G+1: a start, or why there is none */
  int64_t start_us; /* of the window in question; below 0: none */
  int64_t count;
  bool counted; /* the count was read */
  bool opening; /* this round opens G */
  bool opened;  /* some round of this phase did: before its first charge nothing was open */
} weir_quota_state;

/* Why a group has no start. */
enum {
  WEIR_QUOTA_UNREAD = -1,
  WEIR_QUOTA_ABSENT = -2,
  WEIR_QUOTA_CLOSED = -3,
  WEIR_QUOTA_WRONG = -4
};

/* Which of weir_quota_state.opens. */
enum { WEIR_QUOTA_BEFORE, WEIR_QUOTA_OWN, WEIR_QUOTA_AFTER, WEIR_QUOTA_GROUPS };

/* Asks for the window of a moment: nothing is known of its group and those beside it. */
void weir_quota_aim(weir_machine *machine, size_t i, int64_t at_us);

/* Whether some clock may show this. */
bool weir_quota_is_stamp(int64_t at_us);

/* Draws the conclusion from what was read: a start, or the next group if this one is closed, or
 * neither: no window is open. */
void weir_quota_find_window(weir_machine *machine, size_t i);

/* Plans one operation on the key of one of the three groups. */
void weir_quota_plan_open(weir_machine *machine, size_t i, weir_operation_kind kind, int which);

/* Plans what a charge needs while it does not know its window: first to close the group before,
 * then to open its own. */
void weir_quota_plan_closing(weir_machine *machine, size_t i);
void weir_quota_plan_opening(weir_machine *machine, size_t i);

/* Takes in the answer about one of these keys. */
void weir_quota_answer_open(weir_machine *machine, size_t i, const weir_operation *operation);

/* Whether an expected window is still in use by this clock: longer than that no key has to live. */
bool weir_quota_is_held(const weir_machine *machine, size_t i, int64_t start_us);

#endif
