#include "completion.h"

#include <string.h>

#include "table.h"

/* The commands whose argument is a file, as a pattern of both shells. */
#define READS_FILES "check | replay | serve | simulate"

/* What follows an option of this name is the same for all commands that have it: the first row of
 * each name that takes a value, and NULL behind the last. */
static const weir_cli_option_row *next_value(size_t *at) {
  while (*at < weir_cli_options_known_count) {
    const weir_cli_option_row *row = &weir_cli_options_known[(*at)++];
    bool first = weir_cli_option_find(NULL, row->name, strlen(row->name)) == row;
    if (first && row->value != NULL) return row;
  }
  return NULL;
}

/* --- bash ------------------------------------------------------------------------------------ */

static void print_commands(FILE *out) {
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    fprintf(out, "%s ", weir_cli_commands[i].name);
}

static void print_values(FILE *out) {
  size_t at = 0;
  for (const weir_cli_option_row *row; (row = next_value(&at)) != NULL;)
    fprintf(out, "    --%s) words=\"%s\" files=%s ;;\n", row->name,
            row->choices != NULL ? row->choices : "", row->id == WEIR_CLI_PLOT ? "yes" : "no");
}

static void print_options(FILE *out, const weir_cli_command *command) {
  fprintf(out, "        %s) words=\"", command->name);
  for (size_t i = 0; i < weir_cli_options_known_count; i++)
    if (weir_cli_option_of(&weir_cli_options_known[i], command))
      fprintf(out, "--%s ", weir_cli_options_known[i].name);
  fputs("\" ;;\n", out);
}

/* Bash takes '=' for a word of its own. */
void weir_cli_write_bash(FILE *out) {
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
  print_commands(out);
  fputs("help version\" ;;\n    help) words=\"", out);
  print_commands(out);
  fputs("\" ;;\n", out);
  print_values(out);
  fputs("    *)\n      case ${COMP_WORDS[1]} in\n", out);
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    print_options(out, &weir_cli_commands[i]);
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

/* --- zsh ------------------------------------------------------------------------------------- */

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

static void print_described_options(FILE *out, const weir_cli_command *command) {
  fprintf(out, "%s) options=(\n", command->name);
  for (size_t i = 0; i < weir_cli_options_known_count; i++) {
    const weir_cli_option_row *row = &weir_cli_options_known[i];
    if (weir_cli_option_of(row, command)) print_described(out, "--", row->name, row->help);
  }
  fputs(") ;;\n", out);
}

/* A value that ends in ':' or '/' goes on; another is complete, and a blank may follow it. */
void weir_cli_write_zsh(FILE *out) {
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
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    print_described_options(out, &weir_cli_commands[i]);
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
