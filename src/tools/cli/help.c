/* What the program says of itself, from the table of commands and options. Headings are bold on
 * terminals. */
#include "help.h"

#include <string.h>

#include "report.h"

enum { SUMMARY_AT = 22 }; /* the column where the meaning of an option begins */

static void print_heading(FILE *out, const char *text) {
  fprintf(out, "%s%s%s\n", weir_cli_colour_on(out, WEIR_CLI_BOLD), text,
          weir_cli_colour_on(out, WEIR_CLI_PLAIN));
}

void weir_cli_help(FILE *out) {
  print_heading(out, "weir: rate limits on memcached or Redis, without scripts");
  fputs(
      "\n  weir take --store memcached://cache1 --rule sliding-window:100/1m alice\n"
      "  weir doctor --store memcached://cache1\n\n",
      out);
  print_heading(out, "usage: weir COMMAND [OPTION...] [ARGUMENT]");
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    const weir_cli_command *command = &weir_cli_commands[i];
    char text[32];
    snprintf(text, sizeof text, "%s%s%s", command->name, command->argument != NULL ? " " : "",
             command->argument != NULL ? command->argument : "");
    fprintf(out, "  %-16s  %s\n", text, command->summary);
  }
  fprintf(out, "  %-16s  %s\n", "help [COMMAND]", "say this, or what a command accepts");
  fprintf(out, "  %-16s  %s\n", "version", "say which version this is");
  fputs(
      "\n\"weir help take\" and \"weir take --help\" say what take accepts, and so for the "
      "others.\n"
      "Exit status of take and peek: 0 allowed, 1 denied; of all commands: 2 wrong arguments\n"
      "or input, 3 no decision; of doctor: 3 a fault was found.\n",
      out);
}

void weir_cli_option_write(const weir_cli_option_row *row, char text[WEIR_CLI_OPTION_BYTES]) {
  snprintf(text, WEIR_CLI_OPTION_BYTES, "--%s%s%s", row->name, row->value != NULL ? " " : "",
           row->value != NULL ? row->value : "");
}

void weir_cli_help_command(FILE *out, const weir_cli_command *command) {
  const char *bold = weir_cli_colour_on(out, WEIR_CLI_BOLD);
  const char *plain = weir_cli_colour_on(out, WEIR_CLI_PLAIN);
  fprintf(out, "%sweir %s%s: %s\n\n", bold, command->name, plain, command->summary);
  for (const char *line = command->examples; *line != '\0';) {
    int length = (int)strcspn(line, "\n");
    fprintf(out, "  %.*s\n", length, line);
    line += length + (line[length] == '\n');
  }
  fprintf(out, "\n%susage: weir %s [OPTION...]%s%s%s\n", bold, command->name,
          command->argument != NULL ? " " : "", command->argument != NULL ? command->argument : "",
          plain);
  for (size_t i = 0; i < weir_cli_options_known_count; i++) {
    const weir_cli_option_row *row = &weir_cli_options_known[i];
    char text[WEIR_CLI_OPTION_BYTES];
    if (!weir_cli_option_of(row, command)) continue;
    weir_cli_option_write(row, text);
    int first = (int)strcspn(row->help, "\n"); /* of one line or two */
    if (strlen(text) + 4 > SUMMARY_AT)
      fprintf(out, "  %s\n%*s%.*s\n", text, SUMMARY_AT, "", first, row->help);
    else
      fprintf(out, "  %-*s%.*s\n", SUMMARY_AT - 2, text, first, row->help);
    if (row->help[first] != '\0') fprintf(out, "%*s%s\n", SUMMARY_AT, "", row->help + first + 1);
  }
  fprintf(out, "\nexit status: %s", command->exits);
}
