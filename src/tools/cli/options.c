/* What each option sets. table_options.c says which there are, option_values.c which values they
 * take. */
#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option_values.h"
#include "report.h"

#define SEE_HELP "; see \"weir help %s\""

/* What an option sets: one of these. An option that only says that it was given needs none. */
typedef struct effect {
  bool (*read)(const char *value, weir_cli_options *options);
  size_t text; /* the offset of a member: of the value as it is, ... */
  size_t mark; /* ... of what becomes true, ... */
  size_t integer;
  int64_t most; /* ... of a number from 1 to this, ... */
  size_t duration;
  unsigned flag; /* of the limiter */
} effect;

#define MEMBER(name) offsetof(weir_cli_options, name)
_Static_assert(MEMBER(store_given) == 0, "the first member is no option's: an offset of 0 is none");

static const effect effects[] = {
    [WEIR_CLI_STORE] = {.read = weir_cli_read_store},
    [WEIR_CLI_RULE] = {.read = weir_cli_read_rule},
    [WEIR_CLI_COST] = {.read = weir_cli_read_costs},
    [WEIR_CLI_WAIT] = {.read = weir_cli_read_wait},
    [WEIR_CLI_AT] = {.read = weir_cli_read_stamp},
    [WEIR_CLI_FORMAT] = {.read = weir_cli_read_format},
    [WEIR_CLI_KEY] = {.text = MEMBER(key)},
    [WEIR_CLI_TRUST] = {.text = MEMBER(trust)},
    [WEIR_CLI_STATUS] = {.text = MEMBER(status)},
    [WEIR_CLI_PATH] = {.text = MEMBER(path)},
    [WEIR_CLI_COST_FIELD] = {.text = MEMBER(cost_field)},
    [WEIR_CLI_TOP] = {.integer = MEMBER(top), .most = 10000},
    [WEIR_CLI_RECOMMEND] = {.text = MEMBER(recommend)},
    [WEIR_CLI_GENERATE] = {.text = MEMBER(generate)},
    [WEIR_CLI_ATTACK] = {.mark = MEMBER(attack)},
    [WEIR_CLI_VIA] = {.read = weir_cli_read_via},
    [WEIR_CLI_THREADS] = {.integer = MEMBER(threads), .most = WEIR_BENCH_THREADS_MOST},
    [WEIR_CLI_PROCESSES] = {.read = weir_cli_read_processes},
    [WEIR_CLI_KEYS] = {.integer = MEMBER(keys), .most = WEIR_BENCH_KEYS_MOST},
    [WEIR_CLI_HOT] = {.read = weir_cli_read_hot},
    [WEIR_CLI_ZIPF] = {.read = weir_cli_read_zipf},
    [WEIR_CLI_ROUNDS] = {.integer = MEMBER(rounds), .most = WEIR_BENCH_ROUNDS_MOST},
    [WEIR_CLI_BATCH] = {.integer = MEMBER(batch), .most = WEIR_BATCH_MOST},
    [WEIR_CLI_DURATION] = {.read = weir_cli_read_bench_duration},
    [WEIR_CLI_BASELINE] = {.mark = MEMBER(baseline)},
    [WEIR_CLI_PLOT] = {.text = MEMBER(plot)},
    [WEIR_CLI_PLOT_KEY] = {.text = MEMBER(plot_key)},
    [WEIR_CLI_JSON] = {.mark = MEMBER(json)},
    [WEIR_CLI_QUIET] = {.mark = MEMBER(quiet)},
    [WEIR_CLI_DEADLINE] = {.duration = MEMBER(limiter.deadline_us)},
    [WEIR_CLI_CLOCK_ERROR] = {.duration = MEMBER(limiter.clock_error_us)},
    [WEIR_CLI_NO_LOCAL_DENIAL] = {.flag = WEIR_NO_LOCAL_DENIAL},
    [WEIR_CLI_NO_CACHED_CELLS] = {.flag = WEIR_NO_CACHED_CELLS},
    [WEIR_CLI_NO_COMBINING] = {.flag = WEIR_NO_COMBINING},
    [WEIR_CLI_NO_LEASES] = {.flag = WEIR_NO_LEASES},
    [WEIR_CLI_HELP] = {.mark = MEMBER(help)}};

static void *member_at(weir_cli_options *options, size_t offset) {
  return (char *)options + offset;
}

static bool apply(const weir_cli_option_row *row, const char *value, weir_cli_options *options) {
  const effect *sets = &effects[row->id];
  options->limiter.flags |= sets->flag;
  if (sets->text > 0) *(const char **)member_at(options, sets->text) = value;
  if (sets->mark > 0) *(bool *)member_at(options, sets->mark) = true;
  if (sets->integer > 0)
    return weir_cli_read_integer(row->name, value, sets->most, member_at(options, sets->integer));
  if (sets->duration > 0)
    return weir_cli_read_duration(row->name, value, member_at(options, sets->duration));
  return sets->read == NULL || sets->read(value, options);
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
  return apply(row, value, options);
}

/* "-h" is the only short one. */
static bool read_short(const weir_cli_command *command, const char *letters,
                       weir_cli_options *options) {
  if (strcmp(letters, "h") == 0)
    return apply(weir_cli_option_find(command, "help", strlen("help")), NULL, options);
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
