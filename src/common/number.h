/* Whole numbers as decimal digits, without allocation, locale or printf. Reading is strict: the
 * whole text or nothing. */
#ifndef WEIR_COMMON_NUMBER_H
#define WEIR_COMMON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_NUMBER_DIGITS_MOST = 20 }; /* of 2^64 - 1 */

/* One digit or more and nothing else, with a value from 0 to `most` (0 or more); zeros may lead.
 * False for all else, and `*number` stays as it is. */
bool weir_number_read(const char *text, size_t length, int64_t most, int64_t *number);

/* How many digits weir_number_write() writes. */
int weir_number_length(uint64_t number);

/* Writes the digits, without a NUL behind them. Returns where they end. */
char *weir_number_write(char *out, uint64_t number);

#endif
