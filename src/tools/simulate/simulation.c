/* A simulation has one driver, and its measure, for every rule: every request goes through all. A curve
 * has one driver, and draws what each decision says and what an exact window does. */
#include "simulate/simulation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>

#include "array.h"
#include "wide.h"

enum { BYTES_EVERY = 64 }; /* requests; a log may have thousands of entries to look at */

/* A key that comes back after it was forgotten goes on where it was. */
static void note_difference(void *context, const weir_seen_key *key, size_t driver,
                            int64_t difference) {
  weir_simulation *simulation = context;
  if (difference == 0) return;
  if (!weir_denied_keys_amount(&simulation->differences[driver], key->text, key->length, key->mark,
                               difference))
    simulation->lost = true;
}

weir_status weir_simulation_init(weir_simulation *simulation, const char *const *rules,
                                 size_t rule_count, const weir_limiter_options *options,
                                 weir_message *message) {
  *simulation = (weir_simulation){0};
  for (size_t i = 0; i < rule_count; i++) {
    weir_status status = weir_driver_init(&simulation->drivers[i], rules[i], options, message);
    simulation->texts[i] = rules[i];
    simulation->rule_count = i + 1;
    if (status == WEIR_OK) continue;
    weir_simulation_clean_up(simulation);
    return status;
  }
  if (weir_keys_init(&simulation->keys, simulation->drivers, rule_count)) {
    simulation->keys.forgotten = note_difference;
    simulation->keys.context = simulation;
    return WEIR_OK;
  }
  weir_simulation_clean_up(simulation);
  return WEIR_NO_MEMORY;
}

weir_status weir_simulation_finish(weir_simulation *simulation) {
  weir_keys_empty(&simulation->keys);
  for (size_t i = 0; i < simulation->rule_count; i++)
    simulation->measures[i].cost_differing = weir_denied_keys_spread(&simulation->differences[i]);
  return simulation->lost ? WEIR_NO_MEMORY : WEIR_OK;
}

void weir_simulation_clean_up(weir_simulation *simulation) {
  simulation->keys.forgotten = NULL;
  weir_keys_clean_up(&simulation->keys);
  weir_denied_keys_clean_up(&simulation->asked);
  for (size_t i = 0; i < simulation->rule_count; i++) {
    weir_denied_keys_clean_up(&simulation->denied[i]);
    weir_denied_keys_clean_up(&simulation->differences[i]);
    weir_driver_clean_up(&simulation->drivers[i]);
  }
}

static size_t digits(int64_t number) {
  size_t count = number < 0;
  do
    count++;
  while ((number /= 10) != 0);
  return count;
}

/* "weir:<tag>:{<key>}:<suffix>" and the value, without what a server adds. */
static uint64_t bytes_of(const weir_rule *rule, const weir_seen_key *key,
                         const weir_slots places[WEIR_PLACES]) {
  const size_t prefix = strlen("weir::{}:") + strlen(rule->tag) + key->length;
  uint64_t sum = 0;
  for (int place = 0; place < WEIR_PLACES; place++) {
    for (size_t i = places[place].first; i < places[place].end; i++) {
      const weir_stored_counter *slot = &places[place].slots[i];
      sum += prefix + digits(slot->index) + digits(slot->value);
      if (place == WEIR_PLACE_OPEN) sum++;
      if (place == WEIR_PLACE_ENTRY) sum += 1 + digits(slot->entry);
    }
  }
  return sum;
}

weir_status weir_simulation_find_class(const weir_stack *stack, const char *name, size_t length,
                                       unsigned *number, weir_message *message) {
  char copy[WEIR_NAME_MOST + 2]; /* what is too long stays so, and is none */
  *number = 0;
  if (length == 0 || stack->class_count == 0) return WEIR_OK;
  snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : sizeof copy), name);
  *number = weir_stack_find_class(stack, copy);
  if (*number > 0) return WEIR_OK;
  char accepted[WEIR_CLASS_LIST_BYTES];
  weir_stack_list_classes(stack, accepted);
  weir_message_set(message, "the class \"%.*s\" is none of the rule: accepted are %s, or none",
                   (int)(length < 60 ? length : 60), name, accepted);
  return WEIR_BAD_ARGUMENT;
}

/* One request through stack i. */
static weir_status decide(weir_simulation *simulation, size_t i, const weir_seen_key *key,
                          const weir_simulated *asked, weir_message *message) {
  weir_driver *driver = &simulation->drivers[i];
  weir_measure *measure = &simulation->measures[i];
  weir_subject *subject = &key->subjects[i];
  const weir_stack *stack = &driver->stack;
  const weir_slots *places = subject->driven.places;
  int64_t now_us = simulation->now_us;
  int64_t before = measure->cost_allowed - measure->cost_exactly_allowed;
  weir_claim request = {.ask = {.kind = WEIR_TAKE, .cost = asked->cost}};
  weir_status status = weir_simulation_find_class(stack, asked->class_name, asked->class_length,
                                                  &request.ask.class, message);
  if (status == WEIR_OK)
    status = weir_driver_decide(driver, &subject->driven, now_us, &request, message);
  if (status != WEIR_OK) return status;

  /* The store's entries for the key; a sample of its bytes. */
  uint64_t entries = 0;
  for (size_t j = 0; j < stack->count; j++)
    entries += weir_slots_count(places + j * WEIR_PLACES);
  measure->entries += entries;
  if (entries > measure->entries_most) measure->entries_most = entries;
  if (measure->requests % BYTES_EVERY == 0) {
    for (size_t j = 0; j < stack->count; j++)
      measure->state_bytes += bytes_of(&stack->rules[j], key, places + j * WEIR_PLACES);
    measure->state_samples++;
  }

  const weir_measured measured = {now_us, key->text, key->length, asked->cost, request.ask.class};
  if (!weir_measure_decision(measure, stack, subject->exact, &measured, &request.verdict.decision))
    return WEIR_NO_MEMORY;
  subject->difference += measure->cost_allowed - measure->cost_exactly_allowed - before;
  if (request.verdict.decision.allowed) return WEIR_OK;
  bool noted =
      weir_denied_keys_add(&simulation->denied[i], key->text, key->length, key->mark, now_us);
  return noted ? WEIR_OK : WEIR_NO_MEMORY;
}

weir_status weir_simulation_request(weir_simulation *simulation, const weir_simulated *request,
                                    weir_message *message) {
  int64_t time_us = request->time_us;
  /* Logs are written when requests end, so their times step back now and then. */
  if (simulation->requests++ == 0) {
    simulation->first_us = simulation->now_us = time_us;
  } else if (time_us >= simulation->now_us) {
    simulation->now_us = time_us;
  } else {
    simulation->out_of_order++;
    if (simulation->now_us - time_us > simulation->furthest_us)
      simulation->furthest_us = simulation->now_us - time_us;
  }

  weir_keys_expire(&simulation->keys, simulation->now_us);
  weir_seen_key *used =
      weir_keys_use(&simulation->keys, request->key, request->key_length, simulation->now_us);
  if (used == NULL) return WEIR_NO_MEMORY;
  if (simulation->counts_all && !weir_denied_keys_add(&simulation->asked, used->text, used->length,
                                                      used->mark, simulation->now_us))
    return WEIR_NO_MEMORY;
  for (size_t i = 0; i < simulation->rule_count; i++) {
    weir_status status = decide(simulation, i, used, request, message);
    if (status != WEIR_OK) return status;
  }
  return WEIR_OK;
}

/* --- one key's curve ----------------------------------------------------------------------------
 */

/* The stretch that is drawn, as far as it has come. */
struct stretch {
  const weir_curve *curve;
  weir_driver driver;
  weir_driven_key key;
  weir_stamps stamps;
};

/* What is taken for used, by who may fill all of the rule. */
static weir_status estimate(struct stretch *stretch, int64_t now_us, weir_curve_point *point,
                            weir_message *message) {
  weir_claim look = {.ask = {.kind = WEIR_PEEK, .cost = 1}};
  weir_status status = weir_driver_decide(&stretch->driver, &stretch->key, now_us, &look, message);
  point->estimate = look.verdict.decision.limit - look.verdict.decision.remaining;
  return status;
}

/* A look where nothing is asked: NULL. */
static weir_status draw_decision(struct stretch *stretch, int64_t now_us,
                                 const weir_curve_request *asked, weir_message *message) {
  const weir_stack *stack = &stretch->driver.stack;
  const weir_rule *rule = &stack->rules[0];
  bool takes = asked != NULL;
  int64_t cost = takes ? asked->cost : 1;
  weir_claim request = {.ask = {.kind = takes ? WEIR_TAKE : WEIR_PEEK, .cost = cost}};
  weir_curve_point point = {.at_us = now_us};
  weir_status status = WEIR_OK;
  if (takes)
    status = weir_simulation_find_class(stack, asked->class_name, strlen(asked->class_name),
                                        &request.ask.class, message);
  if (status == WEIR_OK)
    status = weir_driver_decide(&stretch->driver, &stretch->key, now_us, &request, message);
  if (status != WEIR_OK) return status;
  weir_stamps_slide(&stretch->stamps, now_us, rule->period_us);
  bool fits = stretch->stamps.counted + cost <= weir_measure_limit(rule, request.ask.class);
  bool allowed = request.verdict.decision.allowed;
  if (takes && weir_measure_counts(rule, cost, allowed) &&
      !weir_stamps_add(&stretch->stamps, now_us, cost, allowed ? cost : 0))
    return WEIR_NO_MEMORY;
  if (takes)
    point.mark = allowed == fits ? WEIR_MARK_RIGHT
                 : allowed       ? WEIR_MARK_WRONGLY_ALLOWED
                                 : WEIR_MARK_WRONGLY_DENIED;
  point.truth = weir_measure_truth(rule, 0, &stretch->stamps);
  point.estimate = request.verdict.decision.limit - request.verdict.decision.remaining;
  if (takes && (request.verdict.decision.remaining == WEIR_NOT_KNOWN)) point.estimate = point.truth;
  if (request.ask.class > 0) status = estimate(stretch, now_us, &point, message);
  if (status != WEIR_OK) return status;
  if (now_us >= stretch->curve->from_us && now_us <= stretch->curve->until_us)
    stretch->curve->draw(stretch->curve->context, &point);
  return WEIR_OK;
}

weir_status weir_curve_draw(const weir_curve *curve, weir_message *message) {
  struct stretch stretch = {.curve = curve};
  weir_status status = weir_driver_init(&stretch.driver, curve->rule, curve->options, message);
  if (status != WEIR_OK) return status;
  if (!weir_driver_add_key(&stretch.driver, &stretch.key)) status = WEIR_NO_MEMORY;

  /* Looks at even distances, and between them the requests, all in order of time. */
  int64_t step_us = (curve->until_us - curve->from_us) / curve->looks;
  int64_t look_us = curve->from_us;
  if (step_us < 1) step_us = 1;
  for (size_t i = 0; i <= curve->request_count && status == WEIR_OK; i++) {
    bool over = i == curve->request_count || curve->requests[i].at_us > curve->until_us;
    int64_t end_us = over ? curve->until_us + 1 : curve->requests[i].at_us;
    for (; look_us < end_us && status == WEIR_OK; look_us += step_us)
      status = draw_decision(&stretch, look_us, NULL, message);
    if (over || status != WEIR_OK) break;
    status = draw_decision(&stretch, curve->requests[i].at_us, &curve->requests[i], message);
  }
  weir_stamps_clean_up(&stretch.stamps);
  weir_driver_remove_key(&stretch.driver, &stretch.key);
  weir_driver_clean_up(&stretch.driver);
  return status;
}

/* --- what was denied ----------------------------------------------------------------------------
 *
 * A hash table of counts by key, and its largest entries. */

static bool has_key(const void *context, const void *item, const void *wanted) {
  const weir_denied_key *entry = item;
  const weir_denied_key *other = wanted;
  (void)context;
  return entry->key_length == other->key_length &&
         memcmp(entry->key, other->key, other->key_length) == 0;
}

void weir_denied_keys_clean_up(weir_denied_keys *keys) {
  for (weir_denied_key *each = NULL; (each = weir_hash_table_next(&keys->table, each)) != NULL;)
    free(each->key);
  weir_hash_table_clean_up(&keys->table);
}

const weir_denied_key *weir_denied_keys_find(const weir_denied_keys *keys, const char *key,
                                             size_t key_length, uint32_t mark) {
  const weir_denied_key wanted = {.key = (char *)(uintptr_t)key, .key_length = key_length};
  return weir_hash_table_find(&keys->table, mark, &wanted);
}

/* The key's entry, made when it is new; good until the next new one. NULL: not enough memory. */
static weir_denied_key *use(weir_denied_keys *keys, const char *key, size_t key_length,
                            uint32_t mark) {
  const weir_denied_key wanted = {.key = (char *)(uintptr_t)key, .key_length = key_length};
  if (keys->table.same == NULL)
    weir_hash_table_init(&keys->table, sizeof(weir_denied_key), has_key, NULL);
  weir_denied_key *entry = weir_hash_table_find(&keys->table, mark, &wanted);
  if (entry != NULL) return entry;
  char *copy = malloc(key_length);
  entry = copy != NULL ? weir_hash_table_add(&keys->table, mark) : NULL;
  if (entry == NULL) {
    free(copy);
    return NULL;
  }
  memcpy(copy, key, key_length);
  *entry = (weir_denied_key){.key = copy, .key_length = key_length};
  return entry;
}

bool weir_denied_keys_add(weir_denied_keys *keys, const char *key, size_t key_length, uint32_t mark,
                          int64_t now_us) {
  weir_denied_key *entry = use(keys, key, key_length, mark);
  if (entry == NULL) return false;
  if (entry->denied++ == 0) entry->first_us = now_us;
  return true;
}

bool weir_denied_keys_amount(weir_denied_keys *keys, const char *key, size_t key_length,
                             uint32_t mark, int64_t amount) {
  weir_denied_key *entry = use(keys, key, key_length, mark);
  if (entry != NULL) entry->amount += amount;
  return entry != NULL;
}

int64_t weir_denied_keys_spread(const weir_denied_keys *keys) {
  int64_t sum = 0;
  for (const weir_denied_key *each = NULL;
       (each = weir_hash_table_next(&keys->table, each)) != NULL;)
    sum += each->amount < 0 ? -each->amount : each->amount;
  return sum;
}

static bool ranks_before(const weir_denied_key *a, const weir_denied_key *b) {
  if (a->denied != b->denied) return a->denied > b->denied;
  size_t shorter = a->key_length < b->key_length ? a->key_length : b->key_length;
  int order = memcmp(a->key, b->key, shorter);
  return order != 0 ? order < 0 : a->key_length < b->key_length;
}

size_t weir_denied_keys_top(const weir_denied_keys *keys, const weir_denied_key **top,
                            size_t most) {
  size_t count = 0;
  for (const weir_denied_key *entry = NULL;
       (entry = weir_hash_table_next(&keys->table, entry)) != NULL;) {
    size_t at = count < most ? count++ : most;
    for (; at > 0 && ranks_before(entry, top[at - 1]); at--)
      if (at < most) top[at] = top[at - 1];
    if (at < most) top[at] = entry;
  }
  return count;
}

/* --- what requests cost in truth ----------------------------------------------------------------
 *
 * Takes, and settles once time goes on. A key's two histories are what it spent: `ruled` where the rule
 * is settled, `own` where it is looked at first. */

/* It has been admitted by some. */
typedef struct weir_real_request {
  const weir_seen_key *key;
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
    weir_wide share = (weir_wide)stamps->counted * (spent->most_limit + !spent->most_limit);
    if ((weir_wide)spent->most * limit >= share) continue;
    spent->most = stamps->counted;
    spent->most_limit = limit;
  }
  return true;
}

/* The real cost, less the part of it under the rule that was charged least, is cut. */
static weir_status settle(weir_driver *driver, weir_real_sums *sums, weir_subject *subject,
                          const weir_real_request *ended, int64_t taken_us, weir_message *message) {
  int64_t costs[WEIR_RULES_MOST];
  int64_t settlement[WEIR_RULES_MOST] = {0};
  int64_t least = ended->real;
  for (size_t i = 0; i < driver->stack.count; i++)
    costs[i] = ended->real - ended->cost;
  if (ended->real != ended->cost) {
    weir_claim request = {
        .ask = {.kind = WEIR_SETTLE, .costs = costs, .settlement = settlement, .at_us = taken_us}};
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
    const weir_seen_key *key =
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
  weir_seen_key *used = weir_keys_use(&reals->keys, key, key_length, reals->now_us);
  if (used == NULL ||
      !weir_array_grow(&reals->underway, &reals->room, reals->count + 1, sizeof *reals->underway))
    return WEIR_NO_MEMORY;
  weir_real_request begun = {.key = used, .cost = cost, .real = real};
  reals->asked += real;
  for (size_t i = 0; status == WEIR_OK && i < reals->rule_count; i++) {
    weir_subject *subject = &used->subjects[i];
    weir_claim request = {.ask = {.kind = WEIR_TAKE, .cost = cost}};
    status =
        weir_driver_decide(&reals->drivers[i], &subject->driven, reals->now_us, &request, message);
    if (status == WEIR_OK && request.verdict.decision.allowed) begun.settled |= 1U << i;
    if (has_room(&reals->drivers[i].stack, subject->exact, reals->now_us)) begun.looked |= 1U << i;
  }
  if (begun.settled != 0 || begun.looked != 0) reals->underway[reals->count++] = begun;
  return status;
}

weir_status weir_reals_finish(weir_reals *reals, weir_message *message) {
  return end_all(reals, message);
}
