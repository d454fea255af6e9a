/* The commands: each writes its result to stdout, or one line to stderr, and gives the exit status.
 * Options and the number of arguments have been checked. */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include "options.h"

int weir_cli_take(const weir_cli_options *options);
int weir_cli_peek(const weir_cli_options *options);
int weir_cli_refund(const weir_cli_options *options);
int weir_cli_settle(const weir_cli_options *options);
int weir_cli_reset(const weir_cli_options *options);
int weir_cli_run(const weir_cli_options *options);
int weir_cli_replay(const weir_cli_options *options);
int weir_cli_simulate(const weir_cli_options *options);
int weir_cli_bench(const weir_cli_options *options);
int weir_cli_doctor(const weir_cli_options *options);
int weir_cli_check(const weir_cli_options *options);
int weir_cli_serve(const weir_cli_options *options); /* where the server is built */

#endif
