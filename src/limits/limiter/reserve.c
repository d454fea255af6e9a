/* Giving back: reservations remember exactly what they were charged, refunds as much as a decision
 * says.
 *
 * A reservation's request holds such a decision too, and what is refunded by it is no longer there
 * to cancel. It is known by its place in the caller's memory, which is compared and never read: the
 * caller may have done anything with it since. So key and stamp must fit as well, and of several
 * made in one place the last has it. A copy of the decision is not known.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/backoff.h>

#include "limiter/limiter.h"
#include "limiter/place.h"
#include "limiter/renew.h"

typedef enum weir_reservation_state {
  WEIR_RESERVED,
  WEIR_COMMITTED,
  WEIR_CANCELLED
} weir_reservation_state;

/* Where a decision was charged. */
typedef enum weir_charged {
  WEIR_CHARGED_STORE,
  WEIR_CHARGED_ACCOUNT,
  WEIR_CHARGED_NOWHERE
} weir_charged;

struct weir_reservation {
  weir_limiter *limiter;
  weir_charged charged;
  weir_status store_status; /* of its decision */
  weir_reservation_state state;
  const weir_decision *taken; /* of its request; NULL: it is not in the table of open ones */
  weir_reservation *next;     /* there, in the same bucket */
  int64_t at_us;
  int64_t costs[WEIR_RULES_MOST]; /* that can be cancelled, under each rule */
  int64_t ends[WEIR_RULES_MOST];  /* of the slots that buckets gave */
  weir_held_place *place;         /* what it holds; NULL: nothing, or no more */
  size_t key_length;
  unsigned char key[];
};

/* --- which are open ----------------------------------------------------------------------------
 */

/* Decisions stand in requests, which are larger than 128 bytes. */
static weir_reservation **bucket_of(weir_limiter *limiter, const weir_decision *taken) {
  return &limiter->reserved[((uintptr_t)taken / 128) % WEIR_RESERVED_BUCKETS];
}

/* Takes out the reservation in this place; NULL: there is none. The table is locked. */
static weir_reservation *unlink_taken(weir_limiter *limiter, const weir_decision *taken) {
  weir_reservation **at = bucket_of(limiter, taken);
  while (*at != NULL && (*at)->taken != taken)
    at = &(*at)->next;
  weir_reservation *found = *at;
  if (found == NULL) return NULL;
  *at = found->next;
  found->taken = NULL;
  return found;
}

/* One that was made in the same place before is not open any more: its request is gone. */
static void link_taken(weir_reservation *reservation, const weir_decision *taken) {
  weir_limiter *limiter = reservation->limiter;
  pthread_mutex_lock(&limiter->reserved_mutex);
  unlink_taken(limiter, taken);
  weir_reservation **bucket = bucket_of(limiter, taken);
  reservation->taken = taken;
  reservation->next = *bucket;
  *bucket = reservation;
  pthread_mutex_unlock(&limiter->reserved_mutex);
}

static void close_taken(weir_reservation *reservation) {
  weir_limiter *limiter = reservation->limiter;
  pthread_mutex_lock(&limiter->reserved_mutex);
  if (reservation->taken != NULL) unlink_taken(limiter, reservation->taken);
  pthread_mutex_unlock(&limiter->reserved_mutex);
}

/* So much went back by this decision. Where requests have places, a refund gives none back: the
 * reservation, which knows its place, can still be cancelled. */
static void take_off_reserved(weir_limiter *limiter, const weir_decision *taken, const void *key,
                              size_t key_length, const int64_t *costs) {
  pthread_mutex_lock(&limiter->reserved_mutex);
  weir_reservation *found = *bucket_of(limiter, taken);
  while (found != NULL && found->taken != taken)
    found = found->next;
  if (found != NULL && found->at_us == taken->at_us && found->key_length == key_length &&
      memcmp(found->key, key, key_length) == 0) {
    for (size_t i = 0; i < limiter->stack.count; i++)
      if (!weir_rule_gives_places(&limiter->stack.rules[i])) found->costs[i] -= costs[i];
  }
  pthread_mutex_unlock(&limiter->reserved_mutex);
}

/* --- reservations ------------------------------------------------------------------------------
 */

/* With a copy of the key: the caller's need not live as long. */
static weir_reservation *create_reservation(weir_limiter *limiter, const weir_request *request) {
  weir_reservation *made = calloc(1, sizeof *made + request->key_length);
  if (made == NULL) return NULL;
  made->limiter = limiter;
  if (request->costs != NULL)
    memcpy(made->costs, request->costs, limiter->stack.count * sizeof made->costs[0]);
  for (size_t i = 0; i < WEIR_RULES_MOST; i++)
    made->ends[i] = WEIR_NO_SLOT;
  made->key_length = request->key_length;
  memcpy(made->key, request->key, request->key_length);
  return made;
}

static weir_charged where_charged(const weir_limiter *limiter, const weir_decision *taken) {
  if (taken->source != WEIR_SOURCE_LATE && taken->source != WEIR_SOURCE_FALLBACK)
    return WEIR_CHARGED_STORE;
  return limiter->fallback == WEIR_FALLBACK_LOCAL ? WEIR_CHARGED_ACCOUNT : WEIR_CHARGED_NOWHERE;
}

/* Asks for what goes back, from where it was charged. What was sent and not answered the store
 * may have, and no account owes it: only the account gives it back. */
static weir_status give_back_to(weir_limiter *limiter, weir_charged charged,
                                weir_status store_status, weir_request_state *request,
                                weir_message *message) {
  if (charged == WEIR_CHARGED_STORE) return weir_limiter_answer(limiter, request, message);
  return weir_outage_refund(limiter, request, store_status != WEIR_UNKNOWN_OUTCOME, message);
}

/* The machine knows only that less is charged than should go back. */
static weir_status explain_refund(weir_status status, weir_message *message) {
  if (status == WEIR_BAD_COST)
    weir_message_set(message,
                     "the store holds less than what should go back: it was reset, lost "
                     "or given back before");
  return status;
}

/* All of it, or what is held alone. A place that a policy admitted is in no store and on no account
 * that it could be taken off: it ends with its epoch. */
static weir_status send_back(weir_reservation *reservation, bool all, weir_message *message) {
  const weir_stack *stack = &reservation->limiter->stack;
  bool in_store = reservation->charged == WEIR_CHARGED_STORE;
  int64_t costs[WEIR_RULES_MOST];
  for (size_t i = 0; i < WEIR_RULES_MOST; i++) {
    bool held = i < stack->count && weir_rule_is_held(&stack->rules[i]);
    costs[i] = (held ? in_store : all) ? reservation->costs[i] : 0;
  }
  weir_request_state request = {.kind = WEIR_REFUND,
                                .alone = true,
                                .cost = 1,
                                .costs = costs,
                                .at_us = reservation->at_us,
                                .ends = reservation->ends,
                                .key = reservation->key,
                                .key_length = reservation->key_length};
  bool some = false; /* refunds may have taken all of it */
  for (size_t i = 0; i < WEIR_RULES_MOST; i++)
    some = some || costs[i] > 0;
  if (reservation->charged == WEIR_CHARGED_NOWHERE || !some) return WEIR_OK;
  weir_status status = give_back_to(reservation->limiter, reservation->charged,
                                    reservation->store_status, &request, message);
  return explain_refund(status, message);
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

/* Memory comes before the charge: what is charged can always be cancelled. */
weir_status weir_reserve_begin(weir_limiter *limiter, const weir_request *request,
                               weir_reservation **made, weir_message *message) {
  weir_request asked = *request;
  if (limiter->held) asked.flags |= WEIR_REQUEST_PEEK;
  weir_status status = weir_request_check(limiter, &asked, message);
  if (status != WEIR_OK) return status;
  if (request->flags & WEIR_REQUEST_PEEK) {
    weir_message_set(message, "WEIR_REQUEST_PEEK in a reservation: accepted is WEIR_REQUEST_UP_TO");
    return WEIR_BAD_ARGUMENT;
  }
  *made = create_reservation(limiter, request);
  if (*made != NULL && make_place(*made, request)) return WEIR_OK;
  free(*made);
  *made = NULL;
  return weir_no_memory(message);
}

weir_request_state weir_reserve_ask(weir_reservation *made, const weir_request *request) {
  weir_request_state state = weir_request_begin(made->limiter, request);
  state.ends = made->ends;
  return state;
}

/* What was charged is held from now on. Where that cannot be, it goes back. */
static weir_status enter(weir_reservation *made, weir_message *message) {
  weir_limiter *limiter = made->limiter;
  weir_held_place *place = made->place;
  bool some = false;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (!weir_rule_is_held(&limiter->stack.rules[i])) continue;
    place->costs[i] = made->costs[i];
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
    weir_place_enter_by_policy(limiter, place);
    return WEIR_OK;
  }
  bool entered = weir_place_enter(limiter, place, made->key, made->key_length);
  if (entered && weir_renew_start(limiter)) return WEIR_OK;
  if (entered) weir_place_leave(limiter, place, false);
  send_back(made, true, NULL);
  weir_message_set(message, "%s",
                   entered ? "the thread that renews cannot be started: accepted is the option "
                             "renew of WEIR_RENEW_BY_CALLER"
                           : weir_status_text(WEIR_NO_MEMORY));
  return WEIR_NO_MEMORY;
}

static void free_reservation(weir_reservation *reservation) {
  free(reservation->place);
  free(reservation);
}

weir_status weir_reserve_end(weir_reservation *made, weir_request *request,
                             const weir_request_state *state, weir_reservation **reservation,
                             weir_message *message) {
  weir_limiter *limiter = made->limiter;
  weir_status status = state->status;
  if (status == WEIR_OK) request->decision = state->decision;
  if (status == WEIR_OK && request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
  if (status == WEIR_OK && state->decision.allowed) {
    made->charged = where_charged(limiter, &state->decision);
    made->store_status = state->decision.store_status;
    for (size_t i = 0; request->costs == NULL && i < limiter->stack.count; i++)
      made->costs[i] = state->decision.cost;
    made->at_us = state->decision.at_us;
    if (made->place != NULL) status = enter(made, message);
    if (status == WEIR_OK) {
      link_taken(made, &request->decision);
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
      .limit = weir_rule_capacity(&limiter->stack.rules[0]),
      .remaining = WEIR_NOT_KNOWN,
      .reset_after_us = WEIR_NOT_KNOWN,
      .cost = request->costs != NULL ? WEIR_OWN_COSTS : request->cost,
      .at_us = place->at_us,
  };
  link_taken(made, &request->decision);
  *reservation = made;
}

/* Under other rules it would have to be charged as well. */
static bool may_be_handed(const weir_reservation *made, const weir_request *request) {
  return made->place != NULL && made->limiter->only_held && !(request->flags & WEIR_REQUEST_UP_TO);
}

bool weir_reserve_at_once(weir_reservation *made, weir_request *request,
                          weir_reservation **reservation) {
  weir_limiter *limiter = made->limiter;
  if (!may_be_handed(made, request)) return false;
  weir_held_place *spare =
      weir_place_take_spare(limiter, made->key, made->key_length, made->place->costs);
  if (spare != NULL) adopt(made, spare, request, reservation);
  return spare != NULL;
}

static weir_status reserve(weir_limiter *limiter, weir_request *request,
                           weir_reservation **reservation, weir_message *message) {
  weir_reservation *made;
  weir_status status = weir_reserve_begin(limiter, request, &made, message);
  if (status != WEIR_OK || weir_reserve_at_once(made, request, reservation)) return status;
  weir_request_state state = weir_reserve_ask(made, request);
  weir_limiter_answer(limiter, &state, message);
  status = weir_reserve_end(made, request, &state, reservation, message);
  if (*reservation == NULL) free_reservation(made);
  return status;
}

static void count_reserved(weir_limiter *limiter, const weir_request *request) {
  bool denied = request->status == WEIR_OK && !request->decision.allowed;
  weir_counts_add(limiter->counts, request->status, &request->decision);
  if (denied && limiter->places != NULL)
    weir_counts_add_places(limiter->counts, WEIR_PLACES_DENIED, 1);
}

weir_status weir_limiter_reserve(weir_limiter *limiter, weir_request *request,
                                 weir_reservation **reservation, weir_message *message) {
  *reservation = NULL;
  request->status = reserve(limiter, request, reservation, message);
  count_reserved(limiter, request);
  return request->status;
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

/* Tries until it is admitted or its time is over. Between its tries it takes what others of this process
 * leave. */
static weir_status reserve_in_time(weir_reservation *made, weir_request *request, int64_t end_us,
                                   weir_reservation **reservation, weir_message *message) {
  weir_limiter *limiter = made->limiter;
  while (!weir_reserve_at_once(made, request, reservation)) {
    int64_t left_us = end_us - weir_monotonic_us();
    weir_request_state state = weir_reserve_ask(made, request);
    state.waits = true;
    state.wait_us = left_us > 0 ? left_us : 0;
    weir_limiter_answer(limiter, &state, message);
    weir_status status = weir_reserve_end(made, request, &state, reservation, message);
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
    weir_held_place *handed =
        weir_place_wait(limiter, made->key, made->key_length, made->place->costs, until_us);
    if (handed != NULL) {
      adopt(made, handed, request, reservation);
      break;
    }
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
  request->status = weir_reserve_begin(limiter, &asked, &made, message);
  if (request->status == WEIR_OK)
    request->status =
        reserve_in_time(made, request, weir_monotonic_us() + longest_wait_us, reservation, message);
  if (*reservation == NULL) free_reservation(made);
  count_reserved(limiter, request);
  if (request->status != WEIR_OK || *reservation == NULL) return request->status;
  int64_t start_us = request->decision.at_us + request->decision.delay_us;
  int64_t sleep_us = request->decision.delay_us > 0 ? start_us - weir_limiter_now(limiter) : 0;
  if (sleep_us > request->decision.delay_us) sleep_us = request->decision.delay_us;
  if (sleep_us > 0) weir_sleep_until(weir_monotonic_us() + sleep_us);
  return WEIR_OK;
}

/* Ends a reservation that is open. */
static weir_status end_reservation(weir_reservation *reservation, weir_reservation_state state,
                                   weir_message *message) {
  if (reservation == NULL) {
    weir_message_set(message, "the reservation is NULL: a request that is denied reserves nothing");
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_limiter_check_process(reservation->limiter, message);
  if (status != WEIR_OK) return status;
  if (reservation->state != WEIR_RESERVED) {
    weir_message_set(message, "the reservation was %s before: accepted is one commit or one cancel",
                     reservation->state == WEIR_COMMITTED ? "committed" : "cancelled");
    return WEIR_BAD_ARGUMENT;
  }
  reservation->state = state;
  close_taken(reservation);
  return WEIR_OK;
}

/* Stops believing, and tells whether something is to be sent: else another of this process has the
 * place now. What it has paid for is known only then. */
static bool leave_place(weir_reservation *reservation) {
  weir_limiter *limiter = reservation->limiter;
  weir_held_place *place = reservation->place;
  weir_counts_add_places(limiter->counts, WEIR_PLACES_RELEASED, 1);
  if (!weir_place_leave(limiter, place, limiter->only_held)) {
    reservation->place = NULL;
    return false;
  }
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (place->costs[i] > 0) reservation->ends[i] = place->ends[i];
  return true;
}

/* What is held is released, and what other rules were charged stays. */
weir_status weir_reservation_commit(weir_reservation *reservation, weir_message *message) {
  weir_status status = end_reservation(reservation, WEIR_COMMITTED, message);
  if (status != WEIR_OK || reservation->place == NULL) return status;
  if (leave_place(reservation)) status = send_back(reservation, false, message);
  weir_counts_add(reservation->limiter->counts, status, NULL);
  return status;
}

weir_status weir_reservation_cancel(weir_reservation *reservation, weir_message *message) {
  weir_status status = end_reservation(reservation, WEIR_CANCELLED, message);
  if (reservation == NULL) return status;
  if (status == WEIR_OK && (reservation->place == NULL || leave_place(reservation)))
    status = send_back(reservation, true, message);
  weir_counts_add(reservation->limiter->counts, status, NULL);
  return status;
}

void weir_reservation_destroy(weir_reservation *reservation) {
  if (reservation == NULL) return;
  if (weir_limiter_check_process(reservation->limiter, NULL) == WEIR_OK) {
    close_taken(reservation);
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

/* --- refunds -----------------------------------------------------------------------------------
 */

/* A decision is a caller's memory: nothing in it is believed. */
static weir_status check_taken(const weir_decision *taken, weir_message *message) {
  if (!taken->allowed) {
    weir_message_set(message, "the decision is a denial: accepted is one that was allowed");
    return WEIR_BAD_ARGUMENT;
  }
  if (taken->cost <= 0) {
    weir_message_set(message,
                     "the decision has no cost left to give back: accepted is one that "
                     "was taken with one cost and not given back in full");
    return WEIR_BAD_ARGUMENT;
  }
  if (taken->at_us < 0 || taken->at_us > WEIR_TIME_MOST_US) {
    weir_message_set(message, "at_us of the decision is %" PRId64 ": accepted are 0 to %" PRId64,
                     taken->at_us, WEIR_TIME_MOST_US);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

/* No rule has ever admitted more than it holds. */
static weir_status check_refund(const weir_limiter *limiter, int64_t cost,
                                const weir_decision *taken, weir_message *message) {
  weir_status status = check_taken(taken, message);
  if (status != WEIR_OK) return status;
  int64_t most = taken->cost;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    int64_t capacity = weir_rule_capacity(&limiter->stack.rules[i]);
    if (capacity < most) most = capacity;
  }
  if (cost >= 1 && cost <= most) return WEIR_OK;
  weir_message_set(message, "cost %" PRId64 " to give back: accepted are 1 to %" PRId64, cost,
                   most);
  return WEIR_BAD_COST;
}

/* To where it was charged: the limiter's store, or its account. Where nothing was charged, only the
 * caller's own book is kept. */
static weir_status refund(weir_limiter *limiter, const void *key, size_t key_length, int64_t cost,
                          weir_decision *taken, weir_message *message) {
  const weir_request request = {.key = key, .key_length = key_length, .cost = cost};
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status == WEIR_OK) status = check_refund(limiter, cost, taken, message);
  if (status == WEIR_OK) status = weir_request_check(limiter, &request, message);
  if (status != WEIR_OK) return status;
  weir_charged charged = where_charged(limiter, taken);
  if (charged == WEIR_CHARGED_NOWHERE) {
    taken->cost -= cost;
    return WEIR_OK;
  }

  int64_t costs[WEIR_RULES_MOST];
  bool delayed = taken->delay_us > 0;
  for (size_t i = 0; i < limiter->stack.count; i++)
    costs[i] = delayed && weir_rule_moves_in_time(&limiter->stack.rules[i]) ? 0 : cost;
  weir_request_state state = {.kind = WEIR_REFUND,
                              .alone = true,
                              .cost = cost,
                              .costs = costs,
                              .at_us = taken->at_us,
                              .key = key,
                              .key_length = key_length};
  status = give_back_to(limiter, charged, taken->store_status, &state, message);
  if (status == WEIR_OK || status == WEIR_UNKNOWN_OUTCOME) {
    take_off_reserved(limiter, taken, key, key_length, costs);
    taken->cost -= cost;
  }
  return explain_refund(status, message);
}

weir_status weir_limiter_refund(weir_limiter *limiter, const void *key, size_t key_length,
                                int64_t cost, weir_decision *taken, weir_message *message) {
  weir_status status = refund(limiter, key, key_length, cost, taken, message);
  weir_counts_add(limiter->counts, status, NULL);
  return status;
}
