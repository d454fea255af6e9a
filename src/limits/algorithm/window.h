/* What a process keeps of a key under a window: see window.c. */
#ifndef WEIR_ALGORITHM_WINDOW_H
#define WEIR_ALGORITHM_WINDOW_H

#include "algorithm/cells.h"

typedef struct weir_window_memory {
  int64_t first; /* which cell cells[0] is */
  int64_t count; /* how many are cached */
  weir_cell cells[];
} weir_window_memory;

#endif
