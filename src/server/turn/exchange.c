#include "turn/exchange.h"

#include <stdlib.h>

#include "clock.h"
#include "turn/turn.h"

/* --- what is left ------------------------------------------------------------------------------
 */

static const weir_store *find_asked(const weir_turn *turn, size_t index) {
  const weir_asked *asked = &turn->asked[index];
  if (asked->limiter != NULL) return asked->store;
  if (asked->place != WEIR_NO_PLACE && turn->places[asked->place].kept != NULL)
    return turn->places[asked->place].store;
  for (size_t i = 0; i < asked->release_count; i++)
    if (turn->places[asked->releases + i].kept != NULL)
      return turn->places[asked->releases + i].store;
  return NULL;
}

const weir_store *weir_exchange_waits_for(const weir_turn *turn, uint32_t first) {
  for (uint32_t i = first; i != WEIR_NO_ANSWER; i = turn->answers[i].next) {
    const weir_answer *answer = &turn->answers[i];
    const weir_store *store = NULL;
    for (size_t j = 0; store == NULL && j < answer->asked_count; j++)
      store = find_asked(turn, answer->asked + j);
    if (store == NULL && answer->kind == WEIR_ANSWER_PARTS && weir_parts_may_return(turn, answer))
      store = answer->is.parts.store;
    if (store != NULL) return store;
  }
  return NULL;
}

/* --- a batch ----------------------------------------------------------------------------------- */

/* Only what settles brings a decision: of all others it is not copied. */
static void write_request(const weir_turn *turn, const weir_asked *one, weir_request *request) {
  request->key = turn->bytes.data + one->key;
  request->key_length = one->request.key_length;
  request->cost = one->request.cost;
  request->costs = one->costs != WEIR_NO_COSTS ? turn->costs + one->costs : NULL;
  request->longest_wait_us = 0;
  request->flags = one->request.flags;
  if (request->flags & WEIR_REQUEST_SETTLE) request->decision = one->request.decision;
}

static void add(weir_exchange *exchange, weir_turn *turn, weir_asked *one) {
  size_t at = exchange->count++;
  write_request(turn, one, &exchange->requests[at]);
  exchange->limiters[at] = one->limiter;
  exchange->extras[at] = weir_turn_extra(turn, one);
  exchange->has_extras = exchange->has_extras || exchange->extras[at] != NULL;
  exchange->asked[at] = one;
  exchange->turns[at] = turn;
}

static bool is_failure(weir_status status) {
  return status == WEIR_TIMEOUT || weir_status_classify(status) == WEIR_CLASS_STORE;
}

static void note_answer(weir_exchange *exchange, const weir_request *request) {
  if (request->status != WEIR_OK)
    exchange->failed = exchange->failed || is_failure(request->status);
  else if (weir_source_is_policy(request->decision.source))
    exchange->failed = true;
}

/* The request has its answer. A decision is there only where its status says so. */
static void note_decided(weir_asked *one, const weir_request *request) {
  one->request.status = request->status;
  if (request->status == WEIR_OK) one->request.decision = request->decision;
  one->limiter = NULL;
}

static void take_answer(weir_exchange *exchange, size_t at) {
  note_decided(exchange->asked[at], &exchange->requests[at]);
  note_answer(exchange, &exchange->requests[at]);
}

/* What the requests of a batch say of themselves; NULL: none says anything. */
static const weir_extra *const *extras_of(const weir_exchange *exchange) {
  return exchange->has_extras ? exchange->extras : NULL;
}

static void clear_batch(weir_exchange *exchange) {
  exchange->count = 0;
  exchange->has_extras = false;
}

/* Every request has a status of its own, which is what is answered. */
static void decide_batch(weir_exchange *exchange) {
  if (exchange->count > 0)
    (void)weir_decide_extra(exchange->limiters, exchange->requests, extras_of(exchange),
                            exchange->count, NULL);
  for (size_t i = 0; i < exchange->count; i++)
    take_answer(exchange, i);
  clear_batch(exchange);
}

/* --- places ------------------------------------------------------------------------------------ */

static void release_batch(weir_exchange *exchange) {
  for (size_t i = 0; i < exchange->count; i++) {
    exchange->reservations[i] = exchange->places[i]->kept->reservation;
    exchange->statuses[i] = WEIR_NO_MEMORY; /* where nothing is touched */
  }
  if (exchange->count > 0)
    (void)weir_release_together(exchange->reservations, exchange->count, exchange->statuses, NULL);
  for (size_t i = 0; i < exchange->count; i++) {
    weir_asked_place *place = exchange->places[i];
    exchange->failed = exchange->failed || is_failure(exchange->statuses[i]);
    /* Whether it was lost before, the place's own state tells. */
    bool was_lost = exchange->statuses[i] == WEIR_PLACE_LOST;
    place->released = was_lost ? WEIR_OK : exchange->statuses[i];
    weir_keeper_drop(exchange->turns[i]->keeper, place->kept);
    place->kept = NULL;
  }
  exchange->count = 0;
}

/* Places that were entered are kept for their clients. */
static void acquire_batch(weir_exchange *exchange) {
  for (size_t i = 0; i < exchange->count; i++)
    exchange->reservations[i] = NULL;
  if (exchange->count > 0)
    (void)weir_reserve_extra(exchange->limiters, exchange->requests, extras_of(exchange),
                             exchange->count, exchange->reservations, NULL);
  for (size_t i = 0; i < exchange->count; i++) {
    weir_asked_place *place = exchange->places[i];
    weir_keeper *keeper = exchange->turns[i]->keeper;
    take_answer(exchange, i);
    if (exchange->reservations[i] == NULL) {
      weir_keeper_drop(keeper, place->kept);
    } else {
      place->name = place->kept->name; /* once it is entered, others may end it */
      weir_keeper_enter(keeper, place->kept, exchange->reservations[i], &place->state);
    }
    place->kept = NULL;
  }
  clear_batch(exchange);
}

static void add_released(weir_exchange *exchange, weir_turn *turn, const weir_store *store) {
  for (size_t i = 0; i < turn->place_count; i++) {
    weir_asked_place *place = &turn->places[i];
    if (!place->releases || place->kept == NULL || place->store != store) continue;
    exchange->turns[exchange->count] = turn;
    exchange->places[exchange->count++] = place;
    if (exchange->count == WEIR_BATCH_MOST) release_batch(exchange);
  }
}

static void add_acquired(weir_exchange *exchange, weir_turn *turn, const weir_store *store) {
  int64_t now_us = turn->has_ends ? weir_monotonic_us() : 0;
  for (size_t i = 0; i < turn->place_count; i++) {
    weir_asked_place *place = &turn->places[i];
    if (place->releases || place->kept == NULL || place->store != store) continue;
    if (!weir_turn_is_worth(turn, &turn->asked[place->request], now_us)) {
      weir_keeper_drop(turn->keeper, place->kept);
      place->kept = NULL;
      continue;
    }
    exchange->places[exchange->count] = place;
    add(exchange, turn, &turn->asked[place->request]);
    if (exchange->count == WEIR_BATCH_MOST) acquire_batch(exchange);
  }
}

/* --- asking ------------------------------------------------------------------------------------ */

static void add_requests(weir_exchange *exchange, weir_turn *turn, const weir_store *store) {
  int64_t now_us = turn->has_ends ? weir_monotonic_us() : 0;
  for (size_t i = 0; i < turn->asked_count; i++) {
    weir_asked *one = &turn->asked[i];
    if (one->store != store || one->apart != WEIR_ASKED_WITH_OTHERS ||
        !weir_turn_is_worth(turn, one, now_us) || one->is_of_set)
      continue;
    add(exchange, turn, one);
    if (exchange->count == WEIR_BATCH_MOST) decide_batch(exchange);
  }
}

/* Each in round trips of its own; what they leave to be asked goes out together. */
static void decide_sets(weir_exchange *exchange, weir_turn *turn, const weir_store *store) {
  for (size_t i = 0; i < turn->set_count; i++) {
    weir_asked_set *set = &turn->sets[i];
    if (set->store != store || set->is_decided) continue;
    bool is_whole = weir_set_decide(turn, set);
    for (size_t j = 0; j < set->count + set->behind; j++) {
      weir_asked *one = &turn->asked[set->first + j];
      if (is_whole && j < set->count) note_answer(exchange, &one->request);
      if (one->limiter == NULL) continue;
      add(exchange, turn, one);
      if (exchange->count == WEIR_BATCH_MOST) decide_batch(exchange);
    }
  }
}

/* A reset forgets what came before it over its connection: those have been decided. */
static void reset_keys(weir_exchange *exchange, weir_turn *turn, const weir_store *store) {
  for (size_t i = 0; i < turn->asked_count; i++) {
    weir_asked *one = &turn->asked[i];
    if (one->apart != WEIR_ASKED_RESETS || one->limiter == NULL || one->store != store) continue;
    one->request.status = weir_limiter_reset(one->limiter, turn->bytes.data + one->key,
                                             one->request.key_length, NULL);
    exchange->failed = exchange->failed || is_failure(one->request.status);
    one->limiter = NULL;
  }
}

/* --- limits of keys ---------------------------------------------------------------------------- */

enum { LIMITS_AT_ONCE = 64 };

/* Of one limiter: so they leave together. */
static void set_batch(weir_exchange *exchange, weir_limit *limits) {
  if (exchange->count > 0)
    (void)weir_limiter_set_limits(exchange->limiters[0], limits, exchange->count, NULL);
  for (size_t i = 0; i < exchange->count; i++) {
    weir_asked *one = exchange->asked[i];
    one->request.status = limits[i].status;
    exchange->failed = exchange->failed || is_failure(limits[i].status);
    one->limiter = NULL;
  }
  exchange->count = 0;
}

static void read_limit(weir_exchange *exchange, weir_asked *one, weir_limit *limit) {
  one->request.status = weir_limiter_read_limit(one->limiter, limit, NULL);
  one->limit_kind = limit->kind;
  one->limit = limit->limit;
  exchange->failed = exchange->failed || is_failure(one->request.status);
  one->limiter = NULL;
}

static void set_limits(weir_exchange *exchange, weir_turn *const *turns, size_t count) {
  weir_limit limits[LIMITS_AT_ONCE];
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < turns[i]->asked_count; j++) {
      weir_asked *one = &turns[i]->asked[j];
      if (one->limiter == NULL || one->store != WEIR_BESIDE_STORES) continue;
      bool sets = one->apart == WEIR_ASKED_SETS_LIMIT;
      bool is_full = exchange->count == LIMITS_AT_ONCE ||
                     (exchange->count > 0 && exchange->limiters[0] != one->limiter);
      if (!sets || is_full) set_batch(exchange, limits);
      weir_limit *limit = &limits[exchange->count];
      *limit = (weir_limit){.key = turns[i]->bytes.data + one->key,
                            .key_length = one->request.key_length,
                            .kind = one->limit_kind,
                            .limit = one->limit,
                            .for_us = one->limit_for_us};
      exchange->limiters[exchange->count] = one->limiter;
      exchange->asked[exchange->count] = one;
      if (sets)
        exchange->count++;
      else
        read_limit(exchange, one, limit);
    }
  }
  set_batch(exchange, limits);
}

static void return_parts(weir_turn *turn, const weir_store *store) {
  for (size_t i = 0; i < turn->answer_count && turn->part_count > 0; i++) {
    weir_answer *answer = &turn->answers[i];
    if (answer->kind == WEIR_ANSWER_PARTS && answer->is.parts.store == store &&
        weir_parts_may_return(turn, answer))
      weir_parts_return(turn, answer);
  }
}

bool weir_exchange_ask(weir_exchange *exchange, weir_turn *const *turns, size_t count,
                       const weir_store *store) {
  bool has_places = false, has_more = false;
  for (size_t i = 0; i < count; i++) {
    const weir_turn *turn = turns[i];
    has_places = has_places || turn->place_count > 0;
    has_more = has_more || turn->set_count > 0 || turn->part_count > 0 || turn->has_apart;
  }
  exchange->failed = false;
  clear_batch(exchange);
  if (store == WEIR_BESIDE_STORES) {
    set_limits(exchange, turns, count);
    return !exchange->failed;
  }
  if (has_places) { /* what is released goes first: who comes behind it finds it free */
    for (size_t i = 0; i < count; i++)
      add_released(exchange, turns[i], store);
    release_batch(exchange);
    for (size_t i = 0; i < count; i++)
      add_acquired(exchange, turns[i], store);
    acquire_batch(exchange);
  }
  for (size_t i = 0; i < count; i++)
    add_requests(exchange, turns[i], store);
  decide_batch(exchange);
  if (has_more) { /* what is decided as one, what forgets, what goes back */
    for (size_t i = 0; i < count; i++)
      decide_sets(exchange, turns[i], store);
    decide_batch(exchange);
    for (size_t i = 0; i < count; i++) {
      reset_keys(exchange, turns[i], store);
      return_parts(turns[i], store);
    }
  }
  return !exchange->failed;
}

/* --- what is known ------------------------------------------------------------------------------
 */

typedef struct weir_known_batch {
  weir_request *requests;
  weir_limiter **limiters;
  const weir_extra **extras;
  bool has_extras;
  bool *known;
  uint32_t *asked; /* in turn->asked */
} weir_known_batch;

static bool make_known(weir_known_batch *batch, size_t count) {
  *batch = (weir_known_batch){.requests = malloc(count * sizeof *batch->requests),
                              .limiters = malloc(count * sizeof(weir_limiter *)),
                              .extras = malloc(count * sizeof(weir_extra *)),
                              .known = malloc(count * sizeof *batch->known),
                              .asked = malloc(count * sizeof *batch->asked)};
  return batch->requests != NULL && batch->limiters != NULL && batch->extras != NULL &&
         batch->known != NULL && batch->asked != NULL;
}

static void free_known(weir_known_batch *batch) {
  free(batch->requests);
  free(batch->limiters);
  free(batch->extras);
  free(batch->known);
  free(batch->asked);
}

/* All at once, so that the order of a key's requests is kept. A place that is acquired, a set and what is
 * done apart are left. */
size_t weir_exchange_know(weir_turn *turn, weir_exchange_filter *filter, void *context) {
  weir_known_batch batch;
  size_t count = 0;
  size_t left = 0;
  int64_t now_us = turn->has_ends ? weir_monotonic_us() : 0;
  bool has_room = make_known(&batch, turn->asked_count);
  for (size_t i = 0; i < turn->asked_count; i++) {
    weir_asked *one = &turn->asked[i];
    if (one->limiter == NULL || !filter(context, one->store) ||
        !weir_turn_is_worth(turn, one, now_us))
      continue;
    left++;
    if (!has_room || one->apart != WEIR_ASKED_WITH_OTHERS || one->is_of_set ||
        one->place != WEIR_NO_PLACE)
      continue;
    write_request(turn, one, &batch.requests[count]);
    batch.limiters[count] = one->limiter;
    batch.extras[count] = weir_turn_extra(turn, one);
    batch.has_extras = batch.has_extras || batch.extras[count] != NULL;
    batch.asked[count++] = (uint32_t)i;
  }
  const weir_extra *const *extras = batch.has_extras ? batch.extras : NULL;
  if (count > 0 && weir_decide_known_extra(batch.limiters, batch.requests, extras, count,
                                           batch.known, NULL) == WEIR_OK)
    for (size_t i = 0; i < count; i++) {
      if (!batch.known[i]) continue;
      note_decided(&turn->asked[batch.asked[i]], &batch.requests[i]);
      left--;
    }
  free_known(&batch);
  return left;
}
