/* Settling: what was taken is paid as it really was.
 *
 *     check ──> begin ──┬──> done: it was exact; a policy admitted it; a lease covers the difference
 *                       └──> one request to the store ──> end ──> what is charged now
 *
 * Refunds, cancels and settlements all change what is charged by a difference under each rule. Below
 * 0 it goes back to where it came from. Above 0 it is charged now, without a denial: the work is done.
 * What a policy admitted was charged to the key's account (account.c) or nowhere, and never lowers
 * the store. A decision that was settled says so by its source, and is not settled again.
 */
#include "limiter/end.h"

#include <inttypes.h>
#include <string.h>

#include <weir/backend.h>

#include "limiter/lease.h"
#include "limiter/many.h"
#include "limiter/reserved.h"

weir_charged weir_charged_where(const weir_limiter *limiter, const weir_decision *taken) {
  if (taken->source != WEIR_SOURCE_LATE && taken->source != WEIR_SOURCE_FALLBACK)
    return WEIR_CHARGED_STORE;
  bool owes = limiter->fallback == WEIR_FALLBACK_LOCAL && !limiter->shared;
  return owes ? WEIR_CHARGED_ACCOUNT : WEIR_CHARGED_NOWHERE;
}

/* Which rule that was a limiter without most= cannot know: then none of them charges or gives back. */
unsigned weir_spared_by(const weir_limiter *limiter, const weir_decision *taken) {
  unsigned all = (1U << limiter->stack.count) - 1;
  if (taken->source != WEIR_SOURCE_UNLIMITED) return 0;
  return limiter->steered < limiter->stack.count ? 1U << limiter->steered : all;
}

/* --- making a settlement -----------------------------------------------------------------------
 */

/* What goes back goes off the account, and of that what was paid to the store meanwhile goes back
 * there. What was sent and not answered the store may have, and no account owes it: only the account
 * gives it back. */
static weir_status give_back_to_account(weir_limiter *limiter, weir_settlement *settlement,
                                        weir_waiting *request) {
  int64_t back[WEIR_RULES_MOST];
  int64_t rest[WEIR_RULES_MOST];
  weir_claim refund = request->claim;
  refund.ask.kind = WEIR_REFUND;
  refund.ask.alone = true;
  refund.ask.costs = back;
  for (size_t i = 0; i < WEIR_RULES_MOST; i++)
    back[i] = settlement->costs[i] < 0 ? -settlement->costs[i] : 0;
  bool owed = settlement->store_status != WEIR_UNKNOWN_OUTCOME;
  weir_status status =
      weir_outage_give_back(limiter, &refund, owed, rest, &request->claim.ask.at_us);
  request->claim.ask.ends = NULL;
  for (size_t i = 0; status == WEIR_OK && i < WEIR_RULES_MOST; i++) {
    settlement->settled[i] = rest[i] - back[i];
    if (back[i] > 0) settlement->asked[i] = -rest[i];
  }
  return status;
}

/* To a lease it must be one cost for all rules. Of a shared window what was too little is lent, and takes no
 * floor. */
static bool lease_covers(weir_limiter *limiter, const weir_settlement *settlement,
                         const weir_waiting *request) {
  if (!limiter->leases || limiter->shared || settlement->gives_back || settlement->spares != 0 ||
      request->claim.ask.limit != 0)
    return false;
  for (size_t i = 1; i < limiter->stack.count; i++)
    if (settlement->costs[i] != settlement->costs[0]) return false;
  return weir_leases_cover(limiter, &request->claim, settlement->costs[0]);
}

/* What was taken and is given back as a whole is asked for as a refund. */
static void ask_store(const weir_limiter *limiter, weir_settlement *settlement,
                      weir_waiting *request) {
  request->claim.ask.alone = true;
  request->claim.ask.cost = 1;
  request->claim.ask.costs = settlement->asked;
  request->claim.ask.settlement = settlement->settled;
  settlement->request = request;
  request->claim.ask.kind = settlement->gives_back ? WEIR_REFUND : WEIR_SETTLE;
  for (size_t i = 0; settlement->gives_back && i < limiter->stack.count; i++)
    settlement->asked[i] = -settlement->asked[i];
}

/* What goes back must come from one place; what is charged goes to that of now. */
static bool has_place_of(const weir_rule *rule, int64_t at_us, int64_t other_us) {
  if (weir_rule_moves_in_time(rule) || weir_rule_opens_windows(rule)) return at_us == other_us;
  return at_us / rule->cell_us == other_us / rule->cell_us;
}

/* Whether what is held under rule i comes off the same periods: the last of what is paid, and the one
 * before where both entered in that or before. */
static bool has_periods_of(const weir_rule *rule, size_t i, const weir_waiting *request,
                           const weir_waiting *other) {
  int64_t last = request->claim.ask.ends[i] / rule->period_us - 1;
  bool before = request->claim.ask.at_us / rule->period_us < last;
  return request->claim.ask.ends[i] == other->claim.ask.ends[i] &&
         before == (other->claim.ask.at_us / rule->period_us < last);
}

/* Two releases; nothing else goes back with them. */
static bool leave_together(const weir_limiter *limiter, const weir_settlement *carrier,
                           const weir_settlement *rider) {
  bool rides = carrier->charged == WEIR_CHARGED_STORE && rider->charged == WEIR_CHARGED_STORE;
  for (size_t i = 0; rides && i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    rides = weir_rule_is_held(rule) ? has_periods_of(rule, i, carrier->request, rider->request)
                                    : carrier->asked[i] == 0 && rider->asked[i] == 0;
  }
  return rides;
}

/* Whether some of it is asked for upwards (sign 1), or down. */
static bool asks(const weir_limiter *limiter, const weir_settlement *settlement, int sign) {
  size_t i = 0;
  while (i < limiter->stack.count && sign * settlement->asked[i] <= 0)
    i++;
  return i < limiter->stack.count;
}

/* Both are charged in the same way, as far as they say. */
static bool are_alike(const weir_settlement *one, const weir_settlement *other) {
  const weir_ask *ask = &one->request->claim.ask, *other_ask = &other->request->claim.ask;
  return one->charged == other->charged && one->spares == other->spares &&
         ask->class == other_ask->class && ask->limit == other_ask->limit;
}

/* Both go one way, up or down, and are charged as one request would be. */
static bool may_ride(const weir_limiter *limiter, const weir_settlement *carrier,
                     const weir_settlement *rider) {
  bool up = asks(limiter, carrier, 1) || asks(limiter, rider, 1);
  bool down = asks(limiter, carrier, -1) || asks(limiter, rider, -1);
  bool rides = up != down && carrier->charged == WEIR_CHARGED_STORE && are_alike(carrier, rider);
  if (carrier->gives_back || rider->gives_back)
    rides = carrier->gives_back == rider->gives_back && leave_together(limiter, carrier, rider);
  for (size_t i = 0; rides && down && i < limiter->stack.count; i++)
    rides = has_place_of(&limiter->stack.rules[i], carrier->request->claim.ask.at_us,
                         rider->request->claim.ask.at_us);
  return rides;
}

static bool ride(const weir_limiter *limiter, weir_settlement *carrier, weir_settlement *rider) {
  bool rides = may_ride(limiter, carrier, rider);
  for (size_t i = 0; rides && i < limiter->stack.count; i++)
    carrier->asked[i] += rider->asked[i]; /* 1024 times 2^31 at most */
  if (rides) rider->carrier = carrier;
  carrier->carries = carrier->carries || rides;
  return rides;
}

/* The settlement of the same key that stands before this one with no other request of that between
 * them. NULL: there is none near by. */
static weir_settlement *find_carrier(weir_call *call, const weir_waiting *state) {
  enum { LOOKS_MOST = 64 };
  const weir_waiting *before = state;
  for (int n = 0; n < LOOKS_MOST && before > call->batch; n++) {
    before--;
    if (before->claim.ask.key_length != state->claim.ask.key_length ||
        memcmp(before->claim.ask.key, state->claim.ask.key, state->claim.ask.key_length) != 0)
      continue;
    if (before->claim.ask.settlement == NULL) return NULL;
    weir_settlement *settlement = weir_call_settlement(call, before);
    if (settlement->carrier != NULL) return settlement->carrier;
    if (settlement->request != NULL) return settlement;
  }
  return NULL;
}

bool weir_settlement_ride(weir_call *call, const weir_waiting *request,
                          weir_settlement *settlement) {
  weir_settlement *carrier = find_carrier(call, request);
  return carrier != NULL && ride(call->limiter, carrier, settlement);
}

bool weir_settlement_begin(weir_limiter *limiter, weir_settlement *settlement,
                           weir_waiting *request) {
  const int64_t *costs = settlement->costs;
  request->claim.verdict.status = WEIR_OK;
  memcpy(settlement->asked, costs, sizeof settlement->asked);
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (settlement->spares >> i & 1U) settlement->asked[i] = 0;
  bool up = asks(limiter, settlement, 1), down = asks(limiter, settlement, -1);
  bool done = (!up && !down && (!settlement->gives_back || settlement->spares != 0)) ||
              settlement->charged == WEIR_CHARGED_NOWHERE;
  if (!done && settlement->charged == WEIR_CHARGED_STORE)
    done = lease_covers(limiter, settlement, request);
  if (done) {
    memcpy(settlement->settled, costs, sizeof settlement->settled);
    return false;
  }
  if ((down || settlement->gives_back) && settlement->charged == WEIR_CHARGED_ACCOUNT) {
    request->claim.verdict.status = give_back_to_account(limiter, settlement, request);
    if (request->claim.verdict.status != WEIR_OK) return false;
    if (!asks(limiter, settlement, 1) && !asks(limiter, settlement, -1)) return false;
  }
  ask_store(limiter, settlement, request);
  return true;
}

/* The store was asked for more, and gave no answer: the policy LOCAL owes it. */
static void owe(weir_limiter *limiter, weir_settlement *settlement, weir_waiting *request) {
  int64_t more[WEIR_RULES_MOST];
  bool some = false;
  for (size_t i = 0; i < WEIR_RULES_MOST; i++) {
    more[i] = settlement->asked[i] > 0 ? settlement->asked[i] : 0;
    some = some || more[i] > 0;
  }
  if (!some || request->claim.verdict.status == WEIR_UNKNOWN_OUTCOME ||
      !weir_policy_answers(limiter->fallback, request->claim.verdict.status) ||
      !weir_outage_charge(limiter, request, more))
    return;
  for (size_t i = 0; i < WEIR_RULES_MOST; i++)
    if (more[i] > 0) settlement->settled[i] = more[i];
  settlement->owed = true;
  request->claim.verdict.status = WEIR_OK;
}

/* Of what was charged for several, the first have theirs first. */
static void share_out(weir_settlement *settlement) {
  weir_settlement *carrier = settlement->carries ? settlement : settlement->carrier;
  for (size_t i = 0; carrier != NULL && i < WEIR_RULES_MOST; i++) {
    int64_t cost = settlement->costs[i];
    if (settlement == carrier) carrier->left[i] = settlement->settled[i];
    if (cost < 0) continue;
    settlement->settled[i] = cost < carrier->left[i] ? cost : carrier->left[i];
    carrier->left[i] -= settlement->settled[i];
  }
}

/* Less is charged than several should give back, and nothing was done: one of them is at fault. */
static void make_alone(weir_limiter *limiter, weir_settlement *settlement, weir_waiting *request,
                       weir_message *message) {
  weir_waiting again = {.claim.ask = {.at_us = request->claim.ask.at_us,
                                      .ends = request->claim.ask.ends,
                                      .class = request->claim.ask.class,
                                      .limit = request->claim.ask.limit,
                                      .key = request->claim.ask.key,
                                      .key_length = request->claim.ask.key_length}};
  weir_settlement alone = {.charged = WEIR_CHARGED_STORE,
                           .spares = settlement->spares,
                           .gives_back = settlement->gives_back};
  memcpy(alone.costs, settlement->costs, sizeof alone.costs);
  settlement->broken = true;
  request->claim.verdict.status = weir_settlement_make(limiter, &alone, &again, message);
  request->claim.verdict.decision = again.claim.verdict.decision;
  memcpy(settlement->settled, alone.settled, sizeof alone.settled);
}

/* What could go back has gone back, where it was of no use any more as well. The machine knows only
 * that less is charged than should go back. */
weir_status weir_settlement_end(weir_limiter *limiter, weir_settlement *settlement,
                                weir_waiting *request, weir_message *message) {
  const weir_settlement *carrier = settlement->carrier;
  if (carrier != NULL) {
    request->claim.verdict.status =
        carrier->broken ? WEIR_BAD_COST : carrier->request->claim.verdict.status;
    request->claim.verdict.decision = carrier->request->claim.verdict.decision;
  } else if (!settlement->gives_back) {
    owe(limiter, settlement, request);
  }
  if (request->claim.verdict.status == WEIR_BAD_COST && (carrier != NULL || settlement->carries)) {
    make_alone(limiter, settlement, request, message);
    return request->claim.verdict.status;
  }
  for (size_t i = 0; i < WEIR_RULES_MOST && request->claim.verdict.status == WEIR_OK; i++)
    if (settlement->costs[i] < 0) settlement->settled[i] = settlement->costs[i];
  bool settled = request->claim.verdict.status == WEIR_OK;
  if (settled) share_out(settlement);
  for (size_t i = 0; settled && i < limiter->stack.count; i++)
    if (settlement->spares >> i & 1U) settlement->settled[i] = settlement->costs[i];
  if (request->claim.verdict.status == WEIR_BAD_COST)
    weir_message_set(message,
                     "the store holds less than what should go back: it was reset, lost "
                     "or given back before");
  return request->claim.verdict.status;
}

weir_status weir_settlement_make(weir_limiter *limiter, weir_settlement *settlement,
                                 weir_waiting *request, weir_message *message) {
  if (weir_settlement_begin(limiter, settlement, request))
    weir_limiter_answer(limiter, request, message);
  else if (request->claim.verdict.status == WEIR_NO_MEMORY)
    weir_no_memory(message);
  return weir_settlement_end(limiter, settlement, request, message);
}

void weir_settlement_count(weir_limiter *limiter, const weir_settlement *settlement) {
  int64_t up = 0, down = 0, cut = 0; /* 8 rules and 2^31 at most: far from any overflow */
  for (size_t i = 0; i < limiter->stack.count; i++) {
    int64_t cost = settlement->costs[i];
    int64_t settled = settlement->settled[i];
    if (settled > 0) up += settled;
    if (settled < 0) down -= settled;
    if (cost > settled && cost > 0) cut += cost - settled;
  }
  weir_counts_add_settled(limiter->counts, WEIR_SETTLED_UP, up);
  weir_counts_add_settled(limiter->counts, WEIR_SETTLED_DOWN, down);
  weir_counts_add_settled(limiter->counts, WEIR_SETTLED_CUT, cut);
}

/* --- requests ----------------------------------------------------------------------------------
 */

/* Whether rule i keeps what is charged by a decision that had a delay: others wait behind it. */
static bool keeps_charge(const weir_limiter *limiter, const weir_decision *taken, size_t i) {
  return taken->delay_us > 0 && weir_rule_moves_in_time(&limiter->stack.rules[i]);
}

/* By which limit a decision was charged of which none is said, for what goes back: a token of a larger limit takes less
 * of a bucket, and no more of it may go back. What was admitted at once tells the limit, where each limit
 * has another; else the largest is safe. */
static int64_t limit_of(const weir_limiter *limiter, const weir_decision *taken) {
  const weir_stack *stack = &limiter->stack;
  if (!atomic_load_explicit(&limiter->limited, memory_order_relaxed)) return 0;
  const weir_rule *rule = &stack->rules[limiter->steered];
  if (!weir_rule_moves_in_time(rule)) return 0;
  if (stack->count > 1 || stack->class_count > 0 || rule->burst < rule->limit ||
      rule->reserve > 0 || taken->limit < 1)
    return rule->most;
  if (taken->limit == rule->capacity) return rule->limit;
  for (int64_t limit = taken->limit * rule->limit / rule->burst, end = limit + 2;
       limit < end && limit <= rule->most; limit++) {
    weir_rule limited = *rule;
    weir_rule_set_limit(&limited, limit < 1 ? 1 : limit);
    if (limited.capacity == taken->limit) return limited.limit;
  }
  return rule->most;
}

/* What a checked request asks for. */
static void ask(const weir_limiter *limiter, const weir_request *request, const weir_extra *extra,
                weir_settlement *settlement, weir_waiting *state) {
  const weir_decision *taken = &request->decision;
  size_t count = limiter->stack.count;
  *settlement = (weir_settlement){.charged = weir_charged_where(limiter, taken),
                                  .spares = weir_spared_by(limiter, taken),
                                  .store_status = taken->store_status};
  for (size_t i = 0; i < count; i++) {
    int64_t real = request->costs != NULL ? request->costs[i] : request->cost;
    int64_t before = request->costs != NULL ? request->costs[count + i] : taken->cost;
    bool stays = real < before && keeps_charge(limiter, taken, i);
    settlement->costs[i] = stays ? 0 : real - before;
  }
  *state = (weir_waiting){.claim.ask = {.at_us = taken->at_us,
                                        .settlement = settlement->settled,
                                        .key = request->key,
                                        .key_length = request->key_length}};
  if (extra != NULL) weir_request_say(limiter, extra, &state->claim.ask);
  if (state->claim.ask.limit == 0 && limiter->steered < count &&
      settlement->costs[limiter->steered] < 0)
    state->claim.ask.limit = limit_of(limiter, taken);
}

/* The second half of a request's costs, which its caller can write; NULL: it has one cost. */
static int64_t *charged_of(const weir_limiter *limiter, const weir_request *request) {
  if (request->costs == NULL) return NULL;
  return (int64_t *)(uintptr_t)request->costs + limiter->stack.count;
}

/* The figures of a settlement that asked the store are that answer's. Where its policy took what was
 * asked for, or nothing had to be asked, they stay. */
static void write_decision(const weir_limiter *limiter, weir_request *request,
                           const weir_settlement *settlement, const weir_waiting *state) {
  weir_decision *taken = &request->decision;
  size_t count = limiter->stack.count;
  int64_t *charged = charged_of(limiter, request);
  bool known = state->claim.verdict.status == WEIR_OK;
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < count; i++) {
    int64_t cost = charged != NULL ? charged[i] : taken->cost;
    int64_t change = settlement->settled[i];
    if (!known) change = settlement->costs[i] < 0 ? settlement->costs[i] : 0;
    if (charged != NULL) charged[i] = cost + change;
    if (cost + change < least) least = cost + change;
  }
  if (known && state->claim.verdict.decision.allowed) {
    taken->rule = state->claim.verdict.decision.rule;
    taken->limit = state->claim.verdict.decision.limit;
    taken->remaining = state->claim.verdict.decision.remaining;
    taken->reset_after_us = state->claim.verdict.decision.reset_after_us;
  }
  taken->retry_after_us = taken->delay_us = 0;
  taken->source = WEIR_SOURCE_SETTLED;
  taken->cost = charged != NULL ? WEIR_OWN_COSTS : least;
}

/* What is not known may have been made: nothing can be asked for a second time. */
static void tell(weir_limiter *limiter, weir_request *request, const weir_settlement *settlement,
                 const weir_waiting *state) {
  request->status = state->claim.verdict.status;
  if (request->status != WEIR_OK && request->status != WEIR_UNKNOWN_OUTCOME) return;
  weir_reserved_end(limiter, &request->decision, request->key, request->key_length);
  write_decision(limiter, request, settlement, state);
  if (request->status == WEIR_OK) weir_settlement_count(limiter, settlement);
}

static weir_status settle(weir_limiter *limiter, weir_request *request, const weir_extra *extra,
                          weir_message *message) {
  weir_settlement settlement;
  weir_waiting state;
  weir_status status = weir_request_check(limiter, request, extra, message);
  if (status != WEIR_OK) return status;
  ask(limiter, request, extra, &settlement, &state);
  status = weir_settlement_make(limiter, &settlement, &state, message);
  tell(limiter, request, &settlement, &state);
  return status;
}

weir_status weir_settle_request(weir_limiter *limiter, weir_request *request,
                                const weir_extra *extra, weir_message *message) {
  request->status = settle(limiter, request, extra, message);
  weir_counts_add(limiter->counts, request->status, NULL);
  return request->status;
}

/* --- among many: many.c ------------------------------------------------------------------------
 */

/* A server's turn settles many requests of one key: they are asked for as one. */
static weir_status begin_one(const weir_one *one, weir_message *message) {
  weir_status status = weir_request_check(one->limiter, one->request, one->extra, message);
  if (status != WEIR_OK) return status;
  weir_settlement *settlement = weir_call_settlement(one->call, one->state);
  if (settlement == NULL) return weir_no_memory(message);
  ask(one->limiter, one->request, one->extra, settlement, one->state);
  if (!weir_settlement_begin(one->limiter, settlement, one->state) ||
      weir_settlement_ride(one->call, one->state, settlement))
    weir_waiting_skip(one->state);
  return WEIR_OK;
}

static weir_status end_one(const weir_one *one, weir_message *message) {
  weir_settlement *settlement = weir_call_settlement(one->call, one->state);
  weir_status status = weir_settlement_end(one->limiter, settlement, one->state, message);
  tell(one->limiter, one->request, settlement, one->state);
  return status;
}

const weir_deed weir_settle_deed = {"requests", true, begin_one, end_one};

/* The open reservations know decisions by their place. */
weir_status weir_limiter_settle(weir_limiter *limiter, const void *key, size_t key_length,
                                int64_t real, weir_decision *taken, weir_message *message) {
  weir_request request = {.key = key,
                          .key_length = key_length,
                          .cost = real,
                          .flags = WEIR_REQUEST_SETTLE,
                          .decision = *taken};
  weir_status status = weir_settle_request(limiter, &request, NULL, message);
  if (status != WEIR_OK && status != WEIR_UNKNOWN_OUTCOME) return status;
  weir_reserved_end(limiter, taken, key, key_length);
  *taken = request.decision;
  return status;
}

/* --- refunds -----------------------------------------------------------------------------------
 */

/* Where nothing was charged, only the caller's own book is kept. */
static weir_status refund(weir_limiter *limiter, const void *key, size_t key_length, int64_t cost,
                          weir_decision *taken, weir_message *message) {
  const weir_request request = {.key = key, .key_length = key_length, .cost = cost};
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status == WEIR_OK) status = weir_refund_check(limiter, cost, taken, message);
  if (status == WEIR_OK) status = weir_request_check(limiter, &request, NULL, message);
  if (status != WEIR_OK) return status;

  weir_settlement settlement = {.charged = weir_charged_where(limiter, taken),
                                .spares = weir_spared_by(limiter, taken),
                                .store_status = taken->store_status,
                                .gives_back = true};
  for (size_t i = 0; i < limiter->stack.count; i++)
    settlement.costs[i] = keeps_charge(limiter, taken, i) ? 0 : -cost;
  weir_waiting state = {.claim.ask = {.at_us = taken->at_us,
                                      .limit = limit_of(limiter, taken),
                                      .key = key,
                                      .key_length = key_length}};
  status = weir_settlement_make(limiter, &settlement, &state, message);
  if (status == WEIR_OK || status == WEIR_UNKNOWN_OUTCOME) {
    if (settlement.charged != WEIR_CHARGED_NOWHERE)
      weir_reserved_take_off(limiter, taken, key, key_length, cost);
    taken->cost -= cost;
  }
  return status;
}

weir_status weir_limiter_refund(weir_limiter *limiter, const void *key, size_t key_length,
                                int64_t cost, weir_decision *taken, weir_message *message) {
  weir_status status = refund(limiter, key, key_length, cost, taken, message);
  weir_counts_add(limiter->counts, status, NULL);
  return status;
}
