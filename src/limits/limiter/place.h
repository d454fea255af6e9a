/* Places: what this process holds under rules that are held (weir_rule_is_held), by key.
 *
 *     NEW ──> HELD ─┬──────────> LEFT      released: first it stops believing, then the store is told
 *              ^    ├──> LOST ──> LEFT     not paid for in time: it does not count as held again
 *              │    └──> SPARE ─> LEFT     empty, kept for a next caller of this process (lease=)
 *              └───────────┘       │
 *                         UNSENT <─┘       the store could not be told, and is with a next try
 *
 * A place is held until the guard before the end of what it has paid for, by the limiter's clock and
 * by CLOCK_BOOTTIME as that stood when it was paid: past either it is lost. Renewals are planned per
 * key: all that is due there is one payment, and who leaves meanwhile waits for its answer, so that
 * what goes back is what was paid.
 *
 * Files: place.c knows the places and asks no store; pay.c pays for them, and gives spares back;
 * reserve.c enters and leaves.
 */
#ifndef WEIR_LIMITER_PLACE_H
#define WEIR_LIMITER_PLACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/limiter.h>

#include "limiter/renew.h"
#include "rule/rule.h"
#include "table.h"

struct weir_limiter;
typedef struct weir_held_key weir_held_key;

typedef enum weir_place_state {
  WEIR_PLACE_NEW,
  WEIR_PLACE_HELD,
  WEIR_PLACE_SPARE,
  WEIR_PLACE_UNPAID,
  WEIR_PLACE_LEFT,
  WEIR_PLACE_UNSENT
} weir_place_state;

typedef struct weir_held_place {
  weir_held_key *key; /* NULL: in no table, as NEW and LEFT are, and what a policy admitted */
  struct weir_held_place *next, *previous; /* of its key */
  weir_place_state state;
  bool tried;        /* UNSENT: what is known of its key counts it no more */
  unsigned renewing; /* rules whose payment is under way with it, one bit each */
  uint64_t token;
  int64_t at_us;                  /* the stamp of its charge */
  int64_t costs[WEIR_RULES_MOST]; /* of rules that are held; 0 for all others */
  int64_t ends[WEIR_RULES_MOST];  /* of what is paid */
  int64_t until_us;               /* held until then by the limiter's clock, ... */
  int64_t boot_until_us;          /* ... and by CLOCK_BOOTTIME */
  int64_t fresh_until_us;         /* weir_monotonic_us(): may go from hand to hand until then */
  int64_t spare_until_us;         /* weir_monotonic_us() */
} weir_held_place;

/* A caller that waits for a place of its key: one that is left may be handed to it. */
typedef struct weir_place_waiter {
  struct weir_place_waiter *next;
  const int64_t *costs;    /* one per rule */
  weir_held_place *handed; /* out */
  pthread_cond_t changed;
} weir_place_waiter;

struct weir_held_key {
  weir_held_key *next, *previous; /* of all, those that were looked at longest ago first */
  weir_held_place *places;
  weir_place_waiter *first_waiting;
  uint64_t pass;    /* of renewing: the last that looked at it */
  bool renewing;    /* its payment is under way: it stays */
  unsigned leaving; /* spares that are given back: it stays for them */

  /* Until then, by weir_monotonic_us(), what is free is left to other processes. */
  int64_t rests_until_us;
  uint32_t mark;
  size_t length;
  unsigned char text[];
};

/* Keys share these by chance. */
enum { WEIR_PLACES_GIVEN = 64 };

typedef struct weir_places {
  weir_renewer *renewer; /* whose mutex guards all of this; it has something to do before wake_us */
  pthread_cond_t settled; /* a payment has its answer */
  weir_hash_table keys;   /* of weir_held_key * */
  weir_held_key *first, *last;
  size_t held;
  size_t spares; /* and what is unsent; with those that are being given back */

  /* Until when, by the limiter's clock, what a policy gave under a key may be held: so long what is unsent
   * of it stays charged and stands for that, of which the store knows nothing. */
  int64_t given_until_us[WEIR_PLACES_GIVEN];
  uint64_t token;  /* the last */
  uint64_t pass;   /* of renewing */
  bool passing;    /* one is under way */
  int64_t wake_us; /* by the limiter's clock: nothing is due before */
} weir_places;

/* NULL: no memory. */
weir_places *weir_places_create(weir_renewer *renewer);
void weir_places_destroy(weir_places *places, bool in_child);

/* How many are held now. */
uint64_t weir_places_held(weir_places *places);

/* The two clocks, read in the order that can only end a place too early. */
typedef struct weir_place_clocks {
  int64_t boot_us;
  int64_t now_us;
} weir_place_clocks;
weir_place_clocks weir_place_read_clocks(struct weir_limiter *limiter);

/* A charge that the store confirmed is a place from now on: its costs, ends and stamp are set. False:
 * no memory for its key. */
bool weir_place_enter(struct weir_limiter *limiter, weir_held_place *place, const void *key,
                      size_t key_length);

/* One that a policy admitted: it is in no store, is never renewed, and is held until the end of what
 * it would have paid for; under ALLOW for ever. */
void weir_place_enter_by_policy(struct weir_limiter *limiter, weir_held_place *place,
                                const void *key, size_t key_length);

/* Whether it is still held; if not, then never again. *until_us is until when, as far as it is paid; 0
 * where it is not held. */
bool weir_place_is_held(struct weir_limiter *limiter, weir_held_place *place, int64_t *until_us);

/* How a place was left. */
typedef enum weir_place_left {
  WEIR_PLACE_IS_FREE,   /* the caller gives it back to the store, with its ends, and frees it */
  WEIR_PLACE_WAS_LOST,  /* the same, and it was not held to the end */
  WEIR_PLACE_HANDED_ON, /* to a waiter of the same key, or kept for a next one: not the caller's */
} weir_place_left;

/* Stops believing. `hands_on`: it may be handed on. */
weir_place_left weir_place_leave(struct weir_limiter *limiter, weir_held_place *place,
                                 bool hands_on);

/* A place that was left, of which the store could not be told: it is told by who renews. False: no memory
 * for its key; then it stays the caller's. */
bool weir_place_keep_unsent(struct weir_limiter *limiter, weir_held_place *place, const void *key,
                            size_t key_length);

/* A spare place of this key with these costs, held again; or NULL. */
weir_held_place *weir_place_take_spare(struct weir_limiter *limiter, const void *key,
                                       size_t key_length, const int64_t *costs);

/* Until when, by weir_monotonic_us(), those of this process that wait for a place of this key do not ask
 * the store: it has had its turn, and others look. 0: they may ask. */
int64_t weir_place_rests_until(struct weir_limiter *limiter, const void *key, size_t key_length);

/* Waits until weir_monotonic_us() is `until_us`, or a place of this key with these costs is left by
 * another thread: then it is handed over. NULL: none was, or no memory. */
weir_held_place *weir_place_wait(struct weir_limiter *limiter, const void *key, size_t key_length,
                                 const int64_t *costs, int64_t until_us);

/* --- renewing (renew.c), with the table locked ---------------------------------------------------
 */

/* When a place is due to be paid again. */
int64_t weir_place_due_us(const struct weir_limiter *limiter, const weir_held_place *place);

/* Marks all places of a key that are due, and sums up what they cost under each rule and where their
 * payments end. False: none is. Finds out which are lost. */
bool weir_held_key_snapshot(struct weir_limiter *limiter, weir_held_key *key,
                            weir_place_clocks clocks, int64_t costs[WEIR_RULES_MOST],
                            int64_t ends[WEIR_RULES_MOST]);

/* The payment has its answer: what it was for is paid until these ends. */
void weir_held_key_settle(struct weir_limiter *limiter, weir_held_key *key,
                          weir_place_clocks clocks, const int64_t ends[WEIR_RULES_MOST]);

/* Takes out a spare of this key whose time is over, or any (`all`), or what is unsent; NULL: there is
 * none. It is the caller's, and its key counts it as leaving. */
weir_held_place *weir_held_key_drop_spare(const weir_places *places, weir_held_key *key,
                                          weir_place_clocks clocks, bool all);

/* The caller has tried to give it back. `unsent`: nothing was done, and it stays for a next try; else it
 * is over, whether or not that is known to have arrived. */
void weir_place_settle_spare(weir_places *places, weir_held_place *place, bool unsent);

void weir_held_key_move_last(weir_places *places, weir_held_key *key);

/* Frees a key that nothing needs any more. */
void weir_held_key_tidy(weir_places *places, weir_held_key *key);

#endif
