/* Mistakes about classes. */
#include "mutants.h"

static void judge_by_all(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].class_capacities[0] = stack->rules[0].capacity;
}

static void judge_none_by_part(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].capacity = stack->rules[0].class_capacities[1];
  stack->rules[0].upper = weir_rule_upper_of(&stack->rules[0], stack->rules[0].capacity);
}

/* Lanes that what the first class may have fits into. */
static void lay_out_for_a_part(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].lane_bits = 3;
}

static void keep_what_is_denied(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->count_all = stack->rules[0].count_all = true;
}

/* Who asks for the first class takes a bucket that holds more than that may have for a wrong clock's. */
static void believe_in_a_part(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].burst = stack->rules[0].class_capacities[0];
}

static void settle_by_all(const struct model *model, struct client *client, weir_claim *request) {
  (void)model;
  (void)client;
  if (request->ask.kind == WEIR_SETTLE) request->ask.class = 0;
}

/* What its own charge denies goes back, and that is all. */
static weir_turn judge_once(weir_machine *machine, int64_t now_us, bool late,
                            weir_operation *operations) {
  if (machine->frame.phase == WEIR_PHASE_CHARGE) machine->in_order = true;
  return weir_machine_resume(machine, now_us, late, operations);
}

/* A renewal that finds more than the first class may hold is none. */
static weir_turn renew_by_part(weir_machine *machine, int64_t now_us, bool late,
                               weir_operation *operations) {
  const weir_rule *rule = &machine->frame.stack->rules[0];
  for (size_t n = 0; n < machine->frame.operation_count; n++) {
    weir_operation *operation = &operations[n];
    if (machine->frame.phase == WEIR_PHASE_RENEW && operation->value > rule->class_capacities[0])
      operation->outcome = WEIR_REFUSED;
  }
  return weir_machine_resume(machine, now_us, late, operations);
}

const struct mutant class_mutants[] = {
    {.name = "judges a low class by all of the limit",
     .scope = "classes, fixed window",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of a quota",
     .scope = "classes, quota",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of a sliding window",
     .scope = "classes, N=4",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of a log",
     .scope = "classes, sliding log",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of a bucket, RAISE",
     .scope = "classes, bucket, raise",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of a bucket, SWAP",
     .scope = "classes, token bucket, SWAP",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of the queue",
     .scope = "classes, leaky bucket, SWAP",
     .killed_by = CHECK_KEPT,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of the places",
     .scope = "classes, in flight",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges who says no class by a class",
     .scope = "classes, fixed window",
     .killed_by = CHECK_DENIAL,
     .misconfigure = judge_none_by_part},
    {.name = "lays a window out for a class",
     .scope = "classes, N=4",
     .killed_by = CHECK_LANES,
     .misconfigure = lay_out_for_a_part},
    {.name = "keeps what lower classes are denied",
     .scope = "classes, fixed window",
     .killed_by = CHECK_KEPT,
     .misconfigure = keep_what_is_denied},
    {.name = "judges a high class once",
     .scope = "classes, fixed window",
     .killed_by = CHECK_KEPT,
     .resume = judge_once},
    {.name = "judges a high class once, of a bucket",
     .scope = "classes, bucket, raise",
     .killed_by = CHECK_KEPT,
     .resume = judge_once},
    {.name = "judges a high class once, of places",
     .scope = "classes, in flight, three clients",
     .killed_by = CHECK_KEPT,
     .resume = judge_once},
    {.name = "repeats the denial of a low class for all",
     .scope = "classes, fixed window, local denial",
     .killed_by = CHECK_DENIAL,
     .repeats_for_all = true},
    {.name = "measures a wrong clock by a class",
     .scope = "classes, slow token bucket, SWAP",
     .killed_by = CHECK_ORDER,
     .another = believe_in_a_part},
    {.name = "settles a low class by all of the limit",
     .scope = "classes, fixed window, settled",
     .killed_by = CHECK_BOUND,
     .alter = settle_by_all},
    {.name = "a low class uses what is leased for a high one",
     .scope = "classes, fixed window, leases",
     .killed_by = CHECK_BOUND,
     .uses_any_lot = true},
    {.name = "renews within what a class may hold",
     .scope = "classes, in flight",
     .killed_by = CHECK_STATUS,
     .resume = renew_by_part},
};
const size_t class_mutant_count = sizeof class_mutants / sizeof class_mutants[0];
