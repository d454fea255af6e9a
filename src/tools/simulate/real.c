/* Takes, and settles once time goes on. A key's two histories are what it spent: `ruled` where the rule
 * is settled, `own` where it is looked at first. */
#include "simulate/real.h"

#include <stdlib.h>

#include "array.h"

/* It has been admitted by some. */
typedef struct weir_real_request {
  const weir_key *key;
  int64_t cost, real;
  unsigned settled, looked; /* the stacks that did, one bit each */
} weir_real_request;

weir_status weir_reals_init(weir_reals *reals, const char *const *rules, size_t rule_count,
                            const weir_limiter_options *options, weir_message *message) {
  *reals = (weir_reals){0};
  weir_status status = WEIR_OK;
  for (size_t i = 0; status == WEIR_OK && i < rule_count; i++) {
    const weir_stack *stack = &reals->drivers[i].stack;
    status = weir_driver_init(&reals->drivers[i], rules[i], options, message);
    reals->rule_count = i + 1;
    for (size_t j = 0; status == WEIR_OK && j < stack->count; j++) {
      if (weir_rule_settles(&stack->rules[j])) continue;
      weir_message_set(message, "--real: a %s cannot be settled",
                       weir_rule_kind_name(stack->rules[j].kind));
      status = WEIR_BAD_RULE;
    }
  }
  if (status == WEIR_OK && !weir_keys_init(&reals->keys, reals->drivers, rule_count))
    status = WEIR_NO_MEMORY;
  if (status != WEIR_OK) weir_reals_clean_up(reals);
  return status;
}

void weir_reals_clean_up(weir_reals *reals) {
  weir_keys_clean_up(&reals->keys);
  for (size_t i = 0; i < reals->rule_count; i++)
    weir_driver_clean_up(&reals->drivers[i]);
  free(reals->underway);
  reals->underway = NULL;
}

/* --- what was spent ----------------------------------------------------------------------------- */

/* Writes it into every rule's window of the last period. False: not enough memory. */
static bool spend(weir_real_spent *spent, const weir_stack *stack, weir_exact *exact, bool own,
                  int64_t now_us, int64_t real) {
  spent->cost += real;
  for (size_t i = 0; i < stack->count; i++) {
    weir_stamps *stamps = own ? &exact[i].own : &exact[i].ruled;
    int64_t limit = stack->rules[i].limit;
    weir_stamps_slide(stamps, now_us, stack->rules[i].period_us);
    if (!weir_stamps_add(stamps, now_us, real, real)) return false;
    if (spent->most * limit >= stamps->counted * (spent->most_limit + !spent->most_limit)) continue;
    spent->most = stamps->counted;
    spent->most_limit = limit;
  }
  return true;
}

/* What was really spent, less what the rule that was charged least has of it, is cut. */
static weir_status settle(weir_driver *driver, weir_real_sums *sums, weir_subject *subject,
                          const weir_real_request *ended, int64_t taken_us, weir_message *message) {
  int64_t costs[WEIR_RULES_MOST];
  int64_t settlement[WEIR_RULES_MOST] = {0};
  int64_t least = ended->real;
  for (size_t i = 0; i < driver->stack.count; i++)
    costs[i] = ended->real - ended->cost;
  if (ended->real != ended->cost) {
    weir_request_state request = {
        .kind = WEIR_SETTLE, .costs = costs, .settlement = settlement, .at_us = taken_us};
    weir_status status =
        weir_driver_settle(driver, &subject->driven, taken_us + 1, &request, message);
    if (status != WEIR_OK) return status;
  }
  for (size_t i = 0; i < driver->stack.count; i++)
    if (ended->cost + settlement[i] < least) least = ended->cost + settlement[i];
  sums->cut += ended->real - least;
  return spend(&sums->settled, &driver->stack, subject->exact, false, taken_us, ended->real)
             ? WEIR_OK
             : WEIR_NO_MEMORY;
}

/* All that are under way end, before anything that comes later. */
static weir_status end_all(weir_reals *reals, weir_message *message) {
  weir_status status = WEIR_OK;
  for (size_t i = 0; status == WEIR_OK && i < reals->count; i++) {
    const weir_real_request *ended = &reals->underway[i];
    const weir_key *key =
        weir_keys_use(&reals->keys, ended->key->text, ended->key->length, reals->now_us);
    if (key == NULL) return WEIR_NO_MEMORY;
    for (size_t j = 0; status == WEIR_OK && j < reals->rule_count; j++) {
      weir_driver *driver = &reals->drivers[j];
      weir_real_sums *sums = &reals->sums[j];
      weir_subject *subject = &key->subjects[j];
      if (ended->settled >> j & 1)
        status = settle(driver, sums, subject, ended, reals->now_us, message);
      if (ended->looked >> j & 1 &&
          !spend(&sums->looked, &driver->stack, subject->exact, true, reals->now_us, ended->real))
        status = WEIR_NO_MEMORY;
    }
  }
  reals->count = 0;
  return status;
}

/* --- requests ----------------------------------------------------------------------------------- */

/* Whether every rule has anything left of what was spent in its last period. */
static bool has_room(const weir_stack *stack, weir_exact *exact, int64_t now_us) {
  for (size_t i = 0; i < stack->count; i++) {
    weir_stamps_slide(&exact[i].own, now_us, stack->rules[i].period_us);
    if (exact[i].own.counted >= stack->rules[i].limit) return false;
  }
  return true;
}

weir_status weir_reals_request(weir_reals *reals, int64_t time_us, const char *key,
                               size_t key_length, int64_t cost, int64_t real,
                               weir_message *message) {
  weir_status status = WEIR_OK;
  if (time_us > reals->now_us) { /* an earlier time counts as now, as in the simulation */
    status = end_all(reals, message);
    reals->now_us = time_us;
    weir_keys_expire(&reals->keys, time_us);
  }
  weir_key *used = weir_keys_use(&reals->keys, key, key_length, reals->now_us);
  if (used == NULL ||
      !weir_array_grow(&reals->underway, &reals->room, reals->count + 1, sizeof *reals->underway))
    return WEIR_NO_MEMORY;
  weir_real_request begun = {.key = used, .cost = cost, .real = real};
  reals->asked += real;
  for (size_t i = 0; status == WEIR_OK && i < reals->rule_count; i++) {
    weir_subject *subject = &used->subjects[i];
    weir_request_state request = {.kind = WEIR_TAKE, .cost = cost};
    status =
        weir_driver_decide(&reals->drivers[i], &subject->driven, reals->now_us, &request, message);
    if (status == WEIR_OK && request.decision.allowed) begun.settled |= 1U << i;
    if (has_room(&reals->drivers[i].stack, subject->exact, reals->now_us)) begun.looked |= 1U << i;
  }
  if (begun.settled != 0 || begun.looked != 0) reals->underway[reals->count++] = begun;
  return status;
}

weir_status weir_reals_finish(weir_reals *reals, weir_message *message) {
  return end_all(reals, message);
}
