/* Decides one request: executes the operations of the rule's machine on made-up slots, round after
 * round, until it is done. */
#include "simulate/driver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/defaults.h"

static int64_t or_default(int64_t given, int64_t otherwise) {
  return given != 0 ? given : otherwise;
}

weir_status weir_driver_init(weir_driver *driver, const char *rule,
                             const weir_limiter_options *options, weir_message *message) {
  *driver = (weir_driver){.version = 1};
  weir_status status =
      weir_stack_parse(rule, (uint32_t)or_default(options->processes, WEIR_DEFAULT_PROCESSES),
                       &driver->stack, message);
  if (status != WEIR_OK) return status;
  for (size_t i = 0; i < driver->stack.count; i++) {
    if (!weir_rule_is_held(&driver->stack.rules[i])) continue;
    weir_message_set(message,
                     "rule %zu (%s): the requests do not say how long each holds its place; "
                     "--duration FIELD names what does in a log",
                     i + 1, weir_rule_kind_name(driver->stack.rules[i].kind));
    return WEIR_BAD_RULE;
  }

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

  driver->memo_bytes = weir_memo_bytes(&driver->stack);
  void *memory = malloc(weir_machine_bytes(&driver->stack));
  if (memory == NULL) return WEIR_NO_MEMORY;
  driver->machine = weir_machine_init(memory, &driver->stack, &driver->settings);
  driver->round = calloc(weir_machine_operations_most(&driver->stack), sizeof *driver->round);
  return driver->round != NULL ? WEIR_OK : WEIR_NO_MEMORY;
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
                               weir_request_state *request, weir_message *message) {
  weir_machine *machine = driver->machine;
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
  if (request->status != WEIR_OK)
    weir_message_set(message, "%s", weir_status_text(request->status));
  return request->status;
}

static void expire(const weir_driver *driver, weir_driven_key *key, int64_t now_us) {
  for (size_t i = 0; i < driver->stack.count; i++)
    weir_slots_expire(key->places + i * WEIR_PLACES, now_us);
}

weir_status weir_driver_decide(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                               weir_request_state *request, weir_message *message) {
  for (size_t i = 0; i < driver->stack.count; i++) {
    const weir_rule *rule = &driver->stack.rules[i];
    if (!weir_rule_takes_one(rule) || request->cost == 1 || request->up_to) continue;
    weir_message_set(message, "cost %" PRId64 " for a %s: accepted is 1", request->cost,
                     weir_rule_kind_name(rule->kind));
    return WEIR_BAD_COST;
  }
  expire(driver, key, now_us);
  if (weir_settle_never(&driver->stack, now_us, request)) return WEIR_OK;
  if (weir_settle_locally(&driver->stack, &driver->settings, key->memo, now_us, request))
    return WEIR_OK;
  return run_machine(driver, key, now_us, request, message);
}

weir_status weir_driver_settle(weir_driver *driver, weir_driven_key *key, int64_t now_us,
                               weir_request_state *request, weir_message *message) {
  expire(driver, key, now_us);
  return run_machine(driver, key, now_us, request, message);
}
