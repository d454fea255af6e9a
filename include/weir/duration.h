/* Durations in text, as rules, store URLs and the command line write them: "250ms", "30d". */
#ifndef WEIR_DURATION_H
#define WEIR_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEIR_DURATION_BYTES = 24 }; /* room for any formatted duration: 19 digits, sign, unit, NUL */

/* Reads a whole number, 1 or more, and ms, s, m, h or d; or the unit alone, which is one of it
 * ("5/s"). False, and *us untouched, for anything else and for what no int64 of microseconds holds.
 * The caller checks the range. */
WEIR_EXPORT bool weir_duration_parse(const char *text, size_t length, int64_t *us);

/* The shortest exact text: "90s", "1h"; "1500us" where no unit above fits. */
WEIR_EXPORT void weir_duration_format(int64_t us, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
