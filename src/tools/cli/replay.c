/* replay: a trace's requests, decided one by one on the trace's own clock. Ends at the end of the
 * file, at the first line without a decision, or when output is lost.
 *
 * Under rules that are held each request enters, and holds its place until a line says that its key
 * leaves. Meanwhile the trace's clock stops wherever what is held has to be paid again. The last
 * estimate of each key is kept until its real cost comes, or another estimate. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "commands.h"
#include "decision.h"
#include "logs/trace.h"
#include "report.h"
#include "session.h"
#include "table.h"

/* No decision may depend on expiry, and a trace runs at another pace than the store's clock. */
#define LEAST_TTL_US (INT64_C(24) * 3600 * 1000000)

/* Its keys and stamps are its own, so no other process counts on a deadline. */
#define DEADLINE_US INT64_C(5000000)

enum { OUTPUT_BUFFER_BYTES = 1 << 16, PLACE_BYTES = 256, TRIES_MOST = 100 };

/* Those that entered first come first. */
typedef struct held_place {
  struct held_place *next;
  weir_reservation *reservation;
  int64_t cost;
  size_t key_length;
  char key[];
} held_place;

/* What is open to be settled. */
typedef struct estimate {
  weir_decision taken;
  size_t key_length;
  char key[];
} estimate;

typedef struct replay {
  const char *name; /* of the file, for messages */
  weir_trace_file *file;
  weir_cli_session session;
  bool json, quiet;
  bool is_connected; /* by the first line that is good: a bad one does not even connect */
  int64_t now_us;    /* the trace's own clock */
  bool holds;        /* the rules are held */
  held_place *held;
  weir_hash_table estimates; /* of pointers to them, by key */
  uint64_t line;             /* the number of the line under way, from 1 */
  weir_message message;
} replay;

static int64_t trace_now_us(void *context) {
  const replay *run = context;
  return run->now_us;
}

/* --- what is held ------------------------------------------------------------------------------
 */

/* Moves the clock on, and pays again for what is held wherever that is due. */
static weir_status move_clock(replay *run, int64_t to_us) {
  int64_t next_us = 0;
  while (run->held != NULL && run->now_us + next_us < to_us) {
    run->now_us += next_us;
    weir_status status = weir_limiter_renew(run->session.limiter, &next_us, &run->message);
    if (status != WEIR_OK) return status;
    if (next_us == WEIR_NEVER) break;
    if (next_us < 1) next_us = 1;
  }
  run->now_us = to_us;
  if (run->held == NULL) return WEIR_OK;
  return weir_limiter_renew(run->session.limiter, &next_us, &run->message);
}

static bool has_places(const weir_limiter *limiter) {
  bool found = false;
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    found = found || (weir_limiter_read_rule(limiter, i, &rule) == WEIR_OK &&
                      strcmp(rule.algorithm, "in-flight") == 0);
  }
  return found;
}

static weir_status enter(replay *run, const weir_trace_request *line, weir_decision *decision) {
  weir_request request = {.key = line->key, .key_length = line->key_length, .cost = line->cost};
  held_place *made = malloc(sizeof *made + line->key_length);
  if (made == NULL) return WEIR_NO_MEMORY;
  *made = (held_place){.cost = line->cost, .key_length = line->key_length};
  memcpy(made->key, line->key, line->key_length);
  weir_status status =
      weir_limiter_reserve(run->session.limiter, &request, &made->reservation, &run->message);
  *decision = request.decision;
  if (made->reservation == NULL) {
    free(made);
    return status;
  }
  held_place **end = &run->held;
  while (*end != NULL)
    end = &(*end)->next;
  *end = made;
  return status;
}

/* What was charged under other rules stays. Nothing is held: nothing is released. */
static weir_status leave(replay *run, const weir_trace_request *line, int64_t *cost) {
  held_place **at = &run->held;
  while (*at != NULL && ((*at)->key_length != line->key_length ||
                         memcmp((*at)->key, line->key, line->key_length) != 0))
    at = &(*at)->next;
  held_place *found = *at;
  *cost = 0;
  if (found == NULL) return WEIR_OK;
  *cost = found->cost;
  *at = found->next;
  weir_status status = weir_reservation_commit(found->reservation, &run->message);
  weir_reservation_destroy(found->reservation);
  free(found);
  return status;
}

/* As at a release, for all that the trace has left inside. */
static void leave_all(replay *run) {
  while (run->held != NULL) {
    held_place *first = run->held;
    run->held = first->next;
    weir_reservation_commit(first->reservation, NULL);
    weir_reservation_destroy(first->reservation);
    free(first);
  }
}

static weir_status replay_leave(replay *run, const weir_trace_request *line) {
  int64_t cost;
  if (!run->holds) {
    weir_message_set(&run->message, "leave: accepted under an in-flight rule");
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = leave(run, line, &cost);
  if (status != WEIR_OK) return status;
  const weir_cli_request request = {.time_ms = line->time_ms,
                                    .key = line->key,
                                    .key_length = line->key_length,
                                    .cost = cost,
                                    .cost_count = 1};
  if (run->json) return weir_cli_done_json(stdout, &request, "released") ? WEIR_OK : WEIR_NO_MEMORY;
  weir_cli_released_tabs(stdout, &request);
  return WEIR_OK;
}

/* --- estimates ---------------------------------------------------------------------------------
 */

static bool is_of_key(const void *context, const void *item, const void *key) {
  const estimate *open = *(estimate *const *)item;
  const weir_trace_request *line = key;
  (void)context;
  return open->key_length == line->key_length &&
         memcmp(open->key, line->key, line->key_length) == 0;
}

/* No longer open, if it was; its decision, not allowed if there was none. */
static weir_decision take_out(replay *run, const weir_trace_request *line) {
  uint32_t mark = weir_hash_table_mark(&run->estimates, line->key, line->key_length);
  estimate **found = weir_hash_table_find(&run->estimates, mark, line);
  weir_decision taken = {0};
  if (found == NULL) return taken;
  taken = (*found)->taken;
  free(*found);
  weir_hash_table_remove(&run->estimates, found);
  return taken;
}

/* In the place of the key's last one. What was denied leaves none. */
static weir_status keep_estimate(replay *run, const weir_trace_request *line,
                                 const weir_decision *taken) {
  take_out(run, line);
  if (!taken->allowed) return WEIR_OK;
  uint32_t mark = weir_hash_table_mark(&run->estimates, line->key, line->key_length);
  estimate *made = malloc(sizeof *made + line->key_length);
  estimate **place = made != NULL ? weir_hash_table_add(&run->estimates, mark) : NULL;
  if (place == NULL) {
    free(made);
    return WEIR_NO_MEMORY;
  }
  *made = (estimate){.taken = *taken, .key_length = line->key_length};
  memcpy(made->key, line->key, line->key_length);
  *place = made;
  return WEIR_OK;
}

static void free_estimates(replay *run) {
  for (estimate **each = NULL; (each = weir_hash_table_next(&run->estimates, each)) != NULL;)
    free(*each);
  weir_hash_table_clean_up(&run->estimates);
}

/* Nothing is open: nothing is charged. */
static weir_status replay_real(replay *run, const weir_trace_request *line) {
  weir_decision taken = take_out(run, line);
  bool open = taken.allowed;
  int64_t estimated = taken.cost;
  weir_status status = open ? WEIR_TIMEOUT : WEIR_OK;
  for (int tries = 0; status == WEIR_TIMEOUT && tries < TRIES_MOST; tries++)
    status = weir_limiter_settle(run->session.limiter, line->key, line->key_length, line->cost,
                                 &taken, &run->message);
  if (status != WEIR_OK) return status;
  weir_cli_request request = {.time_ms = line->time_ms,
                              .key = line->key,
                              .key_length = line->key_length,
                              .cost = run->json ? estimated : taken.cost,
                              .cost_count = 1,
                              .verdict = open ? "settled" : "nothing"};
  const weir_cli_settled settled = {
      .reals = &line->cost, .charged = &taken.cost, .count = 1, .decision = &taken};
  if (run->json)
    return weir_cli_settled_json(stdout, &request, &settled) ? WEIR_OK : WEIR_NO_MEMORY;
  weir_cli_decision_tabs(stdout, &request, &taken);
  return WEIR_OK;
}

/* --- lines -------------------------------------------------------------------------------------
 */

static weir_status replay_line(replay *run, const char *text, size_t length) {
  weir_trace_request line;
  weir_decision decision;
  if (!weir_trace_line_parse(text, length, &line, &run->message)) return WEIR_BAD_ARGUMENT;
  if (!run->is_connected) weir_cli_session_connect(&run->session);
  run->is_connected = true;
  weir_status moved = move_clock(run, line.time_ms * 1000);
  if (moved != WEIR_OK) return moved;
  if (line.leaves) return replay_leave(run, &line);
  if (line.settles) return replay_real(run, &line);

  /* On a busy machine a whole deadline may pass before anything was charged. Then the same request
   * can be asked again, and a trace can wait. */
  weir_status status = WEIR_TIMEOUT;
  for (int tries = 0; status == WEIR_TIMEOUT && tries < TRIES_MOST; tries++)
    status = run->holds ? enter(run, &line, &decision)
                        : weir_limiter_take(run->session.limiter, line.key, line.key_length,
                                            line.cost, &decision, &run->message);
  if (status == WEIR_OK && line.estimates) status = keep_estimate(run, &line, &decision);
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
  weir_hash_table_init(&run.estimates, sizeof(estimate *), is_of_key, NULL);
  run.file = weir_trace_file_open(path, &run.message);
  if (run.file == NULL) {
    weir_cli_error("%s: %s", weir_cli_show(run.name).text, run.message.text);
    return WEIR_EXIT_USAGE;
  }
  weir_limiter_options limiter_options = options->limiter;
  limiter_options.clock = (weir_clock){.now_us = trace_now_us, .context = &run};
  limiter_options.least_ttl_us = LEAST_TTL_US;
  limiter_options.renew = WEIR_RENEW_BY_CALLER;
  if (limiter_options.processes == 0) limiter_options.processes = 1; /* its keys are its own */
  weir_status status = weir_cli_session_open(options, &limiter_options, &run.session, &run.message);
  if (status == WEIR_OK && limiter_options.deadline_us == 0)
    status =
        weir_cli_session_extend(&run.session, options, &limiter_options, DEADLINE_US, &run.message);
  run.holds = status == WEIR_OK && has_places(run.session.limiter);
  setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER_BYTES);
  int exit_status = status == WEIR_OK ? replay_all(&run) : weir_cli_fail("", status, &run.message);
  leave_all(&run);
  free_estimates(&run);
  weir_cli_session_close(&run.session);
  weir_trace_file_close(run.file);
  return exit_status;
}
