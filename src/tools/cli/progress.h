/* A line on the terminal that says how far long work has come. */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_cli_progress {
  bool enabled;
  bool shown;
  int64_t begin_ms;
  int64_t next_ms;
} weir_cli_progress;

/* Silent when `quiet`, and unless stderr is a terminal and stdout is none: there, the results
 * themselves show. */
void weir_cli_progress_begin(weir_cli_progress *progress, bool quiet);
void weir_cli_progress_update(weir_cli_progress *progress, uint64_t lines_done);
void weir_cli_progress_end(weir_cli_progress *progress);

#endif
