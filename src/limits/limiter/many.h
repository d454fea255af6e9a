/* Many requests at once (many.c). What is decided, and what settles, is done there; a file with requests of another
 * kind has a weir_deed for each of them, and has them done by weir_many_run(). One decision of several keys is
 * all.c's, which asks the same sets. */
#ifndef WEIR_LIMITER_MANY_H
#define WEIR_LIMITER_MANY_H

#include "limiter/limiter.h"

/* One of many. */
typedef struct weir_one {
  weir_limiter *limiter;
  weir_call *call;
  weir_request *request;
  const weir_extra *extra;
  weir_status *status;
  weir_waiting *state; /* of its call: what it asks for */
  const void *own;     /* of whoever has the deed; there is ... */
  size_t index;        /* ... the place of this one */
} weir_one;

/* What is done with each of them. */
typedef struct weir_deed {
  const char *array; /* the caller's, in messages */
  bool settles;      /* what was charged before is changed, for which no policy answers */

  /* Checks it, and writes what it asks for; where that is nothing, weir_waiting_skip(). The message says why it fails.
   * Then writes what came of it. The message says what the store cannot. Both answer its status. */
  weir_status (*begin)(const weir_one *one, weir_message *message);
  weir_status (*end)(const weir_one *one, weir_message *message);
} weir_deed;

extern const weir_deed weir_settle_deed; /* end.c */

/* The requests of one limiter, or one of them, in a list of such: as small as can be, as there may be many, on
 * the stack. */
typedef struct weir_party {
  struct weir_party *next;
  weir_limiter *limiter;
  weir_call *call;      /* NULL: nothing can be asked, or so far */
  uint16_t first, last; /* of its requests; weir_many.next has those between them */
  uint16_t count;
} weir_party;

/* Who speaks for all: the first that failed, else the first that a policy answered. */
typedef struct weir_speaker {
  weir_status status;
  size_t index; /* in the caller's array; their number: none has to */
  weir_message why;
} weir_speaker;

/* Puts a party at the end of a list, and returns where the next goes. */
static inline weir_party **weir_party_append(weir_party **end, weir_party *party) {
  *end = party;
  party->next = NULL;
  return &party->next;
}

/* Takes a set off a list: the first, and all that are of its store and deadline. */
weir_party *weir_party_take_set(weir_party **list);

/* Has the requests of a set's calls decided. All are begun before: once the first joins, other threads read what
 * it asks for. */
void weir_set_run(weir_call *first);

/* One has failed, or (WEIR_OK) was answered by a policy: does it speak? */
void weir_speak(weir_speaker *speaker, weir_status status, size_t index, const char *why);

/* Only what is used of it is written. */
typedef struct weir_many {
  const weir_deed *deed;
  weir_request *requests;
  const weir_extra *const *extras; /* what they say beside; NULL: nothing */
  weir_status *statuses;           /* NULL: they go to the requests; else there are none of these */
  const void *own;
  size_t count;
  weir_speaker speaker;
  weir_party *parties; /* there is room for as many as there can be; ... */
  size_t party_count;
  weir_party *latest;             /* ... of these, that of the request which was added last */
  uint16_t next[WEIR_BATCH_MOST]; /* of the same limiter, by request; `count`: none */
} weir_many;

void weir_many_begin(weir_many *many, const weir_deed *deed, weir_party *parties,
                     weir_request *requests, size_t count);

/* Each request once. Those of a limiter are begun, asked and ended in the order in which they are added. */
void weir_many_add(weir_many *many, size_t index, weir_limiter *limiter);

/* Has all of them asked: each gets its status. Answers that of the speaker, which the message names. */
weir_status weir_many_run(weir_many *many, weir_message *message);

#endif
