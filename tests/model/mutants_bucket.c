/* Mistakes of buckets. */
#include <string.h>

#include "algorithm/bucket.h"
#include "mutants.h"
#include "mutants_machines.h"
#include "truth.h"

/* --- taking back -------------------------------------------------------------------------------
 */

static bool take_back_nothing(const struct model *model, const struct client *client,
                              weir_operation *operation) {
  (void)client;
  if (operation->kind != WEIR_SUB) return false;
  operation->outcome = WEIR_DONE;
  operation->value = model->world->keys[0].value;
  return true;
}

/* As if nothing had drained since the charge. */
static void refund_all(const struct model *model, const struct client *client,
                       weir_operation *operation) {
  int64_t units = client->requests[0].verdict.charge * model->stack.rules[0].token_units;
  if (client->requests[0].ask.kind != WEIR_REFUND) return;
  if (operation->kind == WEIR_SUB) operation->delta = units;
  if (operation->kind == WEIR_SWAP) operation->value = model->world->keys[0].value - units;
}

static struct key *bucket_of(struct model *model) {
  return store_find(model, 0, WEIR_PLACE_COUNT, 0, 0);
}

/* Whatever is stored passes for the end of the slot. */
static void cancel_any(const struct model *model, struct client *client, weir_claim *request) {
  const struct key *key = &model->world->keys[0];
  if (request->ask.kind == WEIR_REFUND && key->present) client->ends[0] = key->value;
}

/* A denied request of a leaky bucket takes back what it charged, like one of a token bucket. */
static void leave_queue(struct model *model, struct client *client) {
  const struct record *record = &model->world->records[client->first_record];
  struct key *key = bucket_of(model);
  if (record->state == DENIED && record->charged && key->present)
    key->value -= record->cost[0] * model->stack.rules[0].token_units;
}

/* --- comparing and swapping --------------------------------------------------------------------
 */

/* Whoever swaps last wins. */
static void swap_blindly(const struct model *model, const struct client *client,
                         weir_operation *operation) {
  (void)client;
  const struct key *key = &model->world->keys[0];
  if (operation->kind == WEIR_SWAP && key->present) operation->version = key->version;
}

/* What did not get in, because others had written meanwhile, is taken for what there is now. */
static bool read_as_written(const struct model *model, const struct client *client,
                            weir_operation *operation) {
  const weir_operation *before = &client->operations[client->landed] - 1;
  const struct key *key = &model->world->keys[0];
  if (operation->kind != WEIR_GET || client->landed == 0 || before->kind != WEIR_SWAP ||
      before->outcome != WEIR_CONFLICT || !key->present)
    return false;
  operation->outcome = WEIR_DONE;
  operation->value = before->value;
  operation->version_out = key->version;
  return true;
}

/* --- raising -----------------------------------------------------------------------------------
 */

static void answer_as_alone(weir_operation *operation) {
  if (operation->kind == WEIR_RAISE && operation->outcome == WEIR_DONE)
    operation->value = operation->floor + operation->delta;
}

/* Once an epoch has begun, the one before it is not looked at any more. */
static bool forget_past(const struct model *model, const struct client *client,
                        weir_operation *operation) {
  const weir_rule *rule = &model->stack.rules[0];
  int64_t epoch = bucket_units(rule, world_clock_us(model, client)) >> 52;
  if (operation->counter.index >= epoch) return false;
  operation->outcome = operation->kind == WEIR_RAISE ? WEIR_DONE : WEIR_ABSENT;
  if (operation->kind == WEIR_RAISE) operation->value = operation->floor + operation->delta;
  return true;
}

/* Believes that nobody else is there. */
static void is_alone(weir_stack *stack, weir_settings *settings) {
  (void)stack;
  settings->processes = 1;
}

/* As if the last charge had been one that renewed. */
static void renew_in_mind(const struct model *model, weir_memo *memo) {
  int64_t clock_us = model->world->real_us - SKEW_US; /* of whoever is behind */
  weir_bucket_memory *memory = (weir_bucket_memory *)(memo->expected + model->stack.count);
  if (memory->renewed_us > 0) memory->renewed_us = clock_us;
}

static void short_life(const struct model *model, const struct client *client,
                       weir_operation *operation) {
  (void)client;
  operation->ttl_us = model->stack.rules[0].period_us;
}

const struct mutant bucket_mutants[] = {
    {.name = "adds first and compensates where the bucket was idle",
     .scope = "token bucket, SWAP",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_DENIAL,
     .start = idle_start,
     .resume = idle_resume},
    {.name = "at least now, so somebody discarded mine",
     .scope = "token bucket, SWAP",
     .killed_by = CHECK_LEAK,
     .unchecked = 1U << CHECK_DENIAL | 1U << CHECK_ORDER,
     .start = discarded_start,
     .resume = discarded_resume},
    {.name = "does not allow for what is about to go back",
     .scope = "token bucket, RAISE, overdue take-backs",
     .killed_by = CHECK_BOUND,
     .without_p = true},
    {.name = "never takes back",
     .scope = "token bucket, RAISE, overload",
     .killed_by = CHECK_DENIAL,
     .replace = take_back_nothing},
    {.name = "never takes back: what is delivered",
     .scope = "token bucket, RAISE, overload",
     .killed_by = CHECK_DELIVERY,
     .unchecked = 1U << CHECK_DENIAL | 1U << CHECK_LEAK,
     .replace = take_back_nothing},
    {.name = "refunds all of a cost, SWAP",
     .scope = "token bucket, SWAP, refunds",
     .killed_by = CHECK_BOUND,
     .rewrite = refund_all},
    {.name = "refunds all of a cost, RAISE",
     .scope = "token bucket, RAISE, refunds",
     .killed_by = CHECK_BOUND,
     .rewrite = refund_all},
    {.name = "takes a refund for one that is there at once",
     .scope = "fast token bucket, RAISE, refunds by a clock behind",
     .killed_by = CHECK_BOUND,
     .without_way = true},
    {.name = "cancels a slot that is not the last",
     .scope = "leaky bucket, SWAP, cancels",
     .killed_by = CHECK_BOUND,
     .alter = cancel_any},
    {.name = "takes back from a queue",
     .scope = "fast leaky bucket, RAISE",
     .killed_by = CHECK_BOUND,
     .remember = leave_queue},
    {.name = "swaps without comparing",
     .scope = "token bucket, SWAP",
     .killed_by = CHECK_BOUND,
     .rewrite = swap_blindly},
    {.name = "takes for what is there what it failed to swap in",
     .scope = "token bucket, SWAP, old versions",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_DENIAL | 1U << CHECK_ORDER | 1U << CHECK_LEAK,
     .replace = read_as_written},
    {.name = "RAISE answers as if others had charged nothing",
     .scope = "token bucket, RAISE",
     .killed_by = CHECK_BOUND,
     .distort = answer_as_alone},
    {.name = "forgets the epoch before",
     .scope = "token bucket, RAISE, between epochs",
     .killed_by = CHECK_BOUND,
     .replace = forget_past},
    {.name = "puts back what others have charged in vain",
     .scope = "token bucket, RAISE, too far ahead in vain",
     .killed_by = CHECK_BOUND,
     .misconfigure = is_alone,
     .unchecked = 1U << CHECK_DENIAL | 1U << CHECK_STATUS | 1U << CHECK_LEAK},
    {.name = "RAISE without refresh creates",
     .scope = "token bucket, RAISE, keys that are lost",
     .killed_by = CHECK_TTL,
     .creates = true},
    {.name = "renews too late",
     .scope = "token bucket, RAISE, renewals",
     .killed_by = CHECK_TTL,
     .misremember = renew_in_mind},
    {.name = "a bucket that lives for one period",
     .scope = "token bucket, SWAP",
     .killed_by = CHECK_TTL,
     .rewrite = short_life},
};
const size_t bucket_mutant_count = sizeof bucket_mutants / sizeof bucket_mutants[0];
