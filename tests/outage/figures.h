/* The figures of a run, beside its goals. */
#ifndef TESTS_OUTAGE_FIGURES_H
#define TESTS_OUTAGE_FIGURES_H

#include "outage/faults.h"

enum { FIGURES_MOST = 3 * LANES_MOST, FIGURE_TEXT_BYTES = 160 };

struct figure {
  char name[48];
  const char *unit; /* "L", "%", "ms", "" */
  double value;
  double worst, median;         /* goals, of all runs; negative: none */
  char text[FIGURE_TEXT_BYTES]; /* how it came about; may be empty */
};

/* The same figures in the same order for each run. Returns how many. */
size_t figures_of(struct tally *tally, const struct fault *fault, const struct fault_course *course,
                  const struct lane *const *lanes, size_t count,
                  struct figure figures[FIGURES_MOST]);

/* A goal whose excess may be half as large again. */
double figure_relaxed(const struct figure *figure, double goal);

#endif
