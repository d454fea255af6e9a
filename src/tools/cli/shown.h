/* Showing bytes of the input: keys, file names, arguments. They may be long, hold anything that
 * moves a terminal's cursor or ends a line, and be a store URL in the wrong place. */
#ifndef WEIR_CLI_SHOWN_H
#define WEIR_CLI_SHOWN_H

#include <stddef.h>
#include <stdio.h>

/* Writes a key so that it stays one field of its line and can be read back: printable ASCII but the
 * backslash as it is, every other byte as "\xff" (two lower-case digits), the backslash as "\x5c".
 * Ends in "..." after `most` bytes of the key. */
void weir_cli_print_key(FILE *out, const char *key, size_t length, size_t most);

/* What a message quotes of an argument or a name of a file: 80 bytes at most, then "..."; in the
 * place of what may be a password, "***". weir_cli_error() spells out the rest. */
enum { WEIR_CLI_SHOWN_MOST = 80 };

typedef struct weir_cli_shown {
  char text[WEIR_CLI_SHOWN_MOST + 4];
} weir_cli_shown;

weir_cli_shown weir_cli_show(const char *argument);

#endif
