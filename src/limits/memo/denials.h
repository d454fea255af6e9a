/* Denials that may be read without a lock: copies of the memos that deny, one place for each of a
 * few keys. Two threads that ask for one key that is denied so disturb no thread, not even each
 * other.
 *
 * A copy is guarded by a sequence number, odd while it is written: who reads it and finds the
 * number as before has what was there at one moment (Boehm, "Can seqlocks get along with
 * programming language memory models?", 2012). Readers write nothing, but for a note that somebody
 * came, where there is none yet.
 *
 * A key has one place, by its hash, and a later denial of another key takes it over: who
 * finds nothing takes the lock. Memory that was in use once stays until the end, as somebody may be
 * reading it.
 */
#ifndef WEIR_MEMO_DENIALS_H
#define WEIR_MEMO_DENIALS_H

#include <stdatomic.h>

#include "algorithm/algorithm.h"
#include "key/key.h"

typedef struct weir_denials weir_denials;

/* A copy of a memo. Larger memos, of several rules with many cells each, are not copied: a reader locks
 * the entry instead. */
enum { WEIR_DENIAL_BYTES = 4096 };
typedef union weir_denial {
  weir_memo memo;
  char bytes[WEIR_DENIAL_BYTES];
} weir_denial;

/* Where the denials of a table stand; zeroed: there are none. */
typedef weir_denials *_Atomic weir_denials_place;

void weir_denials_destroy(weir_denials_place *place);

/* Makes the first places, for memos of this size, unless there are any. Without memory, or for
 * memos that are too large, there are none. */
void weir_denials_begin(weir_denials_place *place, size_t memo_bytes);

/* Copies the memo of a key where it denies something, and else forgets the copy there was. `told`:
 * what a request of cost 1 is told at its at_us, where time alone changes it; or NULL. One thread at a
 * time for one key. `most` bounds the places. */
void weir_denials_write(weir_denials_place *place, const weir_key *key, unsigned clock_steps,
                        const weir_memo *memo, const weir_decision *told, size_t most);

/* Forgets the copy there is. */
void weir_denials_forget(weir_denials_place *place, const weir_key *key);

/* Whether a key may have a place, by its hash, and so may be denied: most that are asked for have none. */
bool weir_denials_has(const weir_denials_place *place, const weir_key *key);

typedef enum weir_denial_answer {
  WEIR_DENIAL_NONE, /* nothing is denied, or it is just being written */
  WEIR_DENIAL_MEMO, /* *copy has the memo */
  WEIR_DENIAL_TOLD  /* *told is what was told, as of now_us */
} weir_denial_answer;

/* Copies what is known of a key that was denied until after now_us, with as many steps of the clock;
 * with `told` what was told instead, if something was. Either may be NULL. Any thread, at any time. */
weir_denial_answer weir_denials_read(const weir_denials_place *place, const weir_key *key,
                                     unsigned clock_steps, int64_t now_us, weir_denial *copy,
                                     weir_decision *told);

/* Whether somebody read the denial of this key since this was asked last. */
bool weir_denials_used(const weir_denials_place *place, const weir_key *key);

#endif
