/* Reservations: they remember exactly what they were charged, so that it can be settled exactly. To
 * commit is to settle what was charged, to cancel is to settle 0. What is held is released by each of
 * these.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/backoff.h>

#include "limiter/many.h"
#include "limiter/place.h"
#include "limiter/renew.h"
#include "limiter/reserved.h"

/* --- reservations ------------------------------------------------------------------------------
 */

/* With a copy of the key: the caller's need not live as long. */
static weir_reservation *create_reservation(weir_limiter *limiter, const weir_request *request,
                                            const weir_extra *extra) {
  weir_reservation *made = calloc(1, sizeof *made + request->key_length);
  if (made == NULL) return NULL;
  made->limiter = limiter;
  made->limit = extra != NULL ? extra->limit : 0;
  if (request->costs != NULL)
    memcpy(made->costs, request->costs, limiter->stack.count * sizeof made->costs[0]);
  for (size_t i = 0; i < WEIR_RULES_MOST; i++)
    made->ends[i] = WEIR_NO_SLOT;
  made->key_length = request->key_length;
  memcpy(made->key, request->key, request->key_length);
  return made;
}

/* What is charged is to become `real`, by rule; NULL: nothing. What is held is released. */
static weir_settlement find_differences(const weir_reservation *reservation, const int64_t *real) {
  const weir_stack *stack = &reservation->limiter->stack;
  weir_settlement made = {.charged = reservation->charged,
                          .spares = reservation->spares,
                          .store_status = reservation->store_status};
  bool up = false;
  bool down = false;
  for (size_t i = 0; i < stack->count; i++) {
    bool held = weir_rule_is_held(&stack->rules[i]);
    int64_t stays = real != NULL && !held ? real[i] : 0;
    made.costs[i] = stays - reservation->costs[i];
    if (reservation->spares >> i & 1U) continue;
    up = up || made.costs[i] > 0;
    down = down || made.costs[i] < 0;
  }
  made.gives_back = down && !up;
  return made;
}

/* What goes back goes back by the limit that it was charged under: a token of another one is another time in a
 * bucket. */
static weir_waiting request_of(weir_reservation *reservation, const weir_settlement *settlement) {
  size_t steered = reservation->limiter->steered;
  bool goes_back = reservation->charged_limit != 0 && settlement->costs[steered] < 0;
  return (weir_waiting){
      .claim.ask = {.key = reservation->key,
                    .key_length = reservation->key_length,
                    .class = reservation->class,
                    .at_us = reservation->at_us,
                    .limit = goes_back ? reservation->charged_limit : reservation->limit,
                    .ends = reservation->ends}};
}

static weir_status make(weir_reservation *reservation, weir_settlement *settlement,
                        weir_message *message) {
  weir_waiting request = request_of(reservation, settlement);
  return weir_settlement_make(reservation->limiter, settlement, &request, message);
}

/* What it costs under the rules that are held, for as long as that is not known otherwise. */
static bool make_place(weir_reservation *made, const weir_request *request) {
  const weir_stack *stack = &made->limiter->stack;
  if (made->limiter->places == NULL) return true;
  made->place = calloc(1, sizeof *made->place);
  if (made->place == NULL) return false;
  for (size_t i = 0; i < stack->count; i++)
    if (weir_rule_is_held(&stack->rules[i]))
      made->place->costs[i] = request->costs != NULL ? request->costs[i] : request->cost;
  return true;
}

/* Checks it, and makes what is made before anything is charged: what is charged can always be cancelled. */
static weir_status begin(weir_limiter *limiter, const weir_request *request,
                         const weir_extra *extra, weir_reservation **made, weir_message *message) {
  weir_request asked = *request;
  if (limiter->held) asked.flags |= WEIR_REQUEST_PEEK;
  weir_status status = weir_request_check(limiter, &asked, extra, message);
  if (status != WEIR_OK) return status;
  if (limiter->shared) {
    weir_message_set(message, "a %s gives back by settling alone, and so takes no reservations",
                     weir_rule_kind_name(limiter->stack.rules[0].kind));
    return WEIR_BAD_ARGUMENT;
  }
  if (request->flags & (WEIR_REQUEST_PEEK | WEIR_REQUEST_SETTLE)) {
    weir_message_set(
        message, "%s in a reservation: accepted is WEIR_REQUEST_UP_TO",
        request->flags & WEIR_REQUEST_PEEK ? "WEIR_REQUEST_PEEK" : "WEIR_REQUEST_SETTLE");
    return WEIR_BAD_ARGUMENT;
  }
  *made = create_reservation(limiter, request, extra);
  if (*made != NULL && make_place(*made, request)) return WEIR_OK;
  free(*made);
  *made = NULL;
  return weir_no_memory(message);
}

static weir_waiting ask(weir_reservation *made, const weir_request *request,
                        const weir_extra *extra) {
  weir_waiting state;
  weir_request_begin(made->limiter, request, extra, &state);
  state.claim.ask.ends = made->ends;
  made->class = state.claim.ask.class;
  return state;
}

/* What was charged is held from now on. Where that cannot be, it goes back. */
static weir_status enter(weir_reservation *made, weir_message *message) {
  weir_limiter *limiter = made->limiter;
  weir_held_place *place = made->place;
  bool some = false;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (!weir_rule_is_held(&limiter->stack.rules[i])) continue;
    place->costs[i] = made->spares >> i & 1U ? 0 : made->costs[i];
    place->ends[i] = made->ends[i];
    some = some || place->costs[i] > 0;
  }
  place->at_us = made->at_us;
  if (!some) { /* a cost per rule, 0 of all that are held */
    free(place);
    made->place = NULL;
    return WEIR_OK;
  }
  if (made->charged != WEIR_CHARGED_STORE) {
    weir_place_enter_by_policy(limiter, place, made->key, made->key_length);
    return WEIR_OK;
  }
  bool entered = weir_place_enter(limiter, place, made->key, made->key_length);
  if (entered && weir_renew_start(limiter)) return WEIR_OK;
  if (entered) weir_place_leave(limiter, place, false);
  weir_settlement all = find_differences(made, NULL);
  make(made, &all, NULL);
  weir_message_set(message, "%s",
                   entered ? "the thread that renews cannot be started: accepted is the option "
                             "renew of WEIR_RENEW_BY_CALLER"
                           : weir_status_text(WEIR_NO_MEMORY));
  return WEIR_NO_MEMORY;
}

static void free_reservation(weir_reservation *reservation) {
  if (reservation == NULL) return;
  free(reservation->place);
  free(reservation);
}

/* *reservation becomes `made` where it was admitted. */
static weir_status tell(weir_reservation *made, weir_request *request, const weir_waiting *state,
                        weir_reservation **reservation, weir_message *message) {
  weir_limiter *limiter = made->limiter;
  weir_status status = state->claim.verdict.status;
  weir_request_tell(request, &state->claim.verdict);
  if (status == WEIR_OK && state->claim.verdict.decision.allowed) {
    made->charged = weir_charged_where(limiter, &state->claim.verdict.decision);
    made->store_status = state->claim.verdict.decision.store_status;
    made->spares = weir_spared_by(limiter, &state->claim.verdict.decision);
    for (size_t i = 0; request->costs == NULL && i < limiter->stack.count; i++)
      made->costs[i] = state->claim.verdict.decision.cost;
    made->at_us = state->claim.verdict.decision.at_us;
    made->charged_limit = state->claim.verdict.limit;
    if (made->place != NULL) status = enter(made, message);
    if (status == WEIR_OK) {
      weir_reserved_open(made, &request->decision);
      *reservation = made;
    }
  }
  return status;
}

/* A place that this process has already: of a lease, or of one that has just left. */
static void adopt(weir_reservation *made, weir_held_place *place, weir_request *request,
                  weir_reservation **reservation) {
  const weir_limiter *limiter = made->limiter;
  free(made->place);
  made->place = place;
  made->charged = WEIR_CHARGED_STORE;
  memcpy(made->costs, place->costs, sizeof made->costs);
  made->at_us = place->at_us;
  request->decision = (weir_decision){
      .allowed = true,
      .source = WEIR_SOURCE_LOCAL,
      .limit = limiter->stack.rules[0].capacity, /* no rule has classes */
      .remaining = WEIR_NOT_KNOWN,
      .reset_after_us = WEIR_NOT_KNOWN,
      .cost = request->costs != NULL ? WEIR_OWN_COSTS : request->cost,
      .at_us = place->at_us,
  };
  weir_reserved_open(made, &request->decision);
  *reservation = made;
}

/* Under other rules it would have to be charged as well; and a lower class may not have what a higher one
 * leaves. */
static bool may_be_handed(const weir_reservation *made, const weir_request *request) {
  return made->place != NULL && made->limit == 0 && made->limiter->hands_on &&
         !(request->flags & WEIR_REQUEST_UP_TO);
}

/* From what this process has already: then it is done. */
static bool is_at_once(weir_reservation *made, weir_request *request,
                       weir_reservation **reservation) {
  weir_limiter *limiter = made->limiter;
  if (!may_be_handed(made, request)) return false;
  weir_held_place *spare =
      weir_place_take_spare(limiter, made->key, made->key_length, made->place->costs);
  if (spare != NULL) adopt(made, spare, request, reservation);
  return spare != NULL;
}

static weir_status reserve(weir_limiter *limiter, weir_request *request, const weir_extra *extra,
                           weir_reservation **reservation, weir_message *message) {
  weir_reservation *made;
  weir_status status = begin(limiter, request, extra, &made, message);
  if (status != WEIR_OK || is_at_once(made, request, reservation)) return status;
  weir_waiting state = ask(made, request, extra);
  weir_limiter_answer(limiter, &state, message);
  status = tell(made, request, &state, reservation, message);
  if (*reservation == NULL) free_reservation(made);
  return status;
}

static void count_place(weir_limiter *limiter, const weir_request *request) {
  if (limiter->places != NULL && request->status == WEIR_OK && !request->decision.allowed)
    weir_counts_add_places(limiter->counts, WEIR_PLACES_DENIED, 1);
}

static void count(weir_limiter *limiter, const weir_request *request) {
  weir_counts_add(limiter->counts, request->status, &request->decision);
  count_place(limiter, request);
}

static weir_status reserve_one(weir_limiter *limiter, weir_request *request,
                               const weir_extra *extra, weir_reservation **reservation,
                               weir_message *message) {
  *reservation = NULL;
  request->status = reserve(limiter, request, extra, reservation, message);
  count(limiter, request);
  return request->status;
}

weir_status weir_limiter_reserve(weir_limiter *limiter, weir_request *request,
                                 weir_reservation **reservation, weir_message *message) {
  return reserve_one(limiter, request, NULL, reservation, message);
}

/* --- many at once: many.c ----------------------------------------------------------------------
 */

typedef struct weir_reserved_many {
  weir_reservation **made;         /* and later whether: else NULL */
  weir_reservation **reservations; /* out */
} weir_reserved_many;

/* What this process has already is not asked for. */
static weir_status begin_one(const weir_one *one, weir_message *message) {
  const weir_reserved_many *own = one->own;
  weir_reservation **made = &own->made[one->index];
  weir_status status = begin(one->limiter, one->request, one->extra, made, message);
  if (status != WEIR_OK) return status;
  if (is_at_once(*made, one->request, &own->reservations[one->index])) {
    *one->state = (weir_waiting){0};
    weir_waiting_skip(one->state);
  } else {
    *one->state = ask(*made, one->request, one->extra);
  }
  return WEIR_OK;
}

static weir_status end_one(const weir_one *one, weir_message *message) {
  const weir_reserved_many *own = one->own;
  weir_reservation **reservation = &own->reservations[one->index];
  if (*reservation == NULL)
    one->request->status =
        tell(own->made[one->index], one->request, one->state, reservation, message);
  count_place(one->limiter, one->request);
  return one->request->status;
}

static const weir_deed reserves = {"requests", false, begin_one, end_one};

weir_status weir_reserve_extra(weir_limiter *const *limiters, weir_request *requests,
                               const weir_extra *const *extras, size_t count,
                               weir_reservation **reservations, weir_message *message) {
  weir_many many;
  weir_party parties[WEIR_BATCH_MOST];
  weir_reservation *made[WEIR_BATCH_MOST];
  weir_reserved_many own = {made, reservations};
  weir_status status = weir_check_many(limiters, count, WEIR_BATCH_MOST, message);
  if (status != WEIR_OK) return status;
  if (count == 1)
    return reserve_one(limiters[0], requests, weir_extra_of(extras, 0), reservations, message);
  weir_many_begin(&many, &reserves, parties, requests, count);
  many.extras = extras;
  many.own = &own;
  for (size_t i = 0; i < count; i++) {
    weir_many_add(&many, i, limiters[i]);
    made[i] = reservations[i] = NULL;
  }
  status = weir_many_run(&many, message);
  for (size_t i = 0; i < count; i++)
    if (reservations[i] == NULL) weir_reservation_destroy(made[i]);
  return status;
}

weir_status weir_reserve_together(weir_limiter *const *limiters, weir_request *requests,
                                  size_t count, weir_reservation **reservations,
                                  weir_message *message) {
  return weir_reserve_extra(limiters, requests, NULL, count, reservations, message);
}

/* --- waiting -----------------------------------------------------------------------------------
 */

/* How long until the next try. Nothing tells when a place is left elsewhere, and processes that
 * look in step would take turns in vain; what other rules say is known. */
static int64_t find_pause(const weir_limiter *limiter, const weir_decision *denied) {
  enum { PAUSE_LEAST_US = 5000, PAUSE_MOST_US = 50000 };
  const weir_rule *rule = &limiter->stack.rules[denied->rule];
  if (!weir_rule_is_held(rule) || denied->source == WEIR_SOURCE_FALLBACK)
    return denied->retry_after_us;
  return PAUSE_LEAST_US +
         weir_backoff_us(0, PAUSE_MOST_US - PAUSE_LEAST_US, PAUSE_MOST_US - PAUSE_LEAST_US);
}

/* Takes what others of this process leave until then. */
static bool take_over(weir_reservation *made, weir_request *request, int64_t until_us,
                      weir_reservation **reservation) {
  weir_held_place *handed =
      weir_place_wait(made->limiter, made->key, made->key_length, made->place->costs, until_us);
  if (handed != NULL) adopt(made, handed, request, reservation);
  return handed != NULL;
}

/* While its process rests. False: it has to ask the store. */
static bool rest(weir_reservation *made, weir_request *request, int64_t end_us,
                 weir_reservation **reservation) {
  if (!may_be_handed(made, request)) return false;
  int64_t until_us = weir_place_rests_until(made->limiter, made->key, made->key_length);
  if (until_us <= weir_monotonic_us() || until_us >= end_us) return false;
  return take_over(made, request, until_us, reservation);
}

/* Tries until it is admitted or its time is over. Between its tries it takes what others of this process
 * leave. */
static weir_status reserve_in_time(weir_reservation *made, weir_request *request, int64_t end_us,
                                   weir_reservation **reservation, weir_message *message) {
  weir_limiter *limiter = made->limiter;
  while (!is_at_once(made, request, reservation) && !rest(made, request, end_us, reservation)) {
    int64_t left_us = end_us - weir_monotonic_us();
    weir_waiting state = ask(made, request, NULL);
    state.claim.ask.waits = true;
    state.claim.ask.wait_us = left_us > 0 ? left_us : 0;
    weir_limiter_answer(limiter, &state, message);
    weir_status status = tell(made, request, &state, reservation, message);
    if (status != WEIR_OK || *reservation != NULL) return status;
    int64_t pause_us = find_pause(limiter, &request->decision);
    left_us = end_us - weir_monotonic_us();
    bool hopeless = pause_us > left_us && !may_be_handed(made, request);
    if (request->decision.retry_after_us == WEIR_NEVER || left_us <= 0 || hopeless) break;
    int64_t until_us = weir_monotonic_us() + (pause_us < left_us ? pause_us : left_us);
    if (!may_be_handed(made, request)) {
      weir_sleep_until(until_us);
      continue;
    }
    if (take_over(made, request, until_us, reservation)) break;
  }
  return WEIR_OK;
}

weir_status weir_limiter_reserve_wait(weir_limiter *limiter, weir_request *request,
                                      int64_t longest_wait_us, weir_reservation **reservation,
                                      weir_message *message) {
  weir_request asked = *request;
  *reservation = NULL;
  asked.longest_wait_us = longest_wait_us;
  weir_reservation *made = NULL;
  request->status = begin(limiter, &asked, NULL, &made, message);
  if (request->status == WEIR_OK)
    request->status =
        reserve_in_time(made, request, weir_monotonic_us() + longest_wait_us, reservation, message);
  if (*reservation == NULL) free_reservation(made);
  count(limiter, request);
  if (request->status != WEIR_OK || *reservation == NULL) return request->status;
  int64_t start_us = request->decision.at_us + request->decision.delay_us;
  int64_t sleep_us = request->decision.delay_us > 0 ? start_us - weir_limiter_now(limiter) : 0;
  if (sleep_us > request->decision.delay_us) sleep_us = request->decision.delay_us;
  if (sleep_us > 0) weir_sleep_until(weir_monotonic_us() + sleep_us);
  return WEIR_OK;
}

/* --- their ends --------------------------------------------------------------------------------
 */

/* Its request's decision may have been settled meanwhile. */
static weir_status check_open(const weir_reservation *reservation, weir_message *message) {
  static const char *const ends[] = {[WEIR_COMMITTED] = "committed",
                                     [WEIR_CANCELLED] = "cancelled",
                                     [WEIR_RESERVATION_SETTLED] = "settled"};
  if (reservation == NULL) {
    weir_message_set(message, "the reservation is NULL: a request that is denied reserves nothing");
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_limiter_check_process(reservation->limiter, message);
  if (status != WEIR_OK || reservation->state == WEIR_RESERVED) return status;
  weir_message_set(message,
                   "the reservation was %s before: accepted is one commit, one cancel or one "
                   "settlement",
                   ends[reservation->state]);
  return WEIR_BAD_ARGUMENT;
}

/* Stops believing, and tells whether something is to be sent: else another of this process has the
 * place now. What it has paid for is known only then. */
static bool leave_place(weir_reservation *reservation) {
  weir_limiter *limiter = reservation->limiter;
  weir_held_place *place = reservation->place;
  weir_counts_add_places(limiter->counts, WEIR_PLACES_RELEASED, 1);
  /* One of another limit, or of a key whose limit may have become lower, is entered anew. */
  bool hands_on = limiter->hands_on && reservation->limit == 0 && limiter->limits_us == 0;
  weir_place_left left = weir_place_leave(limiter, place, hands_on);
  reservation->was_lost = left == WEIR_PLACE_WAS_LOST;
  if (left == WEIR_PLACE_HANDED_ON) {
    reservation->place = NULL;
    return false;
  }
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (place->costs[i] > 0) reservation->ends[i] = place->ends[i];
  return true;
}

/* A place that a policy gave has ended with the account that had it. */
static weir_status without_account(const weir_reservation *reservation, weir_status status) {
  bool ended = reservation->charged == WEIR_CHARGED_ACCOUNT && status == WEIR_BAD_COST;
  return ended ? WEIR_OK : status;
}

/* All went well, and yet others may have had the place meanwhile. */
static weir_status tell_loss(const weir_reservation *reservation, weir_status status,
                             weir_message *message) {
  if (status != WEIR_OK || !reservation->was_lost) return status;
  weir_message_set(
      message,
      "the place was lost before it was left: its process was stopped or could not pay "
      "for it, and others may have entered");
  return WEIR_PLACE_LOST;
}

/* The first step of its end. False: nothing is to be sent. */
static bool leave(weir_reservation *reservation, weir_reservation_state state, const int64_t *real,
                  weir_settlement *settlement) {
  bool sends = reservation->place == NULL || leave_place(reservation);
  reservation->state = state;
  *settlement = find_differences(reservation, real);
  return sends;
}

/* A place of which the store could not be told is none of its reservation's any more. Without a thread it
 * ends with what is paid. */
static void keep_unsent(weir_reservation *reservation, const weir_settlement *settlement,
                        weir_status status) {
  weir_limiter *limiter = reservation->limiter;
  if (reservation->place == NULL || reservation->charged != WEIR_CHARGED_STORE ||
      !(settlement->owed || weir_settlement_may_come_again(status)))
    return;
  reservation->place->tried = weir_settlement_was_tried(status);
  if (!weir_place_keep_unsent(limiter, reservation->place, reservation->key,
                              reservation->key_length))
    return;
  reservation->place = NULL;
  weir_renew_start(limiter);
}

/* It is over whatever the answer of a commit or a cancel, as is what is held: an answer that was lost
 * must not give back twice. */
static weir_status end(weir_reservation *reservation, weir_reservation_state state,
                       const int64_t *real, weir_settlement *settlement, weir_message *message) {
  bool held = reservation->place != NULL;
  weir_status status = WEIR_OK;
  if (leave(reservation, state, real, settlement)) status = make(reservation, settlement, message);
  if (held) status = without_account(reservation, status);
  keep_unsent(reservation, settlement, status);
  if (state == WEIR_RESERVATION_SETTLED && !held && weir_settlement_may_come_again(status))
    reservation->state = WEIR_RESERVED;
  else
    weir_reserved_close(reservation);
  return status;
}

/* What is held is released, and what other rules were charged stays. */
weir_status weir_reservation_commit(weir_reservation *reservation, weir_message *message) {
  weir_settlement exact;
  weir_status status = check_open(reservation, message);
  if (status != WEIR_OK) return status;
  bool held = reservation->place != NULL;
  status = end(reservation, WEIR_COMMITTED, reservation->costs, &exact, message);
  status = tell_loss(reservation, status, message);
  if (held) weir_counts_add(reservation->limiter->counts, status, NULL);
  return status;
}

weir_status weir_reservation_cancel(weir_reservation *reservation, weir_message *message) {
  weir_settlement all;
  weir_status status = check_open(reservation, message);
  if (reservation == NULL) return status;
  if (status == WEIR_OK) status = end(reservation, WEIR_CANCELLED, NULL, &all, message);
  status = tell_loss(reservation, status, message);
  weir_counts_add(reservation->limiter->counts, status, NULL);
  return status;
}

/* A rule that cannot be settled keeps all of its charge or none. */
static weir_status check_real(const weir_reservation *reservation, const int64_t *real,
                              weir_message *message) {
  const weir_stack *stack = &reservation->limiter->stack;
  for (size_t i = 0; i < stack->count; i++) {
    weir_status status = weir_settlement_check_real(real[i], i, message);
    if (status == WEIR_OK && real[i] != 0 && real[i] != reservation->costs[i])
      status = weir_settlement_check_rule(&stack->rules[i], i, message);
    if (status != WEIR_OK) return status;
  }
  return WEIR_OK;
}

static weir_status settle(weir_reservation *reservation, int64_t *costs, weir_message *message) {
  weir_limiter *limiter = reservation->limiter;
  weir_settlement settlement;
  weir_status status = check_real(reservation, costs, message);
  if (status != WEIR_OK) return status;
  status = end(reservation, WEIR_RESERVATION_SETTLED, costs, &settlement, message);
  for (size_t i = 0; i < limiter->stack.count; i++) {
    int64_t taken = reservation->costs[i];
    if (status == WEIR_OK) costs[i] = taken + settlement.settled[i];
    if (status == WEIR_UNKNOWN_OUTCOME && costs[i] > taken) costs[i] = taken;
    if (weir_rule_is_held(&limiter->stack.rules[i]) && !weir_settlement_may_come_again(status))
      costs[i] = 0;
  }
  if (status == WEIR_OK) weir_settlement_count(limiter, &settlement);
  return tell_loss(reservation, status, message);
}

weir_status weir_reservation_settle(weir_reservation *reservation, int64_t *costs,
                                    weir_message *message) {
  weir_status status = check_open(reservation, message);
  if (reservation == NULL) return status;
  if (status == WEIR_OK) status = settle(reservation, costs, message);
  weir_counts_add(reservation->limiter->counts, status, NULL);
  return status;
}

/* --- many ends at once: many.c -----------------------------------------------------------------
 */

/* What is released, in the order of keys: so those of one key stand side by side, and ride together. */
typedef struct weir_leaver {
  weir_reservation *reservation;
  size_t index; /* as the caller has it */
} weir_leaver;

static int by_key(const void *one, const void *other) {
  const weir_leaver *a = one;
  const weir_leaver *b = other;
  size_t length = a->reservation->key_length;
  if (length != b->reservation->key_length) return length < b->reservation->key_length ? -1 : 1;
  int order = memcmp(a->reservation->key, b->reservation->key, length);
  return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

/* It stops believing. What it has paid for is known only then, and a payment that is under way may be
 * waited for: so no call of ours may lead a key yet, which that may stand in line for. */
static weir_status begin_release(const weir_one *one, weir_message *message) {
  weir_reservation *reservation = ((weir_reservation *const *)one->own)[one->index];
  weir_status status = check_open(reservation, message);
  if (status != WEIR_OK) return status;
  weir_settlement *settlement = weir_call_settlement(one->call, one->state);
  if (settlement == NULL) return weir_no_memory(message);
  bool sends = leave(reservation, WEIR_COMMITTED, reservation->costs, settlement);
  *one->state = request_of(reservation, settlement);
  one->state->claim.ask.settlement = settlement->settled;
  if (!sends || !weir_settlement_begin(one->limiter, settlement, one->state) ||
      weir_settlement_ride(one->call, one->state, settlement))
    weir_waiting_skip(one->state);
  return WEIR_OK;
}

static weir_status end_release(const weir_one *one, weir_message *message) {
  weir_reservation *reservation = ((weir_reservation *const *)one->own)[one->index];
  weir_settlement *settlement = weir_call_settlement(one->call, one->state);
  weir_reserved_close(reservation);
  weir_status status = weir_settlement_end(one->limiter, settlement, one->state, message);
  keep_unsent(reservation, settlement, status);
  return tell_loss(reservation, without_account(reservation, status), message);
}

static const weir_deed releases = {"reservations", true, begin_release, end_release};

/* The limiter of each is in it, which is why none may be NULL. */
weir_status weir_release_together(weir_reservation *const *reservations, size_t count,
                                  weir_status *statuses, weir_message *message) {
  weir_many many;
  weir_party parties[WEIR_BATCH_MOST];
  weir_status unwanted[WEIR_BATCH_MOST];
  weir_status status = weir_check_many(NULL, count, WEIR_BATCH_MOST, message);
  for (size_t i = 0; i < count && status == WEIR_OK; i++) {
    if (reservations[i] != NULL) continue;
    weir_message_set(message, "reservations[%zu] is NULL: accepted are reservations", i);
    status = WEIR_BAD_ARGUMENT;
  }
  if (status != WEIR_OK) return status;
  weir_leaver *leavers = calloc(count, sizeof *leavers);
  if (leavers == NULL) return weir_no_memory(message);
  for (size_t i = 0; i < count; i++)
    leavers[i] = (weir_leaver){reservations[i], i};
  qsort(leavers, count, sizeof *leavers, by_key);
  weir_many_begin(&many, &releases, parties, NULL, count);
  many.statuses = statuses != NULL ? statuses : unwanted;
  many.own = reservations;
  for (size_t i = 0; i < count; i++)
    weir_many_add(&many, leavers[i].index, leavers[i].reservation->limiter);
  free(leavers);
  return weir_many_run(&many, message);
}

void weir_reservation_destroy(weir_reservation *reservation) {
  if (reservation == NULL) return;
  if (weir_limiter_check_process(reservation->limiter, NULL) == WEIR_OK) {
    weir_reserved_close(reservation);
    if (reservation->state == WEIR_RESERVED && reservation->place != NULL)
      weir_place_leave(reservation->limiter, reservation->place, false);
  } else if (reservation->place != NULL && reservation->place->key != NULL) {
    reservation->place = NULL; /* it is still in the table, which goes with the limiter */
  }
  free_reservation(reservation);
}

bool weir_reservation_held(const weir_reservation *reservation) {
  return weir_reservation_held_until_us(reservation) > 0;
}

int64_t weir_reservation_held_until_us(const weir_reservation *reservation) {
  int64_t until_us = INT64_MAX;
  if (reservation == NULL || reservation->state != WEIR_RESERVED ||
      weir_limiter_check_process(reservation->limiter, NULL) != WEIR_OK)
    return 0;
  if (reservation->place != NULL)
    weir_place_is_held(reservation->limiter, reservation->place, &until_us);
  return until_us;
}

uint64_t weir_reservation_token(const weir_reservation *reservation) {
  return reservation != NULL && reservation->place != NULL ? reservation->place->token : 0;
}
