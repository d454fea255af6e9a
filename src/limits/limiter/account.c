/* Accounts: the answer where the store gave none, and what follows from it when the store is back.
 *
 *     no decision ──> DENY, ALLOW: the policy itself says it (continue.c)
 *                ├──> LOCAL: the key's account (continue.c) ── admitted ──> owed
 *                └──> LOCAL, of a shared window: floor.c, of which nothing is owed
 *
 *     the store is back: the first group of a key pays what its account owes, in front of its
 *     requests; and for a while a request also needs room in the account: the hold
 *
 * The account's counts are kept by a limiter inside this process, with the same rules counted in
 * parts of a cost. So windows slide, buckets drain and queues delay as they do in the store. It is
 * made by the first request that needs it: most limiters never do, and a thousand of them are to be
 * cheap to have. Until there is memory for it, LOCAL denies. It reads the clock through its owner's
 * guard. Its store forgets what is least at stake: a flood of keys cannot make it forget one that
 * has used up its share.
 *
 * Locks: an account is changed with its entry's shard locked, and what the limiter inside decides
 * is decided under that lock. It waits for nothing: its store is this process's memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "limiter/account.h"
#include "limiter/floor.h"
#include "limiter/limiter.h"
#include "limiter/record.h"

/* --- the limiter inside ------------------------------------------------------------------------
 */

static int64_t owners_now_us(void *owner) {
  return weir_limiter_now(owner);
}

/* Its store is its own, with room for every key that is remembered and all its counters. NULL: no
 * memory. */
static weir_limiter *create_local(weir_limiter *owner) {
  enum { STORE_KEYS_MOST = 100000000 };
  char url[64];
  weir_store *store = NULL;
  weir_limiter *local = NULL;
  size_t keys = owner->memo_keys * weir_machine_operations_most(&owner->stack);
  snprintf(url, sizeof url, "memory:?keys=%zu", keys < STORE_KEYS_MOST ? keys : STORE_KEYS_MOST);
  if (weir_store_open(url, &store, NULL) == WEIR_OK)
    local = weir_limiter_allocate(owner->stack.count);
  if (local == NULL) goto no_limiter;
  local->store = store;
  local->fallback = WEIR_FALLBACK_NONE;
  local->deadline_us = owner->deadline_us;
  local->memo_keys = owner->memo_keys;
  local->clock = (weir_clock){owners_now_us, owner};
  local->settings = owner->settings;
  local->settings.traits = store->backend->traits;
  weir_stack_continue(&owner->stack, &local->stack);
  if (weir_limiter_finish(local, NULL) == WEIR_OK) return local;

no_limiter:
  weir_store_close(store);
  return NULL;
}

static void destroy_local(weir_limiter *local) {
  if (local == NULL) return;
  weir_store *store = local->store;
  weir_limiter_destroy(local);
  weir_store_close(store);
}

void weir_limiter_destroy_local(weir_limiter *limiter) {
  destroy_local(limiter->local);
}

/* Without a lock, which a child could find taken: of threads that come first at once one has its
 * limiter kept, before anybody is admitted by it. */
static weir_limiter *local_of(weir_limiter *limiter) {
  weir_limiter *installed = atomic_load_explicit(&limiter->local, memory_order_acquire);
  if (installed != NULL) return installed;
  weir_limiter *made = create_local(limiter);
  if (made == NULL || atomic_compare_exchange_strong(&limiter->local, &installed, made))
    return made;
  destroy_local(made);
  return installed;
}

/* --- beginning ---------------------------------------------------------------------------------
 */

static weir_status settle_inside(void *local, weir_claim *claim) {
  weir_waiting request = {.claim.ask = claim->ask};
  weir_status status = weir_limiter_answer(local, &request, NULL);
  claim->verdict = request.claim.verdict;
  return status;
}

static weir_inside inside_of(const weir_limiter *limiter, weir_limiter *local) {
  return (weir_inside){.rules = &limiter->stack,
                       .continued = &local->stack,
                       .settings = &limiter->settings,
                       .settle = settle_inside,
                       .owner = local};
}

static bool begin(weir_limiter *limiter, weir_limiter *local, weir_memo_entry *entry,
                  const weir_claim *request, const weir_pool *pools, int64_t now_us) {
  const weir_inside inside = inside_of(limiter, local);
  weir_account_inherit(limiter, &inside, entry, request, now_us);
  bool afresh = entry->account != NULL;
  if (afresh && !weir_account_is_quiet(entry->account, now_us)) return true;
  weir_account *account = afresh ? entry->account : weir_account_create(&limiter->stack);
  if (account == NULL) return false;
  bool begun = weir_continue_begin(&inside, account, afresh, request, entry->memo, pools,
                                   limiter->peers, now_us);
  if (begun)
    weir_account_place(entry, account);
  else if (!afresh)
    free(account);
  return begun;
}

/* One that was never sent knows nothing new: the store may have answered another meanwhile. */
static bool was_away(const weir_waiting *request) {
  return request->claim.verdict.status != WEIR_OK && request->way != WEIR_WAY_PAST;
}

/* Locks the request's entry, with an account of this outage. What shares rest on is read with no
 * entry locked. NULL, and nothing locked: no memory. */
static weir_memo_entry *lock_account(weir_limiter *limiter, weir_limiter *local,
                                     const weir_waiting *request, bool *begun) {
  weir_pool pools[WEIR_RULES_MOST];
  for (bool read = false;; read = true) {
    weir_memo_entry *entry =
        weir_limiter_lock(limiter, request->claim.ask.key, request->claim.ask.key_length);
    if (entry == NULL) return NULL;
    int64_t now_us = weir_limiter_now(limiter);
    bool ready = entry->account != NULL && !weir_account_is_quiet(entry->account, now_us);
    *begun = !ready;
    if (!ready && read) ready = begin(limiter, local, entry, &request->claim, pools, now_us);
    if (ready) {
      if (was_away(request)) entry->account->hold_until_us = 0;
      return entry;
    }
    weir_lock_leave(&entry->shard->lock);
    if (read) return NULL;
    weir_limiter_read_pools(limiter, pools);
  }
}

/* --- answering ---------------------------------------------------------------------------------
 */

/* Leaves the account's periods that are over: what was owed in them is not paid any more. */
static void roll(weir_limiter *limiter, weir_account *account) {
  int64_t dropped = weir_account_roll(account, &limiter->stack, weir_limiter_now(limiter));
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, dropped);
}

/* The answer is for this request. */
static void tell_account(weir_account *account, const weir_waiting *request) {
  if (!was_away(request)) return;
  account->away = request->claim.verdict.away;
  account->will_hold = account->will_hold || request->claim.verdict.gone;
}

/* What was sent and not answered most likely counts in the store, so it is not owed. */
static bool answer_by_account(weir_limiter *limiter, const weir_waiting *request,
                              weir_decision *decision, bool *met) {
  bool owes = request->claim.verdict.status != WEIR_UNKNOWN_OUTCOME;
  weir_limiter *local = local_of(limiter);
  if (local == NULL) return false;
  bool begun;
  weir_memo_entry *entry = lock_account(limiter, local, request, &begun);
  if (entry == NULL) return false;
  const weir_inside inside = inside_of(limiter, local);
  weir_account *account = entry->account;
  int64_t owed = 0;
  *met = account->met;
  tell_account(account, request);
  roll(limiter, account);
  bool answered = !begun && weir_continue_counts(&limiter->stack, account, &request->claim);
  if (answered)
    owed = weir_continue_owe_held(&inside, account, &request->claim, owes);
  else
    answered =
        weir_continue_admit(&inside, account, &request->claim, entry->fingerprint[0],
                            owes ? WEIR_CONTINUE_OWES : WEIR_CONTINUE_UNSURE, decision, &owed);
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_OWED, owed);
  weir_lock_leave(&entry->shard->lock);
  return answered;
}

/* Under contention payments would contend as well. And a log tells too little of what is left to be
 * continued, and is not paid: what the store may still decide is left to it. */
static bool has_account(const weir_limiter *limiter, const weir_waiting *request) {
  if (limiter->fallback != WEIR_FALLBACK_LOCAL || limiter->shared ||
      request->claim.verdict.status == WEIR_CONTENDED)
    return false;
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (!request->claim.verdict.away && weir_rule_takes_one(&limiter->stack.rules[i])) return false;
  return true;
}

void weir_limiter_fall_back(weir_limiter *limiter, weir_waiting *request, weir_message *message) {
  weir_status failure = request->claim.verdict.status;
  if (limiter->limits_us > 0 && weir_record_answers(limiter, request)) return;
  request->claim.ask.spares = 0; /* no decision of a policy says that a rule was spared */
  if (request->way == WEIR_WAY_PROBES && failure == WEIR_OK) {
    /* It only looked, and has found the store: its account had no room for it and admits nothing
     * beside a store that answers, whatever room there is by now. It may come again soon. */
    request->claim.verdict.decision =
        weir_policy_decide(WEIR_FALLBACK_DENY, WEIR_SOURCE_LATE, &limiter->stack,
                           &request->claim.ask, weir_limiter_now(limiter));
    request->claim.verdict.decision.source = WEIR_SOURCE_FALLBACK;
    return;
  }
  weir_source source = request->claim.verdict.away ? WEIR_SOURCE_FALLBACK : WEIR_SOURCE_LATE;
  bool met = true;
  if (!has_account(limiter, request) ||
      !answer_by_account(limiter, request, &request->claim.verdict.decision, &met))
    request->claim.verdict.decision = weir_policy_decide(
        limiter->fallback, source, &limiter->stack, &request->claim.ask, weir_limiter_now(limiter));
  if (limiter->shared && limiter->fallback == WEIR_FALLBACK_LOCAL)
    weir_floor_answer(limiter, &request->claim.ask, &request->claim.verdict.decision);
  if (!met && message != NULL) {
    weir_message why = *message;
    weir_message_set(
        message,
        "%s; this process has not met its store yet and takes its share to be 1/%" PRIu32
        " (peers)",
        why.text, limiter->peers.count);
  }
  request->claim.verdict.decision.source = source;
  request->claim.verdict.decision.store_status = failure;
  request->claim.verdict.status = WEIR_OK;
}

/* --- the stand-in ------------------------------------------------------------------------------
 */

/* Whether a request for which the account has no room is denied by that: for a while after an
 * outage. During it, such a request is made one that only looks. Counts any other. */
static bool withholds(weir_limiter *limiter, weir_memo_entry *entry, weir_waiting *request,
                      int64_t now_us) {
  weir_limiter *local = atomic_load_explicit(&limiter->local, memory_order_acquire);
  if (local == NULL) return false;
  const weir_inside inside = inside_of(limiter, local);
  bool takes = request->claim.ask.kind == WEIR_TAKE;
  roll(limiter, entry->account);
  bool withheld = weir_continue_withholds(&inside, entry->account, &request->claim,
                                          entry->fingerprint[0], now_us);
  if (takes && request->claim.ask.kind == WEIR_PEEK) request->way = WEIR_WAY_PROBES;
  return withheld;
}

/* Whether a request need not wait for another that finds out whether the store is back: it was away
 * for the key's last request, and has not answered since. Then the account answers it. One of the same
 * call, `earlier` or NULL, goes with it. */
static bool goes_past(const weir_memo_entry *entry, const weir_waiting *request,
                      const weir_waiting *earlier) {
  const weir_account *account = entry->account;
  bool takes = request->claim.ask.kind == WEIR_TAKE || request->way == WEIR_WAY_PROBES;
  return takes && entry->busy && earlier == NULL && account->away && account->hold_until_us == 0;
}

static weir_found divert(weir_limiter *limiter, weir_memo_entry *entry, weir_waiting *request,
                         const weir_waiting *earlier, weir_moment at) {
  bool spared = limiter->stack.count == 1 && weir_record_bars(limiter, entry);
  if (!spared && withholds(limiter, entry, request, at.now_us)) return WEIR_ANSWERED;
  if (!goes_past(entry, request, earlier)) return WEIR_PASS;
  request->claim.verdict.away = true;
  request->way = WEIR_WAY_PAST;
  return WEIR_PAST;
}

/* Puts what the key's account owes in front of a group that is about to start. */
static void wrap(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  weir_account *account = group->entry->account;
  roll(limiter, account);
  /* What is owed was counted by the rule's limit, so it may be more than the key may have. */
  int64_t most = weir_group_most(limiter, group, group->requests);
  if (most < limiter->group_most) most = limiter->group_most;
  if (!weir_continue_offer(&limiter->stack, account, group->requests, most, &group->paid)) return;
  memcpy(group->offered, group->paid.costs, sizeof group->offered);
  group->payment = (weir_claim){.next = group->requests,
                                .ask = {.kind = WEIR_TAKE,
                                        .terms = WEIR_DEBT,
                                        .limit = group->requests->ask.limit,
                                        .payment = &group->paid,
                                        .costs = group->paid.costs}};
  group->requests = &group->payment;
}

/* What was paid, and what the notes of the group may teach. */
static void after(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  weir_limiter *local = atomic_load_explicit(&limiter->local, memory_order_acquire);
  const weir_inside inside = inside_of(limiter, local);
  const weir_claim *payment = &group->payment;
  int64_t paid, unpaid, dropped;
  if (group->requests == payment) {
    group->requests = payment->next;
    if (weir_continue_pay(&limiter->stack, entry->account, payment, group->offered, &paid,
                          &unpaid)) {
      weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_PAID, paid);
      weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, unpaid);
    }
  }
  bool over =
      weir_continue_settle(&inside, entry->account, entry->memo, group->requests, group->machine,
                           entry->fingerprint[0], limiter->deadline_us, &dropped);
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, dropped);
  if (!over) return;
  free(entry->account);
  weir_account_place(entry, NULL);
}

static void forget(weir_limiter *limiter, weir_memo_entry *entry) {
  int64_t owed = weir_account_forgive(entry->account, &limiter->stack, weir_limiter_now(limiter));
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, owed);
}

/* What it owes is paid no more. */
static weir_parting let_go(weir_limiter *limiter, weir_memo_entry *entry, bool last) {
  int64_t owed = 0;
  (void)last;
  for (size_t i = 0; i < limiter->stack.count; i++)
    owed += entry->account->parts[i].owed;
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, owed);
  free(entry->account);
  weir_account_place(entry, NULL);
  return WEIR_GOES;
}

const weir_stand_in weir_account_stand_in = {
    .divert = divert, .wrap = wrap, .after = after, .forget = forget, .let_go = let_go};

/* --- giving back -------------------------------------------------------------------------------
 */

/* Without an account all is over that it admitted, or another limiter did. */
weir_status weir_outage_give_back(weir_limiter *limiter, const weir_claim *request, bool owed,
                                  int64_t rest[WEIR_RULES_MOST], int64_t *paid_us) {
  weir_limiter *local = atomic_load_explicit(&limiter->local, memory_order_acquire);
  memset(rest, 0, WEIR_RULES_MOST * sizeof *rest);
  weir_memo_entry *entry = weir_limiter_lock(limiter, request->ask.key, request->ask.key_length);
  if (entry == NULL) return WEIR_NO_MEMORY;
  bool known = local != NULL && entry->account != NULL;
  if (known) {
    const weir_inside inside = inside_of(limiter, local);
    int64_t unpaid;
    roll(limiter, entry->account);
    weir_continue_refund(&inside, entry->account, request, owed, rest, paid_us, &unpaid);
    weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, unpaid);
  }
  weir_lock_leave(&entry->shard->lock);
  for (size_t i = 0; i < limiter->stack.count; i++) /* a place is paid for until its period ends */
    if (weir_rule_is_held(&limiter->stack.rules[i])) rest[i] = 0;
  if (known) return WEIR_OK;
  return weir_account_may_matter(&limiter->stack, request->ask.at_us, weir_limiter_now(limiter))
             ? WEIR_BAD_COST
             : WEIR_OK;
}

/* --- settling ----------------------------------------------------------------------------------
 */

bool weir_outage_charge(weir_limiter *limiter, const weir_waiting *request, const int64_t *costs) {
  bool begun;
  int64_t owed = 0;
  weir_limiter *local = has_account(limiter, request) ? local_of(limiter) : NULL;
  if (local == NULL) return false;
  weir_memo_entry *entry = lock_account(limiter, local, request, &begun);
  if (entry == NULL) return false;
  const weir_inside inside = inside_of(limiter, local);
  weir_account *account = entry->account;
  tell_account(account, request);
  roll(limiter, account);
  bool charged = weir_continue_overrun(&inside, account, &request->claim, costs,
                                       entry->fingerprint[0], weir_limiter_now(limiter), &owed);
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_OWED, owed);
  weir_lock_leave(&entry->shard->lock);
  return charged;
}
