/* Limiters on demand: a table finds them by their figures, and a list has them in the order of
 * their use. The oldest are dropped that no loop uses. A limiter is made for the first request with
 * its figures; how many are made in a second is bounded, as clients choose figures. */
#include "registry/registry.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

typedef struct figures {
  int64_t burst, count, period_s;
} figures;

typedef struct entry {
  figures figures;
  weir_limiter *limiter;
  struct entry *newer, *older;              /* in the list; of those that went, the next */
  uint64_t ticks[WEIR_THROTTLE_LOOPS_MOST]; /* in which each loop found it last */
  size_t holders;                           /* requests that wait for a store beside their loop */
} entry;

struct weir_throttle {
  pthread_mutex_t lock;
  weir_store *store;
  weir_limiter_options options;
  const char *algorithm, *suffix;
  bool has_burst;
  size_t most;
  weir_hash_table table; /* of pointers to entries */
  entry *newest, *oldest;
  uint64_t ticks[WEIR_THROTTLE_LOOPS_MOST]; /* from 1 on */
  entry *last[WEIR_THROTTLE_LOOPS_MOST];    /* that each loop found, which it goes on to use */
  int64_t made_us[WEIR_THROTTLE_NEW_MOST];  /* when the last of them were, in a ring */
  uint64_t made;
  weir_limiter_counts gone; /* counts of those that went */
};

static bool has_figures(const void *context, const void *item, const void *wanted) {
  (void)context;
  return memcmp(&(*(entry *const *)item)->figures, wanted, sizeof(figures)) == 0;
}

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
  weir_hash_table_init(&throttle->table, sizeof(entry *), has_figures, NULL);
  for (size_t i = 0; i < WEIR_THROTTLE_LOOPS_MOST; i++)
    throttle->ticks[i] = 1;
  if (pthread_mutex_init(&throttle->lock, NULL) == 0) return throttle;
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
  weir_hash_table_clean_up(&throttle->table);
  free(throttle);
}

/* --- the list and the table ---------------------------------------------------------------------
 */

static void leave_list(weir_throttle *throttle, entry *each) {
  *(each->newer != NULL ? &each->newer->older : &throttle->newest) = each->older;
  *(each->older != NULL ? &each->older->newer : &throttle->oldest) = each->newer;
}

static entry **find(weir_throttle *throttle, const figures *wanted) {
  uint32_t mark = weir_hash_table_mark(&throttle->table, wanted, sizeof *wanted);
  return weir_hash_table_find(&throttle->table, mark, wanted);
}

/* --- new ones -----------------------------------------------------------------------------------
 */

static weir_status make(weir_throttle *throttle, const figures *wanted, int64_t now_us,
                        entry **made, weir_message *message) {
  int64_t *oldest_us = &throttle->made_us[throttle->made % WEIR_THROTTLE_NEW_MOST];
  if (throttle->made >= WEIR_THROTTLE_NEW_MOST && now_us - *oldest_us < 1000000) {
    snprintf(
        message->text, sizeof message->text,
        "too many different limits: more than %d new ones in a second, as %s%zu of them are kept",
        WEIR_THROTTLE_NEW_MOST, throttle->has_burst ? "throttle.limiters says that " : "",
        throttle->most);
    return WEIR_CONTENDED;
  }

  entry *each = calloc(1, sizeof *each);
  uint32_t mark = weir_hash_table_mark(&throttle->table, wanted, sizeof *wanted);
  entry **place = each != NULL ? weir_hash_table_add(&throttle->table, mark) : NULL;
  if (place == NULL) {
    free(each);
    *message = (weir_message){"there is not enough memory"};
    return WEIR_NO_MEMORY;
  }
  *place = each;
  each->figures = *wanted;

  char rule[640], burst[32] = "";
  if (throttle->has_burst) snprintf(burst, sizeof burst, ",burst=%" PRId64, wanted->burst);
  snprintf(rule, sizeof rule, "%s:%" PRId64 "/%" PRId64 "s%s%s", throttle->algorithm, wanted->count,
           wanted->period_s, burst, throttle->suffix);
  weir_status status =
      weir_limiter_create(throttle->store, rule, &throttle->options, &each->limiter, message);
  if (status != WEIR_OK) {
    weir_hash_table_remove(&throttle->table, place);
    free(each);
    return status;
  }
  *oldest_us = now_us;
  throttle->made++;
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
  entry *found = throttle->newest; /* what was asked for last is asked for again, mostly */
  if (found == NULL || memcmp(&found->figures, &wanted, sizeof wanted) != 0) {
    entry **there = find(throttle, &wanted);
    if (there != NULL) {
      found = *there;
      leave_list(throttle, found);
    } else {
      status = make(throttle, &wanted, now_us, &found, message != NULL ? message : &ignored);
    }
    if (status == WEIR_OK) { /* it is the newest */
      found->newer = NULL;
      found->older = throttle->newest;
      *(throttle->newest != NULL ? &throttle->newest->newer : &throttle->oldest) = found;
      throttle->newest = found;
    }
  }
  if (status == WEIR_OK) {
    found->ticks[loop] = throttle->ticks[loop];
    throttle->last[loop] = found;
    *limiter = found->limiter;
  }
  pthread_mutex_unlock(&throttle->lock);
  return status;
}

/* --- old ones -----------------------------------------------------------------------------------
 */

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

void weir_throttle_end_turn(weir_throttle *throttle, unsigned loop) {
  entry *gone = NULL;
  pthread_mutex_lock(&throttle->lock);
  throttle->ticks[loop]++;
  if (throttle->last[loop] != NULL) throttle->last[loop]->ticks[loop] = throttle->ticks[loop];
  for (entry *each = throttle->oldest; each != NULL && throttle->table.count > throttle->most;) {
    entry *newer = each->newer;
    bool is_used = each->holders > 0; /* or in the turn that any loop is in */
    for (size_t i = 0; i < WEIR_THROTTLE_LOOPS_MOST; i++)
      is_used |= each->ticks[i] == throttle->ticks[i];
    if (!is_used) {
      weir_hash_table_remove(&throttle->table, find(throttle, &each->figures));
      leave_list(throttle, each);
      add_counts(&throttle->gone, each->limiter);
      each->newer = gone;
      gone = each;
    }
    each = newer;
  }
  pthread_mutex_unlock(&throttle->lock);
  while (gone != NULL) { /* without the lock, as it takes a while */
    entry *next = gone->newer;
    weir_limiter_destroy(gone->limiter);
    free(gone);
    gone = next;
  }
}

static void change_holders(weir_throttle *throttle, const figures *wanted, bool holds) {
  pthread_mutex_lock(&throttle->lock);
  entry **held = find(throttle, wanted);
  if (held != NULL) (*held)->holders += holds ? 1 : SIZE_MAX;
  pthread_mutex_unlock(&throttle->lock);
}

void weir_throttle_hold(weir_throttle *throttle, int64_t burst, int64_t count, int64_t period_s) {
  change_holders(throttle, &(figures){burst, count, period_s}, true);
}

void weir_throttle_let_go(weir_throttle *throttle, int64_t burst, int64_t count, int64_t period_s) {
  change_holders(throttle, &(figures){burst, count, period_s}, false);
}

size_t weir_throttle_count(weir_throttle *throttle) {
  pthread_mutex_lock(&throttle->lock);
  size_t count = throttle->table.count;
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
