/* The program's entry: finds the command, and prints what help says. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "report.h"
#include "shown.h"

static const char help_text[] =
    "usage: weir COMMAND [OPTION...] [ARGUMENT]\n"
    "\n"
    "  weir take   [OPTION...] KEY     decide one request for KEY and charge it if it is allowed\n"
    "  weir peek   [OPTION...] KEY     say what take would decide; change nothing\n"
    "  weir refund [OPTION...] KEY     give back what an allowed take has charged to KEY\n"
    "  weir reset  [OPTION...] KEY     forget what was charged to KEY under these rules\n"
    "  weir replay [OPTION...] [FILE]  decide every line \"TIME_MS KEY [COST]\" of a trace, plain "
    "or\n"
    "                                  gzip, on the trace's own clock; no FILE or -: stdin\n"
    "  weir simulate [OPTION...] [FILE]  hold rules against an exact window on a trace or an "
    "access\n"
    "                                  log, and say who would have been denied\n"
    "  weir bench [OPTION...]          compare stores: the same decisions on each, in turns\n"
    "  weir doctor [OPTION...]         say what a store allows (with --rule: what that rule needs "
    "there)\n"
    "  weir help, weir version\n"
    "\n"
    "  --store URL          where counts live (default: $WEIR_STORE; else take, peek, refund and\n"
    "                       reset are refused, the others use memory:)\n"
    "  --rule RULE          such as sliding-window:100/1m (default: $WEIR_RULE)\n"
    "  --cost N[,N...]      what the request costs, 1 to 2147483648, or one cost per rule, 0 to\n"
    "                       leave a rule out (take and peek; refund: one; default 1)\n"
    "  --up-to              be content with as much of the cost as fits (take and peek)\n"
    "  --wait TIME          sleep up to TIME until it is allowed (take)\n"
    "  --at US              when it was taken: at_us of take --json (refund; default now)\n"
    "  --json               one JSON object a line\n"
    "  --generate KIND[:OPTION=N,...]  made-up requests instead of FILE: uniform, poisson, "
    "bursts,\n"
    "                       diurnal, pages, boundary, paced; requests=, keys=, load=, seed=\n"
    "                       (simulate, which takes --rule several times)\n"
    "  --attack             look for the requests that over-admit most (simulate)\n"
    "  --plot FILE.svg      draw estimate and truth of the busiest key, --plot-key KEY: of that "
    "one (simulate);\n"
    "                       the figures of each store (bench; also FILE.png)\n"
    "  --threads N          of each process (bench; default 1); --processes N starts so many\n"
    "  --keys N             how many keys (bench; default 1000), each as often as the others;\n"
    "                       --hot: one key, --zipf: the i-th as often as 1/i\n"
    "  --batch N            requests in one call, 1 to 1024 (bench; default 1)\n"
    "  --duration TIME      of each store, in --rounds N turns (bench; default 5s in 5)\n"
    "  --baseline           beside each store a raw loop: one increment per decision (bench)\n"
    "  --format FORMAT      of FILE: trace, access-log, or auto (default; simulate)\n"
    "  --key WHAT           what an access log limits: client (default), user or path (simulate)\n"
    "  --deadline TIME      longest a decision may take (default: the store's timeout)\n"
    "  --clock-error TIME   furthest a clock is from true time (default 10ms)\n"
    "  --processes N        how many processes may use the same keys at once (default 64)\n"
    "  --no-local-denial    ask the store even for requests known to be denied\n"
    "  --no-cached-cells    read finished cells from the store every time\n"
    "  --no-combining       decide requests that meet at a key one after another\n"
    "  --no-leases          charge nothing ahead, whatever lease= says (bench; others never do)\n"
    "  --                   what follows is no option\n"
    "\n"
    "exit status of take and peek: 0 allowed, 1 denied; of all commands: 2 the arguments or the\n"
    "input are wrong, 3 no decision; of doctor: 3 a fault was found\n";

typedef struct command {
  const char *name;
  int (*run)(const weir_cli_options *options);
  const char *argument; /* as help calls it; NULL: none */
  bool argument_needed;
  bool store_needed; /* one that outlives the command; others have use for memory: */
  unsigned options;  /* enum weir_cli_option */
} command;

static const command commands[] = {
    {"take", weir_cli_take, "KEY", true, true, WEIR_CLI_COST | WEIR_CLI_UP_TO | WEIR_CLI_WAIT},
    {"peek", weir_cli_peek, "KEY", true, true, WEIR_CLI_COST | WEIR_CLI_UP_TO},
    {"refund", weir_cli_refund, "KEY", true, true, WEIR_CLI_COST | WEIR_CLI_AT},
    {"reset", weir_cli_reset, "KEY", true, true, 0},
    {"replay", weir_cli_replay, "FILE", false, false, 0},
    {"simulate", weir_cli_simulate, "FILE", false, false, WEIR_CLI_SIMULATION | WEIR_CLI_PLOT},
    {"bench", weir_cli_bench, NULL, false, false, WEIR_CLI_BENCH | WEIR_CLI_PLOT},
    {"doctor", weir_cli_doctor, NULL, false, false, 0},
};

static const command *find_command(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(name, commands[i].name) == 0) return &commands[i];
  return NULL;
}

static bool check_arguments(const command *chosen, const weir_cli_options *options) {
  if (options->argument_count > 0 && chosen->argument == NULL)
    weir_cli_error("%s: extra argument \"%s\"; none is accepted; see \"weir help\"", chosen->name,
                   weir_cli_show(options->arguments[0]).text);
  else if (options->argument_count > 1)
    weir_cli_error("%s: extra argument \"%s\"; one %s is accepted; see \"weir help\"", chosen->name,
                   weir_cli_show(options->arguments[1]).text, chosen->argument);
  else if (options->argument_count == 0 && chosen->argument_needed)
    weir_cli_error("%s: no %s; see \"weir help\"", chosen->name, chosen->argument);
  else if (options->rule == NULL && chosen->run != weir_cli_doctor)
    weir_cli_error("no rule: give --rule RULE or set WEIR_RULE, such as sliding-window:100/1m");
  else if (chosen->store_needed && !options->store_given)
    weir_cli_error(
        "%s: no store: give --store URL or set WEIR_STORE, such as memcached://localhost",
        chosen->name);
  else
    return true;
  return false;
}

static int print(const char *text) {
  fputs(text, stdout);
  return weir_cli_flush() ? 0 : WEIR_EXIT_NO_DECISION;
}

static int run_command(const command *chosen, int argc, char **argv) {
  weir_cli_options options;
  if (!weir_cli_options_parse(argc, argv, chosen->options, &options)) return WEIR_EXIT_USAGE;
  if (options.help) return print(help_text);
  if (!check_arguments(chosen, &options)) return WEIR_EXIT_USAGE;
  return chosen->run(&options);
}

/* "help" and "version", which take nothing. */
static int print_alone(int argc, char **argv, const char *text) {
  if (argc == 2) return print(text);
  weir_cli_error("%s: extra argument \"%s\"; none is accepted", argv[1],
                 weir_cli_show(argv[2]).text);
  return WEIR_EXIT_USAGE;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error like any other, and reported */
  if (argc < 2) {
    weir_cli_error("no command; see \"weir help\"");
    return WEIR_EXIT_USAGE;
  }
  const char *name = argv[1];
  const command *chosen = find_command(name);
  if (chosen != NULL) return run_command(chosen, argc - 1, argv + 1);
  if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return print_alone(argc, argv, help_text);
  if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0)
    return print_alone(argc, argv, "weir " WEIR_VERSION_TEXT "\n");
  weir_cli_error(
      "unknown command \"%s\"; take, peek, refund, reset, replay, simulate, bench, doctor, help "
      "and version are accepted; see \"weir help\"",
      weir_cli_show(name).text);
  return WEIR_EXIT_USAGE;
}
