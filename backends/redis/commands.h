/* The Redis commands that operations are made of: one table, from which commands are encoded,
 * replies are read and docs/redis-commands.md is written. */
#ifndef WEIR_REDIS_COMMANDS_H
#define WEIR_REDIS_COMMANDS_H

#include "wire/wire.h"

/* What stands between the fixed words of a command. */
typedef enum weir_redis_hole {
  WEIR_HOLE_END, /* no more pieces */
  WEIR_HOLE_KEY,
  WEIR_HOLE_KEYS, /* of all operations that are joined */
  WEIR_HOLE_TTL,  /* in ms */
  WEIR_HOLE_SEED,
  WEIR_HOLE_DELTA,
  WEIR_HOLE_WHOLE, /* what a SUB makes, to take its delta from: no more than its seed is left */
  WEIR_HOLE_VALUE,
  WEIR_HOLE_FLOOR,
  WEIR_HOLE_OWED,  /* what a mended operation still has to add, see weir_redis_owed() */
  WEIR_HOLE_MORE,  /* what a key of 1 comes to hold */
  WEIR_HOLE_MOST,  /* the most below the bound */
  WEIR_HOLE_LESS,  /* the delta, negative; from here on negative, or 0 */
  WEIR_HOLE_LEAST, /* 1 less the delta: what a key of 1 is left with */
  WEIR_HOLE_COUNT
} weir_redis_hole;

/* Bytes that are sent as they are, then a hole. */
typedef struct weir_redis_piece {
  const char *text; /* NULL: no more pieces. At least 16 bytes may be read there */
  size_t length;
  weir_redis_hole hole;
} weir_redis_piece;

/* What an MGET takes in bytes: the most, besides its keys, and besides a key. */
enum { WEIR_REDIS_MGET_BYTES = 32, WEIR_REDIS_MGET_KEY_BYTES = 8 };

enum { WEIR_REDIS_PIECES_MOST = 6, WEIR_REDIS_STEPS_MOST = 4 };

/* A command with its arguments. */
typedef enum weir_redis_step {
  WEIR_STEP_END,
  WEIR_STEP_SET_SEED,
  WEIR_STEP_SET_ZERO, /* the same with a seed of 0 */
  WEIR_STEP_SET_DELTA,
  WEIR_STEP_SET_ABSENT,
  WEIR_STEP_SET_ALWAYS,
  WEIR_STEP_INCRBY,
  WEIR_STEP_INCRBY_OWED,
  WEIR_STEP_DECRBY,
  WEIR_STEP_INCREX,
  WEIR_STEP_INCREX_RENEW, /* the same, and the TTL begins anew */
  WEIR_STEP_INCREX_MOST,  /* the same as the first, below the operation's bound */
  WEIR_STEP_INCREX_THERE, /* and only to a key that holds 1 or more */
  WEIR_STEP_INCREX_LESS,  /* takes from a key that holds 1 or more, and makes none */
  WEIR_STEP_GET,
  WEIR_STEP_MGET, /* without the count of its words, which comes before */
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
  const char *name;                                /* as ACL rules spell it */
  bool decides;                                    /* its reply is the outcome of the operation */
  weir_redis_piece pieces[WEIR_REDIS_PIECES_MOST]; /* the last has no text */
} weir_redis_command;

extern const weir_redis_command weir_redis_commands[WEIR_STEP_COUNT];

/* The commands of one operation, in one write. */
typedef enum weir_redis_plan_name {
  WEIR_PLAN_ADD,
  WEIR_PLAN_ADD_SEEN,
  WEIR_PLAN_ADD_SEEN_SEED,
  WEIR_PLAN_ADD_REFRESH,
  WEIR_PLAN_SUB,
  WEIR_PLAN_SUB_RAISED,
  WEIR_PLAN_ADD_BOUNDED,
  WEIR_PLAN_ADD_REFRESH_BOUNDED,
  WEIR_PLAN_ADD_MOST,
  WEIR_PLAN_ADD_SEED_MOST,
  WEIR_PLAN_SUB_BOUNDED,
  WEIR_PLAN_GET,
  WEIR_PLAN_GET_JOINED,
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

/* --- what an operation has been through --------------------------------------------------------
 */

typedef enum weir_redis_stage {
  WEIR_STAGE_FIRST,   /* the operation itself is to go, or goes again as a whole */
  WEIR_STAGE_ASK_TTL, /* its sum stands: whether the key has a TTL is asked */
  WEIR_STAGE_MEND,    /* its sum stands: the key is given what it lacks */
  WEIR_STAGE_SETTLED  /* it has its outcome */
} weir_redis_stage;

typedef enum weir_redis_route {
  WEIR_ROUTE_OWNER,   /* to the node that owns the home's slot */
  WEIR_ROUTE_ONCE,    /* where ASK sent it, for this once: ASKING stands before each command */
  WEIR_ROUTE_STAND_IN /* to another node, as the owner does not answer */
} weir_redis_route;

/* What a node of a cluster said instead of executing it. The outcome is then PENDING. */
typedef enum weir_redis_told {
  WEIR_TOLD_NOTHING,
  WEIR_TOLD_MOVED, /* another owns the slot; or it is to go to the same again */
  WEIR_TOLD_ASK,   /* another may have the key, for this once */
  WEIR_TOLD_DOWN,  /* CLUSTERDOWN */
  WEIR_TOLD_ALONE, /* nothing: an MGET does not say what a GET would, so GET is to ask */
  WEIR_TOLD_PLAIN  /* INCREX is not to be had, so the plain form is to go */
} weir_redis_told;

/* Set once, and forgotten only where the operation goes again as a whole. */
enum weir_redis_fact {
  WEIR_FACT_MADE = 1 << 0, /* SET created the key */
  WEIR_FACT_BARE = 1 << 1, /* the key has no TTL */
  WEIR_FACT_OWED = 1 << 2, /* the operation's own sum may have made it, without what SET gives */
  WEIR_FACT_UNSEEDED = 1 << 3,  /* SET was refused, or not executed */
  WEIR_FACT_DOUBT = 1 << 4,     /* so was another command that does not decide */
  WEIR_FACT_SEEN = 1 << 5,      /* from the start: the key was lately seen with a TTL */
  WEIR_FACT_PAID = 1 << 6,      /* what is owed was added since */
  WEIR_FACT_UNASKED = 1 << 7,   /* PTTL was sent to a node that does not have the key */
  WEIR_FACT_UNRENEWED = 1 << 8, /* so was PEXPIRE */
  WEIR_FACT_GONE = 1 << 9,      /* PTTL says that the key is absent */
  WEIR_FACT_SHORT = 1 << 10,    /* from the start: a GET must not bring more than an integer */
  WEIR_FACT_FOREIGN = 1 << 11,  /* the key holds what is no integer */
  WEIR_FACT_BARRED = 1 << 12,   /* BITFIELD is not to be had here */
  WEIR_FACT_BOUNDED = 1 << 13,  /* in this round it goes by INCREX */
  WEIR_FACT_PLAIN = 1 << 14,    /* it must not */
  WEIR_FACTS_END = 1 << 15
};

/* What is known of an operation besides its result: from one reply to the next the codec keeps it
 * in weir_wire_command.notes, between rounds exec.c does. Zero bytes are a first attempt, to the
 * owner. */
typedef struct weir_redis_attempt {
  uint8_t stage; /* weir_redis_stage, and so on */
  uint8_t route;
  uint8_t told;
  uint8_t cause;  /* of the first refusal: 1 + its index; 0: none was refused */
  uint16_t slot;  /* of the home; 0 where the servers are no cluster */
  uint16_t node;  /* where it goes; with `told`, the node that was named */
  uint32_t facts; /* enum weir_redis_fact */
  bool joins;     /* from the start: a GET that may be one of an MGET */
  bool parted;    /* it was one, and went again alone */
  bool unjoined;  /* MGET is not to be had here */
  uint8_t plan;   /* weir_redis_plan_name: how it goes in its present stage */
} weir_redis_attempt;

_Static_assert(sizeof(weir_redis_attempt) == WEIR_WIRE_NOTES_BYTES, "an attempt is the notes");

/* How an operation goes in its present stage. */
weir_redis_plan_name weir_redis_plan_of(const weir_operation *operation,
                                        const weir_redis_attempt *attempt);

/* Whether it spares an operation the question that its key was lately seen with a TTL. A seed,
 * which might have to be added as well, and a TTL to renew are not worth a way of their own. */
bool weir_redis_may_be_seen(const weir_operation *operation);

/* Whether one INCREX can do what it asks for. An ADD with a seed must not make its key: what comes to less
 * than a key of 1 would is refused, and goes plainly. So it needs a bound with room for that, which most of
 * its kind have. */
bool weir_redis_may_be_bounded(const weir_operation *operation);

/* What is missing from a key that this operation's own sum created: the seed of an ADD; all that a
 * SUB took. 0: nothing. */
int64_t weir_redis_owed(const weir_operation *operation, const weir_redis_attempt *attempt);

/* What a SUB creates that it then takes its delta from: seed + delta, at most what Redis can count. */
int64_t weir_redis_whole(const weir_operation *operation);

#endif
