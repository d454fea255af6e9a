/* A turn of a loop collects requests, and their answers in the order in which they came over each
 * connection.
 *
 * A request becomes an answer, a place in the order of one connection's answers, and, unless the
 * answer is known, requests, which exchange.c has decided. All of it lies in arrays that the next
 * turn uses again; places in them are numbers, as they move when they grow. The answers of one
 * connection that wait for a store become a turn of their own: pending.c. */
#ifndef WEIR_TURN_TURN_H
#define WEIR_TURN_TURN_H

#include <weir/backend.h>

#include "keep/keeper.h"
#include "protocol/bytes.h"
#include "protocol/verb.h"
#include "registry/registry.h"
#include "tell/counts.h"

#define WEIR_NO_ANSWER UINT32_MAX
#define WEIR_NO_REQUEST SIZE_MAX
#define WEIR_NO_COSTS SIZE_MAX
#define WEIR_NO_PLACE SIZE_MAX
#define WEIR_NO_SET SIZE_MAX
#define WEIR_NO_EXTRA SIZE_MAX
#define WEIR_TURN_NO_END INT64_MAX
/* In place of a store: of requests that are one decision over several, and of limits of keys, which may take
 * longer to set than any loop waits for a store. */
extern const char weir_several_stores, weir_beside_stores;
#define WEIR_SEVERAL_STORES ((const weir_store *)(const void *)&weir_several_stores)
#define WEIR_BESIDE_STORES ((const weir_store *)(const void *)&weir_beside_stores)
static inline bool weir_turn_is_one_store(const weir_store *store) {
  return store != WEIR_SEVERAL_STORES && store != WEIR_BESIDE_STORES;
}

typedef enum weir_answer_kind {
  WEIR_ANSWER_TEXT,    /* known: bytes */
  WEIR_ANSWER_REQUEST, /* one request */
  WEIR_ANSWER_GROUP,   /* several that are one: those of a group's members */
  WEIR_ANSWER_PARTS    /* the same: the descriptors of Envoy's service */
} weir_answer_kind;

typedef struct weir_answer {
  uint32_t next; /* of the same connection, or WEIR_NO_ANSWER */
  weir_answer_kind kind;
  unsigned note;             /* what the protocol must remember for its answer */
  size_t asked, asked_count; /* its requests, which stand side by side in turn->asked */
  size_t id, id_length;      /* what the caller names it by, in the turn's bytes; 0: by nothing */
  union {
    struct {
      size_t begin, length; /* in the turn's bytes */
    } text;
    struct {
      size_t index;                /* in turn->asked */
      weir_order order;            /* as far as answers need it */
      const weir_limiter *limiter; /* NULL: none is asked */
      const weir_named *named;     /* NULL: the request brought its rule */
      const char *tier;            /* of the key; "": none */
      size_t cost_count;           /* of its costs; 0: one for every rule */
    } request;
    struct {
      size_t first; /* in turn->members */
      const weir_named_group *group;
      const weir_verb_row *verb;
      unsigned form; /* weir_order.form */
      size_t set;    /* in turn->sets, or WEIR_NO_SET: no member is asked */
    } group;
    struct {
      size_t first, count;       /* in turn->parts */
      const weir_domain *domain; /* NULL: none has this name */
      size_t set;                /* in turn->sets, or WEIR_NO_SET */
      const weir_store *store;   /* of the domain */
      bool is_cancelled;
      bool is_returned;       /* what goes back of them has gone back: parts.c */
      weir_status not_given;  /* the first that could not go back; WEIR_OK: all could */
      size_t why, why_length; /* why it could not, in the turn's bytes */
    } parts;
  } is;
} weir_answer;

/* What is done apart, once all others are decided. */
typedef enum weir_asked_apart {
  WEIR_ASKED_WITH_OTHERS,
  WEIR_ASKED_RESETS,
  WEIR_ASKED_SETS_LIMIT,
  WEIR_ASKED_READS_LIMIT
} weir_asked_apart;

/* A request of the turn. */
typedef struct weir_asked {
  weir_request request;    /* its key and costs are set when it is decided */
  weir_limiter *limiter;   /* NULL: it has its answer */
  const weir_store *store; /* of the limiter: only compared */
  weir_asked_apart apart;
  bool denies_shed;  /* where too many wait: its policy denies, */
  bool refuses_shed; /* or there is no decision */
  size_t key;        /* where in `bytes` its key stands */
  size_t costs;      /* where in `costs` its own begin; WEIR_NO_COSTS: it has one for every rule */
  size_t cost_count; /* so many numbers are its own there */
  int64_t until_us;  /* of CLOCK_MONOTONIC, till when it is worth deciding, or WEIR_TURN_NO_END */
  size_t extra;      /* in `extras`: what it says of itself; or WEIR_NO_EXTRA */
  size_t place;      /* in `places`: it acquires, releases or asks about one; or WEIR_NO_PLACE */
  size_t releases, release_count; /* in `places`: what else it releases */
  bool is_of_set;                 /* one of `sets` decides it, or lets it be asked */
  /* Of one that sets or reads the limit of its key: as weir_limit has them. */
  unsigned limit_kind;
  int64_t limit, limit_for_us;
} weir_asked;

/* Requests that are decided as one: all are charged, or none. They stand side by side in turn->asked;
 * where one has its answer already (it is shed, cancelled, too late), the others are not asked. */
typedef struct weir_asked_set {
  size_t first, count;
  /* Behind them so many that have no say: charged once all of these are. */
  size_t behind;
  bool tells_all; /* of a denial: what was not asked, and what stands behind, is looked at */
  bool has_mates; /* of its answer are requests that have been decided before: what holds for
                     them holds for it, too */
  const weir_store *store; /* of all of them, or WEIR_SEVERAL_STORES */
  bool is_decided;
  bool is_charged;
  size_t denied_by; /* once it is decided: of `count`; where that is the number, none */
} weir_asked_set;

/* A group's request to one of its members. */
typedef struct weir_asked_member {
  const weir_named *named;
  const weir_limiter *limiter; /* NULL: none is asked */
  const char *tier;
  size_t request;    /* in turn->asked */
  size_t key_length; /* of its caller's key, at the end of what is counted */
  bool is_shadowed;  /* in shadow mode, with this key */
  bool has_say;      /* else it is in shadow mode, and others are not */
} weir_asked_member;

typedef struct weir_asked_place {
  size_t request;          /* in turn->asked */
  weir_kept *kept;         /* to be entered, or to be released; NULL: neither */
  const weir_store *store; /* where */
  bool releases;
  weir_place_name name; /* of what is held, once that is known */
  weir_kept_state state;
  weir_status released; /* whether the store knows */
} weir_asked_place;

/* What a request says of itself, and the same as the library reads it. */
typedef struct weir_asked_extra {
  weir_order_says says;
  weir_extra extra;
} weir_asked_extra;

/* A descriptor, kept until its answer. */
typedef struct weir_part {
  bool is_limited; /* else nothing is found for it */
  bool shadow, quota;
  bool gives_back; /* its hits go back once its request, which is a peek, is decided */
  bool only_looks; /* a peek, too, as another part is over for certain */
  weir_config_rate rate;
  weir_limiter *limiter;  /* NULL: no store is asked */
  weir_detail *detail;    /* what counts it besides; NULL: nothing */
  uint32_t limit;         /* of the descriptor file; WEIR_SERVED_NO_LIMIT: the request brought it */
  size_t request;         /* in turn->asked; WEIR_NO_REQUEST: none */
  size_t extra;           /* what it says of itself, as its request has it; or WEIR_NO_EXTRA */
  size_t key, key_length; /* in the turn's bytes */
  int64_t hits;           /* 0: a peek */
  int64_t left_us;        /* until its date is over; 0: it has none */
  int64_t returned;       /* as others were denied, so much of what it took has gone back */
} weir_part;

typedef struct weir_turn {
  weir_registry *registry;
  weir_keeper *keeper;
  unsigned loop;
  int64_t now_us; /* of CLOCK_MONOTONIC, when it began */
  weir_serve_counts *counts;
  bool uses_throttle;  /* has found limiters on demand, */
  bool uses_overrides; /* or some of a domain: until it is cleared they stay */
  /* The figures of the last request that brought its rule, and their limiter, which lives until
   * another is found: those who bring a rule mostly bring the same. NULL: none has yet. */
  int64_t last_burst, last_count, last_period_s;
  weir_limiter *last_limiter;
  weir_answer *answers;
  size_t answer_count, answer_room;
  weir_asked *asked;
  size_t asked_count, asked_room;
  weir_asked_set *sets;
  size_t set_count, set_room;
  weir_asked_member *members;
  size_t member_count, member_room;
  weir_part *parts;
  size_t part_count, part_room;
  weir_bytes bytes;
  int64_t *costs; /* of requests that have one for each rule */
  size_t cost_count, cost_room;
  weir_asked_place *places;
  size_t place_count, place_room;
  weir_asked_extra *extras;
  size_t extra_count, extra_room;
  bool has_apart;    /* some requests are */
  bool has_ends;     /* some requests have one */
  int64_t judged_us; /* the end that was looked at last, */
  bool judged_over;  /* and whether it had come: the same for all who share it */
} weir_turn;

void weir_turn_init(weir_turn *turn, unsigned loop, weir_serve_counts *counts, weir_keeper *keeper);
void weir_turn_free(weir_turn *turn);

/* The new answer's place, or WEIR_NO_ANSWER without memory. */
uint32_t weir_turn_add_text(weir_turn *turn, const char *text, size_t length);

/* The same. A request that cannot be asked (no such limiter, a rule that is none) gets a status and
 * `why` instead: then the answer is WEIR_NO_ANSWER, and *status is not WEIR_OK. */
uint32_t weir_turn_add_order(weir_turn *turn, const weir_order *order, unsigned note,
                             weir_status *status, weir_message *why);

/* Room for so many parts behind those that are there; NULL: no memory. Once they are filled in, they
 * get an answer. */
weir_part *weir_turn_part_room(weir_turn *turn, size_t count);
uint32_t weir_turn_add_parts(weir_turn *turn, size_t count, const weir_domain *domain,
                             unsigned note);

/* One request more. Its place in turn->asked, or WEIR_NO_REQUEST without memory. `flags`: those of
 * weir_request. `limiter`: NULL where the request has its answer. `store`: that of the limiter, whose
 * policy answers where too many wait; NULL: no limiter. */
typedef struct weir_turn_key {
  size_t begin, length; /* in turn->bytes */
} weir_turn_key;
size_t weir_turn_add_request(weir_turn *turn, weir_turn_key key, int64_t cost, unsigned flags,
                             weir_limiter *limiter, const weir_config_store *store);

/* Too many wait: the policy answers as for a request that ran out of its own time. */
void weir_turn_shed(weir_turn *turn, weir_asked *asked);

/* The last requests that have been added become a set: see weir_asked_set. Its place in turn->sets, or
 * WEIR_NO_SET without memory. */
size_t weir_turn_add_set(weir_turn *turn, size_t count, size_t behind, bool tells_all);

/* Whether so many more may wait; else all of a set are to be shed. */
bool weir_turn_has_room(const weir_turn *turn, size_t count);

/* The request, which has been added and costs something, acquires a place: for so long, and for no
 * connection. False: *why says why not. */
bool weir_turn_acquire(weir_turn *turn, size_t request, int64_t for_us, weir_message *why);

/* Releases places of the request's key and limiter, of this cost at most. False: no memory. */
bool weir_turn_release(weir_turn *turn, size_t request, int64_t cost);

/* The requests from `first` on get no answer: they are not asked. Places that they were to acquire are no one's,
 * and those that they release go soon. */
void weir_turn_leave_out(weir_turn *turn, size_t first);

/* The place that the request has acquired is released again, soon: the answer says that it was
 * denied. */
void weir_turn_give_back(weir_turn *turn, size_t request);

/* The caller's own name of an answer, which the log of denials tells. A text that is no such name
 * is left out. */
void weir_turn_set_id(weir_turn *turn, uint32_t answer, const char *id, size_t length);

/* What a request says of itself (NULL: nothing), and what the file says of it, to the limiter that answers it;
 * NULL: none does. *extra becomes its weir_asked.extra. What the limiter does not know is a status, and *why
 * says what is accepted. */
weir_status weir_turn_say(weir_turn *turn, const weir_order_says *said, const weir_named *named,
                          weir_limiter *limiter, size_t *extra, weir_message *why);

/* The same of what is said, and of nothing else. */
weir_status weir_turn_add_extra(weir_turn *turn, const weir_order_says *says, weir_limiter *limiter,
                                size_t *extra, weir_message *why);

/* For the library, until more are added; NULL: it says nothing. */
const weir_extra *weir_turn_write_extra(const weir_turn *turn, size_t extra);
static inline const weir_extra *weir_turn_extra(const weir_turn *turn, const weir_asked *one) {
  return one->extra != WEIR_NO_EXTRA ? weir_turn_write_extra(turn, one->extra) : NULL;
}

/* Tells what was said of it. */
void weir_turn_tell_extra(const weir_turn *turn, const weir_asked *one, weir_reply *reply);

/* Until when the request is worth deciding: those of one caller have the same end, so that all are
 * decided or none. */
void weir_turn_set_end(weir_turn *turn, size_t request, int64_t until_us);

/* Whether a request is to be decided still. One whose end has come is not; a request that shares an end
 * with one that was looked at is told the same, however late it is by now. */
bool weir_turn_judge(weir_turn *turn, weir_asked *one, int64_t now_us); /* one that has an end */
static inline bool weir_turn_is_worth(weir_turn *turn, weir_asked *one, int64_t now_us) {
  if (one->limiter == NULL) return false;
  return one->until_us == WEIR_TURN_NO_END || weir_turn_judge(turn, one, now_us);
}

/* Whether its end had come before it was decided. */
bool weir_turn_is_over(const weir_turn *turn, size_t request);

/* The parts of an answer are wanted no more: unless they have been decided already, they will not be. */
void weir_turn_cancel(weir_turn *turn, uint32_t answer);

/* Words a WEIR_ANSWER_REQUEST. The decision is kept in `decision`. */
void weir_turn_reply(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply);

/* All have been answered: the next one may begin. */
void weir_turn_clear(weir_turn *turn);

/* --- groups: several limiters that are one decision, each with a key of its own --------------------- */

/* As weir_turn_add_order(), where order->keys are there. */
uint32_t weir_groups_add(weir_turn *turn, const weir_order *order, unsigned note,
                         weir_status *status, weir_message *why);

/* Words a WEIR_ANSWER_GROUP. */
void weir_groups_reply(const weir_turn *turn, const weir_answer *answer, weir_group_reply *told);

/* --- Envoy's service: a request of several descriptors, decided in one turn and answered as one ---- */

typedef struct weir_envoy_added {
  uint32_t answer;
  bool is_last; /* of its connection in this turn, as it holds up the others */
} weir_envoy_added;

/* False: *refusal is the answer. `until_us`: when it is not worth deciding any more, or WEIR_TURN_NO_END.
 * `listener`: which lets it say something of itself, or not. Entries that do are taken out of the request. */
bool weir_envoy_add(weir_turn *turn, weir_envoy_request *request,
                    const weir_config_listener *listener, unsigned note, int64_t until_us,
                    weir_envoy_added *added, weir_envoy_refusal *refusal);

/* How an answer with parts came out, which is counted for this protocol; or false: *refusal is the
 * answer. */
bool weir_envoy_reply(const weir_turn *turn, weir_served *served, const weir_answer *slot,
                      weir_served_protocol protocol, weir_envoy_answer *answer,
                      weir_envoy_refusal *refusal);

/* --- Envoy's parts, once they are decided: what the answer comes to, and what goes back because of it ---
 *
 * Hits go back where a part has said so, and what others' denial made useless where the domain does. That asks
 * the store, a round trip for each, so it is done where its requests were. */

/* As the store says it; where requests_per_unit is 0, as if it said so. One of a set that has not been
 * charged, as others deny, is not over. */
weir_status weir_part_read(const weir_turn *turn, const weir_part *part, weir_decision *decision);

/* Whether it is over its limit, and the answer with it: not in shadow mode. */
bool weir_part_is_over(const weir_turn *turn, const weir_part *part, weir_status status,
                       const weir_decision *decision);

/* Whether its hits may have to go back. Where nothing is ever charged, as under a limit of 0, they do not. */
bool weir_part_returns(const weir_part *part);

/* Whether any part of the answer had its end before it was decided: all have one. */
bool weir_parts_are_expired(const weir_turn *turn, const weir_answer *answer);

/* Whether something may have to go back of parts that are all decided. */
bool weir_parts_may_return(const weir_turn *turn, const weir_answer *answer);

/* Has it go back, and notes what became of it. May wait for the store. */
void weir_parts_return(weir_turn *turn, weir_answer *answer);

/* --- what a verb does: find.c has the row of each; its functions stand in take.c, settle.c, place.c and limit.c */

/* The meaning of a request: the limiter that answers it, or the list that its key stands in. */
typedef struct weir_meaning {
  weir_target target;

  /* NULL: the request brought its rule, or no limiter has its name any more. */
  const weir_named *named;
  const char *prefix; /* the bytes that lead the key */
  size_t prefix_length;
  const weir_config_store *store; /* of the limiter */
  const char *counted;            /* the key with its prefix, in room behind the turn's bytes */
  size_t counted_length;
  int64_t cost;          /* under every rule, where there is no list of them */
  unsigned flags;        /* of weir_request */
  weir_kept *kept;       /* a place that is to be entered or released; NULL: none is */
  weir_kept_state state; /* of a place that is asked about */
  weir_limit limit;      /* of its key, that is to be set */
  size_t extra;          /* what it says of itself: in turn->extras, or WEIR_NO_EXTRA */
} weir_meaning;

typedef struct weir_verb_turn {
  /* Whether it may be asked so. It also makes what else the request needs: there is room for its
   * answer. */
  weir_status (*check)(weir_turn *turn, const weir_order *order, weir_meaning *found,
                       weir_message *why);
  /* The request has been added, with what every verb has: key, cost and costs. */
  void (*fill)(weir_turn *turn, const weir_order *order, const weir_meaning *found, size_t request);
  /* The reply has its subject, and the decision is as the library has made it. */
  void (*reply)(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                weir_reply *reply);
  unsigned flags; /* of weir_request */
} weir_verb_turn;

weir_status weir_check_costs(weir_turn *turn, const weir_order *order, weir_meaning *found,
                             weir_message *why);
weir_status weir_check_take(weir_turn *turn, const weir_order *order, weir_meaning *found,
                            weir_message *why);
weir_status weir_check_settle(weir_turn *turn, const weir_order *order, weir_meaning *found,
                              weir_message *why);
weir_status weir_check_acquire(weir_turn *turn, const weir_order *order, weir_meaning *found,
                               weir_message *why);
weir_status weir_check_limit(weir_turn *turn, const weir_order *order, weir_meaning *found,
                             weir_message *why);
weir_status weir_check_place(weir_turn *turn, const weir_order *order, weir_meaning *found,
                             weir_message *why);

void weir_fill_take(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                    size_t request);
void weir_fill_reset(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                     size_t request);
void weir_fill_limit(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                     size_t request);
void weir_fill_settle(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                      size_t request);
void weir_fill_acquire(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                       size_t request);
void weir_fill_place(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                     size_t request);

void weir_tell_decision(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                        weir_reply *reply);
void weir_tell_taken(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply);
void weir_tell_reset(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply);
void weir_tell_limit(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply);
void weir_tell_settled(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                       weir_reply *reply);
void weir_tell_acquired(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                        weir_reply *reply);
void weir_tell_place(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply);

weir_status weir_turn_no_memory(weir_message *why);

/* --- between the files of this folder -------------------------------------------------------------- */

/* A new answer, whose union is its caller's to fill in. NULL: no memory. */
weir_answer *weir_turn_add_answer(weir_turn *turn, weir_answer_kind kind, unsigned note);

/* An answer without a limiter. */
void weir_turn_answer_alone(weir_request *request, bool allowed, weir_decision figures);

#define WEIR_TURN_OVER INT64_C(-1) /* an end that had come */

/* NULL: there is none. */
const weir_store *weir_turn_store(const weir_turn *turn, const weir_config_store *store);

/* What a stamp must have in common with the request that it settles. `counted`: the key as it is
 * counted; `extra`: in turn->extras, or WEIR_NO_EXTRA. */
uint32_t weir_turn_mark(const weir_turn *turn, const char *counted, size_t length, const char *tier,
                        size_t extra);

/* The stamp by which a take can be settled later. */
weir_take_stamp weir_turn_stamp(const weir_turn *turn, const weir_asked *asked, const char *tier,
                                bool is_idle);

/* Decides a set. Requests that are to be asked behind it keep their limiters: the caller has them
 * decided as any others. False: none is, as some had their answers. */
bool weir_set_decide(weir_turn *turn, weir_asked_set *set);

#endif
