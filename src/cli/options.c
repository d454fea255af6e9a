#include "options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "report.h"
#include "request.h"
#include "shown.h"

#define SEE_HELP "; see \"weir help\""

/* Beyond every short option, which are characters. */
enum option_id {
  OPTION_STORE = 256,
  OPTION_RULE,
  OPTION_COST,
  OPTION_UP_TO,
  OPTION_WAIT,
  OPTION_AT,
  OPTION_PLOT,
  OPTION_PLOT_KEY,
  OPTION_GENERATE,
  OPTION_ATTACK,
  OPTION_FORMAT,
  OPTION_KEY,
  OPTION_THREADS,
  OPTION_KEYS,
  OPTION_HOT,
  OPTION_ZIPF,
  OPTION_BATCH,
  OPTION_DURATION,
  OPTION_ROUNDS,
  OPTION_BASELINE,
  OPTION_JSON,
  OPTION_DEADLINE,
  OPTION_CLOCK_ERROR,
  OPTION_PROCESSES,
  OPTION_NO_LOCAL_DENIAL,
  OPTION_NO_CACHED_CELLS,
  OPTION_NO_COMBINING
};

static const struct option all_options[] = {
    {"store", required_argument, NULL, OPTION_STORE},
    {"rule", required_argument, NULL, OPTION_RULE},
    {"cost", required_argument, NULL, OPTION_COST},
    {"up-to", no_argument, NULL, OPTION_UP_TO},
    {"wait", required_argument, NULL, OPTION_WAIT},
    {"at", required_argument, NULL, OPTION_AT},
    {"plot", required_argument, NULL, OPTION_PLOT},
    {"plot-key", required_argument, NULL, OPTION_PLOT_KEY},
    {"generate", required_argument, NULL, OPTION_GENERATE},
    {"attack", no_argument, NULL, OPTION_ATTACK},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"key", required_argument, NULL, OPTION_KEY},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"keys", required_argument, NULL, OPTION_KEYS},
    {"hot", no_argument, NULL, OPTION_HOT},
    {"zipf", no_argument, NULL, OPTION_ZIPF},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"duration", required_argument, NULL, OPTION_DURATION},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"baseline", no_argument, NULL, OPTION_BASELINE},
    {"json", no_argument, NULL, OPTION_JSON},
    {"deadline", required_argument, NULL, OPTION_DEADLINE},
    {"clock-error", required_argument, NULL, OPTION_CLOCK_ERROR},
    {"processes", required_argument, NULL, OPTION_PROCESSES},
    {"no-local-denial", no_argument, NULL, OPTION_NO_LOCAL_DENIAL},
    {"no-cached-cells", no_argument, NULL, OPTION_NO_CACHED_CELLS},
    {"no-combining", no_argument, NULL, OPTION_NO_COMBINING},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};

static bool read_integer(const char *name, const char *text, int64_t most, int64_t *value) {
  if (weir_cli_parse_integer(text, strlen(text), most, value) && *value >= 1) return true;
  weir_cli_error("%s \"%s\": a whole number from 1 to %lld is accepted", name,
                 weir_cli_show(text).text, (long long)most);
  return false;
}

/* One cost for every rule, or one per rule. A 0 leaves a rule out, so it makes sense in a list
 * only.
 */
static bool read_costs(const char *text, weir_cli_options *options) {
  bool list = strchr(text, ',') != NULL;
  int64_t sum = 0;
  options->cost_count = 0;
  for (const char *at = text; options->cost_count < WEIR_CLI_COSTS_MOST; at++) {
    size_t length = strcspn(at, ",");
    int64_t *cost = &options->costs[options->cost_count++];
    if (!weir_cli_parse_integer(at, length, WEIR_CLI_COST_MOST, cost)) break;
    sum += *cost;
    if (*(at += length) == '\0') {
      if (sum > 0) return true;
      break;
    }
  }
  weir_cli_error("--cost \"%s\": %s", weir_cli_show(text).text,
                 list ? "a list of 2 to 8 whole numbers from 0 to 2147483648, one per rule and one "
                        "above 0, is accepted"
                      : "a whole number from 1 to 2147483648 is accepted");
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

static bool read_stamp(const char *text, int64_t *at_us) {
  static const int64_t most_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  if (weir_cli_parse_integer(text, strlen(text), most_us, at_us)) return true;
  weir_cli_error("--at \"%s\": microseconds since 1970 are accepted, such as at_us of take --json",
                 weir_cli_show(text).text);
  return false;
}

/* Zero would mean "default" to the library, so it must not get through. */
static bool read_duration(const char *name, const char *text, int64_t *us) {
  static const int64_t least_us = 1000, most_us = 60000000;
  if (weir_duration_parse(text, strlen(text), us) && *us >= least_us && *us <= most_us) return true;
  weir_cli_error("%s \"%s\": a whole duration from 1ms to 60s is accepted, such as 20ms", name,
                 weir_cli_show(text).text);
  return false;
}

static bool read_processes(const char *text, uint32_t *processes) {
  int64_t value;
  if (!read_integer("--processes", text, 100000, &value)) return false;
  *processes = (uint32_t)value;
  return true;
}

static bool read_store(const char *text, weir_cli_options *options) {
  options->store = text;
  if (options->store_count < WEIR_CLI_STORES_MOST) {
    options->stores[options->store_count++] = text;
    return true;
  }
  weir_cli_error("--store is given more than %d times", WEIR_CLI_STORES_MOST);
  return false;
}

static bool read_bench_duration(const char *text, int64_t *us) {
  static const int64_t least_us = 100000, most_us = INT64_C(3600000000);
  if (weir_duration_parse(text, strlen(text), us) && *us >= least_us && *us <= most_us) return true;
  weir_cli_error("--duration \"%s\": a whole duration from 100ms to 1h is accepted, such as 2200ms",
                 weir_cli_show(text).text);
  return false;
}

static bool read_rule(const char *text, weir_cli_options *options) {
  options->rule = text;
  if (options->rule_count < WEIR_CLI_RULES_MOST) {
    options->rules[options->rule_count++] = text;
    return true;
  }
  weir_cli_error("--rule is given more than %d times", WEIR_CLI_RULES_MOST);
  return false;
}

static bool read_format(const char *text, weir_cli_format *format) {
  if (strcmp(text, "auto") == 0)
    *format = WEIR_CLI_FORMAT_AUTO;
  else if (strcmp(text, "trace") == 0)
    *format = WEIR_CLI_FORMAT_TRACE;
  else if (strcmp(text, "access-log") == 0)
    *format = WEIR_CLI_FORMAT_ACCESS_LOG;
  else {
    weir_cli_error("--format \"%s\": auto, trace and access-log are accepted",
                   weir_cli_show(text).text);
    return false;
  }
  return true;
}

static bool read_access_key(const char *text, weir_access_key *key) {
  if (strcmp(text, "client") == 0)
    *key = WEIR_ACCESS_CLIENT;
  else if (strcmp(text, "user") == 0)
    *key = WEIR_ACCESS_USER;
  else if (strcmp(text, "path") == 0)
    *key = WEIR_ACCESS_PATH;
  else {
    weir_cli_error("--key \"%s\": client, user and path are accepted", weir_cli_show(text).text);
    return false;
  }
  return true;
}

static bool apply_of_simulation(int id, const char *value, weir_cli_options *options) {
  switch (id) {
    case OPTION_PLOT:
      options->plot = value;
      return true;
    case OPTION_PLOT_KEY:
      options->plot_key = value;
      return true;
    case OPTION_GENERATE:
      options->generate = value;
      return true;
    case OPTION_FORMAT:
      return read_format(value, &options->format);
    case OPTION_KEY:
      return read_access_key(value, &options->access_key);
    default: /* OPTION_ATTACK */
      options->attack = true;
      return true;
  }
}

static bool set_pattern(weir_cli_options *options, weir_bench_pattern pattern) {
  bool other = options->pattern != WEIR_BENCH_UNIFORM && options->pattern != pattern;
  options->pattern = pattern;
  if (other) weir_cli_error("--hot and --zipf: one of them is accepted");
  return !other;
}

static bool apply_of_bench(int id, const char *value, weir_cli_options *options) {
  switch (id) {
    case OPTION_THREADS:
      return read_integer("--threads", value, WEIR_BENCH_THREADS_MOST, &options->threads);
    case OPTION_KEYS:
      return read_integer("--keys", value, WEIR_BENCH_KEYS_MOST, &options->keys);
    case OPTION_HOT:
      return set_pattern(options, WEIR_BENCH_HOT);
    case OPTION_ZIPF:
      return set_pattern(options, WEIR_BENCH_ZIPF);
    case OPTION_BATCH:
      return read_integer("--batch", value, WEIR_BATCH_MOST, &options->batch);
    case OPTION_DURATION:
      return read_bench_duration(value, &options->duration_us);
    case OPTION_ROUNDS:
      return read_integer("--rounds", value, WEIR_BENCH_ROUNDS_MOST, &options->rounds);
    default: /* OPTION_BASELINE */
      options->baseline = true;
      return true;
  }
}

/* `element` is the element of argv that getopt_long stopped at. Its value may be a secret, and so
 * may whatever no option's name can hold. */
static bool refuse(int id, const char *element) {
  enum { NAME_SHOWN_MOST = 40 };
  size_t length =
      strspn(element, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
  if (length > NAME_SHOWN_MOST) length = NAME_SHOWN_MOST;
  const char *dots = element[length] == '\0' || element[length] == '=' ? "" : "...";
  int shown = (int)length;
  if (id == ':')
    weir_cli_error("%.*s%s needs a value" SEE_HELP, shown, element, dots);
  else if (optopt == 0)
    weir_cli_error("unknown option \"%.*s%s\"" SEE_HELP, shown, element, dots);
  else if (optopt < OPTION_STORE && optopt != 'h')
    weir_cli_error("unknown option \"-%c\"" SEE_HELP, optopt);
  else
    weir_cli_error("%.*s%s takes no value" SEE_HELP, shown, element, dots);
  return false;
}

static bool apply(int id, const char *value, weir_cli_options *options) {
  switch (id) {
    case OPTION_STORE:
      return read_store(value, options);
    case OPTION_RULE:
      return read_rule(value, options);
    case OPTION_COST:
      return read_costs(value, options);
    case OPTION_UP_TO:
      return true;
    case OPTION_WAIT:
      return read_wait(value, options);
    case OPTION_AT:
      return read_stamp(value, &options->at_us);
    case OPTION_PLOT:
    case OPTION_PLOT_KEY:
    case OPTION_GENERATE:
    case OPTION_ATTACK:
    case OPTION_FORMAT:
    case OPTION_KEY:
      return apply_of_simulation(id, value, options);
    case OPTION_THREADS:
    case OPTION_KEYS:
    case OPTION_HOT:
    case OPTION_ZIPF:
    case OPTION_BATCH:
    case OPTION_DURATION:
    case OPTION_ROUNDS:
    case OPTION_BASELINE:
      return apply_of_bench(id, value, options);
    case OPTION_JSON:
      options->json = true;
      return true;
    case OPTION_DEADLINE:
      return read_duration("--deadline", value, &options->limiter.deadline_us);
    case OPTION_CLOCK_ERROR:
      return read_duration("--clock-error", value, &options->limiter.clock_error_us);
    case OPTION_PROCESSES:
      return read_processes(value, &options->limiter.processes);
    case OPTION_NO_LOCAL_DENIAL:
      options->limiter.flags |= WEIR_NO_LOCAL_DENIAL;
      return true;
    case OPTION_NO_CACHED_CELLS:
      options->limiter.flags |= WEIR_NO_CACHED_CELLS;
      return true;
    case OPTION_NO_COMBINING:
      options->limiter.flags |= WEIR_NO_COMBINING;
      return true;
    default: /* 'h': the only other one there is */
      options->help = true;
      return true;
  }
}

/* An empty variable counts as unset. */
static const char *environment(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : otherwise;
}

static unsigned bit_of(int id) {
  switch (id) {
    case OPTION_COST:
      return WEIR_CLI_COST;
    case OPTION_UP_TO:
      return WEIR_CLI_UP_TO;
    case OPTION_WAIT:
      return WEIR_CLI_WAIT;
    case OPTION_AT:
      return WEIR_CLI_AT;
    case OPTION_PLOT:
      return WEIR_CLI_PLOT;
    case OPTION_PLOT_KEY:
    case OPTION_GENERATE:
    case OPTION_ATTACK:
    case OPTION_FORMAT:
    case OPTION_KEY:
      return WEIR_CLI_SIMULATION;
    case OPTION_THREADS:
    case OPTION_KEYS:
    case OPTION_HOT:
    case OPTION_ZIPF:
    case OPTION_BATCH:
    case OPTION_DURATION:
    case OPTION_ROUNDS:
    case OPTION_BASELINE:
      return WEIR_CLI_BENCH;
    default:
      return 0; /* every command knows it */
  }
}

static const char *name_of(int id) {
  const struct option *option = all_options;
  while (option->val != id)
    option++;
  return option->name;
}

bool weir_cli_options_parse(int argc, char **argv, unsigned known, weir_cli_options *options) {
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
      .limiter = {.size = sizeof(weir_limiter_options), .fallback = WEIR_FALLBACK_NONE}};
  opterr = 0;
  int id;
  while ((id = getopt_long(argc, argv, ":h", all_options, NULL)) != -1) {
    if (id == '?' || id == ':') return refuse(id, argv[optind - 1]);
    if (bit_of(id) & ~known) {
      weir_cli_error("%s takes no --%s" SEE_HELP, argv[0], name_of(id));
      return false;
    }
    if (!apply(id, optarg, options)) return false;
    options->given |= bit_of(id);
  }
  if (options->store_count > 1 && !(known & WEIR_CLI_BENCH)) {
    weir_cli_error("%s takes one --store" SEE_HELP, argv[0]);
    return false;
  }
  options->store_given = options->store != NULL;
  if (!options->store_given) options->store = "memory:";
  if (options->store_count == 0) options->stores[options->store_count++] = options->store;
  options->arguments = argv + optind;
  options->argument_count = argc - optind;
  return true;
}
