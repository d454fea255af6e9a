/* Writes the manual pages of the program, and what shells complete after "weir", from the table
 * that help reads. Run by the build; not installed.
 *
 *   weir_pages DIRECTORY DATE */
#include <stdio.h>
#include <string.h>

#include <weir/version.h>

#include "tables.h"

/* The commands whose argument is a file, as a pattern of both shells. */
#define READS_FILES "check | replay | serve | simulate"

/* --- manual pages ---------------------------------------------------------------------------- */

/* Text for roff: nothing of it is a request, an escape, or a hyphen where a minus is meant. */
static void print_text(FILE *out, const char *text) {
  for (const char *at = text; *at != '\0'; at++) {
    bool begins = at == text || at[-1] == '\n';
    if (begins && (*at == '.' || *at == '\'')) fputs("\\&", out);
    if (*at == '\\')
      fputs("\\e", out);
    else if (*at == '-')
      fputs("\\-", out);
    else if (*at == '\'')
      fputs("\\(aq", out);
    else
      fputc(*at, out);
  }
}

/* `command` NULL: of all. */
static void print_environment(FILE *out, const weir_cli_command *command) {
  static const char *const variables[][2] = {{"WEIR_STORE", "store"}, {"WEIR_RULE", "rule"}};
  fputs(".SH ENVIRONMENT\n", out);
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *option = variables[i][1];
    if (command == NULL || weir_cli_option_find(command, option, strlen(option)) != NULL)
      fprintf(out, ".TP\n.B %s\nstands for \\-\\-%s, where that is not given.\n", variables[i][0],
              option);
  }
  fputs(".TP\n.B NO_COLOR\nkeeps terminals without colours.\n", out);
}

static void write_command(FILE *out, const weir_cli_command *command, const char *date) {
  fprintf(out, ".TH weir-%s 1 %s \"weir %s\" \"weir\"\n", command->name, date, WEIR_VERSION_TEXT);
  fprintf(out, ".SH NAME\nweir\\-%s \\- ", command->name);
  print_text(out, command->summary);
  fprintf(out, "\n.SH SYNOPSIS\n.B weir %s\n.RI [ OPTION ...]", command->name);
  if (command->argument != NULL) fprintf(out, "\n.I %s", command->argument);
  fputs("\n.SH DESCRIPTION\n", out);
  print_text(out, command->details);
  fputs(".SH EXAMPLES\n.nf\n", out);
  print_text(out, command->examples);
  fputs(".fi\n.SH OPTIONS\n", out);
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
  fputs(".SH \"EXIT STATUS\"\n", out);
  print_text(out, command->exits);
  print_environment(out, command);
  fputs(".SH \"SEE ALSO\"\n.BR weir (1),\n.BR libweir (3)\n", out);
}

static void write_program(FILE *out, const char *date) {
  fprintf(out, ".TH weir 1 %s \"weir %s\" \"weir\"\n", date, WEIR_VERSION_TEXT);
  fputs(
      ".SH NAME\nweir \\- rate limits on memcached or Redis, without scripts\n.SH SYNOPSIS\n"
      ".B weir\n.I COMMAND\n.RI [ OPTION ...]\n.RI [ ARGUMENT ]\n.SH DESCRIPTION\n"
      "Decides whether a request is within its limits, and counts it in a store that all\n"
      "processes and machines share. Each command has a page of its own.\n.SH COMMANDS\n",
      out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    fprintf(out, ".TP\n.BR weir\\-%s (1)\n", weir_cli_commands[i].name);
    print_text(out, weir_cli_commands[i].summary);
    fputc('\n', out);
  }
  fputs(
      ".SH \"EXIT STATUS\"\n0 allowed or done, 1 denied, 2 wrong arguments or input, 3 no "
      "decision\n",
      out);
  print_environment(out, NULL);
  fputs(".SH \"SEE ALSO\"\n", out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    fprintf(out, ".BR weir\\-%s (1),\n", weir_cli_commands[i].name);
  fputs(".BR libweir (3)\n", out);
}

/* --- completion ------------------------------------------------------------------------------ */

/* An option's value is the same for all commands that have the option: gives the first row of each
 * name that takes a value, and NULL behind the last. */
static const weir_cli_option_row *next_value(size_t *at) {
  while (*at < weir_cli_options_known_count) {
    const weir_cli_option_row *row = &weir_cli_options_known[(*at)++];
    bool first = weir_cli_option_find(NULL, row->name, strlen(row->name)) == row;
    if (first && row->value != NULL) return row;
  }
  return NULL;
}

/* Bash takes '=' for a word of its own. */
static void write_bash(FILE *out) {
  fputs(
      "# What bash completes after \"weir\". Written by the build.\n"
      "_weir() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
      "  local words= files=no\n"
      "  if [ \"$current\" = = ]; then current=; fi\n"
      "  if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then before=weir; fi\n"
      "  case $before in\n"
      "    weir) words=\"",
      out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    fprintf(out, "%s ", weir_cli_commands[i].name);
  fputs("help version\" ;;\n    help) words=\"", out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    fprintf(out, "%s ", weir_cli_commands[i].name);
  fputs("\" ;;\n", out);
  size_t at = 0;
  for (const weir_cli_option_row *row; (row = next_value(&at)) != NULL;)
    fprintf(out, "    --%s) words=\"%s\" files=%s ;;\n", row->name,
            row->choices != NULL ? row->choices : "", row->id == WEIR_CLI_PLOT ? "yes" : "no");
  fputs("    *)\n      case ${COMP_WORDS[1]} in\n", out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    fprintf(out, "        %s) words=\"", weir_cli_commands[i].name);
    for (size_t j = 0; j < weir_cli_options_known_count; j++)
      if (weir_cli_option_of(&weir_cli_options_known[j], &weir_cli_commands[i]))
        fprintf(out, "--%s ", weir_cli_options_known[j].name);
    fputs("\" ;;\n", out);
  }
  fputs(
      "      esac\n"
      "      if [ \"${current#-}\" = \"$current\" ]; then\n"
      "        words=\n"
      "        case ${COMP_WORDS[1]} in " READS_FILES
      ") files=yes ;; esac\n"
      "      fi\n"
      "      ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  if [ $files = yes ]; then COMPREPLY+=($(compgen -f -- \"$current\")); fi\n"
      "}\n"
      "complete -F _weir weir\n",
      out);
}

/* 'name:text', in quotes, on one line. */
static void print_described(FILE *out, const char *dashes, const char *name, const char *text) {
  fprintf(out, "  '%s%s:", dashes, name);
  for (; *text != '\0'; text++) {
    if (*text == '\'')
      fputs("'\\''", out);
    else
      fputc(*text == '\n' ? ' ' : *text, out);
  }
  fputs("'\n", out);
}

/* A value that ends in ':' or '/' goes on; another is complete, and a blank may follow it. */
static void write_zsh(FILE *out) {
  size_t at = 0;
  fputs(
      "#compdef weir\n"
      "# What zsh completes after \"weir\". Written by the build.\n"
      "local command=$words[2] before=$words[CURRENT-1]\n"
      "local -a commands options values\n"
      "commands=(\n",
      out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    print_described(out, "", weir_cli_commands[i].name, weir_cli_commands[i].summary);
  fputs(
      ")\n"
      "if (( CURRENT == 2 )); then\n"
      "  commands+=('help:say what a command does' 'version:say which version this is')\n"
      "  _describe command commands\n"
      "  return\n"
      "fi\n"
      "if compset -P '--*='; then before=${IPREFIX%=}; fi\n"
      "case $before in\n"
      "help) _describe command commands; return ;;\n",
      out);
  for (const weir_cli_option_row *row; (row = next_value(&at)) != NULL;) {
    if (row->id == WEIR_CLI_PLOT)
      fprintf(out, "--%s) _files; return ;;\n", row->name);
    else
      fprintf(out, "--%s) values=(%s) ;;\n", row->name, row->choices != NULL ? row->choices : "''");
  }
  fputs(
      "esac\n"
      "if (( $#values )); then\n"
      "  compadd -S '' -- ${(M)values:#*[:/]}\n"
      "  compadd -- ${values:#(*[:/]|)}\n"
      "  return\n"
      "fi\n"
      "case $command in\n",
      out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++) {
    fprintf(out, "%s) options=(\n", weir_cli_commands[i].name);
    for (size_t j = 0; j < weir_cli_options_known_count; j++) {
      const weir_cli_option_row *row = &weir_cli_options_known[j];
      if (weir_cli_option_of(row, &weir_cli_commands[i]))
        print_described(out, "--", row->name, row->help);
    }
    fputs(") ;;\n", out);
  }
  fputs(
      "esac\n"
      "if [[ $PREFIX == -* ]]; then\n"
      "  _describe -o option options\n"
      "else\n"
      "  case $command in " READS_FILES
      ") _files ;; esac\n"
      "fi\n",
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
  write_bash(out);
  if (!finish(out)) return 1;
  if ((out = create(argv[1], "_weir")) == NULL) return 1;
  write_zsh(out);
  return finish(out) ? 0 : 1;
}
