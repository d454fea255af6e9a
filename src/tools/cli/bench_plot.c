/* The figures of bench as a picture. */
#include <stdio.h>
#include <string.h>

#include "bench_report.h"
#include "gnuplot.h"
#include "report.h"

enum { WIDTH = 900, HEIGHT = 420, WITHOUT_TURNING = 4 };

/* One row a contestant: rate, least and most rate, p50, p99, p99.9. */
static void write_data(FILE *script, const weir_bench *bench) {
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
static void write_names(FILE *script, const weir_bench *bench) {
  for (size_t i = 0; i < bench->contestant_count; i++) {
    char label[WEIR_CLI_LABEL_BYTES];
    weir_cli_bench_label(&bench->contestants[i], label);
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

static void write_script(FILE *script, const char *path, const weir_bench_plan *plan,
                         const weir_bench *bench) {
  bool png = strcmp(path + strlen(path) - 4, ".png") == 0;
  write_data(script, bench);
  fprintf(script, "set terminal %s size %d,%d font 'sans,11' background '#ffffff'\n",
          png ? "pngcairo" : "svg", WIDTH, HEIGHT);
  fputs("set multiplot layout 1,2 margins 0.10,0.98,0.20,0.84 spacing 0.12\nset label 1 ", script);
  const char *rule = plan->store_count > 0 ? plan->rule : "the servers' own rules";
  weir_cli_gnuplot_quote(script, rule, strlen(rule) < 100 ? strlen(rule) : 100);
  fprintf(script,
          " . ', %u x %u threads, %u keys, batches of %u; medians of %u turns, bars: their range' "
          "at screen 0.5, screen 0.95 center noenhanced\n",
          plan->processes, plan->threads, (unsigned)plan->keys, plan->batch, bench->rounds);
  write_names(script, bench);
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
}

int weir_cli_bench_plot(const char *path, const weir_bench_plan *plan, const weir_bench *bench) {
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  write_script(script, path, plan, bench);
  return weir_cli_gnuplot_draw(script, path);
}
