/* replay: a trace's requests, decided one by one on the trace's own clock. Ends at the end of the
 * file, at the first line without a decision, or when output is lost. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "decision.h"
#include "logs/trace.h"
#include "report.h"
#include "session.h"

/* No decision may depend on expiry, and a trace runs at another pace than the store's clock. */
#define LEAST_TTL_US (INT64_C(24) * 3600 * 1000000)

/* Its keys and stamps are its own, so no other process counts on a deadline. */
#define DEADLINE_US INT64_C(5000000)

enum { OUTPUT_BUFFER_BYTES = 1 << 16, PLACE_BYTES = 256, TRIES_MOST = 100 };

typedef struct replay {
  const char *name; /* of the file, for messages */
  weir_trace_file *file;
  weir_cli_session session;
  bool json, quiet;
  bool is_connected; /* by the first line that is good: a bad one does not even connect */
  int64_t now_us;    /* the trace's own clock */
  uint64_t line;     /* the number of the line under way, from 1 */
  weir_message message;
} replay;

static int64_t trace_now_us(void *context) {
  const replay *run = context;
  return run->now_us;
}

static weir_status replay_line(replay *run, const char *text, size_t length) {
  weir_trace_request line;
  weir_decision decision;
  if (!weir_trace_line_parse(text, length, &line, &run->message)) return WEIR_BAD_ARGUMENT;
  run->now_us = line.time_ms * 1000;
  if (!run->is_connected) weir_cli_session_connect(&run->session);
  run->is_connected = true;

  /* On a busy machine a whole deadline may pass before anything was charged. Then the same request
   * can be asked again, and a trace can wait. */
  weir_status status = WEIR_TIMEOUT;
  for (int tries = 0; status == WEIR_TIMEOUT && tries < TRIES_MOST; tries++)
    status = weir_limiter_take(run->session.limiter, line.key, line.key_length, line.cost,
                               &decision, &run->message);
  if (status != WEIR_OK) return status;

  const weir_cli_request request = {.time_ms = line.time_ms,
                                    .key = line.key,
                                    .key_length = line.key_length,
                                    .cost = line.cost,
                                    .cost_count = 1};
  if (!run->json)
    weir_cli_decision_tabs(stdout, &request, &decision);
  else if (!weir_cli_decision_json(stdout, &request, &decision))
    return WEIR_NO_MEMORY;
  return WEIR_OK;
}

/* The exit status, after one line on stderr where it is not 0. */
static int replay_all(replay *run) {
  weir_cli_progress progress;
  weir_status status = WEIR_OK;
  bool at_end = false;
  weir_cli_progress_begin(&progress, run->quiet);
  while (status == WEIR_OK && !at_end && !ferror(stdout)) {
    const char *text;
    size_t length;
    run->line++;
    switch (weir_trace_file_next(run->file, &text, &length, &run->message)) {
      case WEIR_TRACE_LINE:
        status = replay_line(run, text, length);
        weir_cli_progress_update(&progress, run->line);
        break;
      case WEIR_TRACE_END:
        at_end = true;
        break;
      case WEIR_TRACE_TOO_LONG:
      case WEIR_TRACE_BROKEN:
        status = WEIR_BAD_ARGUMENT;
    }
  }
  weir_cli_progress_end(&progress);
  int lost = weir_cli_flush();
  if (lost != 0 || status == WEIR_OK) return lost;
  char place[PLACE_BYTES];
  snprintf(place, sizeof place, "%s:%" PRIu64 ": ", weir_cli_show(run->name).text, run->line);
  return weir_cli_fail(place, status, &run->message);
}

int weir_cli_replay(const weir_cli_options *options) {
  const char *path = options->argument_count > 0 ? options->arguments[0] : "-";
  replay run = {.name = strcmp(path, "-") == 0 ? "stdin" : path,
                .json = options->json,
                .quiet = options->quiet};
  run.file = weir_trace_file_open(path, &run.message);
  if (run.file == NULL) {
    weir_cli_error("%s: %s", weir_cli_show(run.name).text, run.message.text);
    return WEIR_EXIT_USAGE;
  }
  weir_limiter_options limiter_options = options->limiter;
  limiter_options.clock = (weir_clock){.now_us = trace_now_us, .context = &run};
  limiter_options.least_ttl_us = LEAST_TTL_US;
  if (limiter_options.processes == 0) limiter_options.processes = 1; /* its keys are its own */
  weir_status status = weir_cli_session_open(options, &limiter_options, &run.session, &run.message);
  if (status == WEIR_OK && limiter_options.deadline_us == 0)
    status =
        weir_cli_session_extend(&run.session, options, &limiter_options, DEADLINE_US, &run.message);
  setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER_BYTES);
  int exit_status = status == WEIR_OK ? replay_all(&run) : weir_cli_fail("", status, &run.message);
  weir_cli_session_close(&run.session);
  weir_trace_file_close(run.file);
  return exit_status;
}
