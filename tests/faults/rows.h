/* The rows of the matrix. */
#ifndef TESTS_FAULTS_ROWS_H
#define TESTS_FAULTS_ROWS_H

#include "faults/cell.h"

extern const fault rows[];
extern const size_t row_count;

#endif
