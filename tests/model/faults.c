/* What may go wrong, each at most once in a run. */
#include <string.h>

#include "cluster.h"
#include "model.h"
#include "mutants.h"
#include "truth.h"

/* What the client has charged, or is about to take back, may stay for ever. */
static void excuse(struct model *model, const struct client *client) {
  for (int i = 0; i < (int)model->stack.count; i++)
    truth_of(model, i)->excuse(model, client, i);
}

void fault_crash(struct model *model, struct client *client) {
  excuse(model, client);
  lease_lose_returns(model, client, WEIR_UNKNOWN);
  model->world->crashed = true;
  story_print(model, "client %d stops for ever", world_client_number(model, client));
  client->crashed = true;
  client_rest(model, client);
}

static bool writes(weir_operation_kind kind) {
  return kind != WEIR_GET;
}

/* It may still land, behind those that may already. */
void fault_make_orphan(struct model *model, struct client *client, const struct sent *sent) {
  struct world *world = model->world;
  int at = 0;
  while (at < ORPHANS_MOST && world->orphans[at].operation.ttl_us != 0)
    at++;
  if (at == ORPHANS_MOST) {
    check_fails(model, CHECK_STATUS, "more than %d operations without an answer", ORPHANS_MOST);
    return;
  }
  world->orphans[at] = *sent;
  world->orphans[at].settles = settle_of(model, client);
  truth_of(model, (int)sent->operation.counter.rule)->excuse_sent(model, client, &sent->operation);
}

/* This operation and the rest of the round get no answer; they may still land. */
void fault_lose(struct model *model, struct client *client, weir_outcome outcome) {
  size_t index;
  struct sent sent = world_next_operation(model, client, &index);
  weir_machine *machine = client->machine;
  story_print(model, "client %d: no answer to ", world_client_number(model, client));
  story_operation(model, &sent);
  if (machine->frame.phase == WEIR_PHASE_TAKE_BACK || sent.operation.kind == WEIR_SUB)
    excuse(model, client);
  client->lost = true;
  if (outcome == WEIR_UNKNOWN || client->returns > 0) model->world->lost = true;
  if (model->cluster != NULL) {
    cluster_lose(model, client, outcome);
    return;
  }
  size_t first = index;
  lease_lose_returns(model, client, outcome);
  for (; index < client_sent(client); index++) {
    struct sent next = {.operation = client->operations[index],
                        .half = index == first && sent.half};
    if (outcome == WEIR_UNKNOWN && writes(next.operation.kind))
      fault_make_orphan(model, client, &next);
    if (model->mutant->resends) continue;
    client->operations[index].outcome = outcome;
    /* Others have their answers all the while: whoever looks once more finds bytes. */
    client->operations[index].late = client->operations[index].slow = !model->mutant->looks_once;
  }
  if (model->mutant->resends) return;
  client->landed = (int32_t)client_sent(client);
  client->half = false;
}

void fault_land_orphan(struct model *model) {
  struct sent *orphans = model->world->orphans;
  struct sent sent = orphans[0];
  uint8_t settles = sent.settles;
  story_print(model, "the operation without an answer lands: ");
  bool done = model->cluster != NULL ? cluster_land_orphan(model, &sent)
                                     : store_execute(model, NULL, &sent);
  if (model->cluster == NULL) story_operation(model, &sent);
  if (done) settle_landed(model, settles, &sent.operation);
  if (!done) {
    orphans[0] = sent;
    return;
  }
  memmove(orphans, orphans + 1, (ORPHANS_MOST - 1) * sizeof *orphans);
  memset(&orphans[ORPHANS_MOST - 1], 0, sizeof *orphans);
}

void fault_flush(struct model *model) {
  story_print(model, "the store loses all keys");
  model->world->flushed = true;
  for (int i = 0; i < KEYS_MOST; i++) {
    struct key *key = &model->world->keys[i];
    key->present = false;
    key->value = 0;
    if (key->used) truth_of(model, key->rule)->flushed(model, key);
  }
}

void fault_evict(struct model *model, struct key *key) {
  int64_t value = key->value;
  story_print(model, "the store loses ");
  story_key(model, key);
  key->present = false;
  key->value = 0;
  model->world->evicted = true;
  if (key->place == WEIR_PLACE_LIMIT)
    keys_lost(model, value);
  else
    truth_of(model, key->rule)->evicted(model, key, value);
}
