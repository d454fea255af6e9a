/* Leases: what a key's leader charged ahead, used by those who come after it (memo/lease.h).
 *
 *     join    a request that what is held covers is admitted without a call; else its group charges
 *             the rest, and is admitted from both
 *     lead    last of the group stands a request of the leader's own, for what may come
 *     finish  what that was granted is usable from now on; what was not used is free again
 *     refill  a group of that request alone, before what is held has been used (renew.c)
 *
 * What ended before it was used goes back: in front of the next operations, of the same key or of
 * another, or when a limiter is told to.
 */
#include <string.h>

#include <weir/backend.h>

#include "limiter/lease.h"
#include "limiter/limiter.h"
#include "limiter/record.h"

/* --- the limit of a key ------------------------------------------------------------------------
 */

size_t weir_key_lease_bytes(const weir_stack *stack) {
  return offsetof(weir_key_lease, stack) + offsetof(weir_stack, rules) +
         stack->count * sizeof stack->rules[0];
}

__attribute__((noinline)) static const weir_lease *lease_under(const weir_limiter *limiter,
                                                               const weir_memo_entry *entry,
                                                               int64_t limit) {
  weir_key_lease *kept = entry->shard->of_owner;
  if (kept->limit == limit) return &kept->lease;
  weir_stack_set_limit(&limiter->stack, limit, &kept->stack);
  weir_lease_init(&kept->lease, &kept->stack, &limiter->settings);
  kept->limit = limit;
  return &kept->lease;
}

/* What is charged ahead of a key, and told of it, goes by the key's own limit. What a lot is has nothing of
 * that: there the limiter's own lease will do. Good while the entry is locked. */
static const weir_lease *lease_of(const weir_limiter *limiter, const weir_memo_entry *entry) {
  if (limiter->limits_us == 0) return &limiter->lease;
  int64_t limit = weir_memo_limits_of(&limiter->stack, entry->memo)->ruled;
  return limit == 0 ? &limiter->lease : lease_under(limiter, entry, limit);
}

static weir_view view_under(const weir_lease *lease, const weir_memo_entry *entry, int64_t now_us) {
  return (weir_view){lease->stack, lease->settings, entry->memo, now_us};
}

/* --- using -------------------------------------------------------------------------------------
 */

/* Costs that differ by rule have no one lot. And a lot was charged under the limit of the rule, or of the key. */
bool weir_claim_has_lot(const weir_claim *request) {
  return request->ask.costs == NULL && request->ask.limit == 0 && request->ask.spares == 0;
}

static bool may_use(const weir_claim *request) {
  return request->ask.kind == WEIR_TAKE && weir_claim_has_lot(request);
}

/* With the stamp of a charge: what is told as a wait is counted from there. */
static void stamp(weir_decision *decision, int64_t at_us) {
  int64_t since_us = decision->reset_after_us + decision->at_us - at_us;
  if (decision->reset_after_us > 0) decision->reset_after_us = since_us > 0 ? since_us : 0;
  decision->at_us = at_us;
}

/* A caller that renews does so before the next life is over, or not at all. */
static bool is_renewed(weir_limiter *limiter) {
  if (!limiter->caller_renews) return true;
  int64_t since_us = weir_monotonic_us() - atomic_load(&limiter->renewed_us);
  return since_us < limiter->lease.life_us;
}

/* What the entry holds is to be refilled. False: it will not be. */
static bool ask_refill(weir_limiter *limiter, weir_memo_entry *entry, int64_t now_us) {
  weir_stock *stock = entry->leased->stock;
  if (!limiter->refills || !is_renewed(limiter) || weir_record_bars(limiter, entry)) return false;
  if (stock->due_us == 0) stock->due_us = now_us;
  if (entry->busy || !weir_leased_mark_due(&limiter->leased, entry->leased)) return true;
  pthread_mutex_lock(&limiter->renewer.mutex);
  pthread_mutex_unlock(&limiter->renewer.mutex);
  pthread_cond_signal(&limiter->renewer.wake);
  return true;
}

/* Admits a request out of what is held, if that is enough, and if the key's record is known: it is read again
 * before it is too old. Where too little is known for its figures it asks the store, unless it `must` do
 * without. */
static bool use(weir_limiter *limiter, weir_memo_entry *entry, int64_t now_us, bool must,
                weir_claim *request) {
  weir_stock *stock = entry->leased->stock;
  const weir_lease *lease = lease_of(limiter, entry);
  if (!weir_record_lets(limiter, entry, now_us)) return false;
  if (request->ask.places != NULL)
    weir_stock_places(stock, lease, now_us, request->ask.places, request->ask.class);
  int64_t room = weir_stock_room(stock, now_us, request->ask.class) - request->verdict.charge;
  int64_t at_us = now_us;
  const weir_view view = view_under(lease, entry, now_us);
  if (room < 0 || (!weir_settle_leased(&view, room, must, request) && !must)) return false;
  weir_stock_use(stock, lease, now_us, request->verdict.charge, &at_us, request->ask.class);
  stamp(&request->verdict.decision, at_us);
  if (limiter->limits_us > 0) request->verdict.limit = weir_record_safe(limiter);
  if (limiter->refills &&
      (weir_stock_is_low(stock, lease, now_us) || weir_record_is_due(limiter, entry, now_us)))
    ask_refill(limiter, entry, now_us);
  entry->shard->decided.lease_used += (uint64_t)request->verdict.charge;
  return true;
}

/* Where there is hardly room a refill finds out how much, and requests do not wait for that. */
static bool gives_way(weir_limiter *limiter, weir_memo_entry *entry, int64_t now_us, bool owes,
                      const weir_claim *request, int64_t *pause_us) {
  const weir_stock *stock = entry->leased->stock;
  if (weir_ask_rank(&request->ask) > weir_class_rank(stock->class)) return false;
  *pause_us = stock->paused_until_us - now_us;
  if (!owes && weir_stock_is_paused(stock, &limiter->lease, now_us)) return true;
  *pause_us = stock->trip_us;
  return weir_stock_is_tight(stock, &limiter->lease, now_us) && ask_refill(limiter, entry, now_us);
}

/* A denial is repeated without a lock as long as nothing is held or owed, now or after a group that is
 * under way: then only time changes it, as where nothing is leased. */
static bool may_show(const weir_memo_entry *entry) {
  return !entry->shown && !entry->busy && !(entry->stand_ins & WEIR_DIVERTS) &&
         !weir_leased_has_some(entry->leased);
}

static void add_room(const weir_lease *lease, weir_claim *request, int64_t room) {
  weir_decision *decision = &request->verdict.decision;
  const weir_rule *rule = &lease->stack->rules[decision->rule];
  decision->remaining = weir_ask_remaining(rule, &request->ask, decision->remaining, room);
}

/* Denies what is known not to fit even with what is held, and what makes way for others. What is owed goes
 * back first, and may be enough: until then a request is denied only where a refill takes it along. */
static bool deny_beyond(weir_limiter *limiter, weir_memo_entry *entry, int64_t now_us, int64_t room,
                        weir_claim *request) {
  weir_stock *stock = entry->leased->stock;
  bool owes = weir_stock_owes(stock, &limiter->lease, now_us);
  int64_t pause_us;
  const weir_lease *lease = lease_of(limiter, entry);
  const weir_view own = view_under(lease, entry, now_us);
  const weir_view view = weir_limiter_view(limiter, entry->memo, now_us);
  request->verdict.held = room;
  bool known = !owes && weir_settle_locally(&view, request);
  bool denied =
      known || (may_use(request) && gives_way(limiter, entry, now_us, owes, request, &pause_us) &&
                weir_settle_paused(&own, pause_us, request));
  request->verdict.held = 0;
  if (known && may_show(entry)) weir_known_show(limiter, entry);
  weir_claim_offer(&limiter->stack, request);
  if (denied && room > 0) add_room(lease, request, room);
  return denied;
}

static bool deny(weir_limiter *limiter, weir_memo_entry *entry, weir_claim *request,
                 int64_t now_us) {
  weir_stock *stock = entry->leased->stock;
  int64_t room = may_use(request) ? weir_stock_room(stock, now_us, request->ask.class) : 0;
  if (weir_record_bars(limiter, entry)) return false; /* that is the record's to say */
  if (room >= request->verdict.charge) return false;
  return deny_beyond(limiter, entry, now_us, room, request);
}

/* What is owed goes back first, and may be enough: until then there is no denial.
 *
 * A clock that was read before the entry was locked may show a time of before a charge, or of
 * before a step that others have seen: then it is read again. */
static bool answer(weir_limiter *limiter, weir_memo_entry *entry, weir_claim *request,
                   weir_moment at) {
  const weir_stock *stock = entry->leased->stock;
  int64_t now_us = at.now_us;
  if (at.clock_steps != entry->clock_steps || weir_stock_is_ahead(stock, now_us))
    now_us = weir_limiter_now(limiter);
  if (weir_limiter_is_stale(limiter, entry)) return false;
  if (may_use(request) && use(limiter, entry, now_us, false, request)) return true;
  int64_t room = weir_stock_room(stock, now_us, request->ask.class);
  if (request->ask.kind == WEIR_PEEK && weir_claim_has_lot(request) &&
      room >= request->verdict.charge && weir_record_lets(limiter, entry, now_us)) {
    const weir_view view = view_under(lease_of(limiter, entry), entry, now_us);
    return weir_settle_leased(&view, room, false, request);
  }
  if (request->ask.kind != WEIR_TAKE || request->ask.up_to) return false;
  return deny(limiter, entry, request, now_us);
}

/* Most are counted by the lock that they are decided under. */
static bool answer_and_count(weir_limiter *limiter, weir_memo_entry *entry, weir_waiting *request,
                             weir_moment at) {
  bool answered = answer(limiter, entry, &request->claim, at);
  if (answered && request->way != WEIR_WAY_PROBES && !(entry->stand_ins & WEIR_DIVERTS))
    weir_call_count(entry->shard, request);
  return answered;
}

/* What a request asks, where denials are shown: it may count for those that found one. */
__attribute__((noinline)) static int64_t asked_by_many(const weir_memo *memo, const weir_ask *ask,
                                                       weir_moment at) {
  bool for_many = weir_leases_look(at) && memo->denied_cost > 0 && ask->cost >= memo->denied_cost &&
                  weir_ask_rank(ask) <= memo->denied_rank && at.now_us >= memo->denied_at_us &&
                  at.now_us < memo->denied_until_us;
  return for_many ? ask->cost * WEIR_LEASES_LOOK : ask->cost;
}

/* A request came for the key, answered or not: what is asked tells how much to charge ahead. */
static void count(weir_limiter *limiter, weir_memo_entry *entry, const weir_claim *request,
                  weir_moment at) {
  weir_stock *stock = entry->leased->stock;
  if (weir_stock_has_next_due(stock, &limiter->lease, at.now_us) && !entry->busy)
    ask_refill(limiter, entry, at.now_us);
  if (!may_use(request) || !weir_class_is_within(stock->class, request->ask.class)) return;
  int64_t cost = entry->shown ? asked_by_many(entry->memo, &request->ask, at) : request->ask.cost;
  weir_stock_count(stock, &limiter->lease, at.now_us, cost);
}

/* --- settling ----------------------------------------------------------------------------------
 */

/* A cost that goes back to a lot is charged ahead from now on, as if it had been so from the start: it
 * stands in the same cells. */
bool weir_leases_cover(weir_limiter *limiter, const weir_claim *request, int64_t cost) {
  weir_memo_entry *entry = weir_limiter_lock(limiter, request->ask.key, request->ask.key_length);
  if (entry == NULL) return false;
  weir_stock *stock = entry->leased->stock;
  int64_t now_us = weir_limiter_now(limiter);
  int64_t at_us;
  bool covered = !weir_limiter_is_stale(limiter, entry);
  if (covered && cost > 0)
    covered =
        weir_record_lets(limiter, entry, now_us) &&
        weir_stock_use(stock, lease_of(limiter, entry), now_us, cost, &at_us, request->ask.class);
  else if (covered)
    covered = weir_stock_put_back(stock, &limiter->lease, now_us, -cost, request->ask.at_us,
                                  request->ask.class);
  if (covered)
    weir_counts_add_lease(limiter->counts, cost > 0 ? WEIR_LEASE_USED : WEIR_LEASE_CHARGED,
                          cost > 0 ? cost : -cost);
  weir_lock_leave(&entry->shard->lock);
  return covered;
}

/* --- a group -----------------------------------------------------------------------------------
 */

/* What is held comes off the charge of each request, first come first served; something is left, as
 * a request that it covers is admitted already. A peek takes nothing: it is only asked for the rest. What a
 * bucket may accept later has no use for what ends before. */
static void hold(weir_limiter *limiter, weir_memo_entry *entry, int64_t now_us,
                 weir_claim *request) {
  weir_stock *stock = entry->leased->stock;
  int64_t room = weir_stock_room(stock, now_us, request->ask.class);
  int64_t most = request->verdict.charge - 1;
  if (request->ask.kind == WEIR_PEEK && weir_claim_has_lot(request))
    request->verdict.held = room < most ? room : most;
  bool later = request->ask.waits && request->ask.wait_us > 0 && limiter->lease.drains;
  if (may_use(request) && !later && weir_waiting_of(request)->way != WEIR_WAY_AGAIN)
    request->verdict.held =
        weir_stock_hold(stock, &limiter->lease, now_us, most, request->ask.class);
  request->verdict.charge -= request->verdict.held;
}

/* Of what is charged. */
static unsigned lowest_class(const weir_group *group) {
  unsigned lowest = 0;
  for (const weir_claim *request = group->requests; request != NULL; request = request->next)
    if (request->ask.kind == WEIR_TAKE && weir_ask_rank(&request->ask) < weir_class_rank(lowest))
      lowest = request->ask.class;
  return lowest;
}

/* What is owed goes first; and a key that is blocked, or unlimited, is charged nothing. */
static bool may_charge_ahead(const weir_limiter *limiter, const weir_memo_entry *entry) {
  return !(entry->stand_ins & WEIR_DIVERTS) && !weir_record_bars(limiter, entry);
}

/* What the group charges ahead: 0, or its last request. */
static int64_t charge_ahead(weir_limiter *limiter, weir_group *group, int64_t now_us,
                            int64_t cost) {
  weir_memo_entry *entry = group->entry;
  weir_stock *stock = entry->leased->stock;
  const weir_lease *lease = lease_of(limiter, entry);
  int64_t most = weir_stack_least_capacity(lease->stack);
  bool looks = false;
  if (!may_charge_ahead(limiter, entry)) return 0;
  if (cost > 0 && limiter->stack.class_count > 0)
    weir_stock_serve(stock, lease, entry->memo, now_us, lowest_class(group));
  group->ahead.ask.class = stock->class;
  if (cost > 0) return weir_stock_wish(stock, lease, entry->memo, now_us, cost, most);
  if (group->refill == NULL) return 0;
  int64_t ahead = weir_stock_wish_refill(stock, lease, entry->memo, now_us, most, &looks);
  if (looks) entry->memo->must_peek = WEIR_RANK_MOST;
  return ahead;
}

/* What a refill that is alone charges to the window that follows; what runs out before goes first. */
static int64_t charge_next(weir_limiter *limiter, weir_group *group, int64_t now_us) {
  weir_memo_entry *entry = group->entry;
  weir_stock *stock = entry->leased->stock;
  const weir_lease *lease = lease_of(limiter, entry);
  if (group->refill == NULL || !may_charge_ahead(limiter, entry)) return 0;
  int64_t next_us = weir_stock_next(stock, lease, entry->memo, now_us);
  bool urgent =
      weir_stock_is_low(stock, lease, now_us) && !weir_stock_is_tight(stock, lease, now_us);
  if (next_us == 0 || urgent) return 0;
  int64_t cost =
      weir_stock_wish_next(stock, lease, now_us, next_us, weir_stack_least_capacity(lease->stack));
  if (cost == 0) return 0;
  group->not_before_us = next_us;
  group->memo = NULL; /* which has the limit of the key, too */
  if (lease != &limiter->lease)
    group->ahead.ask.limit = lease->stack->rules[limiter->steered].limit;
  group->ahead.ask.terms = WEIR_AHEAD_NEXT;
  group->ahead.ask.class = stock->class;
  return cost;
}

/* The refill that led the group is over, as that is. */
static void end_refill(weir_group *group, weir_status status) {
  weir_waiting *refill = group->refill;
  group->refill = NULL;
  if (refill == NULL) return;
  refill->claim.verdict.status = status;
  refill->claim.verdict.answered = true;
  atomic_store_explicit(&refill->standing, WEIR_STANDING_DONE, memory_order_release);
}

/* Takes what the key holds for the requests of a group: those that need no more are answered and leave it, and so
 * does its refill. *cost: of the takes that are left. *plain: all that are left share its charge. Returns the
 * end of the group. */
static weir_claim **take_lots(weir_call *call, weir_group *group, weir_moment at, int64_t *cost,
                              bool *plain) {
  weir_memo_entry *entry = group->entry;
  const weir_stock *stock = entry->leased->stock;
  weir_claim **link = &group->requests;
  for (weir_claim *request = *link; request != NULL; request = *link) {
    if (request->ask.kind == WEIR_REFILL) {
      group->refill = weir_waiting_of(request);
      *link = request->next;
      continue;
    }
    bool decided = weir_ask_is_decided(&request->ask);
    if (decided &&
        weir_stock_room(stock, at.now_us, request->ask.class) >= request->verdict.charge &&
        answer(call->limiter, entry, request, at)) {
      *link = request->next;
      weir_call_finish(call, weir_waiting_of(request));
      continue;
    }
    if (decided) hold(call->limiter, entry, at.now_us, request);
    if (request->ask.kind == WEIR_TAKE) *cost += request->verdict.charge;
    *plain = *plain && (may_use(request) || request->ask.kind == WEIR_PEEK);
    link = &request->next;
  }
  return link;
}

/* Takes lots for a group, and appends what is to be charged ahead. Where nothing is left of it the key has its next
 * refill planned. */
static void wrap(weir_call *call, weir_group *group) {
  int64_t now_us = group->starts_us;
  weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  weir_stock *stock = entry->leased->stock;
  const weir_moment at = {.now_us = now_us, .clock_steps = entry->clock_steps};
  const weir_claim *first = group->requests;
  bool plain = true;
  int64_t cost = 0;
  group->refill = NULL;
  group->ahead = (weir_claim){.ask = {.kind = WEIR_TAKE, .up_to = true, .terms = WEIR_AHEAD}};
  if (limiter->shared && first != NULL) {
    stock->tenant_number = first->ask.tenant_number;
    stock->weight = first->ask.weight;
  }
  if (first != NULL && first->ask.kind == WEIR_RESET) weir_stock_empty(stock, &limiter->lease);
  weir_claim **end = take_lots(call, group, at, &cost, &plain);
  if (group->requests == NULL && group->reads == WEIR_RECORD_KNOWN)
    group->ahead.ask.cost = charge_next(limiter, group, now_us);
  if (plain && group->ahead.ask.cost == 0)
    group->ahead.ask.cost = charge_ahead(limiter, group, now_us, cost);
  if (group->ahead.ask.cost > 0) {
    *end = &group->ahead;
    return;
  }
  end_refill(group, WEIR_OK);
  if (group->requests != NULL) return;
  group->keeps_lead = weir_returns_keep_lead(call, entry);
  stock->due_us = 0;
  weir_stock_plan_next(stock, lease_of(limiter, entry), entry->memo, now_us);
}

/* Adds what was held to the answer of a request that is over. False: it was decided for a time in
 * which that counts no more, and must ask again. */
static bool add_held(weir_limiter *limiter, weir_stock *stock, int64_t now_us,
                     weir_claim *request) {
  weir_decision *decision = &request->verdict.decision;
  int64_t held = request->verdict.held;
  bool decided = request->verdict.status == WEIR_OK;
  bool some_fits = decided && !decision->allowed && request->ask.up_to;
  bool is_charged = decision->allowed && decision->source != WEIR_SOURCE_UNLIMITED;
  int64_t at_us = some_fits ? now_us : decision->at_us;
  if (held == 0) return true;
  if (request->ask.kind == WEIR_TAKE && decided && (is_charged || some_fits)) {
    if (!weir_stock_holds(stock, at_us)) return some_fits;
    int64_t held_us = stock->lots[WEIR_LOT_HELD].stamp_us;
    weir_stock_spend(stock, held);
    weir_counts_add_lease(limiter->counts, WEIR_LEASE_USED, held);
    if (some_fits) {
      request->verdict.charge = 0;
      decision->allowed = true;
      decision->source = WEIR_SOURCE_LOCAL;
      decision->retry_after_us = decision->delay_us = 0;
      decision->cost = held;
      stamp(decision, at_us);
    }
    if (limiter->lease.drains && held_us < decision->at_us) stamp(decision, held_us);
  } else {
    request->verdict.charge += held;
    request->verdict.held = 0;
  }
  return true;
}

/* Whether the machine only gave back of what was charged ahead, and all of that is back: then a
 * look before the next charge is of no use. */
static bool left_nothing(const weir_group *group) {
  for (const weir_claim *r = group->requests; r != NULL; r = r->next)
    if (r->verdict.status != WEIR_OK || !r->verdict.decision.allowed) return false;
  for (size_t i = 0; i < group->machine->frame.stack->count; i++)
    if (group->machine->rule_states[i].unused > 0) return false;
  return group->ahead.ask.cost > 0;
}

/* Takes the leader's own request off the group, and those that must ask again: they wait first in
 * line, and what they were charged is a lot like any other. Returns that. */
static int64_t part_requests(weir_limiter *limiter, weir_group *group, int64_t now_us,
                             unsigned *class) {
  weir_stock *stock = group->entry->leased->stock;
  weir_claim *first_again = NULL;
  weir_claim **again = &first_again;
  weir_claim **link = &group->requests;
  int64_t charged = 0;
  while (*link != NULL) {
    weir_claim *request = *link;
    int64_t charge = request->verdict.charge;
    if (request == &group->ahead) {
      *link = NULL;
    } else if (add_held(limiter, stock, now_us, request)) {
      link = &request->next;
    } else {
      charged += charge;
      if (weir_ask_rank(&request->ask) > weir_class_rank(*class)) *class = request->ask.class;
      *link = request->next;
      request->next = NULL;
      weir_waiting_of(request)->way = WEIR_WAY_AGAIN;
      request->verdict.held = 0;
      request->verdict.answered = request->verdict.away = request->verdict.gone = false;
      request->verdict.denying = 0;
      request->verdict.decision = (weir_decision){0};
      weir_claim_offer(&limiter->stack, request);
      atomic_store_explicit(&weir_waiting_of(request)->standing, WEIR_STANDING_WAITING,
                            memory_order_release);
      *again = request;
      again = &request->next;
    }
  }
  if (first_again != NULL) weir_memo_entry_put_first(group->entry, first_again);
  return charged;
}

static void count_lost(weir_limiter *limiter, weir_stock *stock) {
  weir_counts_add_lease(limiter->counts, WEIR_LEASE_LOST, stock->lost);
  stock->lost = 0;
}

/* A lease is granted by an answer that is certain and in time, on a clock that goes on. */
static void grant(weir_limiter *limiter, weir_group *group, int64_t now_us, int64_t cost,
                  unsigned class) {
  weir_leased *leased = group->entry->leased;
  int64_t stamp_us = group->machine->frame.now_us;
  int64_t places[WEIR_RULES_MOST];
  if (cost == 0) return;
  weir_counts_add_lease(limiter->counts, WEIR_LEASE_CHARGED, cost);
  if (weir_limiter_is_stale(limiter, group->entry)) {
    weir_counts_add_lease(limiter->counts, WEIR_LEASE_LOST, cost);
    return;
  }
  weir_machine_places(group->machine, places);
  weir_stock_grant(leased->stock, &limiter->lease, now_us, stamp_us, cost, places, class);
  weir_leased_enter(&limiter->leased, group->entry);
}

static void drop(weir_limiter *limiter, weir_memo_entry *entry) {
  weir_stock *stock = entry->leased->stock;
  weir_stock_drop(stock, &limiter->lease);
  count_lost(limiter, stock);
}

static void drop_if_barred(weir_limiter *limiter, weir_memo_entry *entry) {
  if (weir_record_bars(limiter, entry)) drop(limiter, entry);
}

static void put_back(weir_limiter *limiter, weir_memo_entry *entry, const weir_claim *request) {
  weir_leased *leased = entry->leased;
  const weir_decision *decision = &request->verdict.decision;
  weir_counts_add_lease(limiter->counts, WEIR_LEASE_CHARGED, decision->cost);
  if (weir_limiter_is_stale(limiter, entry)) {
    weir_counts_add_lease(limiter->counts, WEIR_LEASE_LOST, decision->cost);
    return;
  }
  weir_stock_grant(leased->stock, &limiter->lease, decision->at_us, decision->at_us, decision->cost,
                   request->ask.places, request->ask.class);
  weir_table_hide_denial(limiter->table, entry);
  leased->key_length = weir_key_encode(request->ask.key, request->ask.key_length, leased->key);
  weir_leased_enter(&limiter->leased, entry);
  drop_if_barred(limiter, entry);
}

bool weir_leases_return(weir_limiter *limiter, const weir_claim *request) {
  if (!limiter->leases || !weir_claim_has_lot(request)) return false;
  weir_memo_entry *entry = weir_limiter_lock(limiter, request->ask.key, request->ask.key_length);
  if (entry == NULL) return false;
  put_back(limiter, entry, request);
  weir_lock_leave(&entry->shard->lock);
  return true;
}

/* What of the group was admitted for one cost: in all, and what of it the group has charged. What is
 * charged ahead is one of its requests, as long as it is there. */
static int64_t admitted_cost(const weir_group *group, bool charged) {
  int64_t cost = 0;
  for (const weir_claim *request = group->requests; request != NULL; request = request->next)
    if (request->ask.kind == WEIR_TAKE && request->ask.costs == NULL &&
        request->verdict.status == WEIR_OK && request->verdict.decision.allowed &&
        request->verdict.decision.source != WEIR_SOURCE_UNLIMITED)
      cost += charged ? request->verdict.charge : request->verdict.decision.cost;
  return cost;
}

/* Some key is worth a refill. */
static void mark_refill(weir_call *call) {
  weir_returns *returns = call->own;
  returns->refills = true;
}

/* A group that charged the next window: what is known of the present one stays. */
static void settle_next(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  weir_stock *stock = entry->leased->stock;
  int64_t now_us = weir_limiter_now(limiter);
  const weir_claim *ahead = &group->ahead;
  group->requests = NULL;
  if (weir_limiter_is_stale(limiter, entry)) weir_stock_empty(stock, &limiter->lease);
  if (ahead->verdict.status == WEIR_OK) {
    weir_memo_lay_by(&limiter->stack, &limiter->settings, entry->memo, group->machine->frame.memo,
                     now_us);
    if (ahead->verdict.decision.allowed)
      grant(limiter, group, now_us, ahead->verdict.charge, ahead->ask.class);
  }
  count_lost(limiter, stock);
  stock->due_us = 0;
  weir_stock_plan_next(stock, lease_of(limiter, entry), entry->memo, now_us);
  mark_refill(call);
  end_refill(group, ahead->verdict.status);
}

/* A peek of one rule is told what that has room for now. */
static void show_room(weir_claim *request) {
  weir_decision *decision = &request->verdict.decision;
  int64_t cost = request->ask.cost < decision->remaining ? request->ask.cost : decision->remaining;
  if (cost < (request->ask.up_to ? 1 : request->ask.cost)) return;
  decision->allowed = true;
  decision->cost = cost;
  decision->retry_after_us = decision->delay_us = 0;
}

/* Figures that were made before the lease was granted do not count what was held: that is room. It
 * may cover a request that was denied or has no answer: some did not take of it, as too little was
 * known for their figures, or as they may wait; and what a take held, which was denied, is there for those
 * behind it. */
static void cover(weir_limiter *limiter, const weir_group *group, const weir_lease *lease,
                  int64_t now_us) {
  weir_memo_entry *entry = group->entry;
  for (weir_claim *request = group->requests; request != NULL; request = request->next) {
    bool decided = request->verdict.status == WEIR_OK;
    bool told =
        request->ask.limit == 0 && decided && request->verdict.decision.remaining != WEIR_NOT_KNOWN;
    if (told)
      add_room(lease, request, weir_stock_room(entry->leased->stock, now_us, request->ask.class));
    if (request->ask.kind == WEIR_PEEK && told && weir_claim_has_lot(request) &&
        limiter->stack.count == 1)
      show_room(request);
    bool admitted = decided && request->verdict.decision.allowed;
    if (!may_use(request) || request->ask.up_to || admitted) continue;
    if (use(limiter, entry, now_us, true, request))
      request->verdict.away = request->verdict.gone = false;
  }
}

static void settle(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  weir_stock *stock = entry->leased->stock;
  int64_t now_us = weir_limiter_now(limiter);
  const weir_lease *lease = lease_of(limiter, entry);
  const weir_claim *ahead = &group->ahead;
  bool granted =
      ahead->ask.cost > 0 && ahead->verdict.status == WEIR_OK && ahead->verdict.decision.allowed;
  bool failed = group->requests->verdict.status != WEIR_OK;
  if (weir_limiter_is_stale(limiter, entry) || group->requests->ask.kind == WEIR_RESET)
    weir_stock_empty(stock, &limiter->lease);
  if (entry->leased->key_length == 0) {
    entry->leased->key_length = group->encoded_length;
    memcpy(entry->leased->key, group->encoded, group->encoded_length);
  }
  int64_t charged = admitted_cost(group, true);
  unsigned class = ahead->ask.class;
  int64_t again = part_requests(limiter, group, now_us, &class);
  if (left_nothing(group)) entry->memo->must_peek = 0;
  weir_stock_release(stock, &limiter->lease, now_us);
  drop_if_barred(limiter, entry);

  cover(limiter, group, lease, now_us);
  int64_t got = (granted ? ahead->verdict.charge : 0) + again;
  grant(limiter, group, now_us, got, class);
  stock->due_us = 0;
  if (failed) {
    stock->tight_us = 0; /* who asks finds out why */
  } else {
    weir_stock_earn(stock, lease, entry->memo, group->machine->frame.now_us,
                    admitted_cost(group, false), charged);
    uint64_t mixed = ((uint64_t)now_us ^ entry->fingerprint[0]) * UINT64_C(0x9e3779b97f4a7c15);
    const weir_harvest harvest = {.got = got,
                                  .charged = charged,
                                  .conflicts = group->machine->pauses,
                                  .trip_us = now_us - group->machine->frame.now_us,
                                  .random = (uint32_t)(mixed >> 32)};
    weir_stock_pace(stock, lease, entry->memo, now_us, &harvest);
  }
  weir_stock_plan_next(stock, lease_of(limiter, entry), entry->memo, now_us);
  count_lost(limiter, stock);
  if (limiter->refills && (stock->low > 0 || stock->tight_us > 0)) mark_refill(call);
  end_refill(group, ahead->verdict.status);
}

/* --- the stand-in ------------------------------------------------------------------------------
 */

/* What it held is used or free again, what was granted is usable. */
static void after(weir_call *call, weir_group *group) {
  if (group->not_before_us > 0)
    settle_next(call, group);
  else
    settle(call, group);
  drop_if_barred(call->limiter, group->entry);
  weir_table_hide_denial(call->limiter->table, group->entry);
}

static void led(weir_call *call) {
  weir_returns *returns = call->own;
  if (returns->refills) weir_refill_start(call->limiter);
}

static void forget(weir_limiter *limiter, weir_memo_entry *entry) {
  weir_stock_empty(entry->leased->stock, &limiter->lease);
}

/* What it holds is of use, and what it owes goes back. */
static weir_parting let_go(weir_limiter *limiter, weir_memo_entry *entry, bool last) {
  if (!last && weir_leased_has_some(entry->leased)) return WEIR_STAYS;
  return weir_leased_give_up(&limiter->leased, entry->leased) ? WEIR_KEPT : WEIR_GOES;
}

const weir_stand_in weir_lease_stand_in = {.needs_text = true,
                                           .keeps_members = true,
                                           .one_cost = true,
                                           .room = weir_returns_room,
                                           .came = count,
                                           .answer = answer_and_count,
                                           .deny = deny,
                                           .begin = weir_returns_plan,
                                           .absorb = weir_returns_absorb,
                                           .led = led,
                                           .wrap = wrap,
                                           .after = after,
                                           .forget = forget,
                                           .drop = drop,
                                           .let_go = let_go};
