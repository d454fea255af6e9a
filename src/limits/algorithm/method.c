/* Which method serves a rule, and where a machine and a memo keep what: one block each, laid out once
 * for a stack of rules. No method calls this.
 *
 *     memo       weir_memo │ expected, by rule │ what each method remembers, rule after rule │ limits
 *     machine    weir_machine │ rules with another limit │ a memo │ what each method knows besides
 */
#include "algorithm/method.h"

#include <string.h>

#include "algorithm/window.h"

const weir_method *const weir_methods[] = {
    [WEIR_FIXED_WINDOW] = &weir_window_method, [WEIR_SLIDING_WINDOW] = &weir_window_method,
    [WEIR_SLIDING_LOG] = &weir_log_method,     [WEIR_QUOTA] = &weir_quota_method,
    [WEIR_TOKEN_BUCKET] = &weir_raise_method,  [WEIR_LEAKY_BUCKET] = &weir_raise_method,
    [WEIR_IN_FLIGHT] = &weir_in_flight_method, [WEIR_SHARED_WINDOW] = &weir_shared_method,
};

int64_t weir_method_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  int64_t ttl_us = weir_method_of(rule, settings->traits)->ttl_us(rule, settings);
  if (ttl_us < settings->least_ttl_us) ttl_us = settings->least_ttl_us;
  return ttl_us < WEIR_TTL_MOST_US ? ttl_us : WEIR_TTL_MOST_US;
}

/* --- memos -------------------------------------------------------------------------------------
 */

/* What the methods of the rules before i remember takes so much. Both of a bucket's remember as much, so that no
 * traits are asked for. */
size_t weir_memo_behind(const weir_stack *stack, size_t i) {
  size_t offset = 0;
  for (const weir_rule *rule = stack->rules; rule < stack->rules + i; rule++) {
    const weir_method *method = weir_method_of(rule, 0);
    offset += method->memory_bytes;
    if (method->cell_bytes > 0) offset += (size_t)weir_cells_room(rule) * method->cell_bytes;
    bool charges_ahead = rule->lease_us > 0 && !weir_rule_slides(rule) && method->windows != NULL;
    if (charges_ahead) offset += method->windows->next_bytes;
  }
  return offset;
}

static bool has_limits(const weir_stack *stack) {
  return weir_stack_steered(stack) < stack->count;
}

size_t weir_memo_bytes(const weir_stack *stack) {
  return weir_memo_offset(stack, stack->count) + (has_limits(stack) ? sizeof(weir_memo_limits) : 0);
}

weir_memo_limits *weir_memo_limits_of(const weir_stack *stack, const weir_memo *memo) {
  if (!has_limits(stack)) return NULL;
  return (weir_memo_limits *)((uintptr_t)memo + weir_memo_offset(stack, stack->count));
}

void weir_memo_share(const weir_stack *stack, weir_memo *memo, const weir_memo *other) {
  for (size_t i = 0; i < stack->count; i++) {
    const weir_method *method = weir_method_of(&stack->rules[i], 0);
    if (method->share != NULL)
      method->share(&stack->rules[i], (char *)memo + weir_memo_offset(stack, i),
                    weir_memo_own(stack, other, i));
  }
}

void weir_memo_lay_by(const weir_stack *stack, const weir_settings *settings, weir_memo *memo,
                      const weir_memo *next, int64_t now_us) {
  for (size_t i = 0; i < stack->count; i++)
    weir_method_of(&stack->rules[i], settings->traits)
        ->windows->lay_by((char *)memo + weir_memo_offset(stack, i), weir_memo_own(stack, next, i),
                          now_us);
}

void weir_memo_take_over(const weir_stack *stack, weir_memo *memo, const weir_stack *old_stack,
                         const weir_memo *old) {
  memset(memo, 0, weir_memo_bytes(stack));
  memcpy(memo, old, weir_memo_offset(stack, 0));
  memo->denied_cost = 0;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_method *method = weir_method_of(&stack->rules[i], 0);
    char *own = (char *)memo + weir_memo_offset(stack, i);
    size_t room = weir_memo_offset(stack, i + 1) - weir_memo_offset(stack, i);
    size_t bytes = weir_memo_offset(old_stack, i + 1) - weir_memo_offset(old_stack, i);
    memcpy(own, weir_memo_own(old_stack, old, i), bytes < room ? bytes : room);
    if (bytes > room && method->windows != NULL) method->windows->drop_next(own);
  }
}

void weir_memo_doubt(const weir_stack *stack, weir_memo *memo, size_t i, int64_t place,
                     int64_t cost) {
  const weir_method *method = weir_method_of(&stack->rules[i], 0);
  weir_expected *expected = &memo->expected[i];
  if (method->doubt == NULL) return;
  method->doubt((char *)memo + weir_memo_offset(stack, i), place, cost);
  if (expected->index != place) return;
  expected->share.last -= cost;
  expected->amount = expected->amount > cost ? expected->amount - cost : 0;
}

void weir_memo_doubt_all(const weir_stack *stack, const weir_settings *settings, weir_memo *memo) {
  memo->denied_cost = 0;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_method *method = weir_method_of(&stack->rules[i], settings->traits);
    method->forget((char *)memo + weir_memo_offset(stack, i));
    memo->expected[i].amount = 0;
  }
}

/* --- machines ----------------------------------------------------------------------------------
 */

size_t weir_machine_operations_most(const weir_stack *stack) {
  size_t operations = 0;
  for (const weir_rule *rule = stack->rules; rule < stack->rules + stack->count; rule++) {
    const weir_method *raises = weir_method_of(rule, 0),
                      *swaps = weir_method_of(rule, WEIR_TRAIT_SWAP);
    operations += raises->operations_most > swaps->operations_most ? raises->operations_most
                                                                   : swaps->operations_most;
    if (raises->cell_bytes > 0) operations += (size_t)(weir_cells_room(rule) / rule->lanes);
  }
  return operations;
}

size_t weir_machine_bytes(const weir_stack *stack) {
  size_t bytes = sizeof(weir_machine) + weir_memo_bytes(stack);
  if (has_limits(stack)) bytes += sizeof(weir_stack);
  for (size_t i = 0; i < stack->count; i++)
    bytes += weir_method_of(&stack->rules[i], 0)->state_bytes;
  return bytes;
}

weir_machine *weir_machine_init(void *memory, const weir_stack *stack,
                                const weir_settings *settings) {
  weir_machine *machine = memory;
  *machine = (weir_machine){.frame = {.stack = stack, .settings = settings},
                            .stack = stack,
                            .memo_bytes = weir_memo_bytes(stack),
                            .only_windows = true};
  char *behind = (char *)(machine + 1);
  if (has_limits(stack)) {
    machine->limited = (weir_stack *)(void *)behind;
    behind += sizeof(weir_stack);
  }
  weir_memo *memo = (weir_memo *)(void *)behind;
  char *state = (char *)memo + machine->memo_bytes;
  machine->frame.memo = memo;
  for (size_t i = 0; i < stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    *r = (weir_rule_state){.frame = &machine->frame,
                           .rule = &stack->rules[i],
                           .method = weir_method_of(&stack->rules[i], settings->traits),
                           .memory = (char *)memo + weir_memo_offset(stack, i),
                           .state = state,
                           .expected = &memo->expected[i],
                           .lesson = &machine->lessons[i],
                           .keeper = machine->rule_states,
                           .index = (uint32_t)i,
                           .ttl_us = weir_method_ttl_us(&stack->rules[i], settings)};
    while (r->keeper->method != r->method)
      r->keeper++;
    state += r->method->state_bytes;
    if (!r->method->charges_at_once) machine->only_windows = false;
  }
  machine->may_bound = settings->traits & WEIR_TRAIT_BOUND && stack->count == 1 &&
                       !stack->count_all && machine->rule_states->method->bounds;
  machine->may_believe = machine->only_windows && !stack->count_all;
  machine->retries = machine->only_windows && stack->count > 1 && !stack->count_all;
  return machine;
}

void weir_machine_places(const weir_machine *machine, int64_t places[WEIR_RULES_MOST]) {
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    places[i] = machine->rule_states[i].place;
}
