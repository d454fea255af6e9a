/* What simulate has measured, for programs. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "simulate_report.h"

enum { DIGITS = 8 };

static bool set(json_t *object, const char *name, json_t *value) {
  return json_object_set_new(object, name, value) == 0;
}

static bool set_count(json_t *object, const char *name, uint64_t value) {
  return set(object, name, json_integer((json_int_t)value));
}

static bool set_cost(json_t *object, const char *name, int64_t value) {
  return set(object, name, json_integer(value));
}

static bool print_object(FILE *out, json_t *object, bool complete) {
  bool printed = complete && weir_cli_json_print(out, object, DIGITS);
  json_decref(object);
  return printed;
}

static bool set_malformed(json_t *object, const weir_cli_input *input) {
  json_t *lines = json_array();
  bool complete = lines != NULL && set_count(object, "malformed", input->malformed);
  for (uint64_t i = 0; complete && i < input->malformed && i < WEIR_CLI_MALFORMED_SHOWN; i++) {
    const weir_cli_malformed *line = &input->first[i];
    json_t *entry = json_object();
    complete = entry != NULL &&
               weir_cli_json_set_bytes(entry, "file", line->name, strlen(line->name)) &&
               set_count(entry, "line", line->line) &&
               set(entry, "reason", json_string(line->reason.text)) &&
               json_array_append(lines, entry) == 0;
    json_decref(entry);
  }
  return set(object, "malformed_first", lines) && complete;
}

static bool print_input(FILE *out, const weir_simulation *simulation, const weir_cli_input *input) {
  json_t *object = json_object();
  bool complete = object != NULL &&
                  weir_cli_json_set_bytes(object, "input", input->name, strlen(input->name)) &&
                  set_count(object, "requests", simulation->requests) &&
                  set_cost(object, "first_us", simulation->first_us) &&
                  set_cost(object, "last_us", simulation->now_us) &&
                  set_count(object, "keys_most", simulation->keys.most) &&
                  set_malformed(object, input) &&
                  set_count(object, "without_key", input->keyless) &&
                  set_count(object, "filtered", input->filtered) &&
                  set_count(object, "out_of_order", simulation->out_of_order) &&
                  set_cost(object, "out_of_order_most_us", simulation->furthest_us);
  return print_object(out, object, complete);
}

static bool set_decisions(json_t *object, const weir_measure *m) {
  return set_count(object, "requests", m->requests) && set_count(object, "allowed", m->allowed) &&
         set_count(object, "wrongly_allowed", m->wrongly_allowed) &&
         set_count(object, "wrongly_denied", m->wrongly_denied) &&
         set_count(object, "differing", m->differing) && set_cost(object, "cost", m->cost) &&
         set_cost(object, "cost_allowed", m->cost_allowed) &&
         set_cost(object, "cost_wrongly_allowed", m->cost_wrongly_allowed) &&
         set_cost(object, "cost_wrongly_denied", m->cost_wrongly_denied) &&
         set_cost(object, "cost_exactly_allowed", m->cost_exactly_allowed) &&
         set_cost(object, "cost_differing", m->cost_differing);
}

static bool set_error(json_t *object, const weir_measure *m, const weir_rule *rule) {
  if (!weir_measure_has_estimate(rule) || m->errors == 0) return true;
  return set(object, "error_mean", json_real(m->error_sum / (double)m->errors)) &&
         set(object, "error_p99", json_real(weir_measure_error_p99(m) / 1000.0));
}

static bool set_costs(json_t *object, const weir_measure *m, const weir_driver *driver) {
  double requests = m->requests > 0 ? (double)m->requests : 1;
  double samples = m->state_samples > 0 ? (double)m->state_samples : 1;
  return set_cost(object, "most_admitted", m->most_admitted) &&
         set_cost(object, "most_admitted_us", m->most_admitted_us) &&
         weir_cli_json_set_bytes(object, "most_admitted_key", m->most_admitted_key,
                                 strlen(m->most_admitted_key)) &&
         set_count(object, "operations", driver->operations) &&
         set_count(object, "trips", driver->rounds) &&
         set_count(object, "without_store", m->local) &&
         set(object, "entries_mean", json_real((double)m->entries / requests)) &&
         set_count(object, "entries_most", m->entries_most) &&
         set(object, "state_bytes_mean", json_real((double)m->state_bytes / samples));
}

static bool set_known(json_t *entry, const weir_tally_entry *denied, const weir_record *record) {
  const weir_record_key *key = weir_record_find(record, denied->key, denied->key_length);
  return key == NULL ||
         (set_count(entry, "requests", key->requests) && set_cost(entry, "peak", key->peak));
}

static bool set_denied(json_t *object, const weir_tally *tally, int64_t most,
                       const weir_record *record) {
  size_t shown = most > 0 ? (size_t)most : WEIR_CLI_DENIED_SHOWN;
  const weir_tally_entry **top = calloc(shown, sizeof *top);
  size_t count = top != NULL ? weir_tally_top(tally, top, shown) : 0;
  json_t *keys = json_array();
  bool complete = top != NULL && keys != NULL && set_count(object, "denied_keys", tally->used);
  for (size_t i = 0; complete && i < count; i++) {
    json_t *entry = json_object();
    complete =
        entry != NULL && weir_cli_json_set_bytes(entry, "key", top[i]->key, top[i]->key_length) &&
        set_count(entry, "denied", top[i]->denied) &&
        set_cost(entry, "first_us", top[i]->first_us) &&
        (most == 0 || set_known(entry, top[i], record)) && json_array_append(keys, entry) == 0;
    json_decref(entry);
  }
  free(top);
  return set(object, "denied_most", keys) && complete;
}

static bool print_rule(FILE *out, const weir_simulation *simulation, size_t i, int64_t top,
                       weir_record *record) {
  json_t *object = json_object();
  const weir_rule *rule = weir_simulation_rule(simulation, i);
  const weir_measure *m = &simulation->measures[i];
  bool complete = (top == 0 || weir_record_find_peaks(record, rule->period_us)) && object != NULL &&
                  set(object, "rule", json_string(simulation->texts[i])) &&
                  set_cost(object, "limit", rule->limit) && set_decisions(object, m) &&
                  set_error(object, m, rule) && set_costs(object, m, &simulation->drivers[i]) &&
                  set_denied(object, &simulation->denied[i], top, record);
  return print_object(out, object, complete);
}

bool weir_cli_simulation_json(FILE *out, const weir_simulation *simulation,
                              const weir_cli_input *input, int64_t top, weir_record *record) {
  if (!print_input(out, simulation, input)) return false;
  for (size_t i = 0; i < simulation->rule_count; i++)
    if (!print_rule(out, simulation, i, top, record)) return false;
  return true;
}

static bool set_trains(json_t *object, const weir_attack_result *result) {
  json_t *trains = json_array();
  bool complete = trains != NULL;
  for (size_t i = 0; complete && i < result->train_count; i++) {
    const weir_attack_train *train = &result->trains[i];
    json_t *entry = json_object();
    complete =
        entry != NULL && set_cost(entry, "at_us", train->at_us) &&
        set_cost(entry, "gap_us", train->gap_us) && set_cost(entry, "requests", train->requests) &&
        set_cost(entry, "cost", train->cost) && set_cost(entry, "admitted", train->admitted) &&
        json_array_append(trains, entry) == 0;
    json_decref(entry);
  }
  return set(object, "trains", trains) && complete;
}

bool weir_cli_attack_json(FILE *out, const char *rule, const weir_attack_result *result) {
  json_t *object = json_object();
  bool complete = object != NULL && set(object, "rule", json_string(rule)) &&
                  set_cost(object, "limit", result->limit) &&
                  set_cost(object, "period_us", result->period_us) &&
                  set_cost(object, "bound", result->bound) &&
                  set_cost(object, "most_admitted", result->most) &&
                  set_count(object, "traffics", result->traffics) &&
                  set_count(object, "requests", result->requests) && set_trains(object, result);
  return print_object(out, object, complete);
}
