/* Several requests as one decision: all are charged, or none. Each is a member, for a key of its own.
 *
 *     recall ──> a member is known not to fit: nothing is asked
 *     look ────> those that must look do, before any is charged
 *     charge ──> all of a store together, in one round trip; stores one after another
 *       │ one says no: those that this thread leads give back along with it
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
#include "algorithm/plan.h"
#include "limiter/end.h"
#include "limiter/lease.h"
#include "limiter/many.h"

/* --- members ------------------------------------------------------------------------------------
 */

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
  weir_party party; /* first, see member_of(); its call is for one request */
  weir_request *request;
  const weir_extra *extra;
  weir_decision decision; /* the last, ... */
  int64_t charged_limit;  /* ... and its verdict's limit */
  weir_status status;
  weir_result result;
  bool explained;                     /* the store did not make the last: its call says why */
  bool looked;                        /* a look has shown that it fits */
  bool last;                          /* what it is charged may stay */
  int64_t deadline_us, charge_end_us; /* of the first that was asked of its store */
  int64_t costs[WEIR_RULES_MOST];     /* what goes back, by rule; of what was charged there: */
  int64_t places[WEIR_RULES_MOST];
} weir_member;

typedef struct weir_all {
  weir_member *members;
  size_t count;
  weir_speaker speaker;
} weir_all;

static weir_member *member_of(weir_party *party) {
  return (weir_member *)party;
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

static bool is_open(const weir_member *member) {
  return member->result == WEIR_NOT_ASKED || member->result == WEIR_FITS;
}

/* --- giving up ---------------------------------------------------------------------------------
 */

static bool says_no(const weir_claim *claim) {
  bool admitted = claim->verdict.status == WEIR_OK && claim->verdict.decision.allowed;
  return claim->verdict.denying != 0 || (claim->verdict.answered && !admitted);
}

/* The member of this call that a group decides, or NULL. Stand-ins add claims that no thread waits for. */
static weir_claim *find_member(const weir_group *group, const weir_call *call) {
  weir_claim *claim = group->requests;
  while (claim != NULL &&
         (!weir_ask_is_member(&claim->ask) || weir_waiting_of(claim)->call != call))
    claim = claim->next;
  return claim;
}

/* Whether a member is known not to be admitted: one that is answered, or in a group of these calls. */
static bool one_says_no(const weir_call *first) {
  for (const weir_call *call = first; call != NULL; call = call->also) {
    for (size_t i = 0; i < call->ask_count; i++) {
      const weir_waiting *request = &call->requests[i];
      if (atomic_load_explicit(&request->standing, memory_order_acquire) == WEIR_STANDING_DONE &&
          says_no(&request->claim))
        return true;
    }
    for (size_t i = 0; i < call->group_count; i++) {
      const weir_claim *member = find_member(&call->groups[i], call);
      if (member != NULL && says_no(member)) return true;
    }
  }
  return false;
}

/* Behind a round: where one says no, those that were admitted give up what they have, in the round in which the
 * others take back. */
static void give_up(weir_call *first) {
  if (!one_says_no(first)) return;
  for (weir_call *call = first; call != NULL; call = call->also) {
    weir_round *round = &call->round;
    for (size_t i = 0; i < call->group_count && !call->limiter->known->keeps_members; i++) {
      weir_group *group = &call->groups[i];
      weir_claim *member = find_member(group, call);
      bool admitted = member != NULL && group->turn == WEIR_TURN_DONE && member->verdict.answered &&
                      !says_no(member);
      if (!admitted || weir_machine_keeps(group->machine, member)) continue;
      group->turn =
          weir_machine_give_up(group->machine, member, round->planned + round->planned_count);
      round->planned_count += group->machine->frame.operation_count;
      member->verdict.has_room = true;
    }
  }
}

/* --- asking -------------------------------------------------------------------------------------
 */

static void begin(weir_member *member, weir_request_kind kind) {
  weir_call *call = member->party.call;
  weir_ask *ask = &call->batch->claim.ask;
  weir_request_begin(member->party.limiter, member->request, member->extra, call->batch);
  ask->kind = kind;
  if (kind == WEIR_TAKE) ask->terms = member->looked ? WEIR_MEMBER_SEEN : WEIR_MEMBER;
  if (kind == WEIR_REFUND) {
    ask->alone = true;
    ask->costs = member->costs;
    ask->at_us = member->decision.at_us;
    if (member->charged_limit != 0) ask->limit = member->charged_limit;
  } else {
    ask->places = member->places;
  }
  call->also = NULL;
  call->explained = NULL;
  call->behind_round = kind == WEIR_TAKE ? give_up : NULL;
  call->looks_last = kind == WEIR_TAKE; /* of two that denied each other, one then finds room */
  weir_call_begin(call, call->batch, 1, weir_limiter_moment(member->party.limiter));
}

/* The deadline is that of what was asked of them before. */
static weir_call *begin_set(weir_party *set, weir_request_kind kind) {
  weir_call *first = NULL;
  weir_call **link = &first;
  for (weir_party *party = set; party != NULL; party = party->next) {
    const weir_member *member = member_of(party);
    begin(member_of(party), kind);
    link = weir_call_list(&first, link, party->call);
    if (member->deadline_us >= first->deadline_us) continue;
    first->deadline_us = member->deadline_us;
    first->charge_end_us = member->charge_end_us;
  }
  return first;
}

/* The store's answer, or the policy's; a policy answers for a look as for a charge. */
static void conclude(weir_all *all, weir_member *member) {
  weir_call *call = member->party.call;
  weir_verdict *verdict = &call->batch->claim.verdict;
  weir_message *why = &call->explanation;
  bool looked = call->batch->claim.ask.kind == WEIR_PEEK && verdict->status == WEIR_OK;
  call->batch->claim.ask.kind = WEIR_TAKE;
  if (call->explained == NULL) weir_message_set(why, "%s", weir_status_text(verdict->status));
  member->explained = verdict->status != WEIR_OK;
  if (weir_limiter_has_answer(member->party.limiter, call->batch, verdict->status))
    weir_limiter_fall_back(member->party.limiter, call->batch, why);
  member->status = verdict->status;
  member->decision = verdict->decision;
  member->charged_limit = verdict->limit;
  if (verdict->status != WEIR_OK) {
    member->result = WEIR_NO_VERDICT;
    weir_speak(&all->speaker, verdict->status, (size_t)(member - all->members), why->text);
  } else if (verdict->decision.allowed) {
    member->result = looked ? WEIR_FITS : WEIR_CHARGED;
    member->looked = looked;
  } else {
    member->result = verdict->has_room ? WEIR_FITS : WEIR_DENIED;
  }
}

/* A call without time must not lead: what it would ask is late. */
static void ask_set(weir_all *all, weir_party *set, weir_request_kind kind) {
  weir_call *first = begin_set(set, kind);
  bool begun = first->deadline_us != INT64_MAX;
  if (begun) first->monotonic_us = weir_monotonic_us();
  bool late = begun && weir_call_is_out_of_time(first);
  for (weir_call *call = first; late && call != NULL; call = call->also) {
    call->batch->claim.verdict.status = WEIR_TIMEOUT;
    call->batch->claim.verdict.answered = true;
    weir_waiting_skip(call->batch);
  }
  weir_set_run(first);
  for (weir_party *party = set; party != NULL; party = party->next) {
    weir_member *member = member_of(party);
    member->deadline_us = first->deadline_us;
    member->charge_end_us = first->charge_end_us;
    conclude(all, member);
  }
}

/* Store by store, until one says no. */
static void ask(weir_all *all, weir_party *list, weir_request_kind kind) {
  while (list != NULL && !some_say_no(all))
    ask_set(all, weir_party_take_set(&list), kind);
}

/* --- giving back --------------------------------------------------------------------------------
 */

/* At least a quarter of a deadline, whatever came before. */
static int64_t end_us(const weir_member *member) {
  int64_t least_us = weir_monotonic_us() + member->party.limiter->deadline_us / 4;
  bool begun = member->deadline_us != INT64_MAX;
  return begun && member->deadline_us > least_us ? member->deadline_us : least_us;
}

/* Plans the subtractions of what was charged to counters, and has what is known of them read again. */
static void plan_return(weir_member *member) {
  weir_limiter *limiter = member->party.limiter;
  weir_round *round = &member->party.call->round;
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
    weir_rule_return(rule, member->places[i], member->costs[i], operation);
    round->planned_count++;
  }
  weir_call_name(limiter, fingerprint, encoded, length, round->planned, round->planned_count,
                 round->key_texts);
  round->giving = round->sending = round->planned_count;
  member->party.call->failure.text[0] = '\0';
}

/* Past the lines of their keys: all of a store in one round trip. */
static void subtract(weir_party *list) {
  while (list != NULL) {
    int64_t until_us = end_us(member_of(list));
    weir_party *set = weir_party_take_set(&list);
    weir_call *first = begin_set(set, WEIR_REFUND);
    for (weir_party *party = set; party != NULL; party = party->next)
      plan_return(member_of(party));
    first->deadline_us = first->charge_end_us = until_us;
    weir_call_send(first);
  }
}

/* Answers those that others were faster than, of which nothing has gone back. */
static weir_party *refund_set(weir_party *set, int64_t until_us) {
  weir_call *first = begin_set(set, WEIR_REFUND);
  weir_party *contended = NULL;
  weir_party **end = &contended;
  first->deadline_us = first->charge_end_us = until_us;
  first->monotonic_us = weir_monotonic_us();
  weir_set_run(first);
  for (weir_party *party = set, *next; party != NULL; party = next) {
    next = party->next;
    if (party->call->batch->claim.verdict.status == WEIR_CONTENDED)
      end = weir_party_append(end, party);
  }
  return contended;
}

/* In the lines of their keys: what goes back to a bucket depends on what it holds. There may be time for
 * another try. */
static void refund(weir_party *list) {
  while (list != NULL) {
    int64_t until_us = end_us(member_of(list));
    weir_party *left = weir_party_take_set(&list);
    do
      left = refund_set(left, until_us);
    while (left != NULL && weir_monotonic_us() < until_us);
  }
}

/* False: it is not the store that has the charge, and it has gone back. */
static bool charged_in_store(weir_member *member) {
  weir_limiter *limiter = member->party.limiter;
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
  return !weir_leases_return(limiter, &member->party.call->batch->claim);
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
  weir_party *counters = NULL, *others = NULL;
  weir_party **ends[] = {[false] = &others, [true] = &counters};
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    const weir_stack *stack = &member->party.limiter->stack;
    bool some = false, counts = true;
    if (member->result != WEIR_CHARGED || (again && stack->count_all)) continue;
    unsigned spared = weir_spared_by(member->party.limiter, &member->decision);
    for (size_t n = 0; n < stack->count; n++) {
      int64_t cost =
          member->request->costs != NULL ? member->request->costs[n] : member->decision.cost;
      member->costs[n] = stack->rules[n].count_all || spared >> n & 1U ? 0 : cost;
      some = some || member->costs[n] > 0;
      counts = counts && weir_rule_keeps_counts(&stack->rules[n]);
    }
    if (some && charged_in_store(member))
      ends[counts] = weir_party_append(ends[counts], &member->party);
    show_returned(member);
  }
  subtract(counters);
  refund(others);
}

/* --- deciding -----------------------------------------------------------------------------------
 */

/* Rules that count denied requests know of them only by asking; and so does their member. */
static void recall_and_look(weir_all *all) {
  weir_party *looks = NULL;
  weir_party **end = &looks;
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    weir_waiting *state = member->party.call->batch;
    bool must_look;
    weir_key key;
    begin(member, WEIR_TAKE);
    weir_key_read(member->party.limiter->store->secret, state->claim.ask.key,
                  state->claim.ask.key_length, &key);
    if (weir_know(member->party.limiter, state, &key, member->party.call->at, WEIR_ALL_KEYS,
                  &must_look)) {
      member->result = WEIR_DENIED;
      member->decision = state->claim.verdict.decision;
    }
    if (must_look) end = weir_party_append(end, &member->party);
  }
  ask(all, looks, WEIR_PEEK);
}

/* One that fits but for others does not let the last be asked. */
static void charge(weir_all *all) {
  weir_party *first = NULL, *last = NULL;
  weir_party **ends[] = {[false] = &first, [true] = &last};
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    if (is_open(member)) ends[member->last] = weir_party_append(ends[member->last], &member->party);
  }
  ask(all, first, WEIR_TAKE);
  for (size_t i = 0; i < all->count; i++)
    if (is_open(&all->members[i]) && !all->members[i].last) return;
  ask(all, last, WEIR_TAKE);
}

static int compare_bytes(const void *one, size_t length, const void *other, size_t other_length) {
  int order = memcmp(one, other, length < other_length ? length : other_length);
  return order != 0 ? order : (length > other_length) - (length < other_length);
}

/* By the names of their first counters; those whose charge stays come last. */
static int compare_names(const void *one, const void *other) {
  const weir_member *a = *(weir_member *const *)one;
  const weir_member *b = *(weir_member *const *)other;
  const weir_prefix *p = &a->party.limiter->prefixes[0];
  const weir_prefix *q = &b->party.limiter->prefixes[0];
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
    order[i]->party.next = NULL;
    ask(all, &order[i]->party, WEIR_TAKE);
    if (order[i]->result != WEIR_CHARGED) return;
  }
}

/* Those that count denied requests count this one, whichever member denies it. */
static void count_denied(weir_all *all) {
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    if (!member->party.limiter->stack.count_all || !is_open(member)) continue;
    member->party.next = NULL;
    ask_set(all, &member->party, WEIR_TAKE);
  }
}

/* One that was denied is looked at once more when all that this thread charged is back. So of those
 * that have denied each other the one that looks last finds room, as all others have given back before
 * they looked. */
static void look_again(weir_all *all) {
  weir_party *denied = NULL;
  weir_party **end = &denied;
  if (count_of(all, WEIR_DENIED) == 0 || all->speaker.status != WEIR_OK) return;
  give_back(all, true);
  for (size_t i = 0; i < all->count; i++) {
    if (all->members[i].result != WEIR_DENIED) continue;
    all->members[i].result = WEIR_NOT_ASKED;
    end = weir_party_append(end, &all->members[i].party);
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

/* --- answering ----------------------------------------------------------------------------------
 */

/* WEIR_NEVER is the longest. */
static bool denies_longer(const weir_decision *one, const weir_decision *other) {
  return (uint64_t)one->retry_after_us > (uint64_t)other->retry_after_us;
}

/* The one that denies longest; of those that fit by now, which another may have kept out, the first. */
static size_t find_speaker(const weir_all *all) {
  size_t speaker = all->count;
  for (size_t i = 0; i < all->count; i++) {
    const weir_member *member = &all->members[i];
    if (member->result == WEIR_DENIED &&
        (speaker == all->count ||
         denies_longer(&member->decision, &all->members[speaker].decision)))
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
    member->decision =
        (weir_decision){.source = WEIR_SOURCE_LOCAL,
                        .limit = weir_view_capacity(&member->party.limiter->stack,
                                                    &member->party.call->batch->claim.ask),
                        .remaining = WEIR_NOT_KNOWN,
                        .reset_after_us = WEIR_NOT_KNOWN,
                        .cost = request->cost,
                        .at_us = weir_limiter_now(member->party.limiter)};
  if (member->result == WEIR_FITS) member->decision.allowed = false;
  request->status = member->status;
  if (member->status == WEIR_OK) request->decision = member->decision;
  if (request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
}

static weir_status answer(weir_all *all, size_t *denied_by, weir_message *message) {
  weir_speaker *speaker = &all->speaker;
  bool admitted = count_of(all, WEIR_CHARGED) == all->count;
  if (speaker->status != WEIR_OK)
    *denied_by = speaker->index;
  else if (!admitted)
    *denied_by = find_speaker(all);
  for (size_t i = 0; i < all->count; i++) {
    weir_member *member = &all->members[i];
    tell(member);
    weir_counts_add(member->party.limiter->counts, member->status, &member->request->decision);
    if (member->explained) weir_speak(speaker, WEIR_OK, i, member->party.call->explanation.text);
  }
  if (speaker->index < all->count)
    weir_message_set(message, "requests[%zu]: %s", speaker->index, speaker->why.text);
  return speaker->status;
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
    if (status == WEIR_OK && !request->decision.allowed &&
        (*denied_by == count || denies_longer(&request->decision, &requests[*denied_by].decision)))
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
    weir_counts_add(member->party.limiter->counts, member->request->status, NULL);
  }
  weir_message_prefix(message, "requests[%zu]: ", at);
  return status;
}

weir_status weir_decide_all_extra(weir_limiter *const *limiters, weir_request *requests,
                                  const weir_extra *const *extras, size_t count, size_t *denied_by,
                                  weir_message *message) {
  weir_member members[WEIR_ALL_MOST];
  weir_all all = {.members = members, .count = count, .speaker.index = count};
  size_t peeks = 0, ready = 0, bad;
  *denied_by = count;
  weir_status status = weir_check_many(limiters, count, WEIR_ALL_MOST, message);
  if (status != WEIR_OK) return status;
  for (size_t i = 0; i < count; i++)
    peeks += requests[i].flags == WEIR_REQUEST_PEEK;
  if (peeks == count) return peek(limiters, requests, extras, count, denied_by, message);

  for (size_t i = 0; i < count; i++)
    members[i] =
        (weir_member){.party.limiter = limiters[i],
                      .request = &requests[i],
                      .extra = weir_extra_of(extras, i),
                      .last = weir_charge_may_stay(limiters[i], requests[i].longest_wait_us > 0),
                      .deadline_us = INT64_MAX,
                      .charge_end_us = INT64_MAX};
  status = weir_all_check(limiters, requests, extras, count, &bad, message);
  if (status != WEIR_OK) return refuse(&all, bad, status, denied_by, message);
  while (ready < count &&
         (members[ready].party.call = weir_call_acquire(limiters[ready], 1)) != NULL)
    ready++;
  if (ready == count) {
    decide(&all);
    status = answer(&all, denied_by, message);
  } else {
    status = refuse(&all, ready, weir_no_memory(message), denied_by, message);
  }
  while (ready-- > 0)
    weir_call_release(members[ready].party.call);
  return status;
}

weir_status weir_decide_all(weir_limiter *const *limiters, weir_request *requests, size_t count,
                            size_t *denied_by, weir_message *message) {
  return weir_decide_all_extra(limiters, requests, NULL, count, denied_by, message);
}
