/* Durations in text, as rules and store URLs write them: a whole number and a unit, "250ms", "30d".
 */
#ifndef WEIR_RULE_DURATION_H
#define WEIR_RULE_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_DURATION_BYTES = 24 }; /* room for any formatted duration: 19 digits, sign, unit, NUL */

/* Reads a whole number, 1 or more, and ms, s, m, h or d; or the unit alone, which is one of it
 * ("5/s"). False for anything else and for what no int64 of microseconds holds. The caller checks
 * the range. */
bool weir_duration_parse(const char *text, size_t length, int64_t *us);

/* The shortest exact text: "90s", "1h"; "1500us" where no unit above fits. */
void weir_duration_format(int64_t us, char *text, size_t size);

#endif
