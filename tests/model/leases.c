/* What a client does with its stock: it uses what it has charged before, takes its own lots first,
 * charges ahead, and gives back what it did not use. The stock is that of src/limits/memo/lease.c; here
 * stands what src/limits/limiter does around it. */
#include <string.h>

#include "algorithm/method.h"
#include "algorithm/plan.h"
#include "mutants.h"
#include "truth.h"

static struct record *record_number(struct model *model, const struct client *client, int slot) {
  return &model->world->records[client->first_record + slot];
}

static int slot_of(const struct client *client, const weir_claim *request) {
  return (int)(request - client->requests);
}

/* What the store must hold besides, or (below 0) need not hold any more. */
static void owe(struct model *model, int64_t place, int64_t cost) {
  const struct truth *truth = truth_of(model, 0);
  if (truth->owes != NULL) truth->owes(model, 0, place, cost);
}

/* --- using -------------------------------------------------------------------------------------
 */

/* Clocks are read before the stock is locked: a reading that is older than a lot is read again. */
static int64_t read_clock(struct model *model, struct client *client) {
  int64_t now_us = client->start_us;
  if (client->wallet->early_us != 0 && client->next_request - 1 == client->wallet->early_for) {
    now_us = client->wallet->early_us;
    client->wallet->early_us = 0;
  }
  if (weir_stock_is_ahead(client->stock, now_us) && !model->mutant->trusts_old_readings)
    now_us = world_clock_us(model, client);
  return now_us;
}

static bool use(const struct model *model, struct client *client, int64_t now_us,
                const weir_claim *request, int64_t *at_us) {
  int64_t cost = request->verdict.charge;
  unsigned class = model->mutant->uses_any_lot ? 0 : request->ask.class;
  int64_t latest_us = now_us;
  if (model->mutant->trusts_old_readings && now_us < client->stock->lots[0].from_us)
    latest_us = client->stock->lots[0].from_us;
  bool used = weir_stock_use(client->stock, &model->lease, latest_us, cost, at_us, class);
  if (used && !model->lease.drains) *at_us = now_us;
  return used;
}

bool lease_answers(struct model *model, struct client *client, weir_claim *request) {
  if (client->wallet == NULL || request->ask.kind != WEIR_TAKE || request->ask.costs != NULL)
    return false;
  int64_t now_us = read_clock(model, client);
  int64_t places[WEIR_RULES_MOST] = {0};
  int64_t at_us;
  if (!keys_let(model, client, now_us)) return false;
  weir_stock_places(client->stock, &model->lease, now_us, places, request->ask.class);
  if (!use(model, client, now_us, request, &at_us)) return false;
  struct record *record = record_number(model, client, slot_of(client, request));
  if (truth_of(model, 0) == &truth_quota) client->charged_cell[0] = places[0];
  record->held = (int32_t)request->verdict.charge;
  record->lag_us = (int32_t)(now_us - at_us);
  request->verdict.decision = (weir_decision){.allowed = true,
                                              .source = WEIR_SOURCE_LOCAL,
                                              .cost = request->verdict.charge,
                                              .at_us = now_us};
  request->verdict.status = WEIR_OK;
  request->verdict.answered = true;
  story_print(model, ", and has it");
  return true;
}

static weir_view view_of(const struct model *model, const struct client *client) {
  return (weir_view){client_stack(model, client), &model->settings, client->memo, client->start_us};
}

/* What is usable counts as room: only the rest can be denied out of the memo. */
bool lease_denies(struct model *model, struct client *client, weir_claim *request) {
  int64_t room = 0;
  if (client->wallet != NULL)
    room = weir_stock_room(client->stock, client->start_us, request->ask.class);
  const weir_view view = view_of(model, client);
  unsigned class = request->ask.class;
  request->verdict.held = room;
  if (model->mutant->repeats_for_all) request->ask.class = client->memo->denied_rank;
  bool denied = weir_settle_locally(&view, request);
  request->ask.class = class;
  request->verdict.held = 0;
  if (!denied) weir_claim_offer(client_stack(model, client), request);
  return denied;
}

/* --- a group -----------------------------------------------------------------------------------
 */

/* What may be accepted later has no use for lots that end before. */
void lease_hold(struct model *model, struct client *client, weir_claim *request) {
  if (client->wallet == NULL || request->ask.kind != WEIR_TAKE || request->ask.costs != NULL ||
      request->ask.waits)
    return;
  int slot = slot_of(client, request);
  int64_t most =
      request->verdict.charge - 1; /* what is covered is answered, or must read a record */
  int64_t held =
      weir_stock_hold(client->stock, &model->lease, client->start_us, most, request->ask.class);
  client->wallet->held[slot] = (int32_t)held;
  record_number(model, client, slot)->held = (int32_t)held;
  request->verdict.held = held;
  request->verdict.charge -= held;
}

int64_t lease_asked(const struct client *client) {
  return client->wallet != NULL ? client->wallet->request.ask.cost : 0;
}

int64_t lease_held(const struct client *client, const weir_claim *request) {
  return client->wallet != NULL ? client->wallet->held[slot_of(client, request)] : 0;
}

/* Of a bucket's truth a lease is a record like a request: what is known of a bucket is known from
 * what was charged. */
static void record_lease(struct model *model, struct client *client, enum state state,
                         int64_t stamp_us, int64_t cost) {
  if (truth_of(model, 0) != &truth_bucket) return;
  struct record *record = record_number(model, client, GROUP_MOST - 1);
  uint64_t after = record->state == NOT_ASKED ? model->world->answered : record->after;
  bool charged = record->charged || state == ADMITTED;
  bool unknown = client->wallet->request.verdict.status == WEIR_UNKNOWN_OUTCOME;
  bool may_stay = record->may_stay || (state == FAILED && unknown && charged);
  int32_t less = record->state == OPEN ? record->cost[0] - (int32_t)cost : 0;
  *record = (struct record){.state = (uint8_t)state,
                            .wish = LEASES,
                            .class = (uint8_t)client->wallet->request.ask.class,
                            .stamp_us = stamp_us,
                            .cost = {(int32_t)cost},
                            .held = less,
                            .after = (uint32_t)after,
                            .may_stay = may_stay,
                            .charged = charged};
}

/* Appends what is charged ahead, last of the group: its callers are decided before it. */
weir_claim *lease_ask(struct model *model, struct client *client, weir_claim *group,
                      int64_t lease) {
  int64_t most =
      weir_stack_least_of_class(client_stack(model, client), group != NULL ? group->ask.class : 0);
  weir_claim *request;
  if (lease == 0 || keys_bar(model, client)) return group;
  for (request = group; request != NULL; request = request->next)
    most -= request->verdict.charge;
  if (lease > most && !model->mutant->leases_too_much) lease = most;
  if (lease < 1) return group;
  request = &client->wallet->request;
  *request = (weir_claim){.ask = {.kind = WEIR_TAKE,
                                  .cost = lease,
                                  .class = group != NULL ? group->ask.class : 0,
                                  .up_to = !model->mutant->leases_too_much}};
  if (model->keys != NULL) request->ask.terms = WEIR_AHEAD; /* by which record.c tells it */
  record_lease(model, client, OPEN, client->start_us, lease);
  if (model->mutant->leases_first || group == NULL) {
    request->next = group;
    return request;
  }
  weir_claim *last = group;
  while (last->next != NULL)
    last = last->next;
  last->next = request;
  return group;
}

/* What the limiter does before a lot is used up: a group that only charges ahead, what is not held so far. */
weir_claim *lease_refill(struct model *model, struct client *client, int64_t lease) {
  for (int i = 0; i < WEIR_LOTS && model->mutant->refills_idle; i++)
    client->stock->lots[i].until_us += WRONG_US;
  if (!model->mutant->refills_idle) lease -= weir_stock_room(client->stock, client->start_us, 0);
  return lease > 0 ? lease_ask(model, client, NULL, lease) : NULL;
}

/* A group that only charges ahead, as if the next window had begun. */
weir_claim *lease_next(struct model *model, struct client *client, int64_t lease) {
  const weir_view view = view_of(model, client);
  client->from_us = weir_view_next(&view);
  if (client->from_us == 0) return NULL;
  weir_claim *request = lease_ask(model, client, NULL, lease);
  if (request != NULL) request->ask.terms = WEIR_AHEAD_NEXT;
  return request;
}

/* A lease is granted by an answer that is certain and in time. */
static void settle_lease(struct model *model, struct client *client) {
  struct wallet *wallet = client->wallet;
  const weir_claim *request = &wallet->request;
  bool granted = request->verdict.status == WEIR_OK && request->verdict.decision.allowed;
  bool grants_anyway =
      (model->mutant->grants_late && request->verdict.status == WEIR_TIMEOUT) ||
      (model->mutant->grants_unknown && request->verdict.status == WEIR_UNKNOWN_OUTCOME) ||
      (model->mutant->grants_denied && request->verdict.status == WEIR_OK);
  if (granted || grants_anyway) {
    wallet->ahead = request->verdict.charge;
    wallet->ahead_us = granted ? request->verdict.decision.at_us : client->machine->frame.now_us;
  }
  enum state state = granted ? ADMITTED : request->verdict.status == WEIR_OK ? DENIED : FAILED;
  record_lease(model, client, state, granted ? wallet->ahead_us : client->round_us,
               request->verdict.charge);
  if (granted)
    story_print(model, "; client %d leases %d", world_client_number(model, client),
                (int)request->verdict.charge);
}

/* A decision in another cell than what was held for it is none: what it was charged is charged
 * ahead, and it asks again. True: this request has its answer. */
bool lease_decided(struct model *model, struct client *client, weir_claim *request) {
  struct wallet *wallet = client->wallet;
  if (wallet == NULL) return true;
  int slot = slot_of(client, request);
  int64_t held = wallet->held[slot];
  bool spared = request->verdict.decision.source == WEIR_SOURCE_UNLIMITED;
  if (held == 0 || request->verdict.status != WEIR_OK || !request->verdict.decision.allowed ||
      spared)
    return true;
  if (weir_stock_holds(client->stock, request->verdict.decision.at_us)) {
    weir_stock_spend(client->stock, held);
    return true;
  }
  wallet->again |= 1U << slot;
  wallet->ahead += request->verdict.charge;
  wallet->ahead_us = request->verdict.decision.at_us;
  record_lease(model, client, ADMITTED, wallet->ahead_us, wallet->ahead);
  story_print(model, "; client %d must ask again", world_client_number(model, client));
  return false;
}

void lease_granted(struct model *model, struct client *client) {
  struct wallet *wallet = client->wallet;
  if (wallet == NULL || !wallet->request.verdict.answered || wallet->reported) return;
  settle_lease(model, client);
  wallet->reported = true;
}

/* A key that is blocked, or unlimited, has no use for what is held. */
static void drop_if_barred(struct model *model, struct client *client) {
  if (!keys_bar(model, client)) return;
  if (!model->mutant->keeps_barred) weir_stock_drop(client->stock, &model->lease);
  int64_t room = weir_stock_room(client->stock, world_clock_us(model, client), 0);
  if (room > 0)
    check_fails(model, CHECK_LEAK, "client %d keeps %d of a key that has no use for it",
                world_client_number(model, client), (int)room);
}

/* The machine is done: what was charged ahead is usable from now on. */
void lease_end_group(struct model *model, struct client *client) {
  struct wallet *wallet = client->wallet;
  int64_t places[WEIR_RULES_MOST];
  if (wallet == NULL) return;
  weir_stock_release(client->stock, &model->lease, world_clock_us(model, client));
  memset(wallet->held, 0, sizeof wallet->held);
  drop_if_barred(model, client);
  if (wallet->ahead > 0) {
    weir_machine_places(client->machine, places);
    weir_stock_grant(client->stock, &model->lease, world_clock_us(model, client), wallet->ahead_us,
                     wallet->ahead, places, wallet->request.ask.class);
    if (model->mutant->mislease != NULL) model->mutant->mislease(model, client);
    owe(model, places[0], wallet->ahead);
  }
  wallet->ahead = wallet->ahead_us = 0;
  wallet->reported = false;
  client->stock->lost = client->stock->wanted = 0;
  memset(&wallet->request, 0, sizeof wallet->request);
}

/* --- giving back -------------------------------------------------------------------------------
 */

static weir_operation return_of(const struct model *model, const weir_lot *lot, int64_t place) {
  weir_operation operation = {
      .kind = WEIR_SUB,
      .counter = {.place = WEIR_PLACE_COUNT},
      .ttl_us = weir_method_ttl_us(&model->stack.rules[0], &model->settings)};
  weir_rule_return(&model->stack.rules[0], place, lot->left, &operation);
  return operation;
}

/* What is owed leaves in front of the next round's operations. */
void lease_plan_returns(struct model *model, struct client *client) {
  struct wallet *wallet = client->wallet;
  client->returns = 0;
  if (wallet == NULL || model->mutant->keeps_owed) return;
  if (!weir_stock_owes(client->stock, &model->lease, world_clock_us(model, client))) return;
  for (int n = 0; n < 2; n++) {
    weir_lot *lot = &wallet->returning[n];
    int64_t places[WEIR_RULES_MOST];
    if (!weir_stock_take_owed(client->stock, &model->lease, lot, places)) return;
    weir_lease_let_go(&model->lease, client->memo, lot->left, places);
    wallet->places[n] = places[0];
    owe(model, places[0], -lot->left);
    client->operations[n] = model->mutant->misreturn != NULL
                                ? model->mutant->misreturn(model, client, lot)
                                : return_of(model, lot, places[0]);
    client->returns++;
  }
}

/* What of a place is on its way back and has not landed. */
int64_t lease_returning(const struct client *client, int64_t place) {
  int64_t sum = 0;
  for (int n = client->landed; n < client->returns && client->wallet != NULL; n++)
    if (client->wallet->places[n] == place) sum += client->wallet->returning[n].left;
  return sum;
}

/* Some of it may stay for ever. */
void lease_lose_returns(struct model *model, const struct client *client, weir_outcome outcome) {
  if (outcome != WEIR_UNKNOWN || client->wallet == NULL) return;
  for (int n = client->landed; n < client->returns; n++)
    model->world->leak[0] += client->wallet->returning[n].left;
}

/* What was not sent is owed again; what got no answer is not. */
void lease_absorb_returns(struct model *model, struct client *client) {
  struct wallet *wallet = client->wallet;
  for (int n = 0; n < client->returns; n++) {
    weir_outcome outcome = client->operations[n].outcome;
    bool again =
        outcome == WEIR_NOT_SENT || (outcome == WEIR_UNKNOWN && model->mutant->returns_twice);
    if (!again) continue;
    weir_stock_owe(client->stock, &model->lease, &wallet->returning[n], &wallet->places[n]);
    if (outcome == WEIR_NOT_SENT) owe(model, wallet->places[n], wallet->returning[n].left);
  }
  if (wallet == NULL) return;
  memset(wallet->returning, 0, sizeof wallet->returning);
  memset(wallet->places, 0, sizeof wallet->places);
  client->returns = 0;
}

/* The clock was set back: what is charged stays so, and nobody uses it. */
void lease_empty(struct model *model, struct client *client) {
  if (model->mutant->keeps_lots) return;
  for (size_t i = 0; i < WEIR_LOTS_IN_ALL; i++) {
    const weir_lot *lot = &client->stock->lots[i];
    if (lot->left == 0) continue;
    owe(model, client->stock->places[i], -lot->left);
    model->world->leak[0] += lot->left;
  }
  weir_stock_empty(client->stock, &model->lease);
  client->stock->lost = 0;
}
