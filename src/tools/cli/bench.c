/* bench: reads what to measure, has src/tools/bench measure it, and shows the figures: as tables
 * for people, as one object a contestant for programs, and as a picture. All three show the
 * medians of a contestant's turns; a store that has a raw loop behind it also shows its ratios to
 * that loop. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "options.h"
#include "output.h"
#include "report.h"

/* A limiter remembers so many keys by default; a benchmark of more asks for more. */
enum { KEYS_REMEMBERED = 10000 };
enum { LABEL_BYTES = 48, LABEL_WIDTH = 28, COLUMNS = 80 };

/* The figures that are shown, in the order of the tables. */
typedef struct shown_figure {
  const char *title; /* of the column */
  const char *name;  /* in JSON */
  size_t offset;     /* in weir_bench_figures */
  int digits;
  bool ratio;     /* compared with the raw loop */
  bool of_leases; /* in the tables only where something is leased */
} shown_figure;

#define FIGURE(member) offsetof(weir_bench_figures, member)

static const shown_figure figures[] = {
    {"decisions/s", "decisions_per_second", FIGURE(rate), 0, true, false},
    {"p50 us", "p50_us", FIGURE(p50_us), 1, true, false},
    {"p99 us", "p99_us", FIGURE(p99_us), 1, true, false},
    {"p99.9 us", "p999_us", FIGURE(p999_us), 1, true, false},
    {"commands", "commands_per_decision", FIGURE(commands), 3, true, false},
    {"trips", "round_trips_per_decision", FIGURE(round_trips), 3, true, false},
    {"client us", "client_us_per_decision", FIGURE(client_us), 2, true, false},
    {"local", "local_share", FIGURE(local), 3, false, false},
    {"late", "late_share", FIGURE(late), 4, false, false},
    {"admitted", "admitted", FIGURE(admitted), 0, false, false},
    {"at most", "allowed", FIGURE(allowed), 0, false, false},
    {"leased", "leased", FIGURE(leased), 0, false, true},
    {"used", "lease_used", FIGURE(lease_used), 0, false, true},
    {"returned", "lease_returned", FIGURE(lease_returned), 0, false, true},
    {"lost", "lease_lost", FIGURE(lease_lost), 0, false, true},
};
enum { FIGURES = sizeof figures / sizeof *figures };

/* The store's URL without credentials and options, or the raw loop's name. */
static void write_label(const weir_bench_contestant *contestant, char label[LABEL_BYTES]) {
  const char *url = contestant->url, *from = url;
  size_t scheme = strcspn(url, ":");
  const char *end = url + strcspn(url, "?");
  for (const char *at = url; at < end; at++)
    if (*at == '@') from = at + 1;
  if (contestant->baseline)
    snprintf(label, LABEL_BYTES, contestant->pair ? "  raw loop of pairs" : "  raw loop");
  else if (from == url)
    snprintf(label, LABEL_BYTES, "%.*s", (int)(end - url), url);
  else
    snprintf(label, LABEL_BYTES, "%.*s://%.*s", (int)scheme, url, (int)(end - from), from);
}

/* --- for people ------------------------------------------------------------------------------ */

static bool is_shown(const weir_bench *bench, const shown_figure *figure) {
  return bench->leases || !figure->of_leases;
}

static int width_of(const shown_figure *figure) {
  size_t title = strlen(figure->title);
  return (int)(title < 9 ? 9 : title) + 2;
}

/* Below zero: not known. */
static void write_value(FILE *out, const shown_figure *figure, double value, int digits) {
  if (value < 0)
    fprintf(out, "%*s", width_of(figure), "-");
  else
    fprintf(out, value < 1e8 ? "%*.*f" : "%*.*e", width_of(figure), digits, value);
}

/* The figures from `from` to before `end`: a row a contestant, and under each raw loop the ratios
 * to it of the store before. */
static void write_table(FILE *out, const weir_bench *bench, size_t from, size_t end) {
  enum { RATIO_DIGITS = 3 };
  fprintf(out, "\n%-*s", LABEL_WIDTH, "");
  for (size_t i = from; i < end; i++)
    if (is_shown(bench, &figures[i])) fprintf(out, "%*s", width_of(&figures[i]), figures[i].title);
  fputc('\n', out);
  for (size_t row = 0; row < bench->contestant_count; row++) {
    const weir_bench_contestant *contestant = &bench->contestants[row];
    char label[LABEL_BYTES];
    write_label(contestant, label);
    if (strlen(label) > LABEL_WIDTH) fprintf(out, "%s\n%*s", label, LABEL_WIDTH, "");
    if (strlen(label) <= LABEL_WIDTH) fprintf(out, "%-*s", LABEL_WIDTH, label);
    for (size_t i = from; i < end; i++)
      if (is_shown(bench, &figures[i]))
        write_value(out, &figures[i], weir_bench_figure_at(&contestant->median, figures[i].offset),
                    figures[i].digits);
    fputc('\n', out);
    if (!contestant->baseline) continue;
    const weir_bench_figures *ratio = &contestant[-1].ratio;
    fprintf(out, "%-*s", LABEL_WIDTH, "  ratio");
    for (size_t i = from; i < end; i++)
      if (is_shown(bench, &figures[i]))
        write_value(out, &figures[i],
                    figures[i].ratio ? weir_bench_figure_at(ratio, figures[i].offset) : -1,
                    RATIO_DIGITS);
    fputc('\n', out);
  }
}

/* Such a rate is none of the store. */
static void write_locals(FILE *out, const weir_bench *bench) {
  static const double most = 0.5;
  for (size_t i = 0; i < bench->contestant_count; i++) {
    double local = bench->contestants[i].median.local;
    char label[LABEL_BYTES];
    if (bench->contestants[i].baseline || local <= most) continue;
    write_label(&bench->contestants[i], label);
    fprintf(out, "\n%.0f%% of what was counted at %s\nwas answered locally, without the store%s\n",
            local * 100, label,
            bench->leases
                ? ", mostly from what was leased"
                : ":\nmore --keys, a higher limit or --no-local-denial measure the store");
  }
}

static void write_text(FILE *out, const weir_bench_plan *plan, const weir_bench *bench) {
  static const char *const patterns[] = {"evenly used", "hot", "by zipf"};
  const char *rule = plan->store_count > 0 ? plan->rule : "the servers' own rules";
  fprintf(out, "%s\n%u process%s of %u thread%s, %" PRIu32 " key%s %s", rule, plan->processes,
          plan->processes == 1 ? "" : "es", plan->threads, plan->threads == 1 ? "" : "s",
          plan->keys, plan->keys == 1 ? "" : "s", patterns[plan->pattern]);
  if (plan->class_name != NULL) fprintf(out, ", class %s", plan->class_name);
  if (plan->tenant != NULL) fprintf(out, ", one tenant");
  if (plan->batch > 1) fprintf(out, "\nbatches of %u (latencies are of batches)", plan->batch);
  fprintf(out, "\nmedians of %u turns of %.2f s", bench->rounds,
          (double)plan->duration_us / plan->rounds / 1e6);
  if (bench->rounds < plan->rounds) fprintf(out, "; stopped before all %u were done", plan->rounds);
  fputc('\n', out);

  /* Each table has as many figures as fit a line. */
  for (size_t from = 0, end; from < FIGURES; from = end) {
    int width = LABEL_WIDTH, columns = 0;
    for (end = from; end < FIGURES; end++) {
      if (!is_shown(bench, &figures[end])) continue;
      width += width_of(&figures[end]);
      if (width > COLUMNS) break;
      columns++;
    }
    if (columns > 0) write_table(out, bench, from, end);
  }
  write_locals(out, bench);
}

/* --- for programs ---------------------------------------------------------------------------- */

static bool set(json_t *object, const char *name, json_t *value) {
  return json_object_set_new(object, name, value) == 0;
}

/* A figure that is not known is null; ratios stand there only where they are known. */
static json_t *make_figures(const weir_bench_figures *from, bool ratios) {
  json_t *object = json_object();
  bool complete = object != NULL;
  for (size_t i = 0; complete && i < FIGURES; i++) {
    double value = weir_bench_figure_at(from, figures[i].offset);
    if (ratios && (!figures[i].ratio || value < 0)) continue;
    complete = set(object, figures[i].name, value < 0 ? json_null() : json_real(value));
  }
  if (complete) return object;
  json_decref(object);
  return NULL;
}

/* What each contestant was asked, and by whom. */
static bool set_plan(json_t *object, const weir_bench_plan *plan) {
  static const char *const patterns[] = {"uniform", "hot", "zipf"};
  return set(object, "processes", json_integer(plan->processes)) &&
         set(object, "threads", json_integer(plan->threads)) &&
         set(object, "keys", json_integer(plan->keys)) &&
         set(object, "pattern", json_string(patterns[plan->pattern])) &&
         set(object, "batch", json_integer(plan->batch)) &&
         (plan->class_name == NULL || set(object, "class", json_string(plan->class_name))) &&
         (plan->tenant == NULL ||
          weir_cli_json_set_bytes(object, "tenant", plan->tenant, strlen(plan->tenant)));
}

static json_t *make_contestant(const weir_bench_plan *plan, const weir_bench *bench, size_t i) {
  const weir_bench_contestant *contestant = &bench->contestants[i];
  bool is_store = contestant->target < plan->store_count;
  bool compared =
      !contestant->baseline && i + 1 < bench->contestant_count && contestant[1].baseline;
  char label[LABEL_BYTES];
  write_label(contestant->baseline ? contestant - 1 : contestant, label);
  json_t *object = json_object(), *rounds = json_array();
  bool complete = object != NULL && rounds != NULL;
  for (unsigned j = 0; complete && j < bench->rounds; j++)
    complete = json_array_append_new(rounds, make_figures(&contestant->rounds[j], false)) == 0;
  complete =
      complete && set(object, "store", json_string(label)) &&
      set(object, "raw_loop", json_boolean(contestant->baseline)) &&
      set(object, "raw_pair", json_boolean(contestant->pair)) &&
      set(object, "rule", is_store ? json_string(plan->rule) : json_null()) &&
      set_plan(object, plan) && set(object, "median", make_figures(&contestant->median, false)) &&
      set(object, "rounds", json_incref(rounds)) &&
      (!compared || set(object, "ratio_to_raw_loop", make_figures(&contestant->ratio, true)));
  json_decref(rounds);
  if (complete) return object;
  json_decref(object);
  return NULL;
}

/* False: not enough memory. */
static bool write_json(FILE *out, const weir_bench_plan *plan, const weir_bench *bench) {
  enum { DIGITS = 6 };
  for (size_t i = 0; i < bench->contestant_count; i++) {
    json_t *object = make_contestant(plan, bench, i);
    bool printed = weir_cli_json_print(out, object, DIGITS);
    json_decref(object);
    if (!printed) return false;
  }
  return true;
}

/* --- as a picture ---------------------------------------------------------------------------- */

/* One row a contestant: rate, least and most rate, p50, p99, p99.9. */
static void plot_rows(FILE *script, const weir_bench *bench) {
  fputs("$figures << END\n", script);
  for (size_t i = 0; i < bench->contestant_count; i++) {
    const weir_bench_contestant *contestant = &bench->contestants[i];
    double least = contestant->rounds[0].rate, most = least;
    for (unsigned j = 1; j < bench->rounds; j++) {
      double rate = contestant->rounds[j].rate;
      if (rate < least) least = rate;
      if (rate > most) most = rate;
    }
    fprintf(script, "%.0f %.0f %.0f %.3f %.3f %.3f\n", contestant->median.rate, least, most,
            contestant->median.p50_us, contestant->median.p99_us, contestant->median.p999_us);
  }
  fputs("END\n", script);
}

/* Names below the axis: the scheme, and under it the rest. */
static void plot_names(FILE *script, const weir_bench *bench) {
  enum { WITHOUT_TURNING = 4 };
  for (size_t i = 0; i < bench->contestant_count; i++) {
    char label[LABEL_BYTES];
    write_label(&bench->contestants[i], label);
    const char *text = label + strspn(label, " ");
    size_t scheme = strcspn(text, ":");
    const char *rest = text + scheme;
    fputs(i == 0 ? "set xtics (" : ", ", script);
    weir_cli_gnuplot_quote(script, text, scheme);
    fputs(" . \"\\n\" . ", script);
    rest += strspn(rest, ":/");
    weir_cli_gnuplot_quote(script, rest, strlen(rest));
    fprintf(script, " %zu", i);
  }
  fprintf(script, ")\nset xtics %s noenhanced font ',9'\n",
          bench->contestant_count > WITHOUT_TURNING ? "rotate by -30" : "norotate");
}

/* Decisions per second and latencies beside each other, in a .svg or .png file. The exit status. */
static int plot(const char *path, const weir_bench_plan *plan, const weir_bench *bench) {
  enum { WIDTH = 900, HEIGHT = 420 };
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  bool png = strcmp(path + strlen(path) - 4, ".png") == 0;
  plot_rows(script, bench);
  fprintf(script, "set terminal %s size %d,%d font 'sans,11' background '#ffffff'\n",
          png ? "pngcairo" : "svg", WIDTH, HEIGHT);
  fputs("set multiplot layout 1,2 margins 0.10,0.98,0.20,0.84 spacing 0.12\nset label 1 ", script);
  const char *rule = plan->store_count > 0 ? plan->rule : "the servers' own rules";
  weir_cli_gnuplot_quote(script, rule, strlen(rule) < 100 ? strlen(rule) : 100);
  fprintf(script,
          " . ', %u x %u threads, %u keys, batches of %u; medians of %u turns, bars: their range' "
          "at screen 0.5, screen 0.95 center noenhanced\n",
          plan->processes, plan->threads, (unsigned)plan->keys, plan->batch, bench->rounds);
  plot_names(script, bench);
  fprintf(script,
          "set grid ytics lc rgb '#dddddd'\nset border 3\nset tics nomirror\n"
          "set xrange [-0.6:%g]\nset logscale y\nset format y '%%.0s%%c'\nunset key\n"
          "set ylabel 'decisions per second' offset -0.5,0\n"
          "plot $figures using 0:1:2:3 with yerrorbars pt 7 ps 1.2 lw 1.5 lc rgb '#004488'\n",
          (double)bench->contestant_count - 0.4);
  fputs(
      "unset label 1\nset format y '%g'\n"
      "set ylabel 'microseconds for a call' offset -0.5,0\n"
      "set key at screen 0.98, screen 0.90 right top horizontal samplen 1\n"
      "plot $figures using 0:4 with points pt 7 ps 1.2 lc rgb '#004488' title 'p50', \\\n"
      "  '' using 0:5 with points pt 9 ps 1.2 lc rgb '#bb2200' title 'p99', \\\n"
      "  '' using 0:6 with points pt 4 ps 1.2 lc rgb '#000000' title 'p99.9'\n"
      "unset multiplot\n",
      script);
  return weir_cli_gnuplot_draw(script, path);
}

/* --- the command ----------------------------------------------------------------------------- */

static void show_progress(void *context, size_t done, size_t all) {
  (void)context;
  fprintf(stderr, "\r%zu of %zu turns\033[K%s", done, all, done == all ? "\r\033[K" : "");
}

static volatile sig_atomic_t stop;

/* The first ends the turns, the second the program. */
static void note_stop(int signal_number) {
  (void)signal_number;
  stop = 1;
}

static bool check(const weir_cli_options *options) {
  const char *path = options->plot;
  size_t length = path != NULL ? strlen(path) : 0;
  if (options->rule_count > 1)
    weir_cli_error("bench takes one --rule");
  else if (options->via_count > 0 && (options->class_name != NULL || options->tenant != NULL))
    weir_cli_error("bench --%s: --via does not go with it",
                   options->class_name != NULL ? "class" : "tenant");
  else if (options->limiter.processes > WEIR_BENCH_PROCESSES_MOST)
    weir_cli_error("bench --processes %u: 1 to %d are accepted", options->limiter.processes,
                   WEIR_BENCH_PROCESSES_MOST);
  else if (options->duration_us / options->rounds < 20000)
    weir_cli_error("--duration in --rounds %lld: turns of 20ms or more are accepted",
                   (long long)options->rounds);
  else if (path == NULL)
    return true;
  else if (length > 4 &&
           (strcmp(path + length - 4, ".svg") == 0 || strcmp(path + length - 4, ".png") == 0))
    return weir_cli_gnuplot_check(path);
  else
    weir_cli_error("--plot \"%s\": a file whose name ends in .svg or .png is accepted",
                   weir_cli_show(path).text);
  return false;
}

int weir_cli_bench(const weir_cli_options *options) {
  static weir_bench bench; /* large, and there is one */
  if (!check(options)) return WEIR_EXIT_USAGE;
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
      .class_name = options->class_name,
      .tenant = options->tenant,
      .duration_us = options->duration_us,
      .rounds = (unsigned)options->rounds,
      .baseline = options->baseline || options->baseline_pair,
      .pair = options->baseline_pair,
      .stop = &stop,
  };
  if (plan.keys > KEYS_REMEMBERED) plan.limiter.memo_keys = plan.keys + plan.keys / 2;
  if (!options->quiet && isatty(STDERR_FILENO)) plan.progress = show_progress;
  struct sigaction action = {.sa_handler = note_stop, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);

  weir_message message = {""};
  weir_status status = weir_bench_run(&plan, &bench, &message);
  if (stop && status != WEIR_OK) {
    weir_cli_error("%s", message.text);
    return WEIR_EXIT_NO_DECISION;
  }
  if (bench.via_failed && status == WEIR_UNAVAILABLE) {
    /* The status speaks of stores, and is not true of a server that was asked in place of one. */
    weir_cli_error("%s", message.text);
    return WEIR_EXIT_NO_DECISION;
  }
  if (status != WEIR_OK) return weir_cli_fail("", status, &message);

  if (!options->json)
    write_text(stdout, &plan, &bench);
  else if (!write_json(stdout, &plan, &bench))
    return weir_cli_fail_memory();
  int lost = weir_cli_flush();
  return lost == 0 && options->plot != NULL ? plot(options->plot, &plan, &bench) : lost;
}
