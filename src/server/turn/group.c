/* Groups: what each of their members is asked, and what comes of it as one answer.
 *
 *     key in allow, tier unlimited   admits, and is not asked
 *     key in block, tier blocked     denies, and no member is asked
 *     member in shadow mode          asked behind the others, once they have admitted; has no say
 *     all members in shadow mode     asked as one, as ever; what they deny is answered as allowed
 *     any other                      of the set, whose members are all charged or none (below)
 */
#include <stdio.h>

#include "array.h"
#include "clock.h"
#include "turn/turn.h"

/* --- asking -------------------------------------------------------------------------------------
 */

/* `group`: NULL, of a limiter's name. */
static weir_status check(const weir_order *order, const weir_named_group *group,
                         weir_message *why) {
  if (group == NULL)
    *why = (weir_message){"this is a limiter: one key is accepted, and keys of a group"};
  else if (order->key_count != group->member_count)
    snprintf(why->text, sizeof why->text, "this is a group of %zu: a key for each is accepted",
             group->member_count);
  else if (order->up_to)
    *why = (weir_message){"this is a group: all of its cost is taken or none, not up to it"};
  else if (order->costs != NULL)
    *why = (weir_message){"this is a group: one cost for all of its members is accepted"};
  else if (order->says != NULL && (order->says->limit != 0 || order->says->tenant_length > 0))
    *why = (weir_message){"this is a group: a class is accepted, and neither limit nor tenant"};
  else
    return WEIR_OK;
  return WEIR_BAD_ARGUMENT;
}

/* The part that each member plays, and how many play it. */
typedef enum role { ALONE, OF_SET, BEHIND, ROLES } role;
typedef struct plan {
  weir_target targets[WEIR_CONFIG_MEMBERS_MOST];
  role roles[WEIR_CONFIG_MEMBERS_MOST];
  bool is_shadowed[WEIR_CONFIG_MEMBERS_MOST]; /* in shadow mode, with this key */
  bool has_say[WEIR_CONFIG_MEMBERS_MOST];
  size_t extras[WEIR_CONFIG_MEMBERS_MOST]; /* in turn->extras, or WEIR_NO_EXTRA */
  size_t counts[ROLES];
  size_t key_bytes; /* of all, as they are counted */
  bool is_blocked;
} plan;

static void make_plan(const weir_order *order, const weir_named_group *group, plan *made) {
  bool has_say = false; /* one that is not in shadow mode has it */
  *made = (plan){.key_bytes = 0};
  for (size_t i = 0; i < group->member_count; i++) {
    const weir_named *named = group->members[i];
    made->targets[i] = weir_named_target(named, order->keys[i].bytes, order->keys[i].length);
    made->is_shadowed[i] = !weir_named_enforces(named, order->keys[i].bytes, order->keys[i].length);
    made->key_bytes += named->prefix_length + order->keys[i].length;
    has_say |= made->targets[i].kind != WEIR_TARGET_UNLIMITED && !made->is_shadowed[i];
  }
  for (size_t i = 0; i < group->member_count; i++) {
    made->has_say[i] = !has_say || !made->is_shadowed[i];
    made->is_blocked |= made->has_say[i] && made->targets[i].kind == WEIR_TARGET_BLOCKED;
    made->roles[i] = made->targets[i].kind != WEIR_TARGET_LIMITER ? ALONE
                     : made->has_say[i]                           ? OF_SET
                                                                  : BEHIND;
    made->counts[made->roles[i]]++;
  }
}

/* A class is said to each member that has classes, as a cost is charged to each; one member at least has
 * some. What a member does not know is said of it by its name. */
static weir_status say_class(weir_turn *turn, const weir_order *order,
                             const weir_named_group *group, plan *made, weir_message *why) {
  size_t asked = 0, told = 0;
  for (size_t i = 0; i < group->member_count; i++) {
    weir_limiter *limiter = made->targets[i].limiter;
    char lowest[WEIR_CLASS_NAME_BYTES];
    weir_message refusal;
    made->extras[i] = WEIR_NO_EXTRA;
    asked += limiter != NULL;
    if (limiter == NULL || weir_limiter_read_class(limiter, 0, lowest) != WEIR_OK) continue;
    weir_status status =
        weir_turn_say(turn, order->says, group->members[i], limiter, &made->extras[i], &refusal);
    if (status != WEIR_OK) {
      snprintf(why->text, sizeof why->text, "%s: %.200s", group->members[i]->config->name,
               refusal.text);
      return status;
    }
    told++;
  }
  if (order->says == NULL || order->says->class_is_given || told > 0 || asked == 0) return WEIR_OK;
  *why = (weir_message){"class: this is a group, and none of its members has classes"};
  return WEIR_BAD_ARGUMENT;
}

/* Room for all of it has been made. */
static void add_member(weir_turn *turn, const weir_order *order, const plan *made, size_t index,
                       weir_asked_member *member, bool is_shed) {
  const weir_named *named = member->named;
  const weir_target *target = &made->targets[index];
  const weir_order_key *key = &order->keys[index];
  bool is_asked = made->roles[index] != ALONE && !made->is_blocked;
  int64_t cost = order->cost != WEIR_ORDER_OWN_COST ? order->cost : named->config->cost;
  const weir_turn_key counted = {turn->bytes.length, named->prefix_length + key->length};
  weir_bytes_add(&turn->bytes, named->prefix, named->prefix_length);
  weir_bytes_add(&turn->bytes, key->bytes, key->length);
  member->limiter = target->limiter;
  member->tier = target->tier;
  member->key_length = key->length;
  member->has_say = made->has_say[index];
  member->is_shadowed = made->is_shadowed[index];
  member->request = weir_turn_add_request(
      turn, counted, cost, weir_order_is(order, WEIR_VERB_LOOKS) ? WEIR_REQUEST_PEEK : 0U,
      is_asked ? target->limiter : NULL, named->config->store);
  turn->asked[member->request].extra = made->extras[index];
  if (is_asked && is_shed && turn->asked[member->request].limiter != NULL)
    weir_turn_shed(turn, &turn->asked[member->request]);
  if (is_asked && is_shed) return;

  /* Gives the answer of a member that no store is asked for, and what is known of the others until
   * one is. */
  bool is_blocked = target->kind == WEIR_TARGET_BLOCKED;
  weir_decision figures = {.source = WEIR_SOURCE_LOCAL, .retry_after_us = WEIR_NEVER};
  if (!is_blocked) {
    figures.retry_after_us = 0;
    figures.limit = figures.remaining = figures.reset_after_us = WEIR_NOT_KNOWN;
  }
  weir_turn_answer_alone(&turn->asked[member->request].request,
                         target->kind == WEIR_TARGET_UNLIMITED, figures);
}

uint32_t weir_groups_add(weir_turn *turn, const weir_order *order, unsigned note,
                         weir_status *status, weir_message *why) {
  const weir_registry *registry = turn->registry;
  const weir_named_group *group =
      weir_registry_find_group(registry, order->limiter, order->limiter_length);
  if (group == NULL && weir_registry_find(registry, order->limiter, order->limiter_length) == NULL)
    return weir_turn_add_order(turn, order, note, status, why); /* which says that there is none */
  *status = check(order, group, why);
  if (*status != WEIR_OK) return WEIR_NO_ANSWER;
  plan made;
  size_t count = group->member_count;
  make_plan(order, group, &made);
  *status = say_class(turn, order, group, &made, why);
  if (*status != WEIR_OK) return WEIR_NO_ANSWER;
  bool has_memory =
      weir_array_grow(&turn->members, &turn->member_room, turn->member_count + count,
                      sizeof *turn->members) &&
      weir_array_grow(&turn->asked, &turn->asked_room, turn->asked_count + count,
                      sizeof *turn->asked) &&
      weir_array_grow(&turn->sets, &turn->set_room, turn->set_count + 1, sizeof *turn->sets) &&
      weir_bytes_room(&turn->bytes, made.key_bytes) != NULL;
  weir_answer *answer = has_memory ? weir_turn_add_answer(turn, WEIR_ANSWER_GROUP, note) : NULL;
  if (answer == NULL) {
    *why = (weir_message){"the server is short of memory"};
    *status = WEIR_NO_MEMORY;
    return WEIR_NO_ANSWER;
  }
  answer->is.group.group = group;
  answer->is.group.verb = order->verb;
  answer->is.group.form = order->form;
  answer->is.group.first = turn->member_count;
  answer->is.group.set = WEIR_NO_SET;
  answer->asked = turn->asked_count;
  answer->asked_count = count;

  /* Those of the set stand side by side, and what stands behind it follows. A look is one at each. */
  bool is_shed = !weir_turn_has_room(turn, made.counts[OF_SET] + made.counts[BEHIND]);
  bool is_set =
      !weir_order_is(order, WEIR_VERB_LOOKS) && made.counts[OF_SET] > 0 && !made.is_blocked;
  for (int each = OF_SET; each <= ALONE + ROLES; each++) {
    role now = (role)(each % ROLES);
    for (size_t i = 0; i < count; i++) {
      weir_asked_member *member = &turn->members[turn->member_count + i];
      if (made.roles[i] != now) continue;
      member->named = group->members[i];
      add_member(turn, order, &made, i, member, is_shed);
    }
    if (now == BEHIND && is_set)
      answer->is.group.set =
          weir_turn_add_set(turn, made.counts[OF_SET], made.counts[BEHIND], false);
  }
  turn->member_count += count;
  return (uint32_t)(answer - turn->answers);
}

/* --- answering ----------------------------------------------------------------------------------
 */

static void tell_member(const weir_turn *turn, const weir_answer *answer,
                        const weir_asked_member *member, weir_decision *decision,
                        weir_reply *reply) {
  const weir_asked *asked = &turn->asked[member->request];
  const weir_config_limiter *config = member->named->config;
  *decision = asked->request.decision;
  *reply = (weir_reply){
      .status = asked->request.status,
      .why = weir_status_text(asked->request.status),
      .decision = asked->request.status == WEIR_OK ? decision : NULL,
      .of.limiter = member->limiter,
      .of.name = config->name,
      .of.headers = config->headers,
      .of.group = answer->is.group.group->name,
      .of.key = turn->bytes.data + asked->key + asked->request.key_length - member->key_length,
      .of.key_length = member->key_length,
      .of.id = turn->bytes.data + answer->id,
      .of.id_length = answer->id_length,
      .retry_after_us = decision->retry_after_us};
  weir_turn_tell_extra(turn, asked, reply);
}

static bool denies(const weir_reply *reply) {
  return reply->status == WEIR_OK && !reply->decision->allowed && reply->retry_after_us != 0;
}

/* The one that has no decision, or that denies longest, of those that have a say; else their number. */
static size_t find_denier(const weir_turn *turn, const weir_answer *answer,
                          const weir_reply *replies, size_t count) {
  const weir_asked_member *members = &turn->members[answer->is.group.first];
  size_t denier = count;
  if (answer->is.group.set != WEIR_NO_SET) {
    const weir_asked_set *set = &turn->sets[answer->is.group.set];
    for (size_t i = 0; i < count && set->denied_by < set->count; i++)
      if (members[i].request == set->first + set->denied_by) return i;
  }
  for (size_t i = 0; i < count; i++)
    if (members[i].has_say && replies[i].status != WEIR_OK) return i;
  for (size_t i = 0; i < count; i++) {
    if (!members[i].has_say || !denies(&replies[i])) continue;
    if (denier == count ||
        (uint64_t)replies[i].retry_after_us > (uint64_t)replies[denier].retry_after_us)
      denier = i;
  }
  return denier;
}

/* Under an admission the one with the least left, of those that have a say. */
static size_t find_speaker(const weir_asked_member *members, const weir_reply *replies,
                           size_t count) {
  size_t speaker = 0;
  while (speaker + 1 < count && !members[speaker].has_say)
    speaker++;
  for (size_t i = speaker + 1; i < count; i++) {
    const weir_decision *one = replies[i].decision;
    const weir_decision *other = replies[speaker].decision;
    bool is_known = one != NULL && one->remaining != WEIR_NOT_KNOWN && members[i].has_say;
    if (is_known &&
        (other == NULL || other->remaining == WEIR_NOT_KNOWN || one->remaining < other->remaining))
      speaker = i;
  }
  return speaker;
}

/* A denial that is answered as allowed. */
static void show_allowed(weir_reply *reply, weir_decision *decision) {
  reply->is_shadowed = true;
  decision->allowed = true;
  decision->retry_after_us = decision->delay_us = 0;
}

static void tell_whole(weir_group_reply *told, const weir_answer *answer, size_t denier) {
  const weir_named_group *group = answer->is.group.group;
  size_t count = group->member_count;
  size_t speaker = told->whole.is.group.speaker;
  const weir_reply *reply = &told->members[speaker];
  told->decision = told->decisions[speaker];
  told->whole.status = reply->status;
  told->whole.why = reply->why;
  told->whole.of.name = group->name;
  told->whole.of.key = "";
  told->whole.of.limiter = reply->of.limiter;
  told->whole.decision = reply->status == WEIR_OK ? &told->decision : NULL;
  told->whole.retry_after_us = reply->retry_after_us;
  told->whole.is.group.members = told->members;
  told->whole.is.group.member_count = count;
  told->whole.is.group.denied_by = denier < count ? reply->of.name : NULL;
  told->decision.allowed = denier == count;
  for (size_t i = 0; denier == count && i < count; i++) {
    const weir_decision *decision = &told->decisions[i];
    if (!told->counts[i] || told->members[i].status != WEIR_OK) continue;
    if (decision->delay_us > told->decision.delay_us) told->decision.delay_us = decision->delay_us;
    if (weir_source_is_policy(decision->source) && decision->source > told->decision.source)
      told->decision.source = decision->source;
  }
}

/* Charges can be settled, member by member. */
static void add_stamps(const weir_turn *turn, const weir_answer *answer, weir_group_reply *told) {
  const weir_asked_member *members = &turn->members[answer->is.group.first];
  if (!(answer->is.group.verb->flags & WEIR_VERB_STAMPS) || told->whole.status != WEIR_OK ||
      !told->decision.allowed)
    return;
  for (size_t i = 0; i < told->whole.is.group.member_count; i++) {
    weir_reply *reply = &told->members[i];
    bool is_idle = told->whole.is_shadowed || reply->is_shadowed || reply->of.limiter == NULL ||
                   reply->status != WEIR_OK;
    reply->kind = WEIR_REPLY_TAKEN;
    reply->is.stamp =
        weir_turn_stamp(turn, &turn->asked[members[i].request], members[i].tier, is_idle);
  }
}

void weir_groups_reply(const weir_turn *turn, const weir_answer *answer, weir_group_reply *told) {
  const weir_asked_member *members = &turn->members[answer->is.group.first];
  const weir_named_group *group = answer->is.group.group;
  size_t count = group->member_count;
  weir_serve_counts *counts = turn->counts;
  *told = (weir_group_reply){
      .whole = {.of = {.id = turn->bytes.data + answer->id, .id_length = answer->id_length},
                .kind = WEIR_REPLY_GROUP}};
  for (size_t i = 0; i < count; i++)
    tell_member(turn, answer, &members[i], &told->decisions[i], &told->members[i]);
  size_t denier = find_denier(turn, answer, told->members, count);
  told->whole.is.group.speaker =
      denier < count ? denier : find_speaker(members, told->members, count);
  for (size_t i = 0; i < count; i++)
    told->counts[i] =
        denier == count || i == denier ||
        ((answer->is.group.verb->flags & WEIR_VERB_LOOKS) && denies(&told->members[i]));
  tell_whole(told, answer, denier);
  weir_serve_count(told->whole.decision == NULL ? &counts->none
                   : told->decision.allowed     ? &counts->allowed
                                                : &counts->denied,
                   1);

  /* In shadow mode a denial is counted, and answered as allowed. */
  for (size_t i = 0; i < count; i++) {
    if (!told->counts[i] || !members[i].is_shadowed || !denies(&told->members[i])) continue;
    weir_serve_count(&counts->shadow_denied, 1);
    show_allowed(&told->members[i], &told->decisions[i]);
    if (i == denier) show_allowed(&told->whole, &told->decision);
    if (i == denier) told->whole.is.group.denied_by = NULL;
  }
  add_stamps(turn, answer, told);
}

/* --- sets ---------------------------------------------------------------------------------------
 */

/* Requests that are one decision, of a group or of Envoy's service: all are charged, or none.
 *
 *     count of them ──> weir_decide_all_extra()
 *                            │ all are charged           │ one denies
 *                            v                           v
 *     behind them ──>      taken                    not asked; of Envoy's service looked at, with those
 *                                                   that had not to be asked
 *
 * Sets are decided one after another, each in round trips of its own; what they leave to be asked goes
 * out together. So a connection brings one of them into a turn at most. */

size_t weir_turn_add_set(weir_turn *turn, size_t count, size_t behind, bool tells_all) {
  if (!weir_array_grow(&turn->sets, &turn->set_room, turn->set_count + 1, sizeof *turn->sets))
    return WEIR_NO_SET;
  weir_asked_set *set = &turn->sets[turn->set_count];
  *set = (weir_asked_set){.first = turn->asked_count - count - behind,
                          .store = turn->asked[turn->asked_count - count - behind].store,
                          .count = count,
                          .behind = behind,
                          .tells_all = tells_all,
                          .denied_by = count};
  for (size_t i = set->first; i < turn->asked_count; i++)
    if (turn->asked[i].store != set->store) set->store = WEIR_SEVERAL_STORES;
  for (size_t i = set->first; i < turn->asked_count; i++) {
    turn->asked[i].is_of_set = true;
    turn->asked[i].store = set->store;
  }
  return turn->set_count++;
}

/* All of it have one end, which may have come while others were decided. */
static void look_at_end(weir_turn *turn, const weir_asked_set *set) {
  weir_asked *asked = &turn->asked[set->first];
  if (set->has_mates || asked->until_us == WEIR_TURN_NO_END ||
      asked->until_us > weir_monotonic_us())
    return;
  for (size_t i = 0; i < set->count + set->behind; i++) {
    asked[i].limiter = NULL;
    asked[i].until_us = WEIR_TURN_OVER;
  }
}

/* Every request has a status of its own, which is what is answered. */
static void decide(weir_turn *turn, weir_asked_set *set) {
  weir_limiter *limiters[WEIR_ALL_MOST];
  weir_request requests[WEIR_ALL_MOST];
  const weir_extra *extras[WEIR_ALL_MOST];
  weir_asked *asked = &turn->asked[set->first];
  for (size_t i = 0; i < set->count; i++) {
    limiters[i] = asked[i].limiter;
    extras[i] = weir_turn_extra(turn, &asked[i]);
    requests[i] = asked[i].request;
    requests[i].key = turn->bytes.data + asked[i].key;
  }
  weir_status status =
      weir_decide_all_extra(limiters, requests, extras, set->count, &set->denied_by, NULL);
  for (size_t i = 0; i < set->count; i++)
    asked[i].request = requests[i];
  set->is_charged = status == WEIR_OK && set->denied_by == set->count;
}

bool weir_set_decide(weir_turn *turn, weir_asked_set *set) {
  weir_asked *asked = &turn->asked[set->first];
  bool is_whole = true;
  set->is_decided = true;
  look_at_end(turn, set);
  for (size_t i = 0; i < set->count; i++)
    is_whole = is_whole && asked[i].limiter != NULL;
  if (is_whole) decide(turn, set);
  for (size_t i = 0; i < set->count + set->behind; i++) {
    weir_asked *one = &asked[i];
    const weir_decision *decision = &one->request.decision;
    bool is_behind = i >= set->count;
    bool was_left_out = one->request.status == WEIR_OK && !decision->allowed &&
                        decision->remaining == WEIR_NOT_KNOWN && decision->retry_after_us == 0;
    bool looks = !set->is_charged && set->tells_all && (is_behind || was_left_out);
    bool is_asked = is_whole && (looks || (is_behind && set->is_charged));
    if (!is_asked)
      one->limiter = NULL;
    else if (looks)
      one->request.flags |= WEIR_REQUEST_PEEK;
  }
  return is_whole;
}
