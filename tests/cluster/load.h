/* Threads that ask one store for a few keys as fast as they may, and what they were answered. */
#ifndef TESTS_CLUSTER_LOAD_H
#define TESTS_CLUSTER_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weir/weir.h>

enum {
  LOAD_KEYS = 48, /* the first of them are counted, the rest have a limit that is soon used up */
  LOAD_COUNTED = 36,
  LOAD_THREADS_MOST = 16,
  LOAD_FEW = 100,
  LOAD_OVER_STEPS = 2000, /* of 100 us */
  LOAD_DEADLINE_US = 50000
};

typedef struct load_key {
  char name[16];
  int slot;
  size_t shard;                /* who owned it at the start */
  _Atomic long long done;      /* admitted by the store */
  _Atomic long long denied;    /* by the store, or by what is known of it */
  _Atomic long long unknown;   /* may have been admitted */
  _Atomic long long no;        /* no decision, and nothing charged */
  _Atomic int64_t answered_us; /* when the store decided last */
  _Atomic int64_t gap_us;      /* the longest time between two such */
  _Atomic int64_t admitted_us; /* when the store admitted last */
} load_key;

typedef struct load {
  weir_store *store;
  weir_limiter *counted, *few;
  load_key keys[LOAD_KEYS];
  int threads;
  pthread_t running[LOAD_THREADS_MOST];
  atomic_bool stopped;
  atomic_bool few_open; /* until then those with a limit are not asked for */
  bool one_shard;       /* keys of no other are asked for */
  size_t shard;
  _Atomic long long calls;
  _Atomic long long over[LOAD_OVER_STEPS]; /* calls by how far they ended over their deadline */
  pthread_mutex_t lock;                    /* for the message */
  weir_message last;
} load;

/* Opens the store, and names the keys. */
void load_open(load *made, const char *url, int threads);
void load_close(load *done);

/* Threads start, and stop: each as often as one likes. */
void load_start(load *self);
void load_stop(load *self);

/* One call for one key, by the caller's own thread. */
void load_ask(load *self, size_t key);

/* Forgets the gaps; keys with a limit are asked for from now on, so that they fill while things
 * happen. */
void load_mark(load *self);

/* When the last of a shard's keys was first decided after `since_us`; -1: not all were within
 * `within_us`. */
int64_t load_await(load *self, size_t shard, int64_t since_us, int64_t within_us);

/* The longest gap of a shard's keys; the share of calls, in thousandths, that may be over the
 * deadline by more than what is returned. */
int64_t load_gap_us(load *self, size_t shard);
int64_t load_over_us(load *self, int thousandths);

_Noreturn void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void load_pause_us(int64_t us);

#endif
