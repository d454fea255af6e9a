/* What the values of options may be. All of these return false after they have told the user what
 * is accepted. */
#ifndef WEIR_CLI_OPTION_VALUES_H
#define WEIR_CLI_OPTION_VALUES_H

#include "options.h"

/* From 1 to `most`; `name` is the option's, without its dashes. */
bool weir_cli_read_integer(const char *name, const char *text, int64_t most, int64_t *value);
/* From 1ms to 60s; `name` as above. */
bool weir_cli_read_duration(const char *name, const char *text, int64_t *us);

bool weir_cli_read_store(const char *text, weir_cli_options *options);
bool weir_cli_read_rule(const char *text, weir_cli_options *options);
bool weir_cli_read_costs(const char *text, weir_cli_options *options);
bool weir_cli_read_wait(const char *text, weir_cli_options *options);
bool weir_cli_read_stamp(const char *text, weir_cli_options *options);
bool weir_cli_read_processes(const char *text, weir_cli_options *options);

/* Of simulate. */
bool weir_cli_read_format(const char *text, weir_cli_options *options);

/* Of bench. */
bool weir_cli_read_via(const char *text, weir_cli_options *options);
bool weir_cli_read_bench_duration(const char *text, weir_cli_options *options);
/* They take no value: NULL. */
bool weir_cli_read_hot(const char *text, weir_cli_options *options);
bool weir_cli_read_zipf(const char *text, weir_cli_options *options);

#endif
