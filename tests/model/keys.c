/* Limits of keys: what a client does where the limit of the key stands in the store. The record is read and
 * applied by the library's own code, src/limits/limiter/record.c; here stands what driver.c and limits.c do
 * around it, without their locks, and what is true: which limits the key had, and when. */
#include "limiter/record.h"

#include <stdlib.h>
#include <string.h>

#include "algorithm/machine.h"
#include "limiter/call.h"
#include "mutants.h"
#include "truth.h"

/* A limiter, of which record.c sees a part, and one call of it. */
struct keys {
  weir_limiter limiter;
  weir_call call;
  weir_group group;
  weir_memo_entry entry;
  weir_stack most;
  weir_stand_in known;
  const weir_lease *lease;
  struct client *client; /* of whom a group is seen, or a record */
  weir_waiting waiting[GROUP_MOST];
  _Alignas(WEIR_SHARD_ALIGNMENT) char shard[sizeof(weir_shard)];
};

/* What a record makes of no use goes back. */
static void drop_lots(weir_limiter *limiter, weir_memo_entry *entry) {
  struct keys *keys = (struct keys *)(void *)limiter; /* its first member */
  (void)entry;
  weir_stock_drop(keys->client->stock, keys->lease);
}

bool keys_open(struct model *model) {
  const weir_rule *rule = &model->stack.rules[0];
  if (model->scope->limits_us == 0) return true;
  struct keys *keys = model->keys = aligned_alloc(WEIR_SHARD_ALIGNMENT, sizeof *keys);
  if (keys == NULL) return false;
  memset(keys, 0, sizeof *keys);
  model->has_limits = true;
  keys->limiter.stack = model->stack;
  keys->limiter.steered = weir_stack_steered(&model->stack);
  keys->limiter.leases = model->scope->lease_us > 0;
  keys->known = weir_denial_stand_in;
  if (keys->limiter.leases) keys->known.drop = drop_lots;
  keys->limiter.known = &keys->known;
  keys->lease = &model->lease;
  keys->limiter.limit_least = weir_rule_limit_least(rule);
  keys->limiter.limits_us = model->scope->limits_us;
  keys->limiter.absent_denies = model->scope->flags & ABSENT_DENIES;
  weir_stack_set_limit(&model->stack, rule->most, &keys->most);
  keys->limiter.limited_most = &keys->most;
  keys->limiter.may_spare = true;
  if (model->mutant->mislimit != NULL) model->mutant->mislimit(&keys->limiter);
  keys->call.limiter = &keys->limiter;
  keys->call.head = &keys->call;
  keys->entry.shard = (weir_shard *)(void *)keys->shard;
  return keys->limiter.steered == 0;
}

void keys_close(struct model *model) {
  free(model->keys);
}

size_t keys_memo_bytes(const struct model *model) {
  return model->keys != NULL ? sizeof(weir_record) : 0;
}

/* --- setting -----------------------------------------------------------------------------------
 */

static int64_t stored_of(const struct wanted *wanted) {
  int64_t kind = wanted->limit < 0                ? WEIR_KEY_LIMIT_NONE
                 : wanted->limit == 0             ? WEIR_KEY_LIMIT_BLOCKED
                 : wanted->limit == KEY_UNLIMITED ? WEIR_KEY_LIMIT_UNLIMITED
                                                  : WEIR_KEY_LIMIT_NUMBER;
  return kind << WEIR_RECORD_NUMBER_BITS | (kind == WEIR_KEY_LIMIT_NUMBER ? wanted->limit : 0);
}

/* It is written, and read behind that. */
void keys_set(struct model *model, struct client *client, const struct wanted *wanted) {
  const weir_counter counter = {.place = WEIR_PLACE_LIMIT};
  bool drops = wanted->limit < 0 && model->mutant->unsets_by_drop;
  client->operations[0] = (weir_operation){.kind = drops ? WEIR_DROP : WEIR_PUT,
                                           .counter = counter,
                                           .ttl_us = WEIR_PERIOD_MOST_US,
                                           .value = drops ? 0 : stored_of(wanted)};
  client->operations[1] = (weir_operation){.kind = WEIR_GET, .counter = counter};
  client->returns = 2;
  client->busy = true;
  client->deadline_us = client->lands_by_us = model->world->real_us + DEADLINE_US;
}

static void see(const struct model *model, struct client *client) {
  model->keys->entry.memo = client->memo;
  model->keys->client = client;
}

static weir_record *record_known(const struct model *model, struct client *client) {
  see(model, client);
  return weir_record_of(&model->keys->limiter, &model->keys->entry);
}

/* Whether what is charged ahead may be used now. */
bool keys_let(const struct model *model, struct client *client, int64_t now_us) {
  if (model->keys == NULL || model->mutant->uses_unread) return true;
  see(model, client);
  return weir_record_lets(&model->keys->limiter, &model->keys->entry, now_us);
}

/* Whether nothing is charged ahead. */
bool keys_bar(const struct model *model, struct client *client) {
  if (model->keys == NULL) return false;
  see(model, client);
  return weir_record_bars(&model->keys->limiter, &model->keys->entry);
}

/* What this process has set it knows at once. */
void keys_end_set(struct model *model, struct client *client) {
  const weir_operation *put = &client->operations[0], *get = &client->operations[1];
  if (put->counter.place != WEIR_PLACE_LIMIT || get->value != put->value) return;
  *record_known(model, client) = weir_record_read_at(get->value, client->start_us);
  client->memo->denied_cost = 0;
  weir_record_bar(&model->keys->limiter, &model->keys->entry);
}

/* --- reading -----------------------------------------------------------------------------------
 */

static weir_group *group_of(struct model *model, struct client *client, weir_claim *requests,
                            int64_t starts_us) {
  struct keys *keys = model->keys;
  see(model, client);
  keys->call.round.planned = client->operations + client->returns;
  keys->call.round.planned_count = 0;
  keys->group.entry = &keys->entry;
  keys->group.machine = client->machine;
  keys->group.requests = requests;
  keys->group.starts_us = starts_us;
  return &keys->group;
}

/* Has record.c see the requests of a group as those of threads that wait, and takes over what it answered. */
static weir_claim *with_waiting(struct model *model, struct client *client, int64_t starts_us,
                                weir_record_reads *reads) {
  struct keys *keys = model->keys;
  weir_claim *left = NULL, **end = &left, **link = &keys->group.requests;
  weir_group *group = group_of(model, client, NULL, starts_us);
  for (int i = 0; i < GROUP_MOST; i++) {
    if (client->requests[i].ask.cost == 0 || client->requests[i].verdict.answered) continue;
    keys->waiting[i] = (weir_waiting){.claim = client->requests[i], .call = &keys->call};
    keys->waiting[i].claim.next = NULL;
    *link = &keys->waiting[i].claim;
    link = &keys->waiting[i].claim.next;
  }
  if (reads != NULL)
    *reads = weir_record_seek(&keys->call, group);
  else
    weir_record_apply(&keys->call, group);
  for (int i = 0; i < GROUP_MOST; i++) {
    if (client->requests[i].ask.cost == 0 || client->requests[i].verdict.answered) continue;
    client->requests[i].verdict = keys->waiting[i].claim.verdict;
    client->requests[i].next = NULL;
    if (client->requests[i].verdict.answered) continue;
    *end = &client->requests[i];
    end = &client->requests[i].next;
  }
  if (lease_asked(client) == 0) return left;
  if (left == NULL || keys_bar(model, client))
    client->wallet->request = (weir_claim){0};
  else
    *end = &client->wallet->request;
  return left;
}

/* DONE: all of the group are answered. */
weir_turn keys_start(struct model *model, struct client *client, weir_claim **group) {
  int64_t starts_us = client->start_us;
  weir_record_reads reads;
  *group = with_waiting(model, client, starts_us, &reads);
  client->reads = reads;
  if (*group == NULL) return WEIR_TURN_DONE;
  weir_group *reading = group_of(model, client, *group, starts_us);
  bool reads_first = reads == WEIR_RECORD_FIRST;
  if (!reads_first) client_start_machine(model, client, *group);
  if (reads != WEIR_RECORD_KNOWN) weir_record_plan(&model->keys->call, reading, reads_first);
  return WEIR_TURN_EXECUTE;
}

/* What may not stay of what was charged meanwhile goes back as if it were late. */
static weir_turn resume_ridden(struct model *model, struct client *client, weir_group *group,
                               int64_t now_us, bool late) {
  weir_machine *machine = client->machine;
  weir_operation read;
  int64_t ruled = weir_memo_limits_of(&model->keys->limiter.stack, machine->frame.memo)->ruled;
  weir_record_read found = weir_record_absorb(&model->keys->call, group, true, &read);
  bool answers = found == WEIR_RECORD_BLOCKS || found == WEIR_RECORD_LIFTS;
  if (model->mutant->judges_unread && found == WEIR_RECORD_READ) weir_machine_rule(machine, ruled);
  client->reads = found == WEIR_RECORD_BLOCKS  ? WEIR_RECORD_DENIES
                  : found == WEIR_RECORD_LIFTS ? WEIR_RECORD_SPARES
                                               : WEIR_RECORD_RODE;
  if (found == WEIR_RECORD_NOT_READ) weir_machine_failure(machine, &read);
  bool goes_back = answers && !model->mutant->keeps_blocked;
  return weir_machine_resume(machine, now_us, late || goes_back || found == WEIR_RECORD_NOT_READ,
                             client->operations);
}

static weir_turn start_read(struct model *model, struct client *client, weir_group *group,
                            int64_t now_us, bool late) {
  weir_machine *machine = client->machine;
  weir_operation read;
  weir_record_read found = weir_record_absorb(&model->keys->call, group, false, &read);
  client->reads = WEIR_RECORD_KNOWN;
  if (late || found == WEIR_RECORD_NOT_READ)
    return weir_machine_refuse(machine, now_us, client->memo, group->requests, &read, late);
  client->start_us = now_us;
  weir_claim *left = with_waiting(model, client, now_us, NULL);
  if (left != NULL) return client_start_machine(model, client, left);
  memcpy(machine->frame.memo, client->memo, weir_memo_bytes(&model->stack));
  return WEIR_TURN_DONE;
}

weir_turn keys_resume(struct model *model, struct client *client, int64_t now_us, bool late) {
  weir_machine *machine = client->machine;
  weir_claim *requests =
      machine->frame.requests != NULL ? machine->frame.requests : client->requests;
  weir_group *group = group_of(model, client, requests, client->round_us);
  if (client->reads == WEIR_RECORD_FIRST) return start_read(model, client, group, now_us, late);
  weir_turn turn = client->reads == WEIR_RECORD_RIDES
                       ? resume_ridden(model, client, group, now_us, late)
                       : weir_machine_resume(machine, now_us, late, client->operations);
  group->reads = client->reads;
  if (turn == WEIR_TURN_DONE) weir_record_tell(&model->keys->call, group);
  return turn;
}

/* --- which limits there were -------------------------------------------------------------------
 */

static int64_t limit_meant(const struct model *model, int64_t stored) {
  const weir_rule *rule = &model->text.rules[0];
  int64_t number = stored & ((INT64_C(1) << WEIR_RECORD_NUMBER_BITS) - 1);
  int64_t kind = stored >> WEIR_RECORD_NUMBER_BITS;
  bool blocked = stored == 0 ? model->scope->flags & ABSENT_DENIES : kind == WEIR_KEY_LIMIT_BLOCKED;
  if (blocked) return 0;
  if (kind == WEIR_KEY_LIMIT_UNLIMITED) return KEY_UNLIMITED;
  if (kind != WEIR_KEY_LIMIT_NUMBER) return rule->limit;
  return number < rule->most ? number : rule->most;
}

static void had(struct model *model, int64_t stored, int64_t until_us) {
  struct past *past = model->world->past;
  int at = 0;
  while (at < PAST_MOST && past[at].until_us != 0)
    at++;
  if (at == PAST_MOST)
    check_fails(model, CHECK_STATUS, "a key has more than %d limits", PAST_MOST);
  else
    past[at] = (struct past){limit_meant(model, stored), until_us};
}

void keys_changed(struct model *model, int64_t before) {
  had(model, before, model->world->real_us + 1); /* it was there at this moment, too */
}

/* Who knew of it believes it for longer than any run. */
void keys_lost(struct model *model, int64_t before) {
  had(model, before, INT64_MAX);
}

/* What a client may have been told of the record: no longer ago than T before its request. */
static int64_t since_us(const struct model *model, const struct client *client, bool repeats) {
  int64_t asked_us = client->deadline_us - client_deadline_us(model, client);
  if (!client->busy) asked_us = model->world->real_us;               /* of a lot, ... */
  if (!client->busy && repeats) asked_us -= REPEAT_US + DEADLINE_US; /* ... or of a denial */
  return asked_us - model->scope->limits_us;
}

/* As the store has it now; 0: it has nothing. */
static int64_t stored_now(const struct model *model) {
  for (int i = 0; i < KEYS_MOST; i++) {
    const struct key *key = &model->world->keys[i];
    if (key->present && key->place == WEIR_PLACE_LIMIT) return key->value;
  }
  return 0;
}

static int64_t in_force(const struct model *model, const struct client *client, bool most) {
  const struct past *past = model->world->past;
  int64_t limit = limit_meant(model, stored_now(model));
  for (int i = 0; i < PAST_MOST && past[i].until_us != 0; i++)
    if (past[i].until_us > since_us(model, client, !most) && (past[i].limit > limit) == most)
      limit = past[i].limit;
  return limit;
}

int64_t keys_most(const struct model *model, const struct client *client,
                  const struct record *record) {
  if (record->limit != 0) return record->limit;
  return model->keys != NULL ? in_force(model, client, true) : model->text.rules[0].limit;
}

int64_t keys_least(const struct model *model, const struct client *client,
                   const struct record *record) {
  if (record->limit != 0) return record->limit;
  return model->keys != NULL ? in_force(model, client, false) : model->text.rules[0].limit;
}
