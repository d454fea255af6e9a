/* The verbs that clients have, and the arguments of each: the table that every protocol reads by.
 *
 *     words, a query, JSON ──> its row: which arguments ──> each argument's row: how it is read ──> weir_order
 *
 * CL.THROTTLE, THROTTLE and the descriptors of Envoy are none of them: they bring their rule, or name none,
 * and come to a take or a peek. */
#ifndef WEIR_PROTOCOL_VERB_H
#define WEIR_PROTOCOL_VERB_H

#include "protocol/order.h"

/* In the order in which messages name them. Those that a verb needs are read in this order as well.
 * HTTP reads the others from the last to the first, as it always has: a client that sends two wrong
 * ones is told of the last. RESP reads them as they come. */
typedef enum weir_arg {
  WEIR_ARG_KEY,
  WEIR_ARG_KEYS,  /* of a group, in place of the key */
  WEIR_ARG_VALUE, /* the limit of a key, as text */
  WEIR_ARG_ESTIMATE,
  WEIR_ARG_GIVEN, /* what goes back: an estimate that has cost nothing */
  WEIR_ARG_STAMP,
  WEIR_ARG_REAL,
  WEIR_ARG_PLACE,
  WEIR_ARG_COST,
  WEIR_ARG_FOR,
  WEIR_ARG_UP_TO,
  WEIR_ARG_CLASS, /* what a request says of itself */
  WEIR_ARG_LIMIT,
  WEIR_ARG_TENANT,
  WEIR_ARGS
} weir_arg;

typedef enum weir_arg_kind {
  WEIR_ARG_IS_KEY, /* keys are read by each protocol: where they stand is its own */
  WEIR_ARG_IS_TEXT,
  WEIR_ARG_IS_NAME, /* a text that may have any bytes, so a query escapes them */
  WEIR_ARG_IS_AMOUNT,
  WEIR_ARG_IS_NUMBER, /* an amount that is no list */
  WEIR_ARG_IS_FLAG    /* it is there, or true */
} weir_arg_kind;

/* What a request has besides, for weir_order to point to. */
typedef struct weir_order_room {
  weir_order_amount cost, taken, limit;
  weir_order_says says;
  weir_order_key keys[WEIR_CONFIG_MEMBERS_MOST];
} weir_order_room;

/* An argument as it came. An amount stands in the room. */
typedef struct weir_said {
  const char *name; /* what the protocol calls it */
  const char *text; /* NULL: it is no text, or was not sent */
  size_t length;
  bool is_set; /* a flag of JSON, which may be false */
} weir_said;

typedef struct weir_arg_row {
  weir_arg_kind kind;
  const char *json;  /* its member */
  const char *query; /* its argument; NULL: it has none */

  /* The word in front of it. One that its verb needs has no word: then its name. */
  const char *resp;
  const char *sample; /* of its argument */
  size_t amount;      /* where in weir_order_room */
  /* False: *why says what is accepted. */
  bool (*read)(weir_order *order, weir_order_room *room, const weir_said *said, weir_message *why);
} weir_arg_row;

extern const weir_arg_row weir_args[WEIR_ARGS];

/* Traits of a verb, for the rest of the server. */
enum {
  WEIR_VERB_DECIDES = 1 << 0,  /* its answer counts as a decision */
  WEIR_VERB_LOOKS = 1 << 1,    /* and charges nothing */
  WEIR_VERB_GROUPS = 1 << 2,   /* a group can be asked, too */
  WEIR_VERB_STAMPS = 1 << 3,   /* what it charges can be settled */
  WEIR_VERB_SETTLES = 1 << 4,  /* its answer counts as a settlement */
  WEIR_VERB_HOLDS = 1 << 5,    /* gives a place */
  WEIR_VERB_OF_PLACE = 1 << 6, /* is about one: its limiter may have left the configuration */
  WEIR_VERB_RELEASES = 1 << 7,
  WEIR_VERB_ENDS_TURN = 1 << 8, /* what its client sends behind it waits for the next turn */
  WEIR_VERB_OF_LIMIT = 1 << 9,  /* is about the limit of a key: its listener must allow it */
  WEIR_VERB_SETS_LIMIT = 1 << 10
};

typedef enum weir_verb {
  WEIR_VERB_TAKE,
  WEIR_VERB_PEEK,
  WEIR_VERB_RESET,
  WEIR_VERB_SETTLE,
  WEIR_VERB_REFUND, /* to settle less: nothing */
  WEIR_VERB_ACQUIRE,
  WEIR_VERB_RELEASE,
  WEIR_VERB_HELD,
  WEIR_VERB_LIMIT_SET,
  WEIR_VERB_LIMIT_GET,
  WEIR_VERB_LIMIT_UNSET,
  WEIR_VERBS
} weir_verb;

typedef struct weir_verb_row {
  const char *resp; /* its command, */
  const char *post; /* and its path for JSON; NULL: it has the two below */

  /* What stands in front of the limiter's name, for proxies; NULL: nothing does. */
  const char *path;

  /* 1 << weir_arg; what is needed is accepted, too. A key that is not needed may have keys in its place: that there is
   * one of them is looked at apart, in words of its own, and so it has always been of what resets. */
  unsigned needs, accepts;
  unsigned flags;
  const char *usage;  /* RESP's answer to what is none of its words; NULL: it has none */
  const char *word;   /* of a command that has several: the word behind its name; NULL: it is one */
  const char *method; /* what is asked of WEIR_VERB_LIMITS by it; its value is the body */
} weir_verb_row;

extern const weir_verb_row weir_verbs[WEIR_VERBS];

/* Before LIMITER/KEY, which are percent-encoded. */
#define WEIR_VERB_LIMITS "/limits/"

static inline bool weir_order_is(const weir_order *order, unsigned flags) {
  return order->verb->flags & flags;
}

static inline bool weir_verb_needs(const weir_verb_row *verb, size_t arg) {
  return verb->needs >> arg & 1;
}

static inline bool weir_verb_accepts(const weir_verb_row *verb, size_t arg) {
  return verb->accepts >> arg & 1;
}

/* Where what a request says of itself goes: the first that it says makes room for all. */
weir_order_says *weir_order_say(weir_order *order, weir_order_room *room);

static inline bool weir_arg_is_amount(const weir_arg_row *row) {
  return row->kind == WEIR_ARG_IS_AMOUNT || row->kind == WEIR_ARG_IS_NUMBER;
}

/* Numbers that are text. Texts that are no number are refused by the row's read(). */
void weir_arg_read_amount(weir_arg arg, weir_order_room *room, const char *text, size_t length);

/* Where it goes. */
weir_order_amount *weir_arg_amount(weir_arg arg, weir_order_room *room);

#endif
