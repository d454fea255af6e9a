/* A simulation: one driver, and its measure, for every rule; every request goes through all. */
#include "simulate/simulation.h"

#include <string.h>

#include <weir/backend.h>

enum { BYTES_EVERY = 64 }; /* requests; a log may have thousands of entries to look at */

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
  if (weir_keys_init(&simulation->keys, simulation->drivers, rule_count)) return WEIR_OK;
  weir_simulation_clean_up(simulation);
  return WEIR_NO_MEMORY;
}

void weir_simulation_clean_up(weir_simulation *simulation) {
  weir_keys_clean_up(&simulation->keys);
  weir_tally_clean_up(&simulation->asked);
  for (size_t i = 0; i < simulation->rule_count; i++) {
    weir_tally_clean_up(&simulation->denied[i]);
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
static uint64_t bytes_of(const weir_driver *driver, const weir_key *key,
                         const weir_slots places[WEIR_PLACES]) {
  const size_t prefix = strlen("weir::{}:") + strlen(driver->stack.rules[0].tag) + key->length;
  uint64_t sum = 0;
  for (int place = 0; place < WEIR_PLACES; place++) {
    for (size_t i = places[place].first; i < places[place].end; i++) {
      const weir_slot *slot = &places[place].slots[i];
      sum += prefix + digits(slot->index) + digits(slot->value);
      if (place == WEIR_PLACE_OPEN) sum++;
      if (place == WEIR_PLACE_ENTRY) sum += 1 + digits(slot->entry);
    }
  }
  return sum;
}

static void measure_state(weir_measure *measure, const weir_driver *driver, const weir_key *key,
                          const weir_slots places[WEIR_PLACES]) {
  uint64_t count = weir_slots_count(places);
  measure->entries += count;
  if (count > measure->entries_most) measure->entries_most = count;
  if (measure->requests % BYTES_EVERY != 0) return;
  measure->state_bytes += bytes_of(driver, key, places);
  measure->state_samples++;
}

/* One request through rule i. */
static weir_status decide(weir_simulation *simulation, size_t i, weir_key *key, int64_t cost,
                          weir_message *message) {
  weir_driver *driver = &simulation->drivers[i];
  weir_subject *subject = &key->subjects[i];
  int64_t now_us = simulation->now_us;
  weir_request_state request = {.kind = WEIR_TAKE, .cost = cost};
  weir_status status = weir_driver_decide(driver, &subject->driven, now_us, &request, message);
  if (status != WEIR_OK) return status;
  measure_state(&simulation->measures[i], driver, key, subject->driven.places);
  if (!weir_measure_decision(&simulation->measures[i], weir_simulation_rule(simulation, i),
                             &subject->exact, now_us, key->text, key->length, cost,
                             &request.decision))
    return WEIR_NO_MEMORY;
  if (request.decision.allowed) return WEIR_OK;
  return weir_tally_add(&simulation->denied[i], key->text, key->length, key->hash, now_us)
             ? WEIR_OK
             : WEIR_NO_MEMORY;
}

/* Logs are written when requests end, so their times step back now and then. */
static void move_on(weir_simulation *simulation, int64_t time_us) {
  if (simulation->requests++ == 0) {
    simulation->first_us = simulation->now_us = time_us;
  } else if (time_us >= simulation->now_us) {
    simulation->now_us = time_us;
  } else {
    simulation->out_of_order++;
    if (simulation->now_us - time_us > simulation->furthest_us)
      simulation->furthest_us = simulation->now_us - time_us;
  }
}

/* After that long without a request nothing of a key is left, neither in the store nor in a
 * window. */
static int64_t longest_life_us(const weir_simulation *simulation) {
  int64_t longest_us = 0;
  for (size_t i = 0; i < simulation->rule_count; i++) {
    int64_t period_us = weir_simulation_rule(simulation, i)->period_us;
    int64_t ttl_us = simulation->drivers[i].longest_ttl_us;
    if (period_us > longest_us) longest_us = period_us;
    if (ttl_us > longest_us) longest_us = ttl_us;
  }
  return longest_us;
}

weir_status weir_simulation_request(weir_simulation *simulation, int64_t time_us, const char *key,
                                    size_t key_length, int64_t cost, weir_message *message) {
  move_on(simulation, time_us);
  weir_keys_expire(&simulation->keys, simulation->now_us - longest_life_us(simulation));
  weir_key *used = weir_keys_use(&simulation->keys, key, key_length, simulation->now_us);
  if (used == NULL) return WEIR_NO_MEMORY;
  if (simulation->counts_all &&
      !weir_tally_add(&simulation->asked, used->text, used->length, used->hash, simulation->now_us))
    return WEIR_NO_MEMORY;
  for (size_t i = 0; i < simulation->rule_count; i++) {
    weir_status status = decide(simulation, i, used, cost, message);
    if (status != WEIR_OK) return status;
  }
  return WEIR_OK;
}
