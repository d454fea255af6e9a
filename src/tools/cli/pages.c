/* Writes the manual pages of the program, and what shells complete, from the table that help reads.
 * Run by the build; not installed.
 *
 *   weir_pages DIRECTORY DATE */
#include <stdio.h>
#include <string.h>

#include <weir/version.h>

#include "completion.h"
#include "help.h"

/* Text for roff: nothing of it is a request, an escape, or a hyphen where a minus is meant. */
static void print_roff(FILE *out, const char *text, size_t length) {
  bool begins = true;
  for (size_t i = 0; i < length; i++) {
    char byte = text[i];
    if (begins && (byte == '.' || byte == '\'')) fputs("\\&", out);
    if (byte == '\\')
      fputs("\\e", out);
    else if (byte == '-')
      fputs("\\-", out);
    else if (byte == '\'')
      fputs("\\(aq", out);
    else
      fputc(byte, out);
    begins = byte == '\n';
  }
}

static void print_text(FILE *out, const char *text) {
  print_roff(out, text, strlen(text));
}

static void print_title(FILE *out, const char *name, const char *date) {
  fprintf(out, ".TH %s 1 %s \"weir %s\" \"weir\"\n", name, date, WEIR_VERSION_TEXT);
}

/* "weir" and a command's name, as a page is called. */
static void print_name(FILE *out, const weir_cli_command *command) {
  fprintf(out, "weir\\-%s", command->name);
}

static void print_synopsis(FILE *out, const weir_cli_command *command) {
  fprintf(out, ".B weir %s\n.RI [ OPTION ...]", command->name);
  if (command->argument != NULL) fprintf(out, "\n.I %s", command->argument);
  fputc('\n', out);
}

static void print_options(FILE *out, const weir_cli_command *command) {
  fputs(".SH OPTIONS\n", out);
  for (size_t i = 0; i < weir_cli_options_known_count; i++) {
    const weir_cli_option_row *row = &weir_cli_options_known[i];
    char text[WEIR_CLI_OPTION_BYTES];
    if (!weir_cli_option_of(row, command)) continue;
    weir_cli_option_write(row, text);
    fputs(".TP\n.B ", out);
    print_text(out, text);
    fputc('\n', out);
    print_text(out, row->help);
    fputc('\n', out);
  }
}

/* `command` NULL: of all. */
static void print_default(FILE *out, const weir_cli_command *command, const char *variable,
                          const char *option) {
  if (command != NULL && weir_cli_option_find(command, option, strlen(option)) == NULL) return;
  fprintf(out, ".TP\n.B %s\nstands for \\-\\-%s, where that is not given.\n", variable, option);
}

static void print_environment(FILE *out, const weir_cli_command *command) {
  fputs(".SH ENVIRONMENT\n", out);
  print_default(out, command, "WEIR_STORE", "store");
  print_default(out, command, "WEIR_RULE", "rule");
  fputs(".TP\n.B NO_COLOR\nkeeps terminals without colours.\n", out);
}

static void write_command(FILE *out, const weir_cli_command *command, const char *date) {
  char title[32];
  snprintf(title, sizeof title, "weir-%s", command->name);
  print_title(out, title, date);
  fputs(".SH NAME\n", out);
  print_name(out, command);
  fputs(" \\- ", out);
  print_text(out, command->summary);
  fputs("\n.SH SYNOPSIS\n", out);
  print_synopsis(out, command);
  fputs(".SH DESCRIPTION\n", out);
  print_text(out, command->details);
  fputs(".SH EXAMPLES\n.nf\n", out);
  print_text(out, command->examples);
  fputs(".fi\n", out);
  print_options(out, command);
  fputs(".SH \"EXIT STATUS\"\n", out);
  print_text(out, command->exits);
  print_environment(out, command);
  fputs(".SH \"SEE ALSO\"\n.BR weir (1),\n.BR libweir (3)\n", out);
}

static void write_program(FILE *out, const char *date) {
  print_title(out, "weir", date);
  fputs(
      ".SH NAME\nweir \\- rate limits on memcached or Redis, without scripts\n.SH SYNOPSIS\n"
      ".B weir\n.I COMMAND\n.RI [ OPTION ...]\n.RI [ ARGUMENT ]\n.SH DESCRIPTION\n"
      "Decides whether a request is within its limits, and counts it in a store that all\n"
      "processes and machines share. Each command has a page of its own.\n.SH COMMANDS\n",
      out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    const weir_cli_command *command = &weir_cli_commands[i];
    fputs(".TP\n.BR ", out);
    print_name(out, command);
    fputs(" (1)\n", out);
    print_text(out, command->summary);
    fputc('\n', out);
  }
  fputs(
      ".SH \"EXIT STATUS\"\n0 allowed or done, 1 denied, 2 wrong arguments or input, 3 no "
      "decision\n",
      out);
  print_environment(out, NULL);
  fputs(".SH \"SEE ALSO\"\n", out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    fputs(".BR ", out);
    print_name(out, &weir_cli_commands[i]);
    fputs(" (1),\n", out);
  }
  fputs(".BR libweir (3)\n", out);
}

/* --- files ----------------------------------------------------------------------------------- */

static FILE *create(const char *directory, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *out = fopen(path, "w");
  if (out == NULL) perror(path);
  return out;
}

static bool finish(FILE *out) {
  bool good = !ferror(out);
  if (fclose(out) != 0 || !good) {
    perror("weir_pages");
    return false;
  }
  return true;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fputs("usage: weir_pages DIRECTORY DATE\n", stderr);
    return 2;
  }
  FILE *out = create(argv[1], "weir.1");
  if (out == NULL) return 1;
  write_program(out, argv[2]);
  if (!finish(out)) return 1;
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    char name[32];
    snprintf(name, sizeof name, "weir-%s.1", weir_cli_commands[i].name);
    if ((out = create(argv[1], name)) == NULL) return 1;
    write_command(out, &weir_cli_commands[i], argv[2]);
    if (!finish(out)) return 1;
  }
  if ((out = create(argv[1], "weir.bash")) == NULL) return 1;
  weir_cli_write_bash(out);
  if (!finish(out)) return 1;
  if ((out = create(argv[1], "_weir")) == NULL) return 1;
  weir_cli_write_zsh(out);
  return finish(out) ? 0 : 1;
}
