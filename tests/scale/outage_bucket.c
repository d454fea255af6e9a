#include "scale/outage_bucket.h"

#include <math.h>
#include <string.h>

#include "scale/outage_chance.h"

enum {
  PROCESSES_MOST = 64,
  KEYS = 4,
  WARM_MS = 3000,
  PAUSE_MOST_MS = 500,
  HOLD_MS = 500,
  AFTER_MS = 1500,
  PRIOR_WEIGHT = 4,
  SEEN_MOST = 16,       /* of a key: then both sums are halved */
  SEEN_BY_PROCESS = 64, /* of all keys */
  GAP_LEAST_MS = 1000   /* charges that are further apart teach nothing ... */
};
#define FIRST_SHARE (1.0 / 8)

const struct bucket_scene bucket_scenes[] = {
    {.name = "token bucket, cut off for 3 s, demand twice the rate",
     .seed = 0,
     .processes = 8,
     .burst = 100,
     .demand = 2,
     .storm = 1,
     .away_ms = 3000,
     .mean = .97,
     .worst = 1.05},
    {.name = "token bucket, half the rate, then twice",
     .seed = 2,
     .processes = 8,
     .burst = 100,
     .demand = .5,
     .storm = 4,
     .away_ms = 3000,
     .mean = .52,
     .worst = .7},
};
const size_t bucket_scenes_count = sizeof bucket_scenes / sizeof bucket_scenes[0];

/* Own charges and all growth between two of them. The last own one does not count. */
struct sums {
  double own, all;
};

/* A bucket is the moment at which it will have drained: it holds that less now. */
struct known {
  struct sums sums;
  double drained_ms;            /* as the store said last */
  double own_ms, charged_at_ms; /* the same after the last own charge, and when that was */
  bool has_charged;
  bool is_away; /* the policy decides, or its share is held */
  double tokens, filled_ms, owed;
};

struct holder {
  struct sums sums;
  struct known keys[KEYS];
  double back_ms;     /* when its first request found the store again; 0: none has */
  double next_try_ms; /* negative: it has not met the outage */
};

struct buckets {
  const struct bucket_scene *scene;
  enum outage_policy policy;
  uint64_t random;
  double now_ms, begin_ms, end_ms;
  struct holder processes[PROCESSES_MOST];
  double stored_ms[KEYS], of_all_ms[KEYS], ideal_ms[KEYS];
  double free[KEYS], got[KEYS], fullest;
  double due, denied;
};

static double later(double a, double b) {
  return fmax(a, b);
}

static double share_of(const struct holder *process, const struct known *key) {
  double of_process = (fmax(0, process->sums.own - 1) + PRIOR_WEIGHT * FIRST_SHARE) /
                      (fmax(0, process->sums.all - 1) + PRIOR_WEIGHT);
  return (fmax(0, key->sums.own - 1) + PRIOR_WEIGHT * of_process) /
         (fmax(0, key->sums.all - 1) + PRIOR_WEIGHT);
}

static void add_growth(struct sums *sums, double growth, double most) {
  sums->own += 1;
  sums->all += growth;
  if (sums->own <= most) return;
  sums->own /= 2;
  sums->all /= 2;
}

/* Where the bucket has run dry meanwhile: as if it never had. */
static void learn(struct buckets *world, struct holder *process, struct known *key,
                  double stored_ms) {
  double gap_ms = world->now_ms - key->charged_at_ms;
  if (!key->has_charged || gap_ms >= fmax(world->scene->burst, GAP_LEAST_MS)) return;
  double growth = fmax(1, stored_ms - key->own_ms + 1);
  add_growth(&key->sums, growth, SEEN_MOST);
  add_growth(&process->sums, growth, SEEN_BY_PROCESS);
}

static void pay(struct buckets *world, struct known *key, double *stored_ms) {
  double from_ms = later(*stored_ms, world->now_ms);
  double room = world->now_ms + world->scene->burst - from_ms;
  double paid = fmin(key->owed, room);
  if (paid > 0) *stored_ms = from_ms + paid;
  key->owed = 0;
}

static bool store_admits(struct buckets *world, struct holder *process, int number) {
  struct known *key = &process->keys[number];
  double *stored_ms = &world->stored_ms[number];
  double now_ms = world->now_ms;
  if (process->next_try_ms >= 0 && process->back_ms == 0) process->back_ms = now_ms;
  if (key->owed > 0) pay(world, key, stored_ms);
  bool is_holding = world->policy == OUTAGE_CONTINUES && key->is_away && process->back_ms > 0 &&
                    now_ms < process->back_ms + HOLD_MS;
  if (is_holding) {
    double share = share_of(process, key);
    key->tokens =
        fmin(fmax(1, share * world->scene->burst), key->tokens + (now_ms - key->filled_ms) * share);
    key->filled_ms = now_ms;
  }
  double from_ms = later(*stored_ms, now_ms);
  key->drained_ms = *stored_ms;
  if (from_ms + 1 > now_ms + world->scene->burst || (is_holding && key->tokens < 1)) return false;
  if (is_holding)
    key->tokens--;
  else
    key->is_away = false;
  learn(world, process, key, *stored_ms);
  *stored_ms = key->own_ms = key->drained_ms = from_ms + 1;
  key->charged_at_ms = now_ms;
  key->has_charged = true;
  return true;
}

/* A bucket of its own, full at first. */
static bool fresh_admits(struct buckets *world, struct known *key) {
  double parts = world->policy == OUTAGE_PEERS ? world->scene->processes : 1;
  double most = floor(world->scene->burst / parts);
  if (!key->is_away) {
    key->is_away = true;
    key->tokens = most;
    key->filled_ms = world->now_ms;
  }
  key->tokens = fmin(most, key->tokens + (world->now_ms - key->filled_ms) / parts);
  key->filled_ms = world->now_ms;
  if (key->tokens < 1) return false;
  key->tokens--;
  return true;
}

/* The share of what is left; it fills at that part of the rate. */
static bool share_admits(struct buckets *world, struct holder *process, struct known *key) {
  double share = share_of(process, key);
  double most = fmax(1, share * world->scene->burst);
  if (!key->is_away) {
    double left = world->scene->burst - fmax(0, key->drained_ms - world->begin_ms);
    key->is_away = true;
    key->tokens = share * left + chance_part(&world->random);
    key->filled_ms = world->begin_ms;
  }
  key->tokens =
      fmin(fmax(most, key->tokens), key->tokens + (world->now_ms - key->filled_ms) * share);
  key->filled_ms = world->now_ms;
  if (key->tokens < 1) {
    key->tokens = fmin(key->tokens, most);
    return false;
  }
  key->tokens--;
  key->owed++;
  return true;
}

static bool admits(struct buckets *world, struct holder *process, int key, bool is_away) {
  if (is_away && process->next_try_ms < 0)
    process->next_try_ms =
        world->end_ms + chance_part(&world->random) * fmin(PAUSE_MOST_MS, world->scene->away_ms);
  if (!is_away && world->now_ms >= process->next_try_ms) return store_admits(world, process, key);
  if (world->policy == OUTAGE_CONTINUES) return share_admits(world, process, &process->keys[key]);
  return fresh_admits(world, &process->keys[key]);
}

static bool ideal_admits(struct buckets *world, int key) {
  double from_ms = later(world->ideal_ms[key], world->now_ms);
  if (from_ms + 1 > world->now_ms + world->scene->burst) return false;
  world->ideal_ms[key] = from_ms + 1;
  return true;
}

static void note(struct buckets *world, int key, bool is_admitted, bool is_due, bool is_away) {
  double now_ms = world->now_ms;
  if (is_admitted) {
    world->of_all_ms[key] = later(world->of_all_ms[key], now_ms) + 1;
    if (is_away) world->got[key]++;
    double full = (world->of_all_ms[key] - now_ms) / world->scene->burst;
    if (now_ms > world->begin_ms) world->fullest = fmax(world->fullest, full);
  }
  if (now_ms < world->begin_ms || now_ms >= world->end_ms + PAUSE_MOST_MS || !is_due) return;
  world->due++;
  if (!is_admitted) world->denied++;
}

static void run_once(struct buckets *world, int number) {
  const struct bucket_scene *scene = world->scene;
  bool has_begun = false;
  world->random = (uint64_t)number * 991 + scene->seed;
  world->begin_ms = WARM_MS + chance_part(&world->random) * 1000;
  world->end_ms = world->begin_ms + scene->away_ms;
  for (int i = 0; i < scene->processes; i++)
    world->processes[i].next_try_ms = -1;
  while (world->now_ms < world->end_ms + AFTER_MS) {
    bool is_away = world->now_ms > world->begin_ms && world->now_ms < world->end_ms;
    world->now_ms +=
        chance_gap(&world->random, scene->demand * KEYS * (is_away ? scene->storm : 1));
    for (int key = 0; key < KEYS && !has_begun && world->now_ms >= world->begin_ms; key++)
      world->free[key] =
          scene->burst + scene->away_ms - fmax(0, world->of_all_ms[key] - world->begin_ms);
    has_begun = world->now_ms >= world->begin_ms;
    int process = (int)(chance_part(&world->random) * scene->processes);
    int key = (int)(chance_part(&world->random) * KEYS);
    is_away = world->now_ms >= world->begin_ms && world->now_ms < world->end_ms;
    bool is_due = ideal_admits(world, key);
    bool is_admitted = admits(world, &world->processes[process], key, is_away);
    note(world, key, is_admitted, is_due, is_away);
  }
}

void bucket_measure(const struct bucket_scene *scene, enum outage_policy policy, int runs,
                    struct bucket_figures *figures) {
  double due = 0;
  double denied = 0;
  *figures = (struct bucket_figures){0};
  for (int i = 0; i < runs; i++) {
    static struct buckets world;
    memset(&world, 0, sizeof world);
    world.scene = scene;
    world.policy = policy;
    run_once(&world, i);
    for (int key = 0; key < KEYS; key++) {
      double part = world.got[key] / world.free[key];
      figures->mean += part / KEYS / runs;
      figures->worst = fmax(figures->worst, part);
    }
    figures->fullest_mean += world.fullest / runs;
    figures->fullest_worst = fmax(figures->fullest_worst, world.fullest);
    due += world.due;
    denied += world.denied;
  }
  figures->denied_percent = due > 0 ? 100 * denied / due : 0;
}
