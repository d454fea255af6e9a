/* The options: whose they are, and what is said of each. options.c says which values they take. */
#include <string.h>

#include <weir/word.h>

#include "tables.h"

enum {
  TAKE = 1 << WEIR_CLI_TAKE,
  PEEK = 1 << WEIR_CLI_PEEK,
  REFUND = 1 << WEIR_CLI_REFUND,
  SETTLE = 1 << WEIR_CLI_SETTLE,
  RESET = 1 << WEIR_CLI_RESET,
  RUN = 1 << WEIR_CLI_RUN,
  REPLAY = 1 << WEIR_CLI_REPLAY,
  SIMULATE = 1 << WEIR_CLI_SIMULATE,
  BENCH = 1 << WEIR_CLI_BENCH,
  DOCTOR = 1 << WEIR_CLI_DOCTOR,
  ONE_KEY = TAKE | PEEK | REFUND | SETTLE | RESET,
  ALL = ONE_KEY | REPLAY | SIMULATE | BENCH | DOCTOR, /* what decides, and not what serves */
  EVERY = (1 << WEIR_CLI_COMMANDS) - 1,
#ifdef WEIR_HAS_SERVE
  CHECK = 1 << WEIR_CLI_CHECK
#else
  CHECK = 0
#endif
};

#define SCHEMES                                                                            \
  "memory: memcached:// memcached+unix:// memcacheds:// redis:// redis+unix:// rediss:// " \
  "redis+sentinel:// rediss+sentinel://"
#define ALGORITHMS \
  "fixed-window: sliding-window: sliding-log: quota: token-bucket: leaky-bucket: in-flight:"

const weir_cli_option_row weir_cli_options_known[] = {
    {WEIR_CLI_STORE, "store", "URL", ONE_KEY | RUN | DOCTOR,
     "where counts live (default: $WEIR_STORE)", SCHEMES},
    {WEIR_CLI_STORE, "store", "URL", REPLAY,
     "where counts live (default: $WEIR_STORE, else memory:)", SCHEMES},
    {WEIR_CLI_STORE, "store", "URL", SIMULATE, "accepted, and plays no part", SCHEMES},
    {WEIR_CLI_STORE, "store", "URL", BENCH,
     "what is compared, up to 8 times\n(default: $WEIR_STORE, else memory:)", SCHEMES},
    {WEIR_CLI_RULE, "rule", "RULE", ONE_KEY | REPLAY,
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
    {WEIR_CLI_WAIT, "wait", "TIME", TAKE, "sleep up to TIME, 0s to 30m, until it is allowed", NULL},
    {WEIR_CLI_AT, "at", "US", REFUND | SETTLE,
     "when it was taken: at_us of take --json (default: now)", NULL},
    {WEIR_CLI_COST, "cost", "N", RUN, "how many places it takes, 1 to 2147483648 (default: 1)",
     NULL},
    {WEIR_CLI_KEY, "key", "KEY", RUN, "what so many run of at once; it must be given", NULL},
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
    {WEIR_CLI_TOP, "top", "N", SIMULATE, "say more of the N keys denied most, 1 to 10000", NULL},
    {WEIR_CLI_RECOMMEND, "recommend", "GOAL", SIMULATE,
     "the limit that denies keys:0.1%, not key:NAME, or 0.1%", NULL},
    {WEIR_CLI_GENERATE, "generate", "KIND...", SIMULATE,
     "made up: uniform, poisson, bursts, diurnal, pages,\n"
     "boundary, paced; behind a : requests=, keys=, load=, seed=",
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
    {WEIR_CLI_JSON, "json", NULL, ALL | CHECK, "one JSON object a line", NULL},
    {WEIR_CLI_QUIET, "quiet", NULL, ONE_KEY | DOCTOR,
     "no answer but the exit status, and no warnings", NULL},
    {WEIR_CLI_QUIET, "quiet", NULL, RUN, "no warnings, and no word where no place is free", NULL},
    {WEIR_CLI_QUIET, "quiet", NULL, REPLAY | SIMULATE | BENCH, "no warnings and no progress", NULL},
    {WEIR_CLI_DEADLINE, "deadline", "TIME", (ALL & ~REPLAY) | RUN,
     "longest decision, 1ms to 60s (default: as the store's)", NULL},
    {WEIR_CLI_DEADLINE, "deadline", "TIME", REPLAY, "longest decision, 1ms to 60s (default: 5s)",
     NULL},
    {WEIR_CLI_CLOCK_ERROR, "clock-error", "TIME", ALL | RUN,
     "furthest from true time, 1ms to 60s (default: 10ms)", NULL},
    {WEIR_CLI_PROCESSES, "processes", "N", ALL & ~(BENCH | REPLAY),
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
