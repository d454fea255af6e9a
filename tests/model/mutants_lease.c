/* Mistakes of leases. */
#include "algorithm/plan.h"
#include "algorithm/window.h"
#include "mutants.h"
#include "truth.h"

/* --- how long a lot lives ----------------------------------------------------------------------
 */

static void use_for_ever(const struct model *model, struct client *client) {
  for (int i = 0; i < WEIR_LOTS; i++)
    client->stock->lots[i].until_us = model->last_us + WRONG_US;
}

static void no_look_ahead(weir_stack *stack, weir_settings *settings) {
  (void)stack;
  settings->ahead_us = 0;
}

static size_t reads_first(const weir_machine *machine, size_t landed) {
  if (machine->frame.phase != WEIR_PHASE_CHARGE) return landed;
  return (landed + 1) % machine->frame.operation_count;
}

static void no_reserve(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  model_keep_nothing_back(&stack->rules[0]);
}

static void open_too_early(const struct model *model, const struct client *client,
                           weir_operation *operation) {
  (void)model;
  if (client->from_us > 0 && operation->kind == WEIR_CREATE && operation->value > 0)
    operation->value -= WRONG_US;
}

static void use_next_at_once(const struct model *model, struct client *client) {
  int64_t now_us = world_clock_us(model, client);
  for (int i = 0; i < WEIR_LOTS; i++)
    if (client->stock->lots[i].from_us > now_us) client->stock->lots[i].from_us = now_us;
}

/* What was found out for plain charges before the next window stood behind the present one: a charge goes
 * to the last of them. */
static void charge_the_last_plainly(struct model *model, struct client *client) {
  weir_window_memory *window = (weir_window_memory *)(client->memo->expected + model->stack.count);
  if (client->from_us == 0) return;
  window->plain_from_us = client->from_us - model->stack.rules[0].period_us;
  window->plain_until_us = window->plain_lately_until_us = client->from_us;
  window->plain_inside = 0;
}

/* --- refilling ---------------------------------------------------------------------------------
 */

static bool refills(const struct client *client) {
  return client->requests[0].ask.cost == 0;
}

static void grant_twice(const struct model *model, struct client *client) {
  (void)model;
  for (int i = 0; i < WEIR_LOTS && refills(client); i++)
    if (client->stock->lots[i].stamp_us == client->wallet->ahead_us)
      client->stock->lots[i].left += client->wallet->ahead;
}

/* As if it had been charged when its answer came. */
static void grant_from_now(const struct model *model, struct client *client) {
  int64_t now_us = world_clock_us(model, client);
  for (int i = 0; i < WEIR_LOTS && refills(client); i++)
    if (client->stock->lots[i].until_us <= now_us)
      client->stock->lots[i].until_us = now_us + WRONG_US;
}

/* --- giving back -------------------------------------------------------------------------------
 */

static weir_operation return_to_now(const struct model *model, const struct client *client,
                                    const weir_lot *lot) {
  int64_t cell = window_cell_of(model, 0, world_clock_us(model, client));
  weir_operation operation = {
      .kind = WEIR_SUB, .counter = {.place = WEIR_PLACE_COUNT}, .ttl_us = 100000000};
  weir_rule_return(&model->stack.rules[0], cell, lot->left, &operation);
  return operation;
}

/* What was used of it as well. */
static weir_operation return_all(const struct model *model, const struct client *client,
                                 const weir_lot *lot) {
  weir_operation operation = {
      .kind = WEIR_SUB, .counter = {.place = WEIR_PLACE_COUNT}, .ttl_us = 100000000};
  weir_rule_return(&model->stack.rules[0], client->wallet->places[0], lot->left + 1, &operation);
  return operation;
}

/* On a store with SWAP, where nobody is about to swap. */
static weir_operation return_units(int64_t units) {
  return (weir_operation){.kind = WEIR_SUB,
                          .counter = {.place = WEIR_PLACE_COUNT},
                          .delta = units > 0 ? units : 1,
                          .ttl_us = 100000000};
}

static weir_operation return_undecayed(const struct model *model, const struct client *client,
                                       const weir_lot *lot) {
  (void)client;
  return return_units(lot->left * model->stack.rules[0].token_units);
}

static weir_operation return_decayed(const struct model *model, const struct client *client,
                                     const weir_lot *lot) {
  const weir_rule *rule = &model->stack.rules[0];
  int64_t elapsed_us = world_clock_us(model, client) - lot->stamp_us;
  return return_units(lot->left * rule->token_units - bucket_units(rule, elapsed_us));
}

const struct mutant lease_mutants[] = {
    {.name = "uses a lot after its cell has ended",
     .scope = "fixed window, leases",
     .killed_by = CHECK_BOUND,
     .mislease = use_for_ever},
    {.name = "leases by an answer past its deadline",
     .scope = "N=4, strict, 4 lanes, leases, late and overdue",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN | 1U << CHECK_LEAK,
     .grants_late = true},
    {.name = "leases by an answer that is unknown",
     .scope = "fixed window, leases, answer lost",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .grants_unknown = true},
    {.name = "gives a lot back to the cell of now",
     .scope = "fixed window, leases",
     .killed_by = CHECK_FORGOTTEN,
     .misreturn = return_to_now},
    {.name = "gives back what was used",
     .scope = "fixed window, leases",
     .killed_by = CHECK_FORGOTTEN,
     .misreturn = return_all},
    {.name = "leases, and reads before the addition",
     .scope = "N=4, leases",
     .killed_by = CHECK_BOUND,
     .reorder = reads_first},
    {.name = "leases, and does not look ahead",
     .scope = "N=4, strict, 4 lanes, leases",
     .killed_by = CHECK_BOUND,
     .misconfigure = no_look_ahead},
    {.name = "leases of a bucket without a reserve",
     .scope = "token bucket, SWAP, leases",
     .killed_by = CHECK_BOUND,
     .misconfigure = no_reserve},
    {.name = "leaves the reserve to those who lease",
     .scope = "token bucket, SWAP, leases",
     .killed_by = CHECK_BOUND,
     .unreserved = true},
    {.name = "uses a bucket's lot after its life",
     .scope = "token bucket, SWAP, leases",
     .killed_by = CHECK_BOUND,
     .mislease = use_for_ever},
    {.name = "gives back all of a bucket's lot",
     .scope = "token bucket, SWAP, leases that end",
     .killed_by = CHECK_BOUND,
     .misconfigure = no_reserve,
     .misreturn = return_undecayed},
    {.name = "gives back what has not drained, unguarded",
     .scope = "token bucket, SWAP, leases that end",
     .killed_by = CHECK_BOUND,
     .misconfigure = no_reserve,
     .misreturn = return_decayed},
    {.name = "gives back again what got no answer",
     .scope = "fixed window, leases, answer lost",
     .killed_by = CHECK_BOUND,
     .returns_twice = true},
    {.name = "leases before the callers are decided",
     .scope = "fixed window, leases",
     .killed_by = CHECK_DENIAL,
     .leases_first = true},
    {.name = "keeps a lot over a step of the clock",
     .scope = "N=4, strict, leases, a clock is set back",
     .killed_by = CHECK_BOUND,
     .keeps_lots = true},
    {.name = "refunds a bucket by the stamp of the use",
     .scope = "token bucket, SWAP, leases, refunds",
     .killed_by = CHECK_FORGOTTEN,
     .unchecked = 1U << CHECK_STATUS,
     .refunds_by_use = true},
    {.name = "leases more than a lane can hold",
     .scope = "full lanes, leases",
     .killed_by = CHECK_LANES,
     .leases_too_much = true},
    {.name = "gives nothing back",
     .scope = "fixed window, leases, what ended goes back",
     .killed_by = CHECK_DELIVERY,
     .keeps_owed = true},
    {.name = "counts a refill twice",
     .scope = "fixed window, refills",
     .killed_by = CHECK_BOUND,
     .mislease = grant_twice},
    {.name = "refills what has ended meanwhile",
     .scope = "fixed window, refills",
     .killed_by = CHECK_BOUND,
     .mislease = grant_from_now},
    {.name = "refills an idle key for ever",
     .scope = "fixed window, refills, idle",
     .killed_by = CHECK_DELIVERY,
     .refills_idle = true},
    {.name = "uses the next window's lot before it begins",
     .scope = "fixed window, the next ahead",
     .killed_by = CHECK_BOUND,
     .mislease = use_next_at_once},
    {.name = "uses the next window's lot after that has ended",
     .scope = "short fixed window, the next ahead",
     .killed_by = CHECK_BOUND,
     .mislease = use_for_ever},
    {.name = "charges the next window unchecked",
     .scope = "fixed window, the next ahead",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .grants_denied = true},
    {.name = "charges the next window by an answer that is unknown",
     .scope = "fixed window, the next ahead, answer lost",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .grants_unknown = true},
    {.name = "charges the present window plainly, and adds to the next",
     .scope = "fixed window, the next ahead, the present goes on, costs",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .remember = charge_the_last_plainly},
    {.name = "gives the next window's lot back to the present one",
     .scope = "fixed window, the next ahead, given back",
     .killed_by = CHECK_FORGOTTEN,
     .misreturn = return_to_now},
    {.name = "never gives the next window's lot back",
     .scope = "fixed window, the next ahead, idle",
     .killed_by = CHECK_DELIVERY,
     .keeps_owed = true},
    {.name = "opens the next quota before the present one ends",
     .scope = "quota, the next ahead",
     .killed_by = CHECK_OVERLAP,
     .rewrite = open_too_early},
    {.name = "uses the next quota's lot before it begins",
     .scope = "quota, the next ahead",
     .killed_by = CHECK_OVERLAP,
     .mislease = use_next_at_once},
    {.name = "charges the next quota unchecked",
     .scope = "quota, the next ahead",
     .killed_by = CHECK_OVERLAP,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .grants_denied = true},
    {.name = "uses a lot by a reading from before its charge",
     .scope = "N=4, strict, 4 lanes, leases, old readings",
     .killed_by = CHECK_BOUND,
     .trusts_old_readings = true},
};
const size_t lease_mutant_count = sizeof lease_mutants / sizeof lease_mutants[0];
