/* What a client does whose policy is LOCAL, where it may be cut off from the store: it goes on by
 * its account, pays what it owes when it is back, and holds its share for a while. The account is
 * that of src/limits/memo/account.c and src/limits/limiter/continue.c; here stands what account.c of src/limits/limiter
 * does around it, without its locks. */
#include <string.h>

#include "mutants.h"
#include "outage.h"
#include "truth.h"

/* --- being cut off -----------------------------------------------------------------------------
 */

/* Nothing of a round was sent, or all of it has landed: what is in between is an answer that is
 * lost. */
size_t outage_steps(const struct model *model, int who, struct step *steps) {
  const struct client *client = &model->world->clients[who];
  const struct outage *outage = client->outage;
  if (outage == NULL || client->crashed) return 0;
  bool wants = client->busy || client_next_request(model, client) != NULL;
  bool between =
      !client->half && (client->landed == 0 || (size_t)client->landed == client_sent(client));
  if (!wants) return 0;
  if (outage->away) {
    if (!client->busy) steps[0] = (struct step){COMES_BACK, who, 0};
    return !client->busy;
  }
  if (!between || outage->cuts == OUTAGES_MOST) return 0;
  steps[0] = (struct step){CUTS, who, 0};
  return 1;
}

/* The operations of its round find no store: what was to go back stays. */
void outage_round(struct model *model, struct client *client) {
  size_t sent = client_sent(client);
  if (client->outage == NULL || !client->outage->away || (size_t)client->landed == sent) return;
  bool gives_back = client->machine->frame.phase == WEIR_PHASE_TAKE_BACK;
  for (int i = 0; i < (int)model->stack.count && gives_back; i++)
    truth_of(model, i)->excuse(model, client, i);
  for (size_t i = 0; i < sent; i++) {
    client->operations[i].outcome = WEIR_NOT_SENT;
    client->operations[i].late = client->operations[i].slow = false;
  }
  client->landed = (int32_t)sent;
  client->lost = true;
}

void outage_cut(struct model *model, struct client *client) {
  client->outage->away = true;
  client->outage->cuts++;
  story_print(model, "client %d is cut off", world_client_number(model, client));
  if (client->busy) outage_round(model, client);
}

void outage_end(struct model *model, struct client *client) {
  client->outage->away = false;
  story_print(model, "client %d is back", world_client_number(model, client));
}

/* --- answering ---------------------------------------------------------------------------------
 */

uint64_t outage_secret(const struct model *model, const struct client *client) {
  return model->scope->secret + (uint64_t)world_client_number(model, client) * 1000;
}

static weir_inside inside_of(struct inside *inside) {
  const weir_stack *own = client_stack(inside->model, inside->client);
  bool by_most = inside->model->mutant->continues_by_most;
  return (weir_inside){.rules = by_most ? &inside->model->another : own,
                       .continued = client_continued(inside->model, inside->client),
                       .settings = &inside->model->settings,
                       .settle = inside_settle,
                       .owner = inside};
}

static void roll(struct model *model, struct client *client) {
  weir_account *account = client->account;
  int64_t before[RULES_MOST];
  for (size_t i = 0; i < model->stack.count; i++)
    before[i] = account->parts[i].owed;
  int64_t now_us = world_clock_us(model, client);
  int64_t dropped = weir_account_roll(account, client_stack(model, client), now_us);
  for (size_t i = 0; i < model->stack.count && model->mutant->pays_later; i++)
    account->parts[i].owed = before[i];
  if (model->mutant->pays_later) return;
  dues_rolled(model, client, before, dropped, now_us);
}

/* All that was charged of other keys was each client's own. */
static void read_pools(const struct model *model, const struct client *client,
                       weir_pool pools[RULES_MOST]) {
  static const weir_pool alone = {.mine = 1000, .all = 1000, .cost = 1000, .charges = 1000};
  for (size_t i = 0; i < RULES_MOST; i++)
    pools[i] = model->scope->flags & STICKY ? alone : client->outage->pools[i];
}

/* The account begins as if nothing were held. */
static void forget_held(const struct model *model, struct client *client) {
  for (int n = 0; n < INSIDE_KEYS_MOST && model->mutant->forgets_held; n++)
    client->outage->keys[n].value = 0;
}

/* An outage begins for the key, unless one goes on. */
static bool be_ready(struct model *model, struct client *client, const weir_claim *request,
                     bool *begun) {
  struct outage *outage = client->outage;
  weir_account *account = client->account;
  struct inside owner = {model, client};
  const weir_inside inside = inside_of(&owner);
  int64_t now_us = world_clock_us(model, client);
  bool over = weir_account_is_quiet(account, now_us);
  bool ready = outage->has_account && !over;
  bool told = model->scope->flags & STICKY && !model->mutant->takes_new_keys;
  weir_pool pools[RULES_MOST];
  *begun = !ready;
  read_pools(model, client, pools);
  if (!ready) {
    ready = weir_continue_begin(&inside, account, outage->has_account, request, client->memo, pools,
                                (weir_peers){CLIENTS_MOST - 1, told}, now_us);
    if (ready) forget_held(model, client);
  }
  if (!ready) return false;
  account->hold_until_us = 0;
  outage->has_account = true;
  dues_begin(model, client, now_us, request->verdict.away);
  return true;
}

static void redraw(const struct model *model, struct client *client) {
  for (size_t i = 0; i < model->stack.count && model->mutant->redraws; i++)
    client->account->parts[i].opened = client->account->parts[i].begun = false;
}

/* As if it were held to the end of the epoch in which it was entered. */
static void drop_ahead(const struct model *model, struct client *client) {
  weir_account_part *part = &client->account->parts[0];
  int64_t now_us = world_clock_us(model, client);
  if (model->mutant->drops_ahead && part->owed_us > now_us)
    part->owed_us -= model->stack.rules[0].period_us;
}

static bool answer_by_account(struct model *model, struct client *client, weir_claim *request) {
  struct inside owner = {model, client};
  const weir_inside inside = inside_of(&owner);
  bool unsure = request->verdict.status == WEIR_UNKNOWN_OUTCOME;
  weir_decision decision;
  int64_t owed;
  bool begun;
  if (client->outage == NULL || request->ask.kind != WEIR_TAKE ||
      request->verdict.status == WEIR_CONTENDED ||
      !weir_policy_answers(WEIR_FALLBACK_LOCAL, request->verdict.status) ||
      !be_ready(model, client, request, &begun))
    return false;
  client->account->away = request->verdict.away;
  client->account->will_hold =
      (client->account->will_hold && !model->mutant->holds_by_the_last) || request->verdict.gone;
  if (model->mutant->holds_when_late) client->account->will_hold = true;
  roll(model, client);
  redraw(model, client);
  bool owes = !unsure || model->mutant->owes_what_was_sent;
  if (!begun && weir_continue_counts(client_stack(model, client), client->account, request)) {
    weir_continue_owe_held(&inside, client->account, request, owes);
    decision = request->verdict.decision;
  } else if (!weir_continue_admit(&inside, client->account, request, outage_secret(model, client),
                                  owes ? WEIR_CONTINUE_OWES : WEIR_CONTINUE_UNSURE, &decision,
                                  &owed)) {
    return false;
  }
  drop_ahead(model, client);
  if (model->mutant->one_at_least && !decision.allowed && client->account->parts[0].charged == 0) {
    decision.allowed = true;
    weir_account_admit(client->account, &model->stack.rules[0], 0, request->verdict.charge, 1,
                       decision.at_us, owes);
  }
  request->verdict.decision = decision;
  request->verdict.decision.source =
      request->verdict.away ? WEIR_SOURCE_FALLBACK : WEIR_SOURCE_LATE;
  request->verdict.decision.store_status = request->verdict.status;
  if (decision.cost > 0) request->verdict.charge = decision.cost;
  request->verdict.status = WEIR_OK;
  return true;
}

/* Where nobody is cut off the store always answers: whoever is admitted without it goes over the
 * bound. */
static void fall_back(const struct model *model, const struct client *client, weir_claim *request) {
  weir_source source = request->verdict.away ? WEIR_SOURCE_FALLBACK : WEIR_SOURCE_LATE;
  if (request->ask.kind != WEIR_TAKE ||
      !weir_policy_answers(WEIR_FALLBACK_LOCAL, request->verdict.status))
    return;
  weir_decision answer =
      weir_policy_decide(WEIR_FALLBACK_LOCAL, source, client_stack(model, client), &request->ask,
                         world_clock_us(model, client));
  if (request->verdict.away || model->mutant->late_admits) answer.allowed = true;
  if (!answer.allowed) return; /* which denies nothing that the store could be held to */
  request->verdict.status = WEIR_OK;
  request->verdict.decision = answer;
}

/* In the place of none. */
void policy_answer(struct model *model, struct client *client, weir_claim *request) {
  if (!answer_by_account(model, client, request)) fall_back(model, client, request);
}

/* An account answers when the group is over: what it found out is known by then. */
bool policy_waits(const struct client *client, const weir_claim *request) {
  return client->outage != NULL && request->verdict.answered && request->ask.kind == WEIR_TAKE &&
         request->verdict.status != WEIR_OK;
}

bool outage_withholds(struct model *model, struct client *client, weir_claim *request) {
  struct inside owner = {model, client};
  const weir_inside inside = inside_of(&owner);
  if (client->outage == NULL || request->ask.kind != WEIR_TAKE || !client->outage->has_account ||
      !weir_account_holds(client->account, world_clock_us(model, client)) || model->mutant->no_hold)
    return false;
  roll(model, client);
  redraw(model, client);
  if (!weir_continue_withholds(&inside, client->account, request, outage_secret(model, client),
                               world_clock_us(model, client)))
    return false;
  dues_withheld(model, client);
  return true;
}

/* --- paying ------------------------------------------------------------------------------------
 */

/* The payment has the last record of its group. Of a bucket it is a charge like a lease's: what is
 * known of a bucket is known from what was charged. Of what is held as well: nobody holds it. */
static struct record *record_of_payment(struct model *model, const struct client *client) {
  return &model->world->records[client->first_record + GROUP_MOST - 1];
}

weir_claim *outage_offer(struct model *model, struct client *client, weir_claim *group) {
  struct outage *outage = client->outage;
  if (outage == NULL || !outage->has_account || group->ask.kind != WEIR_TAKE) return group;
  roll(model, client);
  memset(outage->offered, 0, sizeof outage->offered);
  const weir_stack *stack = client_stack(model, client);
  if (!weir_continue_offer(stack, client->account, group, weir_stack_least_capacity(stack),
                           &outage->paid))
    return group;
  for (size_t i = 0; i < model->stack.count && model->mutant->pays_later; i++)
    outage->paid.until_us[i] = INT64_MAX;
  memcpy(outage->offered, outage->paid.costs, sizeof outage->offered);
  outage->payment = (weir_claim){.next = group,
                                 .ask = {.kind = WEIR_TAKE,
                                         .terms = WEIR_DEBT,
                                         .payment = &outage->paid,
                                         .costs = outage->paid.costs}};
  bool leases = truth_of(model, 0) == &truth_bucket || truth_of(model, 0) == &truth_in_flight;
  struct record *record = record_of_payment(model, client);
  *record = (struct record){.state = OPEN,
                            .wish = leases ? LEASES : TAKES,
                            .stamp_us = client->start_us,
                            .after = model->keeps_order ? model->world->answered : 0};
  for (size_t i = 0; i < model->stack.count; i++)
    record->cost[i] = (int32_t)outage->offered[i];
  return &outage->payment;
}

/* It was settled just now: what it pays is charged like an admission. */
void outage_paid(struct model *model, struct client *client) {
  struct outage *outage = client->outage;
  const weir_claim *payment = &outage->payment;
  struct record *record = record_of_payment(model, client);
  if (!payment->verdict.answered || record->state != OPEN) return;
  if (payment->verdict.status != WEIR_OK) {
    record->state = FAILED;
    if (payment->verdict.status == WEIR_UNKNOWN_OUTCOME && record->charged) record->may_stay = true;
    return;
  }
  int64_t sum = 0;
  for (size_t i = 0; i < model->stack.count; i++) {
    sum += outage->paid.costs[i];
  }
  for (size_t i = 0; i < model->stack.count && sum > 0; i++)
    record->cost[i] = (int32_t)outage->paid.costs[i];
  if (record->wish == LEASES && sum > 0)
    record->held = (int32_t)(outage->offered[0] - outage->paid.costs[0]);
  record->state = sum > 0 ? ADMITTED : record->wish == LEASES ? DENIED : DONE;
  if (sum > 0) record->stamp_us = payment->verdict.decision.at_us;
  story_print(model, "; client %d pays %d", world_client_number(model, client), (int)sum);
  if (sum > 0) check_paid(model, client, record);
}

static void settle_payment(struct model *model, struct client *client) {
  struct outage *outage = client->outage;
  int64_t paid, unpaid;
  bool unknown = outage->payment.verdict.status == WEIR_UNKNOWN_OUTCOME;
  if (unknown && model->mutant->pays_twice) {
    int64_t sum = 0;
    for (size_t i = 0; i < model->stack.count; i++)
      sum += outage->offered[i];
    dues_paid(model, client, sum, 0);
    return;
  }
  if (weir_continue_pay(client_stack(model, client), client->account, &outage->payment,
                        outage->offered, &paid, &unpaid))
    dues_paid(model, client, paid, unpaid);
}

/* The group is decided: what was paid, and what its notes may teach. */
void outage_settle(struct model *model, struct client *client) {
  struct outage *outage = client->outage;
  weir_machine *machine = client->machine;
  const weir_claim *first = machine->frame.requests;
  int64_t dropped;
  if (outage == NULL) return;
  if (outage->has_account) {
    if (first == &outage->payment) {
      settle_payment(model, client);
      first = first->next;
    }
    struct weir_memo *learnt = machine->frame.memo;
    weir_share shares[RULES_MOST];
    for (size_t i = 0; i < model->stack.count; i++)
      shares[i] = learnt->expected[i].share;
    struct inside owner = {model, client};
    const weir_inside inside = inside_of(&owner);
    bool over = weir_continue_settle(&inside, client->account, client->memo, first, machine,
                                     outage_secret(model, client), DEADLINE_US, &dropped);
    for (size_t i = 0; i < model->stack.count && model->mutant->learns_in_hold; i++)
      learnt->expected[i].share = shares[i];
    dues_settled(model, client, first, machine);
    if (over) memset(client->account, 0, model->account_bytes);
    if (over) outage->has_account = false;
  }
  for (size_t i = 0; i < model->stack.count; i++) {
    if (machine->lessons[i].cost == 0) continue;
    outage->pools[i].mine += machine->lessons[i].mine;
    outage->pools[i].all += machine->lessons[i].all;
    outage->pools[i].cost += machine->lessons[i].cost;
    outage->pools[i].charges++;
    machine->lessons[i] = (weir_lesson){0};
  }
  memset(&outage->payment, 0, sizeof outage->payment);
  memset(outage->offered, 0, sizeof outage->offered);
  memset(&outage->paid, 0, sizeof outage->paid);
}

/* --- giving back -------------------------------------------------------------------------------
 */

/* True: some of it was paid, and goes back to the store. */
bool outage_refund(struct model *model, struct client *client, weir_claim *request,
                   struct record *taken) {
  struct outage *outage = client->outage;
  struct inside owner = {model, client};
  const weir_inside inside = inside_of(&owner);
  int64_t costs[WEIR_RULES_MOST] = {0};
  int64_t paid_us, unpaid;
  bool some = false;
  memset(outage->rest, 0, sizeof outage->rest);
  if (!outage->has_account) return false;
  for (size_t i = 0; i < model->stack.count; i++)
    costs[i] = taken->cost[i];
  request->ask.costs = costs;
  roll(model, client);
  some = weir_continue_refund(&inside, client->account, request, !taken->unsure, outage->rest,
                              &paid_us, &unpaid);
  for (size_t i = 0; i < model->stack.count && model->mutant->refunds_paid_too; i++) {
    if (client->account->parts[i].paid == 0) continue;
    outage->rest[i] = client->account->parts[i].paid--;
    some = true;
  }
  dues_given_back(model, client, taken, unpaid, outage->rest);
  request->ask.costs = outage->rest;
  if (!model->mutant->refunds_by_admission) request->ask.at_us = paid_us;
  request->ask.ends = NULL;
  if (some) dues_refunded(model, client, outage->rest);
  return some;
}
