/* The options of all commands. */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "access_log.h"
#include "bench/bench.h"

enum { WEIR_CLI_COSTS_MOST = 8, WEIR_CLI_RULES_MOST = 16, WEIR_CLI_STORES_MOST = 8 };

/* Options that not every command knows. */
enum weir_cli_option {
  WEIR_CLI_COST = 1 << 0,
  WEIR_CLI_UP_TO = 1 << 1,
  WEIR_CLI_WAIT = 1 << 2,
  WEIR_CLI_AT = 1 << 3,
  WEIR_CLI_SIMULATION = 1 << 4, /* all that only simulate knows */
  WEIR_CLI_PLOT = 1 << 5,
  WEIR_CLI_BENCH = 1 << 6 /* all that only bench knows */
};

typedef enum weir_cli_format {
  WEIR_CLI_FORMAT_AUTO,
  WEIR_CLI_FORMAT_TRACE,
  WEIR_CLI_FORMAT_ACCESS_LOG
} weir_cli_format;

typedef struct weir_cli_options {
  bool store_given;  /* by --store or WEIR_STORE; else the store is memory: */
  const char *store; /* the last of: */
  const char *stores[WEIR_CLI_STORES_MOST];
  size_t store_count;
  const char *rule; /* NULL: not given; the last of: */
  const char *rules[WEIR_CLI_RULES_MOST];
  size_t rule_count;
  int64_t costs[WEIR_CLI_COSTS_MOST];
  int cost_count; /* 1: for every rule */
  unsigned given; /* enum weir_cli_option */
  int64_t wait_us;
  int64_t at_us;
  const char *plot;     /* NULL: none */
  const char *plot_key; /* NULL: the busiest */
  const char *generate; /* NULL: a file */
  bool attack;
  weir_cli_format format;
  weir_access_key access_key;
  int64_t threads, keys, batch, rounds; /* of bench, with their defaults */
  int64_t duration_us;
  weir_bench_pattern pattern;
  bool baseline;
  bool json;
  bool help;
  weir_limiter_options limiter;
  char **arguments; /* what is no option */
  int argument_count;
} weir_cli_options;

/* Reads argv[1] and on, with defaults from WEIR_STORE and WEIR_RULE; argv[0] is the command's name.
 * `known`: which of enum weir_cli_option the command knows. False after one line on stderr. */
bool weir_cli_options_parse(int argc, char **argv, unsigned known, weir_cli_options *options);

#endif
