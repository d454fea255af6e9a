/* The commands and the options, what is said of each, and help, which says it. */
#include "tables.h"

#include <string.h>
#include <weir/word.h>

#include "report.h"

/* --- commands -----------------------------------------------------------------------------------
 */

static const char exits_of_decision[] = "0 allowed, 1 denied, 2 wrong arguments, 3 no decision\n";
static const char exits_of_change[] =
    "0 done, 2 wrong arguments, 3 not done, 4 perhaps done: no answer\n";
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
    [WEIR_CLI_LIMIT] =
        {
            .name = "limit",
            .argument = "ACTION...",
            .argument_needed = true,
            .store_needed = true,
            .rule_needed = true,
            .summary = "set the limit of one key, or of millions, while limiters run",
            .examples = "weir limit set --rule quota:9/1d,most=500 alice 90/1d\n"
                        "weir limit set --rule quota:9/1d,most=500 mallory blocked --for 2h\n"
                        "weir limit load --store redis://cache1 --rule quota:9/1d,most=500 FILE\n",
            .details =
                "ACTION is set KEY LIMIT, get KEY, unset KEY or load FILE. LIMIT is a number up\n"
                "to the rule's most=, with or without its period; blocked, which denies all;\n"
                "unlimited, which counts nothing of the key under that rule; one of its tiers=;\n"
                "or none, which is what unset writes. FILE has lines KEY, a tab and LIMIT; - is\n"
                "standard input. Limiters with the option limits_us go by it within that time.\n"
                "What load has set before a line that is wrong stays set.\n"
                "--before unsets keys that are gone.\n",
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
                "The place is paid for while COMMAND runs, and left when it ends. A machine\n"
                "that dies frees its place at the end of the rule's period. COMMAND ends as weir\n"
                "does, also by SIGKILL; signals for weir are passed on to it. A place is lost "
                "where\n"
                "weir was stopped, or the store was away, until it could not pay any more: then\n"
                "COMMAND gets SIGTERM, and SIGKILL behind it, as others may enter.\n"
                "Write -- before COMMAND: what follows is all its own.\n",
            .exits = "0 and others as COMMAND; 124 no place is free, 125 weir failed, the\n"
                     "place was lost or --cost never fits, 126 COMMAND cannot be run, 127 none\n",
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
                "weir simulate --rule sliding-window:20/1m --recommend keys:0.1% access.log\n",
            .details =
                "Runs each rule by itself on the same requests, on their own time, and says\n"
                "how its decisions differ from those of an exact window, who would have been\n"
                "denied, and what it costs. No server is asked. Malformed lines are counted\n"
                "and left out.\n"
                "With --duration requests hold a place from their begin to their end: it says how\n"
                "many were in flight at once, and what in-flight rules would have denied.\n"
                "With --tenant it says how shared windows would have divided their limits among\n"
                "tenants, beside max-min fairness, a fixed split and first come first served.\n",
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
    [WEIR_CLI_EXPLAIN] =
        {
            .name = "explain",
            .argument = "FILE LIMITER KEY",
            .argument_needed = true,
            .summary = "say which limit a key has in a configuration, and what is left",
            .examples = "weir explain weir.yaml api alice\n"
                        "weir explain weir.yaml api alice --json\n",
            .details =
                "Reads the configuration as the server does, and looks at the counts of KEY;\n"
                "no count is changed. It says what KEY is counted as, and on which store;\n"
                "which list, pattern or tier gives the limit; whether it is enforced for\n"
                "this key; and of each rule how much is used, and when more will fit. With\n"
                "limits: store it says which limit was set for the key. A server that runs\n"
                "may have leased more than its clients have used.\n",
            .exits = "0 it is told, 2 faults or wrong arguments, 3 a store did not answer\n",
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
                       "way finish, for limits.drain at the longest. Messages go to stderr, a\n"
                       "line each. ${NAME} in FILE stands for a variable of the environment,\n"
                       "${file:PATH} for what a file holds. The page configuration.md of the\n"
                       "documentation has every key.\n",
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

/* --- options ------------------------------------------------------------------------------------
 *
 * The options: whose they are, and what is said of each. options.c says which values they take. */

enum {
  TAKE = 1 << WEIR_CLI_TAKE,
  PEEK = 1 << WEIR_CLI_PEEK,
  REFUND = 1 << WEIR_CLI_REFUND,
  SETTLE = 1 << WEIR_CLI_SETTLE,
  RESET = 1 << WEIR_CLI_RESET,
  LIMIT = 1 << WEIR_CLI_LIMIT,
  RUN = 1 << WEIR_CLI_RUN,
  REPLAY = 1 << WEIR_CLI_REPLAY,
  SIMULATE = 1 << WEIR_CLI_SIMULATE,
  BENCH = 1 << WEIR_CLI_BENCH,
  DOCTOR = 1 << WEIR_CLI_DOCTOR,
  ONE_KEY = TAKE | PEEK | REFUND | SETTLE | RESET,
  ALL = ONE_KEY | REPLAY | SIMULATE | BENCH | DOCTOR, /* what decides, and not what serves */
  EVERY = (1 << WEIR_CLI_COMMANDS) - 1,
#ifdef WEIR_HAS_SERVE
  CHECK = 1 << WEIR_CLI_CHECK,
  EXPLAIN = 1 << WEIR_CLI_EXPLAIN
#else
  CHECK = 0,
  EXPLAIN = 0
#endif
};

#define SCHEMES                                                                            \
  "memory: memcached:// memcached+unix:// memcacheds:// redis:// redis+unix:// rediss:// " \
  "redis+sentinel:// rediss+sentinel://"
#define ALGORITHMS                                                                            \
  "fixed-window: sliding-window: sliding-log: quota: token-bucket: leaky-bucket: in-flight: " \
  "shared-window:"

const weir_cli_option_row weir_cli_options_known[] = {
    {WEIR_CLI_STORE, "store", "URL", ONE_KEY | LIMIT | RUN | DOCTOR,
     "where counts live (default: $WEIR_STORE)", SCHEMES},
    {WEIR_CLI_STORE, "store", "URL", REPLAY,
     "where counts live (default: $WEIR_STORE, else memory:)", SCHEMES},
    {WEIR_CLI_STORE, "store", "URL", SIMULATE, "accepted, and plays no part", SCHEMES},
    {WEIR_CLI_STORE, "store", "URL", BENCH, "up to 8 times (default: $WEIR_STORE, else memory:)",
     SCHEMES},
    {WEIR_CLI_RULE, "rule", "RULE", ONE_KEY | LIMIT | REPLAY,
     "such as sliding-window:100/1m; between several a ;\n(default: $WEIR_RULE)", ALGORITHMS},
    {WEIR_CLI_RULE, "rule", "RULE", RUN,
     "such as in-flight:3/10s: 3 at once, and 10 s until what a\ndead one held is free "
     "(default: $WEIR_RULE)",
     ALGORITHMS},
    {WEIR_CLI_RULE, "rule", "RULE", SIMULATE,
     "such as quota:9/1d; up to 16 times (default: $WEIR_RULE)", ALGORITHMS},
    {WEIR_CLI_RULE, "rule", "RULE", BENCH, "such as sliding-window:100/1m (default: $WEIR_RULE)",
     ALGORITHMS},
    {WEIR_CLI_RULE, "rule", "RULE", DOCTOR, "look at what this rule needs (default: $WEIR_RULE)",
     ALGORITHMS},
    {WEIR_CLI_COST, "cost", "N[,N...]", TAKE | PEEK,
     "1 to 2147483648 (default: 1); or one cost per rule, 0 to\nleave a rule out", NULL},
    {WEIR_CLI_COST, "cost", "N", REFUND, "what is given back, 1 to 2147483648 (default: 1)", NULL},
    {WEIR_CLI_COST, "cost", "N[,N...]", SETTLE, "what was taken, as take had it (default: 1)",
     NULL},
    {WEIR_CLI_REAL, "real", "N[,N...]", SETTLE,
     "what it cost in truth, 0 to 2147483648; as many as --cost", NULL},
    {WEIR_CLI_UP_TO, "up-to", NULL, TAKE | PEEK, "be content with as much of the cost as fits",
     NULL},
    {WEIR_CLI_TENANT, "tenant", "NAME", BENCH, "of a shared-window, whose pools the keys are",
     NULL},
    {WEIR_CLI_CLASS, "class", "NAME", BENCH,
     "which of the classes= of the rule all requests are of", NULL},
    {WEIR_CLI_TENANT, "tenant", "NAME", TAKE | PEEK | SETTLE | EXPLAIN,
     "who of those that share KEY under a shared-window", NULL},
    {WEIR_CLI_CLASS, "class", "NAME", TAKE | PEEK | SETTLE,
     "which of the classes= of the rule it is of (default: none)", NULL},
    {WEIR_CLI_CLASS, "class", "NAME", EXPLAIN,
     "of a request of this class (default: its class_else)", NULL},
    {WEIR_CLI_WAIT, "wait", "TIME", TAKE, "sleep up to TIME, 0s to 30m, until it is allowed", NULL},
    {WEIR_CLI_OWN_LIMIT, "limit", "N", TAKE | PEEK,
     "in the place of the rule's, up to its most=", NULL},
    {WEIR_CLI_KEY_LIMITS, "key-limits", NULL, TAKE | PEEK | RUN,
     "go by the limit that weir limit set for KEY", NULL},
    {WEIR_CLI_FOR, "for", "TIME", LIMIT, "how long it is set for, 1s to 400d (default: 400d)",
     NULL},
    {WEIR_CLI_BEFORE, "before", "OLD", LIMIT, "load: what differs from this file, both sorted",
     NULL},
    {WEIR_CLI_AT, "at", "US", REFUND | SETTLE,
     "when it was taken: at_us of take --json (default: now)", NULL},
    {WEIR_CLI_COST, "cost", "N", RUN, "how many places it takes, 1 to 2147483648 (default: 1)",
     NULL},
    {WEIR_CLI_KEY, "key", "KEY", RUN, "what so many run of at once; it must be given", NULL},
    {WEIR_CLI_CLASS, "class", "NAME", RUN,
     "which of the classes= of the rule it is of (default: none)", NULL},
    {WEIR_CLI_WAIT, "wait", "TIME", RUN,
     "sleep up to TIME, 0s to 30m, until a place is free\n(default: 0s)", NULL},
    {WEIR_CLI_LOST, "lost", "kill|continue", RUN,
     "what becomes of COMMAND when its place is lost\n(default: kill)", "kill continue"},
    {WEIR_CLI_FORMAT, "format", "FORMAT", SIMULATE,
     "auto, trace, access-log, json or a pattern (default: auto)", "auto trace access-log json"},
    {WEIR_CLI_KEY, "key", "FIELDS", SIMULATE,
     "of a log: client/24/64,path or any field (default: client)",
     "client client/24/64 user path method status host referer agent forwarded all"},
    {WEIR_CLI_TRUST, "trust", "NETWORKS", SIMULATE,
     "proxies whose X-Forwarded-For tells the client", NULL},
    {WEIR_CLI_STATUS, "status", "LIST", SIMULATE, "only these, such as 200,4xx", NULL},
    {WEIR_CLI_PATH, "path", "PREFIX", SIMULATE, "only paths that begin so", NULL},
    {WEIR_CLI_COST_FIELD, "cost", "FIELD", SIMULATE,
     "of a log: bytes, or a field as of --key (default: 1)", "bytes"},
    {WEIR_CLI_REAL_FIELD, "real", "FIELD", SIMULATE,
     "of a log: its true cost; says what settling would spend", "bytes"},
    {WEIR_CLI_DURATION_FIELD, "duration", "FIELD", SIMULATE,
     "of a log: seconds it took; then --rule is in-flight:N/T", NULL},
    {WEIR_CLI_CLASS_FIELD, "class", "FIELD", SIMULATE,
     "of a log: which of the classes= of a rule it is of", NULL},
    {WEIR_CLI_TENANT_FIELD, "tenant", "FIELD", SIMULATE,
     "its tenant, of a trace key; --rule is shared-window:N/T", "key"},
    {WEIR_CLI_TENANT_FIELD, "tenant", "key", REPLAY,
     "each key is a tenant of one pool, under a shared-window", "key"},
    {WEIR_CLI_TOP, "top", "N", SIMULATE, "say more of the N keys denied most, 1 to 10000", NULL},
    {WEIR_CLI_RECOMMEND, "recommend", "GOAL", SIMULATE,
     "the limit that denies keys:0.1%, not key:NAME, or 0.1%", NULL},
    {WEIR_CLI_GENERATE, "generate", "KIND...", SIMULATE,
     "made up: poisson, bursts and others, as poisson:keys=9",
     "uniform poisson bursts diurnal pages boundary paced"},
    {WEIR_CLI_ATTACK, "attack", NULL, SIMULATE, "look for the requests that over-admit most", NULL},
    {WEIR_CLI_VIA, "via", "URL", BENCH,
     "a server of weir and its limiter: redis://HOST/LIMITER,\nhttp://HOST/LIMITER or "
     "grpc://HOST/DOMAIN/KEY; 8 at most",
     "redis:// http:// grpc://"},
    {WEIR_CLI_THREADS, "threads", "N", BENCH, "of each process, 1 to 256 (default: 1)", NULL},
    {WEIR_CLI_PROCESSES, "processes", "N", BENCH,
     "1 to 64, each with a limiter of its own (default: 1)", NULL},
    {WEIR_CLI_KEYS, "keys", "N", BENCH, "how many keys, used alike (default: 1000)", NULL},
    {WEIR_CLI_HOT, "hot", NULL, BENCH, "one key", NULL},
    {WEIR_CLI_ZIPF, "zipf", NULL, BENCH, "the i-th key as often as 1/i", NULL},
    {WEIR_CLI_BATCH, "batch", "N", BENCH, "requests in one call, 1 to 1024 (default: 1)", NULL},
    {WEIR_CLI_DURATION, "duration", "TIME", BENCH, "of each store, 100ms to 1h (default: 5s)",
     NULL},
    {WEIR_CLI_ROUNDS, "rounds", "N", BENCH, "in so many turns, 1 to 101 (default: 5)", NULL},
    {WEIR_CLI_BASELINE, "baseline", NULL, BENCH,
     "beside each store a raw loop: one increment per decision", NULL},
    {WEIR_CLI_BASELINE_PAIR, "baseline-pair", NULL, BENCH,
     "the same; on Redis SET NX and INCRBY per decision", NULL},
    {WEIR_CLI_PLOT, "plot", "FILE.svg", SIMULATE,
     "draw estimate and truth of the busiest key (by gnuplot)", NULL},
    {WEIR_CLI_PLOT_KEY, "plot-key", "KEY", SIMULATE, "draw that key instead", NULL},
    {WEIR_CLI_PLOT, "plot", "FILE", BENCH, "draw the figures; .svg or .png (by gnuplot)", NULL},
    {WEIR_CLI_JSON, "json", NULL, ALL | CHECK | EXPLAIN, "one JSON object a line", NULL},
    {WEIR_CLI_QUIET, "quiet", NULL, ONE_KEY | LIMIT | DOCTOR,
     "no answer but the exit status, and no warnings", NULL},
    {WEIR_CLI_QUIET, "quiet", NULL, RUN, "no warnings, and no word where no place is free", NULL},
    {WEIR_CLI_QUIET, "quiet", NULL, REPLAY | SIMULATE | BENCH, "no warnings and no progress", NULL},
    {WEIR_CLI_DEADLINE, "deadline", "TIME", (ALL & ~REPLAY) | RUN,
     "longest decision, 1ms to 60s (default: as the store's)", NULL},
    {WEIR_CLI_DEADLINE, "deadline", "TIME", REPLAY, "longest decision, 1ms to 60s (default: 5s)",
     NULL},
    {WEIR_CLI_CLOCK_ERROR, "clock-error", "TIME", ALL | RUN,
     "furthest from true time, 1ms to 60s (default: 10ms)", NULL},
    {WEIR_CLI_PROCESSES, "processes", "N", (ALL & ~(BENCH | REPLAY)) | LIMIT,
     "that may use the same keys, 1 to 100000 (default: 64)", NULL},
    {WEIR_CLI_PROCESSES, "processes", "N", REPLAY,
     "that may use the same keys, 1 to 100000 (default: 1)", NULL},
    {WEIR_CLI_NO_LOCAL_DENIAL, "no-local-denial", NULL, ALL,
     "ask the store even for requests known to be denied", NULL},
    {WEIR_CLI_NO_CACHED_CELLS, "no-cached-cells", NULL, ALL,
     "read finished cells from the store every time", NULL},
    {WEIR_CLI_NO_COMBINING, "no-combining", NULL, ALL,
     "decide requests that meet at a key one after another", NULL},
    {WEIR_CLI_NO_LEASES, "no-leases", NULL, BENCH, "charge nothing ahead, whatever lease= says",
     NULL},
    {WEIR_CLI_NO_LEASES, "no-leases", NULL, ALL & ~BENCH, "accepted: this command never leases",
     NULL},
    {WEIR_CLI_HELP, "help", NULL, EVERY, "say this; also -h", NULL},
};
const size_t weir_cli_options_known_count =
    sizeof weir_cli_options_known / sizeof *weir_cli_options_known;

bool weir_cli_option_of(const weir_cli_option_row *row, const weir_cli_command *command) {
  return row->commands & 1U << (command - weir_cli_commands);
}

const weir_cli_option_row *weir_cli_option_find(const weir_cli_command *command, const char *name,
                                                size_t length) {
  for (size_t i = 0; i < weir_cli_options_known_count; i++) {
    const weir_cli_option_row *row = &weir_cli_options_known[i];
    bool same = strlen(row->name) == length && memcmp(row->name, name, length) == 0;
    if (same && (command == NULL || weir_cli_option_of(row, command))) return row;
  }
  return NULL;
}

const char *weir_cli_option_nearest(const weir_cli_command *command, const char *name,
                                    size_t length) {
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (size_t i = 0; i < weir_cli_options_known_count; i++) {
    const weir_cli_option_row *row = &weir_cli_options_known[i];
    if (weir_cli_option_of(row, command) && weir_word_nearer(name, length, row->name, &distance))
      nearest = row->name;
  }
  return nearest;
}

/* --- help ---------------------------------------------------------------------------------------
 *
 * The program's own words about itself, from the table of commands and options. Headings are bold
 * on terminals. */

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
      "or input, 3 no decision; of doctor: 3 a fault was found; of settle, refund and reset:\n"
      "4 it may have been done, and no answer came.\n",
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
