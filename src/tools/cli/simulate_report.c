/* Reports a simulation to people and to programs: the input, then each rule. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "report.h"
#include "simulate.h"

enum { DENIED_SHOWN = 5 };

double weir_cli_percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* --- for people ------------------------------------------------------------------------------ */

enum { RULE_WIDTH = 21 }; /* "sliding-window:100/1m" */

static void print_input(const weir_simulation *simulation, const weir_cli_input *input) {
  char first[WEIR_CLI_TIME_BYTES], last[WEIR_CLI_TIME_BYTES];
  weir_cli_format_time(simulation->first_us, first);
  weir_cli_format_time(simulation->now_us, last);
  printf("requests: %" PRIu64, simulation->requests);
  if (simulation->requests > 0) printf(", %s to %s UTC", first, last);
  printf("\nkeys in use at once: up to %zu\n", simulation->keys.most);
  if (input->malformed > 0)
    printf("malformed lines: %" PRIu64 ", left out; the first of them:\n", input->malformed);
  for (uint64_t i = 0; i < input->malformed && i < WEIR_CLI_MALFORMED_SHOWN; i++) {
    const weir_cli_malformed *line = &input->first[i];
    fputs("  ", stdout);
    if (input->source_count > 1) {
      weir_cli_print_key(stdout, line->name, strlen(line->name), WEIR_CLI_SHOWN_MOST);
      fputs(", ", stdout);
    }
    printf("line %" PRIu64 ": %s\n", line->line, line->reason.text);
  }
  if (input->keyless > 0)
    printf("lines without what --key limits%s: %" PRIu64 ", left out\n",
           input->options->tenant_field != NULL ? ", or a tenant" : "", input->keyless);
  if (input->filtered > 0)
    printf("lines that --status or --path leave out: %" PRIu64 "\n", input->filtered);
  if (simulation->out_of_order > 0)
    printf("requests with an earlier time than one before them: %" PRIu64
           ",\n  by up to %.3f s; they count at the later time\n",
           simulation->out_of_order, (double)simulation->furthest_us / 1e6);
}

/* The first column; a longer rule has a line of its own. */
static void begin_row(const char *rule) {
  if (strlen(rule) > RULE_WIDTH) printf("%s\n", rule);
  printf("%-*s", RULE_WIDTH, strlen(rule) > RULE_WIDTH ? "" : rule);
}

static void print_decisions(const weir_simulation *simulation) {
  printf("\n%-*s %7s %7s %7s %8s %8s %7s %7s\n", RULE_WIDTH, "", "", "wrongly", "wrongly",
         "of exact", "off", "error", "error");
  printf("%-*s %7s %7s %7s %8s %8s %7s %7s\n", RULE_WIDTH, "rule", "denied", "allowed", "denied",
         "admitted", "by key", "mean", "p99");
  for (size_t i = 0; i < simulation->rule_count; i++) {
    const weir_measure *m = &simulation->measures[i];
    const weir_rule *rule = weir_simulation_rule(simulation, i);
    begin_row(simulation->texts[i]);
    printf(" %6.3f%% %6.3f%% %6.3f%% %7.2f%% %7.3f%%",
           weir_cli_percent(m->cost - m->cost_allowed, m->cost),
           weir_cli_percent(m->cost_wrongly_allowed, m->cost),
           weir_cli_percent(m->cost_wrongly_denied, m->cost),
           weir_cli_percent(m->cost_allowed, m->cost_exactly_allowed),
           weir_cli_percent(m->cost_differing, m->cost_exactly_allowed));
    if (weir_measure_has_estimate(rule) && m->errors > 0)
      printf(" %6.2f%% %6.1f%%\n", 100 * m->error_sum / (double)m->errors,
             weir_measure_error_p99(m) / 10.0);
    else
      printf(" %7s %7s\n", "-", "-");
  }
}

static bool has_classes(const weir_simulation *simulation, size_t i) {
  uint64_t requests = 0;
  for (size_t j = 1; j <= simulation->drivers[i].stack.class_count; j++)
    requests += simulation->measures[i].classes[j].requests;
  return requests > 0;
}

/* By class, from the lowest to all that is of none. */
static void print_classes(const weir_simulation *simulation) {
  bool begun = false;
  for (size_t i = 0; i < simulation->rule_count; i++) {
    const weir_stack *stack = &simulation->drivers[i].stack;
    if (!has_classes(simulation, i)) continue;
    if (!begun)
      printf("\n%-*s %12s %12s %12s %9s %16s\n", RULE_WIDTH, "class", "fills up to", "asked",
             "admitted", "denied", "of what is kept");
    begun = true;
    printf("%s\n", simulation->texts[i]);
    for (size_t j = 1; j <= stack->class_count + 1; j++) {
      unsigned class = j <= stack->class_count ? (unsigned)j : 0;
      const weir_class_measure *m = &simulation->measures[i].classes[class];
      char name[WEIR_NAME_MOST + 1] = "-";
      if (class > 0) weir_stack_read_class(stack, class - 1, name);
      printf("  %-*s %12" PRId64 " %12" PRId64 " %12" PRId64 " %8.3f%%", RULE_WIDTH - 2, name,
             weir_rule_capacity_of(&stack->rules[stack->classed], class), m->cost, m->cost_allowed,
             weir_cli_percent(m->cost - m->cost_allowed, m->cost));
      if (class == 1)
        printf(" %16s\n", "-");
      else
        printf(" %16" PRId64 "\n", m->cost_kept_denied);
    }
  }
}

static double per(uint64_t sum, uint64_t count) {
  return count > 0 ? (double)sum / (double)count : 0;
}

static void print_costs(const weir_simulation *simulation) {
  printf("\n%-*s %15s %10s %7s %7s %7s %7s\n", RULE_WIDTH, "", "most admitted", "operations",
         "trips", "without", "entries", "bytes");
  printf("%-*s %15s %10s %7s %7s %7s %7s\n", RULE_WIDTH, "rule", "in a period", "a request", "each",
         "store", "per key", "per key");
  for (size_t i = 0; i < simulation->rule_count; i++) {
    const weir_measure *m = &simulation->measures[i];
    const weir_driver *driver = &simulation->drivers[i];
    int64_t limit = m->most_limit > 0 ? m->most_limit : 1;
    begin_row(simulation->texts[i]);
    printf(" %8" PRId64 " %5.2fL %10.2f %7.2f %6.1f%% %7.1f %7.0f\n", m->most_admitted,
           (double)m->most_admitted / (double)limit, per(driver->operations, m->requests),
           per(driver->rounds, m->requests), 100 * per(m->local, m->requests),
           per(m->entries, m->requests), per(m->state_bytes, m->state_samples));
  }
}

static void print_spent(const weir_real_spent *spent) {
  int64_t limit = spent->most_limit > 0 ? spent->most_limit : 1;
  printf(" %11" PRId64 " %10" PRId64 " %5.2fL", spent->cost, spent->most,
         (double)spent->most / (double)limit);
}

static void print_reals(const weir_simulation *simulation, const weir_reals *reals) {
  printf("\n%-*s %29s %8s %27s\n", RULE_WIDTH, "", "settled: in all, in a period", "cut",
         "looked at first: the same");
  for (size_t i = 0; i < simulation->rule_count; i++) {
    const weir_real_sums *sums = &reals->sums[i];
    begin_row(simulation->texts[i]);
    print_spent(&sums->settled);
    printf(" %8" PRId64, sums->cut);
    print_spent(&sums->looked);
    putchar('\n');
  }
  printf("of %" PRId64 " that all requests cost in truth\n", reals->asked);
}

/* Prints the figures of rules on what is in flight. */
static void print_held(const weir_simulation *simulation, const weir_held *held) {
  char when[WEIR_CLI_TIME_BYTES];
  weir_cli_format_time(held->most_us, when);
  printf("in flight at once: up to %" PRId64 " of all keys together, first at %s UTC\n", held->most,
         when);
  printf("\n%-*s %8s %12s %10s\n", RULE_WIDTH, "rule", "denied", "requests", "keys");
  for (size_t i = 0; i < simulation->rule_count; i++) {
    const weir_measure *m = &simulation->measures[i];
    begin_row(simulation->texts[i]);
    printf(" %7.3f%% %12" PRIu64 " %10zu\n", weir_cli_percent(m->cost - m->cost_allowed, m->cost),
           m->requests - m->allowed, simulation->denied[i].table.count);
  }
}

/* Which keys were denied most often. `most`, where it is not 0: of so many all that the record
 * knows. False: not enough memory. */
static bool print_denied(const weir_simulation *simulation, size_t i, int64_t most,
                         weir_record *record) {
  const weir_measure *m = &simulation->measures[i];
  const weir_denied_keys *tally = &simulation->denied[i];
  size_t shown = most > 0 ? (size_t)most : DENIED_SHOWN;
  const weir_denied_key **top = calloc(shown, sizeof *top);
  if (top == NULL) return false;
  size_t count = weir_denied_keys_top(tally, top, shown);
  bool is_long = strlen(simulation->texts[i]) > (size_t)2 * RULE_WIDTH;
  printf("\n%s%swould have denied %" PRIu64 " requests of %zu keys%s\n", simulation->texts[i],
         is_long ? "\n" : " ", m->requests - m->allowed, tally->table.count, count > 0 ? ":" : "");
  bool enough =
      most == 0 || weir_record_find_peaks(record, weir_simulation_rule(simulation, i)->period_us);
  if (most > 0 && count > 0 && enough)
    printf("  %9s  %8s  %9s  %9s  %-23s  %s\n", "denied", "share", "requests", "peak", "first",
           "key");
  for (size_t j = 0; enough && j < count; j++) {
    char first[WEIR_CLI_TIME_BYTES];
    weir_cli_format_time(top[j]->first_us, first);
    printf("  %9" PRIu64 "  ", top[j]->denied);
    if (most > 0) {
      const weir_record_key *key = weir_record_find(record, top[j]->key, top[j]->key_length);
      printf("%7.3f%%  %9" PRIu32 "  %9" PRId64 "  %-23s  ",
             weir_cli_percent((int64_t)top[j]->denied, (int64_t)key->requests), key->requests,
             key->peak, first);
    }
    weir_cli_print_key(stdout, top[j]->key, top[j]->key_length, WEIR_SHOWN_KEY_BYTES);
    if (most == 0) printf("  (first %s)", first);
    putchar('\n');
  }
  free(top);
  return enough;
}

/* --- for programs ---------------------------------------------------------------------------- */

static bool set(json_t *object, const char *name, json_t *value) {
  return json_object_set_new(object, name, value) == 0;
}

static bool set_count(json_t *object, const char *name, uint64_t value) {
  return set(object, name, json_integer((json_int_t)value));
}

static bool set_cost(json_t *object, const char *name, int64_t value) {
  return set(object, name, json_integer(value));
}

/* Members of a structure, each a number of 64 bits, by the names that programs are told. */
typedef struct number {
  const char *name;
  size_t offset;
} number;
#define NUMBER(type, member) \
  { #member, offsetof(type, member) }

static bool set_numbers(json_t *object, const void *from, const number numbers[], size_t count) {
  bool complete = true;
  for (size_t i = 0; complete && i < count; i++) {
    int64_t value;
    memcpy(&value, (const char *)from + numbers[i].offset, sizeof value);
    complete = set_cost(object, numbers[i].name, value);
  }
  return complete;
}
#define SET_NUMBERS(object, from, numbers) \
  set_numbers(object, from, numbers, sizeof(numbers) / sizeof(numbers)[0])

static bool print_object(json_t *object, bool complete) {
  enum { DIGITS = 8 };
  bool printed = complete && weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  return printed;
}

/* The first lines that are none. NULL: not enough memory. */
static json_t *malformed_json(const weir_cli_input *input) {
  json_t *lines = json_array();
  bool complete = lines != NULL;
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
  if (complete) return lines;
  json_decref(lines);
  return NULL;
}

static bool set_held(json_t *object, const weir_held *held) {
  return set_cost(object, "in_flight_most", held->most) &&
         set_cost(object, "in_flight_most_us", held->most_us) &&
         weir_cli_peaks_json(&held->record, object);
}

/* With `held`, what was in flight as well. */
static bool input_json(const weir_simulation *simulation, const weir_cli_input *input,
                       const weir_held *held) {
  json_t *object = json_object();
  bool complete = object != NULL &&
                  weir_cli_json_set_bytes(object, "input", input->name, strlen(input->name)) &&
                  set_count(object, "requests", simulation->requests) &&
                  set_cost(object, "first_us", simulation->first_us) &&
                  set_cost(object, "last_us", simulation->now_us) &&
                  set_count(object, "keys_most", simulation->keys.most) &&
                  set_count(object, "malformed", input->malformed) &&
                  set(object, "malformed_first", malformed_json(input)) &&
                  set_count(object, "without_key", input->keyless) &&
                  set_count(object, "filtered", input->filtered) &&
                  set_count(object, "out_of_order", simulation->out_of_order) &&
                  set_cost(object, "out_of_order_most_us", simulation->furthest_us) &&
                  (held == NULL || set_held(object, held));
  return print_object(object, complete);
}

/* As print_denied(). */
static bool set_denied(json_t *object, const weir_denied_keys *tally, int64_t most,
                       const weir_record *record) {
  size_t shown = most > 0 ? (size_t)most : DENIED_SHOWN;
  const weir_denied_key **top = calloc(shown, sizeof *top);
  size_t count = top != NULL ? weir_denied_keys_top(tally, top, shown) : 0;
  json_t *keys = json_array();
  bool complete =
      top != NULL && keys != NULL && set_count(object, "denied_keys", tally->table.count);
  for (size_t i = 0; complete && i < count; i++) {
    json_t *entry = json_object();
    const weir_record_key *key =
        most > 0 ? weir_record_find(record, top[i]->key, top[i]->key_length) : NULL;
    complete =
        entry != NULL && weir_cli_json_set_bytes(entry, "key", top[i]->key, top[i]->key_length) &&
        set_count(entry, "denied", top[i]->denied) &&
        set_cost(entry, "first_us", top[i]->first_us) &&
        (key == NULL ||
         (set_count(entry, "requests", key->requests) && set_cost(entry, "peak", key->peak))) &&
        json_array_append(keys, entry) == 0;
    json_decref(entry);
  }
  free(top);
  return set(object, "denied_most", keys) && complete;
}

static bool set_spent(json_t *object, const char *name, const weir_real_spent *spent) {
  return set(object, name,
             json_pack("{sIsIsI}", "cost", (json_int_t)spent->cost, "most", (json_int_t)spent->most,
                       "most_limit", (json_int_t)spent->most_limit));
}

static bool set_reals(json_t *object, const weir_reals *reals, size_t i) {
  if (reals == NULL) return true;
  const weir_real_sums *sums = &reals->sums[i];
  return set_cost(object, "real_cost", reals->asked) &&
         set_spent(object, "settled", &sums->settled) &&
         set_cost(object, "settled_cut", sums->cut) &&
         set_spent(object, "looked_first", &sums->looked);
}

static bool set_classes(json_t *object, const weir_simulation *simulation, size_t i) {
  static const number numbers[] = {
      NUMBER(weir_class_measure, requests), NUMBER(weir_class_measure, allowed),
      NUMBER(weir_class_measure, cost), NUMBER(weir_class_measure, cost_allowed),
      NUMBER(weir_class_measure, cost_kept_denied)};
  const weir_stack *stack = &simulation->drivers[i].stack;
  if (!has_classes(simulation, i)) return true;
  json_t *classes = json_array();
  bool complete = classes != NULL;
  for (size_t j = 1; complete && j <= stack->class_count + 1; j++) {
    unsigned class = j <= stack->class_count ? (unsigned)j : 0;
    const weir_class_measure *m = &simulation->measures[i].classes[class];
    json_t *entry = json_object();
    char name[WEIR_NAME_MOST + 1] = "";
    if (class > 0) weir_stack_read_class(stack, class - 1, name);
    complete =
        entry != NULL && set(entry, "class", class > 0 ? json_string(name) : json_null()) &&
        set_cost(entry, "limit", weir_rule_capacity_of(&stack->rules[stack->classed], class)) &&
        SET_NUMBERS(entry, m, numbers) && json_array_append(classes, entry) == 0;
    json_decref(entry);
  }
  return set(object, "classes", classes) && complete;
}

static bool held_json(const weir_simulation *simulation, size_t i, int64_t top,
                      const weir_record *record) {
  static const number numbers[] = {NUMBER(weir_measure, requests), NUMBER(weir_measure, allowed),
                                   NUMBER(weir_measure, cost), NUMBER(weir_measure, cost_allowed)};
  json_t *object = json_object();
  bool complete = object != NULL && set(object, "rule", json_string(simulation->texts[i])) &&
                  set_cost(object, "limit", weir_simulation_rule(simulation, i)->limit) &&
                  SET_NUMBERS(object, &simulation->measures[i], numbers) &&
                  set_denied(object, &simulation->denied[i], top, record);
  return print_object(object, complete);
}

/* The estimate beside the exact window, where the rule has one. */
static bool set_error(json_t *object, const weir_rule *rule, const weir_measure *m) {
  if (!weir_measure_has_estimate(rule) || m->errors == 0) return true;
  return set(object, "error_mean", json_real(m->error_sum / (double)m->errors)) &&
         set(object, "error_p99", json_real(weir_measure_error_p99(m) / 1000.0));
}

/* What it asks of a store, and keeps there. */
static bool set_load(json_t *object, const weir_driver *driver, const weir_measure *m) {
  double requests = m->requests > 0 ? (double)m->requests : 1;
  double samples = m->state_samples > 0 ? (double)m->state_samples : 1;
  return set_count(object, "operations", driver->operations) &&
         set_count(object, "trips", driver->rounds) &&
         set_count(object, "without_store", m->local) &&
         set(object, "entries_mean", json_real((double)m->entries / requests)) &&
         set_count(object, "entries_most", m->entries_most) &&
         set(object, "state_bytes_mean", json_real((double)m->state_bytes / samples));
}

static bool rule_json(const weir_cli_found *found, size_t i, int64_t top) {
  static const number decided[] = {NUMBER(weir_measure, requests),
                                   NUMBER(weir_measure, allowed),
                                   NUMBER(weir_measure, wrongly_allowed),
                                   NUMBER(weir_measure, wrongly_denied),
                                   NUMBER(weir_measure, differing),
                                   NUMBER(weir_measure, cost),
                                   NUMBER(weir_measure, cost_allowed),
                                   NUMBER(weir_measure, cost_wrongly_allowed),
                                   NUMBER(weir_measure, cost_wrongly_denied),
                                   NUMBER(weir_measure, cost_exactly_allowed),
                                   NUMBER(weir_measure, cost_differing)};
  const weir_simulation *simulation = found->simulation;
  weir_record *record = found->record;
  const weir_rule *rule = weir_simulation_rule(simulation, i);
  const weir_measure *m = &simulation->measures[i];
  bool complete = top == 0 || weir_record_find_peaks(record, rule->period_us);
  json_t *object = complete ? json_object() : NULL;
  complete = object != NULL && set(object, "rule", json_string(simulation->texts[i])) &&
             set_cost(object, "limit", rule->limit) && SET_NUMBERS(object, m, decided) &&
             set_error(object, rule, m) && set_cost(object, "most_admitted", m->most_admitted) &&
             set_cost(object, "most_admitted_us", m->most_admitted_us) &&
             weir_cli_json_set_bytes(object, "most_admitted_key", m->most_admitted_key,
                                     strlen(m->most_admitted_key)) &&
             set_load(object, &simulation->drivers[i], m) &&
             set_denied(object, &simulation->denied[i], top, record) &&
             set_classes(object, simulation, i) && set_reals(object, found->reals, i);
  return print_object(object, complete);
}

bool weir_cli_simulate_report_input(const weir_cli_options *options,
                                    const weir_simulation *simulation, const weir_cli_input *input,
                                    const weir_held *held) {
  if (options->json) return input_json(simulation, input, held);
  print_input(simulation, input);
  return true;
}

int weir_cli_simulate_report(const weir_cli_options *options, const weir_cli_found *found) {
  const weir_simulation *simulation = found->simulation;
  bool enough = weir_cli_simulate_report_input(options, simulation, found->input, found->held);
  if (!options->json) {
    if (found->held != NULL) {
      print_held(simulation, found->held);
    } else {
      print_decisions(simulation);
      print_costs(simulation);
      print_classes(simulation);
    }
    if (found->reals != NULL) print_reals(simulation, found->reals);
  }
  for (size_t i = 0; enough && i < simulation->rule_count; i++) {
    if (!options->json)
      enough = print_denied(simulation, i, options->top, found->record);
    else if (found->held != NULL)
      enough = held_json(simulation, i, options->top, found->record);
    else
      enough = rule_json(found, i, options->top);
  }
  return enough ? weir_cli_flush() : weir_cli_fail_memory();
}

/* --- how much keys ask for ----------------------------------------------------------------------
 *
 * How many keys ask for how much at the most: in text, for programs, and as a picture with the limits
 * that are in question. */

static const struct {
  int thousandths;
  const char *name;
} percentiles[] = {{500, "p50"}, {900, "p90"}, {990, "p99"}, {999, "p99_9"}, {1000, "most"}};
enum { PERCENTILES = sizeof percentiles / sizeof *percentiles };

void weir_cli_print_peaks(const weir_record *record, int64_t period_us) {
  enum { BAR_MOST = 36 };
  char period[WEIR_DURATION_BYTES];
  uint64_t bins[WEIR_RECORD_BINS], most = 1;
  weir_record_histogram(record, bins);
  printf("peaks of %zu keys, ", record->key_count);
  if (period_us > 0) {
    weir_duration_format(period_us, period, sizeof period);
    printf("in any %s:\n ", period);
  } else {
    printf("in flight at once:\n ");
  }
  for (int i = 0; i < PERCENTILES; i++) {
    int thousandths = percentiles[i].thousandths;
    printf("%s %" PRId64 " ", i > 0 ? "," : "", weir_record_percentile(record, thousandths));
    if (thousandths == 1000)
      printf("most\n");
    else
      printf("p%g", thousandths / 10.0);
  }
  for (int i = 0; i < WEIR_RECORD_BINS; i++)
    most = bins[i] > most ? bins[i] : most;
  for (int i = 0; i < WEIR_RECORD_BINS; i++) {
    if (bins[i] == 0) continue;
    int bar = (int)((double)bins[i] * BAR_MOST / (double)most + 0.999);
    printf("  %10" PRId64 " to %10" PRId64 "  %9" PRIu64 " keys  %.*s\n", INT64_C(1) << i,
           (INT64_C(2) << i) - 1, bins[i], bar, "####################################");
  }
}

bool weir_cli_peaks_json(const weir_record *record, json_t *object) {
  uint64_t bins[WEIR_RECORD_BINS];
  json_t *peaks = json_object(), *histogram = json_array();
  bool complete = true;
  for (int i = 0; i < PERCENTILES; i++)
    complete = json_object_set_new(
                   peaks, percentiles[i].name,
                   json_integer(weir_record_percentile(record, percentiles[i].thousandths))) == 0 &&
               complete;
  weir_record_histogram(record, bins);
  for (int i = 0; i < WEIR_RECORD_BINS; i++)
    if (bins[i] > 0)
      complete = json_array_append_new(
                     histogram, json_pack("{sIsIsI}", "from", (json_int_t)INT64_C(1) << i, "to",
                                          (json_int_t)((INT64_C(2) << i) - 1), "keys",
                                          (json_int_t)bins[i])) == 0 &&
                 complete;
  bool set = json_object_set_new(object, "peaks", peaks) == 0;
  return json_object_set_new(object, "histogram", histogram) == 0 && set && complete;
}

/* One client may ask for a thousand times what the others do: both axes are logarithmic. */
int weir_cli_plot_peaks(const char *path, weir_record *record, int64_t period_us,
                        const weir_cli_limit *limits, size_t count) {
  static const char *const colours[] = {"#bb2200", "#004488", "#117733", "#884400", "#000000"};
  if (!weir_record_find_peaks(record, period_us)) return weir_cli_fail_memory();
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  char period[WEIR_DURATION_BYTES] = "";
  if (period_us > 0) weir_duration_format(period_us, period, sizeof period);
  uint64_t bins[WEIR_RECORD_BINS], above = 0;
  int64_t highest = 0;
  weir_record_histogram(record, bins);
  for (size_t i = 0; i < record->key_count; i++)
    highest = record->keys[i].peak > highest ? record->keys[i].peak : highest;
  weir_cli_gnuplot_page(script, 760, 430);
  fprintf(script,
          "set logscale x 2\nset logscale y 10\n"
          "set yrange [0.8:*]\nset format x '%%.0f'\nset key outside top center horizontal\n"
          "set xlabel 'peak: the most that a key %s%s'\n"
          "set ylabel 'keys with so high a peak, or higher'\n$peaks << WEIR_END\n",
          period_us > 0 ? "asked for in any " : "had in flight at once", period);
  fprintf(script, "%" PRId64 " 1\n", highest);
  for (int i = WEIR_RECORD_BINS - 1; i >= 0; i--) {
    above += bins[i];
    if (above > 0) fprintf(script, "%" PRId64 " %" PRIu64 "\n", INT64_C(1) << i, above);
  }
  fputs("WEIR_END\n", script);
  for (size_t i = 0; i < count; i++)
    fprintf(script, "$limit%zu << WEIR_END\n%" PRId64 " 0.8\n%" PRId64 " %zu\nWEIR_END\n", i,
            limits[i].limit, limits[i].limit, record->key_count);
  fputs("plot $peaks using 1:2 with linespoints lw 1.6 pt 7 ps 0.5 lc rgb '#777777' title 'keys'",
        script);
  for (size_t i = 0; i < count; i++) {
    fprintf(script, ", $limit%zu using 1:2 with lines lw 1.6 dt %zu lc rgb '%s' title ", i, i + 1,
            colours[i % (sizeof colours / sizeof *colours)]);
    weir_cli_gnuplot_quote(script, limits[i].rule, strlen(limits[i].rule));
  }
  fputc('\n', script);
  return weir_cli_gnuplot_draw(script, path);
}
