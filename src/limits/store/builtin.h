/* The backends that come with the library. */
#ifndef WEIR_STORE_BUILTIN_H
#define WEIR_STORE_BUILTIN_H

#include <weir/backend.h>

extern const weir_backend *const weir_builtin_backends[]; /* ends with NULL */

#endif
