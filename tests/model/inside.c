/* The limiter inside a client: it counts for the client's account, by a machine of its own on a
 * store that nobody else sees. It waits for nothing, so that each decision is one step. */
#include <string.h>

#include "outage.h"
#include "truth.h"

/* --- its store ---------------------------------------------------------------------------------
 */

static bool is_of(const struct inside_key *key, const weir_operation *operation) {
  return key->used && key->rule == operation->counter.rule &&
         key->place == (uint8_t)operation->counter.place && key->index == operation->counter.index;
}

/* Keys stand in the order in which they were first met. NULL: there are too many. */
static struct inside_key *find(struct outage *outage, const weir_operation *operation) {
  for (int i = 0; i < INSIDE_KEYS_MOST; i++) {
    struct inside_key *key = &outage->keys[i];
    if (is_of(key, operation)) return key;
    if (key->used) continue;
    key->rule = (uint8_t)operation->counter.rule;
    key->place = (uint8_t)operation->counter.place;
    key->index = operation->counter.index;
    key->used = true;
    return key;
  }
  return NULL;
}

static bool writes(const weir_operation *operation, const struct inside_key *key) {
  switch (operation->kind) {
    case WEIR_ADD:
    case WEIR_PUT:
      return true;
    case WEIR_CREATE:
      return !key->present;
    case WEIR_SWAP:
      return key->present && key->version == operation->version;
    case WEIR_SUB:
    case WEIR_DROP:
      return key->present;
    default:
      return false;
  }
}

static weir_outcome refusal(const weir_operation *operation, const struct inside_key *key) {
  if (operation->kind == WEIR_GET && key->present) return WEIR_DONE;
  return key->present ? WEIR_CONFLICT : WEIR_ABSENT;
}

static void execute(struct model *model, struct outage *outage, weir_operation *operation) {
  struct inside_key *key = find(outage, operation);
  if (key == NULL) {
    check_fails(model, CHECK_STATUS, "more than %d keys inside a client", INSIDE_KEYS_MOST);
    operation->outcome = WEIR_NOT_SENT;
    return;
  }
  bool done = writes(operation, key);
  operation->outcome = done ? WEIR_DONE : refusal(operation, key);
  if (done) {
    int64_t before = key->present ? key->value : 0;
    key->value = operation->kind == WEIR_ADD    ? before + operation->delta
                 : operation->kind == WEIR_SUB  ? before - operation->delta
                 : operation->kind == WEIR_DROP ? 0
                                                : operation->value;
    key->present = operation->kind != WEIR_DROP;
    key->version++;
  }
  if (operation->outcome != WEIR_DONE) return;
  operation->value = key->value;
  operation->version_out = key->version;
}

/* --- its decisions -----------------------------------------------------------------------------
 */

weir_status inside_settle(void *owner, weir_claim *request) {
  struct inside *inside = owner;
  struct model *model = inside->model;
  struct client *client = inside->client;
  weir_machine *machine = model->inside_machine;
  int64_t now_us = world_clock_us(model, client);
  const weir_stack *stack = client_continued(model, client);
  bool decided = weir_ask_is_decided(&request->ask);
  if (decided && weir_settle_never(stack, now_us, request)) return request->verdict.status;
  const weir_view view = {stack, &model->inside_settings, client->inside, now_us};
  if (decided && weir_settle_locally(&view, request)) return request->verdict.status;
  weir_machine_init(machine, stack, &model->inside_settings);
  weir_turn turn =
      weir_machine_start(machine, now_us, client->inside, request, model->inside_operations);
  while (turn != WEIR_TURN_DONE) {
    for (size_t i = 0; turn == WEIR_TURN_EXECUTE && i < machine->frame.operation_count; i++)
      execute(model, client->outage, &machine->frame.operations[i]);
    turn = weir_machine_resume(machine, now_us, false, model->inside_operations);
  }
  memcpy(client->inside, machine->frame.memo, machine->memo_bytes);
  return request->verdict.status;
}
