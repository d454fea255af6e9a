/* What each option sets. table_options.c says which there are, option_values.c which values they
 * take. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option_values.h"
#include "report.h"

#define SEE_HELP "; see \"weir help %s\""

static bool apply_of_simulation(enum weir_cli_option id, const char *value,
                                weir_cli_options *options) {
  switch (id) {
    case WEIR_CLI_PLOT:
      options->plot = value;
      return true;
    case WEIR_CLI_PLOT_KEY:
      options->plot_key = value;
      return true;
    case WEIR_CLI_GENERATE:
      options->generate = value;
      return true;
    case WEIR_CLI_FORMAT:
      return weir_cli_read_format(value, options);
    case WEIR_CLI_KEY:
      options->key = value;
      return true;
    case WEIR_CLI_TRUST:
      options->trust = value;
      return true;
    case WEIR_CLI_STATUS:
      options->status = value;
      return true;
    case WEIR_CLI_PATH:
      options->path = value;
      return true;
    case WEIR_CLI_COST_FIELD:
      options->cost_field = value;
      return true;
    case WEIR_CLI_TOP:
      return weir_cli_read_integer("--top", value, 10000, &options->top);
    case WEIR_CLI_RECOMMEND:
      options->recommend = value;
      return true;
    default: /* WEIR_CLI_ATTACK */
      options->attack = true;
      return true;
  }
}

static bool apply_of_bench(enum weir_cli_option id, const char *value, weir_cli_options *options) {
  switch (id) {
    case WEIR_CLI_VIA:
      return weir_cli_read_via(value, options);
    case WEIR_CLI_THREADS:
      return weir_cli_read_integer("--threads", value, WEIR_BENCH_THREADS_MOST, &options->threads);
    case WEIR_CLI_KEYS:
      return weir_cli_read_integer("--keys", value, WEIR_BENCH_KEYS_MOST, &options->keys);
    case WEIR_CLI_HOT:
      return weir_cli_read_pattern(WEIR_BENCH_HOT, options);
    case WEIR_CLI_ZIPF:
      return weir_cli_read_pattern(WEIR_BENCH_ZIPF, options);
    case WEIR_CLI_BATCH:
      return weir_cli_read_integer("--batch", value, WEIR_BATCH_MOST, &options->batch);
    case WEIR_CLI_DURATION:
      return weir_cli_read_bench_duration(value, &options->duration_us);
    case WEIR_CLI_ROUNDS:
      return weir_cli_read_integer("--rounds", value, WEIR_BENCH_ROUNDS_MOST, &options->rounds);
    default: /* WEIR_CLI_BASELINE */
      options->baseline = true;
      return true;
  }
}

static bool apply(enum weir_cli_option id, const char *value, weir_cli_options *options) {
  switch (id) {
    case WEIR_CLI_STORE:
      return weir_cli_read_store(value, options);
    case WEIR_CLI_RULE:
      return weir_cli_read_rule(value, options);
    case WEIR_CLI_COST:
      return weir_cli_read_costs(value, options);
    case WEIR_CLI_UP_TO:
      return true;
    case WEIR_CLI_WAIT:
      return weir_cli_read_wait(value, options);
    case WEIR_CLI_AT:
      return weir_cli_read_stamp(value, &options->at_us);
    case WEIR_CLI_PLOT:
    case WEIR_CLI_PLOT_KEY:
    case WEIR_CLI_GENERATE:
    case WEIR_CLI_ATTACK:
    case WEIR_CLI_FORMAT:
    case WEIR_CLI_KEY:
    case WEIR_CLI_TRUST:
    case WEIR_CLI_STATUS:
    case WEIR_CLI_PATH:
    case WEIR_CLI_COST_FIELD:
    case WEIR_CLI_TOP:
    case WEIR_CLI_RECOMMEND:
      return apply_of_simulation(id, value, options);
    case WEIR_CLI_VIA:
    case WEIR_CLI_THREADS:
    case WEIR_CLI_KEYS:
    case WEIR_CLI_HOT:
    case WEIR_CLI_ZIPF:
    case WEIR_CLI_BATCH:
    case WEIR_CLI_DURATION:
    case WEIR_CLI_ROUNDS:
    case WEIR_CLI_BASELINE:
      return apply_of_bench(id, value, options);
    case WEIR_CLI_JSON:
      options->json = true;
      return true;
    case WEIR_CLI_DEADLINE:
      return weir_cli_read_duration("--deadline", value, &options->limiter.deadline_us);
    case WEIR_CLI_CLOCK_ERROR:
      return weir_cli_read_duration("--clock-error", value, &options->limiter.clock_error_us);
    case WEIR_CLI_PROCESSES:
      return weir_cli_read_processes(value, &options->limiter.processes);
    case WEIR_CLI_NO_LOCAL_DENIAL:
      options->limiter.flags |= WEIR_NO_LOCAL_DENIAL;
      return true;
    case WEIR_CLI_NO_CACHED_CELLS:
      options->limiter.flags |= WEIR_NO_CACHED_CELLS;
      return true;
    case WEIR_CLI_NO_COMBINING:
      options->limiter.flags |= WEIR_NO_COMBINING;
      return true;
    case WEIR_CLI_NO_LEASES:
      options->limiter.flags |= WEIR_NO_LEASES;
      return true;
    case WEIR_CLI_QUIET:
      options->quiet = true;
      return true;
    case WEIR_CLI_HELP:
      options->help = true;
      return true;
  }
  return false;
}

/* An empty variable counts as unset. */
static const char *environment(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : otherwise;
}

bool weir_cli_asks_servers_only(const weir_cli_options *options) {
  return options->via_count > 0 && !weir_cli_given(options, WEIR_CLI_STORE);
}

bool weir_cli_given(const weir_cli_options *options, enum weir_cli_option id) {
  return options->given >> id & 1;
}

/* What is said of an option shows no value, and nothing that no option's name can hold: it may be a
 * secret. `name` follows the dashes. */
typedef struct shown_name {
  char text[48];
} shown_name;

static shown_name show_name(const char *name) {
  enum { SHOWN_MOST = 40 };
  static const char accepted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  shown_name shown;
  size_t length = strspn(name, accepted);
  if (length > SHOWN_MOST) length = SHOWN_MOST;
  bool whole = name[length] == '\0' || name[length] == '=';
  snprintf(shown.text, sizeof shown.text, "--%.*s%s", (int)length, name, whole ? "" : "...");
  return shown;
}

static void refuse_name(const weir_cli_command *command, const char *name, size_t length) {
  const char *nearest = weir_cli_option_nearest(command, name, length);
  if (weir_cli_option_find(NULL, name, length) != NULL)
    weir_cli_error("%s takes no %s" SEE_HELP, command->name, show_name(name).text, command->name);
  else if (nearest != NULL)
    weir_cli_error("unknown option \"%s\": did you mean --%s? See \"weir help %s\"",
                   show_name(name).text, nearest, command->name);
  else
    weir_cli_error("unknown option \"%s\"" SEE_HELP, show_name(name).text, command->name);
}

typedef struct argument_line {
  int count, next;
  char **list;
} argument_line;

/* `name` follows "--" and may hold "=VALUE". */
static bool read_long(const weir_cli_command *command, const char *name, argument_line *line,
                      weir_cli_options *options) {
  size_t length = strcspn(name, "=");
  const char *value = name[length] == '=' ? name + length + 1 : NULL;
  const weir_cli_option_row *row = weir_cli_option_find(command, name, length);
  if (row == NULL) {
    refuse_name(command, name, length);
    return false;
  }
  if (row->value == NULL && value != NULL) {
    weir_cli_error("--%s takes no value" SEE_HELP, row->name, command->name);
    return false;
  }
  if (row->value != NULL && value == NULL) {
    if (line->next == line->count) {
      weir_cli_error("--%s needs a value" SEE_HELP, row->name, command->name);
      return false;
    }
    value = line->list[line->next++];
  }
  options->given |= UINT64_C(1) << row->id;
  return apply(row->id, value, options);
}

/* "-h" is the only short one. */
static bool read_short(const weir_cli_command *command, const char *letters,
                       weir_cli_options *options) {
  if (strcmp(letters, "h") == 0) return apply(WEIR_CLI_HELP, NULL, options);
  weir_cli_error("unknown option \"-%c\"" SEE_HELP, letters[0], command->name);
  return false;
}

static bool read_all(const weir_cli_command *command, argument_line *line,
                     weir_cli_options *options) {
  bool ended = false; /* by "--" */
  while (line->next < line->count) {
    char *element = line->list[line->next++];
    bool good = true;
    if (ended || element[0] != '-' || element[1] == '\0')
      line->list[1 + options->argument_count++] = element;
    else if (strcmp(element, "--") == 0)
      ended = true;
    else if (element[1] == '-')
      good = read_long(command, element + 2, line, options);
    else
      good = read_short(command, element + 1, options);
    if (!good) return false;
  }
  return true;
}

bool weir_cli_options_parse(int argc, char **argv, const weir_cli_command *command,
                            weir_cli_options *options) {
  *options = (weir_cli_options){
      .store = environment("WEIR_STORE", NULL),
      .rule = environment("WEIR_RULE", NULL),
      .costs = {1},
      .cost_count = 1,
      .threads = 1,
      .keys = 1000,
      .batch = 1,
      .rounds = 5,
      .duration_us = 5000000,
      .arguments = argv + 1,
      .limiter = {.size = sizeof(weir_limiter_options), .fallback = WEIR_FALLBACK_NONE}};
  argument_line line = {.count = argc, .next = 1, .list = argv};
  if (!read_all(command, &line, options)) return false;
  bool bench = command == &weir_cli_commands[WEIR_CLI_BENCH];
  if (options->store_count > 1 && !bench) {
    weir_cli_error("%s takes one --store" SEE_HELP, command->name, command->name);
    return false;
  }
  options->store_given = options->store != NULL;
  if (!options->store_given) options->store = "memory:";
  if (options->store_count == 0) options->stores[options->store_count++] = options->store;
  return true;
}
