/* Several keys as one decision: its members are all charged, or none.
 *
 *     recall ──> a member is known not to fit: nothing is asked
 *     look ────> those that must look do, before any is charged
 *     charge ──> all of a store together, in one round trip; stores one after another
 *       │ one says no: those that this thread leads give back along with it (driver.c)
 *       v
 *     give back ──> the others, past the lines of their keys; each denial was looked at once more
 *       │ ^ and all would fit now: others are half-way
 *       v │
 *     charge ──> again, one after another in the order of the counters' names, the same everywhere
 *
 * What is charged to a log cannot go back, nor a place in a queue that others stand behind. So one
 * member at most may be such, and it comes last.
 *
 * A member whose key another thread leads is decided in that thread's group, and is waited for with
 * no lead kept: so two that come crosswise do not wait for each other. What it was charged goes back
 * outside of the line: a subtraction needs no lead, and must not be late.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "algorithm/method.h"
#include "limiter/end.h"
#include "limiter/lease.h"
#include "limiter/limiter.h"

/* To charge one after another, where the first together was in vain. */
enum { TRIES_MOST = 4 };

/* What is known of a member. */
typedef enum weir_result {
  WEIR_NOT_ASKED,
  WEIR_FITS, /* it would be admitted, and nothing of it is charged */
  WEIR_CHARGED,
  WEIR_DENIED,
  WEIR_NO_VERDICT /* an error */
} weir_result;

typedef struct weir_member {
  weir_limiter *limiter;
  weir_request *request;
  const weir_extra *extra;
  weir_call *call;
  weir_waiting state;     /* of what it is asked now */
  weir_decision decision; /* the last, ... */
  int64_t charged_limit;  /* ... and its verdict's limit */
  weir_status status;
  weir_result result;
  bool looked;                        /* a look has shown that it fits */
  bool last;                          /* what it is charged may stay */
  int64_t deadline_us, charge_end_us; /* of the first that was asked of its store */
  int64_t costs[WEIR_RULES_MOST];     /* what goes back, by rule; of what was charged there: */
  int64_t places[WEIR_RULES_MOST];
} weir_member;

typedef struct weir_all {
  weir_member *members;
  size_t count;
  size_t failed; /* the first that has no decision; their number: none */
  weir_message why;
} weir_all;

/* Some of the members, one bit each. */
static bool has(unsigned set, size_t i) {
  return (set >> i & 1U) != 0;
}

static weir_member *first_of(const weir_all *all, unsigned set) {
  size_t i = 0;
  while (!has(set, i))
    i++;
  return &all->members[i];
}

static size_t count_of(const weir_all *all, weir_result result) {
  size_t count = 0;
  for (size_t i = 0; i < all->count; i++)
    count += all->members[i].result == result;
  return count;
}

static bool some_say_no(const weir_all *all) {
  return count_of(all, WEIR_DENIED) + count_of(all, WEIR_NO_VERDICT) > 0;
}

/* --- checks ------------------------------------------------------------------------------------
 */

/* Of a queue a place can be given back only while it is the last, of a log nothing. */
static bool may_stay(const weir_limiter *limiter, bool waits) {
  bool stays = waits;
  for (size_t i = 0; i < limiter->stack.count; i++)
    stays = stays || weir_rule_takes_one(&limiter->stack.rules[i]) ||
            weir_rule_gives_places(&limiter->stack.rules[i]);
  return stays;
}

/* What a limiter's rules, and a request that may wait, leave of it. */
static weir_status check_rules(const weir_limiter *limiter, bool waits, weir_message *message) {
  if (limiter->shared) {
    weir_message_set(
        message,
        "a %s gives back by settling alone, and so is no member of a decision of several "
        "keys",
        weir_rule_kind_name(limiter->stack.rules[0].kind));
    return WEIR_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (!weir_rule_is_held(&limiter->stack.rules[i])) continue;
    weir_message_set(message,
                     "%s: a reservation holds what is in flight, and a decision of several "
                     "keys has none",
                     limiter->texts[i]);
    return WEIR_BAD_ARGUMENT;
  }
  bool queues = waits;
  bool swaps = limiter->settings.traits & WEIR_TRAIT_SWAP;
  for (size_t i = 0; i < limiter->stack.count; i++)
    queues = queues || weir_rule_gives_places(&limiter->stack.rules[i]);
  if (!queues || swaps) return WEIR_OK;
  weir_message_set(message,
                   "%s: a place in a queue cannot be given back in a store without "
                   "compare-and-swap, so accepted is no leaky-bucket and no wait",
                   limiter->texts[0]);
  return WEIR_BAD_ARGUMENT;
}

static weir_status refuse_two_that_stay(const weir_limiter *limiter, const weir_limiter *other,
                                        weir_message *message) {
  weir_message_set(message,
                   "%s beside %s: neither gives back what it was charged, and accepted is one such "
                   "rule",
                   limiter->texts[0], other->texts[0]);
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_member(const weir_all *all, size_t at, weir_message *message) {
  const weir_member *member = &all->members[at];
  weir_limiter *limiter = member->limiter;
  const weir_request *request = member->request;
  weir_status status = weir_request_check(limiter, request, member->extra, message);
  if (status != WEIR_OK) return status;
  if (request->flags != 0) {
    weir_message_set(message,
                     "flags is 0x%x: accepted in a decision of several keys are 0, or "
                     "WEIR_REQUEST_PEEK in all of them",
                     request->flags);
    return WEIR_BAD_ARGUMENT;
  }
  status = check_rules(limiter, request->longest_wait_us > 0, message);
  if (status != WEIR_OK) return status;
  for (size_t i = 0; i < at; i++) {
    const weir_member *other = &all->members[i];
    if (member->last && other->last) return refuse_two_that_stay(limiter, other->limiter, message);
    if (limiter == other->limiter && request->key_length == other->request->key_length &&
        memcmp(request->key, other->request->key, request->key_length) == 0) {
      weir_message_set(message, "the limiter and key of requests[%zu]: accepted is each key once",
                       i);
      return WEIR_BAD_ARGUMENT;
    }
  }
  return WEIR_OK;
}

/* --- asking ------------------------------------------------------------------------------------
 */

static void begin(weir_member *member, weir_request_kind kind) {
  weir_call *call = member->call;
  weir_request_begin(member->limiter, member->request, member->extra, &member->state);
  member->state.claim.ask.kind = kind;
  if (kind == WEIR_TAKE)
    member->state.claim.ask.terms = member->looked ? WEIR_MEMBER_SEEN : WEIR_MEMBER;
  member->state.claim.ask.places = member->places;
  call->head = call;
  call->also = NULL;
  call->waiter = call->own_waiter;
  call->explained = NULL;
  call->all_or_none = false;
  weir_call_begin(call, &member->state, 1, weir_limiter_moment(member->limiter));
}

/* Of those that are wanted the first, and all that are of its store and deadline: their calls are one list.
 * The deadline is that of what was asked of them before. */
static unsigned take_set(weir_all *all, unsigned wanted, weir_request_kind kind) {
  weir_call *first = first_of(all, wanted)->call;
  const weir_limiter *limiter = first->limiter;
  weir_call **link = &first;
  unsigned set = 0;
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    if (!has(wanted, i) || !weir_limiter_goes_with(member->limiter, limiter)) continue;
    set |= 1U << i;
    begin(member, kind);
    link = weir_call_list(&first, link, member->call);
    if (member->deadline_us >= first->deadline_us) continue;
    first->deadline_us = member->deadline_us;
    first->charge_end_us = member->charge_end_us;
  }
  return set;
}

/* The store's answer, or the policy's; a policy answers for a look as for a charge. */
static void conclude(weir_all *all, size_t at) {
  weir_member *member = &all->members[at];
  weir_waiting *state = &member->state;
  weir_message *why = &member->call->explanation;
  bool looked = state->claim.ask.kind == WEIR_PEEK && state->claim.verdict.status == WEIR_OK;
  state->claim.ask.kind = WEIR_TAKE;
  if (member->call->explained == NULL)
    weir_message_set(why, "%s", weir_status_text(state->claim.verdict.status));
  if (weir_limiter_has_answer(member->limiter, state, state->claim.verdict.status))
    weir_limiter_fall_back(member->limiter, state, why);
  member->status = state->claim.verdict.status;
  member->decision = state->claim.verdict.decision;
  member->charged_limit = state->claim.verdict.limit;
  if (state->claim.verdict.status != WEIR_OK) {
    member->result = WEIR_NO_VERDICT;
    if (at < all->failed) {
      all->failed = at;
      all->why = *why;
    }
  } else if (state->claim.verdict.decision.allowed) {
    member->result = looked ? WEIR_FITS : WEIR_CHARGED;
    member->looked = looked;
  } else {
    member->result = state->claim.verdict.has_room ? WEIR_FITS : WEIR_DENIED;
  }
}

/* A call without time must not lead: what it would ask is late. */
static void run_set(weir_all *all, unsigned set) {
  weir_call *first = first_of(all, set)->call;
  bool begun = first->deadline_us != INT64_MAX;
  if (begun) first->monotonic_us = weir_monotonic_us();
  bool late = begun && weir_call_is_out_of_time(first);
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    if (!has(set, i)) continue;
    if (late) {
      member->state.claim.verdict.status = WEIR_TIMEOUT;
      member->state.claim.verdict.answered = true;
    } else {
      weir_call_join(&member->call, member->limiter, &member->state, member->call->at);
    }
  }
  if (!late) weir_call_run(first);
  for (size_t i = 0; i < all->count; i++) {
    if (!has(set, i)) continue;
    all->members[i].deadline_us = first->deadline_us;
    all->members[i].charge_end_us = first->charge_end_us;
    conclude(all, i);
  }
}

/* Those that are wanted, store by store; until one says no. */
static void ask(weir_all *all, unsigned wanted, weir_request_kind kind) {
  while (wanted != 0 && !some_say_no(all)) {
    unsigned set = take_set(all, wanted, kind);
    first_of(all, set)->call->all_or_none = kind == WEIR_TAKE;
    run_set(all, set);
    wanted &= ~set;
  }
}

/* --- giving back -------------------------------------------------------------------------------
 */

/* At least a quarter of a deadline, whatever came before. */
static int64_t end_us(const weir_member *member) {
  int64_t least_us = weir_monotonic_us() + member->limiter->deadline_us / 4;
  bool begun = member->deadline_us != INT64_MAX;
  return begun && member->deadline_us > least_us ? member->deadline_us : least_us;
}

/* Plans the subtractions of what was charged to counters, and has what is known of them read again. */
static void plan_return(weir_member *member) {
  weir_limiter *limiter = member->limiter;
  weir_round *round = &member->call->round;
  char encoded[WEIR_ENCODED_MOST];
  uint64_t fingerprint[2];
  size_t length = weir_key_encode(member->request->key, member->request->key_length, encoded);
  weir_key key;
  weir_key_read(limiter->store->secret, member->request->key, member->request->key_length, &key);
  weir_key_fingerprint(limiter->store->secret, &key, fingerprint);
  weir_memo_entry *entry = weir_table_lock(limiter->table, &key);
  if (entry != NULL) {
    if (entry->busy) entry->doubted = true;
    for (size_t i = 0; i < limiter->stack.count && !entry->busy; i++)
      if (member->costs[i] > 0)
        weir_memo_doubt(&limiter->stack, entry->memo, i, member->places[i], member->costs[i]);
    if (!entry->busy) entry->memo->denied_cost = 0; /* it may fit now */
    if (!entry->busy) weir_table_show_denial(limiter->table, entry, NULL);
    weir_lock_leave(&entry->shard->lock);
  }
  round->planned_count = 0;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    weir_operation *operation = &round->planned[round->planned_count];
    if (member->costs[i] == 0) continue;
    *operation = (weir_operation){.kind = WEIR_SUB,
                                  .ttl_us = weir_method_ttl_us(rule, &limiter->settings),
                                  .counter = {.rule = (uint32_t)i, .place = WEIR_PLACE_COUNT}};
    weir_lease_return(rule, member->places[i], member->costs[i], operation);
    round->planned_count++;
  }
  weir_call_name(limiter, fingerprint, encoded, length, round->planned, round->planned_count,
                 round->key_texts);
  round->giving = round->sending = round->planned_count;
  member->call->failure.text[0] = '\0';
}

/* All of a store in one round trip. */
static void return_charges(weir_all *all, unsigned wanted) {
  while (wanted != 0) {
    int64_t until_us = end_us(first_of(all, wanted));
    unsigned set = take_set(all, wanted, WEIR_REFUND);
    weir_call *first = first_of(all, set)->call;
    for (size_t i = 0; i < all->count; i++)
      if (has(set, i)) plan_return(&all->members[i]);
    first->deadline_us = first->charge_end_us = until_us;
    weir_call_send(first);
    wanted &= ~set;
  }
}

/* Those that others were faster than, of which nothing has gone back. */
static unsigned refund_set(weir_all *all, unsigned set, int64_t until_us) {
  weir_call *first = first_of(all, set)->call;
  unsigned contended = 0;
  first->deadline_us = first->charge_end_us = until_us;
  first->monotonic_us = weir_monotonic_us();
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    weir_ask *ask = &member->state.claim.ask;
    if (!has(set, i)) continue;
    ask->alone = true;
    ask->costs = member->costs;
    ask->at_us = member->decision.at_us;
    ask->places = NULL;
    if (member->charged_limit != 0) ask->limit = member->charged_limit;
    weir_call_join(&member->call, member->limiter, &member->state, member->call->at);
  }
  weir_call_run(first);
  for (size_t i = 0; i < all->count; i++)
    if (has(set, i) && all->members[i].state.claim.verdict.status == WEIR_CONTENDED)
      contended |= 1U << i;
  return contended;
}

/* In the lines of their keys: what goes back to a bucket depends on what it holds. There may be time for
 * another try. */
static void refund_charges(weir_all *all, unsigned wanted) {
  while (wanted != 0) {
    int64_t until_us = end_us(first_of(all, wanted));
    unsigned set = take_set(all, wanted, WEIR_REFUND);
    wanted &= ~set;
    unsigned left = refund_set(all, set, until_us);
    while (left != 0 && weir_monotonic_us() < until_us)
      left = refund_set(all, take_set(all, left, WEIR_REFUND), until_us);
  }
}

/* False: it is not the store that has the charge, and it has gone back. */
static bool charged_in_store(weir_member *member) {
  weir_limiter *limiter = member->limiter;
  const weir_decision *decision = &member->decision;
  weir_settlement back = {.charged = weir_charged_where(limiter, decision),
                          .store_status = decision->store_status,
                          .gives_back = true};
  if (back.charged != WEIR_CHARGED_STORE) {
    weir_waiting request = {.claim.ask = {.at_us = decision->at_us,
                                          .key = member->request->key,
                                          .key_length = member->request->key_length}};
    for (size_t i = 0; i < limiter->stack.count; i++)
      back.costs[i] = -member->costs[i];
    weir_settlement_make(limiter, &back, &request, NULL);
    return false;
  }
  if (!limiter->leases || !weir_claim_has_lot(&member->state.claim)) return true;
  weir_memo_entry *entry =
      weir_limiter_lock(limiter, member->request->key, member->request->key_length);
  if (entry == NULL) return true;
  weir_leases_return(limiter, entry, &member->state.claim);
  weir_lock_leave(&entry->shard->lock);
  return false;
}

/* The figures of a member that has nothing of its charge left. */
static void show_returned(weir_member *member) {
  weir_decision *decision = &member->decision;
  int64_t most = decision->limit;
  member->result = WEIR_FITS;
  decision->allowed = false;
  decision->delay_us = 0;
  if (decision->remaining == WEIR_NOT_KNOWN) return;
  decision->remaining += member->costs[decision->rule];
  if (decision->remaining >= most) {
    decision->remaining = most;
    decision->reset_after_us = 0;
  }
}

/* What was charged under rules that count denied requests stays; before another try, all of such a
 * member. */
static void give_back(weir_all *all, bool again) {
  unsigned counters = 0, others = 0;
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    const weir_stack *stack = &member->limiter->stack;
    bool some = false, counts = true;
    if (member->result != WEIR_CHARGED || (again && stack->count_all)) continue;
    for (size_t n = 0; n < stack->count; n++) {
      int64_t cost =
          member->request->costs != NULL ? member->request->costs[n] : member->decision.cost;
      bool spared = weir_spared_by(member->limiter, &member->decision) >> n & 1U;
      member->costs[n] = stack->rules[n].count_all || spared ? 0 : cost;
      some = some || member->costs[n] > 0;
      counts = counts && weir_rule_keeps_counts(&stack->rules[n]);
    }
    if (some && charged_in_store(member)) *(counts ? &counters : &others) |= 1U << i;
    show_returned(member);
  }
  return_charges(all, counters);
  refund_charges(all, others);
}

/* --- deciding ----------------------------------------------------------------------------------
 */

/* Rules that count denied requests know of them only by asking; and so does their member. */
static void recall_and_look(weir_all *all) {
  unsigned looks = 0;
  for (size_t i = 0; i < all->count; i++) {
    bool must_look;
    weir_member *member = &all->members[i];
    begin(member, WEIR_TAKE);
    weir_key key;
    weir_key_read(member->limiter->store->secret, member->state.claim.ask.key,
                  member->state.claim.ask.key_length, &key);
    if (weir_know(member->limiter, &member->state, &key, member->call->at, WEIR_ALL_KEYS,
                  &must_look)) {
      member->result = WEIR_DENIED;
      member->decision = member->state.claim.verdict.decision;
    }
    if (must_look) looks |= 1U << i;
  }
  ask(all, looks, WEIR_PEEK);
}

static bool is_open(const weir_member *member) {
  return member->result == WEIR_NOT_ASKED || member->result == WEIR_FITS;
}

static void charge(weir_all *all) {
  for (int last = 0; last <= 1; last++) {
    unsigned wanted = 0;
    for (size_t i = 0; i < all->count; i++)
      if (is_open(&all->members[i]) && all->members[i].last == last) wanted |= 1U << i;
    ask(all, wanted, WEIR_TAKE);
    bool left = false; /* one that fits but for others does not let the last be asked */
    for (size_t i = 0; i < all->count; i++)
      left = left || (is_open(&all->members[i]) && !all->members[i].last);
    if (left) return;
  }
}

static int compare_bytes(const void *one, size_t length, const void *other, size_t other_length) {
  int order = memcmp(one, other, length < other_length ? length : other_length);
  return order != 0 ? order : (length > other_length) - (length < other_length);
}

/* By the names of their first counters; those whose charge stays come last. */
static int compare_names(const void *one, const void *other) {
  const weir_member *a = *(weir_member *const *)one;
  const weir_member *b = *(weir_member *const *)other;
  const weir_prefix *p = &a->limiter->prefixes[0];
  const weir_prefix *q = &b->limiter->prefixes[0];
  if (a->last != b->last) return a->last ? 1 : -1;
  int order = compare_bytes(p->text, p->length, q->text, q->length);
  if (order == 0)
    order = compare_bytes(a->request->key, a->request->key_length, b->request->key,
                          b->request->key_length);
  if (order != 0) return order;
  return a < b ? -1 : 1;
}

static void charge_in_order(weir_all *all) {
  weir_member *order[WEIR_ALL_MOST];
  for (size_t i = 0; i < all->count; i++) {
    order[i] = &all->members[i];
    order[i]->looked = true;
  }
  qsort(order, all->count, sizeof order[0], compare_names);
  for (size_t i = 0; i < all->count; i++) {
    if (!is_open(order[i])) continue;
    ask(all, 1U << (order[i] - all->members), WEIR_TAKE);
    if (order[i]->result != WEIR_CHARGED) return;
  }
}

/* Those that count denied requests count this one, whichever member denies it. */
static void count_denied(weir_all *all) {
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    if (!member->limiter->stack.count_all || !is_open(member)) continue;
    run_set(all, take_set(all, 1U << i, WEIR_TAKE));
  }
}

/* One that was denied is looked at once more when all that this thread charged is back. So of those
 * that have denied each other the one that looks last finds room, as all others have given back before
 * they looked. */
static void look_again(weir_all *all) {
  if (count_of(all, WEIR_DENIED) == 0 || all->failed < all->count) return;
  give_back(all, true);
  unsigned denied = 0;
  for (size_t i = 0; i < all->count; i++) {
    if (all->members[i].result != WEIR_DENIED) continue;
    all->members[i].result = WEIR_NOT_ASKED;
    denied |= 1U << i;
  }
  ask(all, denied, WEIR_PEEK);
}

/* While all that was denied fits behind its take-back: then it was others, who are half-way. */
static void decide(weir_all *all) {
  recall_and_look(all);
  if (!some_say_no(all)) charge(all);
  for (unsigned tries = 1; tries <= TRIES_MOST && !some_say_no(all); tries++) {
    if (count_of(all, WEIR_CHARGED) == all->count) return;
    give_back(all, true);
    if (tries > 1) weir_sleep_until(weir_call_pause_end_us(tries));
    charge_in_order(all);
    look_again(all);
  }
  if (count_of(all, WEIR_CHARGED) == all->count) return;
  count_denied(all);
  give_back(all, false);
}

/* --- answering ---------------------------------------------------------------------------------
 */

/* The one that denies longest; of those that fit by now, which another may have kept out, the first. */
static size_t find_speaker(const weir_all *all) {
  size_t speaker = all->count;
  for (size_t i = 0; i < all->count; i++) {
    const weir_member *member = &all->members[i];
    if (member->result != WEIR_DENIED) continue;
    if (speaker == all->count || (uint64_t)member->decision.retry_after_us >
                                     (uint64_t)all->members[speaker].decision.retry_after_us)
      speaker = i;
  }
  for (size_t i = 0; i < all->count && speaker == all->count; i++)
    if (all->members[i].result == WEIR_FITS) speaker = i;
  if (speaker < all->count && all->members[speaker].decision.retry_after_us == 0)
    all->members[speaker].decision.retry_after_us = 1;
  return speaker;
}

static void tell(weir_member *member) {
  weir_request *request = member->request;
  if (member->result == WEIR_NOT_ASKED)
    member->decision = (weir_decision){
        .source = WEIR_SOURCE_LOCAL,
        .limit = weir_view_capacity(&member->limiter->stack, &member->state.claim.ask),
        .remaining = WEIR_NOT_KNOWN,
        .reset_after_us = WEIR_NOT_KNOWN,
        .cost = request->cost,
        .at_us = weir_limiter_now(member->limiter)};
  if (member->result == WEIR_FITS) member->decision.allowed = false;
  request->status = member->status;
  if (member->status == WEIR_OK) request->decision = member->decision;
  if (request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
}

static weir_status answer(weir_all *all, size_t *denied_by, weir_message *message) {
  bool admitted = count_of(all, WEIR_CHARGED) == all->count;
  *denied_by = all->count;
  if (!admitted) *denied_by = all->failed < all->count ? all->failed : find_speaker(all);
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    tell(member);
    weir_counts_add(member->limiter->counts, member->status, &member->request->decision);
  }
  if (all->failed == all->count) return WEIR_OK;
  weir_message_set(message, "requests[%zu]: %s", all->failed, all->why.text);
  return all->members[all->failed].status;
}

/* A look at several keys is one at each. */
static weir_status peek(weir_limiter *const *limiters, weir_request *requests,
                        const weir_extra *const *extras, size_t count, size_t *denied_by,
                        weir_message *message) {
  weir_status status = weir_decide_extra(limiters, requests, extras, count, message);
  *denied_by = count;
  for (size_t i = 0; i < count; i++) {
    const weir_request *request = &requests[i];
    if (status != WEIR_OK && request->status == status) {
      *denied_by = i;
      return status;
    }
    if (status != WEIR_OK || request->decision.allowed) continue;
    if (*denied_by == count || (uint64_t)request->decision.retry_after_us >
                                   (uint64_t)requests[*denied_by].decision.retry_after_us)
      *denied_by = i;
  }
  return status;
}

static weir_status refuse(weir_all *all, size_t at, weir_status status, size_t *denied_by,
                          weir_message *message) {
  *denied_by = at;
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    member->request->status = i == at ? status : WEIR_BAD_ARGUMENT;
    weir_counts_add(member->limiter->counts, member->request->status, NULL);
  }
  weir_message_prefix(message, "requests[%zu]: ", at);
  return status;
}

static bool are_limiters(weir_limiter *const *limiters, size_t count, weir_message *message) {
  if (count == 0 || count > WEIR_ALL_MOST) {
    weir_message_set(message, "a decision of %zu requests: accepted are 1 to %d", count,
                     WEIR_ALL_MOST);
    return false;
  }
  return weir_limiters_check(limiters, count, message) == WEIR_OK;
}

weir_status weir_check_all(weir_limiter *const *limiters, size_t count, weir_message *message) {
  const weir_limiter *stays = NULL;
  weir_status status = WEIR_OK;
  if (!are_limiters(limiters, count, message)) return WEIR_BAD_ARGUMENT;
  for (size_t i = 0; i < count && status == WEIR_OK; i++) {
    const weir_limiter *limiter = limiters[i];
    status = check_rules(limiter, false, message);
    if (status != WEIR_OK || !may_stay(limiter, false)) continue;
    if (stays != NULL) status = refuse_two_that_stay(limiter, stays, message);
    stays = limiter;
  }
  return status;
}

weir_status weir_decide_all_extra(weir_limiter *const *limiters, weir_request *requests,
                                  const weir_extra *const *extras, size_t count, size_t *denied_by,
                                  weir_message *message) {
  weir_member members[WEIR_ALL_MOST];
  weir_all all = {.members = members, .count = count, .failed = count};
  weir_status status = WEIR_OK;
  size_t peeks = 0;
  *denied_by = count;
  if (!are_limiters(limiters, count, message)) return WEIR_BAD_ARGUMENT;
  for (size_t i = 0; i < count; i++)
    peeks += requests[i].flags == WEIR_REQUEST_PEEK;
  if (peeks == count) return peek(limiters, requests, extras, count, denied_by, message);

  size_t ready = 0;
  for (size_t i = 0; i < count; i++)
    members[i] = (weir_member){.limiter = limiters[i],
                               .request = &requests[i],
                               .extra = weir_extra_of(extras, i),
                               .last = may_stay(limiters[i], requests[i].longest_wait_us > 0),
                               .deadline_us = INT64_MAX,
                               .charge_end_us = INT64_MAX};
  for (size_t i = 0; i < count && status == WEIR_OK; i++) {
    status = check_member(&all, i, message);
    if (status != WEIR_OK) return refuse(&all, i, status, denied_by, message);
  }
  while (ready < count && (members[ready].call = weir_call_acquire(limiters[ready], 1)) != NULL)
    ready++;
  if (ready == count) {
    decide(&all);
    status = answer(&all, denied_by, message);
  } else {
    status = refuse(&all, ready, weir_no_memory(message), denied_by, message);
  }
  while (ready-- > 0)
    weir_call_release(members[ready].call);
  return status;
}

weir_status weir_decide_all(weir_limiter *const *limiters, weir_request *requests, size_t count,
                            size_t *denied_by, weir_message *message) {
  return weir_decide_all_extra(limiters, requests, NULL, count, denied_by, message);
}
