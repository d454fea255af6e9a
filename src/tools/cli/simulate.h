/* What simulate does with its requests: a report, recommended limits, a picture. */
#ifndef WEIR_CLI_SIMULATE_H
#define WEIR_CLI_SIMULATE_H

#include <jansson.h>

#include "options.h"
#include "simulate/held.h"
#include "simulate/record.h"
#include "simulate/simulation.h"
#include "simulate_input.h"

/* These give the exit status, after one line on stderr where it is not 0. */

/* What a simulation found. */
typedef struct weir_cli_found {
  const weir_simulation *simulation;
  const weir_reals *reals; /* what settling would have spent; NULL: not asked */
  const weir_held *held;   /* requests with their durations; NULL: they hold nothing */
  const weir_cli_input *input;
  weir_record *record; /* without --top, NULL is fine */
} weir_cli_found;

/* What the rules decided, how they differ from an exact window, and what they cost: tables, or with
 * --json one object a line, the input's, then a rule's each. With --top it says of so many keys all
 * that the record knows; else less, of a few. */
int weir_cli_simulate_report(const weir_cli_options *options, const weir_cli_found *found);

/* What rules on what is in flight would have denied, of requests with their durations; and as a
 * picture, what was in flight over time. */
int weir_cli_simulate_held(const weir_cli_options *options, const char *const *rules,
                           size_t rule_count);

/* Says which limit each rule needs for what --recommend wants, and reports on these; draws how many
 * keys have which peak, and the limits among them, into --plot. */
int weir_cli_simulate_recommend(const weir_cli_options *options, const char *const *rules,
                                size_t rule_count);

/* Draws estimate against truth over time, one panel a rule, into --plot: reads the input once
 * more. */
int weir_cli_simulate_plot(const weir_cli_options *options, const weir_simulation *simulation);

/* Whether --plot can be drawn, as far as it shows before the work begins. False after one line on
 * stderr. */
bool weir_cli_simulate_plot_check(const weir_cli_options *options);

/* How many keys have which peak, as it was found last; in any such period, 0: in flight at once. */
void weir_cli_print_peaks(const weir_record *record, int64_t period_us);
/* Sets them as "peaks" and "histogram". False: not enough memory. */
bool weir_cli_peaks_json(const weir_record *record, json_t *object);

/* A limit as a line in a picture. */
typedef struct weir_cli_limit {
  const char *rule;
  int64_t limit;
} weir_cli_limit;

/* Draws how many keys have which peak, and these limits. The exit status. */
int weir_cli_plot_peaks(const char *path, weir_record *record, int64_t period_us,
                        const weir_cli_limit *limits, size_t count);

/* 0 where the whole is. */
double weir_cli_percent(int64_t part, int64_t whole);

#endif
