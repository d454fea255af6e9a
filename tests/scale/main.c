/* One run, as a line of JSON.
 *
 *     weir_scale rule=sliding-window:20000/1s clients=100 [name=number...]
 *
 * Names: see `options` below; durations are microseconds. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scale/scale.h"

static bool read_number(const char *name, const char *text, int64_t least, int64_t most,
                        int64_t *number) {
  char *end;
  errno = 0;
  long long read = strtoll(text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && read >= least && read <= most) {
    *number = read;
    return true;
  }
  fprintf(stderr, "%s=%s: accepted are %" PRId64 " to %" PRId64 "\n", name, text, least, most);
  return false;
}

struct option {
  const char *name;
  int64_t least, most;
  int64_t *number;
};

/* The one that "name=..." names; NULL, and said so: there is none. */
static const struct option *find(const struct option *options, size_t count, const char *argument) {
  size_t length = strcspn(argument, "=");
  for (size_t i = 0; i < count && argument[length] == '='; i++)
    if (strlen(options[i].name) == length && strncmp(options[i].name, argument, length) == 0)
      return &options[i];
  fprintf(stderr, "%s: accepted are rule=TEXT", argument);
  for (size_t i = 0; i < count; i++)
    fprintf(stderr, ", %s=", options[i].name);
  fprintf(stderr, "\n");
  return NULL;
}

static bool read_arguments(int count, char **arguments, scale_plan *plan) {
  int64_t raises = 0, no_leases = 0, seed = 1;
  const struct option options[] = {
      {"clients", 1, 100000, &plan->clients},
      {"asked", 1, 1000000, &plan->asked_per_s},
      {"burst", 1, 1000, &plan->burst},
      {"uneven", 1, 4, &plan->uneven},
      {"warm-up", 0, 600000000, &plan->warm_up_us},
      {"span", 1, 600000000, &plan->span_us},
      {"round-trip", 0, 1000000, &plan->round_trip_us},
      {"deadline", 1000, 60000000, &plan->deadline_us},
      {"command-ns", 0, 1000000, &plan->command_ns},
      {"lost-ppm", 0, 1000000, &plan->lost_ppm},
      {"skew", 0, 10000, &plan->skew_us},
      {"crash-every", 0, 60000000, &plan->crash_every_us},
      {"forget-at", 0, 60000000, &plan->forget_at_us},
      {"raises", 0, 1, &raises},
      {"no-leases", 0, 1, &no_leases},
      {"seed", 1, INT64_MAX, &seed},
  };
  for (int i = 1; i < count; i++) {
    if (strncmp(arguments[i], "rule=", strlen("rule=")) == 0) {
      plan->rule = arguments[i] + strlen("rule=");
      continue;
    }
    const struct option *option = find(options, sizeof options / sizeof options[0], arguments[i]);
    if (option == NULL || !read_number(option->name, strchr(arguments[i], '=') + 1, option->least,
                                       option->most, option->number))
      return false;
  }
  plan->raises = raises != 0;
  plan->no_leases = no_leases != 0;
  plan->seed = (uint64_t)seed;
  return true;
}

static void print(const scale_plan *plan, const scale_figures *figures) {
  printf("{\"rule\":\"%s\",\"clients\":%" PRId64 ",\"asked\":%" PRId64 ",\"allowed\":%" PRId64
         ",\"admitted\":%" PRId64 ",\"failed\":%" PRId64 ",\"died\":%" PRId64 ",\"waited\":%" PRId64
         ",\"commands\":%" PRId64 ",\"p50_us\":%" PRId64 ",\"p99_us\":%" PRId64
         ",\"fair_ppm\":%" PRId64 ",\"most\":%" PRId64 ",\"bound\":%" PRId64 "}\n",
         plan->rule, plan->clients, figures->asked, figures->allowed, figures->admitted,
         figures->failed, figures->died, figures->waited, figures->commands, figures->p50_us,
         figures->p99_us, figures->fair_ppm, figures->most, figures->bound);
}

int main(int count, char **arguments) {
  scale_plan plan = {.rule = "sliding-window:20000/1s",
                     .clients = 10,
                     .asked_per_s = 100000,
                     .burst = 1,
                     .span_us = 1000000,
                     .round_trip_us = 150,
                     .command_ns = 1500};
  scale_figures figures;
  weir_message why = {""};
  if (!read_arguments(count, arguments, &plan)) return 2;
  if (scale_run(&plan, &figures, &why) != WEIR_OK) {
    fprintf(stderr, "%s\n", why.text);
    return 2;
  }
  print(&plan, &figures);
  return 0;
}
