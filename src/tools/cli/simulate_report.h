/* What a simulation found, for people and for programs. */
#ifndef WEIR_CLI_SIMULATE_REPORT_H
#define WEIR_CLI_SIMULATE_REPORT_H

#include <stdio.h>

#include "simulate/attack.h"
#include "simulate/record.h"
#include "simulate/simulation.h"
#include "simulate_input.h"

enum { WEIR_CLI_DENIED_SHOWN = 5 };

/* `top`: of so many keys it says all that the record knows; 0: less, of a few, without a record.
 * Here and below false: not enough memory. */
bool weir_cli_simulation_text(FILE *out, const weir_simulation *simulation,
                              const weir_cli_input *input, int64_t top, weir_record *record);
void weir_cli_attack_text(FILE *out, const char *rule, const weir_attack_result *result);

/* One object a line: the input, then a rule each. */
bool weir_cli_simulation_json(FILE *out, const weir_simulation *simulation,
                              const weir_cli_input *input, int64_t top, weir_record *record);
bool weir_cli_attack_json(FILE *out, const char *rule, const weir_attack_result *result);

/* "1995-08-01 04:00:00.250", UTC. */
enum { WEIR_CLI_TIME_BYTES = 40 };
void weir_cli_format_time(int64_t time_us, char text[WEIR_CLI_TIME_BYTES]);

/* 0 where the whole is. */
double weir_cli_percent(int64_t part, int64_t whole);

#endif
