/* Classes: what each may have of a rule, and that what is kept for higher ones is there.
 *
 * A request of class h is admitted while what the classes above k have used, and its own cost, are at most
 * L_h - L_k, whatever classes up to k ask. What these are charged and must give back may hide that for a moment:
 * so a denial is excused where both rounds that judge the request met such a charge, or the look that came
 * first. */
#include <inttypes.h>
#include <string.h>

#include "mutants.h"
#include "truth.h"

int64_t class_limit_of(const struct model *model, int rule, const weir_rule *whole,
                       unsigned class) {
  const weir_rule *text = &model->text.rules[rule];
  int64_t all = whole->burst > 0 ? whole->burst - whole->reserve : whole->limit;
  if (class == 0 || text->classes_length == 0) return all;
  int64_t percent = text->percents[class - 1];
  int64_t part = percent > 0 ? all * percent / 100 : text->class_capacities[class - 1];
  return part > 0 ? part : 1;
}

int64_t class_limit(const struct model *model, int rule, unsigned class) {
  return class_limit_of(model, rule, &model->stack.rules[rule], class);
}

bool class_is_within(const struct record *record, unsigned class) {
  return class == 0 || (record->class != 0 && record->class <= class);
}

/* --- what happens ------------------------------------------------------------------------------
 */

/* Charged, or about to be; what was given back may still be on its way. */
static bool may_be_used(const struct record *record) {
  return record->state == OPEN || record->state == ADMITTED || record->state == SETTLED ||
         record->state == GIVEN_BACK || record->may_stay;
}

static void notice(const struct model *model, struct client *client) {
  for (int i = 0; i < (int)model->stack.count; i++) {
    for (unsigned k = 0; k < model->text.class_count && k < CLASSES_MOST; k++) {
      int32_t used = 0;
      for (int n = 0; n < RECORDS_MOST; n++) {
        const struct record *record = &model->world->records[n];
        bool own = n >= client->first_record && n < client->first_record + GROUP_MOST;
        if (!own && may_be_used(record) && !class_is_within(record, k + 1)) used += record->cost[i];
      }
      if (used > client->above.used[i][k]) client->above.used[i][k] = used;
    }
  }
}

void classes_begin(struct model *model, struct client *client) {
  if (!model->has_classes) return;
  memset(&client->above, 0, sizeof client->above);
  client->above.looked = client->machine->frame.phase == WEIR_PHASE_LOOK;
  notice(model, client);
}

/* Somebody has asked for more. */
void classes_asked(struct model *model) {
  for (int i = 0; i < CLIENTS_MOST; i++)
    if (model->world->clients[i].busy) notice(model, &model->world->clients[i]);
}

void classes_round(struct client *client) {
  client->above.rounds += client->above.met;
  client->above.met = false;
}

static unsigned highest_rank(const struct client *client) {
  unsigned highest = 0;
  for (int i = 0; i < GROUP_MOST; i++) {
    unsigned rank = weir_ask_rank(&client->requests[i].ask);
    if (client->requests[i].ask.cost > 0 && rank > highest) highest = rank;
  }
  return highest;
}

/* Whether it is charged what may go back, for a class below that rank. */
static bool may_give_back(const struct client *client, unsigned rank) {
  const weir_frame *frame = &client->machine->frame;
  bool below = false;
  if (!client->busy || frame->stack == NULL) return false;
  for (int i = 0; i < GROUP_MOST; i++)
    below |= client->requests[i].ask.cost > 0 && weir_ask_rank(&client->requests[i].ask) < rank;
  bool all = (size_t)client->landed == client_sent(client);
  if (frame->phase == WEIR_PHASE_CHARGE)
    return below && (client->landed > 0 || client->half || client->machine->charged_before != 0);
  return below && frame->phase == WEIR_PHASE_TAKE_BACK && !all;
}

void classes_land(const struct model *model, struct client *client) {
  if (!model->has_classes) return;
  for (int i = 0; i < CLIENTS_MOST; i++) {
    const struct client *other = &model->world->clients[i];
    if (other != client && may_give_back(other, highest_rank(client))) client->above.met = true;
  }
}

/* --- the check ---------------------------------------------------------------------------------
 */

/* A log, and a leaky bucket where the store raises, keep what an overtaken request was charged. */
static int64_t overtaken(const struct model *model, const struct client *client, int rule) {
  bool leaky = model->text.rules[rule].kind == WEIR_LEAKY_BUCKET;
  bool keeps =
      truth_of(model, rule) == &truth_log || (leaky && model->settings.traits & WEIR_TRAIT_RAISE);
  int64_t others = 0;
  for (int i = 0; i < CLIENTS_MOST; i++)
    others += &model->world->clients[i] != client && model->requests[i][0].wanted[0].given;
  return keeps ? others : 0;
}

/* Whether a rule may deny it all the same. Of a bucket less has drained for it than for those before it whose
 * stamps are later: as much as drains in e. */
static bool may_deny(const struct model *model, const struct client *client,
                     const weir_claim *request, int i) {
  const weir_rule *text = &model->text.rules[i];
  unsigned class = request->ask.class;
  int64_t cost = request->ask.up_to ? 1 : weir_claim_cost(request, (size_t)i);
  int64_t before = check_taken_before(model, client, request, i);
  if (cost == 0) return false;
  if (text->classes_length == 0)
    return truth_of(model, i)->denies(model, client, i, request, record_of(model, client, request),
                                      cost + before);
  int64_t more = model->world->leak[i] + overtaken(model, client, i);
  if (model->settles) more += text->debt;
  int64_t unit = weir_rule_moves_in_time(text) ? text->token_units : 1;
  int64_t undrained = unit > 1 ? bucket_units(text, MARGIN_US) : 0;
  for (unsigned k = 1; k <= model->text.class_count; k++) {
    if (class != 0 && k >= class) break;
    int64_t kept = class_limit(model, i, class) - class_limit(model, i, k);
    int64_t used = client->above.used[i][k - 1] + more + before + cost;
    if (used * unit + undrained <= kept * unit) return false;
  }
  return true;
}

void classes_check_kept(struct model *model, const struct client *client,
                        const weir_claim *request) {
  int met = client->above.rounds + client->above.met;
  if (!model->has_classes || request->ask.class == 1 || request->ask.wait_us > 0 || client->late)
    return;
  for (int i = 0; i < (int)model->stack.count; i++)
    if (may_deny(model, client, request, i)) return;
  if (met >= (client->above.looked ? 1 : 2)) return;
  check_fails(model, CHECK_KEPT, "client %d was denied %" PRId64 " of what is kept for its class",
              world_client_number(model, client), request->ask.cost);
}
