/* Colours, on terminals only. */
#ifndef WEIR_CLI_COLOUR_H
#define WEIR_CLI_COLOUR_H

#include <stdio.h>

typedef enum weir_cli_colour {
  WEIR_CLI_PLAIN,
  WEIR_CLI_BOLD,
  WEIR_CLI_GREEN, /* as wished */
  WEIR_CLI_YELLOW,
  WEIR_CLI_RED
} weir_cli_colour;

/* What turns a colour on; "" where the stream is no terminal, is a dumb one, or NO_COLOR says no.
 * WEIR_CLI_PLAIN ends every other. */
const char *weir_cli_colour_on(FILE *stream, weir_cli_colour colour);

#endif
