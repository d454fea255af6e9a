/* outage_hunt --row NAME[,NAME...] [--store memcached|redis] [--runs N] [--seconds N] [--seed N]
 *             [--brief]
 *
 * Eight processes, none of which is told how many there are, use a private server to which
 * something happens. Their admissions together are counted, by the server and by their policies,
 * and held against the goals. `--list` names the rows. Rows whose server is killed can be run
 * together, in one outage.
 *
 *   --seconds   how long the row "busy" keeps the machine busy: 60
 *   --brief     shorter, and bounds whose excess is half as large again
 *
 * A line for each run and figure, then one for each figure of all runs. Exit code 1: over a goal;
 * 2: could not be tried. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/ground.h"
#include "outage/figures.h"
#include "outage/rows.h"
#include "outage/traffic.h"

enum { RUNS_MOST = 100, BRIEF_BUSY_S = 3 };

static struct {
  const char *row_names, *store;
  int64_t runs, seconds, seed;
  bool is_brief;
  bool is_loaded; /* the row is about a busy machine */
} settings = {.store = "memcached", .runs = 10, .seconds = 60, .seed = 1};

/* The rows of a run, as one. */
struct mixture {
  struct fault fault;
  const struct lane *lanes[LANES_MOST];
  size_t count;
};

static void add_row(struct mixture *mixture, const struct row *row) {
  if (mixture->count > 0 && (row->fault.kind != FAULT_KILL || mixture->fault.kind != FAULT_KILL))
    give_up("--row: only those whose server is killed can be run together");
  mixture->fault = row->fault;
  if (mixture->count + row->count > LANES_MOST) give_up("--row: too many");
  for (size_t i = 0; i < row->count; i++)
    mixture->lanes[mixture->count++] = &row->lanes[i];
}

/* Two windows of traffic before a server is away are enough to measure shares. */
static void shorten(struct fault *fault) {
  bool is_long =
      fault->kind == FAULT_KILL || (fault->kind == FAULT_PAUSE && fault->length_us > 2 * SECOND_US);
  fault->warm_up_us = is_long ? 2 * SECOND_US : 400 * MS_US;
  if (is_long) fault->length_us = 2 * SECOND_US;
  fault->after_us = is_long ? SECOND_US : 400 * MS_US;
}

static struct mixture mix(void) {
  struct mixture mixture = {.count = 0};
  for (const char *name = settings.row_names; *name != '\0';) {
    size_t length = strcspn(name, ",");
    const struct row *row = row_find(name, length);
    if (row == NULL) give_up("--row %.*s: there is no such row; see --list", (int)length, name);
    add_row(&mixture, row);
    name += length + (name[length] == ',');
  }
  settings.is_loaded = mixture.fault.kind == FAULT_BUSY;
  if (mixture.fault.kind == FAULT_BUSY) mixture.fault.length_us = settings.seconds * SECOND_US;
  if (settings.is_brief) shorten(&mixture.fault);
  return mixture;
}

/* --- runs ----------------------------------------------------------------------------------------
 */

struct results {
  struct figure figures[RUNS_MOST][FIGURES_MOST];
  size_t count; /* of figures */
};

static void run_once(const struct mixture *mixture, struct server *server, int64_t number,
                     struct results *results) {
  char url[SERVER_URL_BYTES];
  pid_t processes[PROCESSES];
  struct fault_course course;
  uint64_t seed = (uint64_t)(settings.seed * 1000 + number);
  uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
  server_url(&server, 1, NULL, url);
  struct traffic traffic = {url, mixture->lanes, mixture->count, seed,
                            share_memory(sizeof(struct tally))};
  traffic_begin(&traffic, processes);
  fault_run(&mixture->fault, server, mixture->lanes, mixture->count, traffic.tally, &random,
            &course);
  traffic_end(&traffic, processes);
  struct figure *figures = results->figures[number];
  results->count =
      figures_of(traffic.tally, &mixture->fault, &course, mixture->lanes, mixture->count, figures);
  unshare_memory(traffic.tally, sizeof(struct tally));
  for (size_t i = 0; i < results->count; i++)
    printf("run %" PRId64 ": %s %.2f %s%s%s%s\n", number + 1, figures[i].name, figures[i].value,
           figures[i].unit, figures[i].text[0] != '\0' ? " (" : "", figures[i].text,
           figures[i].text[0] != '\0' ? ")" : "");
  fflush(stdout);
}

/* --- the verdict ---------------------------------------------------------------------------------
 */

static int by_size(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

static bool holds(const char *what, const struct figure *figure, double value, double goal) {
  if (goal < 0) {
    printf(" %s %.2f;", what, value);
    return true;
  }
  if (settings.is_brief) goal = figure_relaxed(figure, goal);
  bool held = value <= goal + 1e-9;
  printf(" %s %.2f of at most %.2f%s;", what, value, goal, held ? "" : " OVER");
  return held;
}

/* The median of one run or three says little. */
static bool judge(const struct results *results, size_t number) {
  double values[RUNS_MOST];
  const struct figure *figure = &results->figures[0][number];
  size_t runs = (size_t)settings.runs;
  for (size_t i = 0; i < runs; i++)
    values[i] = results->figures[i][number].value;
  qsort(values, runs, sizeof values[0], by_size);
  /* How many are denied on a busy machine depends on what else makes it busy: a hunt judges that. */
  bool judges_worst = !(settings.is_brief && settings.is_loaded && figure->unit[0] == '%');
  printf("%s, %s, %zu runs, %s:", settings.store, figure->name, runs,
         figure->unit[0] != '\0' ? figure->unit : "count");
  bool held = holds("worst", figure, values[runs - 1], judges_worst ? figure->worst : -1);
  if (!settings.is_brief)
    held = holds("median", figure, values[(runs - 1) / 2], figure->median) && held;
  printf("%s\n", held ? " good" : " OVER ITS GOAL");
  return held;
}

/* --- arguments -----------------------------------------------------------------------------------
 */

static struct server *start_server(void) {
  if (strcmp(settings.store, "memcached") == 0) return server_start_memcached(SERVER_IPV4, NULL);
  if (strcmp(settings.store, "redis") == 0) return server_start_redis(SERVER_IPV4, NULL);
  give_up("--store %s: accepted are memcached, redis", settings.store);
}

static void list_rows(void) {
  for (size_t i = 0; i < rows_count; i++)
    printf("%-16s %s\n", rows[i].name, rows[i].about);
  exit(0);
}

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
    if (strcmp(name, "--list") == 0) list_rows();
    if (strcmp(name, "--brief") == 0) {
      settings.is_brief = true;
      settings.runs = 1;
      settings.seconds = BRIEF_BUSY_S;
      continue;
    }
    if (strcmp(name, "--row") == 0)
      settings.row_names = value;
    else if (strcmp(name, "--store") == 0)
      settings.store = value;
    else if (strcmp(name, "--runs") == 0)
      settings.runs = read_number(name, value, RUNS_MOST);
    else if (strcmp(name, "--seconds") == 0)
      settings.seconds = read_number(name, value, WINDOWS_MOST - 10);
    else if (strcmp(name, "--seed") == 0)
      settings.seed = read_number(name, value, 1000000);
    else
      give_up("no such option: %s", name);
    i++;
  }
  if (settings.row_names == NULL) give_up("usage: outage_hunt --row NAME[,NAME...], or --list");
}

int main(int count, char **arguments) {
  static struct results results;
  read_arguments(count, arguments);
  struct mixture mixture = mix();
  struct server *server = start_server();
  for (int64_t run = 0; run < settings.runs; run++)
    run_once(&mixture, server, run, &results);
  bool held = true;
  for (size_t i = 0; i < results.count; i++)
    held = judge(&results, i) && held;
  return held ? 0 : 1;
}
