/* shares --store URL [--load NAME] [--seed N] [--others N] [--floors PERCENT] [--cells N] [--cell MS] [--rate N]
 *        [--seconds N] [--kills] [--used PERCENT] [--least PERCENT] [--most PERCENT] [--lease MS] [--turns N]
 *
 * Eight processes, whose clocks differ, ask for the tenants of one pool of 1000/s (--rate) in 30 cells of
 * 500 ms (--cells, --cell). What is checked:
 *
 *   never more than the limit in any W of decision stamps, by those who live and those who died
 *   a tenant that asked for no more than its floor in a cell was denied nothing there; of those that are not
 *   named one in a hundred may be
 *   from the second window on, so much of what max-min fairness by cells would use was used: --used
 *   and each tenant that asked got so much of what that would give it: --least
 *   and none more than so much of that: --most PERCENT
 *
 * The first two hold on any machine, in each run. How fair it was does not: with --turns N, what a busy machine has
 * missed is tried again, N times in all.
 *
 * With --lease floors are charged ahead, of which no process here holds so much that another is denied; and some
 * requests are admitted from them.
 *
 *   pair    two tenants of one weight, floors of 80 %: a asks for 300 % of the limit, b for 40 % of its half
 *   crowd   ten tenants, floors of 50 %: one asks for 300 %, the others for their part, half of it, or twice
 *   many    a hundred tenants, floors of 50 %: one asks for 300 %, the others for a tenth of their floors
 *   all     a hundred tenants, floors of 50 %: nine ask for ten times their part, the others for twice
 *   bursts  ten tenants that ask for three times their part, in bursts
 *   threes  the same in bursts of 3 s, and 12 s without: 60 % of the limit in all
 *   random  two to a hundred tenants, by --seed: one asks for 300 %, others for nothing, for up to twice their part,
 *           or for up to five times it in bursts of 2 s to 20 s; some weigh up to 4
 *
 *   soak    twenty tenants, floors of 50 %, in bursts: one asks for 300 %, others for their part to four times
 *           as much; for ten minutes, with --kills
 *
 * With --kills a process is killed every 300 ms, and another takes its place. With --others the last N of the tenants
 * are not named: they have others=N together. URL may be the name of an environment variable. Exit code 0 only if
 * all of that holds. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

#include "algorithm/shared.h"
#include "faults/bound.h"
#include "faults/ground.h"
#include "rule/rule.h"
#include "store/store.h"

enum {
  PROCESSES = 8,
  TENANTS_MOST = 100,
  LISTED = 10, /* of what tenants ask for; the others ask as the last */
  FEW = 20,    /* of a part that is smaller, one request would be much */
  NOTES_MOST = 1 << 23,
  CELLS_MOST = 4096,
  BATCH = 64,
  CLOCK_ERROR_US = 10000,
  DEADLINE_US = 60000,
  KILLED_EACH_US = 300000,
  URL_BYTES = 512,
  RULE_BYTES = 1024,
  KEY_BYTES = 64,
  NAME_BYTES = 16
};

/* One request that had its answer, or none: then the stamp is the time at which it was asked. */
typedef struct note {
  int64_t at_us;
  uint8_t tenant, admitted, answered, whole; /* the last one is written last */
} note;

static struct {
  char key[KEY_BYTES];
  _Atomic size_t used;
  _Atomic uint64_t operations, round_trips, lease_used; /* of all */
  note notes[NOTES_MOST];
} * common;

typedef struct load {
  const char *name;
  int floors, tenants;
  double asks[LISTED]; /* of the limit */
  double on_s, off_s;  /* of bursts; 0: always */
  int64_t seconds;     /* it lasts, unless told; 0: as others */
} load;

static const load loads[] = {
    {"pair", 80, 2, {3, 0.2}, 0, 0, 0},
    {"crowd", 50, 10, {3, 0.1, 0.1, 0.05, 0.05, 0.05, 0.2, 0.2, 0.02, 0.02}, 0, 0, 0},
    {"many", 50, 100, {3, .0005, .0005, .0005, .0005, .0005, .0005, .0005, .0005, .0005}, 0, 0, 0},
    {"all", 50, 100, {.1, .1, .1, .1, .1, .1, .1, .1, .1, .02}, 0, 0, 0},
    {"bursts", 50, 10, {0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, 1.5, 3, 0},
    {"threes", 50, 10, {0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, 3, 12, 0},
    {"random", 50, 0, {0}, 0, 0, 0},
    {"soak", 50, 20, {3, .2, .2, .2, .1, .1, .05, .05, .02, .05}, 5, 4, 600},
};

/* What one asks for. */
typedef struct tenant {
  char name[NAME_BYTES];
  int weight;                      /* 0: it is not named */
  double asks;                     /* of the limit; in bursts, while they last */
  int64_t on_us, off_us, phase_us; /* of bursts; 0: always */
} tenant;

static struct {
  char url[URL_BYTES];
  const load *load;
  char text[RULE_BYTES];
  tenant tenants[TENANTS_MOST];
  int count;  /* of them, ... */
  int others; /* ... and of these the last ones, that are not named */
  weir_rule rule;
  int64_t cells, cell_ms, rate, seconds, floors, lease_ms, turns;
  uint64_t seed;
  bool kills;
  double used, least;
} settings = {
    .load = loads, .cells = 30, .cell_ms = 500, .rate = 1000, .turns = 1, .used = 90, .least = 80};

/* --- a child ------------------------------------------------------------------------------------
 */

/* Clocks are apart by nearly all that they may be. */
static int64_t skewed_us(void *context) {
  int number = *(int *)context;
  return real_time_us() + (number % 3 - 1) * (CLOCK_ERROR_US - 1000);
}

static double wait_s(uint64_t *random, double rate) {
  return -log((double)(next_number(random) % 1000000 + 1) / 1000001) / rate;
}

/* When each tenant asks next through this process. Bursts are the same in all processes. */
typedef struct schedule {
  uint64_t random;
  int64_t next_us[TENANTS_MOST];
} schedule;

static bool in_burst(const tenant *of, int64_t at_us) {
  return of->on_us == 0 || (at_us + of->phase_us) % (of->on_us + of->off_us) < of->on_us;
}

static void advance(schedule *when, int number) {
  const tenant *of = &settings.tenants[number];
  double rate =
      of->asks * (double)settings.rule.limit / ((double)settings.rule.period_us / 1e6) / PROCESSES;
  do
    when->next_us[number] += 1 + (int64_t)(1e6 * wait_s(&when->random, rate));
  while (!in_burst(of, when->next_us[number]));
}

/* Before they are asked: a process that is killed may have charged them. */
static note *begin_notes(const int *tenants, size_t count, int64_t asked_us) {
  size_t place = atomic_fetch_add(&common->used, count);
  if (place + count > NOTES_MOST) give_up("too many notes");
  for (size_t i = 0; i < count; i++) {
    note *to = &common->notes[place + i];
    *to = (note){.at_us = asked_us, .tenant = (uint8_t)tenants[i]};
    atomic_thread_fence(memory_order_release);
    to->whole = 1;
  }
  return &common->notes[place];
}

static void end_notes(note *to, const weir_request *requests, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (requests[i].status != WEIR_OK) continue;
    to[i].at_us = requests[i].decision.at_us;
    to[i].admitted = requests[i].decision.allowed;
    to[i].answered = 1;
  }
}

static void ask(weir_limiter *limiter, schedule *when) {
  weir_request requests[BATCH];
  weir_extra extras[BATCH];
  const weir_extra *of[BATCH];
  weir_limiter *limiters[BATCH];
  int tenants[BATCH];
  size_t count = 0;
  int64_t now_us = real_time_us(), next_us = INT64_MAX;
  for (int i = 0; i < settings.count; i++) {
    for (; when->next_us[i] <= now_us && count < BATCH; count++) {
      requests[count] =
          (weir_request){.key = common->key, .key_length = strlen(common->key), .cost = 1};
      extras[count] = (weir_extra)WEIR_EXTRA_INIT;
      extras[count].tenant = settings.tenants[i].name;
      extras[count].tenant_length = strlen(settings.tenants[i].name);
      of[count] = &extras[count];
      limiters[count] = limiter;
      tenants[count] = i;
      advance(when, i);
    }
    if (when->next_us[i] < next_us) next_us = when->next_us[i];
  }
  if (count == 0) {
    sleep_us(next_us - now_us < 2000 ? next_us - now_us : 2000);
    return;
  }
  note *notes = begin_notes(tenants, count, now_us);
  weir_decide_extra(limiters, requests, of, count, NULL);
  end_notes(notes, requests, count);
}

/* The store's own backend, with all that it executes counted. */
static const weir_backend *executes;

static void count_and_execute(void *handle, weir_operation *operations, size_t count,
                              int64_t deadline_us, weir_message *message) {
  atomic_fetch_add(&common->operations, count);
  atomic_fetch_add(&common->round_trips, 1);
  executes->exec(handle, operations, count, deadline_us, message);
}

static void count_operations(weir_store *store) {
  static weir_backend counted;
  executes = store->backend;
  counted = *executes;
  counted.exec = count_and_execute;
  store->backend = &counted;
}

/* Of what this process was admitted from lots, what is new. */
static void count_lots(const weir_limiter *limiter) {
  static uint64_t counted;
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  if (settings.lease_ms == 0) return;
  weir_limiter_read_counts(limiter, &counts);
  atomic_fetch_add(&common->lease_used, counts.lease_used - counted);
  counted = counts.lease_used;
}

static void run_child(void *context) {
  int number = *(int *)context;
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  weir_limiter_options options = {.size = sizeof options,
                                  .deadline_us = DEADLINE_US,
                                  .clock_error_us = CLOCK_ERROR_US,
                                  .clock = {skewed_us, &number},
                                  .processes = PROCESSES,
                                  .fallback = WEIR_FALLBACK_NONE};
  schedule when = {.random = (uint64_t)getpid() * 977 + 1};
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, settings.text, &options, &limiter, &message) != WEIR_OK)
    give_up("%s", message.text);
  count_operations(store);
  for (int i = 0; i < settings.count; i++)
    when.next_us[i] = settings.tenants[i].asks > 0 ? real_time_us() : INT64_MAX;
  for (;;) {
    ask(limiter, &when);
    count_lots(limiter);
  }
}

/* --- the parent ---------------------------------------------------------------------------------
 */

/* What was admitted, in the worst period. */
static worst worst_period(const note *notes, size_t count) {
  promise given = promise_of(&settings.rule, 1, 0, 0);
  admission *admissions = calloc(count, sizeof *admissions);
  size_t admitted = 0;
  if (admissions == NULL) give_up("no memory");
  for (size_t i = 0; i < count; i++)
    if (notes[i].admitted) admissions[admitted++] = (admission){notes[i].at_us, 1};
  worst found = find_worst(&given, admissions, admitted, NULL, 0);
  free(admissions);
  return found;
}

/* By cell and tenant. What had no answer in time was asked for, and is neither got nor denied. */
static int asked[CELLS_MOST][TENANTS_MOST], got[CELLS_MOST][TENANTS_MOST],
    denied[CELLS_MOST][TENANTS_MOST];

/* Those that are not named share one weight in each cell. */
static void weigh(const int wanted[], double weights[]) {
  int others = 0;
  for (int i = 0; i < settings.count; i++)
    others += settings.tenants[i].weight == 0 && wanted[i] > 0;
  for (int i = 0; i < settings.count; i++) {
    int weight = settings.tenants[i].weight;
    weights[i] = weight > 0 || others == 0 ? weight : (double)settings.others / others;
  }
}

/* What max-min fairness gives each tenant of a cell. */
static void fill(const int wanted[], double room, double share[]) {
  double weights[TENANTS_MOST], all = 0;
  bool done[TENANTS_MOST] = {false};
  weigh(wanted, weights);
  for (int i = 0; i < settings.count; i++)
    if (wanted[i] > 0)
      all += weights[i];
    else
      done[i] = true;
  for (bool again = true; again && all > 0;) {
    double level = room / all;
    again = false;
    for (int i = 0; i < settings.count; i++) {
      if (!done[i]) share[i] = level * weights[i];
      if (done[i] || wanted[i] > share[i]) continue;
      share[i] = wanted[i];
      room -= wanted[i];
      all -= weights[i];
      done[i] = again = true;
    }
  }
}

static int64_t first_cell; /* of all */

/* Whoever had an answer in an epoch. Who had none may not have reached the store. */
static bool was_seen(int i, int64_t epoch) {
  for (int64_t cell = epoch * WEIR_EPOCH_CELLS; cell < (epoch + 1) * WEIR_EPOCH_CELLS; cell++)
    if (cell >= first_cell && got[cell - first_cell][i] + denied[cell - first_cell][i] > 0)
      return true;
  return false;
}

/* One that is not named has what so many have who were there in the epoch before. */
static int64_t floor_in(int cell, int i, int64_t sharers) {
  int64_t weight = settings.tenants[i].weight;
  if (weight > 0) return weir_rule_floor(&settings.rule, weight);
  return was_seen(i, (cell + first_cell) / WEIR_EPOCH_CELLS - 1)
             ? weir_other_floor(&settings.rule, sharers)
             : 0;
}

static int64_t sharers_in(int cell) {
  int64_t count = 0;
  for (int i = settings.count - settings.others; i < settings.count; i++)
    count += was_seen(i, (cell + first_cell) / WEIR_EPOCH_CELLS - 1);
  return count;
}

/* What had no answer may be charged in the cell before or behind that of its time here, as clocks differ and time
 * goes by: as far as that may be, more was asked in this cell. */
static int astray(int cell, int i) {
  int sum = 0;
  for (int near = cell - 1; near <= cell + 1; near += 2)
    if (near >= 0 && near < CELLS_MOST) sum += asked[near][i] - got[near][i] - denied[near][i];
  return sum;
}

/* Of cells in which a tenant asked within its floor, those in which it was denied; [1]: of those not named. */
static void find_denied(int cells, int within[2], int refused[2]) {
  for (int cell = 0; cell < cells; cell++) {
    int64_t sharers = sharers_in(cell);
    for (int i = 0; i < settings.count; i++) {
      bool other = settings.tenants[i].weight == 0;
      if (asked[cell][i] == 0 || asked[cell][i] + astray(cell, i) > floor_in(cell, i, sharers))
        continue;
      within[other] += asked[cell][i];
      refused[other] += denied[cell][i];
    }
  }
}

static int collect(const note *notes, size_t count, size_t *failed) {
  int cells = 0;
  int64_t first = INT64_MAX;
  for (size_t i = 0; i < count; i++)
    if (notes[i].at_us / settings.rule.cell_us < first)
      first = notes[i].at_us / settings.rule.cell_us;
  first_cell = first;
  for (size_t i = 0; i < count; i++) {
    int64_t cell = notes[i].at_us / settings.rule.cell_us - first;
    if (cell >= CELLS_MOST) give_up("too many cells");
    if (cell >= cells) cells = (int)cell + 1;
    asked[cell][notes[i].tenant]++;
    got[cell][notes[i].tenant] += notes[i].admitted;
    denied[cell][notes[i].tenant] += notes[i].answered && !notes[i].admitted;
    *failed += !notes[i].answered;
  }
  return cells;
}

/* --most PERCENT: no tenant got more of its part. */
static double most_of_part = INFINITY;

/* The first window is not measured, nor the last cell, which is not whole. */
static bool is_fair(int cells) {
  double luckiest = 0;
  double used = 0, could = 0, least = 1e9, of[TENANTS_MOST] = {0}, each[TENANTS_MOST] = {0};
  for (int cell = settings.rule.cells + 1; cell < cells - 1; cell++) {
    double share[TENANTS_MOST] = {0};
    fill(asked[cell], (double)settings.rule.limit / settings.rule.cells, share);
    for (int i = 0; i < settings.count; i++) {
      used += got[cell][i];
      could += share[i];
      each[i] += got[cell][i];
      of[i] += share[i];
    }
  }
  int unlucky = -1;
  for (int i = 0; i < settings.count; i++) {
    if (of[i] <= FEW) continue;
    if (each[i] / of[i] < least) unlucky = i;
    if (each[i] / of[i] < least) least = each[i] / of[i];
    if (each[i] / of[i] > luckiest) luckiest = each[i] / of[i];
  }
  if (unlucky < 0) {
    printf("  no tenant's part was above %d\n", FEW);
    return false;
  }
  const tenant *it = &settings.tenants[unlucky];
  printf(
      "  used %.1f %% of max-min, the least lucky tenant got %.1f %% of its part (%s: %.0f of "
      "%.0f; it asks "
      "for %.3f of the limit, %.1f s of %.1f s):",
      100 * used / could, 100 * least, it->name, each[unlucky], of[unlucky], it->asks,
      (double)it->on_us / 1e6, (double)(it->on_us + it->off_us) / 1e6);
  for (int i = 0; i < settings.count && i < LISTED; i++)
    printf(" %.0f", of[i] > 0 ? 100 * each[i] / of[i] : 0.0);
  printf("\n");
  if (100 * luckiest > most_of_part) return false;
  return 100 * used / could >= settings.used && 100 * least >= settings.least;
}

/* Whether all held that holds on any machine. */
static bool report(int killed, bool *fair) {
  size_t count = 0, failed = 0, all = common->used;
  int within[2] = {0}, refused[2] = {0};
  for (size_t i = 0; i < all; i++)
    if (common->notes[i].whole) common->notes[count++] = common->notes[i];
  if (count == 0) give_up("nothing was asked");
  int cells = collect(common->notes, count, &failed);
  worst most = worst_period(common->notes, count);
  find_denied(cells, within, refused);
  printf(
      "%s, %d tenants, %.60s on %s: %zu asked, %zu without an answer, %d killed; at most %" PRId64
      " of %" PRId64 " in a period; %d of %d within floors denied",
      settings.load->name, settings.count, settings.text, settings.url, count, failed, killed,
      most.admitted, most.bound, refused[0], within[0]);
  if (settings.others > 0) printf(", and %d of %d not named", refused[1], within[1]);
  printf("\n");
  printf("  %.2f operations and %.2f round trips a decision, %.0f decisions a process and cell\n",
         (double)common->operations / (double)count, (double)common->round_trips / (double)count,
         (double)count / PROCESSES / cells);
  if (settings.lease_ms > 0) printf("  %" PRIu64 " admitted from lots\n", common->lease_used);
  *fair = is_fair(cells) && (settings.lease_ms == 0 || common->lease_used > 0);
  return most.excess <= 0 && refused[0] == 0 && 100 * refused[1] <= within[1];
}

/* --- what is asked for --------------------------------------------------------------------------
 */

static double uniform(uint64_t *random) {
  return (double)(next_number(random) % 1000000) / 1e6;
}

static void make_listed(const load *from) {
  settings.count = from->tenants;
  for (int i = 0; i < settings.count; i++) {
    int64_t on_us = (int64_t)(from->on_s * 1e6), off_us = (int64_t)(from->off_s * 1e6);
    settings.tenants[i] = (tenant){.weight = 1,
                                   .asks = from->asks[i < LISTED ? i : LISTED - 1],
                                   .on_us = on_us,
                                   .off_us = off_us + i * 100000,
                                   .phase_us = i * 1300000};
  }
}

/* One of the many who do not ask for it all: `part` is what each of so many would have. */
static tenant make_random(uint64_t *random, double part) {
  double kind = uniform(random), more = uniform(random);
  tenant made = {.weight = uniform(random) < 0.3 ? 1 + (int)(4 * uniform(random)) : 1};
  if (kind >= 0.3) made.asks = part * (0.1 + 0.6 * more);
  if (kind >= 0.5) made.asks = part * (0.8 + 1.2 * more);
  if (kind < 0.7) return made;
  made.asks = part * (1 + 4 * more);
  made.on_us = (int64_t)(1e6 * (2 + 18 * uniform(random)));
  made.off_us = (int64_t)(1e6 * (2 + 28 * uniform(random)));
  made.phase_us = (int64_t)(60e6 * uniform(random));
  return made;
}

static void make_tenants(void) {
  uint64_t random = settings.seed * 7919 + 1;
  for (int i = 0; i < 20; i++)
    (void)next_number(&random);
  if (settings.load->tenants > 0) {
    make_listed(settings.load);
  } else {
    double few = uniform(&random) * uniform(&random);
    settings.count = 2 + (int)(few * (TENANTS_MOST - 1));
    for (int i = 0; i < settings.count; i++)
      settings.tenants[i] = make_random(&random, 1.0 / settings.count);
    settings.tenants[(int)(uniform(&random) * settings.count)] = (tenant){.weight = 1, .asks = 3};
  }
  if (settings.others > settings.count) settings.others = settings.count;
  for (int i = 0; i < settings.count; i++) {
    snprintf(settings.tenants[i].name, NAME_BYTES, "t%d", i);
    if (i >= settings.count - settings.others) settings.tenants[i].weight = 0;
  }
}

static void write_rule(void) {
  int64_t period_ms = settings.cells * settings.cell_ms;
  int64_t floors = settings.floors > 0 ? settings.floors : settings.load->floors;
  int used =
      snprintf(settings.text, RULE_BYTES,
               "shared-window:%" PRId64 "/%" PRId64 "ms,cells=%" PRId64 ",floors=%" PRId64 "%%",
               settings.rate * period_ms / 1000, period_ms, settings.cells, floors);
  if (settings.others > 0)
    used +=
        snprintf(settings.text + used, RULE_BYTES - (size_t)used, ",others=%d", settings.others);
  for (int i = 0; i < settings.count - settings.others; i++)
    used +=
        snprintf(settings.text + used, RULE_BYTES - (size_t)used, "%s%s:%d",
                 i > 0 ? "|" : ",weights=", settings.tenants[i].name, settings.tenants[i].weight);
  if (settings.lease_ms > 0)
    snprintf(settings.text + used, RULE_BYTES - (size_t)used, ",lease=%" PRId64 "ms",
             settings.lease_ms);
}

static void read_number(const char *name, const char *given, const char *value, int64_t *number) {
  if (strcmp(given, name) == 0) *number = strtol(value, NULL, 10);
}

static const char *read_arguments(int count, char **arguments) {
  const char *url = NULL;
  int64_t seed = 1, others = 0;
  for (int i = 1; i < count; i++) {
    const char *given = arguments[i], *value = i + 1 < count ? arguments[i + 1] : "";
    if (strcmp(given, "--store") == 0) url = value;
    read_number("--seconds", given, value, &settings.seconds);
    read_number("--cells", given, value, &settings.cells);
    read_number("--cell", given, value, &settings.cell_ms);
    read_number("--rate", given, value, &settings.rate);
    read_number("--floors", given, value, &settings.floors);
    read_number("--turns", given, value, &settings.turns);
    read_number("--seed", given, value, &seed);
    read_number("--others", given, value, &others);
    read_number("--lease", given, value, &settings.lease_ms);
    if (strcmp(given, "--used") == 0) settings.used = strtod(value, NULL);
    if (strcmp(given, "--least") == 0) settings.least = strtod(value, NULL);
    if (strcmp(given, "--most") == 0) most_of_part = strtod(value, NULL);
    if (strcmp(given, "--kills") == 0) settings.kills = true;
    for (size_t n = 0; n < sizeof loads / sizeof loads[0]; n++)
      if (strcmp(given, "--load") == 0 && strcmp(value, loads[n].name) == 0)
        settings.load = &loads[n];
  }
  settings.seed = (uint64_t)seed;
  settings.others = (int)(others < TENANTS_MOST ? others : TENANTS_MOST);
  return url;
}

static void set_up(int count, char **arguments) {
  weir_message message = {""};
  weir_stack stack;
  const char *url = read_arguments(count, arguments);
  bool lasts = settings.load->seconds > 0;
  if (settings.seconds == 0) settings.seconds = lasts ? settings.load->seconds : 45;
  settings.kills = settings.kills || lasts;
  if (url != NULL && getenv(url) != NULL) url = getenv(url);
  if (url == NULL || settings.seconds < 1)
    give_up(
        "usage: shares --store URL [--load NAME] [--seed N] [--others N] [--floors PERCENT]\n"
        "       [--cells N] [--cell MS] [--rate N] [--seconds N] [--kills]\n"
        "       [--used PERCENT] [--least PERCENT] [--most PERCENT] [--lease MS]\n"
        "       [--turns N]");
  snprintf(settings.url, URL_BYTES, "%s", url);
  make_tenants();
  write_rule();
  if (weir_stack_parse(settings.text, PROCESSES, &stack, &message) != WEIR_OK)
    give_up("%s", message.text);
  settings.rule = stack.rules[0];
}

static bool play(int turn, bool *fair) {
  pid_t processes[PROCESSES];
  int numbers[PROCESSES], killed = 0;
  common = share_memory(sizeof *common);
  snprintf(common->key, KEY_BYTES, "shares-%ld-%d", (long)getpid(), turn);
  memset(asked, 0, sizeof asked);
  memset(got, 0, sizeof got);
  memset(denied, 0, sizeof denied);
  for (int i = 0; i < PROCESSES; i++) {
    numbers[i] = i;
    processes[i] = start_process(run_child, &numbers[i]);
  }
  int64_t end_us = real_time_us() + settings.seconds * SECOND_US;
  uint64_t random = 1;
  while (real_time_us() < end_us) {
    sleep_us(KILLED_EACH_US);
    if (!settings.kills) continue;
    int victim = (int)(next_number(&random) % PROCESSES);
    end_process(processes[victim]);
    processes[victim] = start_process(run_child, &numbers[victim]);
    killed++;
  }
  for (int i = 0; i < PROCESSES; i++)
    end_process(processes[i]);
  bool kept = report(killed, fair);
  unshare_memory(common, sizeof *common);
  return kept;
}

int main(int count, char **arguments) {
  bool kept = true, fair = false;
  set_up(count, arguments);
  for (int turn = 0; kept && !fair && turn < settings.turns; turn++)
    kept = play(turn, &fair);
  return kept && fair ? 0 : 1;
}
