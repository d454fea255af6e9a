/* The table of places under its lock, and the thread that releases those that no request does. */
#include "keep/keeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/weir.h>

#include "clock.h"
#include "condition.h"
#include "tell/log.h"
#include "thread.h"

/* Limiters without places are let go of so often. */
enum { SECOND_US = 1000000, HOUR_S = 3600 };

const char *const weir_kept_end_names[WEIR_KEPT_ENDS] = {[WEIR_KEPT_RELEASED] = "released",
                                                         [WEIR_KEPT_DISCONNECTED] = "disconnected",
                                                         [WEIR_KEPT_OVER] = "over",
                                                         [WEIR_KEPT_PUT_OUT] = "put_out"};

/* --- for requests -------------------------------------------------------------------------------
 */

weir_kept *weir_keeper_make(weir_keeper *keeper, const weir_kept_wish *wish, weir_status *status,
                            weir_message *why) {
  size_t most = (size_t)wish->registry->config->places.most;
  weir_kept *kept = calloc(1, sizeof *kept);
  if (kept != NULL) {
    *kept = (weir_kept){.holder = wish->holder,
                        .store = wish->store,
                        .cost = wish->cost,
                        .end.until_us = wish->for_us};
    snprintf(kept->client, sizeof kept->client, "%s", wish->client);
  }
  pthread_mutex_lock(&keeper->lock);
  bool is_full = keeper->table.ends.count + keeper->table.asked >= most;
  bool is_made = kept != NULL && !is_full && weir_kept_table_add(&keeper->table, kept, wish);
  keeper->refused += !is_made;
  pthread_mutex_unlock(&keeper->lock);
  if (is_made) return kept;
  free(kept);
  *status = WEIR_NO_MEMORY;
  *why = is_full ? (weir_message){"so many places are held as places.most allows"}
                 : (weir_message){"the server is short of memory"};
  return NULL;
}

/* It is paid for until the one, and may be held until the other. */
static weir_kept_state state_of(const weir_kept *kept) {
  weir_kept_state state = {.held_until_us = weir_reservation_held_until_us(kept->reservation)};
  int64_t over_us = weir_clock_us(CLOCK_REALTIME) + kept->end.until_us - weir_monotonic_us();
  state.is_held = state.held_until_us > 0;
  if (!state.is_held) return state;
  if (over_us < state.held_until_us) state.held_until_us = over_us;
  state.token = weir_reservation_token(kept->reservation);
  return state;
}

void weir_keeper_enter(weir_keeper *keeper, weir_kept *kept, weir_reservation *reservation,
                       weir_kept_state *state) {
  pthread_mutex_lock(&keeper->lock);
  kept->reservation = reservation;
  kept->since_us = weir_monotonic_us();
  kept->end.until_us += kept->since_us;
  weir_kept_table_enter(&keeper->table, kept);
  *state = state_of(kept);
  if (kept->end.until_us < keeper->sleeps_until_us) pthread_cond_signal(&keeper->wake);
  pthread_mutex_unlock(&keeper->lock);
}

void weir_keeper_drop(weir_keeper *keeper, weir_kept *kept) {
  weir_reservation_destroy(kept->reservation);
  pthread_mutex_lock(&keeper->lock);
  weir_kept_table_drop(&keeper->table, kept);
  pthread_mutex_unlock(&keeper->lock);
  free(kept);
}

void weir_keeper_write_key(weir_keeper *keeper, const weir_place_name *name, weir_bytes *out) {
  pthread_mutex_lock(&keeper->lock);
  const weir_kept_key *key = weir_kept_table_key_of(&keeper->table, name);
  if (key != NULL)
    weir_bytes_add(out, key->counted + key->prefix_length, key->length - key->prefix_length);
  pthread_mutex_unlock(&keeper->lock);
}

bool weir_keeper_look(weir_keeper *keeper, const weir_place_name *name,
                      const weir_hash_text *counted, weir_kept_state *state, weir_message *why) {
  pthread_mutex_lock(&keeper->lock);
  const weir_kept *kept = weir_kept_table_find(&keeper->table, name, counted, why);
  *state = kept != NULL ? state_of(kept) : (weir_kept_state){.is_held = false};
  pthread_mutex_unlock(&keeper->lock);
  return kept != NULL || why->text[0] == '\0';
}

/* The lock is held, as in the next. */
static void take_out(weir_keeper *keeper, weir_kept *kept, weir_kept_end end) {
  weir_kept_table_take_out(&keeper->table, kept);
  keeper->ended[end]++;
}

static void let_leave(weir_keeper *keeper, weir_kept *kept) {
  kept->next = keeper->leaving;
  keeper->leaving = kept;
  pthread_cond_signal(&keeper->wake);
}

weir_kept *weir_keeper_take(weir_keeper *keeper, const weir_place_name *name,
                            const weir_hash_text *counted, weir_kept_end end,
                            weir_kept_state *state, weir_message *why) {
  pthread_mutex_lock(&keeper->lock);
  weir_kept *kept = weir_kept_table_find(&keeper->table, name, counted, why);
  if (kept != NULL) {
    *state = state_of(kept);
    take_out(keeper, kept, end);
  }
  pthread_mutex_unlock(&keeper->lock);
  if (kept == NULL && why->text[0] == '\0')
    *why =
        (weir_message){"place: it is held no more: it was released before, or its time was over"};
  return kept;
}

void weir_keeper_release_soon(weir_keeper *keeper, weir_kept *kept) {
  pthread_mutex_lock(&keeper->lock);
  let_leave(keeper, kept);
  pthread_mutex_unlock(&keeper->lock);
}

/* New ones stand in front. */
size_t weir_keeper_take_some(weir_keeper *keeper, const weir_limiter *limiter,
                             const weir_hash_text *counted, int64_t *cost,
                             weir_kept *some[WEIR_KEPT_SOME]) {
  size_t count = 0;
  pthread_mutex_lock(&keeper->lock);
  const weir_kept_key *key = weir_kept_table_find_key(&keeper->table, limiter, counted);
  weir_kept *kept = key != NULL ? key->last : NULL;
  for (weir_kept *before; kept != NULL && *cost > 0 && count < WEIR_KEPT_SOME; kept = before) {
    before = kept->previous;
    if (kept->cost > *cost) continue;
    *cost -= kept->cost;
    take_out(keeper, kept, WEIR_KEPT_RELEASED);
    some[count++] = kept;
  }
  pthread_mutex_unlock(&keeper->lock);
  return count;
}

void weir_keeper_leave(weir_keeper *keeper, weir_holder *holder, bool stays) {
  pthread_mutex_lock(&keeper->lock);
  for (weir_kept *kept; (kept = holder->first) != NULL;) {
    if (stays) {
      weir_kept_leave_holder(kept);
    } else {
      take_out(keeper, kept, WEIR_KEPT_DISCONNECTED);
      let_leave(keeper, kept);
    }
  }
  pthread_mutex_unlock(&keeper->lock);
}

bool weir_keeper_holds(weir_keeper *keeper, const weir_holder *holder) {
  pthread_mutex_lock(&keeper->lock);
  bool holds = holder->first != NULL;
  pthread_mutex_unlock(&keeper->lock);
  return holds;
}

/* --- for operators ------------------------------------------------------------------------------
 */

void weir_keeper_read(weir_keeper *keeper, weir_kept_figures *figures) {
  pthread_mutex_lock(&keeper->lock);
  figures->held = keeper->table.ends.count;
  figures->refused = keeper->refused;
  memcpy(figures->ended, keeper->ended, sizeof keeper->ended);
  pthread_mutex_unlock(&keeper->lock);
}

size_t weir_keeper_find_busiest(weir_keeper *keeper, weir_kept_busy *busiest, size_t most) {
  const weir_kept_key *found[WEIR_KEPT_BUSIEST_MOST];
  size_t count = 0;
  size_t copied = 0;
  if (most > WEIR_KEPT_BUSIEST_MOST) most = WEIR_KEPT_BUSIEST_MOST;
  pthread_mutex_lock(&keeper->lock);
  weir_kept_key *const *next = NULL;
  while ((next = weir_hash_table_next(&keeper->table.by_key, next)) != NULL) {
    size_t at = count < most ? count++ : most;
    for (; at > 0 && found[at - 1]->count < (*next)->count; at--)
      if (at < most) found[at] = found[at - 1];
    if (at < most) found[at] = *next;
  }
  for (size_t i = 0; i < count; i++) {
    const weir_kept_key *key = found[i];
    char *counted = key->count > 0 ? malloc(key->length) : NULL;
    if (counted == NULL) continue;
    memcpy(counted, key->counted, key->length);
    busiest[copied++] =
        (weir_kept_busy){key->count, key->cost, counted, key->length, key->prefix_length};
  }
  pthread_mutex_unlock(&keeper->lock);
  return copied;
}

/* A limiter that was changed meanwhile may have places of this key as well. */
size_t weir_keeper_find_holders(weir_keeper *keeper, const weir_hash_text *counted,
                                weir_kept_holder *holders, size_t most) {
  const weir_kept_table *table = &keeper->table;
  size_t count = 0;
  pthread_mutex_lock(&keeper->lock);
  for (size_t i = 0; i < table->limiter_count; i++) {
    const weir_kept_key *key = weir_kept_table_find_key(table, table->limiters[i].limiter, counted);
    const weir_kept *kept = key != NULL ? key->first : NULL;
    for (; kept != NULL; kept = kept->next, count++) {
      if (count >= most) continue;
      holders[count] = (weir_kept_holder){.name = kept->name,
                                          .state = state_of(kept),
                                          .cost = kept->cost,
                                          .since_us = kept->since_us,
                                          .until_us = kept->end.until_us};
      memcpy(holders[count].client, kept->client, sizeof kept->client);
    }
  }
  pthread_mutex_unlock(&keeper->lock);
  return count;
}

/* --- the thread ---------------------------------------------------------------------------------
 */

/* The lock is held, and let go while the store is asked, as in the next. A place whose release has
 * no answer is free when what was paid is over. */
static void release_some(weir_keeper *keeper, weir_kept **some, weir_reservation **reservations) {
  size_t count = 0;
  for (; keeper->leaving != NULL && count < WEIR_BATCH_MOST; count++) {
    some[count] = keeper->leaving;
    reservations[count] = some[count]->reservation;
    keeper->leaving = some[count]->next;
  }
  pthread_mutex_unlock(&keeper->lock);
  (void)weir_release_together(reservations, count, NULL, NULL);
  for (size_t i = 0; i < count; i++)
    weir_keeper_drop(keeper, some[i]);
  pthread_mutex_lock(&keeper->lock);
}

/* Lets go of limiters without places, which may wait for a store. */
static void let_limiters_go(weir_keeper *keeper) {
  weir_shared_limiter *shared;
  while ((shared = weir_kept_table_take_limiter(&keeper->table)) != NULL) {
    pthread_mutex_unlock(&keeper->lock);
    weir_registry_let_go(shared);
    pthread_mutex_lock(&keeper->lock);
  }
}

static void *run(void *self) {
  weir_keeper *keeper = self;
  weir_ends *ends = &keeper->table.ends;
  weir_kept *some[WEIR_BATCH_MOST];
  weir_reservation *reservations[WEIR_BATCH_MOST];
  int64_t looked_us = 0;
  pthread_mutex_lock(&keeper->lock);
  while (!keeper->must_end || keeper->leaving != NULL) {
    int64_t now_us = weir_monotonic_us();
    while (weir_ends_next_us(ends) <= now_us) {
      weir_kept *over = (weir_kept *)ends->heap[0]; /* a place begins with its end */
      take_out(keeper, over, WEIR_KEPT_OVER);
      let_leave(keeper, over);
    }
    if (keeper->leaving != NULL) {
      release_some(keeper, some, reservations);
      continue;
    }
    if (now_us - looked_us > SECOND_US) {
      let_limiters_go(keeper);
      looked_us = now_us;
    }
    int64_t until_us = now_us + SECOND_US * (keeper->table.limiter_count > 0 ? INT64_C(1) : HOUR_S);
    if (weir_ends_next_us(ends) < until_us) until_us = weir_ends_next_us(ends);
    keeper->sleeps_until_us = until_us;
    weir_condition_wait_until(&keeper->wake, &keeper->lock, until_us);
    keeper->sleeps_until_us = 0;
  }
  pthread_mutex_unlock(&keeper->lock);
  return NULL;
}

bool weir_keeper_start(weir_keeper *keeper) {
  weir_kept_table_init(&keeper->table);
  if (pthread_mutex_init(&keeper->lock, NULL) != 0) return false;
  if (!weir_condition_init(&keeper->wake)) {
    pthread_mutex_destroy(&keeper->lock);
    return false;
  }
  keeper->is_made = true;
  keeper->is_running = weir_start_thread(&keeper->thread, run, keeper);
  return keeper->is_running;
}

void weir_keeper_end(weir_keeper *keeper) {
  weir_kept_table *table = &keeper->table;
  weir_shared_limiter *shared;
  if (!keeper->is_made) return;
  pthread_mutex_lock(&keeper->lock);
  keeper->must_end = true;
  pthread_cond_signal(&keeper->wake);
  pthread_mutex_unlock(&keeper->lock);
  if (keeper->is_running) pthread_join(keeper->thread, NULL);
  if (table->ends.count > 0)
    weir_serve_log("%zu places are held by clients: each stays paid for until its time is over",
                   table->ends.count);
  while (table->ends.count > 0) {
    weir_kept *kept = (weir_kept *)table->ends.heap[0];
    weir_kept_table_take_out(table, kept);
    weir_keeper_drop(keeper, kept);
  }
  while ((shared = weir_kept_table_take_limiter(table)) != NULL)
    weir_registry_let_go(shared);
  weir_kept_table_clean_up(table);
  pthread_cond_destroy(&keeper->wake);
  pthread_mutex_destroy(&keeper->lock);
}
