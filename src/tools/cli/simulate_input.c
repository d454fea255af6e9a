/* Where the requests of simulate come from: traces and access logs, or a generator. Each file is
 * read one request ahead, and one more where its time may be wrong; the earliest of all files is
 * next. */
#include "simulate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "array.h"
#include "report.h"

/* A line so far ahead of those around it has a wrong time. Logs step back, where a long request is
 * written down with its begin, but not ahead and back again. */
#define FAR_US (INT64_C(3600) * 1000000)

/* --- opening and closing ---------------------------------------------------------------------- */

/* False after one line on stderr, as all of these. */
static bool open_files(weir_cli_input *input) {
  const weir_cli_options *options = input->options;
  size_t given = (size_t)options->argument_count, count = given > 0 ? given : 1;
  if (count > WEIR_CLI_FILES_MOST) {
    weir_cli_error("simulate: up to %d FILEs are accepted", WEIR_CLI_FILES_MOST);
    return false;
  }
  input->sources = calloc(count, sizeof *input->sources);
  if (input->sources == NULL) {
    weir_cli_error("there is not enough memory");
    return false;
  }
  while (input->source_count < count) {
    const char *path = given > 0 ? options->arguments[input->source_count] : "-";
    weir_cli_source *source = &input->sources[input->source_count++];
    weir_message why;
    source->name = strcmp(path, "-") == 0 ? "stdin" : path;
    source->format = options->format;
    if (!weir_cli_selection_init(&source->selection, options)) return false;
    source->json.others = &source->selection.others;
    source->file = weir_trace_file_open(path, &why);
    if (source->file == NULL) {
      weir_cli_error("%s: %s", weir_cli_show(source->name).text, why.text);
      return false;
    }
  }
  input->name = input->sources[0].name;
  return true;
}

/* The options that may name one of a format's fields which is not there. */
static const char *fields_named(const weir_cli_options *options) {
  return options->duration_field != NULL ? "--key, --cost or --duration"
         : options->real_field != NULL   ? "--key, --cost or --real"
         : options->class_field != NULL  ? "--key, --cost or --class"
         : options->tenant_field != NULL ? "--key, --cost or --tenant"
                                         : "--key or --cost";
}

static bool open_input(weir_cli_input *input, const weir_stack *stack) {
  const weir_cli_options *options = input->options;
  bool has_pattern = options->format == WEIR_CLI_FORMAT_PATTERN;
  weir_message why;
  if (options->generate != NULL) {
    input->name = options->generate;
    input->generator = weir_generator_create(options->generate, stack, &why);
    if (input->generator != NULL) return true;
    weir_cli_error("--generate \"%s\": %s", weir_cli_show(options->generate).text, why.text);
    return false;
  }
  if (has_pattern && !weir_access_format_read(options->log_format, &input->pattern, &why)) {
    weir_cli_error("--format: %s", why.text);
    return false;
  }
  if (!open_files(input)) return false;
  /* All files have the same others. */
  if (!has_pattern ||
      weir_access_format_ask(&input->pattern, &input->sources[0].selection.others, &why))
    return true;
  weir_cli_error("%s: %s", fields_named(options), why.text);
  return false;
}

bool weir_cli_input_open(const weir_cli_options *options, const weir_stack *stack,
                         weir_cli_input *input) {
  *input = (weir_cli_input){.options = options};
  if (open_input(input, stack)) return true;
  weir_cli_input_close(input);
  return false;
}

void weir_cli_input_close(weir_cli_input *input) {
  for (size_t i = 0; i < input->source_count; i++) {
    weir_trace_file_close(input->sources[i].file);
    weir_cli_selection_clean_up(&input->sources[i].selection);
    weir_access_json_clean_up(&input->sources[i].json);
    free(input->sources[i].kept);
  }
  free(input->sources);
  weir_generator_destroy(input->generator);
  input->sources = NULL;
  input->source_count = 0;
  input->generator = NULL;
}

/* --- one line --------------------------------------------------------------------------------- */

static bool parse_trace(const char *text, size_t length, weir_cli_arrival *arrival,
                        weir_message *why) {
  weir_trace_request request;
  if (!weir_trace_line_parse(text, length, &request, why)) return false;
  if (request.leaves) {
    weir_message_set(
        why, "a line that leaves: only replay, under a rule whose places are held, reads it");
    return false;
  }
  if (request.estimates || request.settles) {
    weir_message_set(why, "an estimate or a real cost: only replay reads it from a trace");
    return false;
  }
  *arrival = (weir_cli_arrival){.time_us = request.time_ms * 1000,
                                .key = request.key,
                                .key_length = request.key_length,
                                .cost = request.cost};
  return true;
}

/* All ask one pool, whose tenants the keys are. */
static void make_key_tenant(weir_cli_arrival *arrival) {
  static const char all[] = "all";
  arrival->tenant = (weir_access_text){arrival->key, arrival->key_length};
  arrival->key = all;
  arrival->key_length = sizeof all - 1;
}

/* The first line that is good in one of the formats settles which it is. */
static bool find_format(weir_cli_source *source, const char *text, size_t length,
                        weir_message *why) {
  weir_cli_arrival arrival;
  weir_access access;
  weir_message log, json;
  if (parse_trace(text, length, &arrival, why))
    source->format = WEIR_CLI_FORMAT_TRACE;
  else if (weir_access_log_parse(text, length, &access, &log))
    source->format = WEIR_CLI_FORMAT_ACCESS_LOG;
  else if (weir_access_json_parse(&source->json, text, length, &access, &json))
    source->format = WEIR_CLI_FORMAT_JSON;
  else if (length > 0) {
    char *form = strchr(log.text, ';'); /* what is accepted would not fit */
    if (form != NULL) *form = '\0';
    weir_message trace = *why;
    weir_message_set(why, "tried trace: %.80s; access-log: %.80s; json: %.80s", trace.text,
                     log.text, json.text);
  }
  return source->format != WEIR_CLI_FORMAT_AUTO;
}

static void note_malformed(weir_cli_input *input, const weir_cli_source *source, uint64_t line,
                           const weir_message *why) {
  if (input->malformed++ >= WEIR_CLI_MALFORMED_SHOWN) return;
  input->first[input->malformed - 1] =
      (weir_cli_malformed){.name = source->name, .line = line, .reason = *why};
}

/* False: the line is no request, for which reason. */
static bool parse_line(const weir_cli_input *input, weir_cli_source *source, const char *text,
                       size_t length, weir_access *access, weir_message *why) {
  if (source->format == WEIR_CLI_FORMAT_AUTO && !find_format(source, text, length, why))
    return false;
  switch (source->format) {
    case WEIR_CLI_FORMAT_TRACE:
      return parse_trace(text, length, &source->next, why);
    case WEIR_CLI_FORMAT_JSON:
      return weir_access_json_parse(&source->json, text, length, access, why);
    case WEIR_CLI_FORMAT_PATTERN:
      return weir_access_format_parse(&input->pattern, text, length, access, why);
    default:
      return weir_access_log_parse(text, length, access, why);
  }
}

/* Why a line that was read is no request; false: it is one, or it is left out for other reasons. */
static bool is_malformed(weir_cli_selected selected, weir_message *why) {
  bool is_real = selected == WEIR_CLI_REALLESS || selected == WEIR_CLI_REAL_TOO_DEAR;
  bool is_none = selected == WEIR_CLI_COSTLESS || selected == WEIR_CLI_REALLESS;
  bool is_dear = selected == WEIR_CLI_TOO_DEAR || selected == WEIR_CLI_REAL_TOO_DEAR;
  const char *option = is_real ? "--real" : "--cost";
  if (is_none) weir_message_set(why, "what %s names is no whole number", option);
  if (is_dear)
    weir_message_set(why, "what %s names is above %lld, the most that a request can cost", option,
                     (long long)WEIR_TRACE_COST_MOST);
  if (selected == WEIR_CLI_TIMELESS)
    weir_message_set(why, "what --duration names is no number, such as 0.012, of up to 400 days");
  return is_none || is_dear || selected == WEIR_CLI_TIMELESS;
}

/* The source's next request, where the line is one that takes part. WEIR_NO_MEMORY. */
static weir_status take_line(weir_cli_input *input, weir_cli_source *source, const char *text,
                             size_t length) {
  weir_access access;
  weir_cli_selected_request request;
  weir_message why;
  bool good = parse_line(input, source, text, length, &access, &why);
  source->has_next = good;
  if (good && source->format != WEIR_CLI_FORMAT_TRACE) {
    weir_cli_selected selected = weir_cli_select(&source->selection, &access, &request);
    if (selected == WEIR_CLI_SELECT_NO_MEMORY) return WEIR_NO_MEMORY;
    good = !is_malformed(selected, &why);
    input->keyless += selected == WEIR_CLI_KEYLESS;
    input->filtered += selected == WEIR_CLI_FILTERED;
    source->has_next = selected == WEIR_CLI_SELECTED;
    if (source->has_next)
      source->next = (weir_cli_arrival){.time_us = access.time_us,
                                        .key = request.key.at,
                                        .key_length = request.key.length,
                                        .class_name = request.class_name,
                                        .tenant = request.tenant,
                                        .cost = request.cost,
                                        .real = request.real,
                                        .duration_us = request.duration_us};
  }
  if (good && source->has_next && weir_cli_tenant_is_key(input->options))
    make_key_tenant(&source->next);
  if (!good) note_malformed(input, source, source->line, &why);
  source->next.line = source->line;
  return WEIR_OK;
}

/* --- one file --------------------------------------------------------------------------------- */

/* The share that has been read of all that there is; 0 or below: not known, as of a pipe. */
static double share_read(const weir_cli_input *input) {
  int64_t done = 0, all = 0;
  if (input->generator != NULL) {
    done = (int64_t)input->lines;
    all = done + weir_generator_left(input->generator);
  }
  for (size_t i = 0; i < input->source_count; i++) {
    int64_t one_done, one_all;
    if (!weir_trace_file_measure(input->sources[i].file, &one_done, &one_all)) return -1;
    done += one_done;
    all += one_all;
  }
  return all > 0 ? (double)done / (double)all : 0;
}

/* Counts one more line, also where it is no request. */
static void count_line(weir_cli_input *input) {
  input->lines++;
  if (weir_cli_progress_is_due(&input->progress))
    weir_cli_progress_show(&input->progress, input->lines, share_read(input));
}

/* Whether some option says how requests stand in a log. */
static bool reads_logs(const weir_cli_options *options) {
  return options->key != NULL || options->cost_field != NULL || options->real_field != NULL ||
         options->duration_field != NULL || options->class_field != NULL ||
         (options->tenant_field != NULL && !weir_cli_tenant_is_key(options)) ||
         options->trust != NULL || options->status != NULL || options->path != NULL;
}

/* Reads on to the source's next request, if there is one. False with a message, as below. */
static bool read_on(weir_cli_input *input, weir_cli_source *source, weir_message *message) {
  const weir_cli_options *options = input->options;
  bool of_logs = reads_logs(options);
  source->has_next = false;
  while (!source->has_next) {
    const char *text;
    size_t length;
    weir_trace_step step = weir_trace_file_next(source->file, &text, &length, message);
    if (step == WEIR_TRACE_END) return true;
    source->line++;
    count_line(input);
    bool good = step != WEIR_TRACE_BROKEN;
    if (step == WEIR_TRACE_TOO_LONG) {
      note_malformed(input, source, source->line, message);
      good = weir_trace_file_skip(source->file, message);
    } else if (good && take_line(input, source, text, length) != WEIR_OK) {
      weir_message_set(message, "there is not enough memory");
      good = false;
    }
    if (good && of_logs && source->format == WEIR_CLI_FORMAT_TRACE) {
      weir_message_set(message,
                       "a trace names its keys and costs itself: --key, --cost, --real, "
                       "--duration, --class, --tenant FIELD (but for --tenant key), --trust, "
                       "--status and --path are for logs");
      good = false;
    }
    if (good && weir_cli_tenant_is_key(options) && source->format > WEIR_CLI_FORMAT_TRACE) {
      weir_message_set(message,
                       "--tenant key is of a trace: of a log accepted are fields as for --key, and "
                       "with --format json the member \"key\"");
      good = false;
    }
    if (good) continue;
    input->name = source->name;
    input->line = source->line;
    return false;
  }
  return true;
}

static const char *keep_text(char **to, const char *text, size_t length) {
  char *kept = *to;
  if (length > 0) memcpy(kept, text, length);
  *to += length;
  return kept;
}

/* Texts are good until the next line is read: keeps those of a request. False: not enough memory. */
static bool keep_texts(weir_cli_source *source, weir_cli_arrival *request) {
  size_t length = request->key_length + request->class_name.length + request->tenant.length;
  if (!weir_array_grow(&source->kept, &source->kept_room, length, 1)) return false;
  char *to = source->kept;
  request->key = keep_text(&to, request->key, request->key_length);
  request->class_name.at = keep_text(&to, request->class_name.at, request->class_name.length);
  request->tenant.at = keep_text(&to, request->tenant.at, request->tenant.length);
  return true;
}

/* Goes on to the source's next request whose time can be true: where it is far ahead of all before,
 * the one after it says whether time went on or the line is malformed. The last line has none after
 * it, and stays. */
static bool advance(weir_cli_input *input, weir_cli_source *source, weir_message *message) {
  source->has_next = source->has_after;
  source->next = source->after;
  if (!source->has_after && !read_on(input, source, message)) return false;
  source->has_after = false;
  while (source->has_next &&
         (!source->has_latest || source->next.time_us - source->latest_us >= FAR_US)) {
    weir_cli_arrival tried = source->next;
    if (!keep_texts(source, &tried)) {
      weir_message_set(message, "there is not enough memory");
      return false;
    }
    if (!read_on(input, source, message)) return false;
    if (source->has_next && tried.time_us - source->next.time_us >= FAR_US) {
      weir_message why;
      char time[WEIR_CLI_TIME_BYTES];
      weir_cli_format_time(tried.time_us, time);
      weir_message_set(&why, "its time, %s UTC, is far ahead of the %s", time,
                       source->has_latest ? "lines before and after it" : "line after it");
      note_malformed(input, source, tried.line, &why);
      continue;
    }
    source->has_after = source->has_next;
    source->after = source->next;
    source->next = tried;
    source->has_next = true;
    break;
  }
  if (source->has_next && (!source->has_latest || source->next.time_us > source->latest_us))
    source->latest_us = source->next.time_us;
  source->has_latest = source->has_latest || source->has_next;
  return true;
}

/* --- all of them ------------------------------------------------------------------------------ */

weir_cli_step weir_cli_input_next(weir_cli_input *input, weir_cli_arrival *arrival,
                                  weir_message *message) {
  if (input->generator != NULL) {
    weir_arrival generated;
    if (!weir_generator_next(input->generator, &generated)) return WEIR_CLI_INPUT_END;
    count_line(input);
    input->line = input->lines;
    *arrival =
        (weir_cli_arrival){.time_us = generated.time_us,
                           .key = generated.key,
                           .key_length = generated.key_length,
                           .class_name = {generated.class_name, strlen(generated.class_name)},
                           .cost = 1};
    if (weir_cli_tenant_is_key(input->options)) make_key_tenant(arrival);
    return WEIR_CLI_ARRIVAL;
  }

  /* The file whose request was handed out goes on, or at the begin all; the earliest of what they
   * have next is next, of one time in the order of the files. */
  for (size_t i = 0; i < input->source_count; i++) {
    weir_cli_source *source = &input->sources[i];
    bool due = input->latest == NULL || input->latest == source;
    if (due && !advance(input, source, message)) return WEIR_CLI_INPUT_BROKEN;
  }
  weir_cli_source *earliest = NULL;
  for (size_t i = 0; i < input->source_count; i++) {
    weir_cli_source *source = &input->sources[i];
    if (source->has_next && (earliest == NULL || source->next.time_us < earliest->next.time_us))
      earliest = source;
  }
  if (earliest == NULL) return WEIR_CLI_INPUT_END;
  input->latest = earliest;
  input->name = earliest->name;
  input->line = earliest->next.line;
  *arrival = earliest->next;
  return WEIR_CLI_ARRIVAL;
}

static weir_status read_into(const weir_cli_input *input, const weir_cli_readers *into,
                             const weir_cli_arrival *a, weir_message *message) {
  weir_status status = WEIR_OK;
  if (into->held != NULL) {
    bool ended = !input->pattern.tells_begin;
    const weir_span span = {.begin_us = a->time_us - (ended ? a->duration_us : 0),
                            .duration_us = a->duration_us,
                            .cost = (uint32_t)a->cost};
    return weir_held_add(into->held, &span, a->key, a->key_length, message);
  }
  if (into->tenants != NULL) {
    const weir_tenant_request request = {.time_us = a->time_us,
                                         .pool = a->key,
                                         .pool_length = a->key_length,
                                         .name = a->tenant.at,
                                         .name_length = a->tenant.length,
                                         .cost = a->cost};
    return weir_tenants_request(into->tenants, &request, message);
  }
  if (into->record != NULL &&
      !weir_record_add(into->record, a->time_us, a->key, a->key_length, a->cost))
    return WEIR_NO_MEMORY;
  if (into->simulation != NULL) {
    const weir_simulated request = {.time_us = a->time_us,
                                    .key = a->key,
                                    .key_length = a->key_length,
                                    .cost = a->cost,
                                    .class_name = a->class_name.at,
                                    .class_length = a->class_name.length};
    status = weir_simulation_request(into->simulation, &request, message);
  }
  if (status == WEIR_OK && into->reals != NULL)
    status = weir_reals_request(into->reals, a->time_us, a->key, a->key_length, a->cost, a->real,
                                message);
  return status;
}

int weir_cli_input_read(weir_cli_input *input, const weir_cli_readers *readers) {
  const char *other = input->options->tenant_field != NULL ? "all" : "client";
  const char *key = input->options->key != NULL ? input->options->key : other;
  weir_status status = WEIR_OK;
  weir_message message = {""};
  weir_cli_arrival a;
  weir_cli_step step = WEIR_CLI_ARRIVAL;
  weir_cli_progress_begin(&input->progress, input->options->quiet, false);
  while (status == WEIR_OK && (step = weir_cli_input_next(input, &a, &message)) == WEIR_CLI_ARRIVAL)
    status = read_into(input, readers, &a, &message);
  if (step == WEIR_CLI_INPUT_BROKEN) status = WEIR_BAD_ARGUMENT;
  weir_cli_progress_end(&input->progress);
  if (status != WEIR_OK) {
    char place[WEIR_CLI_SHOWN_MOST + 32];
    snprintf(place, sizeof place, "%s:%" PRIu64 ": ", weir_cli_show(input->name).text, input->line);
    return weir_cli_fail(place, status, &message);
  }
  if (input->latest != NULL || (input->keyless == 0 && input->malformed == 0)) return 0;
  if (input->keyless > 0)
    weir_cli_error("--key \"%s\"%s: no line has it", weir_cli_show(key).text,
                   input->options->tenant_field != NULL ? ", and --tenant" : "");
  else
    weir_cli_error("%s: no line is a request; line %" PRIu64 ": %s",
                   weir_cli_show(input->first[0].name).text, input->first[0].line,
                   input->first[0].reason.text);
  return WEIR_EXIT_USAGE;
}
