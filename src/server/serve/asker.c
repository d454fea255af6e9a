#include "serve/asker.h"

#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "thread.h"

/* An answer of a store near by comes within the first, and some for each request of a batch. */
enum { NEAR_US = 1000, NEAR_REQUEST_US = 4 };
/* A near store may make the loop wait for longer than that for 1 part in 100 of the time: a machine that is
 * busy does that to any store. Such waits are a debt, which time pays. A far one is near again when that is
 * paid, which goes faster: a busy machine lets threads wait too long as well, and a store that is far
 * does so each time. One that did not answer owes a second. */
enum { DEBT_MOST_US = 10000, DEBT_HELD_US = 50000, DEBT_PARTS = 100, FAR_DEBT_PARTS = 20 };
/* No loop waits for a store with a longer deadline than this: it would stand still for so long when the
 * store stops. */
enum { STALL_MOST_US = 20000 };

/* --- threads -----------------------------------------------------------------------------------
 */

/* The time that an exchange adds to its store's debt: nothing, if it was not too long. */
static int64_t debt_of(bool answered, int64_t took_us, size_t requests) {
  if (!answered) return DEBT_HELD_US;
  return took_us > NEAR_US + NEAR_REQUEST_US * (int64_t)requests ? took_us : 0;
}

/* Takes from the front of the line what fits into one exchange, and at least one. */
static weir_pending *take_line(weir_asker *asker, weir_turn **turns, size_t *count,
                               size_t *requests) {
  weir_pending *taken = asker->first;
  weir_pending *last = NULL;
  *count = *requests = 0;
  for (weir_pending *one = taken; one != NULL && *count < WEIR_BATCH_MOST; one = one->next) {
    if (last != NULL && *requests + one->left > WEIR_BATCH_MOST) break;
    *requests += one->left;
    turns[(*count)++] = &one->turn;
    last = one;
  }
  asker->first = last->next;
  if (asker->first == NULL) asker->last = &asker->first;
  last->next = NULL;
  return taken;
}

static void give_to_loop(weir_askers *askers, weir_pending *first) {
  const uint64_t once = 1;
  weir_pending *last = first;
  bool wakes = askers->done == NULL;
  while (last->next != NULL)
    last = last->next;
  last->next = askers->done;
  askers->done = first;
  if (wakes) (void)!write(askers->wake_fd, &once, sizeof once);
}

typedef struct weir_asker_memory {
  weir_asker *asker;
  weir_turn *turns[WEIR_BATCH_MOST];
  weir_exchange exchange;
} weir_asker_memory;

static void *run(void *self) {
  weir_asker_memory *memory = self;
  weir_asker *asker = memory->asker;
  weir_askers *askers = asker->all;
  pthread_mutex_lock(&askers->lock);
  for (;;) {
    while (asker->first == NULL && !asker->must_end) {
      asker->idle++;
      pthread_cond_wait(&asker->wake, &askers->lock);
      asker->idle--;
    }
    if (asker->first == NULL) break;
    size_t count;
    size_t requests;
    weir_pending *taken = take_line(asker, memory->turns, &count, &requests);
    if (asker->first != NULL && asker->idle > 0) pthread_cond_signal(&asker->wake);
    pthread_mutex_unlock(&askers->lock);
    atomic_fetch_add_explicit(&askers->counts->exchanging, 1, memory_order_relaxed);
    int64_t began_us = weir_monotonic_us();
    bool answered = weir_exchange_ask(&memory->exchange, memory->turns, count, asker->store);
    int64_t took_us = weir_monotonic_us() - began_us;
    atomic_fetch_sub_explicit(&askers->counts->exchanging, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&askers->counts->exchanges, 1, memory_order_relaxed);
    pthread_mutex_lock(&askers->lock);
    asker->has_trips = true;
    asker->trips_debt_us += debt_of(answered, took_us, requests);
    give_to_loop(askers, taken);
  }
  pthread_mutex_unlock(&askers->lock);
  free(memory);
  return NULL;
}

static void start_thread(weir_asker *asker) {
  weir_asker_memory *memory = malloc(sizeof *memory);
  if (memory == NULL) return;
  memory->asker = asker;
  if (weir_start_thread(&asker->threads[asker->thread_count], run, memory))
    asker->thread_count++;
  else
    free(memory);
}

/* --- stores ------------------------------------------------------------------------------------
 */

/* By the configuration's longest deadline of this store. */
static void read_deadline(weir_asker *asker, const weir_registry *registry) {
  const weir_config *config = registry->config;
  int64_t longest_us = -1; /* it has no such store */
  for (size_t i = 0; i < config->store_count; i++) {
    weir_store_times times = WEIR_STORE_TIMES_INIT;
    if (weir_registry_store_at(registry, i) != asker->store) continue;
    int64_t own_us = config->stores[i].options.deadline_us;
    if (own_us == 0 && weir_store_read_times(asker->store, &times) == WEIR_OK)
      own_us = times.timeout_us;
    if (own_us > longest_us) longest_us = own_us;
  }
  if (!weir_turn_is_one_store(asker->store)) longest_us = INT64_MAX; /* for each another */
  asker->is_gone = longest_us < 0;
  if (asker->is_gone) return; /* as it was */
  asker->may_stall = longest_us > STALL_MOST_US;
  asker->is_near = asker->is_local || (asker->is_near && !asker->may_stall);
}

static weir_asker *make_asker(weir_askers *askers, const weir_store *store,
                              const weir_registry *registry) {
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  weir_asker *made = calloc(1, sizeof *made);
  if (made == NULL || pthread_cond_init(&made->wake, NULL) != 0) {
    free(made);
    return NULL;
  }
  made->all = askers;
  made->store = store;
  made->last = &made->first;
  made->gathered_last = &made->gathered;
  /* A store inside this process has no name. */
  made->is_local = weir_turn_is_one_store(store) &&
                   (weir_store_read_server(store, 0, &state) != WEIR_OK || state.name == NULL);
  made->is_near = true;
  made->debt_at_us = weir_monotonic_us();
  read_deadline(made, registry);
  made->next = askers->first;
  askers->first = made;
  return made;
}

/* NULL: no memory. */
static weir_asker *find_asker(weir_askers *askers, const weir_store *store,
                              const weir_registry *registry) {
  for (weir_asker *one = askers->first; one != NULL; one = one->next)
    if (one->store == store) return one;
  return make_asker(askers, store, registry);
}

static void destroy_asker(weir_asker *asker) {
  pthread_mutex_lock(&asker->all->lock);
  asker->must_end = true;
  pthread_cond_broadcast(&asker->wake);
  pthread_mutex_unlock(&asker->all->lock);
  for (size_t i = 0; i < asker->thread_count; i++)
    pthread_join(asker->threads[i], NULL);
  pthread_cond_destroy(&asker->wake);
  free(asker);
}

void weir_askers_follow(weir_askers *askers, const weir_registry *registry) {
  for (weir_asker *one = askers->first; one != NULL; one = one->next)
    read_deadline(one, registry);
  /* Those of stores that are gone go when nothing waits for them: their threads sleep. */
  for (weir_asker **link = &askers->first, *one; (one = *link) != NULL;) {
    if (one->is_gone && one->outstanding == 0) {
      *link = one->next;
      destroy_asker(one);
    } else {
      link = &one->next;
    }
  }
}

/* --- near and far ------------------------------------------------------------------------------
 */

/* Notes the debt of an exchange, or of those of its threads since the last time. */
static void note_debt(weir_asker *asker, int64_t more_us, int64_t now_us) {
  int64_t parts = asker->is_near ? DEBT_PARTS : FAR_DEBT_PARTS;
  int64_t paid_us = (now_us - asker->debt_at_us) / parts;
  asker->debt_us = (paid_us < asker->debt_us ? asker->debt_us - paid_us : 0) + more_us;
  if (asker->debt_us > DEBT_HELD_US) asker->debt_us = DEBT_HELD_US;
  asker->debt_at_us += paid_us * parts; /* what is left of it pays later: turns may be shorter */
  asker->is_near = !asker->may_stall && asker->debt_us <= (asker->is_near ? DEBT_MOST_US : 0);
}

/* The loop waits itself; how long it has waited for a near one says whether it stays near. How long one
 * takes that never waits changes nothing. */
static void ask_in_place(weir_askers *askers, weir_asker *asker, weir_turn *turn,
                         const weir_store *store) {
  bool is_timed = asker != NULL && asker->is_near && !asker->is_local;
  int64_t began_us = is_timed ? weir_monotonic_us() : 0;
  bool answered = weir_exchange_ask(askers->own, &turn, 1, store);
  if (!is_timed) return;
  int64_t now_us = weir_monotonic_us();
  note_debt(asker, debt_of(answered, now_us - began_us, turn->asked_count), now_us);
}

/* --- turns -------------------------------------------------------------------------------------
 */

static bool is_far(void *self, const weir_store *store) {
  for (const weir_asker *one = ((const weir_askers *)self)->first; one != NULL; one = one->next)
    if (one->store == store) return !one->is_near;
  return true; /* there was no memory for it */
}

static bool mark_one(weir_askers *askers, const weir_turn *turn, const weir_store *store) {
  weir_asker *asker = find_asker(askers, store, turn->registry);
  if (asker == NULL) return true;
  asker->is_asked = true;
  return !asker->is_near;
}

/* Marks the stores that the turn asks; whether some are far. */
static bool mark(weir_askers *askers, const weir_turn *turn) {
  const weir_store *before = NULL;
  bool some_are_far = false;
  for (size_t i = 0; i < turn->asked_count; i++) {
    const weir_asked *asked = &turn->asked[i];
    if (asked->limiter == NULL || asked->store == before) continue;
    before = asked->store;
    some_are_far = mark_one(askers, turn, before) || some_are_far;
  }
  for (size_t i = 0; i < turn->place_count; i++)
    if (turn->places[i].kept != NULL)
      some_are_far = mark_one(askers, turn, turn->places[i].store) || some_are_far;
  return some_are_far;
}

size_t weir_askers_decide(weir_askers *askers, weir_turn *turn) {
  size_t left = 0;
  if (mark(askers, turn)) left = weir_exchange_know(turn, is_far, askers);
  for (weir_asker *one = askers->first; one != NULL; one = one->next) {
    if (one->is_asked && one->is_near) ask_in_place(askers, one, turn, one->store);
    one->is_asked = false;
  }
  return turn->asked_count - left;
}

/* --- handing over ------------------------------------------------------------------------------- */

/* It goes into line with all others of the turn. False: there is no thread. */
static bool gather(weir_asker *asker, weir_pending *pending) {
  if (asker->thread_count == 0) start_thread(asker);
  if (asker->thread_count == 0) return false;
  asker->outstanding++;
  pending->asker = asker;
  pending->next = NULL;
  *asker->gathered_last = pending;
  asker->gathered_last = &pending->next;
  return true;
}

void weir_askers_hand_over(weir_askers *askers) {
  for (weir_asker *asker = askers->first; asker != NULL; asker = asker->next) {
    if (asker->gathered == NULL) continue;
    pthread_mutex_lock(&askers->lock);
    *asker->last = asker->gathered;
    asker->last = asker->gathered_last;
    bool wants_thread = asker->idle == 0;
    if (!wants_thread) pthread_cond_signal(&asker->wake);
    pthread_mutex_unlock(&askers->lock);
    asker->gathered = NULL;
    asker->gathered_last = &asker->gathered;
    if (wants_thread && asker->thread_count < WEIR_ASKER_THREADS) start_thread(asker);
  }
}

bool weir_askers_send(weir_askers *askers, weir_pending *pending) {
  const weir_store *store;
  while ((store = weir_exchange_waits_for(&pending->turn, 0)) != NULL) {
    weir_asker *asker = find_asker(askers, store, pending->turn.registry);
    if (asker != NULL && !asker->is_near && gather(asker, pending)) return true;
    ask_in_place(askers, asker, &pending->turn, store);
  }
  return false;
}

void weir_askers_wait(weir_askers *askers, weir_turn *turn, uint32_t first) {
  const weir_store *store;
  while ((store = weir_exchange_waits_for(turn, first)) != NULL)
    ask_in_place(askers, NULL, turn, store);
}

weir_pending *weir_askers_collect(weir_askers *askers) {
  pthread_mutex_lock(&askers->lock);
  weir_pending *done = askers->done;
  askers->done = NULL;
  if (done != NULL) {
    int64_t now_us = weir_monotonic_us();
    for (weir_asker *one = askers->first; one != NULL; one = one->next) {
      if (one->has_trips) note_debt(one, one->trips_debt_us, now_us);
      one->has_trips = false;
      one->trips_debt_us = 0;
    }
  }
  pthread_mutex_unlock(&askers->lock);
  for (weir_pending *one = done; one != NULL; one = one->next)
    one->asker->outstanding--;
  return done;
}

/* --- life -------------------------------------------------------------------------------------- */

bool weir_askers_init(weir_askers *askers, weir_serve_counts *counts, int wake_fd) {
  *askers = (weir_askers){.counts = counts, .wake_fd = wake_fd};
  if (pthread_mutex_init(&askers->lock, NULL) != 0) return false;
  askers->own = malloc(sizeof *askers->own);
  if (askers->own != NULL) return true;
  pthread_mutex_destroy(&askers->lock);
  return false;
}

void weir_askers_end(weir_askers *askers) {
  if (askers->own == NULL) return;
  for (weir_asker *one; (one = askers->first) != NULL;) {
    askers->first = one->next;
    destroy_asker(one);
  }
  pthread_mutex_destroy(&askers->lock);
  free(askers->own);
}
