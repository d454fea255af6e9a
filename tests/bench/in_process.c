/* in_process [ROUNDS [TURN_MS]]: what a decision inside the process costs, beside a plain limiter.
 *
 * The yardstick is what one would write in an afternoon: a hash table of keys in 64 shards, each
 * with a mutex, and in each entry the theoretical arrival time of the generic cell rate algorithm.
 * It lives in one process, forgets nothing and promises nothing, and does the least there is to do:
 * hash the key, lock, compare, read the clock, decide.
 *
 * Both take turns of TURN_MS (default 200) on the same keys, ROUNDS (default 5) times; each line is
 * the median of the rounds' own ratios. Fails only where it could not run: times are for people. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/weir.h>

enum { SHARDS = 64, KEYS_MOST = 100000, KEY_BYTES = 16, ROUNDS_MOST = 101, THREADS_MOST = 2 };

static _Noreturn void give_up(const char *what) {
  fprintf(stderr, "in_process: %s\n", what);
  exit(1);
}

static int64_t clock_ns(clockid_t which) {
  struct timespec now;
  clock_gettime(which, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- the yardstick -----------------------------------------------------------------------------
 */

typedef struct plain_entry {
  struct plain_entry *next;
  int64_t arrival_ns;
  size_t length;
  char key[KEY_BYTES];
} plain_entry;

typedef struct plain_shard {
  _Alignas(64) pthread_mutex_t mutex;
  plain_entry **buckets;
} plain_shard;

typedef struct plain_limiter {
  int64_t token_ns;
  int64_t burst_ns;
  size_t mask;
  plain_shard shards[SHARDS];
} plain_limiter;

static plain_limiter *plain_create(int64_t token_ns, int64_t burst, size_t keys) {
  plain_limiter *made = aligned_alloc(64, sizeof *made);
  if (made == NULL) give_up("no memory");
  *made = (plain_limiter){.token_ns = token_ns, .burst_ns = burst * token_ns};
  while (made->mask + 1 < keys / SHARDS + 1)
    made->mask = 2 * made->mask + 1;
  for (size_t i = 0; i < SHARDS; i++) {
    pthread_mutex_init(&made->shards[i].mutex, NULL);
    made->shards[i].buckets = calloc(made->mask + 1, sizeof *made->shards[i].buckets);
    if (made->shards[i].buckets == NULL) give_up("no memory");
  }
  return made;
}

static void plain_destroy(plain_limiter *limiter) {
  for (size_t i = 0; i < SHARDS; i++) {
    for (size_t at = 0; at <= limiter->mask; at++)
      for (plain_entry *entry = limiter->shards[i].buckets[at], *next; entry; entry = next) {
        next = entry->next;
        free(entry);
      }
    free(limiter->shards[i].buckets);
    pthread_mutex_destroy(&limiter->shards[i].mutex);
  }
  free(limiter);
}

/* FNV-1a. */
static uint64_t plain_hash(const char *key, size_t length) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)key[i]) * 0x100000001b3;
  return hash;
}

static plain_entry *plain_find(plain_entry **bucket, const char *key, size_t length) {
  plain_entry *entry = *bucket;
  while (entry != NULL && (entry->length != length || memcmp(entry->key, key, length) != 0))
    entry = entry->next;
  if (entry != NULL) return entry;
  entry = calloc(1, sizeof *entry);
  if (entry == NULL) give_up("no memory");
  memcpy(entry->key, key, length);
  entry->length = length;
  entry->next = *bucket;
  *bucket = entry;
  return entry;
}

static bool plain_take(plain_limiter *limiter, const char *key, size_t length) {
  uint64_t hash = plain_hash(key, length);
  plain_shard *shard = &limiter->shards[hash % SHARDS];
  int64_t now_ns = clock_ns(CLOCK_REALTIME);
  pthread_mutex_lock(&shard->mutex);
  plain_entry *entry = plain_find(&shard->buckets[hash / SHARDS & limiter->mask], key, length);
  int64_t base_ns = entry->arrival_ns > now_ns ? entry->arrival_ns : now_ns;
  bool allowed = base_ns + limiter->token_ns <= now_ns + limiter->burst_ns;
  if (allowed) entry->arrival_ns = base_ns + limiter->token_ns;
  pthread_mutex_unlock(&shard->mutex);
  return allowed;
}

/* --- turns -------------------------------------------------------------------------------------
 */

typedef struct contest {
  const char *title;
  const char *rule;
  size_t keys;
  bool admits; /* what every decision must say once the first was made */
  plain_limiter *plain;
  weir_limiter *limiter;
} contest;

/* Each on cache lines of its own, or two threads would wait for each other's counting. */
typedef struct runner {
  _Alignas(64) const contest *work;
  bool plain;
  unsigned random;
  atomic_bool *over;
  uint64_t decisions;
  pthread_t thread;
} runner;

static char keys[KEYS_MOST][KEY_BYTES];
static size_t key_lengths[KEYS_MOST];

static void check(const contest *work, bool allowed) {
  if (allowed != work->admits) give_up("a decision was not as it must be");
}

static void *run(void *context) {
  runner *self = context;
  const contest *work = self->work;
  weir_decision decision = {0};
  while (!atomic_load_explicit(self->over, memory_order_relaxed)) {
    self->random = self->random * 1664525U + 1013904223U;
    size_t key = (size_t)(self->random >> 8) % work->keys;
    if (self->plain) {
      check(work, plain_take(work->plain, keys[key], key_lengths[key]));
    } else {
      if (weir_limiter_take(work->limiter, keys[key], key_lengths[key], 1, &decision, NULL) !=
          WEIR_OK)
        give_up("no decision");
      check(work, decision.allowed);
    }
    self->decisions++;
  }
  return NULL;
}

/* Decisions a second of so many threads for so long. */
static double turn(const contest *work, bool plain, int threads, int64_t turn_ms) {
  runner runners[THREADS_MOST];
  atomic_bool over = false;
  struct timespec length = {.tv_sec = turn_ms / 1000, .tv_nsec = turn_ms % 1000 * 1000000};
  int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  uint64_t decisions = 0;
  for (int i = 0; i < threads; i++) {
    runners[i] =
        (runner){.work = work, .plain = plain, .random = 7919U * (unsigned)i, .over = &over};
    if (pthread_create(&runners[i].thread, NULL, run, &runners[i]) != 0) give_up("no thread");
  }
  nanosleep(&length, NULL);
  atomic_store(&over, true);
  for (int i = 0; i < threads; i++) {
    pthread_join(runners[i].thread, NULL);
    decisions += runners[i].decisions;
  }
  return (double)decisions * 1e9 / (double)(clock_ns(CLOCK_MONOTONIC) - began_ns);
}

/* --- contests ----------------------------------------------------------------------------------
 */

static int compare(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return values[count / 2];
}

/* Every key once, so that nothing is met for the first time. */
static void warm(const contest *work) {
  weir_decision decision;
  for (size_t i = 0; i < work->keys; i++) {
    plain_take(work->plain, keys[i], key_lengths[i]);
    weir_limiter_take(work->limiter, keys[i], key_lengths[i], 1, &decision, NULL);
  }
}

static void hold(contest *work, int rounds, int64_t turn_ms) {
  double plain_rate[ROUNDS_MOST];
  double rate[ROUNDS_MOST];
  double share[ROUNDS_MOST];
  double two_over_one[ROUNDS_MOST];
  weir_message why = {""};
  weir_store *store = NULL;
  /* A thread that is held up is not late: what counts here is work. */
  weir_limiter_options options = {.size = sizeof options,
                                  .fallback = WEIR_FALLBACK_NONE,
                                  .memo_keys = 2 * KEYS_MOST,
                                  .deadline_us = 2000000};
  bool strict = !work->admits;
  work->plain =
      plain_create(strict ? INT64_C(86400000000000) : 1, strict ? 1 : 1000000000, work->keys);
  if (weir_store_open("memory:", &store, &why) != WEIR_OK ||
      weir_limiter_create(store, work->rule, &options, &work->limiter, &why) != WEIR_OK)
    give_up(why.text);
  warm(work);
  for (int i = 0; i < rounds; i++) {
    plain_rate[i] = turn(work, true, 1, turn_ms);
    rate[i] = turn(work, false, 1, turn_ms);
    share[i] = rate[i] / plain_rate[i];
    two_over_one[i] = turn(work, false, 2, turn_ms) / rate[i];
  }
  printf("%-34s plain %5.2f M/s, weir %5.2f M/s, share %.2f, two threads over one %.2f\n",
         work->title, median(plain_rate, rounds) / 1e6, median(rate, rounds) / 1e6,
         median(share, rounds), median(two_over_one, rounds));
  weir_limiter_destroy(work->limiter);
  weir_store_close(store);
  plain_destroy(work->plain);
}

int main(int count, char **arguments) {
  int rounds = count > 1 ? (int)strtol(arguments[1], NULL, 10) : 5;
  int64_t turn_ms = count > 2 ? strtol(arguments[2], NULL, 10) : 200;
  if (rounds < 1 || rounds > ROUNDS_MOST || turn_ms < 1 || turn_ms > 60000)
    give_up("usage: in_process [ROUNDS [TURN_MS]], 1 to 101, 1 to 60000");
  for (size_t i = 0; i < KEYS_MOST; i++)
    key_lengths[i] = (size_t)snprintf(keys[i], KEY_BYTES, "visitor-%zu", i);
  const char *never = "sliding-window:1000000000/1h";
  contest contests[] = {
      {.title = "memory:, 1,000 keys", .rule = never, .keys = 1000, .admits = true},
      {.title = "memory:, 100,000 keys", .rule = never, .keys = 100000, .admits = true},
      {.title = "a denial known from memory", .rule = "fixed-window:1/1d", .keys = 1},
  };
  for (size_t i = 0; i < sizeof contests / sizeof contests[0]; i++)
    hold(&contests[i], rounds, turn_ms);
  return 0;
}
