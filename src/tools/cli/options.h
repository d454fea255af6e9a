/* The options of all commands, as the command line and the environment give them. */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <weir/weir.h>

#include "bench/bench.h"
#include "tables.h"

enum { WEIR_CLI_COSTS_MOST = 8, WEIR_CLI_RULES_MOST = 16, WEIR_CLI_STORES_MOST = 8 };

typedef enum weir_cli_format {
  WEIR_CLI_FORMAT_AUTO,
  WEIR_CLI_FORMAT_TRACE,
  WEIR_CLI_FORMAT_ACCESS_LOG,
  WEIR_CLI_FORMAT_JSON,
  WEIR_CLI_FORMAT_PATTERN
} weir_cli_format;

typedef struct weir_cli_options {
  bool store_given;  /* by --store or WEIR_STORE; else the store is memory: */
  const char *store; /* the last of: */
  const char *stores[WEIR_CLI_STORES_MOST];
  size_t store_count;
  const char *vias[WEIR_BENCH_VIAS_MOST];
  size_t via_count;
  const char *rule; /* NULL: not given; the last of: */
  const char *rules[WEIR_CLI_RULES_MOST];
  size_t rule_count;
  int64_t costs[WEIR_CLI_COSTS_MOST];
  int cost_count; /* 1: for every rule */
  int64_t reals[WEIR_CLI_COSTS_MOST];
  int real_count;         /* 0: not given */
  uint64_t given;         /* weir_cli_given() reads it */
  const char *class_name; /* NULL: none */
  const char *tenant;     /* NULL: none */
  int64_t wait_us;
  int64_t own_limit;  /* 0: not given */
  bool key_limits;    /* the limits that were set for keys are gone by */
  int64_t for_us;     /* 0: not given */
  const char *before; /* NULL: all of a file is loaded */
  int64_t at_us;
  const char *plot;     /* NULL: none */
  const char *plot_key; /* NULL: the busiest */
  const char *generate; /* NULL: a file */
  bool attack;
  weir_cli_format format;
  const char *log_format;                  /* as --format has it, where it is a pattern */
  const char *lost;                        /* of run: what is done then; NULL: not given */
  const char *key, *trust, *status, *path; /* of logs; NULL: not given */
  const char *cost_field;                  /* of logs; NULL: each request costs 1 */
  const char *real_field;                  /* the same; NULL: what it cost before */
  const char *duration_field;              /* NULL: requests hold nothing */
  const char *class_field;                 /* NULL: requests are of none */
  const char *tenant_field;                /* NULL: requests name none */
  int64_t top;                             /* 0: not given */
  const char *recommend;                   /* NULL: not given */
  int64_t processes;                       /* that may use the same keys; 0: not given */
  int64_t threads, keys, batch, rounds;    /* of bench, with their defaults */
  int64_t duration_us;
  weir_bench_pattern pattern;
  bool baseline, baseline_pair;
  bool json;
  bool quiet;
  bool help;
  weir_limiter_options limiter; /* processes among them */
  char **arguments;             /* what is no option, and behind it NULL */
  int argument_count;
} weir_cli_options;

/* Reads argv[1] and on, with defaults from WEIR_STORE and WEIR_RULE, and moves what is no option
 * together in argv. Names are written out: no beginning of one is accepted. False after one line on
 * stderr. */
bool weir_cli_options_parse(int argc, char **argv, const weir_cli_command *command,
                            weir_cli_options *options);

/* Whether bench asks servers of weir alone, which have rules of their own. */
bool weir_cli_asks_servers_only(const weir_cli_options *options);

bool weir_cli_given(const weir_cli_options *options, enum weir_cli_option id);

/* --- commands -----------------------------------------------------------------------------------
 *
 * The commands: each writes its result to stdout, or one line to stderr, and gives the exit status.
 * Options and the number of arguments have been checked. */

int weir_cli_take(const weir_cli_options *options);
int weir_cli_peek(const weir_cli_options *options);
int weir_cli_refund(const weir_cli_options *options);
int weir_cli_settle(const weir_cli_options *options);
int weir_cli_reset(const weir_cli_options *options);
int weir_cli_key_limit(const weir_cli_options *options);
int weir_cli_run(const weir_cli_options *options);
int weir_cli_replay(const weir_cli_options *options);
int weir_cli_simulate(const weir_cli_options *options);
int weir_cli_bench(const weir_cli_options *options);
int weir_cli_doctor(const weir_cli_options *options);

/* Where the server is built. */
int weir_cli_check(const weir_cli_options *options);
int weir_cli_explain(const weir_cli_options *options);
int weir_cli_serve(const weir_cli_options *options);

#endif
