/* A call: up to WEIR_BATCH_MOST requests that one thread wants decided together.
 *
 * Every request joins the waiting list of its key's entry. Where nobody leads that key the call
 * leads it: it takes a group off the list, drives its machine, settles everyone in it, and passes
 * the lead to the first who still waits. So a process has one group under way per key, whatever
 * its threads do. A call first finishes what it leads and only then waits for others, so calls
 * never wait for each other in a circle.
 *
 *     waiting ──> taken ──> done        decided by whoever leads
 *        │ └────> leads ──> taken       the call must take the next group
 *        └──────> done                  out of time: withdrawn, nothing was sent
 */
#ifndef WEIR_LIMITER_CALL_H
#define WEIR_LIMITER_CALL_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/backend.h>
#include <weir/limiter.h>

#include "algorithm/algorithm.h"
#include "key/key.h"
#include "memo/table.h"

typedef struct weir_call weir_call;

typedef enum weir_member_state {
  WEIR_MEMBER_WAITING,
  WEIR_MEMBER_LEADS,
  WEIR_MEMBER_TAKEN,
  WEIR_MEMBER_DONE
} weir_member_state;

/* One request. Its ask comes first: waiting lists hold asks. */
typedef struct weir_member {
  weir_ask ask;
  weir_call *call;
  weir_entry *entry; /* there as long as the state is before done */
  weir_shard *shard;
  const void *key;
  size_t key_length;
  _Atomic weir_member_state state; /* changed under the entry's lock, but for the step to done */
} weir_member;

/* A group this call leads. */
typedef struct weir_group {
  weir_entry *entry;
  weir_ask *asks;
  weir_machine *machine;
  weir_turn turn;
  int64_t wake_us;        /* while it pauses: until then, weir_monotonic_us() */
  size_t first_operation; /* of this round, in the call's operations */
  size_t encoded_length;
  char encoded[WEIR_ENCODED_MOST];
} weir_group;

struct weir_call {
  weir_call *next_idle;
  weir_limiter *limiter;
  int64_t deadline_us; /* weir_monotonic_us() */
  int64_t
      charge_end_us; /* nothing is read or charged from here on; what is left is for giving back */
  int64_t monotonic_us; /* when it was last looked at: before the call last did anything but wait */
  int64_t now_us; /* the limiter's, read since the deadline began or the call last waited, ... */
  unsigned clock_steps; /* ... and how many steps its clock had made before */
  size_t room;          /* members and groups there is memory for */
  size_t member_count;
  size_t group_count;
  weir_member *members;
  weir_group *groups;
  weir_operation *operations; /* of one round, all groups */
  char (*key_texts)[WEIR_COUNTER_KEY_MOST];
  weir_message failure; /* of the first round that failed */

  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t changed;
  unsigned events;              /* steps of members made by other threads */
  const weir_member *explained; /* the first member that has no answer; else the first that only a
                                   policy has one for; else NULL */
  bool explained_has_answer;    /* it is of the second kind */
  weir_message explanation;     /* why the store did not decide it */
};

/* A call with room for `count` members, from the limiter's idle ones or new. NULL: no memory. */
weir_call *weir_call_acquire(weir_limiter *limiter, size_t count);
void weir_call_release(weir_call *call);
void weir_call_destroy(weir_call *call);

/* Adds a request that has been checked. The key, and what the ask points to, must stay until the
 * call has run; then the member's own ask has the answer. */
void weir_call_add(weir_call *call, const void *key, size_t key_length, const weir_ask *ask);

/* Has every member decided, or given a status, by the deadline. */
void weir_call_run(weir_call *call);

/* Drives the machines of all groups to their end: every ask of theirs is settled. */
void weir_rounds_run(weir_call *call);

#endif
