/* For the commands that read a server's configuration. */
#ifndef WEIR_CLI_SERVE_H
#define WEIR_CLI_SERVE_H

#include "config/config.h"

/* Each fault is a line on stderr. */
void weir_cli_print_faults(const weir_config_faults *faults);

#endif
