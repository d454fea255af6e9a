/* Limiters on demand: a table by their figures, and a line of all in the order of their use. */
#include "registry/throttle.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct figures {
  int64_t burst, count, period_s;
} figures;

typedef struct entry {
  figures figures;
  weir_limiter *limiter;
  struct entry *next_in_slot;
  struct entry *newer, *older;
  uint64_t ticks[WEIR_THROTTLE_LOOPS_MOST]; /* in which each loop found it last */
} entry;

struct weir_throttle {
  pthread_mutex_t lock;
  weir_store *store;
  weir_limiter_options options;
  const char *algorithm, *suffix;
  bool has_burst;
  size_t most, count;
  entry **slots;
  size_t slot_count;
  entry *newest, *oldest;
  uint64_t ticks[WEIR_THROTTLE_LOOPS_MOST]; /* from 1 on */
  int64_t made_us[WEIR_THROTTLE_NEW_MOST];  /* when the last of them were, in a ring */
  uint64_t made;
  weir_limiter_counts gone; /* counts of those that went */
};

weir_throttle *weir_throttle_create(weir_store *store, const weir_limiter_options *options,
                                    uint32_t most) {
  weir_throttle *throttle = weir_throttle_create_for(store, options, "token-bucket", "", most);
  if (throttle != NULL) throttle->has_burst = true;
  return throttle;
}

weir_throttle *weir_throttle_create_for(weir_store *store, const weir_limiter_options *options,
                                        const char *algorithm, const char *suffix, uint32_t most) {
  weir_throttle *throttle = calloc(1, sizeof *throttle);
  if (throttle == NULL) return NULL;
  throttle->store = store;
  throttle->options = *options;
  throttle->algorithm = algorithm;
  throttle->suffix = suffix;
  throttle->most = most;
  throttle->slot_count = 16;
  while (throttle->slot_count < 2 * (size_t)most)
    throttle->slot_count *= 2;
  throttle->slots = calloc(throttle->slot_count, sizeof(entry *));
  for (size_t i = 0; i < WEIR_THROTTLE_LOOPS_MOST; i++)
    throttle->ticks[i] = 1;
  if (throttle->slots != NULL && pthread_mutex_init(&throttle->lock, NULL) == 0) return throttle;
  free(throttle->slots);
  free(throttle);
  return NULL;
}

void weir_throttle_destroy(weir_throttle *throttle) {
  if (throttle == NULL) return;
  for (entry *each = throttle->oldest; each != NULL;) {
    entry *newer = each->newer;
    weir_limiter_destroy(each->limiter);
    free(each);
    each = newer;
  }
  pthread_mutex_destroy(&throttle->lock);
  free(throttle->slots);
  free(throttle);
}

/* --- the line and the table ---------------------------------------------------------------------
 */

static void leave_line(weir_throttle *throttle, entry *each) {
  *(each->newer != NULL ? &each->newer->older : &throttle->newest) = each->older;
  *(each->older != NULL ? &each->older->newer : &throttle->oldest) = each->newer;
}

static void enter_line(weir_throttle *throttle, entry *each) {
  each->newer = NULL;
  each->older = throttle->newest;
  *(throttle->newest != NULL ? &throttle->newest->newer : &throttle->oldest) = each;
  throttle->newest = each;
}

/* Clients choose the figures, but few of them are there at a time. */
static entry **slot_of(weir_throttle *throttle, const figures *wanted) {
  uint64_t hash = (uint64_t)wanted->burst * UINT64_C(0x9e3779b97f4a7c15);
  hash = (hash ^ (hash >> 32) ^ (uint64_t)wanted->count) * UINT64_C(0xbf58476d1ce4e5b9);
  hash = (hash ^ (hash >> 29) ^ (uint64_t)wanted->period_s) * UINT64_C(0x94d049bb133111eb);
  return &throttle->slots[(hash >> 32) & (throttle->slot_count - 1)];
}

static entry *find(weir_throttle *throttle, const figures *wanted) {
  entry *each = *slot_of(throttle, wanted);
  while (each != NULL && memcmp(&each->figures, wanted, sizeof *wanted) != 0)
    each = each->next_in_slot;
  return each;
}

/* --- new ones -----------------------------------------------------------------------------------
 */

static bool is_too_fast(const weir_throttle *throttle, int64_t now_us) {
  if (throttle->made < WEIR_THROTTLE_NEW_MOST) return false;
  return now_us - throttle->made_us[throttle->made % WEIR_THROTTLE_NEW_MOST] < 1000000;
}

static void write_rule(const weir_throttle *throttle, const figures *wanted, char *rule,
                       size_t size) {
  char burst[32] = "";
  if (throttle->has_burst) snprintf(burst, sizeof burst, ",burst=%" PRId64, wanted->burst);
  snprintf(rule, size, "%s:%" PRId64 "/%" PRId64 "s%s%s", throttle->algorithm, wanted->count,
           wanted->period_s, burst, throttle->suffix);
}

static weir_status make(weir_throttle *throttle, const figures *wanted, int64_t now_us,
                        entry **made, weir_message *message) {
  char rule[128];
  if (is_too_fast(throttle, now_us)) {
    *message = (weir_message){"too many different limits"};
    return WEIR_CONTENDED;
  }
  entry *each = calloc(1, sizeof *each);
  if (each == NULL) {
    *message = (weir_message){"there is not enough memory"};
    return WEIR_NO_MEMORY;
  }
  write_rule(throttle, wanted, rule, sizeof rule);
  weir_status status =
      weir_limiter_create(throttle->store, rule, &throttle->options, &each->limiter, message);
  if (status != WEIR_OK) {
    free(each);
    return status;
  }
  throttle->made_us[throttle->made++ % WEIR_THROTTLE_NEW_MOST] = now_us;
  each->figures = *wanted;
  entry **slot = slot_of(throttle, wanted);
  each->next_in_slot = *slot;
  *slot = each;
  throttle->count++;
  *made = each;
  return WEIR_OK;
}

weir_status weir_throttle_find(weir_throttle *throttle, unsigned loop, int64_t burst, int64_t count,
                               int64_t period_s, int64_t now_us, weir_limiter **limiter,
                               weir_message *message) {
  const figures wanted = {burst, count, period_s};
  weir_message ignored;
  weir_status status = WEIR_OK;
  *limiter = NULL;
  pthread_mutex_lock(&throttle->lock);
  entry *found = find(throttle, &wanted);
  if (found != NULL)
    leave_line(throttle, found);
  else
    status = make(throttle, &wanted, now_us, &found, message != NULL ? message : &ignored);
  if (status == WEIR_OK) {
    enter_line(throttle, found);
    found->ticks[loop] = throttle->ticks[loop];
    *limiter = found->limiter;
  }
  pthread_mutex_unlock(&throttle->lock);
  return status;
}

/* --- old ones -----------------------------------------------------------------------------------
 */

static bool is_in_use(const weir_throttle *throttle, const entry *each) {
  for (size_t loop = 0; loop < WEIR_THROTTLE_LOOPS_MOST; loop++)
    if (each->ticks[loop] == throttle->ticks[loop]) return true;
  return false;
}

static void remove_entry(weir_throttle *throttle, entry *each) {
  entry **link = slot_of(throttle, &each->figures);
  while (*link != each)
    link = &(*link)->next_in_slot;
  *link = each->next_in_slot;
  leave_line(throttle, each);
  throttle->count--;
}

static void add_counts(weir_limiter_counts *sum, const weir_limiter *limiter) {
  weir_limiter_counts more = {.size = sizeof more};
  weir_limiter_read_counts(limiter, &more);
  enum { FIRST = offsetof(weir_limiter_counts, by_store) / sizeof(uint64_t) };
  uint64_t *to = (uint64_t *)(void *)sum;
  const uint64_t *from = (const uint64_t *)(const void *)&more;
  for (size_t i = FIRST; i < sizeof more / sizeof *from; i++)
    to[i] += from[i];
}
_Static_assert(sizeof(weir_limiter_counts) % sizeof(uint64_t) == 0, "counts alone behind the size");

void weir_throttle_end_tick(weir_throttle *throttle, unsigned loop) {
  entry *gone = NULL;
  pthread_mutex_lock(&throttle->lock);
  throttle->ticks[loop]++;
  for (entry *each = throttle->oldest; each != NULL && throttle->count > throttle->most;) {
    entry *newer = each->newer;
    if (!is_in_use(throttle, each)) {
      remove_entry(throttle, each);
      add_counts(&throttle->gone, each->limiter);
      each->next_in_slot = gone;
      gone = each;
    }
    each = newer;
  }
  pthread_mutex_unlock(&throttle->lock);
  while (gone != NULL) {
    entry *next = gone->next_in_slot;
    weir_limiter_destroy(gone->limiter);
    free(gone);
    gone = next;
  }
}

size_t weir_throttle_count(weir_throttle *throttle) {
  pthread_mutex_lock(&throttle->lock);
  size_t count = throttle->count;
  pthread_mutex_unlock(&throttle->lock);
  return count;
}

void weir_throttle_read_counts(weir_throttle *throttle, weir_limiter_counts *counts) {
  pthread_mutex_lock(&throttle->lock);
  weir_limiter_counts sum = throttle->gone;
  for (const entry *each = throttle->oldest; each != NULL; each = each->newer)
    add_counts(&sum, each->limiter);
  pthread_mutex_unlock(&throttle->lock);
  size_t size = counts->size;
  sum.size = size;
  memcpy(counts, &sum, size < sizeof sum ? size : sizeof sum);
}
