/* Where the requests of simulate come from: a trace, an access log, a generator. */
#include "simulate_input.h"

#include <string.h>

#include "access_log.h"
#include "report.h"
#include "shown.h"
#include "trace_line.h"

const char *weir_cli_format_name(weir_cli_format format) {
  static const char *const names[] = {
      [WEIR_CLI_FORMAT_AUTO] = "auto",
      [WEIR_CLI_FORMAT_TRACE] = "trace",
      [WEIR_CLI_FORMAT_ACCESS_LOG] = "access-log",
  };
  return names[format];
}

bool weir_cli_input_open(const weir_cli_options *options, const weir_rule *rule,
                         weir_cli_input *input) {
  weir_message why;
  *input = (weir_cli_input){.options = options, .format = options->format};
  if (options->generate != NULL) {
    input->name = options->generate;
    input->generator = weir_generator_create(options->generate, rule, &why);
    if (input->generator != NULL) return true;
    weir_cli_error("--generate \"%s\": %s", weir_cli_show(options->generate).text, why.text);
    return false;
  }
  const char *path = options->argument_count > 0 ? options->arguments[0] : "-";
  input->name = strcmp(path, "-") == 0 ? "stdin" : path;
  input->file = weir_trace_file_open(path, &why);
  if (input->file != NULL) return true;
  weir_cli_error("%s: %s", weir_cli_show(input->name).text, why.text);
  return false;
}

void weir_cli_input_close(weir_cli_input *input) {
  weir_trace_file_close(input->file);
  weir_generator_destroy(input->generator);
  input->file = NULL;
  input->generator = NULL;
}

static bool parse_trace(const char *text, size_t length, weir_cli_arrival *arrival,
                        weir_message *why) {
  weir_cli_request request;
  if (!weir_trace_line_parse(text, length, &request, why)) return false;
  *arrival = (weir_cli_arrival){.time_us = request.time_ms * 1000,
                                .key = request.key,
                                .key_length = request.key_length,
                                .cost = request.cost};
  return true;
}

static bool parse_access(const weir_cli_input *input, const char *text, size_t length,
                         weir_cli_arrival *arrival, weir_message *why) {
  weir_access access;
  if (!weir_access_log_parse(text, length, input->options->access_key, &access, why)) return false;
  *arrival = (weir_cli_arrival){
      .time_us = access.time_us, .key = access.key, .key_length = access.key_length, .cost = 1};
  return true;
}

/* The first line that is good in one of the formats settles which it is. */
static bool parse(weir_cli_input *input, const char *text, size_t length, weir_cli_arrival *arrival,
                  weir_message *why) {
  if (input->format == WEIR_CLI_FORMAT_ACCESS_LOG)
    return parse_access(input, text, length, arrival, why);
  bool is_trace = parse_trace(text, length, arrival, why);
  if (input->format == WEIR_CLI_FORMAT_TRACE) return is_trace;
  weir_message other;
  if (is_trace)
    input->format = WEIR_CLI_FORMAT_TRACE;
  else if (parse_access(input, text, length, arrival, &other))
    input->format = WEIR_CLI_FORMAT_ACCESS_LOG;
  return input->format != WEIR_CLI_FORMAT_AUTO;
}

static void note_malformed(weir_cli_input *input, const weir_message *why) {
  if (input->malformed++ >= WEIR_CLI_MALFORMED_SHOWN) return;
  input->first[input->malformed - 1] = (weir_cli_malformed){.line = input->line, .reason = *why};
}

static weir_cli_step next_line(weir_cli_input *input, weir_cli_arrival *arrival,
                               weir_message *message) {
  for (;;) {
    const char *text;
    size_t length;
    weir_trace_step step = weir_trace_file_next(input->file, &text, &length, message);
    if (step == WEIR_TRACE_END) return WEIR_CLI_INPUT_END;
    input->line++;
    if (step == WEIR_TRACE_BROKEN) return WEIR_CLI_INPUT_BROKEN;
    if (step == WEIR_TRACE_TOO_LONG) {
      note_malformed(input, message);
      if (!weir_trace_file_skip(input->file, message)) return WEIR_CLI_INPUT_BROKEN;
    } else if (!parse(input, text, length, arrival, message)) {
      note_malformed(input, message);
    } else if (arrival->key_length == 0) {
      input->keyless++;
    } else {
      return WEIR_CLI_ARRIVAL;
    }
  }
}

weir_cli_step weir_cli_input_next(weir_cli_input *input, weir_cli_arrival *arrival,
                                  weir_message *message) {
  if (input->generator == NULL) return next_line(input, arrival, message);
  weir_arrival generated;
  if (!weir_generator_next(input->generator, &generated)) return WEIR_CLI_INPUT_END;
  input->line++;
  *arrival = (weir_cli_arrival){.time_us = generated.time_us,
                                .key = generated.key,
                                .key_length = generated.key_length,
                                .cost = 1};
  return WEIR_CLI_ARRIVAL;
}
