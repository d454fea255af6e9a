#include "colour.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_coloured(FILE *stream) {
  const char *refused = getenv("NO_COLOR");
  const char *terminal = getenv("TERM");
  if (refused != NULL && refused[0] != '\0') return false;
  if (terminal == NULL || strcmp(terminal, "dumb") == 0) return false;
  return isatty(fileno(stream));
}

const char *weir_cli_colour_on(FILE *stream, weir_cli_colour colour) {
  static const char *const sequences[] = {[WEIR_CLI_PLAIN] = "\033[0m",
                                          [WEIR_CLI_BOLD] = "\033[1m",
                                          [WEIR_CLI_GREEN] = "\033[32m",
                                          [WEIR_CLI_YELLOW] = "\033[33m",
                                          [WEIR_CLI_RED] = "\033[31m"};
  return is_coloured(stream) ? sequences[colour] : "";
}
