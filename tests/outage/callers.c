#include "outage/callers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "faults/ground.h"

enum {
  THREADS_USUAL = 2,
  THREADS_MOST = 16,
  WARM_KEYS = 20,
  SETTLED_COST = 10,
  KEY_BYTES = 64,
  PLACE_WAIT_US = 50000,
  PLACE_LOOK_US = 2000 /* how often who holds a place looks whether it still does */
};

/* A thread of a process. */
struct caller {
  const struct traffic *traffic;
  size_t process, number; /* of its lane */
  weir_limiter *limiter;
  uint64_t random;
  double per_us;           /* requests */
  double until[KEYS_MOST]; /* key by key, the part of this process's requests so far */
};

static double uniform(uint64_t *random) {
  return (double)(next_number(random) >> 11) / 9007199254740992.0;
}

/* --- how much of which key comes to which process ------------------------------------------------
 */

static double key_part(const struct lane *lane, int key) {
  double all = 0;
  if (!lane->is_uneven) return 1.0 / lane_keys(lane);
  for (int i = 0; i < lane_keys(lane); i++)
    all += 1.0 / (i + 1);
  return 1.0 / (key + 1) / all;
}

/* The even keys have a process of their own each. */
static double process_part(const struct lane *lane, int key, size_t process) {
  static const double parts[PROCESSES] = {.5, .2, .1, .04, .04, .04, .04, .04};
  if (!lane->is_uneven) return 1.0 / PROCESSES;
  if (key % 2 == 0) return (size_t)key / 2 % PROCESSES == process ? 1 : 0;
  return parts[process];
}

static void plan_caller(struct caller *caller, const struct lane *lane) {
  double all = lane->demand * (double)lane->limit * lane_keys(lane) / WINDOW_US;
  double sum = 0;
  for (int key = 0; key < lane_keys(lane); key++)
    caller->until[key] = sum +=
        key_part(lane, key) * process_part(lane, key, caller->process) * all;
  for (int key = 0; key < lane_keys(lane); key++)
    caller->until[key] /= sum;
  caller->per_us = sum / (lane->threads > 0 ? lane->threads : THREADS_USUAL);
}

/* --- one request ---------------------------------------------------------------------------------
 */

/* In a lane of a day, keys that warm up have numbers from 1 on, others each second, and are not
 * counted. */
static int draw_key(struct caller *caller, const struct lane *lane) {
  const struct tally *tally = caller->traffic->tally;
  if (lane->is_day && atomic_load(&tally->day_begun)) return 0;
  if (lane->is_day)
    return 1 + WARM_KEYS * (int)((real_time_us() - tally->origin_us) / WINDOW_US) +
           (int)(next_number(&caller->random) >> 33) % WARM_KEYS;
  bool has_moved = lane->kept == KEYS_MOVE && atomic_load(&tally->fault_us) > 0;
  if (lane->kept != KEYS_ANYWHERE)
    return has_moved && next_number(&caller->random) >> 63 == 0 ? 0 : (int)caller->process;
  double at = uniform(&caller->random);
  int key = 0;
  while (key < lane_keys(lane) - 1 && caller->until[key] <= at)
    key++;
  return key;
}

static weir_status settle(weir_limiter *limiter, const char *key, weir_decision *decision,
                          int64_t *kept) {
  weir_status status = weir_limiter_take(limiter, key, strlen(key), SETTLED_COST, decision, NULL);
  if (status != WEIR_OK || !decision->allowed) return status;
  weir_status back =
      weir_limiter_refund(limiter, key, strlen(key), SETTLED_COST - 1, decision, NULL);
  *kept = back == WEIR_OK || back == WEIR_UNKNOWN_OUTCOME ? 1 : SETTLED_COST;
  return status;
}

static weir_status reserve(struct caller *caller, const char *key, weir_decision *decision,
                           int64_t *kept) {
  weir_request request = {.key = key, .key_length = strlen(key), .cost = 1};
  weir_reservation *reservation = NULL;
  weir_status status = weir_limiter_reserve(caller->limiter, &request, &reservation, NULL);
  *decision = request.decision;
  *kept = 1;
  if (reservation == NULL) return status;
  if (next_number(&caller->random) >> 62 == 0)
    weir_reservation_commit(reservation, NULL);
  else
    *kept = weir_reservation_cancel(reservation, NULL) == WEIR_OK ? 0 : 1;
  weir_reservation_destroy(reservation);
  return status;
}

static weir_status decide(struct caller *caller, const struct lane *lane, const char *key,
                          weir_decision *decision, int64_t *kept) {
  *kept = 1;
  switch (lane->callers) {
    case CALLERS_SETTLE:
      return settle(caller->limiter, key, decision, kept);
    case CALLERS_RESERVE:
      return reserve(caller, key, decision, kept);
    case CALLERS_TAKE:
    case CALLERS_HOLD:
      break;
  }
  return weir_limiter_take(caller->limiter, key, strlen(key), 1, decision, NULL);
}

static bool may_fail(const struct lane *lane, weir_status status) {
  return lane->fallback == WEIR_FALLBACK_NONE && status != WEIR_BAD_ARGUMENT;
}

static void ask(struct caller *caller, const struct lane *lane) {
  struct tally *tally = caller->traffic->tally;
  char text[KEY_BYTES];
  weir_decision decision = {0};
  int64_t kept;
  int key = draw_key(caller, lane);
  bool is_counted = !lane->is_day || key == 0;
  snprintf(text, sizeof text, "%s-%" PRIu64 "-%d", lane->name, caller->traffic->seed, key);
  struct cell *cell =
      is_counted ? tally_cell(tally, lane, caller->number, key, real_time_us()) : NULL;
  bool is_due = cell != NULL && atomic_fetch_add(&cell->asked, 1) < lane->limit;
  int64_t begin_us = weir_monotonic_us();
  weir_status status = decide(caller, lane, text, &decision, &kept);
  int64_t end_us = weir_monotonic_us();
  if (end_us - begin_us > WAIT_LEAST_US && atomic_load(&tally->fault_us) > 0)
    tally_note_wait(tally, caller->process, begin_us, end_us);
  if (is_due) atomic_fetch_add(&cell->due, 1);
  if (status != WEIR_OK) {
    if (!may_fail(lane, status)) give_up("%s: %s", lane->rule, weir_status_name(status));
    atomic_fetch_add(&tally->answers[caller->number].errors, 1);
    return;
  }
  if (is_due && !decision.allowed &&
      cell == tally_cell(tally, lane, caller->number, key, decision.at_us)) {
    atomic_fetch_add(&cell->wrongly_denied, 1);
    if (atomic_load(&tally->fault_us) > 0)
      atomic_fetch_add(&tally->answers[caller->number].wrongly_denied[decision.source], 1);
  }
  if (is_counted)
    tally_note(tally, lane, caller->number, key, &decision, decision.allowed ? kept : 0);
}

/* --- places --------------------------------------------------------------------------------------
 */

/* The answer of held_until_us() was true before it was asked, too. */
static void hold_place(struct caller *caller, const struct lane *lane, weir_reservation *place,
                       bool is_by_policy) {
  int64_t from_us = real_time_us();
  double work_us = -log(1 - uniform(&caller->random)) * (double)lane->work_us;
  int64_t end_us = from_us + (int64_t)work_us;
  int64_t until_us = from_us;
  int64_t held_us;
  int64_t now_us;
  while ((held_us = weir_reservation_held_until_us(place)) > 0) {
    until_us = held_us;
    now_us = real_time_us();
    if (now_us >= end_us || atomic_load(&caller->traffic->tally->over)) break;
    sleep_us(end_us - now_us < PLACE_LOOK_US ? end_us - now_us : PLACE_LOOK_US);
  }
  now_us = real_time_us();
  if (now_us < until_us) until_us = now_us;
  tally_note_held(caller->traffic->tally,
                  &(struct holding){caller->number, from_us, until_us, is_by_policy});
}

static void *hold_places(void *context) {
  struct caller *caller = context;
  const struct lane *lane = caller->traffic->lanes[caller->number];
  struct tally *tally = caller->traffic->tally;
  char key[KEY_BYTES];
  int64_t length = snprintf(key, sizeof key, "%s-%" PRIu64, lane->name, caller->traffic->seed);
  while (!atomic_load(&tally->over)) {
    weir_request request = {.key = key, .key_length = (size_t)length, .cost = 1};
    weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
    weir_reservation *place = NULL;
    weir_limiter_reserve_wait(caller->limiter, &request, PLACE_WAIT_US, &place, NULL);
    bool is_by_policy = request.decision.source == WEIR_SOURCE_FALLBACK ||
                        request.decision.source == WEIR_SOURCE_LATE;
    if (atomic_load(&tally->fault_us) == 0) {
      weir_limiter_read_counts(caller->limiter, &counts);
      atomic_store(&tally->shares[caller->number][caller->process], counts.share);
    } else if (is_by_policy) {
      atomic_fetch_add(place != NULL ? &tally->answers[caller->number].by_policy_allowed
                                     : &tally->answers[caller->number].by_policy_denied,
                       1);
    }
    if (place == NULL) {
      sleep_us(PLACE_LOOK_US);
      continue;
    }
    hold_place(caller, lane, place, is_by_policy);
    weir_reservation_commit(place, NULL);
    weir_reservation_destroy(place);
  }
  return NULL;
}

/* Requests that a thread missed while it was held up come at once. */
static void *call(void *context) {
  struct caller *caller = context;
  const struct lane *lane = caller->traffic->lanes[caller->number];
  struct tally *tally = caller->traffic->tally;
  double due_us = (double)weir_monotonic_us();
  while (!atomic_load(&tally->over)) {
    due_us += -log(1 - uniform(&caller->random)) / caller->per_us;
    while ((double)weir_monotonic_us() < due_us && !atomic_load(&tally->over)) {
      int64_t left_us = (int64_t)due_us - weir_monotonic_us();
      sleep_us(left_us < 100 * MS_US ? left_us + 1 : 100 * MS_US);
    }
    ask(caller, lane);
  }
  return NULL;
}

/* --- a process -----------------------------------------------------------------------------------
 */

struct callers {
  size_t count, limiter_count;
  weir_limiter *limiters[LANES_MOST]; /* by lane */
  struct caller threads[LANES_MOST * THREADS_MOST];
  pthread_t ids[LANES_MOST * THREADS_MOST];
};

static weir_limiter *make_limiter(weir_store *store, const struct lane *lane, weir_clock clock) {
  weir_message message = {""};
  weir_limiter *limiter;
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  options.fallback = lane->fallback;
  options.peers = lane->peers;
  options.clock = clock;
  if (weir_limiter_create(store, lane->rule, &options, &limiter, &message) != WEIR_OK)
    give_up("%s: %s", lane->rule, message.text);
  return limiter;
}

struct callers *callers_make(const struct traffic *traffic, size_t process, weir_store *store,
                             weir_clock clock) {
  struct callers *made = calloc(1, sizeof *made);
  if (made == NULL) give_up("no memory");
  made->limiter_count = traffic->count;
  for (size_t i = 0; i < traffic->count; i++) {
    const struct lane *lane = traffic->lanes[i];
    int wanted = lane->threads > 0 ? lane->threads : THREADS_USUAL;
    made->limiters[i] = make_limiter(store, lane, clock);
    for (int thread = 0; thread < wanted; thread++) {
      struct caller *caller = &made->threads[made->count++];
      *caller = (struct caller){
          .traffic = traffic,
          .process = process,
          .number = i,
          .limiter = made->limiters[i],
          .random =
              (traffic->seed * 1000 + process + 1) * UINT64_C(0x9e3779b97f4a7c15) + made->count};
      plan_caller(caller, lane);
    }
  }
  return made;
}

void callers_begin(struct callers *callers) {
  for (size_t i = 0; i < callers->count; i++) {
    struct caller *caller = &callers->threads[i];
    bool holds = caller->traffic->lanes[caller->number]->callers == CALLERS_HOLD;
    if (pthread_create(&callers->ids[i], NULL, holds ? hold_places : call, caller) != 0)
      give_up("no thread left");
  }
}

weir_limiter *callers_limiter(const struct callers *callers, size_t lane) {
  return callers->limiters[lane];
}

void callers_end(struct callers *callers) {
  for (size_t i = 0; i < callers->count; i++)
    pthread_join(callers->ids[i], NULL);
  for (size_t i = 0; i < callers->limiter_count; i++)
    weir_limiter_destroy(callers->limiters[i]);
  free(callers);
}
