/* What the program says of itself. */
#ifndef WEIR_CLI_HELP_H
#define WEIR_CLI_HELP_H

#include <stdio.h>

#include "tables.h"

/* The commands, and where to read on. */
void weir_cli_help(FILE *out);

/* One command: its examples, then its options. It fits a screen. */
void weir_cli_help_command(FILE *out, const weir_cli_command *command);

/* "--cost N[,N...]": an option as it is written. */
enum { WEIR_CLI_OPTION_BYTES = 48 };
void weir_cli_option_write(const weir_cli_option_row *row, char text[WEIR_CLI_OPTION_BYTES]);

#endif
