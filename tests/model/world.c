/* Time and steps: what may come next, and what each step does. */
#include <string.h>

#include "cluster.h"
#include "model.h"
#include "mutants.h"
#include "outage.h"
#include "truth.h"

/* A leader, a late clock, and one that is right. */
static const int64_t offsets_us[CLIENTS_MOST] = {SKEW_US, -SKEW_US, 0};

int64_t world_offset_us(const struct model *model, int client) {
  bool wrong = client == 0 && model->scope->flags & SET_BACK && !model->world->set_back;
  if (client < 0 || model->scope->flags & DELIVERY) return 0;
  if (client == 1 && model->scope->flags & LAGS) return -WRONG_US;
  return offsets_us[client] + (wrong ? WRONG_US : 0);
}

int world_client_number(const struct model *model, const struct client *client) {
  return (int)(client - model->world->clients);
}

int64_t world_clock_us(const struct model *model, const struct client *client) {
  return model->world->real_us + world_offset_us(model, world_client_number(model, client));
}

static bool has_more_time(const struct model *model) {
  const int64_t *instants = model->scope->instants_us;
  int64_t next = model->world->instant + 1;
  return next < INSTANTS_MOST && instants[next] > instants[next - 1];
}

struct sent world_next_operation(const struct model *model, const struct client *client,
                                 size_t *index) {
  size_t (*reorder)(const weir_machine *, size_t) = model->mutant->reorder;
  size_t returns = (size_t)client->returns;
  *index = (size_t)client->landed;
  if (model->cluster != NULL) return cluster_next(model, client);
  if (reorder != NULL && *index >= returns)
    *index = returns + reorder(client->machine, *index - returns);
  return (struct sent){.operation = client->operations[*index], .half = client->half};
}

/* --- what may come next ------------------------------------------------------------------------
 */

static size_t busy_steps(const struct model *model, int who, struct step *steps) {
  const struct world *world = model->world;
  const struct client *client = &world->clients[who];
  unsigned flags = model->scope->flags;
  size_t count = 0;
  if (client->paused) {
    steps[count++] = (struct step){WAKE, who, 0};
  } else if ((size_t)client->landed == client_sent(client)) {
    steps[count++] = (struct step){ABSORB, who, 0};
  } else {
    bool after = world->real_us > client->deadline_us;
    steps[count++] = (struct step){LAND, who, 0};
    if (flags & LOSS && !world->lost) steps[count++] = (struct step){LOSES, who, 0};
    bool returns = client->landed == 0 && client->returns > 0 && flags & LOSS && !world->lost;
    if (returns || (after && !client->half && client->machine->frame.phase == WEIR_PHASE_TAKE_BACK))
      steps[count++] = (struct step){NOT_SENT, who, 0};
  }
  if (flags & CRASH && !world->crashed) steps[count++] = (struct step){CRASHES, who, 0};
  return count + outage_steps(model, who, steps + count);
}

/* Whether it must wait before it asks again. */
static bool rests(const struct model *model, const struct client *client) {
  int64_t since_us = world_clock_us(model, client) - client->round_us;
  return !client->busy && client->next_request > 0 && since_us < model->scope->rest_us &&
         client_next_request(model, client) != NULL;
}

static size_t client_steps(const struct model *model, int who, struct step *steps) {
  const struct client *client = &model->world->clients[who];
  if (client->busy) return busy_steps(model, who, steps);
  size_t count = 0;
  if (who == 0 && model->scope->flags & SET_BACK && !model->world->set_back)
    steps[count++] = (struct step){SETS_BACK, who, 0};
  if (count > 0 && client->next_request > 0) return count; /* a wrong clock admits one request */
  if (client_next_request(model, client) != NULL && !rests(model, client))
    steps[count++] = (struct step){START, who, 0};
  bool twice = model->requests[who][1].wanted[0].given && client->next_request == 0;
  if (model->scope->flags & STALE && twice && client->wallet->early_us == 0)
    steps[count++] = (struct step){READS, who, 0};
  return count + outage_steps(model, who, steps + count);
}

/* Time waits for operations that must land in time. */
static bool may_tick(const struct model *model) {
  if (!has_more_time(model)) return false;
  int64_t next = model->edge_us + model->scope->instants_us[model->world->instant + 1];
  for (int i = 0; i < CLIENTS_MOST && !(model->scope->flags & OVERDUE); i++) {
    const struct client *client = &model->world->clients[i];
    if (client->busy && (size_t)client->landed < client_sent(client) && client->lands_by_us < next)
      return false;
  }
  return true;
}

/* Taking in answers touches nothing that others see. Where the clock does not matter to what
 * follows, because time is over or the answers are those of a charge or a take-back that look at it
 * only to know whether they are late, it may as well happen at once. A client that stops before it has them may as
 * well stop at once, too: others see nothing of either. */
static bool may_hurry(const struct model *model, const struct client *client) {
  unsigned flags = model->scope->flags;
  bool waits = client->paused || (size_t)client->landed == client_sent(client);
  if (!client->busy || !waits) return false;
  if (!has_more_time(model)) return true;
  return !(flags & (LATE | OVERDUE)) && !model->reads_clocks && !client->paused &&
         client->machine->frame.phase != WEIR_PHASE_LOOK;
}

static size_t evictions(const struct world *world, struct step *steps) {
  size_t count = 0;
  for (int i = 0; i < KEYS_MOST; i++)
    if (world->keys[i].present) steps[count++] = (struct step){EVICTS, 0, i};
  return count;
}

size_t world_steps(const struct model *model, struct step steps[STEPS_MOST]) {
  const struct world *world = model->world;
  size_t count = 0;
  for (int i = 0; i < CLIENTS_MOST; i++) {
    bool lands = shared_reads_what_stays(model, &world->clients[i]);
    if (!lands && !may_hurry(model, &world->clients[i])) continue;
    steps[count++] = (struct step){lands ? LAND : world->clients[i].paused ? WAKE : ABSORB, i, 0};
    if (model->scope->flags & CRASH && !world->crashed && !lands)
      steps[count++] = (struct step){CRASHES, i, 0};
    return count;
  }
  bool over = true;
  for (int i = 0; i < CLIENTS_MOST; i++) {
    count += client_steps(model, i, steps + count);
    over = over && count == 0 && !rests(model, &world->clients[i]);
  }
  if (over) return 0;
  if (may_tick(model)) steps[count++] = (struct step){TICK, 0, 0};
  if (world->orphans[0].operation.ttl_us != 0) steps[count++] = (struct step){ORPHAN_LANDS, 0, 0};
  if (model->cluster != NULL) count += cluster_steps(model, steps + count);
  if (model->scope->flags & FLUSH && !world->flushed) steps[count++] = (struct step){FLUSHES, 0, 0};
  if (model->mutant->withdraws && !world->withdrawn)
    steps[count++] = (struct step){WITHDRAWS, 0, 0};
  if (model->scope->flags & EVICTION && !world->evicted) count += evictions(world, steps + count);
  return count;
}

/* --- what each does ----------------------------------------------------------------------------
 */

static void tick(struct model *model) {
  struct world *world = model->world;
  world->instant++;
  world->real_us = model->edge_us + model->scope->instants_us[world->instant];
  story_print(model, "time passes to E%+lld", (long long)model->scope->instants_us[world->instant]);
}

void world_apply(struct model *model, struct step step) {
  struct client *client = &model->world->clients[step.who];
  switch (step.kind) {
    case START:
      client_start(model, client);
      break;
    case LAND:
      client_land(model, client);
      break;
    case ABSORB:
      client_absorb(model, client);
      break;
    case WAKE:
      client_wake(model, client);
      break;
    case TICK:
      tick(model);
      break;
    case CRASHES:
      fault_crash(model, client);
      break;
    case EVICTS:
      fault_evict(model, &model->world->keys[step.what]);
      break;
    case FLUSHES:
      fault_flush(model);
      break;
    case WITHDRAWS:
      model->world->withdrawn = true;
      story_print(model, "from now on the store keeps no bounds");
      break;
    case LOSES:
      fault_lose(model, client, WEIR_UNKNOWN);
      break;
    case NOT_SENT:
      fault_lose(model, client, WEIR_NOT_SENT);
      break;
    case ORPHAN_LANDS:
      fault_land_orphan(model);
      break;
    case READS:
      client->wallet->early_us = world_clock_us(model, client);
      client->wallet->early_for = client->next_request + 1;
      story_print(model, "client %d reads its clock for its second request", step.who);
      break;
    case SETS_BACK:
      model->world->set_back = true;
      story_print(model, "client %d sets its clock back", step.who);
      if (!model->mutant->keeps_memo) memset(client->memo, 0, model->memo_bytes);
      if (client->wallet != NULL) lease_empty(model, client);
      break;
    case CUTS:
      outage_cut(model, client);
      break;
    case COMES_BACK:
      outage_end(model, client);
      break;
    case MIGRATES:
      cluster_migrate(model, step.what);
      break;
  }
}
