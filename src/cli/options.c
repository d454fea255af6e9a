/* Which options there are, which commands know them, and what each sets. option_values.c says which
 * values they take. */
#include "options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "option_values.h"
#include "report.h"

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
  OPTION_NO_COMBINING,
  OPTION_NO_LEASES
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
    {"no-leases", no_argument, NULL, OPTION_NO_LEASES},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};

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
      return weir_cli_read_format(value, &options->format);
    case OPTION_KEY:
      return weir_cli_read_access_key(value, &options->access_key);
    default: /* OPTION_ATTACK */
      options->attack = true;
      return true;
  }
}

static bool apply_of_bench(int id, const char *value, weir_cli_options *options) {
  switch (id) {
    case OPTION_THREADS:
      return weir_cli_read_integer("--threads", value, WEIR_BENCH_THREADS_MOST, &options->threads);
    case OPTION_KEYS:
      return weir_cli_read_integer("--keys", value, WEIR_BENCH_KEYS_MOST, &options->keys);
    case OPTION_HOT:
      return weir_cli_read_pattern(WEIR_BENCH_HOT, options);
    case OPTION_ZIPF:
      return weir_cli_read_pattern(WEIR_BENCH_ZIPF, options);
    case OPTION_BATCH:
      return weir_cli_read_integer("--batch", value, WEIR_BATCH_MOST, &options->batch);
    case OPTION_DURATION:
      return weir_cli_read_bench_duration(value, &options->duration_us);
    case OPTION_ROUNDS:
      return weir_cli_read_integer("--rounds", value, WEIR_BENCH_ROUNDS_MOST, &options->rounds);
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
      return weir_cli_read_store(value, options);
    case OPTION_RULE:
      return weir_cli_read_rule(value, options);
    case OPTION_COST:
      return weir_cli_read_costs(value, options);
    case OPTION_UP_TO:
      return true;
    case OPTION_WAIT:
      return weir_cli_read_wait(value, options);
    case OPTION_AT:
      return weir_cli_read_stamp(value, &options->at_us);
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
      return weir_cli_read_duration("--deadline", value, &options->limiter.deadline_us);
    case OPTION_CLOCK_ERROR:
      return weir_cli_read_duration("--clock-error", value, &options->limiter.clock_error_us);
    case OPTION_PROCESSES:
      return weir_cli_read_processes(value, &options->limiter.processes);
    case OPTION_NO_LOCAL_DENIAL:
      options->limiter.flags |= WEIR_NO_LOCAL_DENIAL;
      return true;
    case OPTION_NO_CACHED_CELLS:
      options->limiter.flags |= WEIR_NO_CACHED_CELLS;
      return true;
    case OPTION_NO_COMBINING:
      options->limiter.flags |= WEIR_NO_COMBINING;
      return true;
    case OPTION_NO_LEASES:
      options->limiter.flags |= WEIR_NO_LEASES;
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
