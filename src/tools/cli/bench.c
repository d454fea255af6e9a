/* bench: reads what to measure, has src/tools/bench measure it, and shows the figures. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bench_report.h"
#include "commands.h"
#include "gnuplot.h"
#include "report.h"
#include "shown.h"

/* Of so many keys a limiter remembers something by default; a benchmark of more asks for more. */
enum { KEYS_REMEMBERED = 10000 };

static void show_progress(void *context, size_t done, size_t all) {
  (void)context;
  fprintf(stderr, "\r%zu of %zu turns\033[K%s", done, all, done == all ? "\r\033[K" : "");
}

static bool check_plot(const char *path) {
  size_t length = strlen(path);
  if (length > 4 &&
      (strcmp(path + length - 4, ".svg") == 0 || strcmp(path + length - 4, ".png") == 0))
    return weir_cli_gnuplot_check(path);
  weir_cli_error("--plot \"%s\": a file whose name ends in .svg or .png is accepted",
                 weir_cli_show(path).text);
  return false;
}

static bool check(const weir_cli_options *options) {
  if (options->rule_count > 1) {
    weir_cli_error("bench takes one --rule");
    return false;
  }
  if (options->limiter.processes > WEIR_BENCH_PROCESSES_MOST) {
    weir_cli_error("bench --processes %u: 1 to %d are accepted", options->limiter.processes,
                   WEIR_BENCH_PROCESSES_MOST);
    return false;
  }
  if (options->duration_us / options->rounds < 20000) {
    weir_cli_error("--duration in --rounds %lld: turns of 20ms or more are accepted",
                   (long long)options->rounds);
    return false;
  }
  return options->plot == NULL || check_plot(options->plot);
}

static volatile sig_atomic_t stop;

/* The first ends the turns, the second the program. */
static void note_stop(int signal_number) {
  (void)signal_number;
  stop = 1;
}

static void catch_stop(void) {
  struct sigaction action = {.sa_handler = note_stop, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
}

static weir_bench_plan make_plan(const weir_cli_options *options) {
  weir_bench_plan plan = {
      .stores = options->stores,
      .store_count = weir_cli_asks_servers_only(options) ? 0 : options->store_count,
      .vias = options->vias,
      .via_count = options->via_count,
      .rule = options->rule,
      .limiter = options->limiter,
      .processes = options->limiter.processes != 0 ? options->limiter.processes : 1,
      .threads = (unsigned)options->threads,
      .keys = options->pattern == WEIR_BENCH_HOT ? 1 : (uint32_t)options->keys,
      .pattern = options->pattern,
      .batch = (unsigned)options->batch,
      .duration_us = options->duration_us,
      .rounds = (unsigned)options->rounds,
      .baseline = options->baseline,
      .stop = &stop,
  };
  if (plan.keys > KEYS_REMEMBERED) plan.limiter.memo_keys = plan.keys + plan.keys / 2;
  if (!options->quiet && isatty(STDERR_FILENO)) plan.progress = show_progress;
  return plan;
}

/* What a status says of stores is not true of a server that was asked in place of one. */
static int fail(const weir_bench *run, weir_status status, const weir_message *message) {
  if (stop) {
    weir_cli_error("%s", message->text);
    return WEIR_EXIT_NO_DECISION;
  }
  if (!run->via_failed || status != WEIR_UNAVAILABLE) return weir_cli_fail("", status, message);
  weir_cli_error("%s", message->text);
  return WEIR_EXIT_NO_DECISION;
}

int weir_cli_bench(const weir_cli_options *options) {
  static weir_bench bench; /* large, and there is one */
  static const weir_message none = {""};
  if (!check(options)) return WEIR_EXIT_USAGE;
  weir_bench_plan plan = make_plan(options);
  catch_stop();
  weir_message message = {""};
  weir_status status = weir_bench_run(&plan, &bench, &message);
  if (status != WEIR_OK) return fail(&bench, status, &message);
  if (!options->json)
    weir_cli_bench_text(stdout, &plan, &bench);
  else if (!weir_cli_bench_json(stdout, &plan, &bench))
    return weir_cli_fail("", WEIR_NO_MEMORY, &none);
  if (!weir_cli_flush()) return WEIR_EXIT_NO_DECISION;
  return options->plot != NULL ? weir_cli_bench_plot(options->plot, &plan, &bench) : 0;
}
