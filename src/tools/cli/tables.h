/* The names of the commands and their options, and what is said of them: the one place that help,
 * the parser of options, the manual pages and the shell's completion read. */
#ifndef WEIR_CLI_TABLES_H
#define WEIR_CLI_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum weir_cli_command_id {
  WEIR_CLI_TAKE,
  WEIR_CLI_PEEK,
  WEIR_CLI_REFUND,
  WEIR_CLI_SETTLE,
  WEIR_CLI_RESET,
  WEIR_CLI_LIMIT,
  WEIR_CLI_RUN,
  WEIR_CLI_REPLAY,
  WEIR_CLI_SIMULATE,
  WEIR_CLI_BENCH,
  WEIR_CLI_DOCTOR,
#ifdef WEIR_HAS_SERVE
  WEIR_CLI_CHECK,
  WEIR_CLI_EXPLAIN,
  WEIR_CLI_SERVE,
#endif
  WEIR_CLI_COMMANDS
};

/* All texts are lines that end in '\n', but for `summary`, which has no end. */
typedef struct weir_cli_command {
  const char *name;
  const char *argument; /* "KEY", "[FILE]"; NULL: takes none */
  bool argument_needed;
  bool store_needed; /* one that outlives the command; others have use for memory: */
  bool rule_needed;
  const char *summary;
  const char *examples;
  const char *details; /* of the manual page alone */
  const char *exits;
} weir_cli_command;

extern const weir_cli_command weir_cli_commands[WEIR_CLI_COMMANDS];

/* NULL where there is none of this name. */
const weir_cli_command *weir_cli_command_find(const char *name);

/* The command whose name is nearest, or "help" or "version"; NULL where none is near. */
const char *weir_cli_command_nearest(const char *name);

enum weir_cli_option {
  WEIR_CLI_STORE,
  WEIR_CLI_RULE,
  WEIR_CLI_COST,
  WEIR_CLI_REAL,
  WEIR_CLI_UP_TO,
  WEIR_CLI_TENANT,
  WEIR_CLI_CLASS,
  WEIR_CLI_WAIT,
  WEIR_CLI_OWN_LIMIT,
  WEIR_CLI_KEY_LIMITS,
  WEIR_CLI_FOR,
  WEIR_CLI_BEFORE,
  WEIR_CLI_AT,
  WEIR_CLI_LOST,
  WEIR_CLI_FORMAT,
  WEIR_CLI_KEY,
  WEIR_CLI_TRUST,
  WEIR_CLI_STATUS,
  WEIR_CLI_PATH,
  WEIR_CLI_COST_FIELD,
  WEIR_CLI_REAL_FIELD,
  WEIR_CLI_DURATION_FIELD,
  WEIR_CLI_CLASS_FIELD,
  WEIR_CLI_TENANT_FIELD,
  WEIR_CLI_TOP,
  WEIR_CLI_RECOMMEND,
  WEIR_CLI_GENERATE,
  WEIR_CLI_ATTACK,
  WEIR_CLI_VIA,
  WEIR_CLI_THREADS,
  WEIR_CLI_PROCESSES,
  WEIR_CLI_KEYS,
  WEIR_CLI_HOT,
  WEIR_CLI_ZIPF,
  WEIR_CLI_BATCH,
  WEIR_CLI_DURATION,
  WEIR_CLI_ROUNDS,
  WEIR_CLI_BASELINE,
  WEIR_CLI_BASELINE_PAIR,
  WEIR_CLI_PLOT,
  WEIR_CLI_PLOT_KEY,
  WEIR_CLI_JSON,
  WEIR_CLI_QUIET,
  WEIR_CLI_DEADLINE,
  WEIR_CLI_CLOCK_ERROR,
  WEIR_CLI_NO_LOCAL_DENIAL,
  WEIR_CLI_NO_CACHED_CELLS,
  WEIR_CLI_NO_COMBINING,
  WEIR_CLI_NO_LEASES,
  WEIR_CLI_HELP
};

/* One option as some commands have it; what others have under the same name is another row. */
typedef struct weir_cli_option_row {
  enum weir_cli_option id;
  const char *name;
  const char *value;   /* as help calls it; NULL: takes none */
  unsigned commands;   /* a bit for each weir_cli_command_id */
  const char *help;    /* one line or two, between them '\n' */
  const char *choices; /* what a value may be or begin with, between blanks; NULL: not known */
} weir_cli_option_row;

extern const weir_cli_option_row weir_cli_options_known[];
extern const size_t weir_cli_options_known_count;

bool weir_cli_option_of(const weir_cli_option_row *row, const weir_cli_command *command);

/* The row of that name, `length` bytes; NULL where the command has none. With any other command's
 * where `command` is NULL. */
const weir_cli_option_row *weir_cli_option_find(const weir_cli_command *command, const char *name,
                                                size_t length);

/* The command's option whose name is nearest; NULL where none is near. */
const char *weir_cli_option_nearest(const weir_cli_command *command, const char *name,
                                    size_t length);

/* --- help ---------------------------------------------------------------------------------------
 *
 * The program's own words about itself. */

/* The commands, and where to read on. */
void weir_cli_help(FILE *out);

/* One command: its examples, then its options. It fits a screen. */
void weir_cli_help_command(FILE *out, const weir_cli_command *command);

/* "--cost N[,N...]": an option as it is written. */
enum { WEIR_CLI_OPTION_BYTES = 48 };
void weir_cli_option_write(const weir_cli_option_row *row, char text[WEIR_CLI_OPTION_BYTES]);

#endif
