/* Progress of long work, on a terminal only. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_AFTER_MS = 1000, EVERY_MS = 200 };

static int64_t monotonic_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void weir_cli_progress_begin(weir_cli_progress *progress, bool quiet) {
  *progress =
      (weir_cli_progress){.enabled = !quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO)};
  if (!progress->enabled) return;
  progress->begin_ms = monotonic_ms();
  progress->next_ms = progress->begin_ms + FIRST_AFTER_MS;
}

void weir_cli_progress_update(weir_cli_progress *progress, uint64_t lines_done) {
  if (!progress->enabled) return;
  int64_t now_ms = monotonic_ms();
  if (now_ms < progress->next_ms) return;
  progress->next_ms = now_ms + EVERY_MS;
  progress->shown = true;
  /* at least FIRST_AFTER_MS have passed, so the divisor is not 0 */
  uint64_t rate = lines_done * 1000 / (uint64_t)(now_ms - progress->begin_ms);
  fprintf(stderr, "\r%" PRIu64 " lines, %" PRIu64 " lines/s\033[K", lines_done, rate);
}

void weir_cli_progress_end(weir_cli_progress *progress) {
  if (progress->shown) fputs("\r\033[K", stderr);
}
