/* Runs a fault on stores, side by side or one alone. */
#ifndef TESTS_FAULTS_RUN_H
#define TESTS_FAULTS_RUN_H

#include "faults/cell.h"

/* Whether the matrix has that cell. */
bool run_applies(const fault *row, site_kind kind);

/* cells[i]: what happened at sites[i]. */
void run_fault(const fault *row, const site *const *sites, size_t count, const settings *how,
               cell *cells);

#endif
