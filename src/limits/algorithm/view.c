/* What a memo alone says: of each rule, by what its method remembers, and of requests that need no store.
 */
#include "algorithm/view.h"

#include <string.h>

#include "algorithm/machine.h"
#include "algorithm/method.h"

/* --- a rule in no machine ----------------------------------------------------------------------
 */

/* Its memory is only read. Every request that a lease admits comes by here: member by member this takes a
 * third of the time that it takes to set all of it to 0 first. */
static inline void remember(const weir_view *view, size_t i, const weir_ask *asked,
                            weir_frame *frame, weir_rule_state *r) {
  frame->stack = view->stack;
  frame->settings = view->settings;
  frame->requests = NULL;
  frame->memo = NULL;
  frame->phase = WEIR_PHASE_LOOK;
  frame->blind = frame->believes_firm = frame->looks_at_old = frame->looks_at_back = false;
  frame->bounds = frame->settles = frame->refunds = false;
  frame->refusals = frame->lost = 0;
  frame->now_us = view->now_us;
  frame->clock_us = 0;
  frame->asked = asked;
  frame->operation_count = 0;
  frame->operations = NULL;
  r->frame = frame;
  r->rule = &view->stack->rules[i];
  r->method = weir_method_of(r->rule, view->settings->traits);
  r->memory = (void *)(uintptr_t)weir_memo_own(view->stack, view->memo, i);
  r->state = NULL;
  r->expected = (weir_expected *)(uintptr_t)&view->memo->expected[i];
  r->lesson = NULL;
  r->keeper = r;
  r->index = (uint32_t)i;
  r->ttl_us = 0;
  r->step = 0;
  r->charged = r->stays = r->conflict = r->full = r->went_back = r->tells = false;
  r->wanted = r->charge = r->unused = r->place = 0;
  r->used = r->whole = r->room = r->reset_after_us = 0;
}

/* What a rule in no machine stands in. */
typedef struct recalled {
  weir_frame frame;
  weir_rule_state r;
  int64_t state[WEIR_STATE_BYTES_MOST / sizeof(int64_t)];
} recalled;

/* False: too little is known. */
static inline bool recall(const weir_view *view, size_t i, const weir_ask *asked, recalled *to) {
  remember(view, i, asked, &to->frame, &to->r);
  to->r.state = to->state;
  memset(to->state, 0, to->r.method->state_bytes);
  return to->r.method->recall(&to->r);
}

bool weir_view_recall(const weir_view *view, size_t i, const weir_ask *ask, int64_t cost,
                      int64_t *room, weir_decision *figures) {
  recalled to;
  if (!recall(view, i, ask, &to)) return false;
  *room = to.r.method->room(&to.r, ask);
  if (figures != NULL) to.r.method->figures(&to.r, ask, cost, *room < cost, figures);
  return true;
}

int64_t weir_view_next(const weir_view *view) {
  int64_t first_us = INT64_MAX;
  for (size_t i = 0; i < view->stack->count; i++) {
    recalled to;
    if (!recall(view, i, NULL, &to) || to.r.method->windows == NULL) return 0;
    int64_t next_us = to.r.method->windows->next(&to.r);
    if (next_us < first_us) first_us = next_us;
  }
  return first_us;
}

void weir_view_known(const weir_view *view, size_t i, weir_known *known) {
  weir_frame frame;
  weir_rule_state r;
  remember(view, i, NULL, &frame, &r);
  known->count = 0;
  known->of_log = false;
  r.method->known(&r, known);
}

/* --- requests ----------------------------------------------------------------------------------
 */

int64_t weir_view_capacity(const weir_stack *stack, const weir_ask *ask) {
  weir_stack limited;
  if (ask->limit == 0) return weir_ask_capacity(&stack->rules[0], ask);
  weir_stack_set_limit(stack, ask->limit, &limited);
  return weir_ask_capacity(&limited.rules[0], ask);
}

void weir_claim_refuse(const weir_rule *rule, size_t i, int64_t now_us, weir_claim *request) {
  request->verdict.decision = (weir_decision){
      .source = WEIR_SOURCE_LOCAL,
      .rule = (uint32_t)i,
      .retry_after_us = WEIR_NEVER,
      .reset_after_us = WEIR_NOT_KNOWN,
      .delay_us = rule->hold_us,
      .cost = request->ask.costs != NULL ? WEIR_OWN_COSTS : request->ask.cost,
      .at_us = now_us,
  };
  request->verdict.status = WEIR_OK;
  request->verdict.answered = true;
}

static bool settle_never(const weir_stack *stack, int64_t now_us, weir_claim *request) {
  size_t i = 0;
  weir_claim_offer(stack, request);
  while (i < stack->count &&
         weir_claim_cost(request, i) <= weir_ask_capacity(&stack->rules[i], &request->ask))
    i++;
  if (i == stack->count) return false;
  weir_claim_refuse(&stack->rules[i], i, now_us, request);
  request->verdict.decision.limit = weir_ask_capacity(&stack->rules[i], &request->ask);
  request->verdict.decision.remaining = WEIR_NOT_KNOWN;
  return true;
}

__attribute__((cold, noinline)) static bool settle_never_limited(const weir_stack *stack,
                                                                 int64_t now_us,
                                                                 weir_claim *request) {
  weir_stack limited;
  weir_stack_set_limit(stack, request->ask.limit, &limited);
  return settle_never(&limited, now_us, request);
}

bool weir_settle_never(const weir_stack *stack, int64_t now_us, weir_claim *request) {
  return request->ask.limit != 0 ? settle_never_limited(stack, now_us, request)
                                 : settle_never(stack, now_us, request);
}

/* What each rule says to this request, and which of them deny it. False: too little is known. */
static bool recall_all(const weir_view *view, const weir_claim *request,
                       weir_decision figures[WEIR_RULES_MOST], unsigned *denying) {
  size_t i = 0;
  *denying = 0;
  do { /* a stack has a rule */
    int64_t room;
    figures[i] = (weir_decision){.cost = request->verdict.charge};
    if (!weir_view_recall(view, i, &request->ask, request->verdict.charge, &room, &figures[i]))
      return false;
    if (room < request->verdict.charge) *denying |= 1U << i;
  } while (++i < view->stack->count);
  return true;
}

static void settle(const weir_view *view, const weir_decision figures[], unsigned denying,
                   weir_claim *request) {
  request->verdict.decision = weir_decide_speak(view->stack, figures, request, denying);
  request->verdict.decision.source = WEIR_SOURCE_LOCAL;
  request->verdict.decision.at_us = view->now_us;
  request->verdict.status = WEIR_OK;
  request->verdict.answered = true;
}

/* By a denial of requests with this one's limit, which has not been over. */
static bool deny(const weir_view *view, weir_claim *request) {
  const weir_memo *memo = view->memo;
  weir_decision figures[WEIR_RULES_MOST];
  unsigned denying;
  weir_claim_offer(view->stack, request);
  if (request->verdict.charge < memo->denied_cost ||
      weir_ask_rank(&request->ask) > memo->denied_rank)
    return false;
  if (view->stack->count_all || !weir_is_repeatable(&request->ask)) return false;
  if (!recall_all(view, request, figures, &denying) || denying == 0) return false;
  settle(view, figures, denying, request);
  return true;
}

/* By a denial of requests with that limit. */
__attribute__((cold, noinline)) static bool deny_limited(const weir_view *view, int64_t limit,
                                                         weir_claim *request) {
  weir_stack limited;
  weir_stack_set_limit(view->stack, limit, &limited);
  const weir_view of_limit = {&limited, view->settings, view->memo, view->now_us};
  return settle_never(&limited, view->now_us, request) || deny(&of_limit, request);
}

/* What never fits under the limit that holds is told so, as it is where nothing was denied: where keys have
 * limits of their own it was only compared with the largest of them. */
bool weir_settle_locally(const weir_view *view, weir_claim *request) {
  const weir_memo *memo = view->memo;
  if (!view->settings->local_denial || memo->denied_cost == 0 ||
      view->now_us < memo->denied_at_us || view->now_us >= memo->denied_until_us)
    return false;
  const weir_memo_limits *limits = weir_memo_limits_of(view->stack, memo);
  if (limits == NULL) return deny(view, request);
  if (request->ask.limit != limits->denied) return false;
  int64_t limit = request->ask.limit != 0 ? request->ask.limit : limits->ruled;
  if (limit != 0) return deny_limited(view, limit, request);
  return settle_never(view->stack, view->now_us, request) || deny(view, request);
}

/* What rule i tells an admitted request, of which this process holds `room` besides. False: too little is
 * known. */
static inline bool tell(const weir_view *view, size_t i, int64_t room, const weir_claim *request,
                        weir_decision *figures) {
  recalled to;
  *figures = (weir_decision){.cost = request->verdict.charge, .remaining = WEIR_NOT_KNOWN};
  if (!recall(view, i, &request->ask, &to)) return false;
  to.r.method->figures(&to.r, &request->ask, request->verdict.charge, false, figures);
  figures->remaining =
      weir_ask_remaining(&view->stack->rules[i], &request->ask, figures->remaining, room);
  return true;
}

/* The same of one rule that admits: it speaks for itself. */
static void settle_alone(const weir_view *view, const weir_decision *figures, weir_claim *request) {
  const weir_rule *rule = &view->stack->rules[0];
  request->verdict.decision =
      (weir_decision){.allowed = true,
                      .source = WEIR_SOURCE_LOCAL,
                      .limit = weir_ask_capacity(rule, &request->ask),
                      .remaining = figures->remaining,
                      .reset_after_us = figures->reset_after_us,
                      .cost = request->verdict.held + request->verdict.charge,
                      .at_us = view->now_us};
  request->verdict.status = WEIR_OK;
  request->verdict.answered = true;
}

/* The same of several. */
__attribute__((noinline)) static bool settle_all(const weir_view *view, int64_t room, bool must,
                                                 weir_claim *request) {
  const weir_stack *stack = view->stack;
  weir_decision figures[WEIR_RULES_MOST];
  bool known = true;
  for (size_t i = 0; i < stack->count && known; i++)
    known = tell(view, i, room, request, &figures[i]);
  if (!known && !must) return false;
  for (size_t i = 0; i < stack->count && !known; i++)
    figures[i] = (weir_decision){.cost = request->verdict.charge, .remaining = WEIR_NOT_KNOWN};
  request->verdict.decision.delay_us = 0;
  settle(view, figures, 0, request);
  return known;
}

/* What others have of the limit is in the memo, as far as this process knows; what it holds itself
 * counts there as charged, and is room. */
bool weir_settle_leased(const weir_view *view, int64_t room, bool must, weir_claim *request) {
  weir_decision figures;
  bool known = view->stack->count == 1 ? tell(view, 0, room, request, &figures)
                                       : settle_all(view, room, must, request);
  if (!known && !must) return false;
  if (view->stack->count == 1) settle_alone(view, &figures, request);
  if (!known) request->verdict.decision.reset_after_us = WEIR_NOT_KNOWN;
  return known;
}

/* A rule that denies tells its own wait; where none does, the pause is what it waits for. */
bool weir_settle_paused(const weir_view *view, int64_t pause_us, weir_claim *request) {
  weir_decision figures[WEIR_RULES_MOST];
  unsigned denying;
  if (!view->settings->local_denial || !weir_is_repeatable(&request->ask) ||
      !recall_all(view, request, figures, &denying))
    return false;
  if (denying == 0) figures[0].retry_after_us = pause_us;
  settle(view, figures, denying != 0 ? denying : 1, request);
  return true;
}
