/* The options of all commands. */
#ifndef WEIR_CLI_OPTIONS_H
#define WEIR_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

typedef struct weir_cli_options {
  const char *store;
  const char *rule; /* NULL: not given */
  int64_t cost;
  bool json;
  bool help;
  weir_limiter_options limiter;
  char **arguments; /* what is no option */
  int argument_count;
} weir_cli_options;

/* Reads argv[1] and on, with defaults from WEIR_STORE and WEIR_RULE; argv[0] is the command's name.
 * `with_cost`: the command knows --cost. False after one line on stderr. */
bool weir_cli_options_parse(int argc, char **argv, bool with_cost, weir_cli_options *options);

#endif
