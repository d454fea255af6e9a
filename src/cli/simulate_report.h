/* What a simulation found, for people and for programs. */
#ifndef WEIR_CLI_SIMULATE_REPORT_H
#define WEIR_CLI_SIMULATE_REPORT_H

#include <stdio.h>

#include "simulate/attack.h"
#include "simulate/simulation.h"
#include "simulate_input.h"

enum { WEIR_CLI_DENIED_SHOWN = 5 };

void weir_cli_simulation_text(FILE *out, const weir_simulation *simulation,
                              const weir_cli_input *input);
void weir_cli_attack_text(FILE *out, const char *rule, const weir_attack_result *result);

/* One object a line: the input, then a rule each. False: not enough memory. */
bool weir_cli_simulation_json(FILE *out, const weir_simulation *simulation,
                              const weir_cli_input *input);
bool weir_cli_attack_json(FILE *out, const char *rule, const weir_attack_result *result);

/* "1995-08-01 04:00:00.250", UTC. */
enum { WEIR_CLI_TIME_BYTES = 40 };
void weir_cli_format_time(int64_t time_us, char text[WEIR_CLI_TIME_BYTES]);

/* 0 where the whole is. */
double weir_cli_percent(int64_t part, int64_t whole);

#endif
