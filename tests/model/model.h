/* The model: a store, one real time, and clients that run the real machines of src/algorithm.
 *
 *     scope + mutant ──> world ──> steps that may come next ──> explore every order of them
 *                          │
 *                          └──> checks, after every step
 *
 * The state is one block of memory, saved and restored in place: machines hold pointers into
 * themselves. README.md says what is explored and what is checked.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "algorithm/algorithm.h"

enum {
  CLIENTS_MOST = 3,
  REQUESTS_MOST = 2,
  GROUP_MOST = 2, /* asks in one request */
  RULES_MOST = 2,
  CELLS_MOST = 16, /* cells of a rule that a run may touch */
  INSTANTS_MOST = 12,
  CHARGES_MOST = 16, /* earlier charges and admissions of a run */
  STEPS_MOST = 64    /* that may come next in one state */
};

/* Every process is off by at most d, and is done D after its clock read: e = 2d + D. */
enum { SKEW_US = 4, DEADLINE_US = 8, MARGIN_US = 2 * SKEW_US + DEADLINE_US, REPEAT_US = 10 };

enum scope_flag {
  CACHED_CELLS = 1 << 0,
  LOCAL_DENIAL = 1 << 1,
  CRASH = 1 << 2,    /* one client may stop for ever */
  EVICTION = 1 << 3, /* one counter may vanish */
  LOSS = 1 << 4,     /* one operation may get no answer, and land at any later time or never */
  LATE = 1 << 5,     /* answers may come after the deadline */
  OVERDUE = 1 << 6,  /* and operations may land after it */
  UNEVEN = 1 << 7,   /* a period that the cells do not divide */
  DEEP = 1 << 8      /* explored with --deep only */
};

struct charge {
  int64_t stamp_us; /* the charging client's clock; in a scope relative to the edge */
  int64_t cost;
};

/* What is explored: everything that these clients can do, in every order. */
struct scope {
  const char *name;
  const char *rules;
  uint32_t processes; /* what the storage layout is chosen for */
  int64_t edge_cell;  /* instants are relative to where this cell of the first rule begins; 0: 40 */
  const char *requests; /* "1+2 1 / 3": a group of two, then 1, and another client's 3 */
  int64_t instants_us[INSTANTS_MOST]; /* end where they stop growing */
  struct charge before[4];            /* charged and admitted before the run */
  unsigned flags;
};

struct client {
  weir_memo *memo;
  weir_machine *machine; /* zero while not busy */
  weir_ask asks[GROUP_MOST];
  int64_t deadline_us;         /* real time */
  int64_t lands_by_us;         /* the operations of this round land by then; real time */
  int64_t round_us;            /* its clock when this round began */
  int64_t denied_us;           /* its clock when the store last denied it */
  int64_t charged[RULES_MOST]; /* landed, not taken back, not decided */
  int64_t charged_cell[RULES_MOST];
  int32_t seen[RULES_MOST][CELLS_MOST]; /* the most that others had in a cell during this request */
  int32_t next_request;
  int32_t landed; /* operations of this round */
  bool busy, crashed, late, lost;
};

/* An operation and the cell it was meant for. */
struct sent {
  weir_action action;
  int64_t cell;
};

struct world {
  int64_t instant;
  struct client clients[CLIENTS_MOST];
  int64_t value[RULES_MOST][CELLS_MOST]; /* the store: by counter */
  bool present[RULES_MOST][CELLS_MOST];
  int32_t shadow[RULES_MOST][CELLS_MOST]; /* the same with a counter for every cell */
  int32_t owed[RULES_MOST][CELLS_MOST]; /* what a cell must hold: admitted, or all with count=all */
  struct charge admitted[CHARGES_MOST]; /* by stamp, then cost */
  int64_t admitted_count;
  int64_t slack[RULES_MOST]; /* what an eviction may add to the bound */
  int64_t leak[RULES_MOST];  /* what faults may leave charged without being owed */
  struct sent orphan;        /* an operation without an answer that may still land */
  bool has_orphan, crashed, evicted, lost;
};

enum step_kind { START, LAND, ABSORB, TICK, CRASHES, EVICTS, LOSES, NOT_SENT, ORPHAN_LANDS };

struct step {
  enum step_kind kind;
  int who;  /* client, or rule for EVICTS */
  int what; /* EVICTS: counter */
};

enum check {
  CHECK_NONE,
  CHECK_BOUND,
  CHECK_DENIAL,
  CHECK_LANES,
  CHECK_FORGOTTEN,
  CHECK_LEAK,
  CHECK_TTL,
  CHECK_REPEAT,
  CHECK_STATUS,
  CHECK_COUNT
};

struct mutant;

struct request {
  int64_t costs[GROUP_MOST]; /* 0: none */
};

struct model {
  const struct scope *scope;
  const struct mutant *mutant;
  weir_stack stack;
  weir_terms terms;
  int64_t edge_us;
  int64_t first_cell[RULES_MOST]; /* which cell is number 0 of the world's arrays */
  struct request requests[CLIENTS_MOST][REQUESTS_MOST];
  struct world *world;
  size_t world_bytes;
  uint64_t decisions;
  enum check failed;
  char failure[256];
  FILE *story; /* where steps are told, or NULL */
};

/* model.c: one scope, made ready. */
bool model_open(struct model *model, const struct scope *scope, const struct mutant *mutant);
void model_close(struct model *model);
void world_reset(struct model *model);

/* world.c: the steps of a run. */
size_t world_steps(const struct model *model, struct step steps[STEPS_MOST]);
void world_apply(struct model *model, struct step step);
int64_t world_real_us(const struct model *model);
int64_t world_clock_us(const struct model *model, const struct client *client);
int world_client_number(const struct model *model, const struct client *client);

/* store.c: the semantics of weir/backend.h, and the shadow beside it. */
void store_prefill(struct model *model, const struct charge *charge);
void store_execute(struct model *model, struct client *client, struct sent *sent);
void store_evict(struct model *model, int rule, int counter);
int64_t store_cell_of(const struct model *model, int rule, int64_t stamp_us);

/* checks.c: what must hold. */
void check_fails(struct model *model, enum check check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *check_name(enum check check);
void check_operation(struct model *model, const weir_action *action);
void check_decision(struct model *model, struct client *client, const weir_ask *ask,
                    int64_t stamp_us, bool charged);
void check_repeated(struct model *model, struct client *client, const weir_ask *ask,
                    int64_t stamp_us);
void check_counter(struct model *model, int rule, int counter);
void check_end(struct model *model);

/* story.c: tells a run to people. */
void story_begin(const struct model *model, int number);
void story_tell(const struct model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void story_start(const struct model *model, const struct client *client);
void story_operation(const struct model *model, const struct sent *sent);
void story_decision(const struct model *model, const struct client *client, const weir_ask *ask,
                    int64_t stamp_us);
void story_end(const struct model *model);

#endif
