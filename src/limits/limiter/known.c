/* Known: what answers a request without the store, and the stand-in of denials.
 *
 *     never fits ──> a denial that is shown, no lock ──> the key's entry: its limiter's stand-in that knows
 */
#include "limiter/limiter.h"

/* --- denials that are shown --------------------------------------------------------------------
 */

__attribute__((cold)) static void show_and_tell(const weir_limiter *limiter,
                                                weir_memo_entry *entry) {
  weir_claim one = {.ask = {.kind = WEIR_TAKE, .cost = 1}};
  const weir_view view = weir_limiter_view(limiter, entry->memo, entry->memo->denied_at_us);
  bool tells = weir_settle_locally(&view, &one);
  weir_table_show_denial(limiter->table, entry, tells ? &one.verdict.decision : NULL);
}

/* One of requests with a limit of their own is found under the lock alone. */
__attribute__((noinline)) static void show(const weir_limiter *limiter, weir_memo_entry *entry) {
  const weir_memo_limits *limits = weir_memo_limits_of(&limiter->stack, entry->memo);
  if (entry->memo->denied_cost != 0 && limits != NULL && limits->denied != 0) {
    weir_table_hide_denial(limiter->table, entry);
    return;
  }
  bool of_all = entry->memo->denied_rank == WEIR_RANK_MOST;
  if (entry->memo->denied_cost == 1 && of_all && limiter->stack.count == 1)
    show_and_tell(limiter, entry);
  else
    weir_table_show_denial(limiter->table, entry, NULL);
}

void weir_known_show(const weir_limiter *limiter, weir_memo_entry *entry) {
  if (entry->memo->denied_cost != 0 || entry->shown) show(limiter, entry);
}

/* Most are of cost 1 under one rule. What such a request is told then changes with time alone: nothing
 * fits until retry_after is over. */
static bool answer_shown(const weir_limiter *limiter, const weir_key *key, weir_moment at,
                         weir_claim *request) {
  weir_denial denial;
  weir_view view;
  if (request->ask.limit != 0 || !weir_limiter_has_denial(limiter, key, at)) return false;
  bool smallest = limiter->stack.count == 1 && request->ask.cost == 1 && request->ask.class == 0 &&
                  weir_is_repeatable(&request->ask);
  weir_decision *told = smallest ? &request->verdict.decision : NULL;
  switch (weir_denials_read(limiter->denials, key, at.clock_steps, at.now_us, &denial, told)) {
    case WEIR_DENIAL_TOLD:
      request->verdict.charge = 1;
      request->verdict.status = WEIR_OK;
      request->verdict.answered = true;
      return true;
    case WEIR_DENIAL_MEMO:
      view = weir_limiter_view(limiter, &denial.memo, at.now_us);
      return weir_settle_locally(&view, request);
    case WEIR_DENIAL_NONE:
      break;
  }
  return false;
}

/* --- the stand-in ------------------------------------------------------------------------------
 */

void weir_known_keep(const weir_limiter *limiter, weir_memo_entry *entry) {
  weir_memo_entry_mark(entry, WEIR_KNOWS, entry->memo->denied_cost != 0);
  weir_known_show(limiter, entry);
}

static bool deny(weir_limiter *limiter, weir_memo_entry *entry, weir_claim *request,
                 int64_t now_us) {
  const weir_view view = weir_limiter_view(limiter, entry->memo, now_us);
  return weir_settle_locally(&view, request);
}

static bool answer(weir_limiter *limiter, weir_memo_entry *entry, weir_waiting *request,
                   weir_moment at) {
  return deny(limiter, entry, &request->claim, at.now_us);
}

static void after(weir_call *call, weir_group *group) {
  weir_known_keep(call->limiter, group->entry);
}

const weir_stand_in weir_denial_stand_in = {.answer = answer, .deny = deny, .after = after};

/* --- answering ---------------------------------------------------------------------------------
 */

/* An account counts the requests that it answers: those are left to the call that joins. */
static bool answer_locked(weir_limiter *limiter, const weir_key *key, weir_moment at,
                          weir_waiting *request) {
  const weir_stand_in *known = limiter->known;
  weir_memo_entry *entry = weir_limiter_lock_known(limiter, key);
  if (entry == NULL) return false;
  bool answered = weir_limiter_recall(limiter, entry, request, at);
  if (answered && known->came != NULL) known->came(limiter, entry, &request->claim, at);
  weir_lock_leave(&entry->shard->lock);
  return answered;
}

/* Whether too little is known of some rule for a charge that nobody has looked for. */
static bool has_to_look(const weir_limiter *limiter, const weir_memo_entry *entry, bool known,
                        int64_t now_us, const weir_claim *request) {
  const weir_stack *stack = &limiter->stack;
  const weir_view view = weir_limiter_view(limiter, entry->memo, now_us);
  if (weir_ask_rank(&request->ask) <= entry->memo->must_peek && !stack->count_all) return true;
  for (size_t i = 0; i < stack->count; i++) {
    weir_decision figures;
    int64_t room;
    if (weir_rule_keeps_counts(&stack->rules[i])) continue;
    if (!known || stack->count > 1 || !weir_rule_moves_in_time(&stack->rules[i])) return true;
    if (!weir_view_recall(&view, i, &request->ask, request->verdict.charge, &room, &figures))
      return true;
  }
  return false;
}

/* Where a group is under way, what was known before it. */
static bool deny_locked(weir_limiter *limiter, const weir_key *key, weir_moment at,
                        weir_claim *request, bool *must_look) {
  weir_memo_entry *entry = weir_table_lock(limiter->table, key);
  if (entry == NULL) return false;
  bool known = !weir_limiter_is_stale(limiter, entry);
  bool denied = known && entry->stand_ins & WEIR_KNOWS &&
                limiter->known->deny(limiter, entry, request, at.now_us);
  *must_look = !denied && has_to_look(limiter, entry, known, at.now_us, request);
  weir_lock_leave(&entry->shard->lock);
  return denied;
}

bool weir_limiter_may_never(const weir_limiter *limiter, int64_t now_us, weir_claim *request) {
  bool has_limit = request->ask.limit != 0;
  return weir_settle_never(has_limit ? &limiter->stack : limiter->widest, now_us, request);
}

bool weir_know(weir_limiter *limiter, weir_waiting *request, const weir_key *key, weir_moment at,
               weir_reach reach, bool *must_look) {
  if (must_look != NULL) *must_look = false;
  if (weir_ask_is_decided(&request->claim.ask) &&
      weir_limiter_never(limiter, at.now_us, &request->claim))
    return true;
  if (reach == WEIR_ALL_KEYS) return deny_locked(limiter, key, at, &request->claim, must_look);
  if (answer_shown(limiter, key, at, &request->claim)) return true;
  return reach == WEIR_LOCKED && answer_locked(limiter, key, at, request);
}
