/* The program's entry: finds the command in the table, has its options read and its arguments
 * counted, and runs it; help and version are answered here. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#ifdef WEIR_HAS_TLS
#include <openssl/crypto.h>
#endif

#include <weir/word.h>

#include "options.h"
#include "report.h"
#include "tables.h"

static int (*const runs[WEIR_CLI_COMMANDS])(const weir_cli_options *options) = {
    [WEIR_CLI_TAKE] = weir_cli_take,         [WEIR_CLI_PEEK] = weir_cli_peek,
    [WEIR_CLI_REFUND] = weir_cli_refund,     [WEIR_CLI_SETTLE] = weir_cli_settle,
    [WEIR_CLI_RESET] = weir_cli_reset,       [WEIR_CLI_LIMIT] = weir_cli_key_limit,
    [WEIR_CLI_RUN] = weir_cli_run,           [WEIR_CLI_REPLAY] = weir_cli_replay,
    [WEIR_CLI_SIMULATE] = weir_cli_simulate, [WEIR_CLI_BENCH] = weir_cli_bench,
    [WEIR_CLI_DOCTOR] = weir_cli_doctor,
#ifdef WEIR_HAS_SERVE
    [WEIR_CLI_CHECK] = weir_cli_check,       [WEIR_CLI_EXPLAIN] = weir_cli_explain,
    [WEIR_CLI_SERVE] = weir_cli_serve,
#endif
};

/* A pager or head may have seen enough: a closed pipe ends the command in silence. */
static void may_be_cut_off(void) {
  signal(SIGPIPE, SIG_DFL);
}

/* Of the words that an argument's name has: "FILE LIMITER KEY". NULL: it has no more. */
static const char *name_at(const char *names, int index) {
  for (; names != NULL && index > 0; index--) {
    names = strchr(names, ' ');
    if (names != NULL) names++;
  }
  return names;
}

/* False after one line on stderr. */
static bool check_arguments(const weir_cli_command *chosen, const weir_cli_options *options) {
  bool is_simulate = chosen == &weir_cli_commands[WEIR_CLI_SIMULATE];
  bool is_run = chosen == &weir_cli_commands[WEIR_CLI_RUN];
  bool is_limit = chosen == &weir_cli_commands[WEIR_CLI_LIMIT];
  const char *next = name_at(chosen->argument, options->argument_count);
  bool has_names = chosen->argument != NULL && strchr(chosen->argument, ' ') != NULL;
  if (options->argument_count > 0 && chosen->argument == NULL)
    weir_cli_error("%s: extra argument \"%s\"; none is accepted; see \"weir help %s\"",
                   chosen->name, weir_cli_show(options->arguments[0]).text, chosen->name);
  else if (options->argument_count > 1 && !is_simulate && !is_run && !is_limit &&
           name_at(chosen->argument, options->argument_count - 1) == NULL)
    weir_cli_error("%s: extra argument \"%s\"; %s%s is accepted; see \"weir help %s\"",
                   chosen->name,
                   weir_cli_show(options->arguments[options->argument_count - 1]).text,
                   has_names ? "" : "one ", chosen->argument[0] == '[' ? "FILE" : chosen->argument,
                   chosen->name);
  else if (next != NULL && chosen->argument_needed && (options->argument_count == 0 || has_names))
    weir_cli_error("%s: no %.*s; see \"weir help %s\"", chosen->name, (int)strcspn(next, " ."),
                   next, chosen->name);
  else
    return true;
  return false;
}

/* The same of what a command needs beside its arguments. */
static bool check_needed(const weir_cli_command *chosen, const weir_cli_options *options) {
  bool is_run = chosen == &weir_cli_commands[WEIR_CLI_RUN];
  bool is_doctor = chosen == &weir_cli_commands[WEIR_CLI_DOCTOR];
  if (options->rule == NULL && chosen->rule_needed && !weir_cli_asks_servers_only(options))
    weir_cli_error("%s: no rule: give --rule RULE or set WEIR_RULE, such as %s", chosen->name,
                   is_run ? "in-flight:3/10s" : "sliding-window:100/1m");
  else if (chosen->store_needed && !options->store_given)
    weir_cli_error(
        "%s: no store: give --store URL or set WEIR_STORE, such as memcached://localhost",
        chosen->name);
  else if (options->quiet && options->json && (chosen->argument_needed || is_doctor))
    weir_cli_error("%s: --quiet and --json: one of them is accepted", chosen->name);
  else
    return true;
  return false;
}

static int run_command(const weir_cli_command *chosen, int argc, char **argv) {
  weir_cli_options options;
  bool is_run = chosen == &weir_cli_commands[WEIR_CLI_RUN];
  int refused = is_run ? WEIR_EXIT_OF_RUN : WEIR_EXIT_USAGE;
  if (!weir_cli_options_parse(argc, argv, chosen, &options)) return refused;
  if (options.help) {
    may_be_cut_off();
    weir_cli_help_command(stdout, chosen);
    return weir_cli_flush();
  }
  if (!check_arguments(chosen, &options) || !check_needed(chosen, &options)) return refused;
  return runs[chosen - weir_cli_commands](&options);
}

static int refuse_command(const char *name) {
  enum { LIST_BYTES = 256 };
  char list[LIST_BYTES] = "";
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    weir_word_list(list, sizeof list, weir_cli_commands[i].name, false);
  const char *nearest = weir_cli_command_nearest(name);
  if (name[0] == '-')
    weir_cli_error("option \"%s\" before the command: options follow it; see \"weir help\"",
                   weir_cli_show(name).text);
  else if (nearest != NULL)
    weir_cli_error("unknown command \"%s\": did you mean %s? See \"weir help\"",
                   weir_cli_show(name).text, nearest);
  else
    weir_cli_error("unknown command \"%s\": %s, help and version are accepted; see \"weir help\"",
                   weir_cli_show(name).text, list);
  return WEIR_EXIT_USAGE;
}

/* --- help and version ------------------------------------------------------------------------ */

static int refuse_more(const char *command, const char *argument, const char *accepted) {
  weir_cli_error("%s: extra argument \"%s\"; %s is accepted", command, weir_cli_show(argument).text,
                 accepted);
  return WEIR_EXIT_USAGE;
}

static bool is_one_of(const char *text, const char *one, const char *other) {
  return strcmp(text, one) == 0 || strcmp(text, other) == 0;
}

static int version_help(void) {
  puts(
      "weir version: say which version this is\n\nusage: weir version [OPTION...]\n"
      "  --json              one JSON object a line\n"
      "  --help              say this; also -h\n\nexit status: 0 done, 2 wrong arguments");
  return weir_cli_flush();
}

static int help(int argc, char **argv) {
  if (argc > 3) return refuse_more(argv[1], argv[3], "one command");
  may_be_cut_off();
  if (argc == 3 && strcmp(argv[2], "version") == 0) return version_help();
  bool of_all = argc == 2 || is_one_of(argv[2], "help", "--help");
  const weir_cli_command *asked = of_all ? NULL : weir_cli_command_find(argv[2]);
  if (of_all)
    weir_cli_help(stdout);
  else if (asked != NULL)
    weir_cli_help_command(stdout, asked);
  else
    return refuse_command(argv[2]);
  return weir_cli_flush();
}

static int version(int argc, char **argv) {
  bool json = argc > 2 && strcmp(argv[2], "--json") == 0;
  bool asks = argc > 2 && is_one_of(argv[2], "--help", "-h");
  if (argc > 3 || (argc > 2 && !json && !asks))
    return refuse_more(argv[1], argv[argc > 3 ? 3 : 2], "one of --json and --help");
  may_be_cut_off();
  if (asks) return version_help();
  puts(json ? "{\"version\":\"" WEIR_VERSION_TEXT "\"}" : "weir " WEIR_VERSION_TEXT);
  return weir_cli_flush();
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error like any other, and reported */
#ifdef WEIR_HAS_TLS
  /* OpenSSL cleans up at exit what other threads have used, and leaks some of it. The kernel takes it all. */
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
#endif
  if (argc < 2) {
    weir_cli_error("no command; see \"weir help\"");
    return WEIR_EXIT_USAGE;
  }
  const char *name = argv[1];
  const weir_cli_command *chosen = weir_cli_command_find(name);
  if (chosen != NULL) return run_command(chosen, argc - 1, argv + 1);
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return help(argc, argv);
  if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) return version(argc, argv);
  return refuse_command(name);
}
