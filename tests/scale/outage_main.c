/* Simulates what processes admit together around an outage.
 *
 *     weir_outage table [RUNS]    a table, as it stands in docs/scale.md; 80 runs
 *     weir_outage course [RUNS]   window by window, what its picture shows */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale/outage_bucket.h"
#include "scale/outage_run.h"

enum { RUNS_USUAL = 80, RUNS_MOST = 10000 };

static void give_up(const char *message) {
  fprintf(stderr, "%s\n", message);
  exit(2);
}

static struct outage_figures measure(const struct outage_scene *scene, enum outage_policy policy,
                                     int runs) {
  struct outage_figures figures;
  if (!outage_measure(scene, policy, runs, &figures)) give_up("no memory");
  return figures;
}

/* The policies that begin anew leave open what they did with requests that were late. */
static bool is_compared(const struct outage_scene *scene, int policy) {
  return !scene->is_starved || policy == OUTAGE_CONTINUES;
}

static void print_table(int runs) {
  printf(
      "| 8 processes, unless it says otherwise | limits anew | `peers` told | continued |\n| --- | "
      "---: | ---: | ---: |\n");
  for (size_t i = 0; i < outage_scenes_count; i++) {
    printf("| %s |", outage_scenes[i].name);
    for (int policy = 0; policy < OUTAGE_POLICIES; policy++) {
      if (!is_compared(&outage_scenes[i], policy)) {
        printf(" - |");
        continue;
      }
      struct outage_figures figures = measure(&outage_scenes[i], (enum outage_policy)policy, runs);
      printf(" %.2f, %.2f, %.2f; %.1f %% |", figures.mean, figures.p99, figures.worst,
             figures.denied_percent);
    }
    printf("\n");
  }
  for (size_t i = 0; i < bucket_scenes_count; i++) {
    printf("| %s |", bucket_scenes[i].name);
    for (int policy = 0; policy < OUTAGE_POLICIES; policy++) {
      struct bucket_figures figures;
      bucket_measure(&bucket_scenes[i], (enum outage_policy)policy, runs, &figures);
      printf(" %.2f, -, %.2f; %.1f %% |", figures.mean, figures.worst, figures.denied_percent);
    }
    printf("\n");
  }
}

/* A line for each window: its number, 0 in which the outage begins, and of each policy the mean and
 * the worst. */
static void print_course(int runs) {
  struct outage_figures figures[OUTAGE_POLICIES];
  for (int policy = 0; policy < OUTAGE_POLICIES; policy++)
    figures[policy] =
        measure(&outage_scenes[OUTAGE_SCENE_OF_PICTURE], (enum outage_policy)policy, runs);
  for (int i = 0; i < OUTAGE_COURSE; i++) {
    printf("%d", i - OUTAGE_COURSE_BEFORE);
    for (int policy = 0; policy < OUTAGE_POLICIES; policy++)
      printf(" %.3f %.3f", figures[policy].course_mean[i], figures[policy].course_worst[i]);
    printf("\n");
  }
}

int main(int count, char **arguments) {
  long runs = count > 2 ? strtol(arguments[2], NULL, 10) : RUNS_USUAL;
  if (runs < 1 || runs > RUNS_MOST) give_up("RUNS: accepted are 1 to 10000");
  if (count > 1 && strcmp(arguments[1], "table") == 0)
    print_table((int)runs);
  else if (count > 1 && strcmp(arguments[1], "course") == 0)
    print_course((int)runs);
  else
    give_up("usage: weir_outage table|course [RUNS]");
  return 0;
}
