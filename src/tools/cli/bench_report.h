/* How a benchmark is shown. */
#ifndef WEIR_CLI_BENCH_REPORT_H
#define WEIR_CLI_BENCH_REPORT_H

#include <stdio.h>

#include "bench/bench.h"

enum { WEIR_CLI_LABEL_BYTES = 48 };

/* The store's URL without credentials and options, or the raw loop's name. */
void weir_cli_bench_label(const weir_bench_contestant *contestant,
                          char label[WEIR_CLI_LABEL_BYTES]);

/* A table, medians over the rounds; under each store that has a raw loop its ratios to it. */
void weir_cli_bench_text(FILE *out, const weir_bench_plan *plan, const weir_bench *bench);

/* One object a line: a contestant, with its median, its ratios, and every round. False: no memory.
 */
bool weir_cli_bench_json(FILE *out, const weir_bench_plan *plan, const weir_bench *bench);

/* Draws decisions per second and latencies into a .svg or .png file; the exit status. */
int weir_cli_bench_plot(const char *path, const weir_bench_plan *plan, const weir_bench *bench);

/* The raw loop that a store's contestant is compared with, or NULL: it has no ratios. */
const weir_bench_contestant *weir_cli_bench_raw(const weir_bench *bench,
                                                const weir_bench_contestant *contestant);

/* What is shown of the figures, in the order of the table. */
typedef struct weir_cli_figure {
  const char *title; /* of the column */
  const char *name;  /* in JSON */
  size_t offset;     /* in weir_bench_figures */
  int digits;
  bool ratio;     /* compared with the raw loop */
  bool of_leases; /* in the table only where something is leased */
} weir_cli_figure;

extern const weir_cli_figure weir_cli_figures[];
extern const size_t weir_cli_figure_count;

#endif
