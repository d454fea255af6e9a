/* next_window [--store memcached|redis] [--row NAME] [--runs N] [--seed N]
 *
 * Processes with leases, 3 ms from their store, ask for one key across the edge of two short windows,
 * so that each charges the second one ahead, while their clocks differ by what clocks may. Two things
 * are checked:
 *
 *   no window has more admitted than its limit, by the stamps of decisions
 *   of what was leased all is used, returned or lost, when all of it was given back
 *
 * `--list` names the rows; without --row all of them run. Each run has a key of its own. A line for
 * each row. Exit code 1: something was over.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/ground.h"
#include "fixture/proxy.h"

enum {
  LIMIT = 2000,
  PERIOD_US = 200000,
  CLOCK_ERROR_US = 10000,
  STARTING_US = 100000,
  BEHIND_US = 80000, /* the edge: when a run is over */
  PROCESSES_MOST = 6,
  WINDOWS_MOST = 16, /* that one process may admit in */
  DENIED_PAUSE_US = 300,
  STOPPED_US = 25000,
  RETURNS_MOST = 20,
  MORE = 5,
  FAR_MS = 3,
  KEY_BYTES = 64
};

typedef struct trial {
  const char *name;
  const char *rule;
  int processes;
  int64_t before_us; /* the edge: when they begin to ask, which opens a quota */
  int64_t cost_most;
  int64_t pause_us; /* after what was admitted */
  bool takes_all;  /* one clock is late; the other early, and takes a whole window as that begins */
  bool is_stopped; /* one process after another is stopped for a while */
} trial;

#define WINDOW "fixed-window:2000/200ms,lease=40ms"
#define QUOTA "quota:2000/200ms,lease=40ms"
static const trial rows[] = {
    {"taken", WINDOW, 2, 150 * MS_US, 4, 1000, true, false},
    {"crowd", WINDOW, 6, 30 * MS_US, LIMIT / 10, 2000, false, false},
    {"stopped", WINDOW, 6, 30 * MS_US, LIMIT / 10, 2000, false, true},
    {"quota-taken", QUOTA, 2, 200 * MS_US, 4, 1000, true, false},
    {"quota-crowd", QUOTA, 6, 200 * MS_US, LIMIT / 20, 10000, false, false},
    {"quota-stopped", QUOTA, 6, 200 * MS_US, LIMIT / 20, 10000, false, true}};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* A window, by the moment at which it ends, and what one process was admitted in it. */
typedef struct admittance {
  int64_t end_us, cost;
} admittance;

typedef struct asker {
  const char *url;
  int64_t off_us; /* its clock */
  uint64_t random;
  admittance windows[WINDOWS_MOST];
  size_t count;
  int64_t admitted, untold; /* untold: its window is not known */
  weir_limiter_counts counts;
  bool is_even;
} asker;

typedef struct shared {
  char key[KEY_BYTES];
  const trial *row;
  int64_t edge_us, end_us;
  asker processes[PROCESSES_MOST];
} shared;

static shared *common;

/* --- a process ----------------------------------------------------------------------------------
 */

static int64_t now_by(void *context) {
  const asker *own = context;
  return real_time_us() + own->off_us;
}

static void note(asker *own, const weir_decision *decision) {
  bool is_quota = common->row->rule[0] == 'q';
  int64_t end_us = (decision->at_us / PERIOD_US + 1) * PERIOD_US;
  own->admitted += decision->cost;
  if (is_quota && decision->reset_after_us == WEIR_NOT_KNOWN) {
    own->untold += decision->cost;
    return;
  }
  if (is_quota) end_us = decision->at_us + decision->reset_after_us;
  size_t at = own->count;
  while (at > 0 && own->windows[at - 1].end_us != end_us)
    at--;
  if (at == 0) {
    if (own->count == WINDOWS_MOST) give_up("a process was admitted in too many windows");
    own->windows[own->count++].end_us = end_us;
    at = own->count;
  }
  own->windows[at - 1].cost += decision->cost;
}

static bool take(asker *own, weir_limiter *limiter, int64_t cost, bool up_to) {
  weir_decision decision = {0};
  size_t length = strlen(common->key);
  weir_status status =
      up_to ? weir_limiter_take_up_to(limiter, common->key, length, cost, &decision, NULL)
            : weir_limiter_take(limiter, common->key, length, cost, &decision, NULL);
  if (status != WEIR_OK || !decision.allowed) return false;
  note(own, &decision);
  return true;
}

static void ask(asker *own, weir_limiter *limiter) {
  const trial *row = common->row;
  bool takes_all = row->takes_all && own->off_us > 0;
  sleep_us(common->edge_us - (takes_all ? own->off_us : row->before_us) - real_time_us());
  if (takes_all) take(own, limiter, LIMIT, true);
  while (real_time_us() < common->end_us) {
    int64_t cost = 1 + (int64_t)(next_number(&own->random) % (uint64_t)row->cost_most);
    sleep_us(take(own, limiter, cost, false) ? row->pause_us : DENIED_PAUSE_US);
  }
}

/* A refill that is under way may be granted behind the first. */
static void give_back(asker *own, weir_limiter *limiter) {
  for (int i = 0; i < RETURNS_MOST && !own->is_even; i++) {
    weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
    weir_limiter_return_leases(limiter, NULL);
    weir_limiter_read_counts(limiter, &counts);
    own->counts = counts;
    own->is_even = counts.leased == counts.lease_used + counts.lease_returned + counts.lease_lost;
    if (!own->is_even) sleep_us(20 * MS_US);
  }
}

static void run_process(void *context) {
  asker *own = context;
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  weir_decision decision;
  weir_limiter_options options = {.size = sizeof options,
                                  .clock = {now_by, own},
                                  .clock_error_us = CLOCK_ERROR_US,
                                  .processes = (uint32_t)common->row->processes,
                                  .fallback = WEIR_FALLBACK_NONE};
  if (weir_store_open(own->url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, common->row->rule, &options, &limiter, &message) != WEIR_OK)
    give_up("%s", message.text);
  weir_limiter_peek(limiter, "warm", 4, 1, &decision, NULL); /* connects */
  ask(own, limiter);
  give_back(own, limiter);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* --- the store ----------------------------------------------------------------------------------
 */

static char urls[PROCESSES_MOST][SERVER_URL_BYTES];

static void carry(void *context) {
  proxy_run(context);
}

/* A way holds up one answer after another: so each process has its own. */
static void start_store(const char *kind) {
  bool is_redis = strcmp(kind, "redis") == 0;
  if (!is_redis && strcmp(kind, "memcached") != 0)
    give_up("--store %s: accepted are memcached, redis", kind);
  struct server *server =
      is_redis ? server_start_redis(SERVER_IPV4, NULL) : server_start_memcached(SERVER_IPV4, NULL);
  for (int i = 0; i < PROCESSES_MOST; i++) {
    struct address address;
    proxy *way = share_memory(sizeof *way);
    if (address_take_port(&address, SERVER_IPV4) != 0) give_up("no port left");
    proxy_listen(way, server, &address, PROXY_OPEN);
    way->delay_ms = FAR_MS;
    start_process(carry, way);
    snprintf(urls[i], SERVER_URL_BYTES, "%s://127.0.0.1:%u", kind, (unsigned)proxy_port(way));
    close(way->listener);
  }
}

/* --- a run --------------------------------------------------------------------------------------
 */

typedef struct totals {
  int over, uneven;
  int64_t most, admitted, untold, leased;
} totals;

static int64_t admitted_until(int64_t end_us) {
  int64_t cost = 0;
  for (int i = 0; i < common->row->processes; i++)
    for (size_t n = 0; n < common->processes[i].count; n++)
      if (common->processes[i].windows[n].end_us == end_us)
        cost += common->processes[i].windows[n].cost;
  return cost;
}

static void add_up(totals *sum) {
  int64_t most = 0;
  bool is_even = true;
  for (int i = 0; i < common->row->processes; i++) {
    const asker *one = &common->processes[i];
    for (size_t n = 0; n < one->count; n++) {
      int64_t admitted = admitted_until(one->windows[n].end_us);
      if (admitted > most) most = admitted;
    }
    sum->admitted += one->admitted;
    sum->untold += one->untold;
    sum->leased += (int64_t)one->counts.leased;
    is_even = is_even && one->is_even;
  }
  sum->over += most > LIMIT;
  sum->uneven += !is_even;
  if (most > sum->most) sum->most = most;
}

static void stop_some(const pid_t *pids, uint64_t *random) {
  while (common->row->is_stopped && real_time_us() < common->end_us) {
    pid_t pid = pids[next_number(random) % (uint64_t)common->row->processes];
    sleep_us((int64_t)(next_number(random) % STOPPED_US));
    kill(pid, SIGSTOP);
    sleep_us((int64_t)(next_number(random) % STOPPED_US));
    kill(pid, SIGCONT);
  }
}

static void run_once(const trial *row, int number, uint64_t *random, totals *sum) {
  pid_t pids[PROCESSES_MOST];
  int64_t soonest_us = real_time_us() + STARTING_US + row->before_us;
  int64_t edge_us = (soonest_us / PERIOD_US + 1) * PERIOD_US;
  *common = (shared){.row = row, .edge_us = edge_us, .end_us = edge_us + BEHIND_US};
  snprintf(common->key, KEY_BYTES, "%s-%ld-%d", row->name, (long)getpid(), number);
  for (int i = 0; i < row->processes; i++) {
    asker *one = &common->processes[i];
    int64_t off_us = (int64_t)(next_number(random) % (2 * CLOCK_ERROR_US)) - CLOCK_ERROR_US;
    if (row->takes_all) off_us = i % 2 == 0 ? -CLOCK_ERROR_US : CLOCK_ERROR_US;
    *one = (asker){.url = urls[i], .off_us = off_us, .random = next_number(random)};
    pids[i] = start_process(run_process, one);
  }
  stop_some(pids, random);
  for (int i = 0; i < row->processes; i++)
    if (!await_process(pids[i], 30 * SECOND_US)) give_up("a process ended early");
  add_up(sum);
}

/* --- arguments ----------------------------------------------------------------------------------
 */

static struct {
  const char *store, *row;
  int runs;
  uint64_t seed;
} settings = {.store = "memcached", .runs = 20, .seed = 1};

/* On a machine that is too busy a run may come to no lease: then there are more. False: it was over, or did
 * not come to what is tried. */
static bool run_row(const trial *row) {
  totals sum = {0};
  uint64_t random = settings.seed * UINT64_C(0x9e3779b97f4a7c15);
  int number = 0;
  for (; number < settings.runs || (sum.leased == 0 && number < MORE * settings.runs); number++)
    run_once(row, number, &random, &sum);
  printf("%s, %s: %d runs, %d over, at most %" PRId64 " of %d in a window, %d uneven; %" PRId64
         " admitted, %" PRId64 " untold, %" PRId64 " leased\n",
         settings.store, row->name, number, sum.over, sum.most, LIMIT, sum.uneven, sum.admitted,
         sum.untold, sum.leased);
  fflush(stdout);
  return sum.over == 0 && sum.uneven == 0 && sum.leased > 0 && sum.untold * 10 <= sum.admitted;
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i < count; i += 2) {
    const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
    if (strcmp(name, "--list") == 0) {
      for (size_t n = 0; n < ROWS; n++)
        printf("%s\n", rows[n].name);
      exit(0);
    }
    if (value != NULL && strcmp(name, "--store") == 0)
      settings.store = value;
    else if (value != NULL && strcmp(name, "--row") == 0)
      settings.row = value;
    else if (value != NULL && strcmp(name, "--runs") == 0)
      settings.runs = (int)strtol(value, NULL, 10);
    else if (value != NULL && strcmp(name, "--seed") == 0)
      settings.seed = strtoull(value, NULL, 10);
    else
      give_up("usage: next_window [--store memcached|redis] [--row NAME] [--runs N] [--seed N]");
  }
}

int main(int count, char **arguments) {
  bool good = true;
  size_t found = 0;
  read_arguments(count, arguments);
  start_store(settings.store);
  common = share_memory(sizeof *common);
  for (size_t i = 0; i < ROWS; i++) {
    if (settings.row != NULL && strcmp(settings.row, rows[i].name) != 0) continue;
    found++;
    good = run_row(&rows[i]) && good;
  }
  if (found == 0) give_up("--row %s: there is no such row; see --list", settings.row);
  return good ? 0 : 1;
}
