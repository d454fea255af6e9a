/* The question of a request, in whichever protocol it came, and its answer. */
#ifndef WEIR_PROTOCOL_ORDER_H
#define WEIR_PROTOCOL_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/http.h>
#include <weir/limiter.h>
#include <weir/weir.h>

#include "config/config.h"

/* --- names of places ----------------------------------------------------------------------------
 *
 * The name of a place that the server holds for a client: "5f3a9c20-17-8be01f44". The server that
 * gave it, which of its places it is, and a number that no other client can guess. */

enum { WEIR_PLACE_NAME_BYTES = 40 }; /* of its text, with the end */

typedef struct weir_place_name {
  bool is_none; /* "-": nothing is held, as the key is in a list or the limiter in shadow mode */
  uint32_t server;
  uint64_t number;
  uint32_t secret;
} weir_place_name;

/* The text's length. */
size_t weir_place_name_write(const weir_place_name *name, char text[WEIR_PLACE_NAME_BYTES]);

/* False: it is no text that weir_place_name_write() writes. */
bool weir_place_name_read(const char *text, size_t length, weir_place_name *name);

/* --- stamps -------------------------------------------------------------------------------------
 *
 * The stamp of an answer: what must be known of a take when it is settled, as a text that any client can
 * hand back. "1764028800123456.store.1f3a9c20": the time that it was decided for, who decided, and a
 * mark of limiter, key, tier and tenant, so that it settles nothing else.
 *
 * The mark is no secret: it finds mistakes, not clients that mean harm. Any server that has the same
 * limiters reads the stamps of the others. */

enum { WEIR_STAMP_BYTES = 40 }; /* of its text, with the end */

typedef struct weir_take_stamp {
  int64_t at_us; /* weir_decision.at_us */
  weir_source source;
  bool is_idle; /* nothing was charged: the key is in a list, or the limiter in shadow mode */
  uint32_t mark;
} weir_take_stamp;

/* "store", "local", "fallback", "late", "unlimited"; "settled", which no stamp has. */
const char *weir_source_name(weir_source source);

/* The store did not decide. */
static inline bool weir_source_is_policy(weir_source source) {
  return source == WEIR_SOURCE_FALLBACK || source == WEIR_SOURCE_LATE;
}

/* `counted`: the key as it is counted, led by its limiter's name. `tenant`: nothing, where the limiter
 * has none. */
uint32_t weir_stamp_mark(const char *counted, size_t length, const char *tier, const char *tenant,
                         size_t tenant_length);

/* The text's length. */
size_t weir_stamp_write(const weir_take_stamp *stamp, char text[WEIR_STAMP_BYTES]);

/* False: it is no text that weir_stamp_write() writes. */
bool weir_stamp_read(const char *text, size_t length, weir_take_stamp *stamp);

/* --- what is asked and answered -----------------------------------------------------------------
 */

struct weir_verb_row; /* of protocol/verb.h */

enum { WEIR_ORDER_OWN_COST = 0, WEIR_ORDER_COSTS_MOST = 8, WEIR_ORDER_VALUE_MOST = 64 };
#define WEIR_ORDER_COST_MOST (INT64_C(1) << 31)
#define WEIR_ORDER_OWN_TIME INT64_C(0)

/* A cost for every rule, or one for each. */
typedef struct weir_order_amount {
  size_t count; /* 1: for every rule */
  int64_t each[WEIR_ORDER_COSTS_MOST];
} weir_order_amount;

/* What a request says of itself. */
enum { WEIR_ORDER_TENANT_MOST = 128 };
typedef struct weir_order_says {
  int64_t limit; /* 0: it says none. The same below */
  size_t class_length;
  size_t tenant_length;
  bool class_is_given, tenant_is_given;   /* by the file: dropped where a limiter has none */
  char class_name[WEIR_CLASS_NAME_BYTES]; /* with its NUL */
  char tenant[WEIR_ORDER_TENANT_MOST];
} weir_order_says;

/* A key of a group's, in the request's own bytes. */
typedef struct weir_order_key {
  const char *bytes;
  size_t length;
} weir_order_key;

/* Limiter and key stand in the request's own bytes, costs and keys where they were read into. */
typedef struct weir_order {
  const struct weir_verb_row *verb;
  bool up_to;
  bool brings_rule; /* no limiter, but the three figures below */
  unsigned form;    /* how the protocol words the answer: its own enumeration */
  size_t key_length;
  int64_t cost; /* for every rule; WEIR_ORDER_OWN_COST: the limiter's own */
  int64_t burst, count, period_s;
  int64_t taken; /* to settle, where cost and costs are what it cost in truth, which may be 0 */
  /* Its answer needs what stands above, and no more of it is kept till then. */
  const char *limiter;
  size_t limiter_length;
  const char *key;
  const weir_order_key *keys; /* of a group instead: one for each of its members; NULL: `key` */
  size_t key_count;
  const weir_order_amount *costs;  /* one for each rule instead; NULL: `cost` */
  const weir_order_amount *takens; /* of as many as costs; NULL: `taken` */
  const weir_order_says *says;     /* NULL: nothing */
  bool has_stamp;                  /* to settle: what was taken */
  weir_take_stamp stamp;
  int64_t for_us;    /* to acquire, or of a limit: for how long, or WEIR_ORDER_OWN_TIME */
  const char *value; /* the limit that a key is to have, as text */
  size_t value_length;
  weir_place_name place;      /* to release, and to ask whether it is held */
  struct weir_holder *holder; /* the connection whose end releases it; NULL: none's */
  const char *client;         /* who acquires, as operators are told; NULL: not known */
} weir_order;

/* A cost that no bucket holds is never admitted; its answer says how the bucket stands all the
 * same. */
static inline bool weir_order_never_fits(const weir_order *order) {
  return order->brings_rule && order->cost > order->burst;
}

/* A caller names its request for the log by 1 to so many bytes of printable ASCII without '"' and
 * '\'. */
enum { WEIR_ORDER_ID_MOST = 64 };
bool weir_order_is_id(const char *bytes, size_t length);

/* The one who asked, and is answered. */
typedef struct weir_reply_subject {
  const weir_limiter *limiter; /* who decided; NULL: no limiter was asked */
  const char *name;            /* of the limiter, or group; NULL: the request brought its rule */
  const char *group;           /* whose member this is; NULL: none's */
  weir_config_headers headers; /* of the limiter */
  const char *key;
  size_t key_length;
  const char *class_name; /* that it was decided for; NULL: none */
  const char *tenant;     /* the same */
  size_t tenant_length;
  const char *id;   /* what the caller names the request by */
  size_t id_length; /* 0: by nothing */
} weir_reply_subject;

/* The part of an answer besides its decision. */
typedef enum weir_reply_kind {
  WEIR_REPLY_PLAIN,   /* nothing */
  WEIR_REPLY_TAKEN,   /* a stamp: something was taken, which can be settled by it */
  WEIR_REPLY_SETTLED, /* how a settlement came out */
  WEIR_REPLY_HELD,    /* a place: one was acquired, or asked about */
  WEIR_REPLY_GROUP,   /* members: a group has no key and no stamp of its own */
  WEIR_REPLY_LIMIT    /* the limit of a key */
} weir_reply_kind;

typedef struct weir_reply_settled {
  int64_t up, down, cut; /* charged besides, given back, and charged nowhere */
} weir_reply_settled;

typedef struct weir_reply_held {
  weir_place_name place;
  bool is_held;          /* now, or of what was released, until now */
  uint64_t token;        /* 0 where it is not held */
  int64_t held_until_us; /* by the clock of the day; 0 where it is not held */
  weir_status store;     /* released: whether the store knows */
} weir_reply_held;

typedef struct weir_reply_group {
  const struct weir_reply *members; /* what each would be answered */
  size_t member_count;
  size_t speaker;        /* the member whose figures these are */
  const char *denied_by; /* the name of the one that denies; NULL: none does */
} weir_reply_group;

typedef struct weir_reply_limit {
  weir_limit limit;                 /* what is set, or was to be, ... */
  char text[WEIR_LIMIT_NAME_BYTES]; /* ... as text */
  const char *client;               /* who has asked, as operators are told; NULL: not known */
} weir_reply_limit;

/* An answer that is to be worded. */
typedef struct weir_reply {
  weir_status status;            /* WEIR_OK: there is a decision, or the key is reset */
  const char *why;               /* of any other status */
  const weir_decision *decision; /* NULL of a reset, and of a place */
  const int64_t *costs;          /* what is charged under each rule, cost_count of them; NULL: */
  size_t cost_count;             /* the decision's cost, under every rule */
  bool is_shadowed;              /* a denial, answered as allowed */
  int64_t retry_after_us;        /* as decided, also where it is shadowed */
  weir_reply_subject of;
  weir_reply_kind kind; /* which of these it has */
  union {
    weir_take_stamp stamp;
    weir_reply_settled settled;
    weir_reply_held held;
    weir_reply_group group;
    weir_reply_limit limit;
  } is;
} weir_reply;

/* The answers to a group: of the whole, and of each member. */
typedef struct weir_group_reply {
  weir_reply whole;
  weir_decision decision; /* the whole's */
  weir_reply members[WEIR_CONFIG_MEMBERS_MOST];
  weir_decision decisions[WEIR_CONFIG_MEMBERS_MOST];
  bool counts[WEIR_CONFIG_MEMBERS_MOST]; /* whether it has decided something */
} weir_group_reply;

/* The stamp of what was taken; of a group one for each member, between commas. 0: there is none. */
enum { WEIR_REPLY_STAMPS_BYTES = WEIR_CONFIG_MEMBERS_MOST * (WEIR_STAMP_BYTES + 1) };
size_t weir_reply_write_stamps(const weir_reply *reply, char text[WEIR_REPLY_STAMPS_BYTES]);

/* --- Envoy's rate limit service, in whichever form it comes --------------------------------------
 */

enum {
  WEIR_ENVOY_DESCRIPTORS_MOST = 64, /* of one request */
  WEIR_ENVOY_RETURNS_MOST = 8,      /* of them, those that give back: each is a round trip */
  WEIR_ENVOY_ENTRIES_MOST = 512     /* of all its descriptors */
};

typedef struct weir_envoy_descriptor {
  const weir_entry *entries;
  size_t count;
  int64_t hits;    /* 0: a peek */
  bool gives_back; /* so many are not charged but go back */
  bool has_limit;  /* instead of the descriptor file's: */
  int64_t requests;
  weir_config_unit unit;
} weir_envoy_descriptor;

/* Why a request has no answer. Every protocol has its own word for each. */
typedef enum weir_envoy_failure {
  WEIR_ENVOY_WELL,
  WEIR_ENVOY_BAD_REQUEST, /* it is not one, or asks for more than is offered */
  WEIR_ENVOY_NO_FILES,    /* the configuration has no descriptor files */
  WEIR_ENVOY_UNAVAILABLE, /* no decision, or no memory for one */
  WEIR_ENVOY_EXPIRED      /* its time was over before it was decided: nothing is charged */
} weir_envoy_failure;

typedef struct weir_envoy_refusal {
  weir_envoy_failure failure;
  weir_message why;
} weir_envoy_refusal;

/* Texts stand in the request's own bytes. */
typedef struct weir_envoy_request {
  const char *domain;
  size_t domain_length;
  weir_envoy_descriptor descriptors[WEIR_ENVOY_DESCRIPTORS_MOST];
  size_t count;
  weir_entry entries[WEIR_ENVOY_ENTRIES_MOST];
  size_t entry_count;
} weir_envoy_request;

typedef struct weir_envoy_status {
  bool is_over;
  bool has_limit; /* else nothing matched, or it is unlimited */
  int64_t requests;
  weir_config_unit unit;
  const char *name;       /* NULL: none */
  int64_t remaining;      /* negative: not known; UINT32_MAX: unlimited */
  int64_t reset_after_us; /* negative: not known */
} weir_envoy_status;

typedef struct weir_envoy_answer {
  bool is_over;
  weir_envoy_status statuses[WEIR_ENVOY_DESCRIPTORS_MOST]; /* in the order of the request */
  size_t count;
  weir_http_field fields[WEIR_HTTP_FIELDS_MOST]; /* to be added to the response */
  size_t field_count;
} weir_envoy_answer;

/* --- what all protocols do alike ----------------------------------------------------------------
 */

/* Whole seconds, rounded up; what is negative (WEIR_NEVER, WEIR_NOT_KNOWN) is -1. */
int64_t weir_seconds_up(int64_t us);

/* A whole number, all of it, of at most 18 digits, with or without a minus. False: it is none. */
bool weir_order_number(const char *text, size_t length, int64_t *number);

/* Numbers between commas: "480", "1,480". False: they are none, or too many. */
bool weir_order_read_amount(const char *text, size_t length, weir_order_amount *amount);

/* Whether these are costs: from `least` to WEIR_ORDER_COST_MOST, of several one of them. False: *why says
 * what is accepted for what is called `name`. */
bool weir_order_check_amount(const weir_order_amount *amount, const char *name, int64_t least,
                             weir_message *why);

/* Passes them on: as one number, or as they are. */
void weir_order_set_cost(weir_order *order, const weir_order_amount *amount);

/* The same of what is settled. False: *why says what is wrong with it. */
bool weir_order_set_settlement(weir_order *order, const weir_order_amount *taken,
                               const weir_order_amount *real, weir_message *why);

/* Reads what a request says of itself. The same. */
bool weir_order_read_class(weir_order_says *says, const char *text, size_t length,
                           weir_message *why);
bool weir_order_read_limit(weir_order_says *says, const weir_order_amount *amount,
                           weir_message *why);
bool weir_order_read_tenant(weir_order_says *says, const char *text, size_t length,
                            weir_message *why);

/* Which it says: WEIR_CONFIG_CLASS and so on. NULL: nothing. */
unsigned weir_order_claims(const weir_order_says *says);

/* Whether the listener lets requests say these. The same. */
bool weir_order_may_say(unsigned claims, const weir_config_listener *listener, weir_message *why);

/* Reads for how long a place is to be held. The same. */
bool weir_order_read_time(weir_order *order, const char *text, size_t length, weir_message *why);

/* Reads what a place is called. The same. */
bool weir_order_read_place(weir_order *order, const char *text, size_t length, weir_message *why);

/* Reads a stamp. False: *why says that it is none. */
bool weir_order_read_stamp(weir_order *order, const char *text, size_t length, weir_message *why);

/* Whether two secrets are the same, in a time that tells nothing about `known`. */
bool weir_secret_equals(const char *known, size_t known_length, const char *given,
                        size_t given_length);

#endif
