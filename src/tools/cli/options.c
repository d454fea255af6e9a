/* The options of a command line: what each sets, which values it takes, and what is said of those
 * it does not. tables.c says which options there are. An error has the option's name, the
 * value as it may be shown, and what is accepted. */
#include "options.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logs/trace.h"
#include "number.h"
#include "report.h"

#define SEE_HELP "; see \"weir help %s\""

/* --- values of their own kind ---------------------------------------------------------------- */

/* Numbers between commas, and their sum; -1: they are none. */
static int64_t read_numbers(const char *text, int64_t numbers[WEIR_CLI_COSTS_MOST], int *count) {
  int64_t sum = 0;
  *count = 0;
  for (const char *at = text; *count < WEIR_CLI_COSTS_MOST; at++) {
    size_t length = strcspn(at, ",");
    int64_t *number = &numbers[(*count)++];
    if (!weir_number_read(at, length, WEIR_TRACE_COST_MOST, number)) return -1;
    sum += *number;
    if (*(at += length) == '\0') return sum;
  }
  return -1;
}

/* One cost for every rule, or one per rule. A 0 leaves a rule out, so it makes sense in a list
 * only. */
static bool read_costs(const char *text, weir_cli_options *options) {
  bool list = strchr(text, ',') != NULL;
  if (read_numbers(text, options->costs, &options->cost_count) > 0) return true;
  weir_cli_error("--cost \"%s\": %s", weir_cli_show(text).text,
                 list ? "a list of 2 to 8 whole numbers from 0 to 2147483648, one per rule and one "
                        "above 0, is accepted"
                      : "a whole number from 1 to 2147483648 is accepted");
  return false;
}

static bool read_reals(const char *text, weir_cli_options *options) {
  if (read_numbers(text, options->reals, &options->real_count) >= 0) return true;
  weir_cli_error("--real \"%s\": a whole number from 0 to 2147483648 is accepted, or one per rule",
                 weir_cli_show(text).text);
  return false;
}

static bool read_wait(const char *text, weir_cli_options *options) {
  static const int64_t default_us = 60000000, most_us = 1800000000;
  bool zero = strcmp(text, "0s") == 0;
  options->wait_us = 0;
  if (!zero &&
      (!weir_duration_parse(text, strlen(text), &options->wait_us) || options->wait_us > most_us)) {
    weir_cli_error("--wait \"%s\": a whole duration from 0s to 30m is accepted, such as 2200ms",
                   weir_cli_show(text).text);
    return false;
  }
  options->limiter.longest_wait_us = options->wait_us > default_us ? options->wait_us : default_us;
  return true;
}

static bool read_stamp(const char *text, weir_cli_options *options) {
  static const int64_t most_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  if (weir_number_read(text, strlen(text), most_us, &options->at_us)) return true;
  weir_cli_error("--at \"%s\": microseconds since 1970 are accepted, such as at_us of take --json",
                 weir_cli_show(text).text);
  return false;
}

static bool read_format(const char *text, weir_cli_options *options) {
  static const char *const names[] = {[WEIR_CLI_FORMAT_AUTO] = "auto",
                                      [WEIR_CLI_FORMAT_TRACE] = "trace",
                                      [WEIR_CLI_FORMAT_ACCESS_LOG] = "access-log",
                                      [WEIR_CLI_FORMAT_JSON] = "json"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i]) != 0) continue;
    options->format = (weir_cli_format)i;
    return true;
  }
  options->format = WEIR_CLI_FORMAT_PATTERN;
  options->log_format = text;
  if (strpbrk(text, "%$") != NULL) return true;
  weir_cli_error(
      "--format \"%s\": auto, trace, access-log, json and a log's own format with its %% or $ are "
      "accepted",
      weir_cli_show(text).text);
  return false;
}

/* --- what each option sets ------------------------------------------------------------------- */

/* Some of these. An option that only says that it was given needs none. */
typedef struct effect {
  bool (*read)(const char *value, weir_cli_options *options);
  size_t text;        /* the offset of a member: of the value as it is, ... */
  size_t list, count; /* ... of an array that it is added to, and of how many are there, ... */
  size_t mark;        /* ... of what becomes true, ... */
  size_t integer;     /* ... of a number from 1, ... */
  size_t duration;    /* ... of microseconds */
  int64_t least, most;
  const char *accepted; /* of a duration */
  weir_bench_pattern pattern;
  unsigned flag; /* of the limiter */
} effect;

#define MEMBER(name) offsetof(weir_cli_options, name)
_Static_assert(MEMBER(store_given) == 0, "the first member is no option's: an offset of 0 is none");

/* To the library 0 would mean its default, so that no duration may be as short. */
#define DURATION(name)                                                \
  .duration = MEMBER(name), .least = 1000, .most = INT64_C(60000000), \
  .accepted = "from 1ms to 60s is accepted, such as 20ms"

static const effect effects[] = {
    [WEIR_CLI_STORE] = {.text = MEMBER(store),
                        .list = MEMBER(stores),
                        .count = MEMBER(store_count),
                        .most = WEIR_CLI_STORES_MOST},
    [WEIR_CLI_RULE] = {.text = MEMBER(rule),
                       .list = MEMBER(rules),
                       .count = MEMBER(rule_count),
                       .most = WEIR_CLI_RULES_MOST},
    [WEIR_CLI_COST] = {.read = read_costs},
    [WEIR_CLI_REAL] = {.read = read_reals},
    [WEIR_CLI_TENANT] = {.text = MEMBER(tenant)},
    [WEIR_CLI_CLASS] = {.text = MEMBER(class_name)},
    [WEIR_CLI_WAIT] = {.read = read_wait},
    [WEIR_CLI_OWN_LIMIT] = {.integer = MEMBER(own_limit), .most = INT64_C(1) << 53},
    [WEIR_CLI_KEY_LIMITS] = {.mark = MEMBER(key_limits)},
    [WEIR_CLI_FOR] = {.duration = MEMBER(for_us),
                      .least = 1000000,
                      .most = INT64_C(400) * 24 * 3600 * 1000000,
                      .accepted = "from 1s to 400d is accepted, such as 30d"},
    [WEIR_CLI_BEFORE] = {.text = MEMBER(before)},
    [WEIR_CLI_AT] = {.read = read_stamp},
    [WEIR_CLI_LOST] = {.text = MEMBER(lost)},
    [WEIR_CLI_FORMAT] = {.read = read_format},
    [WEIR_CLI_KEY] = {.text = MEMBER(key)},
    [WEIR_CLI_TRUST] = {.text = MEMBER(trust)},
    [WEIR_CLI_STATUS] = {.text = MEMBER(status)},
    [WEIR_CLI_PATH] = {.text = MEMBER(path)},
    [WEIR_CLI_COST_FIELD] = {.text = MEMBER(cost_field)},
    [WEIR_CLI_REAL_FIELD] = {.text = MEMBER(real_field)},
    [WEIR_CLI_DURATION_FIELD] = {.text = MEMBER(duration_field)},
    [WEIR_CLI_CLASS_FIELD] = {.text = MEMBER(class_field)},
    [WEIR_CLI_TENANT_FIELD] = {.text = MEMBER(tenant_field)},
    [WEIR_CLI_TOP] = {.integer = MEMBER(top), .most = 10000},
    [WEIR_CLI_RECOMMEND] = {.text = MEMBER(recommend)},
    [WEIR_CLI_GENERATE] = {.text = MEMBER(generate)},
    [WEIR_CLI_ATTACK] = {.mark = MEMBER(attack)},
    [WEIR_CLI_VIA] = {.list = MEMBER(vias),
                      .count = MEMBER(via_count),
                      .most = WEIR_BENCH_VIAS_MOST},
    [WEIR_CLI_THREADS] = {.integer = MEMBER(threads), .most = WEIR_BENCH_THREADS_MOST},
    [WEIR_CLI_PROCESSES] = {.integer = MEMBER(processes), .most = 100000},
    [WEIR_CLI_KEYS] = {.integer = MEMBER(keys), .most = WEIR_BENCH_KEYS_MOST},
    [WEIR_CLI_HOT] = {.pattern = WEIR_BENCH_HOT},
    [WEIR_CLI_ZIPF] = {.pattern = WEIR_BENCH_ZIPF},
    [WEIR_CLI_ROUNDS] = {.integer = MEMBER(rounds), .most = WEIR_BENCH_ROUNDS_MOST},
    [WEIR_CLI_BATCH] = {.integer = MEMBER(batch), .most = WEIR_BATCH_MOST},
    [WEIR_CLI_DURATION] = {.duration = MEMBER(duration_us),
                           .least = 100000,
                           .most = INT64_C(3600000000),
                           .accepted = "from 100ms to 1h is accepted, such as 2200ms"},
    [WEIR_CLI_BASELINE] = {.mark = MEMBER(baseline)},
    [WEIR_CLI_BASELINE_PAIR] = {.mark = MEMBER(baseline_pair)},
    [WEIR_CLI_PLOT] = {.text = MEMBER(plot)},
    [WEIR_CLI_PLOT_KEY] = {.text = MEMBER(plot_key)},
    [WEIR_CLI_JSON] = {.mark = MEMBER(json)},
    [WEIR_CLI_QUIET] = {.mark = MEMBER(quiet)},
    [WEIR_CLI_DEADLINE] = {DURATION(limiter.deadline_us)},
    [WEIR_CLI_CLOCK_ERROR] = {DURATION(limiter.clock_error_us)},
    [WEIR_CLI_NO_LOCAL_DENIAL] = {.flag = WEIR_NO_LOCAL_DENIAL},
    [WEIR_CLI_NO_CACHED_CELLS] = {.flag = WEIR_NO_CACHED_CELLS},
    [WEIR_CLI_NO_COMBINING] = {.flag = WEIR_NO_COMBINING},
    [WEIR_CLI_NO_LEASES] = {.flag = WEIR_NO_LEASES},
    [WEIR_CLI_HELP] = {.mark = MEMBER(help)}};

/* `value`: NULL where the option takes none. False after one line on stderr. */
static bool apply(const weir_cli_option_row *row, const char *value, weir_cli_options *options) {
  const effect *sets = &effects[row->id];
  char *base = (char *)options;
  assert((value != NULL) == (row->value != NULL));
  options->given |= UINT64_C(1) << row->id;
  options->limiter.flags |= sets->flag;
  if (sets->text > 0) *(const char **)(base + sets->text) = value;
  if (sets->mark > 0) *(bool *)(base + sets->mark) = true;
  if (sets->list > 0) {
    size_t *count = (size_t *)(base + sets->count);
    if (*count == (size_t)sets->most) {
      weir_cli_error("--%s is given more than %lld times", row->name, (long long)sets->most);
      return false;
    }
    ((const char **)(base + sets->list))[(*count)++] = value;
  }
  if (sets->integer > 0 && value != NULL) {
    int64_t *number = (int64_t *)(base + sets->integer);
    if (!weir_number_read(value, strlen(value), sets->most, number) || *number < 1) {
      weir_cli_error("--%s \"%s\": a whole number from 1 to %lld is accepted", row->name,
                     weir_cli_show(value).text, (long long)sets->most);
      return false;
    }
  }
  if (sets->duration > 0 && value != NULL) {
    int64_t *us = (int64_t *)(base + sets->duration);
    if (!weir_duration_parse(value, strlen(value), us) || *us < sets->least || *us > sets->most) {
      weir_cli_error("--%s \"%s\": a whole duration %s", row->name, weir_cli_show(value).text,
                     sets->accepted);
      return false;
    }
  }
  if (sets->pattern != WEIR_BENCH_UNIFORM) {
    if (options->pattern != WEIR_BENCH_UNIFORM && options->pattern != sets->pattern) {
      weir_cli_error("--hot and --zipf: one of them is accepted");
      return false;
    }
    options->pattern = sets->pattern;
  }
  return sets->read == NULL || sets->read(value, options);
}

bool weir_cli_given(const weir_cli_options *options, enum weir_cli_option id) {
  return options->given >> id & 1;
}

bool weir_cli_asks_servers_only(const weir_cli_options *options) {
  return options->via_count > 0 && !weir_cli_given(options, WEIR_CLI_STORE);
}

/* --- the command line ------------------------------------------------------------------------ */

/* A message about an option shows no value, and nothing that no option's name can hold: it may be a
 * secret. `name` follows the dashes, and `length` bytes of it are before a "=". */
static void refuse_name(const weir_cli_command *command, const char *name, size_t length) {
  enum { SHOWN_MOST = 40 };
  static const char accepted[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  char shown[SHOWN_MOST + sizeof "--..."];
  size_t plain = strspn(name, accepted);
  if (plain > SHOWN_MOST) plain = SHOWN_MOST;
  bool whole = name[plain] == '\0' || name[plain] == '=';
  snprintf(shown, sizeof shown, "--%.*s%s", (int)plain, name, whole ? "" : "...");

  const char *nearest = weir_cli_option_nearest(command, name, length);
  const weir_cli_command *other = weir_cli_command_find(name);
  if (weir_cli_option_find(NULL, name, length) != NULL)
    weir_cli_error("%s takes no %s" SEE_HELP, command->name, shown, command->name);
  else if (other != NULL)
    weir_cli_error("unknown option \"%s\": %s is a command of its own" SEE_HELP, shown, other->name,
                   other->name);
  else if (nearest != NULL)
    weir_cli_error("unknown option \"%s\": did you mean --%s? See \"weir help %s\"", shown, nearest,
                   command->name);
  else
    weir_cli_error("unknown option \"%s\"" SEE_HELP, shown, command->name);
}

/* `name` follows "--" and may hold "=VALUE"; else the next of `argc` arguments is the value, and
 * taken. */
static bool read_long(const weir_cli_command *command, const char *name, int argc, char **argv,
                      int *next, weir_cli_options *options) {
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
    if (*next == argc) {
      weir_cli_error("--%s needs a value" SEE_HELP, row->name, command->name);
      return false;
    }
    value = argv[(*next)++];
  }
  return apply(row, value, options);
}

/* An empty variable counts as unset. */
static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : NULL;
}

bool weir_cli_options_parse(int argc, char **argv, const weir_cli_command *command,
                            weir_cli_options *options) {
  *options = (weir_cli_options){
      .store = environment("WEIR_STORE"),
      .rule = environment("WEIR_RULE"),
      .costs = {1},
      .cost_count = 1,
      .threads = 1,
      .keys = 1000,
      .batch = 1,
      .rounds = 5,
      .duration_us = 5000000,
      .arguments = argv + 1,
      .limiter = {.size = sizeof(weir_limiter_options), .fallback = WEIR_FALLBACK_NONE}};
  bool ended = false; /* by "--" */
  for (int next = 1; next < argc;) {
    char *element = argv[next++];
    if (ended || element[0] != '-' || element[1] == '\0') {
      options->arguments[options->argument_count++] = element;
    } else if (strcmp(element, "--") == 0) {
      ended = true;
    } else if (element[1] == '-') {
      if (!read_long(command, element + 2, argc, argv, &next, options)) return false;
    } else if (strcmp(element, "-h") == 0) { /* the only short one */
      options->help = true;
    } else {
      weir_cli_error("unknown option \"-%c\"" SEE_HELP, element[1], command->name);
      return false;
    }
  }

  options->arguments[options->argument_count] = NULL; /* as argv ends */

  if (options->store_count > 1 && command != &weir_cli_commands[WEIR_CLI_BENCH]) {
    weir_cli_error("%s takes one --store" SEE_HELP, command->name, command->name);
    return false;
  }
  options->limiter.processes = (uint32_t)options->processes;
  options->store_given = options->store != NULL;
  if (!options->store_given) options->store = "memory:";
  if (options->store_count == 0) options->stores[options->store_count++] = options->store;
  return true;
}
