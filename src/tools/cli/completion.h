/* What a shell completes after "weir", as the script that it loads. */
#ifndef WEIR_CLI_COMPLETION_H
#define WEIR_CLI_COMPLETION_H

#include <stdio.h>

void weir_cli_write_bash(FILE *out);
void weir_cli_write_zsh(FILE *out);

#endif
