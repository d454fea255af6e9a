/* The first byte of what is fed to a codec picks the operation: in corpora by its initial. */
#ifndef TESTS_FUZZ_OPERATION_H
#define TESTS_FUZZ_OPERATION_H

#include <string.h>
#include <weir/backend.h>

#include "fuzz/require.h"

/* ADD, SUB, GET, CREATE, sWap, RAISE, PUT, DROP; what is none of these letters picks one as well.
 */
static inline weir_operation_kind kind_of(uint8_t letter) {
  static const char letters[] = "ASGCWRPD";
  const char *found = letter == '\0' ? NULL : strchr(letters, letter);
  return (weir_operation_kind)(found != NULL ? (size_t)(found - letters) : letter % 8U);
}

#endif
