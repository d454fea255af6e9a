/* A backend in front of a real store that keeps a transcript: a hash of every operation and answer,
 * and of what else it is told. It also moves time, which stands still without it, and lets
 * operations fail by a chance that is the same in every run. */
#ifndef TESTS_TRANSCRIPT_RECORDER_H
#define TESTS_TRANSCRIPT_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/backend.h>
#include <weir/limiter.h>

typedef struct recorder {
  weir_store *behind;
  uint64_t hash;
  uint64_t operations, decisions;
  int64_t clock_us;     /* what limiters read */
  int64_t monotonic_us; /* what weir_monotonic_us() says */
  uint32_t chance;      /* the seed of faults and delays */
  uint64_t random;      /* the seed of randombytes_buf() */
  uint32_t away;        /* so many execs are not sent */
  bool faulty;          /* operations may fail; never of a store that is immediate */
  bool printed;         /* shows all that is hashed */
} recorder;

extern recorder the_recorder; /* one at a time */

/* Opens a store over `url`, under a namespace; `texts`: as a store that takes no identities. */
weir_store *recorder_open(const char *url, const char *name, bool texts);
void recorder_close(weir_store *store);

/* Adds to the transcript. */
void recorder_note(const char *name, int64_t value);
void recorder_note_asked(const weir_operation *operation);
void recorder_note_answer(const weir_operation *operation);

void recorder_move(int64_t us); /* both times; back: the clock alone */
weir_clock recorder_clock(void);

#endif
