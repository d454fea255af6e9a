/* outage_seeds [--row NAME[,NAME...]] [--seeds N] [--seed FIRST] [--busy MS] [--resets PPM] [--brief]
 *
 * The rows of outage_hunt in virtual time: eight processes with clocks of their own, the library's
 * limiters and the wire's breaker, before a server of the test's. What happens, and when, is drawn from
 * the seed: so a seed that shows a fault shows it again, on any machine.
 *
 *   --busy      all processes and the server are held up again and again, for so long on average
 *   --resets    of a million messages so many lose their connection; half of these are executed
 *   --brief     shorter runs
 *
 * A line for each figure of a lane; exit code 1: over a goal. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "faults/ground.h"
#include "limiter/account.h"
#include "limiter/limiter.h"
#include "outage/alone.h"
#include "outage/callers.h"
#include "outage/figures.h"
#include "outage/rows.h"
#include "outage/trouble.h"
#include "scale/fiber.h"
#include "scale/virtual.h"

#define EPOCH_US (INT64_C(1600000000) * SECOND_US)

enum { SEEDS_MOST = 100000, SKEW_US = 4000, WAY_US = 60, RUN_US = 30000, NAME_BYTES = 64 };

static struct {
  const char *row_names;
  int64_t seeds, seed, resets_ppm, busy_ms;
  bool is_brief;
} settings = {.seeds = 100, .seed = 1};

/* --- what the hunt stands on, in virtual time --------------------------------------------------
 */

_Noreturn void give_up(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("given up: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(2);
}

int64_t real_time_us(void) {
  return EPOCH_US + virtual_now_us();
}

void sleep_us(int64_t us) {
  if (us > 0) virtual_wait(&us, virtual_now_us() + us);
}

uint64_t next_number(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  *state = x;
  return x * UINT64_C(0x2545F4914F6CDD1D);
}

void *share_memory(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("no %zu bytes of memory", bytes);
  return memory;
}

void unshare_memory(void *memory, size_t bytes) {
  munmap(memory, bytes);
}

static struct server *the_server;

/* The only ones that the faults of the hunt start are those that keep the machine busy. */
pid_t start_process(void (*run)(void *context), void *context) {
  (void)run;
  (void)context;
  trouble_busy(the_server, true);
  return 0;
}

void end_process(pid_t process) {
  (void)process;
  trouble_busy(the_server, false);
}

/* The places of keys in tables. */
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags) {
  (void)flags;
  for (size_t i = 0; i < count; i++)
    ((unsigned char *)bytes)[i] = (unsigned char)virtual_below(256);
  return (ssize_t)count;
}

/* --- a run -------------------------------------------------------------------------------------
 */

struct process {
  struct wire wire;
  struct callers *callers;
  weir_store *store;
  int64_t ahead_us; /* its clock */
};

struct run {
  const struct lane *lane;
  struct fault fault;
  uint64_t seed;
  struct tally *tally;
  struct traffic traffic;
  struct process processes[PROCESSES];
  struct fault_course course;
  double shares; /* the most that those of a key add up to, when the fault begins */
};

static int64_t read_clock(void *context) {
  const struct process *process = context;
  return real_time_us() + process->ahead_us;
}

/* What the process takes to be its share of the key. False: it has none of it. */
static bool read_share(const struct run *run, const struct process *process, int key,
                       double *share) {
  char text[NAME_BYTES];
  weir_pool pools[WEIR_RULES_MOST];
  weir_limiter *limiter = callers_limiter(process->callers, 0);
  size_t length =
      (size_t)snprintf(text, sizeof text, "%s-%" PRIu64 "-%d", run->lane->name, run->seed, key);
  weir_limiter_read_pools(limiter, pools);
  weir_memo_entry *entry = weir_limiter_lock(limiter, text, length);
  if (entry == NULL) give_up("no memory");
  const weir_share *known = &entry->memo->expected[0].share;
  bool knows = known->last != 0 || known->all != 0;
  *share = weir_account_key_share(known, &pools[0], limiter->peers) / 1e6;
  weir_lock_leave(&entry->shard->lock);
  return knows;
}

static void add_up_shares(void *context) {
  struct run *run = context;
  for (int key = 0; key < lane_keys(run->lane); key++) {
    double sum = 0;
    for (size_t i = 0; i < PROCESSES; i++) {
      double share;
      if (read_share(run, &run->processes[i], key, &share)) sum += share;
    }
    if (sum > run->shares) run->shares = sum;
  }
}

static void begin_processes(struct run *run) {
  for (size_t i = 0; i < PROCESSES; i++) {
    struct process *process = &run->processes[i];
    wire_begin(&process->wire, the_server, &process->store);
    process->ahead_us = virtual_below(2 * SKEW_US + 1) - SKEW_US;
    process->callers =
        callers_make(&run->traffic, i, process->store, (weir_clock){read_clock, process});
  }
  for (size_t i = 0; i < PROCESSES; i++)
    callers_begin(run->processes[i].callers);
}

static void go(void *context) {
  struct run *run = context;
  uint64_t random = run->seed * UINT64_C(0x9e3779b97f4a7c15);
  const struct lane *lanes[] = {run->lane};
  begin_processes(run);
  if (run->lane->callers != CALLERS_HOLD) trouble_tell(the_server, add_up_shares, run);
  fault_run(&run->fault, the_server, lanes, 1, run->tally, &random, &run->course);
  atomic_store(&run->tally->over, true);
  trouble_over(the_server);
  for (size_t i = 0; i < PROCESSES; i++) {
    callers_end(run->processes[i].callers);
    weir_store_close(run->processes[i].store);
  }
}

static void run_seed(struct run *run) {
  const struct lane *const lanes[] = {run->lane};
  struct trouble trouble = {.way_us = WAY_US,
                            .reset_ppm = settings.resets_ppm,
                            .run_us = RUN_US,
                            .pause_us = settings.busy_ms * MS_US};
  virtual_begin(run->seed);
  the_server = trouble_begin(&trouble);
  run->tally->origin_us = real_time_us() / WINDOW_US * WINDOW_US;
  run->traffic =
      (struct traffic){.lanes = lanes, .count = 1, .seed = run->seed, .tally = run->tally};
  fiber_start(go, run);
  virtual_run();
  trouble_end(the_server);
  virtual_clean_up();
}

/* --- figures -----------------------------------------------------------------------------------
 */

/* Of windows that the outage lasted, the one in which least was admitted of a key. Of those that were
 * asked for more than that. */
static double unused_of(const struct run *run) {
  int64_t origin_us = run->tally->origin_us;
  double most = 0;
  if (run->lane->is_day || run->lane->callers == CALLERS_HOLD) return 0;
  for (int key = 0; key < lane_keys(run->lane); key++)
    for (int64_t window = (run->course.begin_us - origin_us) / WINDOW_US + 1;
         window < (run->course.end_us - origin_us) / WINDOW_US; window++) {
      const struct cell *cell = &run->tally->cells[0][key][window];
      int64_t due = cell->asked < run->lane->limit ? cell->asked : run->lane->limit;
      double unused =
          100 * (double)(due - cell->by_store - cell->by_policy) / (double)run->lane->limit;
      if (unused > most) most = unused;
    }
  return most;
}

enum { SERIES_MOST = FIGURES_MOST + 2 };

struct series {
  struct figure figure; /* of the worst run */
  double *values;
};

struct results {
  struct series series[SERIES_MOST];
  size_t count;
};

static void record(struct results *results, size_t number, const struct figure *figure,
                   int64_t seed) {
  struct series *series = &results->series[number];
  if (number == results->count) {
    results->count++;
    series->values = calloc((size_t)settings.seeds, sizeof *series->values);
    if (series->values == NULL) give_up("no memory");
    series->figure = *figure;
  }
  if (figure->value > series->figure.value) series->figure = *figure;
  series->values[seed] = figure->value;
}

static void record_run(struct results *results, struct run *run, int64_t number) {
  struct figure figures[FIGURES_MOST];
  const struct lane *const lanes[] = {run->lane};
  size_t count = figures_of(run->tally, &run->fault, &run->course, lanes, 1, figures);
  for (size_t i = 0; i < count; i++)
    record(results, i, &figures[i], number);
  struct figure unused = {.unit = "%", .value = unused_of(run), .worst = -1, .median = -1};
  struct figure shares = {.unit = "", .value = run->shares, .worst = -1, .median = -1};
  snprintf(unused.name, sizeof unused.name, "%s, least used", run->lane->name);
  snprintf(shares.name, sizeof shares.name, "%s, shares", run->lane->name);
  record(results, count, &shares, number);
  if (run->lane->unused_percent <= 0) record(results, count + 1, &unused, number);
}

static int by_size(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

static bool judge(const char *row, const struct series *series) {
  const struct figure *figure = &series->figure;
  int64_t worst = 0;
  for (int64_t i = 1; i < settings.seeds; i++)
    if (series->values[i] > series->values[worst]) worst = i;
  double most = series->values[worst];
  qsort(series->values, (size_t)settings.seeds, sizeof *series->values, by_size);
  double median = series->values[settings.seeds / 2];
  double late = series->values[settings.seeds * 99 / 100];
  bool held = (figure->worst < 0 || most <= figure->worst + 1e-9) &&
              (figure->median < 0 || median <= figure->median + 1e-9);
  printf("%-11s %-32s %2s median %6.2f, of 100 one %6.2f, worst %6.2f (seed %" PRId64 ")%s\n", row,
         figure->name, figure->unit, median, late, most, settings.seed + worst,
         held ? "" : "  OVER ITS GOAL");
  if ((!held || settings.seeds == 1) && figure->text[0] != '\0') printf("    %s\n", figure->text);
  fflush(stdout);
  free(series->values);
  return held;
}

static void shorten(struct fault *fault) {
  bool is_long = fault->length_us > SECOND_US;
  fault->warm_up_us = is_long ? 2 * SECOND_US : 400 * MS_US;
  if (is_long) fault->length_us = 5 * SECOND_US / 2;
  fault->after_us = is_long ? SECOND_US : 400 * MS_US;
}

static bool hunt(const struct row *row, const struct lane *lane) {
  struct results results = {.count = 0};
  bool held = true;
  for (int64_t i = 0; i < settings.seeds; i++) {
    struct run run = {.lane = lane, .fault = row->fault, .seed = (uint64_t)(settings.seed + i)};
    if (settings.is_brief) shorten(&run.fault);
    if (run.fault.kind == FAULT_BUSY) run.fault.length_us = 5 * SECOND_US;
    run.tally = share_memory(sizeof *run.tally);
    run_seed(&run);
    record_run(&results, &run, i);
    unshare_memory(run.tally, sizeof *run.tally);
  }
  for (size_t i = 0; i < results.count; i++)
    held = judge(row->name, &results.series[i]) && held;
  return held;
}

/* --- processes by themselves ---------------------------------------------------------------------
 */

struct alone {
  const struct alone_row *row;
  struct figure figure;
};

static void go_alone(void *context) {
  struct alone *alone = context;
  alone_run(alone->row, the_server, &alone->figure);
  trouble_over(the_server);
}

static bool hunt_alone(const struct alone_row *row) {
  struct results results = {.count = 0};
  for (int64_t i = 0; i < settings.seeds; i++) {
    struct alone alone = {.row = row};
    struct trouble trouble = row->trouble;
    if (settings.busy_ms > 0) trouble.pause_us = settings.busy_ms * MS_US;
    virtual_begin((uint64_t)(settings.seed + i));
    the_server = trouble_begin(&trouble);
    fiber_start(go_alone, &alone);
    virtual_run();
    trouble_end(the_server);
    virtual_clean_up();
    record(&results, 0, &alone.figure, i);
  }
  return judge("alone", &results.series[0]);
}

/* --- arguments ---------------------------------------------------------------------------------
 */

static int64_t read_number(const char *name, const char *text, int64_t most) {
  char *end;
  long long number = strtoll(text, &end, 10);
  if (*text == '\0' || *end != '\0' || number < 1 || number > most)
    give_up("%s %s: accepted are 1 to %" PRId64, name, text, most);
  return number;
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i < count; i++) {
    const char *name = arguments[i];
    const char *value = i + 1 < count ? arguments[i + 1] : "";
    if (strcmp(name, "--brief") == 0) {
      settings.is_brief = true;
      continue;
    }
    if (strcmp(name, "--row") == 0)
      settings.row_names = value;
    else if (strcmp(name, "--seeds") == 0)
      settings.seeds = read_number(name, value, SEEDS_MOST);
    else if (strcmp(name, "--seed") == 0)
      settings.seed = read_number(name, value, INT32_MAX);
    else if (strcmp(name, "--busy") == 0)
      settings.busy_ms = read_number(name, value, 1000);
    else if (strcmp(name, "--resets") == 0)
      settings.resets_ppm = read_number(name, value, 1000000);
    else
      give_up("no such option: %s", name);
    i++;
  }
}

/* A lane, or all of a row. */
static bool is_wanted(const char *name) {
  size_t length = strlen(name);
  for (const char *at = settings.row_names; at != NULL && *at != '\0';) {
    size_t given = strcspn(at, ",");
    if (given == length && strncmp(at, name, length) == 0) return true;
    at += given + (at[given] == ',');
  }
  return settings.row_names == NULL;
}

int main(int count, char **arguments) {
  bool held = true;
  read_arguments(count, arguments);
  for (size_t i = 0; i < rows_count; i++)
    for (size_t lane = 0; lane < rows[i].count; lane++)
      if (is_wanted(rows[i].name) || is_wanted(rows[i].lanes[lane].name))
        held = hunt(&rows[i], &rows[i].lanes[lane]) && held;
  for (size_t i = 0; i < alone_rows_count; i++)
    if (is_wanted("alone") || is_wanted(alone_rows[i].name))
      held = hunt_alone(&alone_rows[i]) && held;
  fiber_clean_up();
  return held ? 0 : 1;
}
