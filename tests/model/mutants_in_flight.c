/* Mistakes about what is in flight. */
#include "algorithm/in_flight.h"
#include "mutants.h"

/* Whether an operation of a charge pays for the epoch behind that of the entry. */
static bool is_ahead(const weir_machine *machine, const weir_operation *operation) {
  const weir_rule *rule = &machine->frame.stack->rules[operation->counter.rule];
  return machine->frame.phase == WEIR_PHASE_CHARGE && operation->kind == WEIR_ADD &&
         operation->counter.index > machine->frame.now_us / rule->period_us;
}

/* What is paid ahead always fits. */
static weir_turn check_once(weir_machine *machine, int64_t now_us, bool late,
                            weir_operation *operations) {
  for (size_t n = 0; n < machine->frame.operation_count; n++)
    if (is_ahead(machine, &operations[n])) operations[n].value = operations[n].delta;
  return weir_machine_resume(machine, now_us, late, operations);
}

static bool pay_nothing_ahead(const struct model *model, const struct client *client,
                              weir_operation *operation) {
  (void)model;
  if (!is_ahead(client->machine, operation)) return false;
  operation->outcome = WEIR_DONE;
  operation->value = operation->delta;
  return true;
}

/* A renewal is good whenever its answer comes. */
static weir_turn renew_late(weir_machine *machine, int64_t now_us, bool late,
                            weir_operation *operations) {
  const weir_frame *frame = &machine->frame;
  if (frame->phase == WEIR_PHASE_RENEW) {
    int64_t guard_us = weir_held_guard_us(&frame->stack->rules[0], frame->settings);
    int64_t latest_us = frame->requests->ask.ends[0] - guard_us - 1;
    if (now_us > latest_us) now_us = latest_us;
  }
  return weir_machine_resume(machine, now_us, late, operations);
}

/* An entry without an answer is denied and goes back, as if it were there. */
static weir_turn take_back_the_unknown(weir_machine *machine, int64_t now_us, bool late,
                                       weir_operation *operations) {
  for (size_t n = 0; n < machine->frame.operation_count; n++) {
    weir_operation *operation = &operations[n];
    if (machine->frame.phase != WEIR_PHASE_CHARGE || operation->outcome != WEIR_UNKNOWN) continue;
    operation->outcome = WEIR_DONE;
    operation->value = 100 * operation->delta;
  }
  return weir_machine_resume(machine, now_us, late, operations);
}

/* What a renewal of this client may have paid, or may yet pay: its answer is missing. */
static void leave_the_next_epoch(const struct model *model, struct client *client,
                                 weir_claim *request) {
  const weir_operation *missing = &model->world->orphans[0].operation;
  int64_t period = model->stack.rules[0].period_us;
  bool renewal = missing->ttl_us != 0 && missing->kind == WEIR_ADD &&
                 missing->counter.index == client->ends[0] / period;
  if (request->ask.kind == WEIR_REFUND && renewal && client->next_request == 3)
    client->ends[0] += period;
}

static void forget_the_entry(const struct model *model, struct client *client,
                             weir_claim *request) {
  (void)model;
  (void)client;
  if (request->ask.kind == WEIR_REFUND) request->ask.at_us = 0;
}

static void live_one_epoch(const struct model *model, const struct client *client,
                           weir_operation *operation) {
  (void)client;
  operation->ttl_us = model->stack.rules[0].period_us;
}

const struct mutant in_flight_mutants[] = {
    {.name = "pays ahead without a second check",
     .scope = "in flight, N=1, renewed",
     .killed_by = CHECK_BOUND,
     .resume = check_once},
    {.name = "pays nothing ahead",
     .scope = "in flight, N=1, renewed",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .replace = pay_nothing_ahead},
    {.name = "holds a place without a guard",
     .scope = "in flight, N=1, renewed",
     .killed_by = CHECK_BOUND,
     .lax_us = 21},
    {.name = "holds a place with a guard of one clock error",
     .scope = "in flight, N=1, renewed",
     .killed_by = CHECK_BOUND,
     .lax_us = 17},
    {.name = "takes a renewal that is certain too late",
     .scope = "in flight, N=1, late and overdue",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .resume = renew_late},
    {.name = "leaves before it stops believing",
     .scope = "in flight, N=1, enter and leave",
     .killed_by = CHECK_BOUND,
     .believes_on = true},
    {.name = "takes back a renewal that is not certain",
     .scope = "in flight, N=1, answer lost",
     .killed_by = CHECK_FORGOTTEN,
     .alter = leave_the_next_epoch},
    {.name = "takes back an entry that is not certain",
     .scope = "in flight, N=1, answer lost",
     .killed_by = CHECK_FORGOTTEN,
     .unchecked = 1U << CHECK_DENIAL,
     .resume = take_back_the_unknown},
    {.name = "renews what has left",
     .scope = "in flight, N=2, groups",
     .killed_by = CHECK_LEAK,
     .renews_left = true},
    {.name = "renews what has paid ahead",
     .scope = "in flight, N=1, renewed",
     .killed_by = CHECK_LEAK,
     .renews_twice = true},
    {.name = "takes back from the epoch of now",
     .scope = "in flight, N=2, a clock set back",
     .killed_by = CHECK_FORGOTTEN,
     .alter = forget_the_entry},
    {.name = "keeps what is in flight for one epoch",
     .scope = "in flight, N=1, renewed",
     .killed_by = CHECK_TTL,
     .unchecked = 1U << CHECK_CONTRACT,
     .rewrite = live_one_epoch},
};
const size_t in_flight_mutant_count = sizeof in_flight_mutants / sizeof in_flight_mutants[0];
