/* Decides one request: executes the operations of the rule's machine on made-up slots, round after
 * round, until it is done. */
#include "simulate/driver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm/view.h"
#include "array.h"
#include "limiter/defaults.h"

static int64_t or_default(int64_t given, int64_t otherwise) {
  return given != 0 ? given : otherwise;
}

static weir_status parse(weir_driver *driver, const char *rule, const weir_limiter_options *options,
                         weir_message *message) {
  *driver = (weir_driver){.version = 1};
  return weir_stack_parse(rule, (uint32_t)or_default(options->processes, WEIR_DEFAULT_PROCESSES),
                          &driver->stack, message);
}

static weir_status refuse_tenants_and_places(const weir_driver *driver, weir_message *message) {
  for (size_t i = 0; i < driver->stack.count; i++) {
    if (weir_rule_is_shared(&driver->stack.rules[i])) {
      weir_message_set(
          message,
          "rule %zu (%s): the requests do not say who their tenants are; --tenant FIELD "
          "names what does, in place of --recommend, --real, --class and --attack",
          i + 1, weir_rule_kind_name(driver->stack.rules[i].kind));
      return WEIR_BAD_RULE;
    }
    if (!weir_rule_is_held(&driver->stack.rules[i])) continue;
    weir_message_set(message,
                     "rule %zu (%s): the requests do not say how long each holds its place; "
                     "--duration FIELD names what does in a log",
                     i + 1, weir_rule_kind_name(driver->stack.rules[i].kind));
    return WEIR_BAD_RULE;
  }
  return WEIR_OK;
}

static weir_status begin(weir_driver *driver, const weir_limiter_options *options) {
  /* The defaults of a limiter whose store answers within 20 ms. */
  weir_settings *settings = &driver->settings;
  *settings = (weir_settings){
      .clock_error_us = or_default(options->clock_error_us, WEIR_DEFAULT_CLOCK_ERROR_US),
      .memo_age_us = or_default(options->memo_age_us, WEIR_DEFAULT_MEMO_AGE_US),
      .local_denial_us = or_default(options->local_denial_us, WEIR_DEFAULT_LOCAL_DENIAL_US),
      .longest_wait_us = or_default(options->longest_wait_us, WEIR_DEFAULT_LONGEST_WAIT_US),
      .least_ttl_us = options->least_ttl_us,
      .traits = WEIR_TRAIT_SWAP,
      .cached_cells = !(options->flags & WEIR_NO_CACHED_CELLS),
      .local_denial = !(options->flags & WEIR_NO_LOCAL_DENIAL),
  };
  weir_settings_set_margins(settings, or_default(options->deadline_us, 20000));
  if (settings->local_denial_us > settings->memo_age_us)
    settings->local_denial_us = settings->memo_age_us;
  for (size_t i = 0; i < driver->stack.count;
       i++) /* a denial is told to the pool, and not repeated */
    if (weir_rule_is_shared(&driver->stack.rules[i])) settings->local_denial = false;

  driver->memo_bytes = weir_memo_bytes(&driver->stack);
  void *memory = malloc(weir_machine_bytes(&driver->stack));
  if (memory == NULL) return WEIR_NO_MEMORY;
  driver->machine = weir_machine_init(memory, &driver->stack, &driver->settings);
  driver->round = calloc(weir_machine_operations_most(&driver->stack), sizeof *driver->round);
  return driver->round != NULL ? WEIR_OK : WEIR_NO_MEMORY;
}

weir_status weir_driver_init(weir_driver *driver, const char *rule,
                             const weir_limiter_options *options, weir_message *message) {
  weir_status status = parse(driver, rule, options, message);
  if (status == WEIR_OK) status = refuse_tenants_and_places(driver, message);
  return status == WEIR_OK ? begin(driver, options) : status;
}

weir_status weir_driver_init_shared(weir_driver *driver, const char *rule,
                                    const weir_limiter_options *options, weir_message *message) {
  weir_status status = parse(driver, rule, options, message);
  if (status != WEIR_OK) return status;
  if (driver->stack.count == 1 && weir_rule_is_shared(&driver->stack.rules[0]))
    return begin(driver, options);
  weir_message_set(message, "--tenant is for rules that have tenants: \"%.60s\" has none", rule);
  return WEIR_BAD_RULE;
}

void weir_driver_clean_up(weir_driver *driver) {
  free(driver->machine);
  free(driver->round);
  driver->machine = NULL;
  driver->round = NULL;
}

void weir_driver_remove_key(const weir_driver *driver, weir_driven_key *key) {
  for (size_t i = 0; key->places != NULL && i < driver->stack.count; i++)
    weir_slots_clean_up(key->places + i * WEIR_PLACES);
  free(key->places);
  free(key->memo);
  *key = (weir_driven_key){0};
}

bool weir_driver_add_key(const weir_driver *driver, weir_driven_key *key) {
  *key = (weir_driven_key){.places = calloc(driver->stack.count, WEIR_PLACES * sizeof *key->places),
                           .memo = calloc(1, driver->memo_bytes)};
  if (key->places != NULL && key->memo != NULL) return true;
  weir_driver_remove_key(driver, key);
  return false;
}

void weir_driver_clear_key(const weir_driver *driver, weir_driven_key *key) {
  for (size_t i = 0; i < driver->stack.count * WEIR_PLACES; i++)
    weir_slots_clear(&key->places[i]);
  memset(key->memo, 0, driver->memo_bytes);
}

/* Round after round, until the request is settled. */
static weir_status run_machine(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                               weir_claim *request, weir_message *message) {
  weir_machine *machine = driver->machine;
  if (key->pool != NULL) weir_memo_share(&driver->stack, key->memo, key->pool);
  weir_turn turn = weir_machine_start(machine, now_us, key->memo, request, driver->round);
  for (; turn != WEIR_TURN_DONE;
       turn = weir_machine_resume(machine, now_us, false, driver->round)) {
    if (turn != WEIR_TURN_EXECUTE) continue; /* a pause takes no time here */
    driver->rounds++;
    for (size_t i = 0; i < machine->frame.operation_count; i++) {
      weir_operation *operation = &driver->round[i];
      if (operation->ttl_us > driver->longest_ttl_us) driver->longest_ttl_us = operation->ttl_us;
      driver->operations++;
      if (!weir_slots_execute(key->places + operation->counter.rule * WEIR_PLACES, now_us,
                              ++driver->version, operation))
        return WEIR_NO_MEMORY;
    }
  }
  memcpy(key->memo, machine->frame.memo, driver->memo_bytes);
  if (key->pool != NULL) weir_memo_share(&driver->stack, key->pool, key->memo);
  if (request->verdict.status != WEIR_OK)
    weir_message_set(message, "%s", weir_status_text(request->verdict.status));
  return request->verdict.status;
}

static void expire(const weir_driver *driver, weir_driven_key *key, int64_t now_us) {
  for (size_t i = 0; i < driver->stack.count; i++)
    weir_slots_expire(key->places + i * WEIR_PLACES, now_us);
}

weir_status weir_driver_decide(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                               weir_claim *request, weir_message *message) {
  for (size_t i = 0; i < driver->stack.count; i++) {
    const weir_rule *rule = &driver->stack.rules[i];
    if (!weir_rule_takes_one(rule) || request->ask.cost == 1 || request->ask.up_to) continue;
    weir_message_set(message, "cost %" PRId64 " for a %s: accepted is 1", request->ask.cost,
                     weir_rule_kind_name(rule->kind));
    return WEIR_BAD_COST;
  }
  expire(driver, key, now_us);
  if (weir_settle_never(&driver->stack, now_us, request)) return WEIR_OK;
  const weir_view view = {&driver->stack, &driver->settings, key->memo, now_us};
  if (weir_settle_locally(&view, request)) return WEIR_OK;
  return run_machine(driver, key, now_us, request, message);
}

weir_status weir_driver_settle(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                               weir_claim *request, weir_message *message) {
  expire(driver, key, now_us);
  return run_machine(driver, key, now_us, request, message);
}

/* --- the counters of a simulated store, with their TTL ------------------------------------------
 */

enum { ROOM_LEAST = 2, ROOM_KEPT = 64 };

void weir_slots_clean_up(weir_slots places[WEIR_PLACES]) {
  for (int i = 0; i < WEIR_PLACES; i++) {
    free(places[i].slots);
    places[i] = (weir_slots){0};
  }
}

void weir_slots_clear(weir_slots *place) {
  place->first = place->end = 0;
  if (place->room <= ROOM_KEPT) return;
  free(place->slots);
  *place = (weir_slots){0};
}

void weir_slots_expire(weir_slots places[WEIR_PLACES], int64_t now_us) {
  for (int i = 0; i < WEIR_PLACES; i++) {
    weir_slots *place = &places[i];
    while (place->first < place->end && place->slots[place->first].expiry_us <= now_us)
      place->first++;
  }
}

size_t weir_slots_count(const weir_slots places[WEIR_PLACES]) {
  size_t count = 0;
  for (int i = 0; i < WEIR_PLACES; i++)
    count += places[i].end - places[i].first;
  return count;
}

/* Whether the operation's entry is there, and where, or where it would stand. */
static bool locate(const weir_slots *place, const weir_operation *operation, size_t *at) {
  int64_t index = operation->counter.index, entry = operation->counter.entry;
  size_t low = place->first, high = place->end;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const weir_stored_counter *slot = &place->slots[middle];
    if (slot->index != index ? slot->index < index : slot->entry < entry)
      low = middle + 1;
    else
      high = middle;
  }
  *at = low;
  return low < place->end && place->slots[low].index == index && place->slots[low].entry == entry;
}

static bool make_room(weir_slots *place) {
  return weir_array_make_room(&place->slots, &place->first, &place->end, &place->room,
                              sizeof *place->slots, ROOM_LEAST);
}

bool weir_slots_append(weir_slots *place, const weir_stored_counter *slot) {
  if (!make_room(place)) return false;
  place->slots[place->end++] = *slot;
  return true;
}

static void erase(weir_slots *place, size_t at) {
  weir_stored_counter *slot = &place->slots[at];
  memmove(slot, slot + 1, (place->end - at - 1) * sizeof *slot);
  place->end--;
}

/* Makes an absent counter, which lives from now on. NULL: there is no memory. */
static weir_stored_counter *make(weir_slots *place, const weir_operation *operation,
                                 int64_t now_us) {
  size_t at;
  if (!make_room(place)) return NULL;
  (void)locate(place, operation, &at);
  weir_stored_counter *made = &place->slots[at];
  memmove(made + 1, made, (place->end - at) * sizeof *made);
  place->end++;
  *made = (weir_stored_counter){.index = operation->counter.index,
                                .entry = operation->counter.entry,
                                .value = operation->kind == WEIR_ADD ? operation->seed : 0,
                                .expiry_us = now_us + operation->ttl_us};
  return made;
}

bool weir_slots_execute(weir_slots places[WEIR_PLACES], int64_t now_us, uint64_t version,
                        weir_operation *operation) {
  weir_slots *place = &places[operation->counter.place];
  weir_operation_kind kind = operation->kind;
  bool refreshed = kind == WEIR_PUT || (kind == WEIR_RAISE && operation->refresh);
  size_t at;
  bool present = locate(place, operation, &at);
  if (present && place->slots[at].expiry_us <= now_us) {
    erase(place, at);
    present = false;
  }
  if (!present && !refreshed && kind != WEIR_ADD && kind != WEIR_CREATE) {
    operation->outcome = WEIR_ABSENT;
    return true;
  }

  weir_stored_counter *slot = present ? &place->slots[at] : make(place, operation, now_us);
  if (slot == NULL) return false;
  operation->outcome = WEIR_DONE;
  switch (kind) {
    case WEIR_GET:
      operation->value = slot->value;
      operation->version_out = slot->version;
      return true;
    case WEIR_DROP:
      erase(place, at);
      return true;
    case WEIR_ADD:
      operation->value = slot->value + operation->delta;
      break;
    case WEIR_SUB:
      operation->value = slot->value - operation->delta;
      break;
    case WEIR_RAISE:
      operation->value =
          (slot->value > operation->floor ? slot->value : operation->floor) + operation->delta;
      break;
    default: /* CREATE, SWAP, PUT: to the operation's own value */
      if ((kind == WEIR_CREATE && present) ||
          (kind == WEIR_SWAP && slot->version != operation->version)) {
        operation->outcome = WEIR_CONFLICT;
        return true;
      }
      break;
  }
  slot->value = operation->value;
  slot->version = operation->version_out = version;
  if (refreshed || kind == WEIR_SWAP) slot->expiry_us = now_us + operation->ttl_us;
  return true;
}
