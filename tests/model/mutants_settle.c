/* Mistakes of settlements. */
#include "algorithm/bucket.h"
#include "mutants.h"
#include "truth.h"

static bool settles_up(const struct client *client, int rule) {
  const weir_claim *request = &client->requests[0];
  return request->ask.kind == WEIR_SETTLE && request->ask.costs[rule] > 0;
}

/* What is beyond the debt stays, though it is told as cut. */
static bool keep_beyond(const struct model *model, const struct client *client,
                        weir_operation *operation) {
  (void)model;
  if (operation->kind != WEIR_SUB || !settles_up(client, (int)operation->counter.rule))
    return false;
  operation->outcome = WEIR_DONE;
  return true;
}

/* The debt is as deep as one likes. */
static void bottomless(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].debt = stack->rules[0].capacity;
}

/* What was charged by force goes back whole, like what was denied. */
static void take_back_forced(const struct model *model, const struct client *client,
                             weir_operation *operation) {
  int rule = (int)operation->counter.rule;
  (void)model;
  if (operation->kind == WEIR_SUB && settles_up(client, rule))
    operation->delta = client->machine->rule_states[rule].charge;
}

/* What is charged more goes to the window of the estimate. */
static void charge_where_it_began(const struct model *model, const struct client *client,
                                  weir_operation *operation) {
  int rule = (int)operation->counter.rule;
  if (operation->kind == WEIR_ADD && settles_up(client, rule))
    operation->counter.index = window_cell_of(model, rule, client->requests[0].ask.at_us);
}

/* The layout knows of no debt. */
static void lanes_without_debt(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].lanes = 4;
  stack->rules[0].lane_bits = 15;
}

/* While more is ahead than a full bucket, a refund begins from a full one. */
static void refund_debt(const struct model *model, const struct client *client,
                        weir_operation *operation) {
  const weir_rule *rule = &model->stack.rules[0];
  const struct key *key = &model->world->keys[0];
  int64_t full = bucket_units(rule, world_clock_us(model, client)) + weir_bucket_full(rule);
  int64_t debt = key->value - full;
  if (client->requests[0].ask.kind != WEIR_REFUND || !key->present || debt <= 0) return;
  if (operation->kind == WEIR_SWAP) operation->value -= debt;
  if (operation->kind == WEIR_SUB) operation->delta += debt;
}

/* How far a bucket may be ahead is judged without its debt. */
static void undebted(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].debt = 0;
}

const struct mutant settle_mutants[] = {
    {.name = "settles twice after an unknown answer",
     .scope = "fixed window, settled, answer lost",
     .killed_by = CHECK_ONCE,
     .settles_twice = true},
    {.name = "debt beyond D is not taken off",
     .scope = "fixed window, settled",
     .killed_by = CHECK_LEAK,
     .replace = keep_beyond},
    {.name = "charges beyond D",
     .scope = "fixed window, settled",
     .killed_by = CHECK_BOUND,
     .another = bottomless},
    {.name = "a forced charge that is taken back like a denied one",
     .scope = "fixed window, settled, answer lost",
     .killed_by = CHECK_FORGOTTEN,
     .rewrite = take_back_forced},
    {.name = "lanes without D",
     .scope = "full lanes, settled",
     .killed_by = CHECK_LANES,
     .misconfigure = lanes_without_debt},
    {.name = "charges the window in which it began",
     .scope = "fixed window, settled",
     .killed_by = CHECK_FORGOTTEN,
     .rewrite = charge_where_it_began},
    {.name = "a debt that a refund forgives, SWAP",
     .scope = "token bucket, SWAP, settled, refunds",
     .killed_by = CHECK_FORGOTTEN,
     .rewrite = refund_debt},
    {.name = "a debt that a refund forgives, RAISE",
     .scope = "token bucket, RAISE, settled, refunds",
     .killed_by = CHECK_FORGOTTEN,
     .rewrite = refund_debt},
    {.name = "a repair that knows of no debt",
     .scope = "token bucket, SWAP, settled, a long debt",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_TTL | 1U << CHECK_DENIAL | 1U << CHECK_ORDER,
     .another = undebted},
};
const size_t settle_mutant_count = sizeof settle_mutants / sizeof settle_mutants[0];
