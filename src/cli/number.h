/* Whole numbers and durations, read strictly: the whole text or nothing. */
#ifndef WEIR_CLI_NUMBER_H
#define WEIR_CLI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, with a value from 0 to `most`. */
bool weir_cli_parse_integer(const char *text, size_t length, int64_t most, int64_t *value);

/* "250ms", "10s", as in rules: a whole number and ms, s, m, h or d; the unit alone means one. */
bool weir_cli_parse_duration(const char *text, int64_t *us);

#endif
