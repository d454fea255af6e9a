/* Whole numbers, read strictly: the whole text or nothing. */
#ifndef WEIR_CLI_NUMBER_H
#define WEIR_CLI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, with a value from 0 to `most`. */
bool weir_cli_parse_integer(const char *text, size_t length, int64_t most, int64_t *value);

#endif
