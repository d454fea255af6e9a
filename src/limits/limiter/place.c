/* What this process holds, by key: a table of its own, as what is known of a key may be given up and
 * what is held may not. No store is asked here. */
#include "limiter/place.h"

#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "algorithm/in_flight.h"
#include "clock.h"
#include "condition.h"
#include "limiter/limiter.h"

/* Longest that a place goes from hand to hand in one process: then others have their chance. */
#define HANDED_MOST_US INT64_C(1000000)

/* And so long, about half the time between two looks of another process: it comes in every other time.
 * Without a rest the thread that leaves is back first. */
#define REST_US INT64_C(25000)

/* Tokens: the stamp in microseconds, and room for so many in each. */
enum { TOKENS_PER_US = 4096 };

/* --- keys --------------------------------------------------------------------------------------
 */

typedef struct weir_key_text {
  const void *text;
  size_t length;
} weir_key_text;

static bool is_of(const void *context, const void *item, const void *wanted) {
  weir_held_key *const *key = item;
  const weir_key_text *text = wanted;
  (void)context;
  return (*key)->length == text->length && memcmp((*key)->text, text->text, text->length) == 0;
}

weir_places *weir_places_create(weir_renewer *renewer) {
  weir_places *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->renewer = renewer;
  made->wake_us = INT64_MAX;
  weir_hash_table_init(&made->keys, sizeof(weir_held_key *), is_of, NULL);
  if (pthread_cond_init(&made->settled, NULL) == 0) return made;
  free(made);
  return NULL;
}

/* Places that are held are their reservations', in a child too where those do not free them; spares are
 * the table's own. Where a thread of the parent was changing the table at the fork, the child leaves it. */
void weir_places_destroy(weir_places *places, bool in_child) {
  if (places == NULL || pthread_mutex_trylock(&places->renewer->mutex) != 0) return;
  pthread_mutex_unlock(&places->renewer->mutex);
  for (weir_held_key *key = places->first, *next; key != NULL; key = next) {
    next = key->next;
    for (weir_held_place *place = key->places, *behind; place != NULL; place = behind) {
      behind = place->next;
      place->key = NULL;
      bool own = place->state == WEIR_PLACE_SPARE || place->state == WEIR_PLACE_UNSENT;
      if (in_child || own) free(place);
    }
    free(key);
  }
  weir_hash_table_clean_up(&places->keys);
  if (!in_child) /* a copy of what threads of the parent wait for cannot be destroyed */
    pthread_cond_destroy(&places->settled);
  free(places);
}

uint64_t weir_places_held(weir_places *places) {
  pthread_mutex_lock(&places->renewer->mutex);
  uint64_t held = places->held;
  pthread_mutex_unlock(&places->renewer->mutex);
  return held;
}

static void link_last(weir_places *places, weir_held_key *key) {
  key->next = NULL;
  key->previous = places->last;
  *(places->last != NULL ? &places->last->next : &places->first) = key;
  places->last = key;
}

static void unlink_key(weir_places *places, weir_held_key *key) {
  *(key->previous != NULL ? &key->previous->next : &places->first) = key->next;
  *(key->next != NULL ? &key->next->previous : &places->last) = key->previous;
}

void weir_held_key_move_last(weir_places *places, weir_held_key *key) {
  unlink_key(places, key);
  link_last(places, key);
}

static weir_held_key *find_key(const weir_places *places, const void *text, size_t length) {
  weir_key_text wanted = {text, length};
  uint32_t mark = weir_hash_table_mark(&places->keys, text, length);
  weir_held_key *const *item = weir_hash_table_find(&places->keys, mark, &wanted);
  return item != NULL ? *item : NULL;
}

/* New, where it is not there. NULL: no memory. */
static weir_held_key *make_key(weir_places *places, const void *text, size_t length) {
  weir_held_key *key = find_key(places, text, length);
  if (key != NULL) return key;
  uint32_t mark = weir_hash_table_mark(&places->keys, text, length);
  key = calloc(1, sizeof *key + length);
  weir_held_key **item = key != NULL ? weir_hash_table_add(&places->keys, mark) : NULL;
  if (item == NULL) {
    free(key);
    return NULL;
  }
  *item = key;
  key->mark = mark;
  key->length = length;
  memcpy(key->text, text, length);
  link_last(places, key);
  return key;
}

void weir_held_key_tidy(weir_places *places, weir_held_key *key) {
  weir_key_text wanted = {key->text, key->length};
  if (key->places != NULL || key->first_waiting != NULL || key->renewing || key->leaving > 0)
    return;
  weir_hash_table_remove(&places->keys, weir_hash_table_find(&places->keys, key->mark, &wanted));
  unlink_key(places, key);
  free(key);
}

static void link_place(weir_held_key *key, weir_held_place *place) {
  place->key = key;
  place->previous = NULL;
  place->next = key->places;
  if (key->places != NULL) key->places->previous = place;
  key->places = place;
}

static void unlink_place(weir_held_place *place) {
  weir_held_key *key = place->key;
  *(place->previous != NULL ? &place->previous->next : &key->places) = place->next;
  if (place->next != NULL) place->next->previous = place->previous;
  place->key = NULL;
}

/* --- time --------------------------------------------------------------------------------------
 */

/* The clock that goes on while the machine sleeps is read first: what passes between the two ends a
 * place too early, never too late. */
weir_place_clocks weir_place_read_clocks(weir_limiter *limiter) {
  weir_place_clocks clocks = {.boot_us = weir_clock_us(CLOCK_BOOTTIME)};
  clocks.now_us = weir_limiter_now(limiter);
  return clocks;
}

/* Until when what is paid counts. The other clock is fixed at this moment: whatever becomes of the
 * limiter's own, so much time is paid for and no more. */
static void fix_end(const weir_limiter *limiter, weir_held_place *place, weir_place_clocks clocks) {
  place->until_us = INT64_MAX;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (place->costs[i] == 0) continue;
    int64_t until_us =
        place->ends[i] - weir_held_guard_us(&limiter->stack.rules[i], &limiter->settings);
    if (until_us < place->until_us) place->until_us = until_us;
  }
  place->boot_until_us =
      place->until_us == INT64_MAX ? INT64_MAX : clocks.boot_us + (place->until_us - clocks.now_us);
}

int64_t weir_place_due_us(const weir_limiter *limiter, const weir_held_place *place) {
  int64_t due_us = INT64_MAX;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (place->costs[i] == 0) continue;
    int64_t at_us =
        place->ends[i] - weir_held_run_up_us(&limiter->stack.rules[i], &limiter->settings);
    if (at_us < due_us) due_us = at_us;
  }
  return due_us;
}

/* By both clocks. */
static bool lasts(const weir_held_place *place, weir_place_clocks clocks) {
  return clocks.now_us < place->until_us && clocks.boot_us < place->boot_until_us;
}

/* Past either clock it is lost, for good: a payment that is answered later does not bring it back. */
static bool still_holds(weir_limiter *limiter, weir_held_place *place, weir_place_clocks clocks) {
  if (place->state != WEIR_PLACE_HELD) return false;
  if (lasts(place, clocks)) return true;
  place->state = WEIR_PLACE_UNPAID;
  limiter->places->held--;
  weir_counts_add_places(limiter->counts, WEIR_PLACES_LOST, 1);
  return false;
}

/* --- entering ----------------------------------------------------------------------------------
 */

/* Rising from holder to holder in this process, and over all of them as far as their clocks agree. */
static void hold(weir_limiter *limiter, weir_held_place *place, weir_place_clocks clocks) {
  weir_places *places = limiter->places;
  uint64_t token = (uint64_t)clocks.now_us * TOKENS_PER_US;
  place->token = places->token = token > places->token ? token : places->token + 1;
  place->state = WEIR_PLACE_HELD;
  places->held++;
}

/* The renewing thread sleeps longer than this place can wait. */
static void wake_for(weir_places *places, int64_t due_us) {
  if (due_us >= places->wake_us) return;
  places->wake_us = due_us;
  pthread_cond_signal(&places->renewer->wake);
}

bool weir_place_enter(weir_limiter *limiter, weir_held_place *place, const void *key,
                      size_t key_length) {
  weir_places *places = limiter->places;
  int64_t fresh_us = HANDED_MOST_US;
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (place->costs[i] > 0 && limiter->stack.rules[i].period_us < fresh_us)
      fresh_us = limiter->stack.rules[i].period_us;
  place->fresh_until_us = weir_monotonic_us() + fresh_us;
  pthread_mutex_lock(&places->renewer->mutex);
  weir_held_key *held = make_key(places, key, key_length);
  if (held != NULL) {
    weir_place_clocks clocks = weir_place_read_clocks(limiter);
    link_place(held, place);
    fix_end(limiter, place, clocks);
    hold(limiter, place, clocks);
    wake_for(places, weir_place_due_us(limiter, place));
  }
  pthread_mutex_unlock(&places->renewer->mutex);
  if (held != NULL) weir_counts_add_places(limiter->counts, WEIR_PLACES_ENTERED, 1);
  return held != NULL;
}

/* The account counts it as the store would: in the epoch of its stamp, and from the run-up on in the
 * next. */
void weir_place_enter_by_policy(weir_limiter *limiter, weir_held_place *place, const void *key,
                                size_t key_length) {
  const weir_settings *settings = &limiter->settings;
  weir_places *places = limiter->places;
  uint32_t mark = weir_hash_table_mark(&places->keys, key, key_length);
  int64_t *given_until_us = &places->given_until_us[mark % WEIR_PLACES_GIVEN];
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    if (place->costs[i] > 0) place->ends[i] = weir_held_end_us(rule, settings, place->at_us);
  }
  pthread_mutex_lock(&limiter->renewer.mutex);
  weir_place_clocks clocks = weir_place_read_clocks(limiter);
  fix_end(limiter, place, clocks);
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (place->costs[i] > 0 && place->ends[i] > *given_until_us) *given_until_us = place->ends[i];
  if (limiter->fallback == WEIR_FALLBACK_ALLOW) place->until_us = place->boot_until_us = INT64_MAX;
  hold(limiter, place, clocks);
  pthread_mutex_unlock(&limiter->renewer.mutex);
  weir_counts_add_places(limiter->counts, WEIR_PLACES_ENTERED, 1);
}

bool weir_place_is_held(weir_limiter *limiter, weir_held_place *place, int64_t *until_us) {
  pthread_mutex_lock(&limiter->renewer.mutex);
  bool held = still_holds(limiter, place, weir_place_read_clocks(limiter));
  *until_us = held ? place->until_us : 0;
  pthread_mutex_unlock(&limiter->renewer.mutex);
  return held;
}

/* --- leaving -----------------------------------------------------------------------------------
 */

static bool costs_same(const weir_limiter *limiter, const int64_t *costs, const int64_t *others) {
  return memcmp(costs, others, limiter->stack.count * sizeof *costs) == 0;
}

/* To the first of this process that waits for as much. What it is given counts from then on as its
 * own: with a token of its own. */
static bool hand_over(weir_limiter *limiter, weir_held_place *place, weir_place_clocks clocks) {
  weir_place_waiter **at = &place->key->first_waiting;
  while (*at != NULL && !costs_same(limiter, (*at)->costs, place->costs))
    at = &(*at)->next;
  weir_place_waiter *waiter = *at;
  if (waiter == NULL) return false;
  *at = waiter->next;
  hold(limiter, place, clocks);
  waiter->handed = place;
  pthread_cond_signal(&waiter->changed);
  weir_counts_add_places(limiter->counts, WEIR_PLACES_ENTERED, 1);
  return true;
}

/* Empty, it is not paid for again: the caller that takes it does that. */
static bool keep(weir_limiter *limiter, weir_held_place *place) {
  int64_t lease_us = limiter->stack.rules[0].lease_us;
  weir_places *places = limiter->places;
  if (lease_us == 0 || places->renewer->over) return false;
  place->state = WEIR_PLACE_SPARE;
  place->spare_until_us = weir_monotonic_us() + lease_us;
  places->spares++;
  wake_for(places, weir_limiter_now(limiter) + lease_us);
  return true;
}

/* A payment that is under way with it is waited for: what it paid into goes back as well, and what is
 * not certain never does. */
weir_place_left weir_place_leave(weir_limiter *limiter, weir_held_place *place, bool hands_on) {
  weir_places *places = limiter->places;
  pthread_mutex_lock(&places->renewer->mutex);
  weir_place_clocks clocks = weir_place_read_clocks(limiter);
  bool held = still_holds(limiter, place, clocks);
  weir_held_key *key = place->key;
  place->state = WEIR_PLACE_LEFT;
  if (held) places->held--;
  while (place->renewing != 0)
    pthread_cond_wait(&places->settled, &places->renewer->mutex);
  clocks = weir_place_read_clocks(limiter);
  bool stays = held && hands_on && key != NULL && lasts(place, clocks);
  if (stays) {
    int64_t now_us = weir_monotonic_us();
    bool fresh = now_us < place->fresh_until_us;
    stays = fresh && (hand_over(limiter, place, clocks) || keep(limiter, place));
    if (!fresh && key->first_waiting != NULL && key->rests_until_us <= now_us)
      key->rests_until_us = now_us + REST_US;
  }
  if (!stays && key != NULL) {
    unlink_place(place);
    weir_held_key_tidy(places, key);
  }
  pthread_mutex_unlock(&places->renewer->mutex);
  if (stays) return WEIR_PLACE_HANDED_ON;
  return held ? WEIR_PLACE_IS_FREE : WEIR_PLACE_WAS_LOST;
}

bool weir_place_keep_unsent(weir_limiter *limiter, weir_held_place *place, const void *key,
                            size_t key_length) {
  weir_places *places = limiter->places;
  pthread_mutex_lock(&places->renewer->mutex);
  weir_held_key *held = make_key(places, key, key_length);
  if (held != NULL) {
    place->state = WEIR_PLACE_UNSENT;
    link_place(held, place);
    places->spares++;
    pthread_cond_signal(&places->renewer->wake);
  }
  pthread_mutex_unlock(&places->renewer->mutex);
  return held != NULL;
}

weir_held_place *weir_place_take_spare(weir_limiter *limiter, const void *key, size_t key_length,
                                       const int64_t *costs) {
  weir_places *places = limiter->places;
  weir_held_place *found = NULL;
  if (limiter->stack.rules[0].lease_us == 0) return NULL;
  pthread_mutex_lock(&places->renewer->mutex);
  const weir_held_key *held = places->spares > 0 ? find_key(places, key, key_length) : NULL;
  if (held != NULL) {
    weir_place_clocks clocks = weir_place_read_clocks(limiter);
    for (found = held->places; found != NULL; found = found->next)
      if (found->state == WEIR_PLACE_SPARE && costs_same(limiter, found->costs, costs) &&
          lasts(found, clocks))
        break;
    if (found != NULL) {
      places->spares--;
      hold(limiter, found, clocks);
      wake_for(places, weir_place_due_us(limiter, found));
    }
  }
  pthread_mutex_unlock(&places->renewer->mutex);
  if (found != NULL) weir_counts_add_places(limiter->counts, WEIR_PLACES_ENTERED, 1);
  return found;
}

int64_t weir_place_rests_until(weir_limiter *limiter, const void *key, size_t key_length) {
  weir_places *places = limiter->places;
  pthread_mutex_lock(&places->renewer->mutex);
  const weir_held_key *held = find_key(places, key, key_length);
  int64_t until_us = held != NULL ? held->rests_until_us : 0;
  pthread_mutex_unlock(&places->renewer->mutex);
  return until_us;
}

weir_held_place *weir_place_wait(weir_limiter *limiter, const void *key, size_t key_length,
                                 const int64_t *costs, int64_t until_us) {
  weir_places *places = limiter->places;
  weir_place_waiter self = {.costs = costs};
  if (!weir_condition_init(&self.changed)) {
    weir_sleep_until(until_us); /* its own tries go on */
    return NULL;
  }
  pthread_mutex_lock(&places->renewer->mutex);
  weir_held_key *held = make_key(places, key, key_length);
  if (held != NULL) {
    weir_place_waiter **at = &held->first_waiting;
    while (*at != NULL)
      at = &(*at)->next;
    *at = &self;
    while (self.handed == NULL &&
           weir_condition_wait_until(&self.changed, &places->renewer->mutex, until_us)) {
    }
    if (self.handed == NULL) {
      for (at = &held->first_waiting; *at != &self; at = &(*at)->next) {
      }
      *at = self.next;
      weir_held_key_tidy(places, held);
    }
  }
  pthread_mutex_unlock(&places->renewer->mutex);
  pthread_cond_destroy(&self.changed);
  if (held == NULL) weir_sleep_until(until_us);
  return self.handed;
}

/* --- renewing ----------------------------------------------------------------------------------
 */

/* Of one rule all that is due ends with the epoch of now: the run-up is shorter than an epoch. */
bool weir_held_key_snapshot(weir_limiter *limiter, weir_held_key *key, weir_place_clocks clocks,
                            int64_t costs[WEIR_RULES_MOST], int64_t ends[WEIR_RULES_MOST]) {
  bool some = false;
  memset(costs, 0, WEIR_RULES_MOST * sizeof *costs);
  memset(ends, 0, WEIR_RULES_MOST * sizeof *ends);
  for (weir_held_place *place = key->places; place != NULL; place = place->next) {
    place->renewing = 0;
    if (!still_holds(limiter, place, clocks)) continue;
    for (size_t i = 0; i < limiter->stack.count; i++) {
      const weir_rule *rule = &limiter->stack.rules[i];
      int64_t end_us = place->ends[i];
      if (place->costs[i] == 0 ||
          clocks.now_us < end_us - weir_held_run_up_us(rule, &limiter->settings))
        continue;
      costs[i] += place->costs[i];
      ends[i] = end_us;
      place->renewing |= 1U << i;
      some = true;
    }
  }
  return some;
}

void weir_held_key_settle(weir_limiter *limiter, weir_held_key *key, weir_place_clocks clocks,
                          const int64_t ends[WEIR_RULES_MOST]) {
  for (weir_held_place *place = key->places; place != NULL; place = place->next) {
    if (place->renewing == 0) continue;
    bool held = still_holds(limiter, place, clocks);
    for (size_t i = 0; i < limiter->stack.count; i++)
      if (place->renewing >> i & 1U) place->ends[i] = ends[i];
    place->renewing = 0;
    if (held || place->state == WEIR_PLACE_LEFT) fix_end(limiter, place, clocks);
  }
}

weir_held_place *weir_held_key_drop_spare(const weir_places *places, weir_held_key *key,
                                          weir_place_clocks clocks, bool all) {
  int64_t monotonic_us = weir_monotonic_us();
  bool stands = clocks.now_us < places->given_until_us[key->mark % WEIR_PLACES_GIVEN];
  for (weir_held_place *place = key->places; place != NULL; place = place->next) {
    bool kept = place->state == WEIR_PLACE_SPARE;
    if (!kept && place->state != WEIR_PLACE_UNSENT) continue;
    bool over = monotonic_us >= place->spare_until_us || clocks.now_us >= place->until_us;
    if (kept ? !all && !over : stands) continue;
    unlink_place(place);
    place->key = key;
    if (kept) place->state = WEIR_PLACE_LEFT;
    key->leaving++;
    return place;
  }
  return NULL;
}

void weir_place_settle_spare(weir_places *places, weir_held_place *place, bool unsent) {
  weir_held_key *key = place->key;
  key->leaving--;
  if (unsent) {
    place->state = WEIR_PLACE_UNSENT;
    link_place(key, place);
    return;
  }
  places->spares--;
  free(place);
  weir_held_key_tidy(places, key);
}
