/* The store of the model: named keys with the semantics of weir/backend.h, and its contract. */
#include <inttypes.h>
#include <string.h>

#include "model.h"
#include "mutants.h"
#include "truth.h"

/* --- keys --------------------------------------------------------------------------------------
 */

static int compare(const struct key *key, int rule, weir_place place, int64_t index,
                   int64_t entry) {
  if (key->rule != rule) return key->rule < rule ? -1 : 1;
  if (key->place != (uint8_t)place) return key->place < (uint8_t)place ? -1 : 1;
  if (key->index != index) return key->index < index ? -1 : 1;
  return (key->entry > entry) - (key->entry < entry);
}

/* Where a key is, or should be put. */
static int place_of(const struct world *world, int rule, weir_place place, int64_t index,
                    int64_t entry) {
  int at = 0;
  while (at < KEYS_MOST && world->keys[at].used &&
         compare(&world->keys[at], rule, place, index, entry) < 0)
    at++;
  return at;
}

struct key *store_find(const struct model *model, int rule, weir_place place, int64_t index,
                       int64_t entry) {
  struct world *world = model->world;
  int at = place_of(world, rule, place, index, entry);
  bool found = at < KEYS_MOST && world->keys[at].used &&
               compare(&world->keys[at], rule, place, index, entry) == 0;
  return found ? &world->keys[at] : NULL;
}

static struct key *find_or_make(struct model *model, const weir_operation *operation) {
  struct world *world = model->world;
  struct key *key = store_find(model, (int)operation->counter.rule, operation->counter.place,
                               operation->counter.index, operation->counter.entry);
  if (key != NULL) return key;
  if (world->keys[KEYS_MOST - 1].used) {
    check_fails(model, CHECK_STATUS, "more than %d keys", KEYS_MOST);
    return &world->keys[KEYS_MOST - 1];
  }
  int at = place_of(world, (int)operation->counter.rule, operation->counter.place,
                    operation->counter.index, operation->counter.entry);
  key = &world->keys[at];
  memmove(key + 1, key, (size_t)(KEYS_MOST - 1 - at) * sizeof *key);
  *key = (struct key){.index = operation->counter.index,
                      .entry = operation->counter.entry,
                      .rule = (uint8_t)operation->counter.rule,
                      .place = (uint8_t)operation->counter.place,
                      .used = true};
  return key;
}

/* --- the contract ------------------------------------------------------------------------------
 */

static bool outside(int64_t number, int64_t least, int64_t most) {
  return number < least || number > most;
}

static bool has_ttl(weir_operation_kind kind) {
  return kind != WEIR_GET && kind != WEIR_DROP;
}

/* What no operation may bring: see weir/backend.h. */
static const char *fault_of(const struct model *model, const weir_operation *operation) {
  weir_operation_kind kind = operation->kind;
  bool adds = kind == WEIR_ADD || kind == WEIR_SUB || kind == WEIR_RAISE;
  bool writes = kind == WEIR_CREATE || kind == WEIR_SWAP || kind == WEIR_PUT;
  unsigned traits = model->settings.traits;
  if (kind == WEIR_SWAP && !(traits & WEIR_TRAIT_SWAP)) return "SWAP on a store without it";
  if ((kind == WEIR_RAISE || operation->raised) && !(traits & WEIR_TRAIT_RAISE))
    return "RAISE on a store without it";
  if (operation->raised && kind != WEIR_GET && kind != WEIR_SUB) return "raised without sense";
  if (operation->refresh && kind != WEIR_RAISE) return "refresh without sense";
  if (adds && outside(operation->delta, 1, WEIR_VALUE_MOST)) return "delta is out of range";
  if (writes && outside(operation->value, 0, WEIR_VALUE_MOST)) return "value is out of range";
  if (kind == WEIR_RAISE && outside(operation->floor, 0, INT64_C(1) << 52))
    return "floor is out of range";
  if (kind == WEIR_ADD && outside(operation->floor, 0, WEIR_VALUE_MOST))
    return "floor is out of range";
  if (kind == WEIR_ADD && operation->floor > 0 && !(traits & WEIR_TRAIT_BOUND))
    return "a bound on a store without it";
  if (kind == WEIR_SWAP && operation->version == 0) return "version is 0";
  if (has_ttl(kind) && outside(operation->ttl_us, 1000, WEIR_TTL_MOST_US)) return "no sensible TTL";
  if (operation->counter.index < 0) return "an index below 0";
  bool has_entry =
      operation->counter.place == WEIR_PLACE_ENTRY || operation->counter.place == WEIR_PLACE_TENANT;
  return has_entry == (operation->counter.entry > 0) ? NULL : "a wrong entry";
}

static void check_operation(struct model *model, const weir_operation *operation,
                            const struct key *key) {
  const char *fault = fault_of(model, operation);
  bool keeps = operation->kind == WEIR_GET || operation->kind == WEIR_DROP;
  int64_t least_us = truth_of(model, (int)operation->counter.rule)
                         ->least_ttl_us(model, (int)operation->counter.rule);
  if (key != NULL && key->present && operation->kind != WEIR_DROP &&
      key->raised != (operation->kind == WEIR_RAISE || operation->raised))
    fault = "a key that RAISE made needs `raised`, no other takes it";
  if (fault != NULL) check_fails(model, CHECK_CONTRACT, "%s", fault);
  if (!keeps && operation->ttl_us < least_us)
    check_fails(model, CHECK_TTL, "a key lives %" PRId64 " us, needed are %" PRId64,
                operation->ttl_us, least_us);
}

/* --- effects -----------------------------------------------------------------------------------
 */

static void write_value(struct key *key, int64_t value) {
  key->value = value;
  key->present = true;
  key->version++;
}

static void renew(const struct model *model, const weir_operation *operation, struct key *key) {
  if (model->scope->flags & LIVES) key->lives_until_us = model->world->real_us + operation->ttl_us;
}

static uint64_t reported_version(const struct model *model, const struct key *key) {
  return model->scope->flags & UNTOLD ? 0 : key->version;
}

static bool keeps_bounds(const struct model *model, const struct client *client) {
  const struct mutant *store = model->mutant;
  bool plain = store->ignores && client == &model->world->clients[1];
  return store->bounded && !plain && !model->world->withdrawn;
}

/* A store with bounds refuses what would reach that of the operation; a client's node may be without. What finds
 * no key makes one with its seed. */
static bool is_full(const struct model *model, const struct client *client,
                    weir_operation *operation, const struct key *key) {
  const struct mutant *store = model->mutant;
  bool present = key != NULL && key->present;
  bool seeds = !present && operation->seed > 0 && !store->refuses_seeds;
  int64_t there = present ? key->value : operation->seed;
  if (operation->kind != WEIR_ADD || operation->floor == 0 || seeds ||
      !keeps_bounds(model, client) ||
      (!store->contrary && there + operation->delta < operation->floor))
    return false;
  if (store->cuts) {
    operation->delta = operation->floor - 1 - there;
    return false;
  }
  operation->value = there;
  operation->outcome = WEIR_FULL;
  return true;
}

/* The operation finds nothing. */
static void on_absent(struct model *model, weir_operation *operation) {
  struct key *key;
  switch (operation->kind) {
    case WEIR_ADD:
    case WEIR_CREATE:
    case WEIR_PUT:
      key = find_or_make(model, operation);
      write_value(
          key, operation->kind == WEIR_ADD ? operation->seed + operation->delta : operation->value);
      key->raised = false;
      operation->outcome = WEIR_DONE;
      operation->version_out = reported_version(model, key);
      if (operation->kind == WEIR_ADD) operation->value = key->value;
      break;
    case WEIR_SUB: /* a store with RAISE is one that can only subtract from what it creates */
      if (!operation->raised && model->settings.traits & WEIR_TRAIT_RAISE)
        write_value(find_or_make(model, operation), operation->seed);
      operation->outcome = WEIR_ABSENT;
      break;
    default:
      operation->outcome = WEIR_ABSENT;
  }
}

static void subtract(const struct model *model, weir_operation *operation, struct key *key) {
  int64_t value = key->value - operation->delta;
  write_value(key, model->mutant->saturates && value < 0 ? 0 : value);
  operation->value = key->value;
}

static void swap(const struct model *model, weir_operation *operation, struct key *key) {
  if (operation->version != key->version) {
    operation->outcome = WEIR_CONFLICT;
    return;
  }
  write_value(key, operation->value);
  operation->version_out = reported_version(model, key);
}

static void on_present(struct model *model, weir_operation *operation, struct key *key) {
  operation->outcome = WEIR_DONE;
  switch (operation->kind) {
    case WEIR_ADD:
      write_value(key, key->value + operation->delta);
      operation->value = key->value;
      break;
    case WEIR_SUB:
      subtract(model, operation, key);
      break;
    case WEIR_GET:
      operation->value = key->value;
      if (model->settings.traits & WEIR_TRAIT_SWAP) operation->version_out = key->version;
      break;
    case WEIR_CREATE:
      operation->outcome = WEIR_CONFLICT;
      break;
    case WEIR_SWAP:
      swap(model, operation, key);
      break;
    case WEIR_PUT:
      write_value(key, operation->value);
      break;
    case WEIR_DROP:
      key->present = false;
      key->value = 0;
      break;
    case WEIR_RAISE:
      break;
  }
}

/* Redis makes RAISE of two commands, and others may come between them. Without refresh the first
 * finds the key or does nothing. */
static void lift(struct model *model, const weir_operation *operation, struct key *key) {
  bool present = key != NULL && key->present;
  if (!present && !operation->refresh && !model->mutant->creates) return;
  if (!present) {
    key = find_or_make(model, operation);
    key->lives_until_us = 0;
    if (operation->refresh)
      renew(model, operation, key); /* nobody is cut from the rest of the write */
  }
  if (!present || key->value < operation->floor) write_value(key, operation->floor);
  key->raised = true;
}

/* Whoever is charged finds the key with as long to live as is needed. */
static void check_life(struct model *model, const weir_operation *operation,
                       const struct key *key) {
  int64_t least_us = truth_of(model, (int)operation->counter.rule)
                         ->least_ttl_us(model, (int)operation->counter.rule);
  int64_t left_us = key->lives_until_us - model->world->real_us;
  if (!(model->scope->flags & LIVES)) return;
  if (key->lives_until_us == 0)
    check_fails(model, CHECK_TTL, "a key lives for ever");
  else if (left_us < least_us)
    check_fails(model, CHECK_TTL, "a key has %" PRId64 " us left to live, needed are %" PRId64,
                left_us, least_us);
}

void store_make(struct model *model, const weir_operation *operation) {
  struct key *key = find_or_make(model, operation);
  if (!key->present) write_value(key, 0);
}

static bool raise(struct model *model, struct sent *sent) {
  weir_operation *operation = &sent->operation;
  struct key *key = store_find(model, (int)operation->counter.rule, operation->counter.place,
                               operation->counter.index, operation->counter.entry);
  sent->half = !sent->half;
  if (sent->half) {
    lift(model, operation, key);
    return false;
  }
  operation->outcome = key != NULL && key->present ? WEIR_DONE : WEIR_ABSENT;
  if (operation->outcome == WEIR_ABSENT) return true;
  write_value(key, key->value + operation->delta);
  if (operation->refresh) renew(model, operation, key);
  check_life(model, operation, key);
  operation->value = key->value;
  return true;
}

/* As by LBOUND 1 - delta alone, which does not tell a key of 0 from none; and by LBOUND 0. */
static bool is_spent(const struct model *model, const weir_operation *operation,
                     const struct key *key) {
  bool subtracts = operation->kind == WEIR_SUB && !operation->raised;
  return subtracts && ((model->mutant->spends && key->value == 0) ||
                       (model->mutant->spares && key->value < operation->delta));
}

bool store_execute(struct model *model, struct client *client, struct sent *sent) {
  weir_operation *operation = &sent->operation;
  int rule = (int)operation->counter.rule;
  struct key *key = store_find(model, rule, operation->counter.place, operation->counter.index,
                               operation->counter.entry);
  bool present = key != NULL && key->present && !is_spent(model, operation, key);
  int64_t before = present ? key->value : 0;
  check_operation(model, operation, key);
  if (is_full(model, client, operation, key)) return true;
  if (operation->kind == WEIR_RAISE) {
    if (!raise(model, sent)) return false;
  } else if (present) {
    on_present(model, operation, key);
  } else {
    on_absent(model, operation);
  }
  key = store_find(model, rule, operation->counter.place, operation->counter.index,
                   operation->counter.entry);
  const struct truth *truth = truth_of(model, rule);
  bool changed = operation->outcome == WEIR_DONE && operation->kind != WEIR_GET;
  if (operation->counter.place == WEIR_PLACE_LIMIT) {
    if (changed) keys_changed(model, before);
    return true;
  }
  if (changed && key != NULL && truth->landed != NULL)
    truth->landed(model, client, operation, key, before);
  return true;
}
