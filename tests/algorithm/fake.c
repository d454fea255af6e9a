#include "fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algorithm/method.h"

/* A machine that has not ended after so many rounds never will. */
enum { ROUNDS_MOST = 64 };

int64_t fake_random(struct fake_world *world, int64_t below) {
  int64_t number = ((int64_t)rand_r(&world->seed) << 31) ^ rand_r(&world->seed);
  return number % below;
}

struct fake_world *fake_open(const char *rules, int64_t now_us, unsigned seed) {
  struct fake_world *world = calloc(1, sizeof *world);
  weir_message message = {""};
  assert_non_null(world);
  world->now_us = now_us;
  world->seed = seed;
  world->settings = (weir_settings){.clock_error_us = FAKE_CLOCK_ERROR_US,
                                    .ahead_us = FAKE_MARGIN_US,
                                    .final_us = FAKE_FINAL_US,
                                    .memo_age_us = 1000000,
                                    .local_denial_us = 50000,
                                    .local_denial = true};
  if (weir_stack_parse(rules, 64, &world->stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  for (int i = 0; i < FAKE_CLIENTS_ROOM; i++) {
    struct fake_client *client = &world->clients[i];
    void *memory = malloc(weir_machine_bytes(&world->stack));
    client->machine = weir_machine_init(memory, &world->stack, &world->settings);
    client->memo = calloc(1, weir_memo_bytes(&world->stack));
    client->operations =
        calloc(weir_machine_operations_most(&world->stack), sizeof *client->operations);
  }
  return world;
}

void fake_close(struct fake_world *world) {
  for (int i = 0; i < FAKE_CLIENTS_ROOM; i++) {
    free(world->clients[i].machine);
    free(world->clients[i].operations);
    free(world->clients[i].memo);
  }
  free(world->keys);
  free(world);
}

/* --- the store ---------------------------------------------------------------------------------
 */

static size_t hash_of(uint32_t rule, weir_place place, int64_t index, int64_t entry) {
  const uint64_t odd = 0x9e3779b97f4a7c15;
  uint64_t mixed = (((uint64_t)index * 8 + rule) * 4 + (uint64_t)place) * odd + (uint64_t)entry;
  return (size_t)(mixed * odd >> 32);
}

static struct fake_key *slot_of(const struct fake_world *world, uint32_t rule, weir_place place,
                                int64_t index, int64_t entry) {
  size_t at = hash_of(rule, place, index, entry) & (world->key_room - 1);
  for (;; at = (at + 1) & (world->key_room - 1)) {
    struct fake_key *key = &world->keys[at];
    bool same =
        key->rule == rule && key->place == place && key->index == index && key->entry == entry;
    if (key->ends_us == 0 || same) return key;
  }
}

static void grow(struct fake_world *world) {
  struct fake_key *keys = world->keys;
  size_t room = world->key_room;
  world->key_room = room > 0 ? 2 * room : 256;
  world->keys = calloc(world->key_room, sizeof *keys);
  assert_non_null(world->keys);
  for (size_t i = 0; i < room; i++)
    if (keys[i].ends_us != 0)
      *slot_of(world, keys[i].rule, keys[i].place, keys[i].index, keys[i].entry) = keys[i];
  free(keys);
}

static struct fake_key *find(struct fake_world *world, uint32_t rule, weir_place place,
                             int64_t index, int64_t entry) {
  if (2 * world->key_count >= world->key_room) grow(world);
  struct fake_key *key = slot_of(world, rule, place, index, entry);
  if (key->ends_us == 0) {
    *key = (struct fake_key){rule, place, index, entry, 0, 1, false};
    world->key_count++;
  }
  key->present = key->present && key->ends_us > world->now_us;
  return key;
}

struct fake_key *fake_key(struct fake_world *world, weir_place place, int64_t index,
                          int64_t entry) {
  return find(world, 0, place, index, entry);
}

void fake_write(struct fake_world *world, weir_place place, int64_t index, int64_t entry,
                int64_t value) {
  struct fake_key *key = fake_key(world, place, index, entry);
  key->value = value;
  key->present = true;
  key->ends_us = INT64_MAX;
}

bool fake_has(struct fake_world *world, weir_place place, int64_t index, int64_t entry) {
  return fake_key(world, place, index, entry)->present;
}

/* Every caller of a backend owes it this. */
static void check_operation(const weir_operation *operation) {
  bool stores = operation->kind == WEIR_CREATE || operation->kind == WEIR_PUT;
  assert_true(operation->counter.index >= 0);
  assert_true(operation->counter.place >= WEIR_PLACE_ENTRY ? operation->counter.entry >= 1
                                                           : operation->counter.entry == 0);
  assert_in_range(operation->ttl_us, 1000, WEIR_TTL_MOST_US);
  if (stores) assert_true(operation->value >= 0 && operation->value <= WEIR_VALUE_MOST);
  if (operation->kind == WEIR_ADD || operation->kind == WEIR_SUB)
    assert_in_range(operation->delta, 1, WEIR_VALUE_MOST);
}

static void store(const struct fake_world *world, struct fake_key *key,
                  const weir_operation *operation, int64_t value) {
  if (!key->present) key->ends_us = world->now_us + operation->ttl_us;
  key->value = value;
  key->present = true;
}

/* As a server would count, which wraps. */
static int64_t sum(int64_t value, int64_t delta) {
  return (int64_t)((uint64_t)value + (uint64_t)delta);
}

static void execute(struct fake_world *world, weir_operation *operation) {
  struct fake_key *key = find(world, operation->counter.rule, operation->counter.place,
                              operation->counter.index, operation->counter.entry);
  bool was_there = key->present;
  int64_t given = operation->value;
  check_operation(operation);
  operation->outcome = was_there ? WEIR_DONE : WEIR_ABSENT;
  operation->value = 0x5555; /* means nothing unless it is set below */
  if (operation->kind == WEIR_ADD)
    store(world, key, operation, sum(was_there ? key->value : operation->seed, operation->delta));
  if (operation->kind == WEIR_SUB && was_there) key->value = sum(key->value, -operation->delta);
  if (operation->kind == WEIR_PUT) key->present = false;
  if (operation->kind == WEIR_PUT || (operation->kind == WEIR_CREATE && !was_there))
    store(world, key, operation, given);
  if (operation->kind == WEIR_DROP) key->present = false;
  if (operation->kind == WEIR_CREATE) operation->outcome = was_there ? WEIR_CONFLICT : WEIR_DONE;
  if (operation->kind == WEIR_ADD || operation->kind == WEIR_PUT) operation->outcome = WEIR_DONE;
  if (operation->outcome == WEIR_DONE &&
      (operation->kind == WEIR_ADD || operation->kind == WEIR_SUB || operation->kind == WEIR_GET))
    operation->value = key->value;
  if (operation->kind != WEIR_GET) world->written++;
}

/* --- clients -----------------------------------------------------------------------------------
 */

int64_t fake_clock(const struct fake_world *world, const struct fake_client *client) {
  return world->now_us + client->offset_us;
}

static void take_turn(struct fake_world *world, struct fake_client *client, weir_turn turn) {
  client->turn = turn;
  client->landed = 0;
  client->rounds++;
  assert_in_range(client->rounds, 1, ROUNDS_MOST);
  client->busy = turn != WEIR_TURN_DONE;
  if (client->busy) {
    assert_true(client->machine->frame.operation_count <=
                weir_machine_operations_most(&world->stack));
    return;
  }
  for (weir_claim *request = client->machine->frame.requests; request != NULL;
       request = request->next)
    assert_true(request->verdict.answered);
  memcpy(client->memo, client->machine->frame.memo, weir_memo_bytes(&world->stack));
}

void fake_begin(struct fake_world *world, struct fake_client *client, size_t count) {
  assert_false(client->busy);
  for (size_t i = 0; i < count; i++)
    client->requests[i].next = i + 1 < count ? &client->requests[i + 1] : NULL;
  client->deadline_us = world->now_us + FAKE_DEADLINE_US;
  client->rounds = 0;
  take_turn(world, client,
            weir_machine_start(client->machine, fake_clock(world, client), client->memo,
                               client->requests, client->operations));
}

weir_operation *fake_next(const struct fake_client *client) {
  bool executes = client->busy && client->turn == WEIR_TURN_EXECUTE;
  if (!executes || client->landed == client->machine->frame.operation_count) return NULL;
  return &client->machine->frame.operations[client->landed];
}

static void land(struct fake_world *world, struct fake_client *client, weir_operation *operation) {
  bool gives_back = client->machine->frame.phase == WEIR_PHASE_TAKE_BACK;
  bool over = world->now_us > client->deadline_us - (gives_back ? 0 : FAKE_RESERVE_US);
  bool lost = over && fake_random(world, 2) == 0;
  client->landed++;
  if (!lost) execute(world, operation);
  if (over) operation->outcome = lost ? WEIR_NOT_SENT : WEIR_UNKNOWN;
}

void fake_step(struct fake_world *world, struct fake_client *client) {
  weir_operation *operation = fake_next(client);
  if (operation != NULL) {
    land(world, client, operation);
    return;
  }
  bool late = world->now_us > client->deadline_us;
  take_turn(
      world, client,
      weir_machine_resume(client->machine, fake_clock(world, client), late, client->operations));
}

void fake_finish_round(struct fake_world *world, struct fake_client *client) {
  while (fake_next(client) != NULL)
    fake_step(world, client);
  fake_step(world, client);
}

void fake_step_until(struct fake_world *world, struct fake_client *client, weir_operation_kind kind,
                     weir_place place) {
  for (;;) {
    const weir_operation *next = fake_next(client);
    if (next != NULL && next->kind == kind && next->counter.place == place) return;
    assert_true(client->busy);
    fake_step(world, client);
  }
}

void fake_finish(struct fake_world *world, struct fake_client *client) {
  while (client->busy)
    fake_step(world, client);
}

void fake_expect(const struct fake_client *client, size_t at, weir_operation_kind kind,
                 weir_place place, int64_t index, int64_t entry) {
  assert_in_range(at, 0, client->machine->frame.operation_count - 1);
  assert_int_equal(client->machine->frame.operations[at].kind, kind);
  assert_int_equal(client->machine->frame.operations[at].counter.place, place);
  assert_int_equal(client->machine->frame.operations[at].counter.index, index);
  assert_int_equal(client->machine->frame.operations[at].counter.entry, entry);
}

void fake_crash(struct fake_client *client) {
  client->busy = false;
}

struct fake_client *fake_begin_take(struct fake_world *world, int client, int64_t cost) {
  struct fake_client *who = &world->clients[client];
  who->requests[0] = (weir_claim){.ask.cost = cost};
  fake_begin(world, who, 1);
  return who;
}

const weir_claim *fake_run(struct fake_world *world, int client, weir_claim request) {
  struct fake_client *who = &world->clients[client];
  who->requests[0] = request;
  fake_begin(world, who, 1);
  fake_finish(world, who);
  return &who->requests[0];
}

static const weir_decision *decide(struct fake_world *world, int client, weir_request_kind kind,
                                   int64_t cost) {
  weir_claim request = {.ask = {.kind = kind, .cost = cost}};
  const weir_claim *settled = fake_run(world, client, request);
  assert_int_equal(settled->verdict.status, WEIR_OK);
  return &settled->verdict.decision;
}

const weir_decision *fake_take(struct fake_world *world, int client, int64_t cost) {
  return decide(world, client, WEIR_TAKE, cost);
}

const weir_decision *fake_peek(struct fake_world *world, int client, int64_t cost) {
  return decide(world, client, WEIR_PEEK, cost);
}
