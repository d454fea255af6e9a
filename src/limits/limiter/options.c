/* The caller's options: read once, checked, and turned into what the library works with. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <weir/backend.h>

#include "algorithm/in_flight.h"
#include "algorithm/method.h"
#include "limiter/defaults.h"
#include "limiter/limiter.h"

enum {
  ALL_FLAGS = WEIR_NO_CACHED_CELLS | WEIR_NO_LOCAL_DENIAL | WEIR_NO_COMBINING | WEIR_NO_LEASES |
              WEIR_ABSENT_DENIES
};

/* One numeric option: 0 means default. */
static weir_status read_number(const char *name, int64_t given, int64_t least, int64_t most,
                               int64_t otherwise, int64_t *value, weir_message *message) {
  *value = given == 0 ? otherwise : given;
  if (given == 0 || (given >= least && given <= most)) return WEIR_OK;
  weir_message_set(message,
                   "option %s is %" PRId64 ": accepted are %" PRId64 " to %" PRId64
                   ", or 0 for the default",
                   name, given, least, most);
  return WEIR_BAD_ARGUMENT;
}

static bool is_zero(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] != 0) return false;
  return true;
}

/* A caller built with a newer header may set what this version does not know, and is told so. */
static weir_status check_size(const weir_limiter_options *given, weir_message *message) {
  enum { SIZE_MOST = 4096 }; /* a larger one was never set */
  size_t known = sizeof *given;
  if (given->size < sizeof given->size || given->size > SIZE_MOST) {
    weir_message_set(message, "option size is %zu: accepted is sizeof(weir_limiter_options), %zu",
                     given->size, known);
    return WEIR_BAD_ARGUMENT;
  }
  if (given->size <= known || is_zero((const char *)given + known, given->size - known))
    return WEIR_OK;
  weir_message_set(message,
                   "option size is %zu: this version knows %zu bytes, and what follows is accepted "
                   "only if it is zero",
                   given->size, known);
  return WEIR_BAD_ARGUMENT;
}

/* A caller built with an older header passes a shorter structure: what it lacks is default. */
static weir_status copy_options(const weir_limiter_options *given, weir_limiter_options *options,
                                weir_message *message) {
  memset(options, 0, sizeof *options);
  if (given == NULL) return WEIR_OK;
  weir_status status = check_size(given, message);
  if (status != WEIR_OK) return status;
  memcpy(options, given, given->size < sizeof *options ? given->size : sizeof *options);
  if (options->flags & ~(unsigned)ALL_FLAGS) {
    weir_message_set(message, "option flags is 0x%x: accepted are those of enum weir_limiter_flag",
                     options->flags);
    return WEIR_BAD_ARGUMENT;
  }
  if (options->flags & WEIR_ABSENT_DENIES && options->limits_us == 0) {
    weir_message_set(message, "option flags has WEIR_ABSENT_DENIES: accepted with limits_us");
    return WEIR_BAD_ARGUMENT;
  }
  if (options->fallback > WEIR_FALLBACK_NONE) {
    weir_message_set(message, "option fallback is %u: accepted are those of enum weir_fallback",
                     options->fallback);
    return WEIR_BAD_ARGUMENT;
  }
  if (options->renew > WEIR_RENEW_BY_CALLER) {
    weir_message_set(message, "option renew is %u: accepted are those of enum weir_renew_by",
                     options->renew);
    return WEIR_BAD_ARGUMENT;
  }
  if (options->reserved != 0 || options->reserved_too != 0) {
    weir_message_set(message, "option reserved is %u: accepted is 0",
                     (unsigned)(options->reserved | options->reserved_too));
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

/* All numbers stand in one table: name, what was given, what is accepted, the default, and where
 * the value goes. */
weir_status weir_limiter_configure(weir_limiter *limiter, const weir_limiter_options *given,
                                   int64_t store_timeout_us, uint32_t *processes,
                                   weir_message *message) {
  weir_limiter_options o;
  weir_status status = copy_options(given, &o, message);
  if (status != WEIR_OK) return status;
  weir_settings *settings = &limiter->settings;
  int64_t process_count = 0;
  int64_t memo_keys = 0;
  int64_t peers = 0;
  const struct {
    const char *name;
    int64_t given, least, most, otherwise;
    int64_t *value;
  } numbers[] = {
      {"deadline_us", o.deadline_us, 1000, 60000000, store_timeout_us, &limiter->deadline_us},
      {"clock_error_us", o.clock_error_us, 1, 60000000, WEIR_DEFAULT_CLOCK_ERROR_US,
       &settings->clock_error_us},
      {"processes", o.processes, 1, 100000, WEIR_DEFAULT_PROCESSES, &process_count},
      {"memo_keys", o.memo_keys, 1, WEIR_MEMO_KEYS_MOST, 0, &memo_keys},
      {"memo_age_us", o.memo_age_us, 1, 60000000, WEIR_DEFAULT_MEMO_AGE_US, &settings->memo_age_us},
      {"local_denial_us", o.local_denial_us, 1, 60000000, WEIR_DEFAULT_LOCAL_DENIAL_US,
       &settings->local_denial_us},
      {"least_ttl_us", o.least_ttl_us, 1, WEIR_PERIOD_MOST_US, 0, &settings->least_ttl_us},
      {"peers", o.peers, 1, 100000, o.processes != 0 ? o.processes : WEIR_DEFAULT_PEERS, &peers},
      {"longest_wait_us", o.longest_wait_us, 1, 1800000000, WEIR_DEFAULT_LONGEST_WAIT_US,
       &settings->longest_wait_us},
      {"limits_us", o.limits_us, 1000, 60000000, 0, &limiter->limits_us},
  };
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    status = read_number(numbers[i].name, numbers[i].given, numbers[i].least, numbers[i].most,
                         numbers[i].otherwise, numbers[i].value, message);
    if (status != WEIR_OK) return status;
  }
  *processes = (uint32_t)process_count;
  settings->processes = process_count;
  limiter->memo_keys = (size_t)memo_keys;
  limiter->peers = (weir_peers){(uint32_t)peers, o.peers != 0};
  limiter->fallback = (weir_fallback)o.fallback;
  limiter->caller_renews = o.renew == WEIR_RENEW_BY_CALLER;
  /* A denial is not repeated for longer than what it rests on may be believed. */
  if (settings->local_denial_us > settings->memo_age_us)
    settings->local_denial_us = settings->memo_age_us;
  limiter->clock = o.clock.now_us != NULL ? o.clock : (weir_clock){weir_real_time_us, NULL};
  weir_settings_set_margins(settings, limiter->deadline_us);
  limiter->one_by_one = (o.flags & WEIR_NO_COMBINING) != 0;
  settings->cached_cells = !(o.flags & WEIR_NO_CACHED_CELLS);
  settings->local_denial = !(o.flags & WEIR_NO_LOCAL_DENIAL);
  settings->notices_loss = true;
  limiter->absent_denies = (o.flags & WEIR_ABSENT_DENIES) != 0;
  limiter->leases =
      !(o.flags & WEIR_NO_LEASES); /* where the rules have any: weir_limiter_finish() */
  settings->traits = limiter->store->backend->traits;
  return WEIR_OK;
}

/* A rule that needs to swap or raise must find it in the store; all else every store can do. */
static bool has_traits(unsigned needs, unsigned traits) {
  return (!(needs & WEIR_NEED_SWAP) || traits & WEIR_TRAIT_SWAP) &&
         (!(needs & WEIR_NEED_RAISE) || traits & WEIR_TRAIT_RAISE);
}

weir_status weir_limiter_check_limits(const weir_limiter *limiter, weir_message *message) {
  const weir_stack *stack = &limiter->stack;
  if (limiter->limits_us == 0) return WEIR_OK;
  if (weir_stack_steered(stack) == stack->count) {
    weir_message_set(message, "option limits_us: accepted with most= in one of the rules");
    return WEIR_BAD_RULE;
  }
  if (weir_rule_is_shared(&stack->rules[0])) {
    weir_message_set(message,
                     "option limits_us with a %s: a pool's limit is that of its rule or of the "
                     "request, and accepted is no limits_us",
                     weir_rule_kind_name(stack->rules[0].kind));
    return WEIR_BAD_RULE;
  }
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    if (rule->lease_us == 0 || !weir_rule_is_held(rule)) continue;
    weir_message_set(message,
                     "option limits_us with lease= in rule %zu (%s): a place that is kept would "
                     "outlive a limit, and accepted is one of them",
                     i + 1, weir_rule_kind_name(rule->kind));
    return WEIR_BAD_RULE;
  }
  return WEIR_OK;
}

weir_status weir_limiter_check_store(const weir_limiter *limiter, weir_message *message) {
  unsigned traits = limiter->settings.traits;
  int64_t held_least_us = WEIR_HELD_MARGINS * limiter->settings.ahead_us;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    if (weir_rule_is_held(rule) && rule->period_us < held_least_us) {
      weir_message_set(message,
                       "rule %zu (%s): a period of %" PRId64
                       " ms is too short to pay again in time: "
                       "accepted are %" PRId64
                       " ms or more, %d times 2 * clock_error_us + deadline_us",
                       i + 1, weir_rule_kind_name(rule->kind), rule->period_us / 1000,
                       (held_least_us + 999) / 1000, WEIR_HELD_MARGINS);
      return WEIR_BAD_RULE;
    }
    if (weir_rule_is_shared(rule) && rule->cell_us <= limiter->settings.final_us) {
      weir_message_set(message,
                       "rule %zu (%s): cells of %" PRId64
                       " ms are too short for these clocks and deadlines: accepted are more than "
                       "%" PRId64 " ms, 2 * clock_error_us + deadline_us",
                       i + 1, weir_rule_kind_name(rule->kind), rule->cell_us / 1000,
                       limiter->settings.final_us / 1000);
      return WEIR_BAD_RULE;
    }
    if (has_traits(weir_method_of(rule, traits)->needs, traits)) continue;
    weir_message_set(message,
                     "rule %zu (%s) needs a store with SWAP or RAISE: backend %s has neither",
                     i + 1, weir_rule_kind_name(rule->kind), limiter->store->backend->name);
    return WEIR_BAD_RULE;
  }
  return WEIR_OK;
}
