/* Mistakes of windows. */
#include <stdlib.h>
#include <string.h>

#include "algorithm/window.h"
#include "mutants.h"
#include "truth.h"

/* --- order -------------------------------------------------------------------------------------
 */

/* The addition of a single rule comes first in its round: here it comes last. */
static size_t reads_first(const weir_machine *machine, size_t landed) {
  if (machine->frame.phase != WEIR_PHASE_CHARGE) return landed;
  return (landed + 1) % machine->frame.operation_count;
}

/* --- margins -----------------------------------------------------------------------------------
 */

static void no_look_ahead(weir_stack *stack, weir_settings *settings) {
  (void)stack;
  settings->ahead_us = 0;
}

static void look_ahead_too_late(weir_stack *stack, weir_settings *settings) {
  (void)stack;
  settings->ahead_us = MARGIN_US - 1;
}

/* A cell that was read after its end, but before its end + x, passes for finished. */
static void cache_early(const struct model *model, weir_memo *memo) {
  weir_window_memory *window = (weir_window_memory *)(memo->expected + model->stack.count);
  for (int64_t i = 0; i < window->count; i++) {
    int64_t end = (window->first + i + 1) * model->stack.rules[0].cell_us;
    int64_t *read_us = &window->cells[i].read_us;
    if (*read_us >= end && *read_us < end + FINAL_US) *read_us = end + FINAL_US;
  }
}

static void repeat_longer(const struct model *model, weir_memo *memo) {
  (void)model;
  if (memo->denied_cost != 0) memo->denied_until_us += REPEAT_US;
}

/* A plain charge in the last e of a cell, which does not read the one ahead. */
static void plain_too_long(const struct model *model, weir_memo *memo) {
  weir_window_memory *window = (weir_window_memory *)(memo->expected + model->stack.count);
  if (window->plain_until_us > 0) window->plain_until_us += MARGIN_US;
}

/* The answers of a plain charge that does not fit are not handed over: all is charged anew. */
static weir_turn charge_anew(weir_machine *machine, int64_t now_us, bool late,
                             weir_operation *operations) {
  const weir_operation *answer = &machine->frame.operations[0];
  bool denied =
      answer->outcome == WEIR_DONE && answer->value > machine->frame.stack->rules[0].limit;
  if (!machine->plain || !denied) return weir_machine_resume(machine, now_us, late, operations);
  int64_t memo[128];
  if (machine->memo_bytes > sizeof memo) abort();
  memcpy(memo, machine->frame.memo, machine->memo_bytes);
  machine->phases_only = true;
  return weir_machine_start(machine, now_us, (const weir_memo *)memo, machine->frame.requests,
                            operations);
}

/* --- what is taken back ------------------------------------------------------------------------
 */

static int64_t lane_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

static void take_back_from_now(const struct model *model, const struct client *client,
                               weir_operation *operation) {
  int rule = (int)operation->counter.rule;
  if (operation->kind != WEIR_SUB) return;
  operation->counter.index =
      window_cell_of(model, rule, world_clock_us(model, client)) / model->stack.rules[rule].lanes;
}

static bool take_back_nothing(const struct model *model, const struct client *client,
                              weir_operation *operation) {
  (void)model;
  (void)client;
  if (operation->kind != WEIR_SUB) return false;
  operation->outcome = WEIR_DONE;
  return true;
}

static void take_back_all(const struct model *model, const struct client *client,
                          weir_operation *operation) {
  const weir_rule *rule = &model->stack.rules[operation->counter.rule];
  if (operation->kind != WEIR_SUB) return;
  operation->delta = client->charged[operation->counter.rule] *
                     lane_unit(rule, client->charged_cell[operation->counter.rule]);
}

/* --- counters ----------------------------------------------------------------------------------
 */

static void narrow_lanes(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].lanes = 4;
  stack->rules[0].lane_bits = 15;
}

static void short_life(const struct model *model, const struct client *client,
                       weir_operation *operation) {
  (void)client;
  operation->ttl_us = model->stack.rules[operation->counter.rule].period_us;
}

static void answer_before(weir_operation *operation) {
  if (operation->kind == WEIR_ADD) operation->value -= operation->delta;
}

static void answer_twice(weir_operation *operation) {
  if (operation->kind == WEIR_ADD) operation->value += operation->delta;
}

const struct mutant window_mutants[] = {
    {.name = "reads before the addition",
     .scope = "N=4",
     .killed_by = CHECK_BOUND,
     .reorder = reads_first},
    {.name = "does not look ahead",
     .scope = "N=4",
     .killed_by = CHECK_BOUND,
     .misconfigure = no_look_ahead},
    {.name = "looks ahead 1 us too late",
     .scope = "N=4",
     .killed_by = CHECK_BOUND,
     .misconfigure = look_ahead_too_late},
    {.name = "caches a cell before its end + x",
     .scope = "N=4, strict, cached cells",
     .killed_by = CHECK_BOUND,
     .misremember = cache_early},
    {.name = "takes late answers for good",
     .scope = "N=1, strict, overdue operations",
     .killed_by = CHECK_BOUND,
     .never_late = true},
    {.name = "the addition answers with the total before it",
     .scope = "fixed window",
     .killed_by = CHECK_BOUND,
     .distort = answer_before},
    {.name = "counts its own charge twice",
     .scope = "fixed window",
     .killed_by = CHECK_DENIAL,
     .distort = answer_twice},
    {.name = "takes back from the cell of now",
     .scope = "N=4",
     .killed_by = CHECK_FORGOTTEN,
     .rewrite = take_back_from_now},
    {.name = "takes back what was admitted",
     .scope = "fixed window, groups",
     .killed_by = CHECK_FORGOTTEN,
     .rewrite = take_back_all},
    {.name = "sends a take-back again that got no answer",
     .scope = "N=4, 4 lanes, answer lost",
     .killed_by = CHECK_FORGOTTEN,
     .resends = true},
    {.name = "takes nothing back",
     .scope = "fixed window",
     .killed_by = CHECK_LEAK,
     .replace = take_back_nothing},
    {.name = "lanes too narrow for the limit",
     .scope = "full lanes",
     .killed_by = CHECK_LANES,
     .misconfigure = narrow_lanes},
    {.name = "lanes for the limit, and not for the largest of its name",
     .scope = "full lanes, two limits",
     .killed_by = CHECK_LANES,
     .misconfigure = narrow_lanes,
     .another = narrow_lanes},
    {.name = "lanes for the limit, and not for what the largest of its name leases",
     .scope = "full lanes, two limits, leases",
     .killed_by = CHECK_LANES,
     .misconfigure = narrow_lanes,
     .another = narrow_lanes},
    {.name = "a take-back that stops at 0",
     .scope = "N=4, 4 lanes, eviction",
     .killed_by = CHECK_LANES,
     .saturates = true},
    {.name = "repeats a denial for too long",
     .scope = "fixed window, local denial",
     .killed_by = CHECK_REPEAT,
     .misremember = repeat_longer},
    {.name = "charges plainly in the last e of a cell",
     .scope = "N=4, strict, plain charges",
     .killed_by = CHECK_BOUND,
     .misremember = plain_too_long},
    {.name = "charges anew what does not fit plainly",
     .scope = "fixed window",
     .killed_by = CHECK_LEAK,
     .resume = charge_anew},
    {.name = "counters that live for one period",
     .scope = "fixed window",
     .killed_by = CHECK_TTL,
     .rewrite = short_life},
};
const size_t window_mutant_count = sizeof window_mutants / sizeof window_mutants[0];
