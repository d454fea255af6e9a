/* The rows of the hunt: what happens, to which traffic, and what it must show. */
#ifndef TESTS_OUTAGE_ROWS_H
#define TESTS_OUTAGE_ROWS_H

#include "outage/faults.h"

struct row {
  const char *name;
  const char *about;
  struct fault fault;
  const struct lane *lanes;
  size_t count;
};

extern const struct row rows[];
extern const size_t rows_count;

/* NULL: there is none of that name. */
const struct row *row_find(const char *name, size_t length);

#endif
