#include "toy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algorithm/method.h"

/* A machine that has not ended after so many rounds never will. */
enum { ROUNDS_MOST = 64 };

int64_t toy_random(struct toy_world *world, int64_t below) {
  int64_t number = ((int64_t)rand_r(&world->seed) << 31) ^ rand_r(&world->seed);
  return number % below;
}

struct toy_world *toy_open(const char *rules, int64_t now_us, unsigned seed) {
  struct toy_world *world = calloc(1, sizeof *world);
  weir_message message = {""};
  assert_non_null(world);
  world->now_us = now_us;
  world->seed = seed;
  world->terms = (weir_terms){.clock_error_us = TOY_CLOCK_ERROR_US,
                              .margin_us = TOY_MARGIN_US,
                              .memo_age_us = 1000000,
                              .local_denial_us = 50000,
                              .local_denial = true};
  if (weir_stack_parse(rules, 64, &world->stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  for (int i = 0; i < TOY_CLIENTS_MOST; i++) {
    struct toy_client *client = &world->clients[i];
    void *memory = malloc(weir_machine_bytes(&world->stack));
    client->machine = weir_machine_init(memory, &world->stack, &world->terms);
    client->memo = calloc(1, weir_memo_bytes(&world->stack));
  }
  return world;
}

void toy_close(struct toy_world *world) {
  for (int i = 0; i < TOY_CLIENTS_MOST; i++) {
    free(world->clients[i].machine);
    free(world->clients[i].memo);
  }
  free(world->keys);
  free(world);
}

/* --- the store ---------------------------------------------------------------------------------
 */

static size_t hash_of(uint32_t rule, weir_place place, int64_t index, int64_t entry) {
  const uint64_t odd = 0x9e3779b97f4a7c15;
  uint64_t mixed = (((uint64_t)index * 8 + rule) * 3 + (uint64_t)place) * odd + (uint64_t)entry;
  return (size_t)(mixed * odd >> 32);
}

static struct toy_key *slot_of(const struct toy_world *world, uint32_t rule, weir_place place,
                               int64_t index, int64_t entry) {
  size_t at = hash_of(rule, place, index, entry) & (world->key_room - 1);
  for (;; at = (at + 1) & (world->key_room - 1)) {
    struct toy_key *key = &world->keys[at];
    bool same =
        key->rule == rule && key->place == place && key->index == index && key->entry == entry;
    if (key->ends_us == 0 || same) return key;
  }
}

static void grow(struct toy_world *world) {
  struct toy_key *keys = world->keys;
  size_t room = world->key_room;
  world->key_room = room > 0 ? 2 * room : 256;
  world->keys = calloc(world->key_room, sizeof *keys);
  assert_non_null(world->keys);
  for (size_t i = 0; i < room; i++)
    if (keys[i].ends_us != 0)
      *slot_of(world, keys[i].rule, keys[i].place, keys[i].index, keys[i].entry) = keys[i];
  free(keys);
}

static struct toy_key *find(struct toy_world *world, uint32_t rule, weir_place place, int64_t index,
                            int64_t entry) {
  if (2 * world->key_count >= world->key_room) grow(world);
  struct toy_key *key = slot_of(world, rule, place, index, entry);
  if (key->ends_us == 0) {
    *key = (struct toy_key){rule, place, index, entry, 0, 1, false};
    world->key_count++;
  }
  key->present = key->present && key->ends_us > world->now_us;
  return key;
}

struct toy_key *toy_key(struct toy_world *world, weir_place place, int64_t index, int64_t entry) {
  return find(world, 0, place, index, entry);
}

void toy_write(struct toy_world *world, weir_place place, int64_t index, int64_t entry,
               int64_t value) {
  struct toy_key *key = toy_key(world, place, index, entry);
  key->value = value;
  key->present = true;
  key->ends_us = INT64_MAX;
}

bool toy_has(struct toy_world *world, weir_place place, int64_t index, int64_t entry) {
  return toy_key(world, place, index, entry)->present;
}

/* What every caller of a backend owes it. */
static void check_action(const weir_action *action) {
  bool stores = action->kind == WEIR_CREATE || action->kind == WEIR_PUT;
  assert_true(action->index >= 0);
  assert_true(action->place == WEIR_PLACE_ENTRY ? action->entry >= 1 : action->entry == 0);
  assert_in_range(action->ttl_us, 1000, WEIR_TTL_MOST_US);
  if (stores) assert_true(action->value >= 0 && action->value <= WEIR_VALUE_MOST);
  if (action->kind == WEIR_ADD || action->kind == WEIR_SUB)
    assert_in_range(action->delta, 1, WEIR_VALUE_MOST);
}

static void store(const struct toy_world *world, struct toy_key *key, const weir_action *action,
                  int64_t value) {
  if (!key->present) key->ends_us = world->now_us + action->ttl_us;
  key->value = value;
  key->present = true;
}

/* As a server would count, which wraps. */
static int64_t sum(int64_t value, int64_t delta) {
  return (int64_t)((uint64_t)value + (uint64_t)delta);
}

static void execute(struct toy_world *world, weir_action *action) {
  struct toy_key *key = find(world, action->rule, action->place, action->index, action->entry);
  bool was_there = key->present;
  int64_t given = action->value;
  check_action(action);
  action->outcome = was_there ? WEIR_DONE : WEIR_ABSENT;
  action->value = 0x5555; /* means nothing unless it is set below */
  if (action->kind == WEIR_ADD)
    store(world, key, action, sum(was_there ? key->value : 0, action->delta));
  if (action->kind == WEIR_SUB && was_there) key->value = sum(key->value, -action->delta);
  if (action->kind == WEIR_PUT) key->present = false;
  if (action->kind == WEIR_PUT || (action->kind == WEIR_CREATE && !was_there))
    store(world, key, action, given);
  if (action->kind == WEIR_DROP) key->present = false;
  if (action->kind == WEIR_CREATE) action->outcome = was_there ? WEIR_CONFLICT : WEIR_DONE;
  if (action->kind == WEIR_ADD || action->kind == WEIR_PUT) action->outcome = WEIR_DONE;
  if (action->outcome == WEIR_DONE &&
      (action->kind == WEIR_ADD || action->kind == WEIR_SUB || action->kind == WEIR_GET))
    action->value = key->value;
  if (action->kind != WEIR_GET) world->written++;
}

/* --- clients -----------------------------------------------------------------------------------
 */

int64_t toy_clock(const struct toy_world *world, const struct toy_client *client) {
  return world->now_us + client->offset_us;
}

static void take_turn(struct toy_world *world, struct toy_client *client, weir_turn turn) {
  client->turn = turn;
  client->landed = 0;
  client->rounds++;
  assert_in_range(client->rounds, 1, ROUNDS_MOST);
  client->busy = turn != WEIR_TURN_DONE;
  if (client->busy) {
    assert_true(client->machine->action_count <= weir_machine_actions_most(&world->stack));
    return;
  }
  for (weir_ask *ask = client->machine->asks; ask != NULL; ask = ask->next)
    assert_true(ask->settled);
  memcpy(client->memo, client->machine->notes, weir_memo_bytes(&world->stack));
}

void toy_begin(struct toy_world *world, struct toy_client *client, size_t asks) {
  assert_false(client->busy);
  for (size_t i = 0; i < asks; i++)
    client->asks[i].next = i + 1 < asks ? &client->asks[i + 1] : NULL;
  client->deadline_us = world->now_us + TOY_DEADLINE_US;
  client->rounds = 0;
  take_turn(
      world, client,
      weir_machine_start(client->machine, toy_clock(world, client), client->memo, client->asks));
}

weir_action *toy_next(const struct toy_client *client) {
  bool executes = client->busy && client->turn == WEIR_TURN_EXECUTE;
  if (!executes || client->landed == client->machine->action_count) return NULL;
  return &client->machine->actions[client->landed];
}

static void land(struct toy_world *world, struct toy_client *client, weir_action *action) {
  bool gives_back = client->machine->phase == WEIR_PHASE_TAKE_BACK;
  bool over = world->now_us > client->deadline_us - (gives_back ? 0 : TOY_RESERVE_US);
  bool lost = over && toy_random(world, 2) == 0;
  client->landed++;
  if (!lost) execute(world, action);
  if (over) action->outcome = lost ? WEIR_NOT_SENT : WEIR_UNKNOWN;
}

void toy_step(struct toy_world *world, struct toy_client *client) {
  weir_action *action = toy_next(client);
  if (action != NULL) {
    land(world, client, action);
    return;
  }
  bool late = world->now_us > client->deadline_us;
  take_turn(world, client, weir_machine_resume(client->machine, toy_clock(world, client), late));
}

void toy_finish_round(struct toy_world *world, struct toy_client *client) {
  while (toy_next(client) != NULL)
    toy_step(world, client);
  toy_step(world, client);
}

void toy_step_until(struct toy_world *world, struct toy_client *client, weir_operation_kind kind,
                    weir_place place) {
  for (;;) {
    const weir_action *next = toy_next(client);
    if (next != NULL && next->kind == kind && next->place == place) return;
    assert_true(client->busy);
    toy_step(world, client);
  }
}

void toy_finish(struct toy_world *world, struct toy_client *client) {
  while (client->busy)
    toy_step(world, client);
}

void toy_expect(const struct toy_client *client, size_t at, weir_operation_kind kind,
                weir_place place, int64_t index, int64_t entry) {
  assert_in_range(at, 0, client->machine->action_count - 1);
  assert_int_equal(client->machine->actions[at].kind, kind);
  assert_int_equal(client->machine->actions[at].place, place);
  assert_int_equal(client->machine->actions[at].index, index);
  assert_int_equal(client->machine->actions[at].entry, entry);
}

void toy_crash(struct toy_client *client) {
  client->busy = false;
}

struct toy_client *toy_begin_take(struct toy_world *world, int client, int64_t cost) {
  struct toy_client *who = &world->clients[client];
  who->asks[0] = (weir_ask){.cost = cost};
  toy_begin(world, who, 1);
  return who;
}

const weir_ask *toy_run(struct toy_world *world, int client, weir_ask ask) {
  struct toy_client *who = &world->clients[client];
  who->asks[0] = ask;
  toy_begin(world, who, 1);
  toy_finish(world, who);
  return &who->asks[0];
}

static const weir_decision *decide(struct toy_world *world, int client, weir_ask_kind kind,
                                   int64_t cost) {
  weir_ask ask = {.kind = kind, .cost = cost};
  const weir_ask *settled = toy_run(world, client, ask);
  assert_int_equal(settled->status, WEIR_OK);
  return &settled->decision;
}

const weir_decision *toy_take(struct toy_world *world, int client, int64_t cost) {
  return decide(world, client, WEIR_ASK_TAKE, cost);
}

const weir_decision *toy_peek(struct toy_world *world, int client, int64_t cost) {
  return decide(world, client, WEIR_ASK_PEEK, cost);
}
