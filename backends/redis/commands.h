/* The Redis commands that operations are made of: one table, from which commands are encoded,
 * replies are read and docs/redis-commands.md is written. */
#ifndef WEIR_REDIS_COMMANDS_H
#define WEIR_REDIS_COMMANDS_H

#include "wire/wire.h"

/* What stands between the fixed words of a command. */
typedef enum weir_redis_hole {
  WEIR_HOLE_END, /* no more pieces */
  WEIR_HOLE_KEY,
  WEIR_HOLE_TTL, /* in ms */
  WEIR_HOLE_SEED,
  WEIR_HOLE_DELTA,
  WEIR_HOLE_LESS, /* the delta, negative */
  WEIR_HOLE_VALUE,
  WEIR_HOLE_FLOOR,
  WEIR_HOLE_OWED, /* what a mended operation still has to add, see weir_redis_owed() */
  WEIR_HOLE_COUNT
} weir_redis_hole;

/* Bytes that are sent as they are, then a hole. */
typedef struct weir_redis_piece {
  const char *text;
  size_t length;
  weir_redis_hole hole;
} weir_redis_piece;

enum { WEIR_REDIS_PIECES_MOST = 4, WEIR_REDIS_STEPS_MOST = 4 };

/* A command with its arguments. */
typedef enum weir_redis_step {
  WEIR_STEP_END,
  WEIR_STEP_SET_SEED,
  WEIR_STEP_SET_DELTA,
  WEIR_STEP_SET_ABSENT,
  WEIR_STEP_SET_ALWAYS,
  WEIR_STEP_INCRBY,
  WEIR_STEP_INCRBY_OWED,
  WEIR_STEP_DECRBY,
  WEIR_STEP_GET,
  WEIR_STEP_BITFIELD,
  WEIR_STEP_DEL,
  WEIR_STEP_PTTL,
  WEIR_STEP_PEXPIRE,
  WEIR_STEP_ZADD_FLOOR,
  WEIR_STEP_ZADD_LIFT, /* the same of a key that is there */
  WEIR_STEP_ZADD_DELTA,
  WEIR_STEP_ZADD_LESS,
  WEIR_STEP_ZSCORE,
  WEIR_STEP_ASKING, /* before each command to a node that is being given the key's slot */
  WEIR_STEP_COUNT
} weir_redis_step;

typedef struct weir_redis_command {
  const char *name; /* as ACL rules spell it */
  bool decides;     /* its reply is the outcome of the operation */
  weir_redis_piece pieces[WEIR_REDIS_PIECES_MOST];
} weir_redis_command;

extern const weir_redis_command weir_redis_commands[WEIR_STEP_COUNT];

/* The commands of one operation, in one write. */
typedef enum weir_redis_plan_name {
  WEIR_PLAN_ADD,
  WEIR_PLAN_ADD_SEEN,
  WEIR_PLAN_ADD_REFRESH,
  WEIR_PLAN_SUB,
  WEIR_PLAN_SUB_RAISED,
  WEIR_PLAN_GET,
  WEIR_PLAN_GET_SHORT,
  WEIR_PLAN_GET_RAISED,
  WEIR_PLAN_CREATE,
  WEIR_PLAN_RAISE,
  WEIR_PLAN_RAISE_REFRESH,
  WEIR_PLAN_PUT,
  WEIR_PLAN_DROP,
  WEIR_PLAN_ASK,
  WEIR_PLAN_MEND,
  WEIR_PLAN_MEND_OWED,
  WEIR_PLAN_COUNT
} weir_redis_plan_name;

typedef struct weir_redis_plan {
  const char *title;                                /* for people */
  weir_redis_step steps[WEIR_REDIS_STEPS_MOST + 1]; /* ends with WEIR_STEP_END */
} weir_redis_plan;

extern const weir_redis_plan weir_redis_plans[WEIR_PLAN_COUNT];

/* What is noted in version_out, which Redis leaves free, between the replies to an operation
 * and between its attempts; 0 again when the operation has its outcome. */
enum weir_redis_note {
  WEIR_NOTE_MADE = 1 << 0, /* SET created the key */
  WEIR_NOTE_BARE = 1 << 1, /* the key has no TTL */
  WEIR_NOTE_OWED = 1 << 2, /* because this operation's own sum created it, without what SET gives */
  WEIR_NOTE_UNSEEDED = 1 << 3, /* SET was refused */
  WEIR_NOTE_DOUBT = 1 << 4,    /* so was another command that does not decide */
  WEIR_NOTE_SEEN = 1 << 5,     /* from the start: the key was lately seen with a TTL */
  WEIR_NOTE_ASK = 1 << 6,      /* whether it still has one is asked in an attempt of its own */
  WEIR_NOTE_SHORT = 1 << 7,    /* from the start: a GET must not bring more than an integer */
  WEIR_NOTE_GONE = 1 << 8,     /* PTTL says that the key is absent */
  WEIR_NOTE_BARRED = 1 << 9,   /* BITFIELD is not to be had here */
  WEIR_NOTE_FOREIGN = 1 << 10, /* the key holds what is no integer */
  WEIR_NOTE_RENEW = 1 << 11,   /* PEXPIRE goes in an attempt of its own */
  /* Of a cluster's redirections. With one of the first three the outcome is PENDING. */
  WEIR_NOTE_MOVED = 1 << 12,     /* to the node of WEIR_NOTE_NODE_SHIFT, and so is ... */
  WEIR_NOTE_ASKED = 1 << 13,     /* this one, for once */
  WEIR_NOTE_DOWN = 1 << 14,      /* the node says CLUSTERDOWN */
  WEIR_NOTE_ELSEWHERE = 1 << 15, /* from the start: it goes to a stand-in for the slot's owner */
  WEIR_NOTE_SLOT_SHIFT = 16,     /* 14 bits: the home's slot */
  WEIR_NOTE_NODE_SHIFT = 32,     /* 8 bits */
  WEIR_NOTE_CAUSE_SHIFT = 40,    /* above: 1 + the index of the first refusal's cause */
  WEIR_NOTES_REDIRECTED = WEIR_NOTE_MOVED | WEIR_NOTE_ASKED | WEIR_NOTE_DOWN
};
#define WEIR_NOTE_NODE (UINT64_C(0xff) << WEIR_NOTE_NODE_SHIFT)

static inline bool weir_redis_has_note(const weir_operation *operation, enum weir_redis_note note) {
  return (operation->version_out & note) != 0;
}

/* What weir_wire_command.attempt says: 0 for the first plan of an operation, also when it goes
 * again as a whole; another number for the question or the repair; and whether each command has
 * ASKING before it. */
enum { WEIR_ATTEMPT_FOLLOWS = 0x7f, WEIR_ATTEMPT_ASKING = 0x80 };

/* How a command goes: its operation's plan; on a further attempt the question, or the repair. */
const weir_redis_plan *weir_redis_plan_of(const weir_wire_command *command);

/* Whether a note that the key was seen with a TTL spares an operation the question. A seed, which
 * might have to be added as well, and a TTL to renew are not worth a way of their own. */
bool weir_redis_may_be_seen(const weir_operation *operation);

/* What is missing from a key that this operation's own sum created: the seed of an ADD; all that a
 * SUB took. 0: nothing. */
int64_t weir_redis_owed(const weir_operation *operation);

#endif
