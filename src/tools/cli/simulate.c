/* simulate: has src/tools/simulate measure or attack each rule, and shows what came of it. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "report.h"
#include "simulate_plot.h"
#include "simulate_recommend.h"
#include "simulate_report.h"

enum { PLACE_BYTES = 256 };

static int fail_line(const weir_cli_input *input, weir_status status, const weir_message *message) {
  char place[PLACE_BYTES];
  snprintf(place, sizeof place, "%s:%llu: ", weir_cli_show(input->name).text,
           (unsigned long long)input->line);
  return weir_cli_fail(place, status, message);
}

/* --- a trace --------------------------------------------------------------------------------- */

/* What is wanted of the input: requests for the simulation, or all of them kept for questions that
 * one pass cannot answer. */
static weir_status feed(weir_simulation *simulation, weir_record *record, weir_cli_input *input,
                        weir_cli_progress *progress, weir_message *message) {
  for (;;) {
    weir_cli_arrival a;
    weir_cli_step step = weir_cli_input_next(input, &a, message);
    if (step == WEIR_CLI_INPUT_BROKEN) return WEIR_BAD_ARGUMENT;
    if (step == WEIR_CLI_INPUT_END) return WEIR_OK;
    if (record != NULL && !weir_record_add(record, a.time_us, a.key, a.key_length, a.cost))
      return WEIR_NO_MEMORY;
    weir_status status = WEIR_OK;
    if (simulation != NULL)
      status = weir_simulation_request(simulation, a.time_us, a.key, a.key_length, a.cost, message);
    if (status != WEIR_OK) return status;
    weir_cli_progress_update(progress, input->lines);
  }
}

static int report(const weir_cli_options *options, const weir_simulation *simulation,
                  const weir_cli_input *input, weir_record *record) {
  bool printed = options->json
                     ? weir_cli_simulation_json(stdout, simulation, input, options->top, record)
                     : weir_cli_simulation_text(stdout, simulation, input, options->top, record);
  if (!printed) return weir_cli_fail_memory();
  return weir_cli_flush();
}

/* Reads all of the input. The exit status, after a line on stderr when it is not 0. */
static int read_input(const weir_cli_options *options, weir_simulation *simulation,
                      weir_record *record, weir_cli_input *input) {
  weir_message message = {""};
  weir_cli_progress progress;
  weir_cli_progress_begin(&progress, options->quiet);
  weir_status status = feed(simulation, record, input, &progress, &message);
  weir_cli_progress_end(&progress);
  if (status != WEIR_OK) return fail_line(input, status, &message);
  if (input->latest != NULL) return 0;
  if (input->keyless > 0) {
    weir_cli_error("--key \"%s\": no line has it",
                   weir_cli_show(options->key != NULL ? options->key : "client").text);
    return WEIR_EXIT_USAGE;
  }
  if (input->malformed == 0) return 0;
  weir_cli_error("%s: no line is a request; line %llu: %s",
                 weir_cli_show(input->first[0].name).text, (unsigned long long)input->first[0].line,
                 input->first[0].reason.text);
  return WEIR_EXIT_USAGE;
}

static int run_trace(const weir_cli_options *options, weir_simulation *simulation,
                     weir_cli_input *input) {
  weir_record record = {0};
  int exit_status = read_input(options, simulation, options->top > 0 ? &record : NULL, input);
  if (exit_status == 0 && weir_simulation_finish(simulation) != WEIR_OK)
    exit_status = weir_cli_fail_memory();
  if (exit_status == 0) exit_status = report(options, simulation, input, &record);
  weir_record_clean_up(&record);
  return exit_status;
}

static int simulate(const weir_cli_options *options, const char *const *rules, size_t rule_count) {
  static weir_simulation simulation; /* large, and there is one */
  weir_cli_input input;
  weir_message message = {""};
  weir_status status =
      weir_simulation_init(&simulation, rules, rule_count, &options->limiter, &message);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  int exit_status = WEIR_EXIT_USAGE;
  if (weir_cli_input_open(options, weir_simulation_rule(&simulation, 0), &input)) {
    simulation.counts_all = options->plot != NULL;
    exit_status = run_trace(options, &simulation, &input);
    weir_cli_input_close(&input);
    if (exit_status == 0 && options->plot != NULL)
      exit_status = weir_cli_plot(options, &simulation);
  }
  weir_simulation_clean_up(&simulation);
  return exit_status;
}

/* --- recommendations -------------------------------------------------------------------------- */

/* The usual report, of what was recommended, of one less and of what was given. */
static int confirm(const weir_cli_options *options, const weir_cli_recommended *recommended,
                   const weir_cli_input *input, weir_record *record) {
  static weir_simulation simulation;
  const char *rules[WEIR_SIMULATION_RULES_MOST];
  weir_message message = {""};
  for (size_t i = 0; i < recommended->text_count; i++)
    rules[i] = recommended->texts[i];
  weir_status status = weir_simulation_init(&simulation, rules, recommended->text_count,
                                            &options->limiter, &message);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  weir_record_cursor cursor;
  weir_recorded request;
  weir_record_begin(record, &cursor);
  while (status == WEIR_OK && weir_record_next(&cursor, &request)) {
    size_t length;
    const char *key = weir_record_name(record, &record->keys[request.key], &length);
    status =
        weir_simulation_request(&simulation, request.time_us, key, length, request.cost, &message);
  }
  simulation.out_of_order = record->out_of_order; /* in the record they are in order */
  simulation.furthest_us = record->furthest_us;
  if (status == WEIR_OK) status = weir_simulation_finish(&simulation);
  int exit_status = status == WEIR_OK ? report(options, &simulation, input, record)
                                      : weir_cli_fail("", status, &message);
  weir_simulation_clean_up(&simulation);
  return exit_status;
}

static int recommend(const weir_cli_options *options, const char *const *rules, size_t rule_count) {
  weir_goal goal;
  weir_stack stack;
  weir_cli_input input;
  weir_cli_recommended recommended;
  weir_record record = {0};
  weir_message message = {""};
  if (!weir_cli_goal_read(options->recommend, &goal)) return WEIR_EXIT_USAGE;
  weir_status status = weir_stack_parse(rules[0], 1, &stack, &message);
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  if (!weir_cli_input_open(options, &stack.rules[0], &input)) return WEIR_EXIT_USAGE;
  int exit_status = read_input(options, NULL, &record, &input);
  if (exit_status == 0 && record.count == 0) {
    weir_cli_error("--recommend: there is no request");
    exit_status = WEIR_EXIT_USAGE;
  }
  if (exit_status == 0)
    exit_status = weir_cli_recommend(options, rules, rule_count, &record, &goal, &recommended);
  if (exit_status == 0) exit_status = confirm(options, &recommended, &input, &record);
  if (exit_status == 0 && options->plot != NULL)
    exit_status = weir_cli_recommend_plot(options, &recommended, &record);
  weir_record_clean_up(&record);
  weir_cli_input_close(&input);
  return exit_status;
}

/* --- attacks --------------------------------------------------------------------------------- */

static int attack(const weir_cli_options *options, const char *const *rules, size_t rule_count) {
  static const uint64_t requests = 1000000; /* of each rule's search: about a second */
  for (size_t i = 0; i < rule_count; i++) {
    weir_attack_result result;
    weir_message message = {""};
    weir_status status =
        weir_attack_search(rules[i], &options->limiter, requests, &result, &message);
    if (status == WEIR_OK && !options->json)
      weir_cli_attack_text(stdout, rules[i], &result);
    else if (status == WEIR_OK && !weir_cli_attack_json(stdout, rules[i], &result))
      status = WEIR_NO_MEMORY;
    if (status != WEIR_OK) return weir_cli_fail("", status, &message);
  }
  return weir_cli_flush();
}

int weir_cli_simulate(const weir_cli_options *options) {
  const char *const *rules = options->rule_count > 0 ? options->rules : &options->rule;
  size_t rule_count = options->rule_count > 0 ? options->rule_count : 1;
  if (options->plot != NULL && !weir_cli_plot_check(options)) return WEIR_EXIT_USAGE;
  if (options->argument_count > 0 && (options->generate != NULL || options->attack)) {
    weir_cli_error("simulate: a FILE and --%s: one of them is accepted",
                   options->attack ? "attack" : "generate");
    return WEIR_EXIT_USAGE;
  }
  if (options->attack && options->recommend != NULL) {
    weir_cli_error("simulate: --attack and --recommend: one of them is accepted");
    return WEIR_EXIT_USAGE;
  }
  if (options->attack) return attack(options, rules, rule_count);
  if (options->recommend != NULL) return recommend(options, rules, rule_count);
  return simulate(options, rules, rule_count);
}
