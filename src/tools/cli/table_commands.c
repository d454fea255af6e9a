/* The commands, and what is said of each. */
#include <string.h>

#include <weir/word.h>

#include "tables.h"

static const char exits_of_decision[] = "0 allowed, 1 denied, 2 wrong arguments, 3 no decision\n";
static const char exits_of_change[] = "0 done, 2 wrong arguments, 3 not done\n";
static const char exits_of_work[] =
    "0 done, 2 wrong arguments or input, 3 no decision or lost output\n";

const weir_cli_command weir_cli_commands[WEIR_CLI_COMMANDS] = {
    [WEIR_CLI_TAKE] =
        {
            .name = "take",
            .argument = "KEY",
            .argument_needed = true,
            .store_needed = true,
            .rule_needed = true,
            .summary = "decide one request for KEY and charge it if it is allowed",
            .examples =
                "weir take --store memcached://cache1 --rule sliding-window:100/1m alice\n"
                "weir take --rule leaky-bucket:10/1s,queue=50 --wait 3s alice && run-the-job\n"
                "weir take --rule 'fixed-window:5/1s;fixed-window:9000/1h' --cost 1,20 alice\n",
            .details =
                "The decision is one line on standard output, and the exit status. Without a\n"
                "decision there is no output: a store that is away is never taken for a denial.\n"
                "KEY is any bytes that a shell can pass, one or more.\n",
            .exits = exits_of_decision,
        },
    [WEIR_CLI_PEEK] =
        {
            .name = "peek",
            .argument = "KEY",
            .argument_needed = true,
            .store_needed = true,
            .rule_needed = true,
            .summary = "say what take would decide for KEY; change nothing",
            .examples = "weir peek --store memcached://cache1 --rule sliding-window:100/1m alice\n"
                        "weir peek --rule token-bucket:100/1m --cost 20 --json alice\n",
            .details = "Answers and exits as take does, and charges nothing.\n",
            .exits = exits_of_decision,
        },
    [WEIR_CLI_REFUND] =
        {
            .name = "refund",
            .argument = "KEY",
            .argument_needed = true,
            .store_needed = true,
            .rule_needed = true,
            .summary = "give back what an allowed take has charged to KEY",
            .examples = "weir refund --store redis://cache1 --rule quota:100/1d --cost 2 alice\n"
                        "weir refund --rule quota:100/1d --at 1764028800123456 alice\n",
            .details =
                "Windows and quotas get it back where it came from; a token bucket gets what it\n"
                "has not refilled since; a leaky bucket and a sliding log get nothing. More than\n"
                "is charged is refused, with exit status 2.\n",
            .exits = exits_of_change,
        },
    [WEIR_CLI_SETTLE] =
        {
            .name = "settle",
            .argument = "KEY",
            .argument_needed = true,
            .store_needed = true,
            .rule_needed = true,
            .summary = "charge what an allowed take for KEY cost in truth",
            .examples = "weir settle --rule quota:5000/1d,debt=500 --cost 480 --real 512 alice\n"
                        "weir settle --rule sliding-window:5000/1m --cost 480 --real 300 \\\n"
                        "  --at 1764028800123456 alice\n",
            .details =
                "Less than was taken goes back, as by refund. More is charged now, under the\n"
                "limit and debt= of the rule; what does not fit is cut. No work that is done is\n"
                "denied. A leaky bucket and a sliding log refuse it.\n",
            .exits = exits_of_change,
        },
    [WEIR_CLI_RESET] =
        {
            .name = "reset",
            .argument = "KEY",
            .argument_needed = true,
            .store_needed = true,
            .rule_needed = true,
            .summary = "forget what was charged to KEY under these rules",
            .examples = "weir reset --store redis://cache1 --rule quota:100/1d alice\n",
            .details = "Counters of other rules and other keys stay as they are.\n",
            .exits = exits_of_change,
        },
    [WEIR_CLI_RUN] =
        {
            .name = "run",
            .argument = "COMMAND...",
            .argument_needed = true,
            .store_needed = true,
            .rule_needed = true,
            .summary = "run COMMAND while a place is held: so many at once, over machines",
            .examples =
                "weir run --store redis://cache1 --rule in-flight:1/10s --key nightly \\\n"
                "  -- backup.sh\n"
                "weir run --rule in-flight:3/10s --key deploy --wait 5m -- make -j8 deploy\n"
                "weir run --rule in-flight:20/10s --key gpu --cost 4 -- train.py\n",
            .details =
                "The place is paid for while COMMAND runs, and left when it ends. What a machine\n"
                "held that died is free when the period of the rule is over. COMMAND ends as weir\n"
                "does, also by SIGKILL; signals for weir are passed on to it. A place is lost "
                "where\n"
                "weir was stopped, or the store was away, until it could not pay any more: then\n"
                "COMMAND gets SIGTERM, and SIGKILL behind it, as others may enter.\n"
                "Write -- before COMMAND: what follows is all its own.\n",
            .exits = "0 and others as COMMAND; 124 no place is free, 125 weir failed\n"
                     "or the place was lost, 126 COMMAND cannot be run, 127 there is none\n",
        },
    [WEIR_CLI_REPLAY] =
        {
            .name = "replay",
            .argument = "[FILE]",
            .rule_needed = true,
            .summary = "decide every line of a trace, on the trace's own clock",
            .examples = "weir replay --rule 'sliding-window:20/1m,cells=16' trace.txt.gz\n"
                        "printf '0 a 9\\n1000 a\\n' | weir replay --rule fixed-window:10/1m\n",
            .details =
                "FILE holds lines \"TIME_MS KEY [COST]\", plain or gzip; without one, or with\n"
                "-, they come from standard input. Each line gives one, with tabs between\n"
                "time, key, cost, decision, limit, remaining, and in microseconds the waits\n"
                "until a retry succeeds, until nothing counts any more, and before acting.\n"
                "Under an in-flight rule each line enters; \"TIME_MS KEY leave\" releases what\n"
                "the key has held longest.\n"
                "The first line that is wrong, or has no decision, ends it.\n",
            .exits = exits_of_work,
        },
    [WEIR_CLI_SIMULATE] =
        {
            .name = "simulate",
            .argument = "[FILE...]",
            .rule_needed = true,
            .summary = "hold rules against an exact window on a trace or an access log",
            .examples =
                "weir simulate --rule sliding-window:20/1m --rule token-bucket:20/1m access.log\n"
                "weir simulate --rule in-flight:9/10s --duration took --format json a.log\n"
                "weir simulate --rule sliding-window:20/1m --recommend keys:0.1% access.log\n",
            .details =
                "Runs each rule by itself on the same requests, on their own time, and says\n"
                "how its decisions differ from those of an exact window, who would have been\n"
                "denied, and what it costs. No server is asked. Malformed lines are counted\n"
                "and left out.\n"
                "With --duration requests hold a place from their begin to their end: it says how\n"
                "many were in flight at once, and what in-flight rules would have denied.\n",
            .exits = exits_of_work,
        },
    [WEIR_CLI_BENCH] =
        {
            .name = "bench",
            .argument = NULL,
            .rule_needed = true,
            .summary = "compare stores: the same decisions on each, in turns",
            .examples = "weir bench --store memcached://cache1 --store redis://cache2 \\\n"
                        "  --rule sliding-window:100/1m --threads 8 --baseline\n"
                        "weir bench --rule token-bucket:100/1s --processes 4 --hot --duration 10s\n"
                        "weir bench --via redis://127.0.0.1:6380/api --threads 8 --baseline\n",
            .details =
                "Prints the median of each figure over the turns. The raw loop of --baseline is\n"
                "as many threads that send one increment each and wait for the reply. With\n"
                "--baseline-pair each sends SET NX before its INCRBY on Redis, the least that\n"
                "a charge must send there.\n",
            .exits = exits_of_work,
        },
    [WEIR_CLI_DOCTOR] =
        {
            .name = "doctor",
            .argument = NULL,
            .store_needed = true,
            .summary = "say what a store allows, and what cannot be promised on it",
            .examples = "weir doctor --store memcached://cache1\n"
                        "weir doctor --store 'redis://cache1?namespace=shop' \\\n"
                        "  --rule fixed-window:100/1m\n",
            .details = "Tries what a limiter may ever ask for, on keys of its own, which it "
                       "deletes. With\n"
                       "--rule it tries what that rule needs, and no more.\n",
            .exits = "0 no fault, 2 wrong arguments, 3 a fault was found or no answer\n",
        },
#ifdef WEIR_HAS_SERVE
    [WEIR_CLI_CHECK] =
        {
            .name = "check",
            .argument = "FILE",
            .argument_needed = true,
            .summary = "read a configuration of the server, and say what is wrong in it",
            .examples = "weir check weir.yaml\n"
                        "weir check /etc/weir/weir.yaml && systemctl reload weir-serve\n",
            .details = "Reads it as the server does, with the files that it names: secrets,\n"
                       "overrides, certificates. Each fault is a line: file, line, column, what\n"
                       "was found and what is accepted. All are told, sorted by place. No store\n"
                       "is asked. A good file is told in a line of what is in it.\n",
            .exits = "0 no fault, 2 faults or wrong arguments\n",
        },
    [WEIR_CLI_SERVE] =
        {
            .name = "serve",
            .argument = "FILE",
            .argument_needed = true,
            .summary = "answer RESP, HTTP and gRPC as FILE says, until SIGTERM",
            .examples = "weir serve weir.yaml\n"
                        "redis-cli -p 6380 WEIR.TAKE api alice\n"
                        "curl '127.0.0.1:8080/check/api?key=alice'\n"
                        "curl 127.0.0.1:9090/metrics\n"
                        "\n"
                        "where weir.yaml holds\n"
                        "\n"
                        "  listen: {resp: {}, http: {}, admin: {}}\n"
                        "  stores: {main: {url: \"memcached://localhost\"}}\n"
                        "  limiters: {api: {rule: \"sliding-window:100/1m\"}}\n"
                        "\n"
                        "SIGHUP, or a change of a file, reads it again; SIGTERM ends the server.\n",
            .details = "Limiters that FILE names answer on its listeners. Other hosts reach them\n"
                       "with a credential or TLS only, or where FILE says insecure: true.\n"
                       "SIGHUP, or a change of FILE or of a file that it names, reads it again:\n"
                       "one that has faults changes nothing. SIGTERM and SIGINT let what is under\n"
                       "way finish, for limits.drain at the longest. What is to be said goes to\n"
                       "stderr, a line each. ${NAME} in FILE stands for a variable of the\n"
                       "environment, ${file:PATH} for what a file holds. The page\n"
                       "configuration.md of the documentation has every key.\n",
            .exits = "0 ended by a signal, 2 faults or wrong arguments, 3 could not serve\n",
        },
#endif
};

const weir_cli_command *weir_cli_command_find(const char *name) {
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    if (strcmp(name, weir_cli_commands[i].name) == 0) return &weir_cli_commands[i];
  return NULL;
}

const char *weir_cli_command_nearest(const char *name) {
  static const char *const others[] = {"help", "version"};
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (size_t i = 0; i < WEIR_CLI_COMMANDS; i++)
    if (weir_word_nearer(name, strlen(name), weir_cli_commands[i].name, &distance))
      nearest = weir_cli_commands[i].name;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (weir_word_nearer(name, strlen(name), others[i], &distance)) nearest = others[i];
  return nearest;
}
