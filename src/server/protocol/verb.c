/* The table of verbs and arguments. */
#include "protocol/verb.h"

/* --- arguments ------------------------------------------------------------------------------------ */

static bool read_estimate(weir_order *order, weir_order_room *room, const weir_said *said,
                          weir_message *why) {
  (void)order;
  return weir_order_check_amount(&room->taken, said->name, 1, why);
}

/* The estimate has been read. */
static bool read_real(weir_order *order, weir_order_room *room, const weir_said *said,
                      weir_message *why) {
  return weir_order_check_amount(&room->cost, said->name, 0, why) &&
         weir_order_set_settlement(order, &room->taken, &room->cost, why);
}

/* To give back is to settle nothing in place of what was taken. */
static bool read_given(weir_order *order, weir_order_room *room, const weir_said *said,
                       weir_message *why) {
  room->cost = (weir_order_amount){.count = room->taken.count};
  return weir_order_check_amount(&room->taken, said->name, 1, why) &&
         weir_order_set_settlement(order, &room->taken, &room->cost, why);
}

static bool read_cost(weir_order *order, weir_order_room *room, const weir_said *said,
                      weir_message *why) {
  weir_order_set_cost(order, &room->cost);
  return weir_order_check_amount(&room->cost, said->name, 1, why);
}

static bool read_stamp(weir_order *order, weir_order_room *room, const weir_said *said,
                       weir_message *why) {
  (void)room;
  return weir_order_read_stamp(order, said->text, said->length, why);
}

static bool read_value(weir_order *order, weir_order_room *room, const weir_said *said,
                       weir_message *why) {
  (void)room;
  order->value = said->text;
  order->value_length = said->length;
  if (said->length > 0 && said->length <= WEIR_ORDER_VALUE_MOST) return true;
  *why = (weir_message){"the limit: a number, a tier, blocked, unlimited or none is accepted"};
  return false;
}

static bool read_place(weir_order *order, weir_order_room *room, const weir_said *said,
                       weir_message *why) {
  (void)room;
  return weir_order_read_place(order, said->text, said->length, why);
}

static bool read_time(weir_order *order, weir_order_room *room, const weir_said *said,
                      weir_message *why) {
  (void)room;
  return weir_order_read_time(order, said->text, said->length, why);
}

static bool read_up_to(weir_order *order, weir_order_room *room, const weir_said *said,
                       weir_message *why) {
  (void)room;
  (void)said;
  (void)why;
  order->up_to = true;
  return true;
}

weir_order_says *weir_order_say(weir_order *order, weir_order_room *room) {
  if (order->says == NULL) room->says = (weir_order_says){.limit = 0};
  order->says = &room->says;
  return &room->says;
}

static bool read_class(weir_order *order, weir_order_room *room, const weir_said *said,
                       weir_message *why) {
  return weir_order_read_class(weir_order_say(order, room), said->text, said->length, why);
}

static bool read_limit(weir_order *order, weir_order_room *room, const weir_said *said,
                       weir_message *why) {
  (void)said;
  return weir_order_read_limit(weir_order_say(order, room), &room->limit, why);
}

static bool read_tenant(weir_order *order, weir_order_room *room, const weir_said *said,
                        weir_message *why) {
  return weir_order_read_tenant(weir_order_say(order, room), said->text, said->length, why);
}

enum {
  COST = offsetof(weir_order_room, cost),
  TAKEN = offsetof(weir_order_room, taken),
  LIMIT = offsetof(weir_order_room, limit)
};

const weir_arg_row weir_args[WEIR_ARGS] = {
    [WEIR_ARG_KEY] = {WEIR_ARG_IS_KEY, .json = "key"},
    [WEIR_ARG_KEYS] = {WEIR_ARG_IS_KEY, .json = "keys"},
    [WEIR_ARG_VALUE] = {WEIR_ARG_IS_TEXT, .resp = "value", .read = read_value},
    [WEIR_ARG_ESTIMATE] = {WEIR_ARG_IS_AMOUNT, "estimate", "estimate", "estimate", "N", TAKEN,
                           read_estimate},
    [WEIR_ARG_GIVEN] = {WEIR_ARG_IS_AMOUNT, "cost", "cost", "n", "N", TAKEN, read_given},
    [WEIR_ARG_STAMP] = {WEIR_ARG_IS_TEXT, "stamp", "stamp", "STAMP", "TEXT", 0, read_stamp},
    [WEIR_ARG_REAL] = {WEIR_ARG_IS_AMOUNT, "real", "real", "real", "N", COST, read_real},
    [WEIR_ARG_PLACE] = {WEIR_ARG_IS_TEXT, "place", "place", "place", "TEXT", 0, read_place},
    [WEIR_ARG_COST] = {WEIR_ARG_IS_AMOUNT, "cost", "cost", "COST", "N", COST, read_cost},
    [WEIR_ARG_FOR] = {WEIR_ARG_IS_TEXT, "for", "for", "FOR", "TEXT", 0, read_time},
    [WEIR_ARG_UP_TO] = {WEIR_ARG_IS_FLAG, "up_to", NULL, "UPTO", NULL, 0, read_up_to},
    [WEIR_ARG_CLASS] = {WEIR_ARG_IS_NAME, "class", "class", "CLASS", "NAME", 0, read_class},
    [WEIR_ARG_LIMIT] = {WEIR_ARG_IS_NUMBER, "limit", "limit", "LIMIT", "N", LIMIT, read_limit},
    [WEIR_ARG_TENANT] = {WEIR_ARG_IS_NAME, "tenant", "tenant", "TENANT", "NAME", 0, read_tenant},
};

weir_order_amount *weir_arg_amount(weir_arg arg, weir_order_room *room) {
  return (void *)((char *)room + weir_args[arg].amount);
}

void weir_arg_read_amount(weir_arg arg, weir_order_room *room, const char *text, size_t length) {
  weir_order_amount *amount = weir_arg_amount(arg, room);
  if (!weir_order_read_amount(text, length, amount)) *amount = (weir_order_amount){1, {-1}};
}

/* --- verbs ---------------------------------------------------------------------------------------- */

enum {
  K = 1 << WEIR_ARG_KEY,
  KS = 1 << WEIR_ARG_KEYS,
  V = 1 << WEIR_ARG_VALUE,
  E = 1 << WEIR_ARG_ESTIMATE,
  G = 1 << WEIR_ARG_GIVEN,
  S = 1 << WEIR_ARG_STAMP,
  R = 1 << WEIR_ARG_REAL,
  P = 1 << WEIR_ARG_PLACE,
  C = 1 << WEIR_ARG_COST,
  F = 1 << WEIR_ARG_FOR,
  U = 1 << WEIR_ARG_UP_TO,
  SAYS = 1 << WEIR_ARG_CLASS | 1 << WEIR_ARG_LIMIT | 1 << WEIR_ARG_TENANT
};

#define OF_SAYS "CLASS NAME, LIMIT N and TENANT NAME are accepted behind the "
#define OF_TAKE "COST N, UPTO, " OF_SAYS "key"
#define OF_SETTLE "STAMP TEXT, " OF_SAYS "costs"
#define OF_LIMIT "FOR DURATION is accepted behind the value"
#define OF_ACQUIRE "COST N, FOR DURATION, " OF_SAYS "key"

enum {
  TAKES = WEIR_VERB_DECIDES | WEIR_VERB_GROUPS | WEIR_VERB_STAMPS,
  PEEKS = WEIR_VERB_DECIDES | WEIR_VERB_GROUPS | WEIR_VERB_LOOKS,
  ACQUIRES = WEIR_VERB_DECIDES | WEIR_VERB_HOLDS,
  RELEASES = WEIR_VERB_OF_PLACE | WEIR_VERB_RELEASES,
  LIMITS = WEIR_VERB_OF_LIMIT | WEIR_VERB_ENDS_TURN,
  SETS = LIMITS | WEIR_VERB_SETS_LIMIT
};

const weir_verb_row weir_verbs[WEIR_VERBS] = {
    [WEIR_VERB_TAKE] = {"WEIR.TAKE", "/take", "/check/", 0, K | KS | C | U | SAYS, TAKES,
                        .usage = OF_TAKE},
    [WEIR_VERB_PEEK] = {"WEIR.PEEK", "/peek", NULL, 0, K | KS | C | U | SAYS, PEEKS,
                        .usage = OF_TAKE},
    [WEIR_VERB_RESET] = {"WEIR.RESET", "/reset", NULL, 0, K, WEIR_VERB_ENDS_TURN, .usage = NULL},
    [WEIR_VERB_SETTLE] = {"WEIR.SETTLE", "/settle", "/settle/", K | E | R, K | E | R | S | SAYS,
                          WEIR_VERB_SETTLES, .usage = OF_SETTLE},
    [WEIR_VERB_REFUND] = {"WEIR.REFUND", "/refund", NULL, K | G, K | G | S | SAYS,
                          WEIR_VERB_SETTLES, .usage = OF_SETTLE},
    [WEIR_VERB_ACQUIRE] = {"WEIR.ACQUIRE", "/acquire", "/acquire/", K, K | C | F | SAYS, ACQUIRES,
                           .usage = OF_ACQUIRE},
    [WEIR_VERB_RELEASE] = {"WEIR.RELEASE", "/release", "/release/", K | P, K | P, RELEASES,
                           .usage = NULL},
    [WEIR_VERB_HELD] = {"WEIR.HELD", "/held", NULL, K | P, K | P, WEIR_VERB_OF_PLACE,
                        .usage = NULL},
    [WEIR_VERB_LIMIT_SET] = {"WEIR.LIMIT", NULL, NULL, K | V, K | V | F, SETS, OF_LIMIT, "SET",
                             "PUT"},
    [WEIR_VERB_LIMIT_GET] = {"WEIR.LIMIT", NULL, NULL, K, K, LIMITS, NULL, "GET", "GET"},
    [WEIR_VERB_LIMIT_UNSET] = {"WEIR.LIMIT", NULL, NULL, K, K, SETS, NULL, "UNSET", "DELETE"},
};
