/* The figures of bench for people. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "bench_report.h"

enum { LABEL_WIDTH = 28, COLUMNS = 80 };

#define FIGURE(member) offsetof(weir_bench_figures, member)

const weir_cli_figure weir_cli_figures[] = {
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
const size_t weir_cli_figure_count = sizeof weir_cli_figures / sizeof weir_cli_figures[0];

void weir_cli_bench_label(const weir_bench_contestant *contestant,
                          char label[WEIR_CLI_LABEL_BYTES]) {
  const char *url = contestant->url;
  size_t scheme = strcspn(url, ":");
  size_t end = strcspn(url, "?");
  if (contestant->baseline) {
    snprintf(label, WEIR_CLI_LABEL_BYTES, "  raw loop");
    return;
  }
  const char *at = memchr(url, '@', end);
  for (const char *next;
       at != NULL && (next = memchr(at + 1, '@', end - (size_t)(at + 1 - url))) != NULL;)
    at = next;
  if (at == NULL)
    snprintf(label, WEIR_CLI_LABEL_BYTES, "%.*s", (int)end, url);
  else
    snprintf(label, WEIR_CLI_LABEL_BYTES, "%.*s://%.*s", (int)scheme, url,
             (int)(end - (size_t)(at + 1 - url)), at + 1);
}

const weir_bench_contestant *weir_cli_bench_raw(const weir_bench *bench,
                                                const weir_bench_contestant *contestant) {
  const weir_bench_contestant *next = contestant + 1;
  bool there = next < bench->contestants + bench->contestant_count && next->baseline;
  return !contestant->baseline && there ? next : NULL;
}

static bool is_shown(const weir_bench *bench, const weir_cli_figure *figure) {
  return bench->leases || !figure->of_leases;
}

static int width_of(const weir_cli_figure *figure) {
  size_t title = strlen(figure->title);
  return (int)(title < 9 ? 9 : title) + 2;
}

/* Behind the last figure of a table that begins with this one: as many as fit a line. */
static size_t end_of_table(const weir_bench *bench, size_t from) {
  int width = LABEL_WIDTH;
  size_t end = from;
  for (; end < weir_cli_figure_count; end++) {
    if (!is_shown(bench, &weir_cli_figures[end])) continue;
    width += width_of(&weir_cli_figures[end]);
    if (width > COLUMNS) break;
  }
  return end;
}

static void write_value(FILE *out, const weir_cli_figure *figure, double value, int digits) {
  if (value < 0)
    fprintf(out, "%*s", width_of(figure), "-");
  else
    fprintf(out, value < 1e8 ? "%*.*f" : "%*.*e", width_of(figure), digits, value);
}

static void write_row(FILE *out, const weir_bench *bench, const weir_bench_contestant *contestant,
                      size_t from, size_t end) {
  char label[WEIR_CLI_LABEL_BYTES];
  weir_cli_bench_label(contestant, label);
  if (strlen(label) > LABEL_WIDTH) fprintf(out, "%s\n%*s", label, LABEL_WIDTH, "");
  if (strlen(label) <= LABEL_WIDTH) fprintf(out, "%-*s", LABEL_WIDTH, label);
  for (size_t i = from; i < end; i++) {
    const weir_cli_figure *figure = &weir_cli_figures[i];
    if (is_shown(bench, figure))
      write_value(out, figure, weir_bench_figure_at(&contestant->median, figure->offset),
                  figure->digits);
  }
  fputc('\n', out);
}

static void write_ratios(FILE *out, const weir_bench *bench, const weir_bench_contestant *store,
                         size_t from, size_t end) {
  enum { DIGITS = 3 };
  fprintf(out, "%-*s", LABEL_WIDTH, "  ratio");
  for (size_t i = from; i < end; i++) {
    const weir_cli_figure *figure = &weir_cli_figures[i];
    if (is_shown(bench, figure))
      write_value(out, figure,
                  figure->ratio ? weir_bench_figure_at(&store->ratio, figure->offset) : -1, DIGITS);
  }
  fputc('\n', out);
}

static void write_table(FILE *out, const weir_bench *bench, size_t from, size_t end) {
  fprintf(out, "\n%-*s", LABEL_WIDTH, "");
  for (size_t i = from; i < end; i++)
    if (is_shown(bench, &weir_cli_figures[i]))
      fprintf(out, "%*s", width_of(&weir_cli_figures[i]), weir_cli_figures[i].title);
  fputc('\n', out);
  for (size_t i = 0; i < bench->contestant_count; i++) {
    const weir_bench_contestant *contestant = &bench->contestants[i];
    write_row(out, bench, contestant, from, end);
    if (contestant->baseline) write_ratios(out, bench, contestant - 1, from, end);
  }
}

static void write_plan(FILE *out, const weir_bench_plan *plan, const weir_bench *bench) {
  static const char *const patterns[] = {"evenly used", "hot", "by zipf"};
  const char *rule = plan->store_count > 0 ? plan->rule : "the servers' own rules";
  fprintf(out, "%s\n%u process%s of %u thread%s, %" PRIu32 " key%s %s", rule, plan->processes,
          plan->processes == 1 ? "" : "es", plan->threads, plan->threads == 1 ? "" : "s",
          plan->keys, plan->keys == 1 ? "" : "s", patterns[plan->pattern]);
  if (plan->batch > 1) fprintf(out, "\nbatches of %u (latencies are of batches)", plan->batch);
  fprintf(out, "\nmedians of %u turns of %.2f s", bench->rounds,
          (double)plan->duration_us / plan->rounds / 1e6);
  if (bench->rounds < plan->rounds) fprintf(out, "; stopped before all %u were done", plan->rounds);
  fputc('\n', out);
}

/* Of so many figures each table has some. */
void weir_cli_bench_text(FILE *out, const weir_bench_plan *plan, const weir_bench *bench) {
  write_plan(out, plan, bench);
  for (size_t from = 0, end; from < weir_cli_figure_count; from = end) {
    end = end_of_table(bench, from);
    bool any = false;
    for (size_t i = from; i < end; i++)
      any = any || is_shown(bench, &weir_cli_figures[i]);
    if (any) write_table(out, bench, from, end);
  }
}
