#include "limiter/continue.h"

#include "algorithm/in_flight.h"
#include "algorithm/view.h"

/* --- what a policy says ------------------------------------------------------------------------
 */

bool weir_policy_answers(weir_fallback fallback, weir_status status) {
  if (fallback == WEIR_FALLBACK_NONE || status == WEIR_OK) return false;
  return status == WEIR_TIMEOUT || status == WEIR_CONTENDED ||
         weir_status_classify(status) == WEIR_CLASS_STORE;
}

weir_decision weir_policy_decide(weir_fallback fallback, weir_source source,
                                 const weir_stack *rules, const weir_ask *ask, int64_t now_us) {
  const int64_t *costs = ask->costs;
  int64_t retry_us = source == WEIR_SOURCE_LATE ? WEIR_POLICY_LATE_RETRY_US : WEIR_POLICY_RETRY_US;
  bool allowed = fallback == WEIR_FALLBACK_ALLOW;
  size_t i = 0; /* the first that is concerned */
  while (costs != NULL && costs[i] == 0 && i + 1 < rules->count)
    i++;
  return (weir_decision){
      .allowed = allowed,
      .source = source,
      .rule = (uint32_t)i,
      .limit = weir_ask_capacity(&rules->rules[i], ask),
      .remaining = allowed ? WEIR_NOT_KNOWN : 0,
      .retry_after_us = allowed ? 0 : retry_us,
      .reset_after_us = allowed ? WEIR_NOT_KNOWN : retry_us,
      .cost = costs != NULL ? WEIR_OWN_COSTS : ask->cost,
      .at_us = now_us,
  };
}

/* --- beginning ---------------------------------------------------------------------------------
 */

/* The logs of a stack are one, which counts for all of them. */
static size_t measured_by(const weir_stack *stack, size_t i) {
  size_t first = 0;
  if (!weir_rule_takes_one(&stack->rules[i])) return i;
  while (!weir_rule_takes_one(&stack->rules[first]))
    first++;
  return first;
}

/* What this process holds already is of its share: where it knows of less that others hold, it counts as
 * if they held as much each. */
static void count_own_first(weir_known *known, uint32_t share) {
  for (size_t n = 0; n < known->count; n++) {
    int64_t least = weir_account_whole(known->charges[n].own, share);
    if (known->charges[n].amount < least) known->charges[n].amount = least;
  }
}

bool weir_continue_begin(const weir_inside *inside, weir_account *account, bool afresh,
                         const weir_claim *request, const weir_memo *memo, const weir_pool *pools,
                         weir_peers peers, int64_t now_us) {
  weir_known known[WEIR_RULES_MOST];
  uint32_t shares[WEIR_RULES_MOST];
  const weir_stack *rules = inside->rules;
  const weir_view view = {rules, inside->settings, memo, now_us};
  for (size_t i = 0; i < rules->count; i++) {
    size_t by = measured_by(rules, i);
    weir_view_known(&view, i, &known[i]);
    shares[i] = weir_account_key_share(&memo->expected[by].share, &pools[by], peers);
    if (weir_rule_is_held(&rules->rules[i])) count_own_first(&known[i], shares[i]);
  }
  weir_claim first = {.ask = {.kind = afresh ? WEIR_BEGIN_AFRESH : WEIR_BEGIN,
                              .known = known,
                              .key = request->ask.key,
                              .key_length = request->ask.key_length}};
  if (inside->settle(inside->owner, &first) != WEIR_OK) return false;
  weir_account_begin(account, rules, known, shares, now_us);
  account->met = pools[measured_by(rules, 0)].charges > 1;
  return true;
}

/* --- answering ---------------------------------------------------------------------------------
 */

/* What rule i admits at this time. Of what is held, and was sent without an answer, the store has the first
 * of two periods at the most. Returns what is owed of it. */
static int64_t count_admitted(const weir_inside *inside, weir_account *account, size_t i,
                              int64_t cost, int64_t weight, int64_t at_us,
                              weir_continue_manner manner) {
  const weir_rule *rule = &inside->rules->rules[i];
  bool owed = manner == WEIR_CONTINUE_OWES;
  if (weir_rule_is_held(rule)) {
    int64_t last_us = weir_held_end_us(rule, inside->settings, at_us) - rule->period_us;
    owed = owed || (manner == WEIR_CONTINUE_UNSURE && last_us > at_us);
    at_us = last_us;
  }
  return weir_account_admit(account, rule, i, cost, weight, at_us, owed);
}

/* A request as the limiter inside sees it. */
typedef struct weir_outage_request {
  const weir_claim *asked;
  int64_t cost; /* asked for; of an up-to request what is tried */
  int64_t weights[WEIR_RULES_MOST];
  uint32_t chances[WEIR_RULES_MOST];
  weir_decision decision;
} weir_outage_request;

static int64_t cost_of(const weir_outage_request *out, size_t i) {
  return out->asked->ask.costs != NULL ? out->asked->ask.costs[i] : out->cost;
}

static weir_status ask(const weir_inside *inside, const weir_account *account,
                       weir_outage_request *out, weir_request_kind kind) {
  const weir_claim *asked = out->asked;
  for (size_t i = 0; i < inside->continued->count; i++)
    out->weights[i] = weir_account_weigh(account, &inside->continued->rules[i], i, cost_of(out, i),
                                         asked->ask.up_to, out->chances[i]);
  weir_claim state = {.ask = {.kind = kind,
                              .alone = true,
                              .waits = asked->ask.waits,
                              .wait_us = asked->ask.wait_us,
                              .class = asked->ask.class,
                              .costs = out->weights,
                              .ends = asked->ask.ends,
                              .key = asked->ask.key,
                              .key_length = asked->ask.key_length}};
  weir_status status = inside->settle(inside->owner, &state);
  if (status == WEIR_OK) out->decision = state.verdict.decision;
  return status;
}

/* Less and less, until every rule has room: each that denies says how much it has, or where that
 * never fits, how much it could have. */
static weir_status ask_up_to(const weir_inside *inside, const weir_account *account,
                             weir_outage_request *out) {
  for (size_t tries = 0; tries <= 2 * inside->continued->count; tries++) {
    weir_status status = ask(inside, account, out, WEIR_PEEK);
    if (status != WEIR_OK) return status;
    if (out->decision.allowed) return ask(inside, account, out, WEIR_TAKE);
    size_t i = out->decision.rule;
    const weir_rule *rule = &inside->continued->rules[i];
    int64_t room = out->decision.remaining;
    if (room == WEIR_NOT_KNOWN) room = weir_ask_capacity(rule, &out->asked->ask);
    int64_t fits = weir_account_cost(account, rule, i, room, true, out->chances[i]);
    if (fits < 1 || fits >= out->cost) break;
    out->cost = fits;
  }
  return WEIR_OK;
}

/* In the caller's own units. Who is denied may ask again soon: the store may be back by then. */
static void translate(const weir_inside *inside, const weir_account *account,
                      const weir_outage_request *out, weir_decision *decision) {
  int64_t soon_us = account->away ? WEIR_POLICY_RETRY_US : WEIR_POLICY_LATE_RETRY_US;
  size_t i = out->decision.rule;
  *decision = out->decision;
  decision->limit = weir_ask_capacity(&inside->rules->rules[i], &out->asked->ask);
  decision->remaining = weir_account_cost(account, &inside->continued->rules[i], i,
                                          out->decision.remaining, false, 0);
  decision->cost = decision->allowed ? out->cost : out->asked->ask.cost;
  if (out->asked->ask.costs != NULL) decision->cost = WEIR_OWN_COSTS;
  if (decision->allowed) return;
  bool never = decision->retry_after_us == WEIR_NEVER;
  if (never || decision->retry_after_us > soon_us) decision->retry_after_us = soon_us;
  if (never) decision->reset_after_us = soon_us;
}

bool weir_continue_admit(const weir_inside *inside, weir_account *account,
                         const weir_claim *request, uint64_t secret, weir_continue_manner manner,
                         weir_decision *decision, int64_t *owed) {
  weir_outage_request out = {.asked = request, .cost = request->ask.cost};
  *owed = 0;
  for (size_t i = 0; i < inside->rules->count; i++)
    out.chances[i] = weir_account_chance(account, i, secret + i);
  weir_status status =
      request->ask.up_to ? ask_up_to(inside, account, &out) : ask(inside, account, &out, WEIR_TAKE);
  if (status != WEIR_OK) return false;
  for (size_t i = 0; out.decision.allowed && i < inside->rules->count; i++)
    *owed += count_admitted(inside, account, i, cost_of(&out, i), out.weights[i],
                            out.decision.at_us, manner);
  translate(inside, account, &out, decision);
  return true;
}

/* All of it is owed, whether there is room for it or not: what is spent is spent. The account counts as
 * much as fits, and a payment will be cut to what the store has room for. */
bool weir_continue_overrun(const weir_inside *inside, weir_account *account,
                           const weir_claim *request, const int64_t *costs, uint64_t secret,
                           int64_t now_us, int64_t *owed) {
  int64_t weights[WEIR_RULES_MOST] = {0};
  weir_claim state = {.ask = {.kind = WEIR_SETTLE,
                              .alone = true,
                              .class = request->ask.class,
                              .costs = weights,
                              .at_us = now_us,
                              .key = request->ask.key,
                              .key_length = request->ask.key_length}};
  for (size_t i = 0; i < inside->rules->count; i++)
    if (costs[i] > 0)
      weights[i] = weir_account_weigh(account, &inside->continued->rules[i], i, costs[i], false,
                                      weir_account_chance(account, i, secret + i));
  if (inside->settle(inside->owner, &state) != WEIR_OK) return false;
  *owed = 0;
  for (size_t i = 0; i < inside->rules->count; i++)
    if (costs[i] > 0)
      *owed += count_admitted(inside, account, i, costs[i], weights[i], now_us, WEIR_CONTINUE_OWES);
  return true;
}

bool weir_continue_counts(const weir_stack *rules, const weir_account *account,
                          const weir_claim *request) {
  bool counts = request->verdict.in_account;
  for (size_t i = 0; i < rules->count; i++)
    counts = counts && account->parts[i].begin_us <= request->verdict.decision.at_us;
  return counts;
}

int64_t weir_continue_owe_held(const weir_inside *inside, weir_account *account,
                               const weir_claim *request, bool owes) {
  int64_t owed = 0;
  for (size_t i = 0; i < inside->rules->count; i++)
    owed += count_admitted(inside, account, i, weir_claim_cost(request, i), 0,
                           request->verdict.decision.at_us,
                           owes ? WEIR_CONTINUE_OWES : WEIR_CONTINUE_UNSURE);
  return owed;
}

/* --- holding -----------------------------------------------------------------------------------
 */

/* While it holds: with a share of what was left at the outage's begin, others who are not back yet
 * find room. While the policy answers: a request still finds out whether the store is back, but one
 * for which the account has no room must not be admitted by that.
 *
 * Where the store was only slow nothing is held once it has answered. And a process that has not met it
 * so far leaves all to it: its share is a guess, and others miss nothing.
 *
 * What the account has room for it counts at once, so that all of a batch find no more than that;
 * what a request may get is cut to it. */
bool weir_continue_withholds(const weir_inside *inside, weir_account *account, weir_claim *request,
                             uint64_t secret, int64_t now_us) {
  weir_decision decision;
  int64_t owed;
  bool holds = weir_account_holds(account, now_us);
  bool answers = account->hold_until_us == 0 && (account->will_hold || account->met);
  if (request->ask.kind != WEIR_TAKE || (!holds && !answers)) return false;
  if (!weir_continue_admit(inside, account, request, secret, WEIR_CONTINUE_HOLDS, &decision, &owed))
    return false;
  if (decision.allowed) {
    if (request->ask.up_to && decision.cost < request->verdict.charge)
      request->ask.most = request->verdict.charge = decision.cost;
    request->verdict.decision = decision;
    request->verdict.in_account = true;
  } else if (holds) {
    request->verdict.decision = decision;
    request->verdict.decision.source = WEIR_SOURCE_FALLBACK;
    request->verdict.status = WEIR_OK;
    request->verdict.answered = true;
  } else {
    request->ask.kind = WEIR_PEEK;
  }
  return request->verdict.answered;
}

/* --- paying ------------------------------------------------------------------------------------
 */

/* What of `most` a group leaves that charges these requests. */
static int64_t left_of_group(const weir_stack *rules, const weir_claim *requests, int64_t most) {
  for (const weir_claim *request = requests; request != NULL; request = request->next) {
    int64_t largest = 0;
    for (size_t i = 0; request->ask.kind == WEIR_TAKE && i < rules->count; i++)
      if (weir_claim_cost(request, i) > largest) largest = weir_claim_cost(request, i);
    most -= largest < most ? largest : most;
  }
  return most;
}

bool weir_continue_offer(const weir_stack *rules, const weir_account *account,
                         const weir_claim *requests, int64_t most, weir_payment *offer) {
  int64_t left = left_of_group(rules, requests, most);
  bool some = false;
  if (requests->ask.kind > WEIR_PEEK) return false;
  for (size_t i = 0; i < rules->count; i++) {
    int64_t owed = account->parts[i].owed;
    offer->costs[i] = owed < left ? owed : left;
    offer->until_us[i] = weir_account_payable_until(account, &rules->rules[i], i);
    some = some || offer->costs[i] > 0;
  }
  return some;
}

bool weir_continue_pay(const weir_stack *rules, weir_account *account, const weir_claim *payment,
                       const int64_t *offered, int64_t *paid, int64_t *unpaid) {
  bool known = payment->verdict.status == WEIR_OK;
  *paid = *unpaid = 0;
  if (!known && payment->verdict.status != WEIR_UNKNOWN_OUTCOME) return false;
  for (size_t i = 0; i < rules->count; i++) {
    int64_t part = known ? payment->ask.payment->costs[i] : offered[i];
    *paid += part;
    *unpaid += weir_account_pay(account, i, offered[i], part);
  }
  if (known && *paid > 0)
    weir_account_confirm(account, rules->count, payment->ask.payment->costs,
                         payment->verdict.decision.at_us);
  return true;
}

/* What the store has admitted with the first group is part of the share, also of those who came
 * before there was an account. */
static void hold_admitted(const weir_inside *inside, weir_account *account,
                          const weir_claim *requests, uint64_t secret) {
  weir_decision decision;
  int64_t owed;
  for (const weir_claim *request = requests; request != NULL; request = request->next)
    if (request->ask.kind == WEIR_TAKE && !weir_ask_is_ahead(&request->ask) &&
        !request->verdict.in_account && request->verdict.status == WEIR_OK &&
        request->verdict.decision.allowed)
      weir_continue_admit(inside, account, request, secret, WEIR_CONTINUE_HOLDS, &decision, &owed);
}

/* While others may not be back: who is missing would not be missed. Where answers were only late, nobody is. */
static void unlearn(const weir_stack *rules, const weir_memo *memo, weir_machine *machine) {
  for (size_t i = 0; i < rules->count; i++) {
    weir_share *share = &machine->frame.memo->expected[i].share;
    share->mine = memo->expected[i].share.mine;
    share->all = memo->expected[i].share.all;
    machine->lessons[i] = (weir_lesson){0};
  }
}

bool weir_continue_settle(const weir_inside *inside, weir_account *account, const weir_memo *memo,
                          const weir_claim *requests, weir_machine *machine, uint64_t secret,
                          int64_t deadline_us, int64_t *dropped) {
  int64_t now_us = machine->frame.clock_us;
  *dropped = 0;
  if (requests->verdict.status == WEIR_OK && requests->ask.kind == WEIR_RESET) {
    *dropped = weir_account_forgive(account, inside->rules, now_us);
  } else if (requests->verdict.status == WEIR_OK && account->hold_until_us == 0) {
    weir_account_hold(account, now_us, deadline_us);
    if (account->will_hold) hold_admitted(inside, account, requests, secret);
  }
  if (weir_account_is_over(account, inside->rules, now_us)) return true;
  if (account->will_hold && !weir_account_is_quiet(account, now_us))
    unlearn(inside->rules, memo, machine);
  return false;
}

/* --- giving back -------------------------------------------------------------------------------
 */

/* A place that is left after all periods that it was held in: nothing of it counts any more. */
static bool is_over(const weir_inside *inside, const weir_account *account,
                    const weir_claim *request, size_t i) {
  return weir_rule_is_held(&inside->rules->rules[i]) && request->ask.ends != NULL &&
         request->ask.ends[i] <= account->parts[i].begin_us;
}

bool weir_continue_refund(const weir_inside *inside, weir_account *account,
                          const weir_claim *request, bool owed, int64_t rest[WEIR_RULES_MOST],
                          int64_t *paid_us, int64_t *unpaid) {
  int64_t weights[WEIR_RULES_MOST];
  weir_claim back = *request;
  back.ask.limit = 0;
  bool some = false;
  bool counted = false;
  *unpaid = 0;
  *paid_us = account->paid_us;
  for (size_t i = 0; i < inside->rules->count; i++) {
    int64_t before = account->parts[i].owed;
    int64_t cost = is_over(inside, account, request, i) ? 0 : request->ask.costs[i];
    rest[i] =
        weir_account_refund(account, &inside->continued->rules[i], i, cost, owed, &weights[i]);
    *unpaid += before - account->parts[i].owed;
    counted = counted || weights[i] > 0;
    some = some || rest[i] > 0;
  }
  back.ask.costs = weights;
  if (counted) inside->settle(inside->owner, &back);
  return some;
}
