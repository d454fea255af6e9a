/* What simulate does with its requests: a report, recommended limits, a picture. */
#ifndef WEIR_CLI_SIMULATE_H
#define WEIR_CLI_SIMULATE_H

#include "options.h"
#include "simulate/record.h"
#include "simulate/simulation.h"
#include "simulate_input.h"

/* These give the exit status, after one line on stderr where it is not 0. */

/* What the rules decided, how they differ from an exact window, and what settling would have spent
 * (`reals`; NULL: not asked): tables, or with --json one object a line, the input's, then a rule's
 * each. With --top it says of so many keys all that the
 * record knows; else less, of a few, and `record` may be NULL. */
int weir_cli_simulate_report(const weir_cli_options *options, const weir_simulation *simulation,
                             const weir_reals *reals, const weir_cli_input *input,
                             weir_record *record);

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

/* 0 where the whole is. */
double weir_cli_percent(int64_t part, int64_t whole);

#endif
