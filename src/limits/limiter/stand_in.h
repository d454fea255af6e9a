/* What may answer a request in the place of the store, or ride along with the group that asks it.
 *
 *     join    came ──> answer ──> divert ──> the line
 *     lead    begin ──> wrap (a group) ──> absorb (the first round) ... after (a group) ──> led
 *
 * A limiter has one that knows: a denial, or where rules have a lease, lots; what is owed there changes
 * what is denied. The other is the account of an outage. An entry has a bit for each that has something to
 * say of its key (memo/table.h), and without it is not asked: a key without denial, lot or account costs a
 * test or two. The driver names none of them, and they do not name the driver's way.
 *
 * Whatever gets an entry, or a group, has its shard locked. One that knows needs `answer`, `deny` and
 * `after`; one that diverts needs `divert`, `wrap`, `after`, `forget` and `let_go`. Any other of its own may
 * be NULL: nothing is to be done. Only the one that knows is asked for `room`, `came`, `begin`, `absorb`,
 * `drop` and `led`.
 */
#ifndef WEIR_LIMITER_STAND_IN_H
#define WEIR_LIMITER_STAND_IN_H

#include "limiter/call.h"

/* What became of a request that came. */
typedef enum weir_found {
  WEIR_PASS,     /* nothing: it goes on */
  WEIR_ANSWERED, /* it has its answer */
  WEIR_PAST      /* the store is away, and it goes past those who find out whether that is back */
} weir_found;

typedef struct weir_stand_in {
  bool needs_text;    /* the key's, also where the store takes identities */
  bool keeps_members; /* what it admits no member of a decision gives up */
  bool one_cost;      /* costs that are all the same are one cost to it */

  /* What a call of so many requests keeps for it: bytes, and operations beside those of its groups. */
  size_t (*room)(const struct weir_limiter *limiter, size_t count, size_t *operations);

  /* A request has come, whether it is answered or not, and whether the entry has the bit or not. */
  void (*came)(struct weir_limiter *limiter, weir_memo_entry *entry, const weir_claim *request,
               weir_moment at);

  /* Answers it without the store; the second only where it is denied, and it takes part in nothing. */
  bool (*answer)(struct weir_limiter *limiter, weir_memo_entry *entry, weir_waiting *request,
                 weir_moment at);
  bool (*deny)(struct weir_limiter *limiter, weir_memo_entry *entry, weir_claim *request,
               int64_t now_us);

  /* `earlier`: a request of its call that waits for the key; or NULL. */
  weir_found (*divert)(struct weir_limiter *limiter, weir_memo_entry *entry, weir_waiting *request,
                       const weir_waiting *earlier, weir_moment at);

  /* Before a call leads: plans operations of its own, that come first in the round and have their names
   * already. Then takes in their outcomes. And when all groups are finished. No shard is locked. */
  void (*begin)(weir_call *call);
  void (*absorb)(weir_call *call);
  void (*led)(weir_call *call);

  /* A group is about to start: adds requests to it, answers them or takes them off; and says with
   * which memo and how late it starts. When it is decided: takes its own off again. */
  void (*wrap)(weir_call *call, weir_group *group);
  void (*after)(weir_call *call, weir_group *group);

  /* The clock was set back: what it has of the key means nothing more. And the key is blocked, or
   * unlimited: nothing more may be admitted by it. */
  void (*forget)(struct weir_limiter *limiter, weir_memo_entry *entry);
  void (*drop)(struct weir_limiter *limiter, weir_memo_entry *entry);

  /* The table gives the entry up, `last`: as none else makes room. The one that diverts lets go. */
  weir_parting (*let_go)(struct weir_limiter *limiter, weir_memo_entry *entry, bool last);
} weir_stand_in;

extern const weir_stand_in weir_denial_stand_in; /* known.c */
extern const weir_stand_in weir_lease_stand_in;
extern const weir_stand_in weir_account_stand_in;

/* --- what is known (known.c) -------------------------------------------------------------------
 */

/* How far it goes to answer a request. */
typedef enum weir_reach {
  WEIR_SHOWN, /* waits for no lock */
  WEIR_LOCKED, /* asks the key's entry as well; it joins nothing, and waits for no thread that asks a store */
  WEIR_ALL_KEYS /* of several keys that are one decision: denies at most, and takes part in nothing */
} weir_reach;

/* Answers a request by what is known, the only way to do so without joining; and else leaves it as it was:
 * false. Of several keys *must_look says whether this one must be looked at before it is charged. */
bool weir_know(struct weir_limiter *limiter, weir_waiting *request, const weir_key *key,
               weir_moment at, weir_reach reach, bool *must_look);

/* A limiter that knows denials keeps what the memo of a locked entry says now. */
void weir_known_keep(const struct weir_limiter *limiter, weir_memo_entry *entry);

/* Has what a locked entry denies be found without its lock, or nothing where it denies nothing. */
void weir_known_show(const struct weir_limiter *limiter, weir_memo_entry *entry);

#endif
