/* A configuration, on the command line. */
#ifndef WEIR_CLI_EXPLAIN_H
#define WEIR_CLI_EXPLAIN_H

#include "config/config.h"

/* Each fault is a line on stderr. */
void weir_cli_print_faults(const weir_config_faults *faults);

#endif
