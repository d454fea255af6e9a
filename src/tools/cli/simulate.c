/* simulate: has src/tools/simulate measure, attack or recommend rules, and shows what came of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "output.h"
#include "report.h"
#include "simulate.h"
#include "simulate/attack.h"

/* False after one line on stderr. */
static bool classes_are_known(const weir_cli_options *options, const weir_simulation *simulation) {
  for (size_t i = 0; options->class_field != NULL && i < simulation->rule_count; i++)
    if (simulation->drivers[i].stack.class_count > 0) return true;
  if (options->class_field != NULL)
    weir_cli_error("--class: no --rule has classes=, such as %s,classes=batch:60%%",
                   simulation->texts[0]);
  return options->class_field == NULL;
}

static int measure(const weir_cli_options *options, const char *const *rules, size_t rule_count) {
  static weir_simulation simulation; /* large, and there is one */
  weir_cli_input input;
  weir_message message = {""};
  weir_status status =
      weir_simulation_init(&simulation, rules, rule_count, &options->limiter, &message);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  int exit_status = WEIR_EXIT_USAGE;
  weir_reals *reals = options->real_field != NULL ? calloc(1, sizeof *reals) : NULL;
  if (options->real_field != NULL) {
    status = reals == NULL ? WEIR_NO_MEMORY
                           : weir_reals_init(reals, rules, rule_count, &options->limiter, &message);
    if (status != WEIR_OK) {
      free(reals);
      weir_simulation_clean_up(&simulation);
      return weir_cli_fail("", status, &message);
    }
  }
  if (classes_are_known(options, &simulation) &&
      weir_cli_input_open(options, &simulation.drivers[0].stack, &input)) {
    weir_record record = {0}; /* for --top alone, which one pass cannot answer */
    simulation.counts_all = options->plot != NULL;
    const weir_cli_readers readers = {
        .simulation = &simulation, .record = options->top > 0 ? &record : NULL, .reals = reals};
    const weir_cli_found found = {&simulation, reals, NULL, &input, &record};
    exit_status = weir_cli_input_read(&input, &readers);
    if (exit_status == 0 && reals != NULL &&
        (status = weir_reals_finish(reals, &message)) != WEIR_OK)
      exit_status = weir_cli_fail("", status, &message);
    if (exit_status == 0 && weir_simulation_finish(&simulation) != WEIR_OK)
      exit_status = weir_cli_fail_memory();
    if (exit_status == 0) exit_status = weir_cli_simulate_report(options, &found);
    weir_record_clean_up(&record);
    weir_cli_input_close(&input);
    if (exit_status == 0 && options->plot != NULL)
      exit_status = weir_cli_simulate_plot(options, &simulation);
  }
  weir_simulation_clean_up(&simulation);
  if (reals != NULL) weir_reals_clean_up(reals);
  free(reals);
  return exit_status;
}

/* --- attacks --------------------------------------------------------------------------------- */

static void print_text(const char *rule, const weir_attack_result *result) {
  printf("%s: admitted up to %" PRId64 " in a period, %.2f times the limit; proved bound %" PRId64
         ", reached to %.1f%%\n",
         rule, result->most, (double)result->most / (double)result->limit, result->bound,
         weir_cli_percent(result->most, result->bound));
  printf("  by this traffic, the best of %" PRIu64 ":\n", result->traffics);
  for (size_t i = 0; i < result->train_count; i++) {
    const weir_attack_train *train = &result->trains[i];
    printf("  after %.6f periods %" PRId64 " requests, one every %" PRId64 " us, up to %" PRId64
           " each: admitted %" PRId64 "\n",
           (double)train->at_us / (double)result->period_us, train->requests, train->gap_us,
           train->cost, train->admitted);
  }
}

/* False: not enough memory. */
static bool print_json(const char *rule, const weir_attack_result *result) {
  enum { DIGITS = 8 };
  json_t *trains = json_array();
  bool whole = trains != NULL;
  for (size_t i = 0; whole && i < result->train_count; i++) {
    const weir_attack_train *train = &result->trains[i];
    whole = json_array_append_new(
                trains, json_pack("{sIsIsIsIsI}", "at_us", (json_int_t)train->at_us, "gap_us",
                                  (json_int_t)train->gap_us, "requests",
                                  (json_int_t)train->requests, "cost", (json_int_t)train->cost,
                                  "admitted", (json_int_t)train->admitted)) == 0;
  }
  json_t *object =
      json_pack("{sssIsIsIsIsIsIsO}", "rule", rule, "limit", (json_int_t)result->limit, "period_us",
                (json_int_t)result->period_us, "bound", (json_int_t)result->bound, "most_admitted",
                (json_int_t)result->most, "traffics", (json_int_t)result->traffics, "requests",
                (json_int_t)result->requests, "trains", trains);
  bool printed = whole && weir_cli_json_print(stdout, object, DIGITS);
  json_decref(object);
  json_decref(trains);
  return printed;
}

static int attack(const weir_cli_options *options, const char *const *rules, size_t rule_count) {
  static const uint64_t requests = 1000000; /* of each rule's search: about a second */
  for (size_t i = 0; i < rule_count; i++) {
    weir_attack_result result;
    weir_message message = {""};
    weir_status status =
        weir_attack_search(rules[i], &options->limiter, requests, &result, &message);
    if (status == WEIR_OK && !options->json)
      print_text(rules[i], &result);
    else if (status == WEIR_OK && !print_json(rules[i], &result))
      status = WEIR_NO_MEMORY;
    if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  }
  return weir_cli_flush();
}

/* Options about fields are for lines of logs alone, and few go together. False after one line on stderr. */
static bool fields_are_of_logs(const weir_cli_options *options) {
  const char *made_up = options->attack ? "attack" : options->generate != NULL ? "generate" : NULL;
  const char *recommends = options->recommend != NULL ? "recommend" : NULL;
  const char *beside = options->duration_field != NULL ? "duration"
                       : options->real_field != NULL   ? "real"
                                                       : recommends;
  const struct {
    const char *name, *field, *not_with;
  } fields[] = {
      {"duration", options->duration_field, options->real_field != NULL ? "real" : NULL},
      {"real", options->real_field, recommends},
      {"class", options->class_field, beside},
      {"tenant", options->tenant_field, options->class_field != NULL ? "class" : beside},
  };
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    bool made_of_keys = fields[i].field == options->tenant_field && !options->attack &&
                        weir_cli_tenant_is_key(options);
    const char *with = made_up != NULL && !made_of_keys ? made_up : fields[i].not_with;
    if (fields[i].field == NULL || with == NULL) continue;
    weir_cli_error("simulate: --%s is for logs: --%s does not go with it", fields[i].name, with);
    return false;
  }
  return true;
}

int weir_cli_simulate(const weir_cli_options *options) {
  const char *const *rules = options->rule_count > 0 ? options->rules : &options->rule;
  size_t rule_count = options->rule_count > 0 ? options->rule_count : 1;
  if (options->plot != NULL && !weir_cli_simulate_plot_check(options)) return WEIR_EXIT_USAGE;
  if (options->argument_count > 0 && (options->generate != NULL || options->attack)) {
    weir_cli_error("simulate: a FILE and --%s: one of them is accepted",
                   options->attack ? "attack" : "generate");
    return WEIR_EXIT_USAGE;
  }
  if (options->attack && options->recommend != NULL) {
    weir_cli_error("simulate: --attack and --recommend: one of them is accepted");
    return WEIR_EXIT_USAGE;
  }
  if (!fields_are_of_logs(options)) return WEIR_EXIT_USAGE;
  for (size_t i = 0; options->duration_field != NULL && i < rule_count; i++) {
    weir_message message;
    weir_status status = weir_held_check_rule(rules[i], &message);
    if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  }
  if (options->attack) return attack(options, rules, rule_count);
  if (options->recommend != NULL) return weir_cli_simulate_recommend(options, rules, rule_count);
  if (options->duration_field != NULL) return weir_cli_simulate_held(options, rules, rule_count);
  if (options->tenant_field != NULL) return weir_cli_simulate_tenants(options, rules, rule_count);
  return measure(options, rules, rule_count);
}
