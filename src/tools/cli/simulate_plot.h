/* The picture of a simulation: estimate against truth over time, one panel per rule, by gnuplot. */
#ifndef WEIR_CLI_SIMULATE_PLOT_H
#define WEIR_CLI_SIMULATE_PLOT_H

#include "simulate/simulation.h"
#include "simulate_input.h"

/* False after one line on stderr, for what can be told before the work begins. */
bool weir_cli_plot_check(const weir_cli_options *options);

/* Draws options->plot: reads the input once more. The exit status, after one line on stderr when it
 * is not 0. */
int weir_cli_plot(const weir_cli_options *options, const weir_simulation *simulation);

#endif
