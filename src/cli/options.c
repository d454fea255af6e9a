#include "options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "report.h"
#include "request.h"

#define SEE_HELP "; see \"weir help\""

/* Beyond every short option, which are characters. */
enum option_id {
  OPTION_STORE = 256,
  OPTION_RULE,
  OPTION_COST,
  OPTION_JSON,
  OPTION_DEADLINE,
  OPTION_CLOCK_ERROR,
  OPTION_PROCESSES,
  OPTION_NO_LOCAL_DENIAL,
  OPTION_NO_CACHED_CELLS
};

static const struct option known[] = {
    {"store", required_argument, NULL, OPTION_STORE},
    {"rule", required_argument, NULL, OPTION_RULE},
    {"cost", required_argument, NULL, OPTION_COST},
    {"json", no_argument, NULL, OPTION_JSON},
    {"deadline", required_argument, NULL, OPTION_DEADLINE},
    {"clock-error", required_argument, NULL, OPTION_CLOCK_ERROR},
    {"processes", required_argument, NULL, OPTION_PROCESSES},
    {"no-local-denial", no_argument, NULL, OPTION_NO_LOCAL_DENIAL},
    {"no-cached-cells", no_argument, NULL, OPTION_NO_CACHED_CELLS},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};

static bool read_integer(const char *name, const char *text, int64_t most, int64_t *value) {
  if (weir_cli_parse_integer(text, strlen(text), most, value) && *value >= 1) return true;
  weir_cli_error("%s \"%s\": a whole number from 1 to %lld is accepted", name, text,
                 (long long)most);
  return false;
}

/* Zero would mean "default" to the library, so it must not get through. */
static bool read_duration(const char *name, const char *text, int64_t *us) {
  static const int64_t least_us = 1000, most_us = 60000000;
  if (weir_duration_parse(text, strlen(text), us) && *us >= least_us && *us <= most_us) return true;
  weir_cli_error("%s \"%s\": a duration from 1ms to 60s is accepted, such as 20ms", name, text);
  return false;
}

static bool read_processes(const char *text, uint32_t *processes) {
  int64_t value;
  if (!read_integer("--processes", text, 100000, &value)) return false;
  *processes = (uint32_t)value;
  return true;
}

/* `element` is the element of argv that getopt_long stopped at. What follows its '=' may be a
 * secret. */
static bool refuse(int id, const char *element) {
  int name_length = (int)strcspn(element, "=");
  if (id == ':')
    weir_cli_error("%.*s needs a value" SEE_HELP, name_length, element);
  else if (optopt == 0)
    weir_cli_error("unknown option \"%.*s\"" SEE_HELP, name_length, element);
  else if (optopt < OPTION_STORE && optopt != 'h')
    weir_cli_error("unknown option \"-%c\"" SEE_HELP, optopt);
  else
    weir_cli_error("%.*s takes no value" SEE_HELP, name_length, element);
  return false;
}

static bool apply(int id, const char *value, weir_cli_options *options) {
  switch (id) {
    case OPTION_STORE:
      options->store = value;
      return true;
    case OPTION_RULE:
      options->rule = value;
      return true;
    case OPTION_COST:
      return read_integer("--cost", value, WEIR_CLI_COST_MOST, &options->cost);
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
    default: /* 'h': the only other one that `known` holds */
      options->help = true;
      return true;
  }
}

/* An empty variable counts as unset. */
static const char *environment(const char *name, const char *otherwise) {
  const char *value = getenv(name);
  return value != NULL && value[0] != '\0' ? value : otherwise;
}

bool weir_cli_options_parse(int argc, char **argv, bool with_cost, weir_cli_options *options) {
  *options = (weir_cli_options){.store = environment("WEIR_STORE", "memory:"),
                                .rule = environment("WEIR_RULE", NULL),
                                .cost = 1,
                                .limiter = {.size = sizeof(weir_limiter_options)}};
  opterr = 0;
  int id;
  while ((id = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
    if (id == '?' || id == ':') return refuse(id, argv[optind - 1]);
    if (id == OPTION_COST && !with_cost) {
      weir_cli_error("%s takes no --cost" SEE_HELP, argv[0]);
      return false;
    }
    if (!apply(id, optarg, options)) return false;
  }
  options->arguments = argv + optind;
  options->argument_count = argc - optind;
  return true;
}
