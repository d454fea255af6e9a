/* Which version this is. The numbers follow semantic versioning; before 1.0.0 the middle one
 * changes where something that was there is changed or gone. */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#include <weir/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the headers that a program was compiled with. */
#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 9
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION_TEXT "0.9.0"

/* The same as one number, for #if: major * 1000000 + minor * 1000 + patch. */
#define WEIR_VERSION (WEIR_VERSION_MAJOR * 1000000 + WEIR_VERSION_MINOR * 1000 + WEIR_VERSION_PATCH)

/* The version of the library that runs: WEIR_VERSION_TEXT when that was built. Lives for ever. Any
 * thread. */
WEIR_EXPORT const char *weir_version(void);

#ifdef __cplusplus
}
#endif

#endif
