#include "scale/outage_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scale/outage_chance.h"
#include "scale/outage_world.h"

enum {
  WARM_WINDOWS = 4,
  STARVED_WINDOWS = 3,
  RETURN_MS = 500, /* windows count that begin no later than that after the return */
  AFTER_MS = 1500
};
#define NEVER_MS 1e18

/* One run, and where it is. */
struct run {
  struct outage_world *world;
  double now_ms, first_ms, last_ms, stop_ms; /* the outages' begin and end, and the run's */
  int blink;
  bool has_returned;
  double key_until[OUTAGE_KEYS_MOST]; /* key by key, the part of the requests so far */
  double process_part[OUTAGE_PROCESSES_MOST];
};

/* --- traffic -------------------------------------------------------------------------------------
 */

static void plan_traffic(struct run *run, const struct outage_scene *scene) {
  double all = 0;
  double sum = 0;
  for (int key = 0; key < scene->keys; key++)
    all += pow(key + 1, -scene->zipf);
  for (int key = 0; key < scene->keys; key++)
    run->key_until[key] = sum += pow(key + 1, -scene->zipf) / all;
  for (int i = 0; i < scene->processes; i++)
    run->process_part[i] = !scene->is_uneven ? 1
                           : i == 0          ? 50
                           : i == 1          ? 20
                           : i == 2          ? 10
                                             : 20.0 / (scene->processes - 3);
}

static void plan_outage(struct run *run, const struct outage_scene *scene) {
  struct outage_world *world = run->world;
  double warm_ms = WARM_WINDOWS * OUTAGE_WINDOW_MS;
  int more = scene->blinks > 0 ? scene->blinks - 1 : 0;
  run->first_ms = warm_ms + chance_part(&world->random) * OUTAGE_WINDOW_MS;
  world->begin_ms = run->first_ms;
  world->end_ms = run->first_ms + scene->away_ms;
  run->last_ms = world->end_ms + more * scene->blinks_apart_ms;
  run->stop_ms = run->last_ms + AFTER_MS;
  if (!scene->is_starved) return;
  world->begin_ms = world->end_ms = NEVER_MS;
  run->first_ms = warm_ms;
  run->last_ms = warm_ms + STARVED_WINDOWS * OUTAGE_WINDOW_MS;
  run->stop_ms = run->last_ms + OUTAGE_WINDOW_MS;
}

static void begin_run(struct run *run, int number) {
  struct outage_world *world = run->world;
  const struct outage_scene *scene = world->scene;
  world->random = (uint64_t)number * 77777 + 5 + scene->seed;
  world->first_ms = -1;
  for (int i = 0; i < OUTAGE_PROCESSES_MOST; i++) {
    world->processes[i].missed_ms = -1;
    world->processes[i].secret = chance_number(&world->random);
    for (int key = 0; key < scene->keys; key++)
      account_begin(&world->accounts[i][key]);
  }
  plan_traffic(run, scene);
  plan_outage(run, scene);
  for (int i = 0; i < OUTAGE_PROCESSES_MOST; i++) {
    struct outage_process *process = &world->processes[i];
    process->starved_from_ms = WARM_WINDOWS * OUTAGE_WINDOW_MS + chance_part(&world->random) * 150;
    process->starved_to_ms = process->starved_from_ms + 25 + chance_part(&world->random) * 55;
  }
}

static int draw_process(struct run *run) {
  const struct outage_scene *scene = run->world->scene;
  int count = scene->processes;
  if (run->now_ms < run->first_ms) count -= scene->begun_meanwhile;
  if (run->now_ms < run->first_ms - 2 * OUTAGE_WINDOW_MS) count -= scene->begun_lately;
  double all = 0;
  for (int i = 0; i < count; i++)
    all += run->process_part[i];
  double at = chance_part(&run->world->random) * all;
  double until = run->process_part[0];
  int process = 0;
  while (process < count - 1 && until < at)
    until += run->process_part[++process];
  return process;
}

static int draw_key(struct run *run) {
  double at = chance_part(&run->world->random);
  int key = 0;
  while (key < run->world->scene->keys - 1 && run->key_until[key] < at)
    key++;
  return key;
}

/* One limiter for all would admit it, and it counts among those that were wrongly denied. */
static bool is_due(struct run *run, int key) {
  struct outage_world *world = run->world;
  int window = outage_window(run->now_ms);
  if (world->ideal[key][window] >= world->scene->limit) return false;
  world->ideal[key][window]++;
  if (window < outage_window(run->first_ms) || window > outage_window(run->last_ms + RETURN_MS))
    return false;
  world->due++;
  return true;
}

/* --- the course of a run -------------------------------------------------------------------------
 */

static void watch_outage(struct run *run) {
  struct outage_world *world = run->world;
  const struct outage_scene *scene = world->scene;
  outage_expire(world, fmin(run->now_ms, world->end_ms));
  if (run->now_ms < world->end_ms) return;
  if (!run->has_returned) outage_return(world);
  run->has_returned = true;
  if (run->blink + 1 >= scene->blinks) return;
  run->blink++;
  run->has_returned = false;
  world->begin_ms = world->end_ms + scene->blinks_apart_ms - scene->away_ms;
  world->end_ms = world->begin_ms + scene->away_ms;
}

static bool run_once(struct run *run, int number) {
  struct outage_world *world = run->world;
  const struct outage_scene *scene = world->scene;
  double usual = scene->demand * scene->limit * scene->keys / OUTAGE_WINDOW_MS;
  begin_run(run, number);
  while (run->now_ms < run->stop_ms && outage_window(run->now_ms) < OUTAGE_WINDOWS_MOST) {
    bool is_away = run->now_ms > world->begin_ms && run->now_ms < world->end_ms;
    double rate = usual * (scene->storm > 0 && is_away ? scene->storm : 1);
    run->now_ms += chance_gap(&world->random, rate);
    watch_outage(run);
    struct outage_request request = {.at_ms = run->now_ms};
    request.process = draw_process(run);
    request.key = draw_key(run);
    if (scene->is_sticky) request.process = request.key % scene->processes;
    if (outage_window(run->now_ms) >= OUTAGE_WINDOWS_MOST) break;
    request.is_due = is_due(run, request.key);
    if (!outage_arrive(world, request)) return false;
  }
  return true;
}

/* --- figures -------------------------------------------------------------------------------------
 */

/* The sums of all runs so far. */
struct sums {
  double *totals; /* in limits */
  size_t count, room;
  double full, full_count; /* of keys that were asked for the limit */
  double due, denied, first_ms, first_count;
};

static bool add_total(struct sums *sums, double total) {
  if (sums->count == sums->room) {
    size_t room = sums->room > 0 ? 2 * sums->room : 1024;
    double *more = realloc(sums->totals, room * sizeof *more);
    if (more == NULL) return false;
    sums->totals = more;
    sums->room = room;
  }
  sums->totals[sums->count++] = total;
  return true;
}

static bool add_run(struct sums *sums, const struct run *run, struct outage_figures *figures) {
  const struct outage_world *world = run->world;
  double limit = world->scene->limit;
  int first = outage_window(run->first_ms);
  int last = outage_window(run->last_ms + RETURN_MS);
  for (int key = 0; key < world->scene->keys; key++)
    for (int window = first; window <= last; window++) {
      double total = world->admitted[key][window] / limit;
      if (!add_total(sums, total)) return false;
      if (world->ideal[key][window] < limit) continue;
      sums->full += total;
      sums->full_count++;
    }
  sums->due += world->due;
  sums->denied += world->denied;
  if (world->first_ms >= 0) {
    sums->first_ms += world->first_ms;
    sums->first_count++;
  }
  for (int i = 0; i < OUTAGE_COURSE; i++) {
    double total = world->admitted[0][first - OUTAGE_COURSE_BEFORE + i] / limit;
    figures->course_mean[i] += total;
    figures->course_worst[i] = fmax(figures->course_worst[i], total);
  }
  return true;
}

static int by_size(const void *left, const void *right) {
  double a = *(const double *)left;
  double b = *(const double *)right;
  return (a > b) - (a < b);
}

static double ratio(double part, double of) {
  return of > 0 ? part / of : 0;
}

static void sum_up(const struct sums *sums, int runs, struct outage_figures *figures) {
  if (sums->count == 0) return;
  qsort(sums->totals, sums->count, sizeof sums->totals[0], by_size);
  figures->mean = ratio(sums->full, sums->full_count);
  figures->p99 = sums->totals[(size_t)(.99 * (double)(sums->count - 1))];
  figures->worst = sums->totals[sums->count - 1];
  figures->denied_percent = 100 * ratio(sums->denied, sums->due);
  figures->first_ms = ratio(sums->first_ms, sums->first_count);
  for (int i = 0; i < OUTAGE_COURSE; i++)
    figures->course_mean[i] /= runs;
}

bool outage_measure(const struct outage_scene *scene, enum outage_policy policy, int runs,
                    struct outage_figures *figures) {
  struct sums sums = {0};
  struct outage_world *world = malloc(sizeof *world);
  bool is_good = world != NULL;
  *figures = (struct outage_figures){0};
  for (int i = 0; i < runs && is_good; i++) {
    struct run run = {.world = world};
    memset(world, 0, sizeof *world);
    world->scene = scene;
    world->policy = policy;
    is_good = run_once(&run, i) && add_run(&sums, &run, figures);
    free(world->sent);
  }
  if (is_good) sum_up(&sums, runs, figures);
  free(sums.totals);
  free(world);
  return is_good;
}
