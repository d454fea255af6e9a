/* Writes the manual pages of the program, and what a shell completes, from the table that help
 * reads. Run by the build; not installed.
 *
 *   weir_pages DIRECTORY DATE */
#include <stdio.h>
#include <string.h>

#include <weir/version.h>

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

/* --- completion ------------------------------------------------------------------------------ */

static void print_words_of(FILE *out, const weir_cli_command *command) {
  fprintf(out, "    %s) words=\"", command->name);
  for (size_t i = 0; i < weir_cli_options_known_count; i++)
    if (weir_cli_option_of(&weir_cli_options_known[i], command))
      fprintf(out, "--%s ", weir_cli_options_known[i].name);
  fputs("\" ;;\n", out);
}

/* What follows an option of this name is the same for all commands that have it. */
static void print_values(FILE *out) {
  for (size_t i = 0; i < weir_cli_options_known_count; i++) {
    const weir_cli_option_row *row = &weir_cli_options_known[i];
    bool first = weir_cli_option_find(NULL, row->name, strlen(row->name)) == row;
    if (!first || row->value == NULL) continue;
    fprintf(out, "    --%s) words=\"%s\" files=%s ;;\n", row->name,
            row->choices != NULL ? row->choices : "", row->id == WEIR_CLI_PLOT ? "yes" : "no");
  }
}

static void write_completion(FILE *out) {
  fputs(
      "# What bash completes after \"weir\". Written by the build.\n"
      "_weir() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
      "  local words= files=no\n"
      "  COMPREPLY=()\n"
      "  if [ \"$current\" = = ]; then current=; fi\n"
      "  if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
      "    words=\"",
      out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    fprintf(out, "%s ", weir_cli_commands[i].name);
  fputs(
      "help version\"\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  if [ \"${COMP_WORDS[1]}\" = help ]; then\n"
      "    words=\"",
      out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    fprintf(out, "%s ", weir_cli_commands[i].name);
  fputs(
      "\"\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case $before in\n",
      out);
  print_values(out);
  fputs("    *)\n      case ${COMP_WORDS[1]} in\n", out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    fputs("    ", out);
    print_words_of(out, &weir_cli_commands[i]);
  }
  fputs(
      "      esac\n"
      "      case $current in\n"
      "        -*) ;;\n"
      "        *)\n"
      "          words=\n"
      "          case ${COMP_WORDS[1]} in check | replay | serve | simulate) files=yes ;; esac\n"
      "          ;;\n"
      "      esac\n"
      "      ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  if [ $files = yes ]; then COMPREPLY+=($(compgen -f -- \"$current\")); fi\n"
      "}\n"
      "complete -F _weir weir\n",
      out);
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
  write_completion(out);
  return finish(out) ? 0 : 1;
}
