/* How many keys ask for how much at the most: in text, for programs, and as a picture with the limits
 * that are in question. */
#include <inttypes.h>
#include <string.h>

#include "gnuplot.h"
#include "report.h"
#include "simulate.h"

static const struct {
  int thousandths;
  const char *name;
} percentiles[] = {{500, "p50"}, {900, "p90"}, {990, "p99"}, {999, "p99_9"}, {1000, "most"}};
enum { PERCENTILES = sizeof percentiles / sizeof *percentiles };

void weir_cli_print_peaks(const weir_record *record, int64_t period_us) {
  enum { BAR_MOST = 36 };
  char period[WEIR_DURATION_BYTES];
  uint64_t bins[WEIR_RECORD_BINS], most = 1;
  weir_record_histogram(record, bins);
  printf("peaks of %zu keys, ", record->key_count);
  if (period_us > 0) {
    weir_duration_format(period_us, period, sizeof period);
    printf("in any %s:\n ", period);
  } else {
    printf("in flight at once:\n ");
  }
  for (int i = 0; i < PERCENTILES; i++) {
    int thousandths = percentiles[i].thousandths;
    printf("%s %" PRId64 " ", i > 0 ? "," : "", weir_record_percentile(record, thousandths));
    if (thousandths == 1000)
      printf("most\n");
    else
      printf("p%g", thousandths / 10.0);
  }
  for (int i = 0; i < WEIR_RECORD_BINS; i++)
    most = bins[i] > most ? bins[i] : most;
  for (int i = 0; i < WEIR_RECORD_BINS; i++) {
    if (bins[i] == 0) continue;
    int bar = (int)((double)bins[i] * BAR_MOST / (double)most + 0.999);
    printf("  %10" PRId64 " to %10" PRId64 "  %9" PRIu64 " keys  %.*s\n", INT64_C(1) << i,
           (INT64_C(2) << i) - 1, bins[i], bar, "####################################");
  }
}

bool weir_cli_peaks_json(const weir_record *record, json_t *object) {
  uint64_t bins[WEIR_RECORD_BINS];
  json_t *peaks = json_object(), *histogram = json_array();
  bool complete = true;
  for (int i = 0; i < PERCENTILES; i++)
    complete = json_object_set_new(
                   peaks, percentiles[i].name,
                   json_integer(weir_record_percentile(record, percentiles[i].thousandths))) == 0 &&
               complete;
  weir_record_histogram(record, bins);
  for (int i = 0; i < WEIR_RECORD_BINS; i++)
    if (bins[i] > 0)
      complete = json_array_append_new(
                     histogram, json_pack("{sIsIsI}", "from", (json_int_t)INT64_C(1) << i, "to",
                                          (json_int_t)((INT64_C(2) << i) - 1), "keys",
                                          (json_int_t)bins[i])) == 0 &&
                 complete;
  bool set = json_object_set_new(object, "peaks", peaks) == 0;
  return json_object_set_new(object, "histogram", histogram) == 0 && set && complete;
}

/* One client may ask for a thousand times what the others do: both axes are logarithmic. */
int weir_cli_plot_peaks(const char *path, weir_record *record, int64_t period_us,
                        const weir_cli_limit *limits, size_t count) {
  static const char *const colours[] = {"#bb2200", "#004488", "#117733", "#884400", "#000000"};
  if (!weir_record_find_peaks(record, period_us)) return weir_cli_fail_memory();
  FILE *script = weir_cli_gnuplot_begin();
  if (script == NULL) return WEIR_EXIT_NO_DECISION;
  char period[WEIR_DURATION_BYTES] = "";
  if (period_us > 0) weir_duration_format(period_us, period, sizeof period);
  uint64_t bins[WEIR_RECORD_BINS], above = 0;
  int64_t highest = 0;
  weir_record_histogram(record, bins);
  for (size_t i = 0; i < record->key_count; i++)
    highest = record->keys[i].peak > highest ? record->keys[i].peak : highest;
  weir_cli_gnuplot_page(script, 760, 430);
  fprintf(script,
          "set logscale x 2\nset logscale y 10\n"
          "set yrange [0.8:*]\nset format x '%%.0f'\nset key outside top center horizontal\n"
          "set xlabel 'peak: the most that a key %s%s'\n"
          "set ylabel 'keys with so high a peak, or higher'\n$peaks << WEIR_END\n",
          period_us > 0 ? "asked for in any " : "had in flight at once", period);
  fprintf(script, "%" PRId64 " 1\n", highest);
  for (int i = WEIR_RECORD_BINS - 1; i >= 0; i--) {
    above += bins[i];
    if (above > 0) fprintf(script, "%" PRId64 " %" PRIu64 "\n", INT64_C(1) << i, above);
  }
  fputs("WEIR_END\n", script);
  for (size_t i = 0; i < count; i++)
    fprintf(script, "$limit%zu << WEIR_END\n%" PRId64 " 0.8\n%" PRId64 " %zu\nWEIR_END\n", i,
            limits[i].limit, limits[i].limit, record->key_count);
  fputs("plot $peaks using 1:2 with linespoints lw 1.6 pt 7 ps 0.5 lc rgb '#777777' title 'keys'",
        script);
  for (size_t i = 0; i < count; i++) {
    fprintf(script, ", $limit%zu using 1:2 with lines lw 1.6 dt %zu lc rgb '%s' title ", i, i + 1,
            colours[i % (sizeof colours / sizeof *colours)]);
    weir_cli_gnuplot_quote(script, limits[i].rule, strlen(limits[i].rule));
  }
  fputc('\n', script);
  return weir_cli_gnuplot_draw(script, path);
}
